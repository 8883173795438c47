#!/usr/bin/env python3
"""A peer that speaks TCP by hand to a running `exos serve`: what no kernel does on a lab's wire, but others do; see hostile.sh.

    segments.py INTERFACE PID STATISTICS-FILE [daemon|in-kernel|daemon-in-kernel]

The server answers for 10.10.0.10 and fd10::10, serves small.txt (100 bytes) and middle.bin (50,000 bytes), and appends a line
of statistics to the file for each SIGUSR1. The peer has addresses of its own, of which the kernel knows nothing. Prints "ok NAME" or "not ok NAME: why" lines; ends with 1 when one
was not ok.
"""

import socket
import struct
import sys
import time

import frames
from common import PATIENCE, failed, say, statistics_of
from frames import (PEER, PEER6, SERVER6, answer_neighbour, checksum, find_server, ip4, ip6, segment_for, send, tcp, v6)

PID, STATISTICS = int(sys.argv[2]), sys.argv[3]
# The kernel answers SYNs with cookies, which keep one MSS out of eight: the next below.
IN_KERNEL = sys.argv[4:] in (["in-kernel"], ["daemon-in-kernel"])
# How long the first of two fragments is: with all of TCP's header, and with what it has to have of that.
CUTS = (40, 24)
FIN, SYN, ACK = 1, 2, 16
next_port = 20000


class Connection:
    """One that this peer has opened. `mss` is what it says to take, if it says anything."""

    def __init__(self, six=False, mss=None):
        global next_port
        next_port += 1
        self.port, self.six, self.source = next_port, six, PEER6 if six else PEER
        self.seq, self.received, self.longest, self.segments, self.finished = 1000, b"", 0, 0, False
        option = b"" if mss is None else struct.pack("!BBH", 2, 4, mss)
        syn = tcp(self.port, SYN, seq=self.seq, data=option, offset=5 + len(option) // 4, src=self.source, window=65535)
        self.seq += 1
        # Whatever is lost on the way to learning each other's link address is sent again.
        until = time.monotonic() + PATIENCE
        answer = None
        while not (answer and answer.flags & SYN):
            if time.monotonic() > until:
                raise TimeoutError("no answer to a SYN")
            send([self.packet(syn)])
            answer = self.next_segment(1)
        self.expected = answer.seq + 1
        self.acknowledge()

    def packet(self, segment):
        return ip6(6, segment, src=PEER6) if self.six else ip4(6, segment, src=PEER)

    def acknowledge(self):
        send([self.packet(tcp(self.port, ACK, self.seq, self.expected & 0xFFFFFFFF, src=self.source, window=65535))])

    def next_segment(self, seconds=PATIENCE):
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            frames.raw.settimeout(left)
            try:
                frame = frames.raw.recv(65600)
            except socket.timeout:
                return None
            answer_neighbour(frame)
            if segment := segment_for(frame, self.port, self.six):
                return segment
        return None

    def request(self, path, closes=True):
        """A segment that asks for a document."""
        last = "Connection: close\r\n" if closes else ""
        text = f"GET {path} HTTP/1.1\r\nHost: x\r\n{last}\r\n".encode()
        segment = tcp(self.port, ACK | 8, self.seq, self.expected & 0xFFFFFFFF, text, src=self.source, window=65535)
        self.seq += len(text)
        return segment

    def receive(self, until=PATIENCE, content=None):
        """Everything up to the FIN, or of one response to the end of this much content, acknowledged; what comes early is left to be sent
        again. False when nothing comes."""
        while not self.finished and (content is None or len(self.received.partition(b"\r\n\r\n")[2]) < content):
            segment = self.next_segment(until)
            if segment is None:
                return False
            self.longest = max(self.longest, len(segment.data))
            self.segments += len(segment.data) > 0
            if segment.seq == self.expected & 0xFFFFFFFF:
                self.received += segment.data
                self.expected += len(segment.data)
                if segment.flags & FIN:
                    self.finished, self.expected = True, self.expected + 1
            self.acknowledge()
        return True

    def finish(self):
        send([self.packet(tcp(self.port, FIN | ACK, self.seq, self.expected & 0xFFFFFFFF, src=self.source))])


def fetch(connection, path, packets, size):
    """Whether a document of this size comes for a request that leaves as these packets."""
    send(packets)
    came = connection.receive()
    connection.finish()
    head, _, body = connection.received.partition(b"\r\n\r\n")
    return came and b" 200 " in head and len(body) == size


def short_segments():
    """Peers that take short segments only get data, in segments as short as that, of which none is lost on the way."""
    def sent_again():
        return statistics_of(PID, STATISTICS)["tcp_segments_retransmitted"]

    for six in (False, True):
        for mss in (100, 255, 256, 536):
            # A loaded machine may be late with some acknowledgements, but not each time with many.
            for _ in range(3):
                connection, before = Connection(six, mss), sent_again()
                whole = fetch(connection, "/middle.bin", [connection.packet(connection.request("/middle.bin"))], 50_000)
                again = sent_again() - before
                if again < connection.segments / 4:
                    break
            fits = 0 < connection.longest <= mss if IN_KERNEL else connection.longest == mss
            say(f"a peer with an MSS of {mss} gets a document, {'IPv6' if six else 'IPv4'}",
                whole and fits and again < connection.segments / 4,
                f"{len(connection.received)} bytes, {connection.longest} the longest of {connection.segments}, {again} again")


def fragments(connection, segment, cut=40):
    """The segment in two fragments, the first of this many bytes: with 40 it has the whole header."""
    first, second = segment[:cut], segment[cut:]
    ident = connection.port
    if not connection.six:
        return [ip4(6, first, PEER, ident, 0x2000), ip4(6, second, PEER, ident, cut // 8)]
    headers = [struct.pack("!BBHI", 6, 0, offset, ident) for offset in (1, cut)]
    return [ip6(44, header + part, src=PEER6) for header, part in zip(headers, (first, second))]


def fragmented_segments():
    """A request in a segment that comes in two fragments is answered, whichever is first."""
    for six in (False, True):
        for order, name in ((1, "in order"), (-1, "the later one first")):
            connection = Connection(six)
            packets = fragments(connection, connection.request("/small.txt"))[::order]
            say(f"a segment in two fragments is answered, {name}, {'IPv6' if six else 'IPv4'}",
                fetch(connection, "/small.txt", packets, 100), connection.received)


def fragments_in_mid_connection():
    """A connection on which requests were answered goes on with one in fragments, and with whole segments behind that."""
    def answered(connection, path, size, send_it):
        connection.received = b""
        send_it(connection.request(path, closes=False))
        return connection.receive(content=size) and b" 200 " in connection.received

    for six in (False, True):
        for cut in CUTS:
            # The second is answered by the kernel where it can be: it knows what was answered a second ago.
            for _ in range(2):
                connection = Connection(six)
                whole = lambda segment: send([connection.packet(segment)])
                came = [answered(connection, "/small.txt", 100, whole)]
                time.sleep(1.5)
            cutting = lambda segment: send(fragments(connection, segment, cut))
            came.append(answered(connection, "/middle.bin", 50_000, cutting))
            came += [answered(connection, "/small.txt", 100, whole) for _ in range(2)]
            connection.finish()
            say(f"a connection goes on with fragments, the first of {cut} bytes, {'IPv6' if six else 'IPv4'}", all(came), came)


find_server()
short_segments()
fragmented_segments()
fragments_in_mid_connection()
sys.exit(failed())
