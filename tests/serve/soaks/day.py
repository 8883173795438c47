#!/usr/bin/env python3
"""A day of an operator in short: see day.sh.

    day.py PATH/TO/exos SECONDS SEED PATH/TO/application.py

Each kind of load goes on in a thread of its own, as loads of some seconds one after the other; each is to have an answer to all that it
asked, whatever the operator does meanwhile. Clients that break off do so in the middle of hellos, requests and answers. The first part of the
time is a warm-up: memory that the server had in it is what it may have later. Prints "ok NAME" or "not ok NAME: why" lines, and what was
done on lines that begin with "#".
"""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

from common import PATIENCE, failed, say, statistics_of, wait_until

EXOS = os.path.realpath(sys.argv[1])
SECONDS, SEED = int(sys.argv[2]), int(sys.argv[3])
APPLICATION = os.path.realpath(sys.argv[4])
LAB = f"day-{os.getpid()}"
SERVER = "10.10.0.10"
HTTP, HTTPS, UPSTREAM = 8080, 8443, 9000
# Part of the time after which memory may not grow any more: connections are in TIME-WAIT for a minute, and their table grows meanwhile.
WARM_UP = max(0.4 * SECONDS, min(0.5 * SECONDS, 150))
# What comes and goes with a reload, and with the buffers of so many connections: see soak.py.
GROWTH_MAX_KIB = 6144
# A connection in TIME-WAIT: its place and its part of the index, in a table that is at most a quarter full after it has grown.
TIME_WAIT_BYTES = 320
SMALL, LARGE = 1000, 300_000

TLS = ["--insecure"]
ONE = ["--requests-per-connection", "1"]
# Kinds of load: the URL, and how `exos load` asks for it.
LOADS = {
    "HTTP, standing connections": (f"http://{SERVER}:{HTTP}/small", []),
    "HTTP, new connections": (f"http://{SERVER}:{HTTP}/small", ONE),
    "TLS, full handshakes": (f"https://{SERVER}:{HTTPS}/small", [*TLS, *ONE, "--tls-resume", "0"]),
    "TLS, resumed handshakes": (f"https://{SERVER}:{HTTPS}/small", [*TLS, *ONE, "--tls-resume", "1"]),
    "TLS, standing connections": (f"https://{SERVER}:{HTTPS}/large", TLS),
    "HTTP/2 over TLS": (f"https://{SERVER}:{HTTPS}/small", [*TLS, "--http", "2", "--streams", "4"]),
    "HTTP/2 in plain text": (f"http://{SERVER}:{HTTP}/large", ["--http", "2", "--streams", "4"]),
    "HTTP/3": (f"https://{SERVER}:{HTTPS}/large", [*TLS, "--http", "3", "--streams", "4"]),
    "passed on, over TLS": (f"https://{SERVER}:{HTTPS}/behind/small", TLS),
    "passed on, HTTP/2": (f"https://{SERVER}:{HTTPS}/behind/large", [*TLS, "--http", "2", "--streams", "4"]),
    "an application's, in plain text": (f"http://{SERVER}:{HTTP}/app/x?say", []),
    "an application's, HTTP/2": (f"https://{SERVER}:{HTTPS}/app/x?say", [*TLS, "--http", "2", "--streams", "4"]),
}


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def inside(side, *command):
    return [EXOS, "lab", "exec", "--name", LAB, side, "--", *command]


class Day:
    """What all threads share: when it ends, and what went wrong."""

    def __init__(self):
        self.over = threading.Event()
        self.lock = threading.Lock()
        self.wrong, self.done = [], Counter()

    def note(self, what, count=1):
        with self.lock:
            self.done[what] += count

    def complain(self, what):
        with self.lock:
            self.wrong.append(what)


class Task(threading.Thread):
    """What goes on beside others. Its end would go unseen if an error were not noted."""

    def __init__(self, day, name):
        super().__init__(daemon=True)
        self.day, self.name_of = day, name

    def run(self):
        try:
            self.work()
        except Exception as why:
            self.day.complain(f"{self.name_of}: {why!r}")


