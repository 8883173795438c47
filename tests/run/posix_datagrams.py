"""Calls of sockets for datagrams, for the table of what they answer (posix.py): each has the case, and gives what was answered."""
import ctypes
import os
import socket
import struct
import tempfile

import posix_calls
from posix_calls import (PEEK, PORT, REFUSED, SOL, TCP, TRUNC, at_place, elsewhere, errors, headers, libc, message, option, reading, setting,
                         writing)


def sending_to(host, port, size=5, length=None, family=None):
    def call(case):
        name = case.family.address(host, port)
        if family is not None:
            name = struct.pack("=H", family) + name[2:]
        return errors(libc.sendto(case.fd, b"w" * size, size, 0, name, case.family.length if length is None else length))
    return call


def receive_from(case):
    into, name, size = ctypes.create_string_buffer(6), ctypes.create_string_buffer(28), ctypes.c_uint(28)
    said = errors(libc.recvfrom(case.fd, into, 6, 0, name, ctypes.byref(size)))
    return f"{said}:{into.raw[: int(said)].decode()} {size.value} {case.family.told(name.raw)}" if said.isdigit() else said


def host_of(case, packed):
    """Of a kind that control data tells: a socket for IPv6 hears of IPv4, too."""
    return case.family.host(packed) if len(packed) == len(case.family.packed["PEER"]) else socket.inet_ntoa(packed)


class Many:
    """Messages of recvmmsg(2) and sendmmsg(2), with room for names and control data."""

    def __init__(self, case, count, size, control):
        self.room = case.family.length
        self.names = [ctypes.create_string_buffer(self.room) for _ in range(count)]
        self.bytes = [ctypes.create_string_buffer(b"m" * size, size) for _ in range(count)]
        self.control = [ctypes.create_string_buffer(max(control, 1)) for _ in range(count)]
        self.parts = [(ctypes.c_size_t * 2)(ctypes.addressof(b), size) for b in self.bytes]
        self.size, self.count = control, count
        whole = b"".join(struct.pack("@PIxxxxPQPQi4xI4x", ctypes.addressof(n), self.room, ctypes.addressof(p), 1, ctypes.addressof(c), control, 0, 0)
                         for n, p, c in zip(self.names, self.parts, self.control))
        self.whole = ctypes.create_string_buffer(whole, len(whole))

    def tell(self, case, count):
        said = []
        for at in range(count):
            _, name_len, _, _, _, used, flags, size = struct.unpack_from("@PIxxxxPQPQi4xI4x", self.whole, 64 * at)
            text = f"{self.bytes[at].raw[:size].decode()} {name_len} {case.family.told(self.names[at].raw)} flags={flags} control={used}"
            if used >= 28:
                length, level, kind = struct.unpack_from("=Qii", self.control[at].raw)
                places = (slice(20, 24), slice(24, 28)) if level == 0 else (slice(16, 32),)
                text += f" {length},{level},{kind}:" + ",".join(host_of(case, self.control[at].raw[place]) for place in places)
            said.append(text)
        return "; ".join(said)


def receive_message(size, control):
    def call(case):
        many = Many(case, 1, size, control)
        said = errors(libc.recvmsg(case.fd, many.whole, 0))
        if not said.isdigit():
            return said
        struct.pack_into("=I", many.whole, 56, int(said))
        return f"{said}: {many.tell(case, 1)}"
    return call


def receive_without_name(case):
    """Who sent it is not asked for."""
    whole, *kept = message(3, 4)
    struct.pack_into("=I", whole, 8, 77)
    said = errors(libc.recvmsg(case.fd, whole, 0))
    return f"{said} {struct.unpack_from('=I', whole, 8)[0]} {struct.unpack_from('=i', whole, 48)[0]}"


def receive_many(flags):
    def call(case):
        many = Many(case, 3, 4, 64)
        said = errors(libc.recvmmsg(case.fd, many.whole, 3, flags, None))
        return f"{said}: {many.tell(case, int(said))}" if said.isdigit() else said
    return call


