"""Runs exos io beside GNU's tools, on inputs of all kinds and by every way by which bytes come.

    io.py PATH/TO/exos FOLDER
"""

import os
import random
import signal
import socket
import subprocess
import sys
import time

exos, folder = sys.argv[1:]
random.seed(24)
failures = 0


def words(count, end="\n"):
    kinds = ["the", "word", "abc", "ab", "a", "x" * 40, "(a)", "a+b", "[x]", "WORD", "foo.bar", "1999", "\t", "\x0b", "-"]
    return " ".join(random.choice(kinds) + (end if random.random() < 0.2 else "") for _ in range(count)).encode()


INPUTS = {
    "empty": b"",
    "newline": b"\n",
    "newlines": b"\n\n\n",
    "no-end": b"one line\nabc and no end",
    "spaces": b"  \t \x0b \x0c\r\n a \r b ",
    "words": words(20_000),
    # Lines over the borders of blocks, of buffers and of extents.
    "long-lines": b"".join(b"x" * n + b" abc\n" for n in (4091, 4096, 16379, 65531, 70000, 262139, 300000)),
    "one-long-line": b"ab" * 400_000,
    "extents": words(150_000),
    "latin": "grün straße café abc\n".encode("latin-1") * 500 + b"\xff\xfe word\n",
    "utf-8": "grün straße café abc\n".encode() * 500,
    "control": bytes(range(1, 256)) * 100,
    "binary": bytes(range(256)) * 300,
}
# A zero byte that comes late: what stands before it was written already, and how much that is must not depend on how the bytes come.
LATE = {}
for where in (50_000, 98_303, 98_304, 180_000, 270_000, 400_000):
    LATE[f"late-zero-{where}"] = (b"line abc\n" * 50_000)[:where] + b"\0" + b"\nline abc\n" * 3
for name, content in (INPUTS | LATE).items():
    with open(os.path.join(folder, "in-" + name), "wb") as file:
        file.write(content)
# So that the times of the files mean what they say.
time.sleep(0.1)


def run(command, stdin=None):
    done = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, shell=isinstance(command, str), timeout=120, executable="/bin/bash" if isinstance(command, str) else None)
    return done.returncode, done.stdout


def same(name, wanted, got):
    global failures
    if wanted != got:
        failures += 1
        show = lambda it: (it[0], it[1][:200], len(it[1]))
        print(f"not ok {name}: wanted {show(wanted)}, got {show(got)}", flush=True)


names = ["in-" + name for name in INPUTS]

for name in names:
    with open(os.path.join(folder, name), "rb") as file:
        content = file.read()
    for ours in ([exos, "io", "cat", name], [exos, "io", "cat", "--no-cache", name]):
        same(f"cat {ours[3:]}", (0, content), run(ours))
    same(f"cat < {name}", (0, content), run([exos, "io", "cat"], content))
    same(f"cat {name} | cat", (0, content), run(f"{exos} io cat {name} | cat"))
    same(f"cat | {name}", (0, content), run(f"cat {name} | {exos} io cat - "))
    same(f"cat {name}, by copy to ours", (0, content), run(f"{exos} io cat --no-cache {name} | {exos} io cat"))
    same(f"cat {name}, three of ours", (0, content), run(f"{exos} io cat {name} | {exos} io cat | {exos} io cat"))
    for flags in ([], *random.sample((["-l"], ["-w"], ["-c"], ["-lw"]), 2)):
        gnu = run(["wc", *flags, name])
        same(f"wc {flags} {name}", gnu, run([exos, "io", "wc", *flags, name]))
        gnu = run(["wc", *flags], content)
        same(f"wc {flags} < {name}", gnu, run([exos, "io", "wc", *flags], content))
        same(f"cat {name} | wc {flags}", gnu, run(f"{exos} io cat {name} | {exos} io wc {' '.join(flags)}"))
print("ok cat and wc of each input, by the cache, by copy, by pipes of either kind" if not failures else "")

before = failures
same("cat of all", run(["cat", *names]), run([exos, "io", "cat", *names]))
for flags in ([], ["-l"], ["-wc"]):
    same(f"wc {flags} of all", run(["wc", *flags, *names]), run([exos, "io", "wc", *flags, *names]))
    missing = [names[1], "in-not-there", names[2]]
    same(f"wc {flags}, one is not there", run(["wc", *flags, *missing]), run([exos, "io", "wc", *flags, *missing]))
