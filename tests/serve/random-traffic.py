#!/usr/bin/env python3
"""Clients that speak TCP by hand and at random to a running `exos serve`; see random-traffic.sh.

    random-traffic.py INTERFACE SEED CONNECTIONS RESULTS     plays connections, and writes what each received
    random-traffic.py compare RESULTS RESULTS                prints "ok NAME" or "not ok NAME: why" lines

What a client asks for, how it cuts that into segments, when it ends: all is drawn from the seed, so two servers are asked alike. On the way
frames are lost, doubled, damaged and late; but none comes behind the end of its connection, where a server that keeps nothing of those cannot
know it. The server answers for 10.10.0.10 and has small.txt, other.txt and middle.bin.
"""

import heapq
import json
import random
import re
import select
import socket
import struct
import sys
import time

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
# Clients that wait for the end, whose log is compared, and those that reset.
PEER, RESETS = "10.10.0.77", "10.10.0.78"
AT_ONCE = 40
# How long a connection may take, lost frames and all.
SECONDS_MAX = 70
MSS = 1400


# How often each is drawn.
KINDS = {"small": 30, "other": 10, "head": 8, "conditional": 8, "part": 4, "middle": 4, "none": 4, "post": 2, "long": 2, "old": 4, "bad": 2}


def request_of(kind, closes):
    """A request as bytes, whether it is for a head alone, and whether its response is the last."""
    last = b"Connection: close\r\n" if closes else b""
    host = b"Host: x\r\n"
    get = {
        "small": b"GET /small.txt HTTP/1.1\r\n" + host,
        "other": b"GET /other.txt HTTP/1.1\r\n" + host + b"User-Agent: random\r\nAccept: */*\r\n",
        "head": b"HEAD /small.txt HTTP/1.1\r\n" + host,
        "conditional": b"GET /small.txt HTTP/1.1\r\n" + host + b"If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n",
        "part": b"GET /small.txt HTTP/1.1\r\n" + host + b"Range: bytes=2-4\r\n",
        "middle": b"GET /middle.bin HTTP/1.1\r\n" + host,
        "none": b"GET /none HTTP/1.1\r\n" + host,
        "post": b"POST /small.txt HTTP/1.1\r\n" + host + b"Content-Length: 5\r\n",
        "long": b"GET /small.txt HTTP/1.1\r\n" + host + b"X-Long: " + b"y" * 700 + b"\r\n",
        "old": b"GET /small.txt HTTP/1.0\r\n",
        "bad": b"GET /small.txt HTTP/1.1\r\nno field\r\n",
    }[kind]
    body = b"12345" if kind == "post" else b""
    return get + last + b"\r\n" + body, kind == "head", closes or kind in ("old", "bad")


def ask_all():
    """Each request once, by the kernel's TCP and one at a time, so that a kernel that answers such requests comes to know them."""
    for kind in KINDS:
        for closes in (False, True):
            with socket.create_connection((frames.SERVER, 80), 60) as connection:
                connection.sendall(request_of(kind, closes)[0])
                connection.recv(1)


class Plan:
    """What a client does, but for the wire."""

    def __init__(self, seed, number):
        draw = random.Random(f"{seed} {number}")
        self.options = draw.choices(["linux", "bare", "odd", "short"], [60, 25, 10, 5])[0]
        self.requests, self.heads = [], []
        count = draw.choices([1, 2, 3, 6, 12], [30, 20, 20, 20, 10])[0]
        for at in range(count):
            closes = at == count - 1 and draw.random() < 0.5
            kind = draw.choices(list(KINDS), KINDS.values())[0]
            text, is_head, is_last = request_of(kind, closes)
            self.requests.append(text)
            self.heads.append(is_head)
            if is_last:
                break
        self.server_ends = is_last
        # How many responses it waits for before it sends the next request: all, or it sends all at once, or something between.
        self.ahead = draw.choices([0, 1, 100], [60, 20, 20])[0]
        self.cuts = draw.choices(["requests", "random", "merged"], [65, 20, 15])[0]
        self.resets_after = draw.randrange(len(self.requests) + 1) if draw.random() < 0.15 else None
        self.fin_rides = draw.random() < 0.3
        self.window = draw.choices([65535, 3000, 300], [85, 10, 5])[0]
        self.is_bad_wire = draw.random() < 0.6
        self.probes = draw.random() < 0.1
        self.seed = draw.random()


