#!/usr/bin/env python3
"""Clients of `exos serve --in-kernel` over IPv4 and IPv6 that curl is not: what they do with connections that the kernel has, and what
becomes of those when the server ends; see in-kernel.sh.

    in-kernel.py INTERFACE PORT

The one that speaks by hand does so from this port.

At the end two of each family are the kernel's. One has its response, the other speaks by hand and acknowledges nothing; where the server
has two queues, the answer to who has its address comes by the other one, whose core has no connection any more. Says "ready" when all
responses have come; then waits for the ends. Prints "ok NAME" or "not ok NAME: why" lines.
"""

import os
import socket
import struct
import sys
import time

import frames
from common import PATIENCE, failed, say
from frames import PEER, PEER6, SERVER, SERVER6, answer_neighbour, find_server, ip4, ip6, segment_for, send, tcp

PORT, SYN, RST, PSH, ACK = int(sys.argv[2]), 2, 4, 8, 16
# On a veth a response is longer than its request by some 250 bytes at most.
REQUEST = b"GET /small.txt HTTP/1.1\r\nHost: x\r\nUser-Agent: " + b"x" * 100 + b"\r\n\r\n"


# PACKET_QDISC_BYPASS: frames go by the queue of the processor that sends them.
frames.raw.setsockopt(263, 20, 1)
PROCESSORS = sorted(os.sched_getaffinity(0))


def ask(connection):
    """The connection has had its response, which is the kernel's."""
    connection.sendall(REQUEST)
    assert b" 200 " in connection.recv(4096)
    return connection


def connect(six):
    return socket.create_connection((SERVER6 if six else SERVER, 80), PATIENCE)


def end_and_go_on(six):
    """A client's end and a reset, each of a connection of the kernel's."""
    over = "over IPv6" if six else "over IPv4"
    with ask(connect(six)) as connection:
        connection.shutdown(socket.SHUT_WR)
        say(f"a client's end is answered by the server's {over}", connection.recv(1) == b"")
    with ask(connect(six)) as connection:
        source = connection.getsockname()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with socket.socket(socket.AF_INET6 if six else socket.AF_INET) as connection:
        connection.settimeout(PATIENCE)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        connection.bind(source)
        connection.connect((SERVER6 if six else SERVER, 80))
        ask(connection)
        say(f"one that is reset makes room for another with its ends {over}", True)


def options_and_go_on(six):
    """From the second request on packets have IP options, or an extension header: then the connection is the server's."""
    with ask(connect(six)) as connection:
        if six:
            connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS, b"\0\0\1\4\0\0\0\0")
        else:
            connection.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, b"\1\1\1\1")
        for _ in range(3):
            ask(connection)
        what = "an extension header" if six else "IP options"
        say(f"one whose packets have {what} from now on goes on", True)


def probe_and_go_on():
    """Probes on idle connections of the kernel's, once a second."""
    idle = [ask(connect(six)) for six in (False, True)]
    for connection in idle:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
            connection.setsockopt(socket.IPPROTO_TCP, option, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 60)
    time.sleep(3)
    for over, connection in zip(("over IPv4", "over IPv6"), idle):
        with ask(connection):
            say(f"one that asks whether it stands goes on {over}", True)


class ByHand:
    """A peer that has had its response from the kernel, and has not said so."""

    def __init__(self, six):
        self.six = six
        self.send(SYN, 1000, data=struct.pack("!BBH", 2, 4, 1440), offset=6)
        self.expected = next_segment([self], SYN)[1].seq + 1
        self.send(ACK, 1001, self.expected)
        self.send(ACK | PSH, 1001, self.expected, REQUEST)
        while (response := next_segment([self], ACK)[1]).ack != 1001 + len(REQUEST):
            pass
        self.end = self.expected + len(response.data)

    def send(self, flags, seq, ack=0, data=b"", offset=5):
        source = PEER6 if self.six else PEER
        segment = tcp(PORT, flags, seq, ack, data, offset, src=source, window=65535)
        send([ip6(6, segment, src=source) if self.six else ip4(6, segment, source)])


def next_segment(peers, wanted):
    """The next segment to one of these peers with one of the flags, and to which."""
    until = time.monotonic() + PATIENCE
    while (left := until - time.monotonic()) > 0:
        frames.raw.settimeout(left)
        try:
            frame = frames.raw.recv(65600)
        except socket.timeout:
            break
        answer_neighbour(frame)
        for peer in peers:
            segment = segment_for(frame, PORT, peer.six)
            if segment and segment.flags & wanted:
                return peer, segment
    sys.exit(f"not ok in-kernel.py: no segment with one of the flags {wanted}")


find_server()
ask(connect(False)).close()
for six in (False, True):
    end_and_go_on(six)
    options_and_go_on(six)
probe_and_go_on()
standing = [ask(connect(six)) for six in (False, True)]
os.sched_setaffinity(0, PROCESSORS[:1])
silent = [ByHand(six) for six in (False, True)]
os.sched_setaffinity(0, PROCESSORS[:2][-1:])
print("ready", flush=True)
for over, connection in zip(("over IPv4", "over IPv6"), standing):
    try:
        end = connection.recv(1)
    except OSError as error:
        end = error
    connection.close()
    say(f"a client that has its response sees the end of its connection {over}", end == b"", end)
for wanted, what in ((PSH, "sent it again"), (RST, "reset in the end")):
    left = list(silent)
    while left:
        peer, segment = next_segment(left, wanted)
        left.remove(peer)
        over = "over IPv6" if peer.six else "over IPv4"
        seq = peer.end if wanted == RST else peer.expected
        say(f"and one that has not acknowledged it is {what} {over}", segment.seq == seq & 0xFFFFFFFF, (segment.seq, seq))
sys.exit(failed())
