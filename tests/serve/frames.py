"""Frames by hand, for the tests' programs that are no kernel's client: what is sent on the interface that the program's
first argument names, and what comes. `find_server` first: it says where frames go.
"""

import socket
import struct
import sys
import time

from common import PATIENCE

INTERFACE = sys.argv[1]
SERVER, SERVER6 = "10.10.0.10", "fd10::10"
HERE, HERE6 = "10.10.0.2", "fd10::2"
# A peer that is none of the kernel's addresses.
PEER, PEER6 = "10.10.0.77", "fd10::77"
SERVER_MAC = None

with open(f"/sys/class/net/{INTERFACE}/address") as file:
    MAC = bytes.fromhex(file.read().strip().replace(":", ""))
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
raw.bind((INTERFACE, 0))
# SO_RCVBUFFORCE: a window of short segments has room.
raw.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)


def send(frames):
    for frame in frames:
        while True:
            try:
                raw.send(frame)
                break
            except OSError as error:
                if error.errno != 105:  # ENOBUFS
                    raise
                time.sleep(0.0005)


def v4(address):
    return socket.inet_pton(socket.AF_INET, address)


def v6(address):
    return socket.inet_pton(socket.AF_INET6, address)


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ethernet(kind, packet, to=None):
    return (to or SERVER_MAC) + MAC + struct.pack("!H", kind) + packet


def arp(operation, sender_mac, sender, target):
    packet = struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation)
    packet += sender_mac + v4(sender) + b"\0" * 6 + v4(target)
    return b"\xff" * 6 + MAC + b"\x08\x06" + packet


def ip4(protocol, data, src=HERE, ident=0, fragment=0, first=0x45, total=None, sum_=None):
    total = 20 + len(data) if total is None else total
    head = struct.pack("!BBHHHBBH", first, 0, total, ident, fragment, 64, protocol, 0)
    head += v4(src) + v4(SERVER)
    sum_ = checksum(head) if sum_ is None else sum_
    return ethernet(0x0800, head[:10] + struct.pack("!H", sum_) + head[12:] + data)


def ip6(protocol, data, length=None, src=HERE6):
    length = len(data) if length is None else length
    head = struct.pack("!IHBB", 6 << 28, length, protocol, 255)
    return ethernet(0x86DD, head + v6(src) + v6(SERVER6) + data)


def pseudo(protocol, length, six=False):
    if six:
        return v6(HERE6) + v6(SERVER6) + struct.pack("!II", length, protocol)
    return v4(HERE) + v4(SERVER) + struct.pack("!HH", protocol, length)


def tcp(port, flags, seq=1, ack=0, data=b"", offset=5, to=80, src=HERE, window=1000, sum_=None):
    head = struct.pack("!HHIIBBHHH", port, to, seq, ack, offset << 4, flags, window, 0, 0) + data
    if ":" in src:
        covered = v6(src) + v6(SERVER6) + struct.pack("!II", len(head), 6)
    else:
        covered = v4(src) + v4(SERVER) + struct.pack("!HH", 6, len(head))
    sum_ = checksum(covered + head) if sum_ is None else sum_
    return head[:16] + struct.pack("!H", sum_) + head[18:]


def udp(data, length=None, sum_=None):
    length = 8 + len(data) if length is None else length
    head = struct.pack("!HHHH", 9, 9, length, 0) + data
    sum_ = checksum(pseudo(17, len(head)) + head) if sum_ is None else sum_
    return head[:6] + struct.pack("!H", sum_) + head[8:]


def icmp(kind, code, rest, data, six=False, sum_=None):
    head = struct.pack("!BBHI", kind, code, 0, rest) + data
    if sum_ is None:
        sum_ = checksum((pseudo(58, len(head), True) if six else b"") + head)
    return head[:2] + struct.pack("!H", sum_) + head[4:]


def answer_neighbour(frame, peers=(PEER, PEER6)):
    """Anyone who asks for the link address of one of the peers gets it."""
    if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\1":
        for peer in (peer for peer in peers if ":" not in peer and frame[38:42] == v4(peer)):
            reply = arp(2, MAC, peer, SERVER)
            send([frame[6:12] + reply[6:32] + frame[22:28] + reply[38:]])
    if frame[12:14] == b"\x86\xdd" and frame[20] == 58 and frame[54:55] == b"\x87":
        source = frame[22:38]
        for peer in (v6(peer) for peer in peers if ":" in peer and frame[62:78] == v6(peer)):
            head = struct.pack("!BBHI", 136, 0, 0, 0x60000000) + peer + b"\x02\x01" + MAC
            sum_ = checksum(peer + source + struct.pack("!II", len(head), 58) + head)
            head = head[:2] + struct.pack("!H", sum_) + head[4:]
            packet = struct.pack("!IHBB", 6 << 28, len(head), 58, 255) + peer + source + head
            send([ethernet(0x86DD, packet, to=frame[6:12])])


class Segment:
    """A segment of the server's."""

    def __init__(self, header, end):
        self.seq, self.ack, offset, self.flags = struct.unpack("!IIBB", header[4:14])
        self.options, self.data = header[20:(offset >> 4) * 4], header[(offset >> 4) * 4:end]


def segment_of(frame):
    """What the server has sent, to which peer and port of its; nothing where the frame carries none of its segments."""
    if frame[12:14] == b"\x08\0" and frame[23] == 6 and frame[26:30] == v4(SERVER):
        at, end, peer = 34, 14 + struct.unpack("!H", frame[16:18])[0], socket.inet_ntop(socket.AF_INET, frame[30:34])
    elif frame[12:14] == b"\x86\xdd" and frame[20] == 6 and frame[22:38] == v6(SERVER6):
        at, end, peer = 54, 54 + struct.unpack("!H", frame[18:20])[0], socket.inet_ntop(socket.AF_INET6, frame[38:54])
    else:
        return None
    source, port = struct.unpack("!HH", frame[at:at + 4])
    return (peer, port, Segment(frame[at:], end - at)) if source == 80 else None


def segment_for(frame, port, six):
    """What the frame carries to this port of the peer's, if anything."""
    came = segment_of(frame)
    return came[2] if came and came[:2] == (PEER6 if six else PEER, port) else None


def find_server():
    """Its MAC address: a unicast frame to another is dropped."""
    global SERVER_MAC
    raw.settimeout(0.3)
    for _ in range(PATIENCE * 3):
        send([arp(1, MAC, HERE, SERVER)])
        until = time.time() + 0.3
        while time.time() < until:
            try:
                frame = raw.recv(4096)
            except socket.timeout:
                break
            if frame[12:14] == b"\x08\x06" and frame[28:32] == v4(SERVER) and frame[21] == 2:
                SERVER_MAC = frame[22:28]
                return
    sys.exit("not ok frames.py: the server does not answer ARP")