class Loading(Task):
    """Loads of one kind, one after the other."""

    def __init__(self, day, name, seed):
        super().__init__(day, name)
        self.random = random.Random(seed)
        self.answers = self.handshakes = 0

    def work(self):
        url, how = LOADS[self.name_of]
        while not self.day.over.is_set():
            seconds = self.random.choice([1, 2, 4, 7])
            command = ["load", "--sockets", "--idle", "sleep", "--json", "--quiet", "-c", str(self.random.choice([1, 2, 5])), "--think", "20ms",
                       "--no-probe", "--timeout", f"{PATIENCE}s", "-d", f"{seconds}s", "--expect-status", "200", *how, url]
            done = subprocess.run(inside("b", EXOS, *command), capture_output=True, text=True, timeout=4 * PATIENCE, check=False)
            if done.returncode != 0:
                self.day.complain(f"{self.name_of}: status {done.returncode}: {(done.stderr or done.stdout)[-300:]}")
                return
            said = json.loads(done.stdout)
            self.answers += said["responses"]
            self.handshakes += sum((said.get("tls") or {}).get(kind, 0) for kind in ("handshakes_full", "handshakes_resumed"))
            if any(said["errors"].values()):
                self.day.complain(f"{self.name_of}: {said['errors']} of {said['responses']}")


class Breaking(Task):
    """Clients that break off in the middle of something, by a reset or by a FIN: in side b, as a program of its own."""

    CODE = r"""
import random, socket, ssl, struct, sys, time
server, http, https, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
chosen = random.Random(seed)
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
hello = bytes.fromhex("160301020001000001fc0303") + bytes(range(32)) + b"\0" * 400
preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
requests = [b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /behind/large HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /app/x?say HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /sm", b"POST /app/x?say HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\nabc",
            preface, preface[:20], b"\0\1\2 nonsense\r\n\r\n"]
def broken_off():
    is_tls = chosen.random() < 0.5
    made = socket.create_connection((server, https if is_tls else http), timeout=60)
    if chosen.random() < 0.5:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if is_tls and chosen.random() < 0.4:
        made.send(hello[:chosen.randrange(1, len(hello))])
        return made
    if is_tls:
        made = context.wrap_socket(made)
    made.send(chosen.choice(requests))
    if chosen.random() < 0.7:
        made.settimeout(1)
        try:
            made.recv(chosen.choice([1, 1000, 20000]))
        except TimeoutError:
            pass  # Not all of them are answered.
    return made
count = 0
standing = []
while True:
    try:
        standing.append(broken_off())
        count += 1
        print(count, flush=True)
    except OSError as why:
        print(why, file=sys.stderr, flush=True)
    while len(standing) > chosen.randrange(6):
        standing.pop(chosen.randrange(len(standing))).close()
    time.sleep(chosen.random() / 10)
"""

    def __init__(self, day, seed, errors):
        super().__init__(day, "clients that break off")
        command = [sys.executable, "-S", "-c", self.CODE, SERVER, str(HTTP), str(HTTPS), str(seed)]
        self.process = subprocess.Popen(inside("b", *command), stdout=subprocess.PIPE, stderr=errors, text=True)

    def work(self):
        for _ in self.process.stdout:
            self.day.note("clients that broke off")
        if not self.day.over.is_set():
            self.day.complain(f"{self.name_of} have ended with status {self.process.wait()}")

    def end(self):
        self.process.kill()
        self.process.wait()