same("cat, one is not there", run(["cat", "in-not-there", names[3]]), run([exos, "io", "cat", "in-not-there", names[3]]))
# Other programs write into the same pipe before and after.
mixed = f"(echo before; {{exos}} cat in-words; echo between; {{exos}} cat in-no-end; echo after) | {{exos}} {{tool}}"
for tool in ("wc", "cat", "grep -c a"):
    gnu = run(mixed.format(exos="", tool=tool).replace("exos io", ""))
    same(f"mixed writers | {tool}", gnu, run(mixed.format(exos=f"{exos} io", tool=tool)))
same("a reader that ends early", (0, b"x" * 10), run(f"{exos} io cat in-long-lines in-extents | head -c 10"))
if failures == before:
    print("ok several files, and several writers of one pipe")

before = failures
PATTERNS = {
    "": ["abc", "a", "", "^", "$", "^$", "a.c", "x*", "ab*c", "^a", "c$", "[abc]d", "[^a-z ]", "[]x]", "[^]x]", r"\(ab\)*c", r"a\{2,3\}", r"ab\|the", r"\<word\>", r"\bwo", r"w\w*d", r"\W", "a+b", "(a)", "*a", r"\(*a\)", "[[:upper:]]", "[[:space:]]x", r"foo\.bar", "^*ab", "a**", r"x\{40\}", r"19\+", "gr.n", "no such thing", "word\nabc"],
    "-E": ["ab|the", "(ab)+c", "a{2,3}", "x{40}", "^(the|word)", "a+?", "(a|b)*c$", "[0-9]{4}", r"\(a\)", "a{,2}b", "()", r"\bthe\b", "a{x", "[a&&b]", "[[a]", "x+$"],
    "-F": ["a+b", "(a)", "[x]", "foo.bar", "", "word\nabc", ".", "\\"],
}
for syntax, patterns in PATTERNS.items():
    for pattern in patterns:
        command = [*syntax.split(), "-e", pattern]
        for flags in random.sample(([], ["-v"], ["-c"], ["-n"], ["-i"], ["-vn"], ["-q"], ["-ci"]), 3):
            name = random.choice(names)
            gnu = run(["grep", *flags, *command, name])
            same(f"grep {flags} {command} {name}", gnu, run([exos, "io", "grep", *flags, *command, name]))
        name = random.choice(names)
        with open(os.path.join(folder, name), "rb") as file:
            content = file.read()
        gnu = run(["grep", *command], content)
        same(f"grep {command} < {name}", gnu, run([exos, "io", "grep", *command], content))
if failures == before:
    print("ok grep: patterns of each syntax")
before = failures
for pattern in ("abc", "a", "the", "no such thing"):
    for flags in ([], ["-n"], ["-c"], ["-v"], ["-H"], ["-h"], ["-a"], ["-anv"]):
        same(f"grep {flags} {pattern} of all", run(["grep", *flags, pattern, *names]), run([exos, "io", "grep", *flags, pattern, *names]))
    for name in names:
        same(f"cat {name} | grep {pattern}", run(f"cat {name} | grep -n {pattern!r}"), run(f"{exos} io cat {name} | {exos} io grep -n {pattern!r}"))
for arguments in (["a", "in-not-there"], ["a", names[5], "in-not-there"], [r"\(a"], ["-E", "(a"], ["[a"], ["-E", "a)"]):
    gnu, ours = run(["grep", *arguments]), run([exos, "io", "grep", *arguments])
    same(f"grep {arguments}", gnu, ours)
if failures == before:
    print("ok grep: files, pipes and errors")

before = failures
for name in ["in-" + name for name in LATE]:
    for flags in ([], ["-n"], ["-c"], ["-v"], ["-q"]):
        gnu = run(["grep", *flags, "abc", name])
        same(f"grep {flags} {name}, by the cache", gnu, run([exos, "io", "grep", *flags, "abc", name]))
        same(f"grep {flags} {name}, by copy", gnu, run([exos, "io", "grep", "--no-cache", *flags, "abc", name]))
        same(f"grep {flags} < {name}", gnu, run(f"{exos} io grep {' '.join(flags)} abc < {name}"))
if failures == before:
    print("ok grep: where a file turns out to be binary does not depend on how it comes")

# What cannot be read to its end does not keep what can from being written.
before = failures
for command in ("cat {no_cache} in-words /proc/self/mem in-no-end", "cat {no_cache} in-words / in-no-end", "cat {no_cache} in-words - in-no-end </", "wc {no_cache} in-words / in-no-end", "wc {no_cache} /", "wc {no_cache} -l in-words /proc/self/mem", "grep {no_cache} a in-words / in-no-end"):
    gnu = run(command.format(no_cache=""))
    for no_cache in ("", "--no-cache"):
        same(f"{no_cache} {command}", gnu, run(f"{exos} io {command.format(no_cache=no_cache)}"))