def send_many(case):
    many = Many(case, 2, 4, 0)
    for name in many.names:
        name.raw = case.family.address("PEER", PORT)
    said = errors(libc.sendmmsg(case.fd, many.whole, 2, 0))
    return said + "".join(f" {struct.unpack_from('=I', many.whole, 64 * at + 56)[0]}" for at in range(2) if said.isdigit())


def send_message_from(case):
    """From an address of ours (IP_PKTINFO, IPV6_PKTINFO), from one that is another's, and from one that no host has."""
    said = []
    for source in ("OURS", "OTHERS", "GROUP"):
        many = Many(case, 1, 4, 40 if case.family.is_v6 else 32)
        many.names[0].raw = case.family.address("PEER", PORT)
        packed = case.family.packed[source]
        many.control[0].raw = struct.pack("=Qii16sI4x", 36, 41, 50, packed, 0) if case.family.is_v6 else \
            struct.pack("=Qiii4s4s4x", 28, socket.IPPROTO_IP, 8, 0, packed, bytes(4))
        said.append(errors(libc.sendmsg(case.fd, many.whole, 0)))
    return " ".join(said)


SEGMENT, GRO = 103, 104


def send_segments(case):
    """One call, several datagrams (UDP_SEGMENT): too many, too long, none, and of a size of another type."""
    said = []
    for size, segment, kind in ((1000, b"\x2c\1", "=QiiH"), (129, b"\1\0", "=QiiH"), (128, b"\1\0", "=QiiH"), (3000, b"\xd0\7", "=QiiH"),
                                (2000, b"\0\0", "=QiiH"), (0, b"\1\0", "=QiiH"), (9, b"\1\0", "=QiiI")):
        many = Many(case, 1, size, 24)
        many.names[0].raw = case.family.address("PEER", PORT)
        many.control[0].raw = struct.pack(kind, struct.calcsize(kind), 17, SEGMENT, int.from_bytes(segment, "little"))
        said.append(errors(libc.sendmsg(case.fd, many.whole, 0)))
    return " ".join(said)


def set_segments(case):
    """Sizes of datagrams for all that follows, and that several may be read as one."""
    said = [setting(17, SEGMENT, size)(case) for size in (-1, 65536, 65535, 3)] + [setting(17, GRO, value)(case) for value in (0, 2)]
    return " ".join(said + [option(17, name)(case) for name in (SEGMENT, GRO)])


MORE = 0x8000


def send_more(case):
    """One datagram that gets too long, of which nothing is left, and one that goes where it began to go."""
    said = [writing("send", size, flags)(case) for size, flags in ((3, MORE), (0, MORE), (65506, MORE), (70000, 0), (4, MORE))]
    return " ".join([*said, sending_to("PEER", 0)(case)])


def send_file(case):
    """A part of a file: from its end, of no length, too long, and less than was asked for."""
    with tempfile.TemporaryFile() as file:
        file.truncate(100000)
        said = []
        for offset, size in ((100000, 10), (0, 0), (0, 65508), (None, 100000), (99990, 100)):
            at = offset if offset is None else ctypes.byref(ctypes.c_long(offset))
            said.append(errors(libc.sendfile(case.fd, file.fileno(), at, ctypes.c_size_t(size))))
        return " ".join([*said, str(os.lseek(file.fileno(), 0, 1))])


def tell_info(fd, family):
    """Has it told to which address datagrams came (IP_PKTINFO, IPV6_RECVPKTINFO)."""
    one = struct.pack("=i", 1)
    return errors(libc.setsockopt(fd, *((41, 49) if family.is_v6 else (0, 8)), one, 4))


def pktinfo(case):
    return tell_info(case.fd, case.family)


def disconnect(case):
    return errors(libc.connect(case.fd, bytes(16), 16))


def set_many(case):
    """What is out of an option's range, or no option at all."""
    asked = [(0, 2, 0), (0, 2, 300), (0, 2, -1), (0, 14, 1400), (0, 0, 1), (0, 60, 1)]
    if case.family.is_v6:
        asked += [(41, 16, -2), (41, 16, 256), (41, 16, -1), (41, 24, 1400), (41, 67, 256), (41, 99, 1)]
    return " ".join(setting(*one)(case) for one in asked)


