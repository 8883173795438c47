#!/usr/bin/env python3
"""A soak: requests without end to a server whose documents change and are read again meanwhile; it answers all of
them, and its memory is constant. See soak.sh.

    soak.py PATH/TO/exos REQUESTS [--in-kernel]

Rounds of four loads over a lab's plain wire: new and standing connections, by the client of packets and by wrk. The
configuration is read again in each. After a warm-up memory may not grow any more: that of the process, but for its table of
connections in TIME-WAIT, which is as large as the most that waited at once, and what waits in its sockets of packets.
Prints "ok NAME" or "not ok NAME: why" lines, and what was measured on lines that begin with "#".
"""

import glob
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

from common import PATIENCE, failed, say, statistics_of, wait_until

EXOS = os.path.realpath(sys.argv[1])
REQUESTS = int(sys.argv[2])
IN_KERNEL = sys.argv[3:]
LAB = f"soak-{os.getpid()}"
SERVER = "10.10.0.10"
DOCUMENTS = 60
IS_LONG = REQUESTS > 2_000_000
# A load lasts so long: some twenty rounds in the longest soaks that people have patience for.
SECONDS = 3 if IS_LONG else 1
WARM_UP_ROUNDS = 2
# Connections are in TIME-WAIT for a minute. In the first the table grows, in the second its places are all used. A short
# soak is over before that, and is allowed the table's growth.
WARM_UP_SECONDS = 120 if IS_LONG else 0
# What comes and goes with a reload: both versions of all documents, half a megabyte each, in the heaps of the threads that
# read them, of which one is still ending when two others begin. Hundreds of reloads alone move memory up and down by one
# megabyte. In the longest soaks a byte that is lost with each request is more than this.
GROWTH_MAX_KIB = 4096
# The table of connections in TIME-WAIT: it grows to twice its places when less than a quarter of them is free, up to a
# limit. A place has 64 bytes, and an entry's part of the index 8 to 16.
PLACES_MAX, PLACE_BYTES, INDEX_BYTES = 256 * 1024, 64, 8
# Rounds without any answer, one after another, that are a fault.
IDLE_ROUNDS_MAX = 3
LOADS = [("packets", "new"), ("packets", "persistent"), ("wrk", "new"), ("wrk", "persistent")]

LUA = """local n = 0
function request()
    n = n + 1
    return wrk.format("GET", "/" .. n %% %d .. ".bin")
end
"""


def read(path):
    with open(path) as file:
        return file.read()


def inside(side, *command):
    return [EXOS, "lab", "exec", "--name", LAB, side, "--", *command]


class Author(threading.Thread):
    """Changes the documents that wrk asks for, and others that come and go."""

    def __init__(self, site):
        super().__init__(daemon=True)
        self.site, self.random, self.changes, self.stopping = site, random.Random(1), 0, threading.Event()
        for document in range(DOCUMENTS):
            self.write(f"{document}.bin")

    def write(self, name):
        path = os.path.join(self.site, name)
        with open(path + ".new", "wb") as file:
            file.write(self.random.randbytes(self.random.randrange(1 << self.random.randrange(15))))
        os.rename(path + ".new", path)

    def run(self):
        while not self.stopping.wait(0.01):
            self.write(f"{self.random.randrange(DOCUMENTS)}.bin")
            self.write(f"guest{self.changes % 100}")
            if self.changes % 100 == 99:
                for guest in glob.glob(os.path.join(self.site, "guest*")):
                    os.remove(guest)
            self.changes += 1