if failures == before:
    print("ok what cannot be read is told, and the rest is written")

# An input that is the output: with GNU's tools, too, nothing is added for ever (the limit is that of a failure).
before = failures
for tool in ("cat {no_cache} own >> own", "cat {no_cache} in-no-end own >> own", "grep {no_cache} x own >> own", "grep {no_cache} x in-no-end own in-words >> own", "grep {no_cache} -c x own >> own", "cat {no_cache} < own >> own", "cat {no_cache} own > own"):
    results = []
    for program, no_cache in (("", ""), (f"{exos} io ", ""), (f"{exos} io ", "--no-cache")):
        with open(os.path.join(folder, "own"), "wb") as file:
            file.write(b"x own line\n" * 30_000)
        code, _ = run(f"ulimit -f 20000; {program}{tool.format(no_cache=no_cache)}")
        with open(os.path.join(folder, "own"), "rb") as file:
            results.append((code, file.read()))
    same(tool, results[0], results[1])
    same(f"{tool}, by copy", results[0], results[2])
if failures == before:
    print("ok an input that is the output is refused")

# A reader that ends leaves the pipe to the next one; a chain of tools is longer than there are buffers.
before = failures
late = b"line abc\n" * 600_000
with open(os.path.join(folder, "late"), "wb") as file:
    file.write(late[:1_350_000] + b"here it is\n" + late)
time.sleep(0.1)
for no_cache in ("", "--no-cache"):
    code, rest = run(f"{exos} io cat {no_cache} late | {{ {exos} io grep -q 'here it is'; {exos} io wc -c; }}")
    # What is under way to the first reader is at most 16 references, each of a buffer or a block.
    if code != 0 or int(rest or 0) < len(late) - (2 << 20):
        failures += 1
        print(f"not ok a second reader of a pipe {no_cache}: {code}, {rest}")
    code, rest = run(f"{exos} io cat {no_cache} late | {{ {exos} io grep -q 'here it is'; cat | wc -c; }}")
    if code != 0 or int(rest or 0) < len(late) - (2 << 20):
        failures += 1
        print(f"not ok a second reader of a pipe, GNU's {no_cache}: {code}, {rest}")
chain = f" | {exos} io cat" * 6
same("a chain with a slow end", run(f"{exos} io permute --words 8 | wc"), run(f"{exos} io permute --words 8{chain} | (sleep 1; {exos} io wc)"))
if failures == before:
    print("ok readers that end early, and chains")

# Another user listens where the ends of a pipe meet, and has no room: bytes go by the kernel's pipe, and nobody waits.
if os.getuid() == 0:
    before = failures
    end, begin = os.pipe()
    pipe = os.fstat(end)
    told, tell = os.pipe()
    stranger = os.fork()
    if stranger == 0:
        os.close(begin)
        os.setuid(65534)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(f"\0exos-io-0-{pipe.st_dev}-{pipe.st_ino}")
        listener.listen(0)
        visitor = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        visitor.connect(listener.getsockname())
        os.write(tell, b"x")
        signal.pause()
    os.read(told, 1)
    os.write(begin, b"12345")
    os.close(begin)
    try:
        counted = subprocess.run([exos, "io", "wc", "-c"], stdin=end, stdout=subprocess.PIPE, timeout=60).stdout
    except subprocess.TimeoutExpired:
        counted = b"nothing: it waits"
    same("a stranger at the meeting", b"5\n", counted)
    os.kill(stranger, signal.SIGKILL)
    os.waitpid(stranger, 0)
    os.close(end)
    if failures == before:
        print("ok a stranger at the meeting of a pipe keeps nobody waiting")

before = failures
orders = run([exos, "io", "permute", "--words", "5", "--length", "4"])
same("permute: its length", (0, 120 * 20), (orders[0], len(orders[1])))
same("permute: all are different", 120, len({orders[1][n : n + 20] for n in range(0, 2400, 20)}))
same("permute | wc", run(f"{exos} io permute --words 7 | wc"), run(f"{exos} io permute --words 7 | {exos} io wc"))
if failures == before:
    print("ok permute")

# What goes by reference does.
before = failures
for command, words_ in (
    (f"{exos} io wc --verbose in-extents", "by reference, 0 by copy"),
    (f"{exos} io wc --verbose --no-cache in-extents", "read 0 bytes by reference"),
):
    said = subprocess.run(command, cwd=folder, shell=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, timeout=60).stderr.decode()
    if words_ not in said:
        failures += 1
        print(f"not ok {command}: {said}")
if failures == before:
    print("ok files come by reference where the cache runs")
sys.exit(failures > 0)