class Operator(Task):
    """Replaces certificates, changes documents and the configuration, has it read again, and makes mistakes."""

    def __init__(self, day, folder, server, seed):
        super().__init__(day, "the operator")
        self.folder, self.server, self.random = folder, server, random.Random(seed)
        self.certificates = 0
        self.first = self.text = CONFIGURATION.replace("@FOLDER@", folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def replace(self, name, text):
        with open(self.path(name + ".new"), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name + ".new"), 0o600)
        os.rename(self.path(name + ".new"), self.path(name))

    def new_certificate(self):
        """Key and certificate, whose name has a number; the files of both are replaced one after the other."""
        self.certificates += 1
        made = [self.path("made.key"), self.path("made.pem")]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "90", "-subj",
                        f"/CN=day {self.certificates}", "-keyout", made[0], "-out", made[1]], check=True, capture_output=True)
        for source, name in zip(made, ("tls.key", "tls.pem")):
            self.replace(name, read(source))

    def shown(self):
        """The name in the certificate that a new client is shown."""
        asked = subprocess.run(inside("b", "openssl", "s_client", "-connect", f"{SERVER}:{HTTPS}"), input="", capture_output=True, text=True,
                               timeout=PATIENCE, check=False)
        found = re.search(r"subject=.*CN ?= ?(day \d+)", asked.stdout)
        return found and found[1]

    def said(self, what):
        return read(self.server.err).count(what)

    def hang_up(self, answer):
        """Has everything read again, which the server answers with these words."""
        before = self.said(answer)
        self.server.process.send_signal(signal.SIGHUP)
        if not wait_until(lambda: self.said(answer) > before):
            self.day.complain(f"to SIGHUP it did not say '{answer}': {read(self.server.err)[-300:]}")

    def reload(self):
        self.hang_up("exos serve: read again")

    def certificate(self):
        self.new_certificate()
        # By a signal, or by itself within ten seconds.
        if self.random.random() < 0.5:
            self.reload()
        if not wait_until(lambda: self.shown() == f"day {self.certificates}"):
            self.day.complain(f"certificate {self.certificates} is not shown: {self.shown()}")

    def change(self):
        """Another field, another application's limit, another site beside: all of which changes nothing of what is asked for."""
        number = self.random.randrange(1000)
        more = f'[[site.fields]]\npath = "/*"\nset = {{ X-Number = "{number}" }}\n'
        if self.random.random() < 0.5:
            more += f'[[site]]\nnames = ["other{number}.test"]\nroot = "other"\n'
        self.text = self.first.replace("connections = 100", f"connections = {100 + number}") + more
        self.replace("serve.toml", self.text)
        self.reload()

    def mistake(self):
        """A configuration that cannot be read changes nothing, and is said."""
        self.replace("serve.toml", self.text + self.random.choice(["nonsense = 1\n", "[[site]\n", '[[site.proxy]]\npath = "/x"\nto = "ftp://x"\n']))
        self.hang_up("what was served goes on")
        self.replace("serve.toml", self.text)

    def documents(self):
        """Others than those asked for come and go, and one of those is written again."""
        for _ in range(20):
            self.replace(f"site/guest{self.random.randrange(100)}", "x" * self.random.randrange(100_000))
        self.replace("site/small", "s" * SMALL)
        for guest in range(100):
            if self.random.random() < 0.2 and os.path.exists(self.path(f"site/guest{guest}")):
                os.remove(self.path(f"site/guest{guest}"))
        os.chmod(self.path("site/small"), 0o644)
        if self.random.random() < 0.5:
            self.reload()

    def settle(self):
        """The configuration is the first one again."""
        self.replace("serve.toml", self.first)
        self.reload()

    def work(self):
        tasks = {"certificates replaced": self.certificate, "configurations changed": self.change, "mistakes": self.mistake,
                 "changes of documents": self.documents, "reloads": self.reload}
        # Each at least once, in some order, and then at random.
        order = self.random.sample(list(tasks), len(tasks))
        while not self.day.over.wait(self.random.random() * min(6, SECONDS / 20)):
            name = order.pop() if order else self.random.choice(list(tasks))
            self.name_of = name
            tasks[name]()
            self.day.note(name)


