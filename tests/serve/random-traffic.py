#!/usr/bin/env python3
"""Clients that speak TCP by hand and at random to a running `exos serve`; see random-traffic.sh.

    random-traffic.py INTERFACE SEED CONNECTIONS FOLDER RESULTS     plays connections, and writes what each received
    random-traffic.py compare RESULTS RESULTS                prints "ok NAME" or "not ok NAME: why" lines

What a client asks for, how it cuts that into segments, when it ends: all is drawn from the seed (plans.py), so two servers are asked alike.
On bad wires frames are lost, doubled, damaged and late; but none comes behind the end of its connection, where a server that keeps nothing of
those cannot know it, and of a connection each may come by another queue. On the others nothing is, so no client may have to send anything again, however far away it is. The server answers for
10.10.0.10 and fd10::10, and has small.txt, other.txt, middle.bin and pages of these bytes in FOLDER, and changing.txt, which is replaced all the time: each
response has to be one version of it.
"""

import heapq
import json
import os
import random
import re
import select
import socket
import struct
import sys
import threading
import time

from plans import CHANGING, KINDS, PAGES, Plan, request_of

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
ECE_CWR = 0xC0
# Whose segments have timestamps.
STAMPED = ("linux", "apple")
# Clients that wait for the end, whose log is compared, and those that reset.
PEERS = {False: ("10.10.0.77", "10.10.0.78"), True: ("fd10::77", "fd10::78")}
ALL_PEERS = [peer for both in PEERS.values() for peer in both]
# When a client sends again: soon where frames are lost, and where none is so late that it shows.
RETRY, RETRY_GOOD = 0.25, 20
AT_ONCE = 40
# How long a connection may take, lost frames and all.
SECONDS_MAX = 70
# How a connection ends whose FIN comes again when its slot in the kernel is another's.
LATE_RESET = "reset behind all"
MSS = 1400
PROCESSORS = sorted(os.sched_getaffinity(0))


def ask_all():
    """Each request once, by the kernel's TCP and one at a time, so that a kernel that answers such requests comes to know them."""
    for kind in KINDS:
        for closes in (False, True):
            ask(request_of(kind, closes, random.Random(kind))[0])
    return {bytes_: tag_of(bytes_) for bytes_ in PAGES}


def tag_of(bytes_):
    """The entity tag of a page, which is asked for as the random clients do."""
    answer = ask(b"GET /page-%d.txt HTTP/1.1\r\nHost: x\r\n\r\n" % bytes_)
    return re.search(rb"\r\nETag: ([^\r]*)", answer)[1]


def ask(request):
    with socket.create_connection((frames.SERVER, 80), 60) as connection:
        connection.sendall(request)
        return connection.recv(4096)


def content_of(version):
    """Of changing.txt: each is longer than the one before, or much shorter."""
    return f"version {version}\n".encode() * (version % 50 + 1)


def change(folder):
    """Replaces changing.txt, until the program ends."""
    path = os.path.join(folder, "changing.txt")
    version = 0
    while True:
        version += 1
        with open(path + ".new", "wb") as file:
            file.write(content_of(version))
        os.rename(path + ".new", path)
        time.sleep(0.11)


def as_changing(response):
    """A response about changing.txt as one of any other version is, if it is of one; else all of it."""
    head, body = response.split(b"\r\n\r\n", 1)
    version = re.match(rb"version (\d+)\n", body)
    if not version or body != content_of(int(version[1])):
        return response
    return re.sub(rb"\r\n(Content-Length|ETag|Last-Modified): [^\r]*", rb"\r\n\1:", head) + b"\r\n\r\n" + b"a version\n"


