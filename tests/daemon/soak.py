#!/usr/bin/env python3
"""A soak of the daemon: mixed traffic through programs that share an interface, while each of them, and the daemon, is
killed and started again at random. See soak.sh.

    soak.py PATH/TO/exos SECONDS SEED

`serve` and `forward` run behind the daemon in one side of a lab, `dump` and `load` come and go; clients and the server
that is forwarded to are the kernel's, in the other side. Each round has two parts. In the first something ends, by SIGKILL
or SIGTERM, in the middle of traffic, and is started again: then everything has to be answered again. In the second nothing
ends, and each frame is accounted for, from the counters before and after:

    the other side's sent     = what the daemon's gate counted for some slot, or for the host
    a slot's received         = what its program received + what a counter names as dropped
    what a program sent       = what the gate took of its slot + what it dropped by name
    what slots sent           = what the other side received + what the gate counts as lost on the way

After a warm-up memory may not grow: that of daemon and programs, of BPF maps, the number of BPF programs, of the daemon's
descriptors and of the slots' interfaces.
"""

import collections
import hashlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from common import PATIENCE, failed, say, wait_until

LAB = f"soak-shared-{os.getpid()}"
SERVED, FORWARDED, BEHIND = "10.10.0.10", "10.10.0.20", "10.10.0.2"
USER = "65534"
# Who ends in a round, and how much more often than others. The daemon keeps for 5 s what a program has left.
VICTIMS = {"dump": 3, "load": 3, "serve": 1, "forward": 1, "daemon": 1, "nobody": 1}
# From then on memory is at what it is used to: connections are in TIME-WAIT for a minute, and the table of them grows.
WARM_UP_SECONDS = 150
# What comes and goes: buffers of those who ask, tables of connections that grow by the doubling, pages of a heap.
GROWTH_MAX_KIB = {"daemon": 1024, "serve": 8192, "forward": 4096}
DESCRIPTORS_MORE = 8
REFUSED = ("tx_bad_checksum", "tx_bad_ethertype", "tx_bad_header", "tx_bad_mac", "tx_bad_source", "tx_fragment", "tx_ndp",
           "tx_over_share", "no_ring")
NOT_TAKEN = ("malformed", "pass_to_host", "rx_over_share", "stray_to_daemon", "wrong_queue")
EARLY = ("rx_early_drop_ack", "rx_early_drop_fragment", "rx_early_drop_syn")

POLICY = f"""[[interface]]
name = "wire"
addresses = ["{SERVED}/24", "fd10::10/64", "{FORWARDED}/24"]

[[allow]]
user = "{USER}"
addresses = "any"
protocols = ["tcp", "udp"]
ports = ["1-65535"]
dump = "all"
"""


def inside(side, *command):
    return [EXOS, "lab", "exec", "--name", LAB, side, "--", *command]


def as_user(*command):
    return ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", *command]


def text_of(path):
    with open(path) as file:
        return file.read()