class Server:
    def __init__(self, folder):
        self.out, self.err = os.path.join(folder, "out"), os.path.join(folder, "err")
        command = ["serve", "--config", os.path.join(folder, "serve.toml"), "--link", "xdp:wire", "--address", f"{SERVER}/24"]
        with open(self.out, "w") as out, open(self.err, "w") as err:
            self.process = subprocess.Popen(inside("a", EXOS, *command, "--json", *IN_KERNEL), stdout=out, stderr=err)
        self.pid = self.process.pid
        self.samples = []
        self.stopping = threading.Event()

    def is_ready(self):
        return read(self.out).startswith("http")

    def sample(self):
        """Kilobytes of the process, its descriptors, and kilobytes that wait in its sockets of packets."""
        resident = int(re.search(r"VmRSS:\s+(\d+)", read(f"/proc/{self.pid}/status"))[1])
        # They have a line each there. What the kernel tells of TCP's memory is of the whole machine.
        queued = sum(int(line.split()[6]) for line in read(f"/proc/{self.pid}/net/packet").splitlines()[1:])
        return time.monotonic(), resident, len(os.listdir(f"/proc/{self.pid}/fd")), queued // 1024

    def watch(self):
        while not self.stopping.wait(0.2) and self.process.poll() is None:
            self.samples.append(self.sample())