class Client:
    """One connection, from its SYN to its end."""

    def __init__(self, wire, number, plan):
        self.wire, self.plan = wire, plan
        self.draw = random.Random(plan.seed)
        self.port = 20000 + number
        self.peer = PEER if plan.resets_after is None else RESETS
        self.iss = self.draw.randrange(1 << 32)
        self.out = b""           # All that was given to send so far.
        self.given = 0           # Requests of it.
        self.sent = self.acked = 0
        self.fin_given = False
        self.irs = None
        self.stream, self.early = b"", {}
        self.responses = self.parsed = 0
        self.server_finished = False
        self.end = None
        self.stamp = self.draw.randrange(1 << 31)
        self.echo = 0
        self.old = []
        self.retry, self.retry_at = 0.25, None
        self.begun = time.monotonic()
        self.send_syn()

    # What leaves.

    def stamps(self):
        now = (self.stamp + int(time.monotonic() * 1000)) & 0xFFFFFFFF
        return struct.pack("!BBBBII", 1, 1, 8, 10, now, self.echo)

    def segment(self, flags, at, data=b"", damage=False):
        """At this place of what is sent, of which the SYN is before the first byte."""
        option = b""
        if flags & SYN:
            mss = struct.pack("!BBH", 2, 4, 536 if self.plan.options == "short" else 1460)
            option = {
                "linux": mss + struct.pack("!BBBBIIBBBB", 4, 2, 8, 10, self.stamp, 0, 1, 3, 3, 7),
                "odd": mss + struct.pack("!BBBB", 1, 3, 3, 7),
            }.get(self.plan.options, mss)
        elif self.plan.options == "linux":
            option = self.stamps()
        window = self.plan.window >> 7 if self.plan.options in ("linux", "odd") and not flags & SYN else self.plan.window
        ack = 0 if self.irs is None else (self.irs + 1 + len(self.stream) + self.server_finished) & 0xFFFFFFFF
        seq = (self.iss + at) & 0xFFFFFFFF
        bytes_ = frames.tcp(self.port, flags, seq, ack, option + data, 5 + len(option) // 4, src=self.peer, window=max(window, 1))
        if damage:
            at = self.draw.randrange(13, len(bytes_))
            bytes_ = bytes_[:at] + bytes([bytes_[at] ^ 1 << self.draw.randrange(8)]) + bytes_[at + 1:]
        return frames.ip4(6, bytes_, self.peer)

    def send(self, frame):
        """Through the wire of this client."""
        if not self.plan.is_bad_wire:
            return frames.send([frame])
        fate = self.draw.random()
        if fate < 0.06:
            return None
        frames.send([frame])
        if fate < 0.12:
            self.wire.later(self.draw.uniform(0, 0.08), lambda: self.end or frames.send([frame]))
        elif fate < 0.14:
            self.old.append(frame)
        elif fate < 0.16 and self.old:
            frames.send([self.draw.choice(self.old)])
        return None

    def send_late(self, frame):
        if self.plan.is_bad_wire and self.draw.random() < 0.06:
            self.wire.later(self.draw.uniform(0, 0.05), lambda: self.end or self.send(frame))
        else:
            self.send(frame)

    def send_syn(self):
        self.send(self.segment(SYN, 0))
        self.arm()

    def arm(self):
        at = self.retry_at = time.monotonic() + self.retry
        self.wire.later(self.retry, lambda: self.expire(at))

    def expire(self, at):
        """What nobody has acknowledged goes again, cut in another way perhaps."""
        if self.end or at != self.retry_at:
            return
        self.retry_at = None
        self.retry = min(self.retry * 1.5, 1.5)
        if self.irs is None:
            self.send_syn()
        elif self.acked < self.whole():
            self.sent = self.acked
            self.push(self.draw.random() < 0.4)

    def whole(self):
        return len(self.out) + self.fin_given

    def acknowledge(self):
        self.send(self.segment(ACK, 1 + min(self.sent, self.whole())))

    def give(self):
        """Takes up what it is time for."""
        plan = self.plan
        while self.given < len(plan.requests) and self.given <= self.responses + plan.ahead:
            self.out += plan.requests[self.given]
            self.given += 1
        is_all = self.given == len(plan.requests)
        if is_all and plan.resets_after is None and (self.server_finished or (not plan.server_ends and (
                plan.fin_rides or self.responses == len(plan.requests)))):
            self.fin_given = True

    def push(self, merged=False):
        """Sends what was not sent."""
        self.give()
        while self.sent < self.whole():
            begin = min(self.sent, len(self.out))
            end = self.cut(begin, merged)
            data = self.out[begin:end]
            flags = ACK | (PSH if data else 0)
            is_last = end == len(self.out) and self.fin_given
            flags |= FIN if is_last and (self.plan.fin_rides or not data) else 0
            if self.plan.is_bad_wire and self.draw.random() < 0.04:
                frames.send([self.segment(flags, 1 + begin, data, damage=True)])
            self.send_late(self.segment(flags, 1 + begin, data))
            self.sent = end + bool(flags & FIN)
        if self.acked < self.whole() and self.retry_at is None:
            self.arm()

    def cut(self, begin, merged):
        """Where the segment that begins there ends."""
        most = min(len(self.out), begin + (530 if self.plan.options == "short" else MSS))
        if merged or self.plan.cuts == "merged":
            return most
        if self.plan.cuts == "random":
            return min(most, begin + self.draw.randrange(1, 200))
        at = 0
        for text in self.plan.requests:
            at += len(text)
            if at > begin:
                return min(most, at)
        return most

    # What comes.

    def arrive(self, frame):
        if self.plan.is_bad_wire and self.draw.random() < 0.06:
            return
        end = 14 + struct.unpack("!H", frame[16:18])[0]
        seq, ack, offset, flags = struct.unpack("!IIBB", frame[38:48])
        options, data = frame[54:34 + (offset >> 4) * 4], frame[34 + (offset >> 4) * 4:end]
        if self.end:
            # It acknowledges for a while what comes again.
            if self.end == "fin" and (data or flags & FIN):
                self.acknowledge()
            return
        if flags & RST:
            self.end = "reset"
            return
        if flags & SYN:
            if self.irs is None and ack == (self.iss + 1) & 0xFFFFFFFF:
                self.irs = seq
                self.keep_echo(options)
                self.retry, self.retry_at = 0.25, None
                self.acknowledge()
                self.push()
            return
        if self.irs is None:
            return
        acked = (ack - self.iss - 1) & 0xFFFFFFFF
        if self.acked < acked <= self.whole():
            self.acked, self.sent = acked, max(self.sent, acked)
            self.retry, self.retry_at = 0.25, None
            if self.acked < self.whole():
                self.arm()
        at = (seq - self.irs - 1) & 0xFFFFFFFF
        if at < 1 << 31 and (data or flags & FIN):
            self.early[at] = max(self.early.get(at, (b"", 0)), (data, flags & FIN))
        if data or flags & FIN:
            self.take(options)

    def keep_echo(self, options):
        if options[:4] == b"\1\1\x08\x0a":
            self.echo = struct.unpack("!I", options[4:8])[0]
        elif (place := options.find(b"\x08\x0a")) >= 0 and self.plan.options == "linux":
            self.echo = struct.unpack("!I", options[place + 2:place + 6])[0]

    def take(self, options):
        before = len(self.stream)
        for at in sorted(self.early):
            data, fin = self.early[at]
            if at > len(self.stream):
                break
            self.stream += data[len(self.stream) - at:]
            self.server_finished |= bool(fin) and at + len(data) == len(self.stream)
            del self.early[at]
        if len(self.stream) > before:
            self.keep_echo(options)
        self.parse()
        plan = self.plan
        if plan.resets_after is not None and self.responses >= plan.resets_after:
            self.send(self.segment(RST | ACK, 1 + self.sent))
            self.end = "reset by us"
            return
        before = self.sent
        self.push()
        if self.sent == before:
            self.acknowledge()
            if plan.probes and self.draw.random() < 0.3:
                self.send(self.segment(ACK, self.acked, b"" if self.draw.random() < 0.5 else b"?"))
        if self.server_finished and self.fin_given and self.acked == self.whole():
            self.end = "fin"

    def parse(self):
        while self.responses < len(self.plan.heads):
            end = self.stream.find(b"\r\n\r\n", self.parsed)
            if end < 0:
                return
            head = self.stream[self.parsed:end + 4]
            length = re.search(rb"Content-Length: (\d+)", head)
            has_none = self.plan.heads[self.responses] or b" 304 " in head[:15]
            whole = end + 4 + (0 if has_none or not length else int(length[1]))
            if whole > len(self.stream):
                return
            self.parsed, self.responses = whole, self.responses + 1

    def look(self):
        """News that nothing has brought: the end is acknowledged."""
        if not self.end and self.server_finished and self.fin_given and self.acked == self.whole():
            self.end = "fin"
        if not self.end and time.monotonic() > self.begun + SECONDS_MAX:
            self.end = "nothing"

    def result(self):
        stream = re.sub(rb"\r\nDate: [^\r]*", b"\r\nDate:", self.stream)
        if self.plan.resets_after is not None:
            # What comes of the rest depends on who is faster.
            places = [0] + [found.start() for found in re.finditer(rb"HTTP/1.1 ", stream)]
            wanted = self.plan.resets_after
            stream = stream[:places[wanted + 1] if wanted + 1 < len(places) else len(stream)]
            self.responses = wanted
        return [self.end, self.responses, stream.decode("latin-1"), repr(vars(self.plan))]


class Wire:
    """All connections and their timers."""

    def __init__(self):
        self.timers, self.count = [], 0

    def later(self, seconds, what):
        self.count += 1
        heapq.heappush(self.timers, (time.monotonic() + seconds, self.count, what))

    def play(self, plans):
        clients, waiting, ended = {}, list(enumerate(plans)), {}
        frames.raw.setblocking(False)
        linger = None
        while waiting or clients or time.monotonic() < linger:
            while waiting and len(clients) < AT_ONCE:
                number, plan = waiting.pop(0)
                client = Client(self, number, plan)
                clients[client.port] = client
            self.receive(clients, ended)
            now = time.monotonic()
            while self.timers and self.timers[0][0] <= now:
                heapq.heappop(self.timers)[2]()
            for port in list(clients):
                clients[port].look()
                if clients[port].end:
                    ended[port] = clients.pop(port)
            # For a while more, so that the server hears of all ends.
            linger = linger or (None if waiting or clients else now + 3)
        return [ended[port].result() for port in sorted(ended)]

    def receive(self, clients, ended):
        wait = self.timers[0][0] - time.monotonic() if self.timers else 0.1
        if not select.select([frames.raw], [], [], max(0, min(wait, 0.1)))[0]:
            return
        for _ in range(64):
            try:
                frame = frames.raw.recv(65600)
            except BlockingIOError:
                return
            for peer in (PEER, RESETS):
                if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\1" and frame[38:42] == frames.v4(peer):
                    reply = frames.arp(2, frames.MAC, peer, frames.SERVER)
                    frames.send([frame[6:12] + reply[6:32] + frame[22:28] + reply[38:]])
            if frame[12:14] == b"\x08\0" and frame[23] == 6 and frame[26:30] == frames.v4(frames.SERVER):
                port = struct.unpack("!H", frame[36:38])[0]
                client = clients.get(port) or ended.get(port)
                if client and frame[30:34] == frames.v4(client.peer):
                    client.arrive(frame)


def compare(one, other):
    from common import failed, say
    one, other = (json.load(open(path)) for path in (one, other))
    say("as many connections", len(one) == len(other), (len(one), len(other)))
    for number, (left, right) in enumerate(zip(one, other)):
        if left[:3] != right[:3]:
            say(f"connection {number} receives the same", False, f"\n{left[:3]}\n{right[:3]}\n{left[3]}")
    say("all come to an end", all(result[0] in ("fin", "reset by us") for result in one + other),
        [number for results in (one, other) for number, result in enumerate(results) if result[0] not in ("fin", "reset by us")])
    if not failed():
        say(f"{len(one)} connections receive the same, byte for byte", True)
    sys.exit(failed())


if sys.argv[1] == "compare":
    compare(*sys.argv[2:])
import frames  # noqa: E402: it opens the interface.
seed, connections = sys.argv[2], int(sys.argv[3])
frames.find_server()
ask_all()
results = Wire().play([Plan(seed, number) for number in range(connections)])
with open(sys.argv[4], "w") as file:
    json.dump(results, file)