class Program:
    """A program that runs until it is ended, and is started again."""

    def __init__(self, folder, name, command, ready):
        self.name, self.command, self.ready = name, command, ready
        self.out, self.err = os.path.join(folder, f"{name}.out"), os.path.join(folder, f"{name}.err")
        self.process, self.began, self.starts = None, 0.0, 0

    def start(self):
        """Whether it is ready in time. One that ends again, for what it needs is still held, is started again."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with open(self.out, "w") as out, open(self.err, "w") as err:
                self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            self.began, self.starts = time.monotonic(), self.starts + 1
            wait_until(lambda: self.is_ready() or self.process.poll() is not None)
            if self.process.poll() is None:
                return self.is_ready()
            time.sleep(0.2)
        return False

    def is_ready(self):
        return re.search(self.ready, text_of(self.out) + text_of(self.err)) is not None

    def end(self, by):
        if self.process and self.process.poll() is None:
            self.process.send_signal(by)
            self.process.wait(PATIENCE)

    def statistics(self):
        """Its counters now: a line of its output for each SIGUSR1."""
        before = os.path.getsize(self.out)
        self.process.send_signal(signal.SIGUSR1)
        if not wait_until(lambda: text_of(self.out)[before:].endswith("\n")):
            raise RuntimeError(f"{self.name} gives no statistics")
        return json.loads(text_of(self.out)[before:].splitlines()[-1])["counters"]

    def resident_kib(self):
        return int(re.search(r"VmRSS:\s+(\d+)", text_of(f"/proc/{self.process.pid}/status"))[1])


class Soak:
    def __init__(self, folder, seed):
        self.folder, self.random = folder, random.Random(seed)
        self.socket = os.path.join(folder, "xokd.sock")
        site = os.path.join(folder, "site")
        os.mkdir(site)
        self.documents = {"small": b"x" * 100, "middle": self.random.randbytes(20_000), "large": self.random.randbytes(2_000_000)}
        for name, data in self.documents.items():
            with open(os.path.join(site, name), "wb") as file:
                file.write(data)
        policy = os.path.join(folder, "xokd.toml")
        with open(policy, "w") as file:
            file.write(POLICY)
        # Programs find these as another user. They run in the gate's own namespace, where its check of many frames at once is.
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
        exos = os.path.join(folder, "exos")
        shutil.copy(EXOS, exos)
        shared = ["--xokd", self.socket]
        lent = lambda *command: inside("a", *as_user(exos, *command, *shared))
        self.programs = {program.name: program for program in (
            Program(folder, "behind", inside("b", EXOS, "serve", site, "--sockets", "--port", "80"), "^http"),
            Program(folder, "echo", inside("b", sys.executable, os.path.realpath(__file__), "echo", BEHIND, "7"), "^echo"),
            Program(folder, "daemon", [exos, "daemon", "--namespace", f"exos-{LAB}-a", "--policy", policy, "--socket", self.socket],
                    "listening at"),
            Program(folder, "serve", lent("serve", site, "--address", f"{SERVED}/24", "--address", "fd10::10/64", "--json"), "^http"),
            Program(folder, "forward", lent("forward", "--via", "xokd", "--json", "--listen", f"{FORWARDED}:80", "--listen",
                                            f"udp:{FORWARDED}:7", "--to", BEHIND), "."),
            Program(folder, "dump", lent("dump", "--all", "-w", "/dev/null"), "."),
            Program(folder, "load", lent("load", "--via", "xokd", f"http://{BEHIND}/middle", "-c", "16", "-d", "3600s",
                                         "--progress", "--requests-per-connection", "3"), "."),
        )}
        self.memory, self.lives = [], collections.defaultdict(list)
        self.unanswered = ""
        self.ends, self.named, self.frames, self.datagrams = collections.Counter(), collections.Counter(), 0, [0, 0]

    # ---- traffic ----

    def loads(self, seconds):
        """Clients of all kinds at the same time; they are awaited by `finish`."""
        urls = [(f"http://{SERVED}/small", 1), (f"http://{SERVED}/large", 0), ("http://[fd10::10]/middle", 0),
                (f"http://{FORWARDED}/small", 1), (f"http://{FORWARDED}/large", 0), (f"http://{FORWARDED}/middle", 0)]
        self.random.shuffle(urls)
        for url, requests in urls[:4]:
            pace = ["-c", str(self.random.choice([1, 8, 64]))]
            if self.random.random() < 0.5:
                pace = ["--rate", str(self.random.choice([50, 500, 2000]) // (20 if "large" in url else 1) + 1)]
            each = ["--requests-per-connection", str(requests)] if requests else []
            yield inside("b", EXOS, "load", "--sockets", "--no-probe", "--quiet", "--json", "-d", f"{seconds}s",
                         "--timeout", "2s", url, *pace, *each)
        yield inside("b", sys.executable, os.path.realpath(__file__), "ask", FORWARDED, "7", str(seconds))

    def begin(self, seconds):
        return [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                for command in self.loads(seconds)]

    def finish(self, clients):
        """Awaits them, and counts the datagrams that came back."""
        for client in clients:
            said, _ = client.communicate(timeout=PATIENCE + 30)
            if said.startswith("datagrams"):
                sent, back = map(int, said.split()[1:])
                self.datagrams[0] += sent
                self.datagrams[1] += back

    def is_answered(self):
        """Whether every service gives what it should, byte for byte."""
        for base in (f"http://{SERVED}", "http://[fd10::10]", f"http://{FORWARDED}"):
            for name, data in self.documents.items():
                got = subprocess.run(inside("b", "curl", "-gsS", "-m", "10", f"{base}/{name}"), capture_output=True).stdout
                if hashlib.sha256(got).digest() != hashlib.sha256(data).digest():
                    self.unanswered = f"{base}/{name}: {len(got)} of {len(data)} bytes"
                    return False
        asked = subprocess.run(inside("b", sys.executable, os.path.realpath(__file__), "ask", FORWARDED, "7", "0"),
                               capture_output=True, text=True).stdout
        self.unanswered = f"udp:{FORWARDED}:7: {asked}"
        return asked.split()[2:] not in ([], ["0"])

    # ---- what is counted ----

    def top(self):
        command = inside("a", *as_user(EXOS, "top", "--xokd", self.socket, "--json", "-d", "0.1"))
        return json.loads(subprocess.check_output(command, text=True))["report"]["interfaces"][0]

    def interfaces(self, side):
        said = subprocess.check_output(["ip", "-n", f"exos-{LAB}-{side}", "-s", "-j", "link"], text=True)
        return {link["ifname"]: link["stats64"] for link in json.loads(said)}

    def traffic(self):
        wire = self.interfaces("b")["wire"]
        return wire["tx"]["packets"], wire["rx"]["packets"]

    def snapshot(self):
        """All that counts frames, when none is under way: not even one that is sent again after a while."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            before = self.traffic()
            time.sleep(0.2)
            counted = self.counted()
            if self.traffic() == before:
                return counted
        raise RuntimeError("frames do not cease")

    def counted(self):
        here, there, report = self.interfaces("a"), self.interfaces("b"), self.top()
        slots = {0: report["host"]} | {slot["slot"]: slot["counters"] for slot in report["slots"]}
        own = {name: self.programs[name].statistics() for name in ("serve", "forward")}
        slot_of = {slot["program"]: slot["slot"] for slot in report["slots"]}
        return {"wire": there["wire"], "device": here["wire"], "slots": slots, "programs": own, "slot_of": slot_of,
                "not_put": {name: here[f"xok{report['ifindex']}-{slot_of[name]}"]["tx"]["dropped"] for name in own},
                "awaited": report["awaited_dropped"]}

    def account(self, before, after):
        """What does not agree of what was counted, and counts what was dropped by name."""
        wrong = []

        def of(what, *path):
            for step in path:
                what = what.get(step, 0) if isinstance(what, dict) else what
            return what

        def more(*path):
            return of(after, *path) - of(before, *path)

        def slots(*names):
            return sum(more("slots", slot, name) for slot in after["slots"] for name in names)

        def agree(what, one, other):
            if one != other:
                wrong.append(f"{what}: {one}, and {other} are accounted for")

        arrived = more("wire", "tx", "packets")
        agree("frames that the other side sent", arrived, slots("rx_packets", *NOT_TAKEN) - slots("tx_to_slot") + more("awaited"))
        left = slots("tx_packets") - slots("tx_to_slot", "tx_to_host")
        agree("frames that slots sent", left, more("wire", "rx", "packets") + slots("tx_lost") + more("device", "tx", "dropped"))
        for name, slot in ((name, after["slot_of"][name]) for name in after["programs"]):
            link = lambda *counters: sum(more("programs", name, f"link_{counter}") for counter in counters)
            lost = {counter: more("slots", slot, counter) for counter in EARLY}
            lost |= {counter: link(counter) for counter in ("kernel_rx_dropped", "kernel_rx_ring_full")}
            lost |= {"not_put": more("not_put", name)}
            agree(f"frames for {name}", more("slots", slot, "rx_packets"), link("rx_frames") + sum(lost.values()))
            refused = {counter: more("slots", slot, counter) for counter in REFUSED}
            agree(f"frames that {name} sent", link("tx_frames", "tx_super_packets"),
                  more("slots", slot, "tx_packets") + sum(refused.values()))
            for counter, count in (lost | refused).items():
                self.named[f"{name} {counter}"] += count
        self.named["sender's wire"] += more("wire", "tx", "dropped")
        self.named["tx_lost"] += slots("tx_lost")
        self.frames += arrived + left
        return wrong

    def kernel_objects(self):
        """Kilobytes of the BPF maps, and the number of BPF programs, that daemon and programs hold."""
        maps, programs = {}, set()
        for program in self.programs.values():
            if not program.process or program.process.poll() is not None:
                continue
            folder = f"/proc/{program.process.pid}/fdinfo"
            for descriptor in os.listdir(folder):
                try:
                    fields = dict(re.findall(r"^(\w+):\s+(\S+)$", text_of(os.path.join(folder, descriptor)), re.M))
                except FileNotFoundError:
                    continue
                if "map_id" in fields:
                    maps[fields["map_id"]] = int(fields["memlock"])
                elif "prog_id" in fields:
                    programs.add(fields["prog_id"])
        return sum(maps.values()) // 1024, len(programs)

    def weigh(self, since):
        """Notes what everything has, when nothing that has ended is still being cleaned up."""
        if not wait_until(lambda: not self.top()["leftovers"]):
            return "what an ended program left is not gone"
        maps, programs = self.kernel_objects()
        slots = sum(name.startswith("xok") for name in self.interfaces("a"))
        extras = tuple(name for name in ("dump", "load") if self.is_running(name))
        resident = {name: self.programs[name].resident_kib() for name in GROWTH_MAX_KIB}
        descriptors = len(os.listdir(f"/proc/{self.programs['daemon'].process.pid}/fd"))
        self.memory.append((time.monotonic() - since, resident, (extras, maps, programs, slots, descriptors)))
        for name in GROWTH_MAX_KIB:
            program = self.programs[name]
            self.lives[name, program.starts].append((time.monotonic() - program.began, resident[name]))
        return ""

    def is_running(self, name):
        process = self.programs[name].process
        return process is not None and process.poll() is None

    # ---- rounds ----

    def kill_one(self, seconds):
        """One ends in the middle of traffic. What went wrong with those that have to be there again."""
        victim = self.random.choices(list(VICTIMS), list(VICTIMS.values()))[0]
        by = self.random.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
        clients = self.begin(seconds)
        time.sleep(self.random.uniform(0.2, seconds / 2))
        self.ends[victim] += 1
        again = []
        if victim in ("dump", "load"):
            if self.is_running(victim):
                self.programs[victim].end(by)
            else:
                again = [victim]
        elif victim != "nobody":
            self.programs[victim].end(signal.SIGKILL if victim == "daemon" else by)
            time.sleep(self.random.choice([0, 0.5]))
            again = [victim]
        wrong = [f"{name} does not start: {text_of(self.programs[name].err)[-300:]}"
                 for name in again if not self.programs[name].start()]
        self.finish(clients)
        if not wrong and not wait_until(self.is_answered):
            wrong = [self.unanswered]
        return [f"after the end of {victim} by {by.name}: {what}" for what in wrong]

    def watch(self, seconds):
        """Traffic in which nothing ends, and each frame of which is accounted for."""
        if self.is_running("load"):
            self.programs["load"].end(self.random.choice([signal.SIGKILL, signal.SIGTERM]))
        before = self.snapshot()
        self.finish(self.begin(seconds))
        return self.account(before, self.snapshot())

    def run(self, seconds):
        for name in ("behind", "echo", "daemon", "serve", "forward"):
            if not self.programs[name].start():
                return say(f"{name} starts", False, text_of(self.programs[name].err))
        began, rounds, lost, silent, left = time.monotonic(), 0, [], [], []
        while time.monotonic() - began < seconds or rounds < 2:
            silent += self.kill_one(self.random.choice([1, 2, 4]))
            if silent:
                break
            lost += self.watch(self.random.choice([1, 2, 3]))
            left += filter(None, [self.weigh(began)])
            rounds += 1
            if len(lost) > 5 or left:
                break
        ends = ", ".join(f"{count} {name}" for name, count in sorted(self.ends.items()))
        print(f"# {rounds} rounds in {time.monotonic() - began:.0f} s; ended: {ends}; {self.datagrams[1]} of {self.datagrams[0]} datagrams came back")
        say("everything is answered again after each end", not silent, silent)
        say("each frame arrives or is counted by name", not lost and self.frames > 0, lost or self.frames)
        say("nothing is left of what ended", not left, left)
        names = ", ".join(f"{name} {count}" for name, count in self.named.items() if count)
        print(f"# of {self.frames} frames were dropped: {names or 'none'}")
        if rounds > 2:
            self.judge(seconds)
        for name in ("serve", "forward"):
            if self.is_running(name):
                self.programs[name].end(signal.SIGTERM)
                say(f"{name} ends in order", self.programs[name].process.returncode == 0, text_of(self.programs[name].err)[-300:])

    def judge(self, seconds):
        """Memory of the first half after the warm-up against that of the second; of what the kernel holds, like with like."""
        warm = [entry for entry in self.memory if entry[0] >= min(WARM_UP_SECONDS, seconds / 4)]
        halves = warm[:len(warm) // 2], warm[len(warm) // 2:]
        if not all(halves):
            return
        for name, limit in GROWTH_MAX_KIB.items():
            most = [max(resident[name] for _, resident, _ in half) for half in halves]
            print(f"# memory of {name}: {most[0]} KiB at most, later {most[1]}; {self.programs[name].starts} starts")
            # A short soak is over before a table of connections has grown.
            if seconds > 4 * WARM_UP_SECONDS:
                say(f"memory of {name} does not grow", most[1] - most[0] <= limit, most)
                for (who, life), ages in self.lives.items():
                    old = [resident for age, resident in ages if age >= WARM_UP_SECONDS]
                    if who == name and len(old) > 4:
                        half = len(old) // 2
                        grown = max(old[half:]) - max(old[:half])
                        say(f"nor in its life number {life}, of {ages[-1][0]:.0f} s", grown <= limit, f"{grown} KiB")
        held = [collections.defaultdict(set) for _ in halves]
        for at, half in enumerate(halves):
            for _, _, (extras, *counts) in half:
                held[at][extras].add(tuple(counts))
        for extras in held[1]:
            later = [max(column) for column in zip(*held[1][extras])]
            earlier = [max(column) for column in zip(*held[0][extras])] if held[0][extras] else later
            what = "BPF maps (KiB), BPF programs, interfaces of slots, the daemon's descriptors"
            print(f"# {what}, {' and '.join(extras) or 'neither dump nor load'} running: {earlier}, later {later}")
            # The daemon has some descriptors more while it looks after what has ended.
            say(f"the kernel's memory does not grow with {' and '.join(extras) or 'neither'}",
                all(b <= a for a, b in zip(earlier[:3], later[:3])) and later[3] <= earlier[3] + DESCRIPTORS_MORE, f"{earlier}, later {later}")

    def end(self):
        for program in self.programs.values():
            program.end(signal.SIGKILL)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([EXOS, "daemon", "--namespace", f"exos-{LAB}-a", "--clean"], **quiet)


def echo(address, port):
    """Sends datagrams back."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((address, int(port)))
        print("echo", flush=True)
        while True:
            s.sendto(*s.recvfrom(2048))


def ask(address, port, seconds):
    """Sends datagrams, some 200 a second, and counts those that come back; one at least, five if none comes."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((address, int(port)))
        s.settimeout(0.2)
        sent = back = 0
        until = time.monotonic() + float(seconds)
        while time.monotonic() < until or sent < 5 and not back:
            s.send(b"%d" % sent)
            sent += 1
            try:
                back += s.recv(2048) != b""
                time.sleep(0.005)
            except OSError:
                pass
    print("datagrams", sent, back)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    seconds, seed = float(sys.argv[2]), int(sys.argv[3])
    print(f"# seed {seed}")
    folder, soak = tempfile.mkdtemp(), None
    try:
        subprocess.run([EXOS, "lab", "up", "--name", LAB, "--wire", "offload"], check=True, stdout=subprocess.DEVNULL)
        # What the host of the programs' side says by itself is counted by nobody.
        subprocess.run(["ip", "netns", "exec", f"exos-{LAB}-a", "sysctl", "-qw", "net.ipv6.conf.wire.disable_ipv6=1"], check=True)
        soak = Soak(folder, seed)
        soak.run(seconds)
    finally:
        if soak:
            soak.end()
        subprocess.run([EXOS, "lab", "down", "--name", LAB], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)


if sys.argv[1] == "echo":
    echo(*sys.argv[2:])
elif sys.argv[1] == "ask":
    ask(*sys.argv[2:])
else:
    EXOS = os.path.realpath(sys.argv[1])
    main()
    sys.exit(failed())