CONFIGURATION = f"""port = {HTTP}
[tls]
port = {HTTPS}
http3 = true
[log]
file = "access.log"
[[site]]
root = "site"
[[site.certificate]]
file = "tls.pem"
key = "tls.key"
[[site.proxy]]
path = "/behind/*"
to = "http://127.0.0.1:{UPSTREAM}/"
keep_timeout = "2s"
[[site.fastcgi]]
path = "/app/*"
to = "@FOLDER@/app.sock"
connections = 100
"""


class Server:
    """The server, and what it says of itself."""

    def __init__(self, folder):
        self.out, self.err = os.path.join(folder, "out"), os.path.join(folder, "err")
        command = ["serve", "--config", os.path.join(folder, "serve.toml"), "--link", "xdp:wire", "--address", f"{SERVER}/24", "--json"]
        with open(self.out, "w", encoding="utf-8") as out, open(self.err, "w", encoding="utf-8") as err:
            self.process = subprocess.Popen(inside("a", EXOS, *command), stdout=out, stderr=err)
        self.pid = self.process.pid

    def is_ready(self):
        return "https:" in read(self.out)

    def descriptors(self):
        """What they are of, and how many."""
        folder = f"/proc/{self.pid}/fd"
        kinds = []
        for descriptor in os.listdir(folder):
            with contextlib.suppress(OSError):  # One of a moment.
                kinds.append(re.sub(r":\[\d+\]$", "", os.readlink(os.path.join(folder, descriptor))))
        return sorted(kinds)

    def sample(self):
        """Seconds, kilobytes of the process, descriptors, and its counters."""
        resident = int(re.search(r"VmRSS:\s+(\d+)", read(f"/proc/{self.pid}/status"))[1])
        return time.monotonic(), resident, self.descriptors(), statistics_of(self.pid, self.out)


def judge(samples, began):
    """Of the warm-up and of what came behind it."""
    warm = [one for one in samples if one[0] - began <= WARM_UP]
    late = [one for one in samples if one[0] - began > WARM_UP]
    kib = [max(one[1] for one in part) for part in (warm, late)]
    waiting = [max(one[3]["time_wait_connections"] for one in part) for part in (warm, late)]
    table = max(0, waiting[1] - waiting[0]) * TIME_WAIT_BYTES // 1024
    say("memory does not grow behind the warm-up", kib[1] - kib[0] - table <= GROWTH_MAX_KIB, f"{kib} KiB, {waiting} in TIME-WAIT")
    print(f"# memory: {kib[0]} KiB at most in the warm-up of {WARM_UP:.0f} s, {kib[1]} behind it; {waiting} connections in TIME-WAIT")
    fallen = {name for one, next_one in zip(samples, samples[1:]) for name, count in one[3].items()
              if name not in GAUGES and count > next_one[3].get(name, 0)}
    say("no counter falls", not fallen, fallen)


# What goes up and down.
GAUGES = {"connections", "time_wait_connections"}


def count_of(counters, begin):
    return sum(count for name, count in counters.items() if name.startswith(begin))