class Client:
    """One connection, from its SYN to its end."""

    def __init__(self, wire, number, plan):
        self.wire, self.plan = wire, plan
        self.draw = random.Random(plan.seed)
        self.port = 20000 + number
        self.peer = PEERS[plan.six][plan.resets_after is not None]
        self.iss = self.draw.randrange(1 << 32)
        self.out = b""           # All that was given to send so far.
        self.given = 0           # Requests of it.
        self.sent = self.acked = 0
        self.fin_given = False
        self.irs = None
        self.scale = 0
        self.stream, self.early = b"", {}
        self.responses = self.parsed = 0
        self.ends = [0]          # Of responses in the stream.
        self.server_finished = False
        self.end = None
        self.stamp = self.draw.randrange(1 << 31)
        self.echo = 0
        self.old = []
        self.first_retry = RETRY if plan.is_bad_wire else RETRY_GOOD
        self.retry, self.retry_at = self.first_retry, None
        self.expired = 0
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
                "apple": mss + struct.pack("!BBBBBBBBIIBBBB", 1, 3, 3, 7, 1, 1, 8, 10, self.stamp, 0, 4, 2, 0, 0),
                "windows": mss + struct.pack("!BBBBBBBB", 1, 3, 3, 8, 1, 1, 4, 2),
            }.get(self.plan.options, mss)
            flags |= ECE_CWR if self.plan.options == "apple" else 0
        elif self.plan.options in STAMPED:
            option = self.stamps()
        window = self.plan.window if flags & SYN else self.plan.window >> self.scale
        ack = 0 if self.irs is None else (self.irs + 1 + len(self.stream) + self.server_finished) & 0xFFFFFFFF
        seq = (self.iss + at) & 0xFFFFFFFF
        bytes_ = frames.tcp(self.port, flags, seq, ack, option + data, 5 + len(option) // 4, src=self.peer, window=max(window, 1))
        if damage:
            at = self.draw.randrange(13, len(bytes_))
            bytes_ = bytes_[:at] + bytes([bytes_[at] ^ 1 << self.draw.randrange(8)]) + bytes_[at + 1:]
        return frames.ip6(6, bytes_, src=self.peer) if self.plan.six else frames.ip4(6, bytes_, self.peer)

    def send(self, frame):
        """Through the wire of this client."""
        if not self.plan.is_bad_wire:
            return self.wire.later(self.plan.delay, lambda: frames.send([frame])) if self.plan.delay else frames.send([frame])
        fate = self.draw.random()
        if fate < 0.06:
            return None
        if fate > 0.8:
            os.sched_setaffinity(0, {random.choice(PROCESSORS)})
        if 0.14 <= fate < 0.16 and self.old:
            # Before: the frame may be the last of the connection.
            frames.send([self.draw.choice(self.old)])
        frames.send([frame])
        if fate < 0.12:
            self.wire.later(self.draw.uniform(0, 0.08), lambda: self.end or frames.send([frame]))
        elif fate < 0.14:
            self.old.append(frame)
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
        self.expired += 1
        self.retry = max(self.first_retry, min(self.retry * 1.5, 1.5))
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

    def arrive(self, segment):
        if self.plan.is_bad_wire and self.draw.random() < 0.06:
            return
        if self.plan.delay:
            self.wire.later(self.plan.delay, lambda: self.take_in(segment))
        else:
            self.take_in(segment)

    def take_in(self, segment):
        seq, ack, flags, options, data = segment.seq, segment.ack, segment.flags, segment.options, segment.data
        if self.end:
            # It acknowledges for a while what comes again.
            if self.end == "fin" and (data or flags & FIN):
                self.acknowledge()
            return
        if flags & RST:
            # Behind all of the stream, where it is only the acknowledgement of its FIN that it waits for: the server's TIME-WAIT has gone.
            self.end = LATE_RESET if self.server_finished and self.fin_given else "reset"
            return
        if flags & SYN:
            if self.irs is None and ack == (self.iss + 1) & 0xFFFFFFFF:
                self.irs = seq
                # It scales if the server does.
                self.scale = (8 if self.plan.options == "windows" else 7) if b"\1\3\3" in options else 0
                self.keep_echo(options)
                self.retry, self.retry_at = self.first_retry, None
                self.acknowledge()
                self.push()
            return
        if self.irs is None:
            return
        acked = (ack - self.iss - 1) & 0xFFFFFFFF
        if self.acked < acked <= self.whole():
            self.acked, self.sent = acked, max(self.sent, acked)
            self.retry, self.retry_at = self.first_retry, None
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
        elif (place := options.find(b"\x08\x0a")) >= 0 and self.plan.options in STAMPED:
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
            self.ends.append(whole)

    def look(self):
        """News that nothing has brought: the end is acknowledged."""
        if not self.end and self.server_finished and self.fin_given and self.acked == self.whole():
            self.end = "fin"
        if not self.end and time.monotonic() > self.begun + SECONDS_MAX:
            self.end = "nothing"

    def result(self):
        stream = b""
        for number, (begin, end) in enumerate(zip(self.ends, self.ends[1:])):
            is_changing = self.plan.requests[number].startswith(CHANGING)
            stream += as_changing(self.stream[begin:end]) if is_changing else self.stream[begin:end]
        stream += self.stream[self.parsed:]
        stream = re.sub(rb"\r\nDate: [^\r]*", b"\r\nDate:", stream)
        if self.plan.resets_after is not None:
            # What comes of the rest depends on who is faster.
            places = [0] + [found.start() for found in re.finditer(rb"HTTP/1.1 ", stream)]
            wanted = self.plan.resets_after
            stream = stream[:places[wanted + 1] if wanted + 1 < len(places) else len(stream)]
            self.responses = wanted
        return [self.end, self.responses, stream.decode("latin-1"), repr(vars(self.plan)), self.plan.is_bad_wire, self.expired]


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
        # SOL_PACKET, PACKET_QDISC_BYPASS: frames go by the queue of the processor.
        frames.raw.setsockopt(263, 20, 1)
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
            # For a while more, so that the server hears of all ends, also where it has to ask.
            linger = linger or (None if waiting or clients else now + 6)
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
            frames.answer_neighbour(frame, ALL_PEERS)
            peer, port, segment = frames.segment_of(frame) or (None, None, None)
            client = clients.get(port) or ended.get(port)
            if client and client.peer == peer:
                client.arrive(segment)


def compare(one, other):
    from common import failed, say
    one, other = (json.load(open(path)) for path in (one, other))
    say("as many connections", len(one) == len(other), (len(one), len(other)))
    # On bad wires a FIN may come again when another connection has its slot: hardly one in a thousand.
    late = [number for number, (left, right) in enumerate(zip(one, other)) if left[4] and (left[0], right[0]) == ("fin", LATE_RESET)]
    say("hardly any is reset behind all that it received", len(late) <= max(1, len(other) // 1000), late)
    for number in late:
        other[number][0] = "fin"
    for number, (left, right) in enumerate(zip(one, other)):
        if left[:3] != right[:3]:
            say(f"connection {number} receives the same", False, f"\n{left[:3]}\n{right[:3]}\n{left[3]}")
    say("all come to an end", all(result[0] in ("fin", "reset by us") for result in one + other),
        [number for results in (one, other) for number, result in enumerate(results) if result[0] not in ("fin", "reset by us")])
    for name, results in (("without", one), ("in the kernel", other)):
        # As many as a busy machine may lose frames of.
        again = [number for number, result in enumerate(results) if not result[4] and result[5]]
        say(f"{name}, clients on good wires do not have to send again", len(again) <= len(results) // 100, again)
    if not failed():
        say(f"{len(one)} connections receive the same, byte for byte", True)
    sys.exit(failed())


if sys.argv[1] == "compare":
    compare(*sys.argv[2:])
import frames  # noqa: E402: it opens the interface.
seed, connections = sys.argv[2], int(sys.argv[3])
threading.Thread(target=change, args=[sys.argv[4]], daemon=True).start()
frames.find_server()
tags = ask_all()
results = Wire().play([Plan(seed, number, tags) for number in range(connections)])
with open(sys.argv[5], "w") as file:
    json.dump(results, file)
