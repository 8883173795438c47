#!/usr/bin/env python3
"""Two clients of `exos serve --in-kernel` whose connections the kernel has when the server ends; see in-kernel.sh.

    in-kernel.py INTERFACE

One is the kernel's, and has its response. The other speaks by hand and acknowledges nothing. Says "ready" when both responses have
come from the kernel, if it answers such requests; then waits for the ends, and prints "ok NAME" or "not ok NAME: why" lines.
"""

import socket
import struct
import sys
import time

import frames
from common import PATIENCE, failed, say
from frames import MAC, SERVER, arp, find_server, ip4, send, tcp, v4

PEER, PORT = "10.10.0.77", 20001
SYN, RST, ACK = 2, 4, 16
# On a veth a response is longer than its request by some 250 bytes at most.
REQUEST = b"GET /small.txt HTTP/1.1\r\nHost: x\r\nUser-Agent: " + b"x" * 100 + b"\r\n\r\n"


def ask():
    """A connection of the kernel's that has had its response."""
    connection = socket.create_connection((SERVER, 80), PATIENCE)
    connection.sendall(REQUEST)
    assert b" 200 " in connection.recv(4096)
    return connection


def segment(wanted):
    """Sequence number and acknowledgement of the next segment to the peer with one of these flags."""
    until = time.monotonic() + PATIENCE
    while (left := until - time.monotonic()) > 0:
        frames.raw.settimeout(left)
        try:
            frame = frames.raw.recv(65600)
        except socket.timeout:
            break
        if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\1" and frame[38:42] == v4(PEER):
            reply = arp(2, MAC, PEER, SERVER)
            send([frame[6:12] + reply[6:32] + frame[22:28] + reply[38:]])
        if frame[12:14] == b"\x08\0" and frame[23] == 6 and frame[26:34] == v4(SERVER) + v4(PEER) and frame[47] & wanted:
            return struct.unpack("!II", frame[38:46])
    sys.exit(f"not ok in-kernel.py: no segment with one of the flags {wanted}")


def send_by_hand(flags, seq, ack=0, data=b"", offset=5):
    send([ip4(6, tcp(PORT, flags, seq, ack, data, offset, src=PEER, window=65535), PEER)])


find_server()
ask().close()
standing = ask()
send_by_hand(SYN, 1000, data=struct.pack("!BBH", 2, 4, 1460), offset=6)
expected = segment(SYN)[0] + 1
send_by_hand(ACK, 1001, expected)
send_by_hand(ACK | 8, 1001, expected, REQUEST)
while segment(ACK)[1] != 1001 + len(REQUEST):
    pass
print("ready", flush=True)
try:
    end = standing.recv(1)
except OSError as error:
    end = error
say("a client that has its response sees the end of its connection", end == b"", end)
reset = segment(RST)[0]
say("and one that has not acknowledged it is reset", reset == expected, (reset, expected))
sys.exit(failed())