def day(folder):
    for name in ("site", "other"):
        os.mkdir(os.path.join(folder, name))
    for name, length in (("small", SMALL), ("large", LARGE)):
        with open(os.path.join(folder, "site", name), "w", encoding="utf-8") as file:
            file.write(name[0] * length)
    shutil.copytree(os.path.join(folder, "site"), os.path.join(folder, "upstream"))
    with open(os.path.join(folder, "serve.toml"), "w", encoding="utf-8") as file:
        file.write(CONFIGURATION.replace("@FOLDER@", folder))
    errors = open(os.path.join(folder, "beside"), "w", encoding="utf-8")
    beside = [
        subprocess.Popen(inside("a", EXOS, "serve", "--sockets", "--address", "127.0.0.1/8", "--port", str(UPSTREAM), os.path.join(folder, "upstream")),
                         stdout=errors, stderr=errors),
        subprocess.Popen(inside("a", sys.executable, "-S", APPLICATION, os.path.join(folder, "app.sock"), os.path.join(folder, "app.log")),
                         stdout=errors, stderr=errors)]
    today = Day()
    server = breaking = None
    try:
        operator = Operator(today, folder, None, SEED)
        operator.new_certificate()
        server = operator.server = Server(folder)
        if not wait_until(lambda: server.is_ready() and os.path.exists(os.path.join(folder, "app.sock"))):
            return say("the servers start", False, read(server.err) + read(errors.name))
        loads = [Loading(today, name, SEED + number) for number, name in enumerate(LOADS)]
        breaking = Breaking(today, SEED, errors)
        first = server.sample()
        began = time.monotonic()
        for thread in (*loads, breaking, operator):
            thread.start()
        samples = []
        while time.monotonic() - began < SECONDS and not today.wrong and server.process.poll() is None:
            time.sleep(min(2, SECONDS / 60))
            samples.append(server.sample())
        today.over.set()
        for thread in (*loads, operator):
            thread.join(5 * PATIENCE)
            if thread.is_alive():
                today.complain(f"{thread.name_of}: goes on after its end")
        breaking.end()
        if not today.wrong:
            operator.settle()
        seconds = time.monotonic() - began
        report(today, server, loads, first, samples, began, seconds)
    finally:
        today.over.set()
        for process in (*([breaking.process] if breaking else []), *([server.process] if server else []), *beside):
            process.kill()
            process.wait()


def report(today, server, loads, first, samples, began, seconds):
    say(f"no request fails in {SECONDS} s", not today.wrong, today.wrong[:3])
    silent = [load.name_of for load in loads if not load.answers]
    say("each kind of load has answers", not silent, silent)
    idle = [what for what in ("clients that broke off", "certificates replaced", "configurations changed", "mistakes", "changes of documents", "reloads")
            if not today.done[what]]
    say("the operator was not idle, nor were clients that break off", not idle, idle)
    if not today.wrong:
        judge(samples, began)
    # What breaks off late is waited for by the server for a while.
    has_gone = wait_until(lambda: server.sample()[3]["connections"] == 0)
    last = server.sample()
    say("no connection is left", has_gone, last[3]["connections"])
    # A reload that the end came upon has some open while it reads.
    say("no descriptor is left", wait_until(lambda: len(server.descriptors()) <= len(first[2]) + 2), f"{first[2]}, then {server.descriptors()}")
    counters = last[3]
    answers, handshakes = sum(load.answers for load in loads), sum(load.handshakes for load in loads)
    told = count_of(counters, "http_responses_2")
    say("the server has counted all answers", told >= answers, f"{told} of {answers}")
    made = count_of(counters, "tls_handshakes_full") + count_of(counters, "tls_handshakes_resumed")
    say("and all handshakes", made >= handshakes, f"{made} of {handshakes}")
    # A preface of HTTP/2 that is cut off is a request of a version that there is not (505).
    faults = ("http_responses_500", "http_responses_502", "http_responses_503", "http_responses_504", "tls_failed_no_certificate")
    strange = {name: counters[name] for name in faults if counters.get(name)}
    say("and nothing of its own going wrong", not strange, strange)
    server.process.terminate()
    say("it ends in order", server.process.wait(PATIENCE) == 0, read(server.err)[-500:])
    print(f"# {answers} answers, {handshakes} handshakes in {seconds:.0f} s; " + "; ".join(f"{load.name_of}: {load.answers}" for load in loads))
    print("# " + "; ".join(f"{what}: {count}" for what, count in sorted(today.done.items())))


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    folder = tempfile.mkdtemp()
    try:
        subprocess.run([EXOS, "lab", "up", "--name", LAB, "--wire", "plain"], check=True, stdout=subprocess.DEVNULL)
        day(folder)
    finally:
        subprocess.run([EXOS, "lab", "down", "--name", LAB], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(folder, ignore_errors=True)


main()
sys.exit(failed())