def send_kinds(case):
    """With control data of kinds that there are and that there are not."""
    said = []
    for level, kind in ((0, 2), (0, 99), (SOL, 99), (SOL, 2), (17, 99), (41, 99), (99, 99)):
        many = Many(case, 1, 4, 24)
        many.names[0].raw = case.family.address("PEER", PORT)
        many.control[0].raw = struct.pack("=Qiii4x", 20, level, kind, 9)
        said.append(errors(libc.sendmsg(case.fd, many.whole, 0)))
    return " ".join(said)


def datagram_options(case):
    asked = {"TYPE": (SOL, socket.SO_TYPE), "PROTOCOL": (SOL, socket.SO_PROTOCOL), "BROADCAST": (SOL, socket.SO_BROADCAST), "RCVBUF": (SOL, socket.SO_RCVBUF),
             "SNDBUF": (SOL, socket.SO_SNDBUF), "PKTINFO": (socket.IPPROTO_IP, 8), "TTL": (socket.IPPROTO_IP, socket.IP_TTL),
             "V6ONLY": (socket.IPPROTO_IPV6, socket.IPV6_V6ONLY), "NODELAY": (TCP, socket.TCP_NODELAY), "UDP": (17, 1), "MTU": (socket.IPPROTO_IP, 14), "none": (socket.IPPROTO_IP, 60)}
    return " ".join(f"{name}={option(*what)(case)}" for name, what in asked.items())


CALLS = {name: posix_calls.CALLS[name] for name in (
    "recv", "peek", "dontwait", "waitall", "recvmsg", "recv0", "read", "readv", "read0", "send", "send0", "nosignal", "sendmsg", "write", "write0",
    "writev", "shut0", "shut1", "shut2", "shut3", "accept", "connect", "connect2", "listen", "bind", "names", "error", "fionread", "poll",
    "select", "epoll", "edge", "oneshot", "nested", "nested-edge", "close", "dupclose", "copy", "high-water")} | {
    "sendto": sending_to("PEER", PORT), "sendto-refused": sending_to("PEER", REFUSED), "sendto-port0": sending_to("PEER", 0),
    "sendto-short": sending_to("PEER", PORT, length=8), "sendto-unix": sending_to("PEER", PORT, family=socket.AF_UNIX),
    "sendto-none": sending_to("PEER", PORT, family=0), "sendto-long": sending_to("PEER", PORT, 65508), "sendto-longer": sending_to("PEER", PORT, 70000),
    "sendto-empty": sending_to("PEER", PORT, 0), "recvfrom": receive_from, "trunc": reading("recv", 4, TRUNC), "peek-trunc": reading("recv", 4, PEEK | TRUNC),
    "message": receive_message(6, 64), "message-cut": receive_message(20, 20), "message-alone": receive_message(20, 0),
    "nameless": receive_without_name, "recvmmsg": receive_many(0), "recvmmsg-one": receive_many(0x10000), "sendmmsg": send_many,
    "sendmsg-from": send_message_from, "segments": send_segments, "segments-set": set_segments, "disconnect": disconnect, "pktinfo": pktinfo,
    "rcvbuf": setting(SOL, socket.SO_RCVBUF, 5000), "sndbuf": setting(SOL, socket.SO_SNDBUF, 100), "v6only": setting(socket.IPPROTO_IPV6, 26, 1),
    "more": writing("send", 5, MORE), "more-whole": send_more, "cork": setting(17, 1, 1), "uncork": setting(17, 1, 0), "sendfile": send_file, "nodelay": setting(TCP, socket.TCP_NODELAY, 1), "dgram-options": datagram_options,
    "dgram-setopts": set_many, "dgram-headers": headers((socket.IP_TTL, socket.IP_TOS, 12, 13), (16, 67, 51, 66)), "sendmsg-kinds": send_kinds, "place": at_place, "elsewhere": elsewhere,
}