def table_kib(before, after):
    """What the table of connections in TIME-WAIT may have grown, when so many waited at once at most before and after."""
    if IS_LONG and after <= before:
        return 0
    most = max(before, after)
    places = min(PLACES_MAX, most * 8 // 3)
    return (places * PLACE_BYTES + most * 2 * INDEX_BYTES - before * (PLACE_BYTES + INDEX_BYTES)) // 1024


def packets(kind, mac):
    """Requests that were answered, and what went wrong."""
    settings = {"mac": [int(byte, 16) for byte in mac.split(":")], "to": f"{SERVER}:80", "size": 100, "kind": kind,
                "connections": 64, "queues": 1, "seconds": SECONDS}
    command = ["bench", "helper", "visit", json.dumps(settings)]
    done = subprocess.run(inside("b", EXOS, *command), capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        return 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    return said["requests"], {name: count for name, count in said["errors"].items() if count and name != "timeout"}


def wrk(kind, script):
    fields = ["-H", "Connection: close"] if kind == "new" else []
    command = ["wrk", "-t1", "-c64", f"-d{SECONDS}s", "-s", script, *fields, f"http://{SERVER}/"]
    done = subprocess.run(inside("b", *command), capture_output=True, text=True, timeout=PATIENCE)
    count = re.search(r"(\d+) requests in", done.stdout)
    # A request that the end cuts off is no error; a time out is one lost packet too many, and none of the server's.
    wrong = re.findall(r"Non-2xx.*|connect [1-9]\d*|read [1-9]\d*|write [1-9]\d*", done.stdout)
    return int(count[1]) if count else 0, wrong or (done.stderr if done.returncode else [])


def load(server, mac, script):
    """Rounds, until there were requests enough: how many were answered, what went wrong, of each round how many samples
    of memory there were at its end and the connections in TIME-WAIT at most, and how many rounds were the warm-up."""
    requests, rounds, began, warm = dict.fromkeys(LOADS, 0), [], time.monotonic(), 0
    idle = dict.fromkeys(LOADS, 0)
    while sum(requests.values()) < REQUESTS or len(rounds) < 2 * warm or not warm:
        waiting = 0
        for who, kind in LOADS:
            reload = threading.Timer(SECONDS / 2, server.process.send_signal, [signal.SIGHUP])
            reload.start()
            count, errors = packets(kind, mac) if who == "packets" else wrk(kind, script)
            reload.join()
            requests[who, kind] += count
            waiting = max(waiting, statistics_of(server.pid, server.out)["time_wait_connections"])
            # None in one round may be a second that the machine had for others.
            idle[who, kind] = 0 if count else idle[who, kind] + 1
            if errors or idle[who, kind] == IDLE_ROUNDS_MAX:
                return requests, [(who, kind, count, errors)], rounds, warm
        rounds.append((len(server.samples), waiting))
        if not warm and len(rounds) >= WARM_UP_ROUNDS and time.monotonic() - began >= WARM_UP_SECONDS:
            warm = len(rounds)
    return requests, [], rounds, warm


def judge(samples, rounds, warm):
    """The warm-up against what came after it, and of that the first half against the second."""
    half = (warm + len(rounds)) // 2
    marks = [0, rounds[warm - 1][0], rounds[half - 1][0], len(samples)]
    parts = [samples[begin:end] for begin, end in zip(marks, marks[1:])]
    waiting = [max(count for _, count in part) for part in (rounds[:warm], rounds[warm:half], rounds[half:])]
    for name, column in [("the process", 1), ("its sockets of packets", 3)]:
        most = [max(sample[column] for sample in part) for part in parts]
        for n, when in [(1, "after the warm-up"), (2, "later")]:
            table = table_kib(max(waiting[:n]), waiting[n]) if column == 1 else 0
            grown = most[n] - max(most[:n]) - table
            say(f"memory of {name} does not grow {when}", grown <= GROWTH_MAX_KIB // n, f"{grown} KiB: {most}, {waiting}")
        print(f"# memory of {name}: {most[0]} KiB at most in the warm-up, {most[1]} and {most[2]} in the halves after it")
    print(f"# connections in TIME-WAIT at most: {waiting[0]}, {waiting[1]} and {waiting[2]}")
    # A reload has some open while it reads.
    say("no descriptor is left open", samples[-1][2] <= samples[0][2] + 2, sorted({sample[2] for sample in samples}))


def soak(folder):
    site = os.path.join(folder, "site")
    os.mkdir(site)
    lines = "".join(f"<p>line {n} of a document of 100 bytes\n" for n in range(9))
    with open(os.path.join(site, "100.html"), "w") as file:
        file.write(lines[:100])
    with open(os.path.join(folder, "serve.toml"), "w") as file:
        file.write('[[site]]\nroot = "site"\n')
    script = os.path.join(folder, "documents.lua")
    with open(script, "w") as file:
        file.write(LUA % DOCUMENTS)
    author, server = Author(site), Server(folder)
    try:
        if not wait_until(server.is_ready):
            return say("the server starts", False, read(server.err))
        watcher = threading.Thread(target=server.watch, daemon=True)
        mac = subprocess.check_output(inside("a", "cat", "/sys/class/net/wire/address"), text=True).strip()
        for thread in (author, watcher):
            thread.start()
        began = time.monotonic()
        requests, wrong, rounds, warm = load(server, mac, script)
        seconds = time.monotonic() - began
        author.stopping.set()
        author.join()
        said = statistics_of(server.pid, server.out)
        # What a reload holds goes when it is over.
        time.sleep(1)
        server.stopping.set()
        watcher.join()
        report(requests, wrong, len(rounds), seconds, said, author)
        if not wrong:
            # One that is asked for while another reads may be one with the next.
            reloads = read(server.err).count("read again")
            say("everything was read again in each round", reloads >= len(rounds), f"{reloads} times in {len(rounds)} rounds")
            judge(server.samples, rounds, warm)
        server.process.terminate()
        say("the server ends in order", server.process.wait(PATIENCE) == 0, read(server.err))
    finally:
        server.process.kill()
        server.process.wait()


def report(requests, wrong, rounds, seconds, said, author):
    total = sum(requests.values())
    fine = not wrong and total >= REQUESTS and all(requests.values())
    say(f"{REQUESTS} requests are answered, of each kind", fine, wrong[:3] or requests)
    answered = sum(count for name, count in said.items() if name.startswith("http_responses_"))
    say("the server knows of them", answered >= total, f"{answered} of {total}")
    other = {name: count for name, count in said.items() if name.startswith(("http_fault", "http_responses_5")) and count}
    say("and of nothing else", not other, other)
    if IN_KERNEL:
        say("the kernel has answered requests", said["link_xdp_answered"] > 0, said)
    say("documents changed meanwhile", author.changes > rounds, author.changes)
    each = ", ".join(f"{count} by {who} on {kind} connections" for (who, kind), count in requests.items())
    print(f"# {total} requests in {seconds:.0f} s: {each}; {rounds} rounds, "
          f"{2 * author.changes} documents written")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    folder = tempfile.mkdtemp()
    try:
        subprocess.run([EXOS, "lab", "up", "--name", LAB, "--wire", "plain"], check=True, stdout=subprocess.DEVNULL)
        if IN_KERNEL:  # A veth's other end has to hear the kernel.
            subprocess.run(inside("b", "ethtool", "-K", "wire", "gro", "on"), check=True)
        soak(folder)
    finally:
        subprocess.run([EXOS, "lab", "down", "--name", LAB], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)


main()
sys.exit(failed())
