#!/usr/bin/env python3
"""What socket calls answer in each state of a socket, of TCP and of UDP: a table, made on the kernel's sockets and by `exos run`, and compared.

    posix.py peer CONTROL               the peer, on the kernel's stack: does what is asked for through the Unix socket
    posix.py table CONTROL OURS [SHARE TURN [CASES]]
                                        prints "STATE MODE CALL CALL: ANSWER | ANSWER" for each pair of calls, or for one of SHARE, the
                                        turn's; of those that the file names alone (a line begins with "STATE MODE CALL CALL:")
    posix.py compare KERNEL OURS all|share
                                        tells differences that are not known (`KNOWN`), and of all pairs known ones that are not there
                                        any more
"""
import concurrent.futures
import ctypes
import errno
import fcntl
import itertools
import json
import os
import re
import resource
import select
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import zlib

PEER, NOBODY = "10.10.0.2", "10.10.0.99"
PORT, SLOW, REFUSED = 9000, 9001, 7999
AT_ONCE = 96
libc = ctypes.CDLL(None, use_errno=True)

# What differs: the case, the answers ("FIRST | SECOND -> FIRST | SECOND"), and why it stays.
KNOWN = [
    (r".* (bind \S+|\S+ bind)", r"0 \| .* -> EINVAL \| .*|(.*) \| 0 -> \1 \| EINVAL",
     "a connection that failed or is over is not bound again: nobody does, and the address would have to outlive it"),
    (r"(bound\S*|unbound|refused\S*) \S+ connect2? names", r"(.*) \| 2/16 \S+ ENOTCONN -> \1 \| 2/16 0.0.0.0:0 ENOTCONN",
     "one that could not be connected forgets its port"),
    (r"bound\S* waits connect2 bind", r"ECONNREFUSED \| EINVAL -> ECONNREFUSED \| 0", "and can have another"),
    (r"connecting \S+ shut[012] \S+", r"0 \| .* -> 0 \| .*",
     "one that is shut down while it connects is as new, without an error that tells of it"),
    (r"(listening|waiting)\S* \S+ shut[02] connect2?", r"0 \| (0|EINPROGRESS|ECONNREFUSED) -> 0 \| EALREADY",
     "one that listened does not connect"),
    (r"dgram-(unread|empty|shut-both-unread|near-unread|near-bound) \S+ pktinfo (message|recvmmsg\S*)", r"(.*),8:0.0.0.0,(OURS|127.0.0.1)(.*) -> .*",
     "IP_PKTINFO tells of datagrams, too, that were there before it was asked for"),
    (r"dgram-begun \S+ connect2 .*", r"0 \| (.*ECONNREFUSED.*|1 4 0) -> 0 \| .*", "a datagram that has begun goes where it began to go"),
    (r"dgram-(begun|corked) \S+ (sndbuf|segments) (poll|select|epoll|edge|oneshot|nested\S*)", r"(.*) \| (?:(?!OUT).)* -> \1 \| .*(OUT|w).*",
     "what has begun does not count as being sent"),
    (r"dgram-\S+ \S+ sndbuf more-whole", r"(.*) \| .*ENOBUFS.* -> \1 \| .*", "a small buffer to send from does not bound one datagram"),
    (r"full(-finished)? \S+ buffers (send|nosignal|sendmsg|write|writev)", r"(.*) \| (5|7) -> \1 \| EAGAIN",
     "a larger buffer to send from has no more room than before"),
    (r"full(-finished)? \S+ buffers (poll|select|epoll|edge|oneshot|nested\S*|exclusive)", r"(.*) \| .*(OUT|w).* -> \1 \| (?:(?!OUT|w).)*",
     "and so it is not writable"),
    (r"dgram-\S+ \S+ dgram-headers dgram-options", r"(.*) MTU=ENOTCONN none=ENOPROTOOPT -> .* MTU=(1500|65535) none=ENOPROTOOPT",
     "what is known of the path to a peer is not forgotten with another class of service"),
    (r"dgram-near\S* \S+ connect2? dgram-options", r"EINVAL \| (.*) MTU=ENOTCONN none=ENOPROTOOPT -> EINVAL \| .* MTU=65535 none=ENOPROTOOPT",
     "nor by connecting in vain"),
    (r"refused\S* \S+ shut[012] connect2?", r"(\S+) \| EINVAL -> \1 \| (ECONNREFUSED|ECONNABORTED)",
     "one that could not be connected is told so, after a shutdown as before it"),
]


def address(host, port):
    return struct.pack("=HH4s8x", socket.AF_INET, socket.htons(port), socket.inet_aton(host))


def errors(result):
    """A C function's answer: its value, or the error's name; and whether SIGPIPE came."""
    said = result if result >= 0 else errno.errorcode[ctypes.get_errno()]
    if signal.sigtimedwait([signal.SIGPIPE], 0):
        said = f"{said}+SIGPIPE"
    return str(said)


# The calls. Each has the case, and gives what was answered.

def reading(name, size, *flags):
    def call(case):
        into = ctypes.create_string_buffer(max(size, 1))
        said = errors(getattr(libc, name)(case.fd, into, size, *flags))
        return said + (":" + into.raw[: int(said)].decode() if said.isdigit() and int(said) else "")
    return call


def vector(*sizes):
    buffers = [ctypes.create_string_buffer(b"v" * size, size) for size in sizes]
    parts = (ctypes.c_size_t * (2 * len(sizes)))()
    for at, buffer in enumerate(buffers):
        parts[2 * at], parts[2 * at + 1] = ctypes.addressof(buffer), len(buffer)
    return parts, buffers


def message(*sizes):
    parts, buffers = vector(*sizes)
    return ctypes.create_string_buffer(struct.pack("@PIxxxxPQPQi4x", 0, 0, ctypes.addressof(parts), len(sizes), 0, 0, 0), 56), parts, buffers


def recvmsg(case):
    whole, parts, buffers = message(3, 4)
    said = errors(libc.recvmsg(case.fd, whole, 0))
    return said + (f":{b''.join(b.raw for b in buffers)[:int(said)].decode()}" if said.isdigit() and int(said) else "")


def sendmsg(case):
    whole, *kept = message(3, 4)
    return errors(libc.sendmsg(case.fd, whole, 0))


def readv(case):
    parts, buffers = vector(3, 4)
    said = errors(libc.readv(case.fd, parts, 2))
    return said + (f":{b''.join(b.raw for b in buffers)[:int(said)].decode()}" if said.isdigit() and int(said) else "")


def writev(case):
    parts, buffers = vector(3, 4)
    return errors(libc.writev(case.fd, parts, 2))


def at_place(case):
    """Where it is, preadv2(2) reads."""
    parts, buffers = vector(3, 4)
    return errors(libc.preadv2(case.fd, parts, 2, ctypes.c_long(-1), 8))


def elsewhere(case):
    """A socket has no other place."""
    parts, buffers = vector(3, 4)
    return " ".join(errors(getattr(libc, name)(case.fd, parts, 2, ctypes.c_long(place), flags))
                    for name in ("preadv2", "pwritev2") for place, flags in ((0, 0), (-2, 0), (-1, 0x8000)))


def writing(name, size, *flags):
    return lambda case: errors(getattr(libc, name)(case.fd, b"w" * size, size, *flags))


def shutting(how):
    return lambda case: errors(libc.shutdown(case.fd, how))


def accept(case):
    name, size = ctypes.create_string_buffer(28), ctypes.c_uint(28)
    said = errors(libc.accept4(case.fd, name, ctypes.byref(size), 0))
    if said.isdigit():
        libc.close(int(said))
        return f"socket {size.value} {socket.inet_ntoa(name.raw[4:8])}"
    return said


def connecting(host, port):
    return lambda case: errors(libc.connect(case.fd, address(host, port), 16))


def listen(case):
    return errors(libc.listen(case.fd, 5))


def bind(case):
    return errors(libc.bind(case.fd, address("0.0.0.0", 0), 16))


def names(case):
    return " ".join(name_of(case, what) for what in ("getsockname", "getpeername"))


def name_of(case, what):
    name, size = ctypes.create_string_buffer(28), ctypes.c_uint(28)
    said = errors(getattr(libc, what)(case.fd, name, ctypes.byref(size)))
    if said != "0":
        return said
    host = socket.inet_ntoa(name.raw[4:8]).replace(case.table.ours, "OURS")
    port = socket.ntohs(struct.unpack_from("=H", name.raw, 2)[0])
    return f"{struct.unpack_from('=H', name.raw)[0]}/{size.value} {host}:{port if port in (0, PORT, SLOW, REFUSED) else 'port'}"


def option(level, what, size=4):
    def call(case):
        value, length = ctypes.create_string_buffer(16), ctypes.c_uint(size)
        said = errors(libc.getsockopt(case.fd, level, what, value, ctypes.byref(length)))
        return said if said != "0" else ",".join(str(n) for n in struct.unpack("=4i", value.raw)[: length.value // 4])
    return call


TCP = socket.IPPROTO_TCP
SOL = socket.SOL_SOCKET
OPTIONS = {"TYPE": option(SOL, socket.SO_TYPE), "ACCEPTCONN": option(SOL, socket.SO_ACCEPTCONN), "RCVTIMEO": option(SOL, socket.SO_RCVTIMEO, 16),
           "NODELAY": option(TCP, socket.TCP_NODELAY), "LINGER": option(SOL, socket.SO_LINGER, 8), "KEEPALIVE": option(SOL, socket.SO_KEEPALIVE),
           "REUSEADDR": option(SOL, socket.SO_REUSEADDR), "REUSEPORT": option(SOL, socket.SO_REUSEPORT), "KEEPIDLE": option(TCP, socket.TCP_KEEPIDLE),
           "KEEPINTVL": option(TCP, socket.TCP_KEEPINTVL), "KEEPCNT": option(TCP, socket.TCP_KEEPCNT), "USER_TIMEOUT": option(TCP, 18),
           "RCVLOWAT": option(SOL, socket.SO_RCVLOWAT), "none": option(SOL, 9999), "short": option(SOL, socket.SO_TYPE, 2)}


def options(case):
    return " ".join(f"{name}={get(case)}" for name, get in OPTIONS.items())


def set_options(case):
    said = []
    for level, what, value in ((TCP, socket.TCP_NODELAY, struct.pack("=i", 1)), (SOL, socket.SO_KEEPALIVE, struct.pack("=i", 7)),
                               (SOL, socket.SO_LINGER, struct.pack("=2i", 1, 5)), (SOL, socket.SO_ERROR, struct.pack("=i", 1)),
                               (SOL, socket.SO_RCVTIMEO, struct.pack("=2q", 0, 40000)), (SOL, socket.SO_RCVTIMEO, struct.pack("=2q", 0, 2000000)),
                               (SOL, socket.SO_KEEPALIVE, b"xx"), (SOL, 9999, struct.pack("=i", 1))):
        said.append(errors(libc.setsockopt(case.fd, level, what, value, len(value))))
    for what, values in ((socket.TCP_KEEPIDLE, (0, 32768, 7)), (socket.TCP_KEEPINTVL, (0, 32768, 8)), (socket.TCP_KEEPCNT, (0, 128, 5)), (18, (-1, 9000))):
        said += [setting(TCP, what, value)(case) for value in values]
    return " ".join(said) + " " + options(case)


def buffers(case):
    """Their sizes, once they are set; and what TCP says of its state."""
    said = [setting(SOL, what, value)(case) for what, value in ((socket.SO_SNDBUF, 30000), (socket.SO_RCVBUF, 1))]
    state, size = ctypes.create_string_buffer(1), ctypes.c_uint(1)
    said.append(errors(libc.getsockopt(case.fd, TCP, socket.TCP_INFO, state, ctypes.byref(size))))
    return " ".join([*said, option(SOL, socket.SO_SNDBUF)(case), option(SOL, socket.SO_RCVBUF)(case), f"state={state.raw[0]}"])


def low_water(bytes_):
    """What is worth being told of (SO_RCVLOWAT)."""
    def call(case):
        said = [setting(SOL, socket.SO_RCVLOWAT, value)(case) + "=" + option(SOL, socket.SO_RCVLOWAT)(case) for value in (0, bytes_)]
        return " ".join([*said, errors(libc.setsockopt(case.fd, SOL, socket.SO_RCVLOWAT, b"xx", 2))])
    return call


def headers(*options):
    """Options of what IP headers say, or of what is told of them, of all lengths and values."""
    values = (b"", b"\0", b"\7", b"\1\2\3", b"\xff\0\0\0", bytes(4), b"\xff" * 4, b"\0\1\0\0", b"\x43\0\0\0\0")

    def call(case):
        return " ".join(f"{errors(libc.setsockopt(case.fd, 0, what, value, len(value)))}={option(0, what)(case)}"
                        for what in options for value in values)
    return call


def readable(case):
    count = ctypes.c_int(-1)
    return errors(libc.ioctl(case.fd, 0x541B, ctypes.byref(count))) + f":{count.value}"


BITS = {"IN": 1, "PRI": 2, "OUT": 4, "ERR": 8, "HUP": 16, "NVAL": 32, "RDNORM": 64, "WRNORM": 256, "RDHUP": 0x2000}


def bits(word):
    return "+".join(name for name, bit in BITS.items() if word & bit) or "-"


def poll_of(fd):
    one = ctypes.create_string_buffer(struct.pack("=ihh", fd, 0x2147, 0), 8)
    libc.poll(one, 1, 0)
    return struct.unpack("=ihh", one.raw)[2]


def poll(case):
    return bits(poll_of(case.fd) & 0xFFFF)


def selecting(case):
    if case.fd < 0:
        return "EBADF"
    try:
        return "".join("rwx"[at] for at, ready in enumerate(select.select([case.fd], [case.fd], [case.fd], 0)) if ready) or "-"
    except OSError as e:
        return errno.errorcode[e.errno]


def epolling(extra):
    def call(case):
        with select.epoll() as epoll:
            try:
                epoll.register(case.fd, 0x2147 | extra)
            except (OSError, ValueError) as e:
                return errno.errorcode[e.errno] if isinstance(e, OSError) else "EBADF"
            said = [",".join(bits(told) for _, told in epoll.poll(0)) or "-" for _ in range(2)]
            epoll.modify(case.fd, 0x2147 | extra)
            said += [",".join(bits(told) for _, told in epoll.poll(0)) or "-"]
            epoll.unregister(case.fd)
        return " ".join(said)
    return call


def nesting(around, extra):
    """By a set within a set within a set."""
    def call(case):
        with select.epoll() as inner, select.epoll() as middle, select.epoll() as outer:
            middle.register(inner, 1)
            outer.register(middle, 1 | around)
            if case.fd < 0:
                return "EBADF"
            inner.register(case.fd, 0x2147 | extra)

            def told():
                return ",".join(bits(events) for _, events in outer.poll(0)) or "-"
            said = [told(), told(), bits(poll_of(middle.fileno())), str(len(select.select([inner], [], [], 0)[0]))]
            said += [",".join(bits(events) for _, events in inner.poll(0)) or "-", told(), bits(poll_of(inner.fileno()))]
            outer.modify(middle, 1 | around)
            said += [told(), bits(poll_of(outer.fileno()))]
            middle.unregister(inner)
            return " ".join([*said, told()])
    return call


def exclusive(case):
    """EPOLLEXCLUSIVE, with what goes beside it and what does not, and changed."""
    said = []
    with select.epoll() as epoll:
        for what, events in (("register", 1 << 28 | 0x2001), ("register", 1 << 28 | 1 << 30 | 1), ("register", 1 << 28 | 1 << 31 | 5), ("modify", 1), ("modify", 1 << 28 | 1)):
            try:
                getattr(epoll, what)(case.fd, events)
                said.append("0")
            except (OSError, ValueError) as e:
                said.append(errno.errorcode[e.errno] if isinstance(e, OSError) else "EBADF")
        said.append(",".join(bits(told) for _, told in epoll.poll(0)) or "-")
    return " ".join(said)


def ioctls(case):
    """FIOCLEX, FIONCLEX, SIOCATMARK, FIOASYNC and none that there is."""
    said = []
    for request in (0x5451, 0x5450, 0x8905, 0x5452, 0x5499):
        value = ctypes.c_int(0)
        said.append(f"{errors(libc.ioctl(case.fd, request, ctypes.byref(value)))}:{value.value}:{fcntl.fcntl(case.fd, fcntl.F_GETFD) if case.fd >= 0 else -1}")
    return " ".join(said)


def kinds(case):
    """What it is, by fstat, fstatat and statx."""
    said = []
    into = ctypes.create_string_buffer(256)
    for call, arguments, at, form in ((libc.fstat, (into,), 24, "=I"), (libc.fstatat, (b"", into, 0x1000), 24, "=I"),
                                      (libc.statx, (b"", 0x1000, 0x7ff, into), 28, "=H")):
        ctypes.memset(into, 0, 256)
        said.append(f"{errors(call(case.fd, *arguments))}:{struct.unpack_from(form, into.raw, at)[0]:o}")
    return " ".join(said)


def peek_parts(case):
    whole, parts, buffers = message(3, 4)
    said = errors(libc.recvmsg(case.fd, whole, PEEK | DONTWAIT))
    return said + (f":{b''.join(b.raw for b in buffers)[:int(said)].decode()}" if said.isdigit() and int(said) else "")


def select_left(case):
    """The time that is left is told."""
    if not 0 <= case.fd < 1024:
        return "EBADF"
    sets, time_ = (ctypes.c_ulong * 16)(), (ctypes.c_long * 2)(0, 1000)
    sets[case.fd // 64] = 1 << case.fd % 64
    said = errors(libc.select(case.fd + 1, sets, None, None, time_))
    return f"{said} {time_[0]} {'some' if time_[1] else 'none'}"


def close(case):
    """And the number says nothing any more."""
    said = errors(libc.close(case.fd))
    case.fd = -1
    return said


def dup_and_close(case):
    copy = libc.dup(case.fd)
    said = errors(libc.close(case.fd))
    case.fd = copy
    return said


def nonblock_by_copy(case):
    copy = libc.dup(case.fd)
    flags = fcntl.fcntl(case.fd, fcntl.F_GETFL) if case.fd >= 0 else -1
    if copy < 0:
        return errno.errorcode[ctypes.get_errno()]
    fcntl.fcntl(copy, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    os.close(copy)
    return oct(fcntl.fcntl(case.fd, fcntl.F_GETFL))


WAITALL, DONTWAIT, PEEK, TRUNC = socket.MSG_WAITALL, socket.MSG_DONTWAIT, socket.MSG_PEEK, socket.MSG_TRUNC
CALLS = {
    "recv": reading("recv", 4, 0), "peek": reading("recv", 4, PEEK), "dontwait": reading("recv", 4, DONTWAIT),
    "waitall": reading("recv", 20, WAITALL), "recvmsg": recvmsg, "recv0": reading("recv", 0, 0), "read": reading("read", 100), "readv": readv,
    "read0": reading("read", 0), "send": writing("send", 5, 0), "send0": writing("send", 0, 0), "nosignal": writing("send", 5, socket.MSG_NOSIGNAL),
    "sendmsg": sendmsg, "write": writing("write", 5), "write0": writing("write", 0), "writev": writev, "oob": reading("recv", 1, socket.MSG_OOB),
    "shut0": shutting(0), "shut1": shutting(1), "shut2": shutting(2), "shut3": shutting(3), "accept": accept,
    "connect": connecting(PEER, PORT), "connect2": connecting(PEER, REFUSED), "listen": listen, "bind": bind,
    "names": names, "error": option(SOL, socket.SO_ERROR), "options": options, "setopts": set_options, "buffers": buffers, "headers": headers(socket.IP_TTL, socket.IP_TOS), "fionread": readable, "poll": poll,
    "select": selecting, "epoll": epolling(0), "edge": epolling(1 << 31), "oneshot": epolling(1 << 30), "nested": nesting(0, 0),
    "nested-edge": nesting(1 << 31, 1 << 31), "nested-oneshot": nesting(1 << 30, 1 << 31), "nested-level": nesting(1 << 31, 0), "close": close, "dupclose": dup_and_close,
    "exclusive": exclusive, "ioctls": ioctls, "kinds": kinds, "peek-parts": peek_parts, "select-left": select_left,
    "copy": nonblock_by_copy, "place": at_place, "elsewhere": elsewhere,
    "low-water": low_water(3), "high-water": low_water(50), "peek-all": reading("recv", 20, PEEK | WAITALL),
}


# Calls of sockets for datagrams.

def sending_to(host, port, size=5, length=16, family=socket.AF_INET):
    name = struct.pack("=H", family) + address(host, port)[2:]
    return lambda case: errors(libc.sendto(case.fd, b"w" * size, size, 0, name, length))


def receive_from(case):
    into, name, size = ctypes.create_string_buffer(6), ctypes.create_string_buffer(28), ctypes.c_uint(28)
    said = errors(libc.recvfrom(case.fd, into, 6, 0, name, ctypes.byref(size)))
    return f"{said}:{into.raw[: int(said)].decode()} {size.value} {named(case, name.raw)}" if said.isdigit() else said


def named(case, raw):
    host = socket.inet_ntoa(raw[4:8]).replace(case.table.ours, "OURS")
    return f"{host}:{'port' if struct.unpack_from('>H', raw, 2)[0] not in (0, PORT, REFUSED) else struct.unpack_from('>H', raw, 2)[0]}"


class Many:
    """Messages of recvmmsg(2) and sendmmsg(2), with room for names and control data."""

    def __init__(self, count, size, control):
        self.names = [ctypes.create_string_buffer(16) for _ in range(count)]
        self.bytes = [ctypes.create_string_buffer(b"m" * size, size) for _ in range(count)]
        self.control = [ctypes.create_string_buffer(max(control, 1)) for _ in range(count)]
        self.parts = [(ctypes.c_size_t * 2)(ctypes.addressof(b), size) for b in self.bytes]
        self.size, self.count = control, count
        whole = b"".join(struct.pack("@PIxxxxPQPQi4xI4x", ctypes.addressof(n), 16, ctypes.addressof(p), 1, ctypes.addressof(c), control, 0, 0)
                         for n, p, c in zip(self.names, self.parts, self.control))
        self.whole = ctypes.create_string_buffer(whole, len(whole))

    def tell(self, case, count):
        said = []
        for at in range(count):
            _, name_len, _, _, _, used, flags, size = struct.unpack_from("@PIxxxxPQPQi4xI4x", self.whole, 64 * at)
            text = f"{self.bytes[at].raw[:size].decode()} {name_len} {named(case, self.names[at].raw)} flags={flags} control={used}"
            if used >= 28:
                length, level, kind = struct.unpack_from("=Qii", self.control[at].raw)
                text += f" {length},{level},{kind}:" + ",".join(socket.inet_ntoa(self.control[at].raw[n:n + 4]).replace(case.table.ours, "OURS")
                                                              for n in (20, 24))
            said.append(text)
        return "; ".join(said)


def receive_message(size, control):
    def call(case):
        many = Many(1, size, control)
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
        many = Many(3, 4, 64)
        said = errors(libc.recvmmsg(case.fd, many.whole, 3, flags, None))
        return f"{said}: {many.tell(case, int(said))}" if said.isdigit() else said
    return call


def send_many(case):
    many = Many(2, 4, 0)
    for name in many.names:
        name.raw = address(PEER, PORT)
    said = errors(libc.sendmmsg(case.fd, many.whole, 2, 0))
    return said + "".join(f" {struct.unpack_from('=I', many.whole, 64 * at + 56)[0]}" for at in range(2) if said.isdigit())


def send_message_from(case):
    """From an address of ours (IP_PKTINFO), from one that is another's, and from one that no host has."""
    said = []
    for source in (case.table.ours, "192.0.2.77", "224.0.0.1"):
        many = Many(1, 4, 32)
        many.names[0].raw = address(PEER, PORT)
        many.control[0].raw = struct.pack("=Qiii4s4s4x", 28, socket.IPPROTO_IP, 8, 0, socket.inet_aton(source), bytes(4))
        said.append(errors(libc.sendmsg(case.fd, many.whole, 0)))
    return " ".join(said)


SEGMENT, GRO = 103, 104


def send_segments(case):
    """One call, several datagrams (UDP_SEGMENT): too many, too long, none, and of a size of another type."""
    said = []
    for size, segment, kind in ((1000, b"\x2c\1", "=QiiH"), (129, b"\1\0", "=QiiH"), (128, b"\1\0", "=QiiH"), (3000, b"\xd0\7", "=QiiH"),
                                (2000, b"\0\0", "=QiiH"), (0, b"\1\0", "=QiiH"), (9, b"\1\0", "=QiiI")):
        many = Many(1, size, 24)
        many.names[0].raw = address(PEER, PORT)
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
    return " ".join([*said, sending_to(PEER, 0)(case)])


def send_file(case):
    """A part of a file: from its end, of no length, too long, and less than was asked for."""
    with tempfile.TemporaryFile() as file:
        file.truncate(100000)
        said = []
        for offset, size in ((100000, 10), (0, 0), (0, 65508), (None, 100000), (99990, 100)):
            at = offset if offset is None else ctypes.byref(ctypes.c_long(offset))
            said.append(errors(libc.sendfile(case.fd, file.fileno(), at, ctypes.c_size_t(size))))
        return " ".join([*said, str(os.lseek(file.fileno(), 0, 1))])


def disconnect(case):
    return errors(libc.connect(case.fd, bytes(16), 16))


def setting(level, what, value):
    one = struct.pack("=i", value)
    return lambda case: errors(libc.setsockopt(case.fd, level, what, one, 4))


def set_many(case):
    """What is out of an option's range, or no option at all."""
    asked = ((socket.IP_TTL, 0), (socket.IP_TTL, 300), (socket.IP_TTL, -1), (14, 1400), (0, 1), (60, 1))
    return " ".join(setting(socket.IPPROTO_IP, *one)(case) for one in asked)


def send_kinds(case):
    """With control data of kinds that there are and that there are not."""
    said = []
    for level, kind in ((0, 2), (0, 99), (SOL, 99), (SOL, 2), (17, 99), (41, 99), (99, 99)):
        many = Many(1, 4, 24)
        many.names[0].raw = address(PEER, PORT)
        many.control[0].raw = struct.pack("=Qiii4x", 20, level, kind, 9)
        said.append(errors(libc.sendmsg(case.fd, many.whole, 0)))
    return " ".join(said)


def datagram_options(case):
    asked = {"TYPE": (SOL, socket.SO_TYPE), "PROTOCOL": (SOL, socket.SO_PROTOCOL), "BROADCAST": (SOL, socket.SO_BROADCAST), "RCVBUF": (SOL, socket.SO_RCVBUF),
             "SNDBUF": (SOL, socket.SO_SNDBUF), "PKTINFO": (socket.IPPROTO_IP, 8), "TTL": (socket.IPPROTO_IP, socket.IP_TTL),
             "V6ONLY": (socket.IPPROTO_IPV6, socket.IPV6_V6ONLY), "NODELAY": (TCP, socket.TCP_NODELAY), "UDP": (17, 1), "MTU": (socket.IPPROTO_IP, 14), "none": (socket.IPPROTO_IP, 60)}
    return " ".join(f"{name}={option(*what)(case)}" for name, what in asked.items())


DATAGRAM_CALLS = {name: CALLS[name] for name in (
    "recv", "peek", "dontwait", "waitall", "recvmsg", "recv0", "read", "readv", "read0", "send", "send0", "nosignal", "sendmsg", "write", "write0",
    "writev", "shut0", "shut1", "shut2", "shut3", "accept", "connect", "connect2", "listen", "bind", "names", "error", "fionread", "poll",
    "select", "epoll", "edge", "oneshot", "nested", "nested-edge", "close", "dupclose", "copy", "high-water")} | {
    "sendto": sending_to(PEER, PORT), "sendto-refused": sending_to(PEER, REFUSED), "sendto-port0": sending_to(PEER, 0),
    "sendto-short": sending_to(PEER, PORT, length=8), "sendto-unix": sending_to(PEER, PORT, family=socket.AF_UNIX),
    "sendto-none": sending_to(PEER, PORT, family=0), "sendto-long": sending_to(PEER, PORT, 65508), "sendto-longer": sending_to(PEER, PORT, 70000),
    "sendto-empty": sending_to(PEER, PORT, 0), "recvfrom": receive_from, "trunc": reading("recv", 4, TRUNC), "peek-trunc": reading("recv", 4, PEEK | TRUNC),
    "message": receive_message(6, 64), "message-cut": receive_message(20, 20), "message-alone": receive_message(20, 0),
    "nameless": receive_without_name, "recvmmsg": receive_many(0), "recvmmsg-one": receive_many(0x10000), "sendmmsg": send_many,
    "sendmsg-from": send_message_from, "segments": send_segments, "segments-set": set_segments, "disconnect": disconnect, "pktinfo": setting(socket.IPPROTO_IP, 8, 1),
    "rcvbuf": setting(SOL, socket.SO_RCVBUF, 5000), "sndbuf": setting(SOL, socket.SO_SNDBUF, 100), "v6only": setting(socket.IPPROTO_IPV6, 26, 1),
    "more": writing("send", 5, MORE), "more-whole": send_more, "cork": setting(17, 1, 1), "uncork": setting(17, 1, 0), "sendfile": send_file, "nodelay": setting(TCP, socket.TCP_NODELAY, 1), "dgram-options": datagram_options,
    "dgram-setopts": set_many, "dgram-headers": headers(socket.IP_TTL, socket.IP_TOS, 12, 13), "sendmsg-kinds": send_kinds, "place": at_place, "elsewhere": elsewhere,
}


# The states. Each brings sockets there, many at once.

class Case:
    def __init__(self, table, first, second):
        self.table, self.first, self.second = table, first, second
        self.listener = None

    def port(self):
        return self.s.getsockname()[1]


def new(cases):
    for case in cases:
        case.s = socket.socket()


def bound(cases):
    new(cases)
    for case in cases:
        case.s.bind(("", 0))


def bound_here(cases):
    for case in cases:
        to_port(case, lambda s: None, 3000, 4000)


def to_port(case, then, first=10000, count=22000):
    """Each with a port that no other has had for long, and that nobody is given (32768 and more): the peer knows connections by them."""
    while True:
        case.s = socket.socket()
        try:
            case.s.bind((case.table.ours, first + next(case.table.ports) % count))
            return then(case.s)
        except OSError as e:
            if e.errno != errno.EADDRINUSE:
                raise
            case.s.close()


def listening(cases):
    bound(cases)
    for case in cases:
        case.s.listen(5)


def waiting(cases):
    listening(cases)
    cases[0].table.ask("visit", cases)
    until(cases, 1)


def waiting_reset(cases):
    waiting(cases)
    cases[0].table.ask("reset", cases)
    time.sleep(0.05)


def attempt(cases, host, port):
    new(cases)
    for case in cases:
        case.s.setblocking(False)
        case.s.connect_ex((host, port))


def nobody(cases):
    attempt(cases, NOBODY, PORT)


def refused(cases):
    attempt(cases, PEER, REFUSED)
    until(cases, 8)


def refused_told(cases):
    refused(cases)
    for case in cases:
        case.s.getsockopt(SOL, socket.SO_ERROR)


def idle(cases, port=PORT):
    for case in cases:
        to_port(case, lambda s: s.connect((PEER, port)))
        case.known = case.port()
    cases[0].table.ask("await", cases)


def with_options(case):
    for level, what, value in ((TCP, socket.TCP_NODELAY, 1), (SOL, socket.SO_KEEPALIVE, 1), (SOL, socket.SO_REUSEADDR, 1), (SOL, socket.SO_REUSEPORT, 1),
                               (TCP, socket.TCP_KEEPIDLE, 77), (TCP, socket.TCP_KEEPINTVL, 11), (TCP, socket.TCP_KEEPCNT, 3), (TCP, 18, 60000), (SOL, socket.SO_RCVLOWAT, 2),
                               (SOL, socket.SO_SNDBUF, 40000), (SOL, socket.SO_LINGER, struct.pack("=2i", 1, 3)), (SOL, socket.SO_RCVTIMEO, struct.pack("@ll", 5, 0))):
        case.s.setsockopt(level, what, value)


def listening_options(cases):
    """Options that are set before it listens, and one after."""
    bound(cases)
    for case in cases:
        with_options(case)
        case.s.listen(5)
        case.s.setsockopt(TCP, socket.TCP_KEEPCNT, 4)


def accepted_options(cases):
    listening_options(cases)
    cases[0].table.ask("visit", cases)
    until(cases, 1)
    take_visitors(cases)


def idle_options(cases):
    for case in cases:
        to_port(case, lambda s, case=case: (with_options(case), s.connect((PEER, PORT))))
    cases[0].table.ask("await", cases)


def accepted(cases):
    waiting(cases)
    take_visitors(cases)


def take_visitors(cases):
    for case in cases:
        case.listener = case.s
        case.known = case.listener.getsockname()[1]
        case.s, _ = case.listener.accept()


def after(before, *steps):
    """What the peer (a word) or we (a function) do then, and what poll is to tell of it."""
    def state(cases):
        before(cases)
        for step in steps:
            if isinstance(step, str):
                cases[0].table.ask(step, cases)
            elif isinstance(step, int):
                until(cases, step)
            else:
                for case in cases:
                    step(case)
    return state


def slow(cases):
    """The peer does not read, and all buffers are full."""
    def connect(s):
        s.setsockopt(SOL, socket.SO_SNDBUF, 4096)
        s.connect((PEER, SLOW))
        s.setblocking(False)
    for case in cases:
        to_port(case, connect)
    cases[0].table.ask("await", cases)
    quiet = 0
    while quiet < 6:
        if any([fill(case.s) for case in cases]):
            quiet = 0
        quiet += 1
        time.sleep(0.05)


def fill(s):
    count = 0
    for size in (1 << 16, 64, 1):
        try:
            while True:
                count += s.send(bytes(size))
        except BlockingIOError:
            pass
    return count


def pause():
    """What the other side answers to the last step is there, too."""
    time.sleep(0.03)


def shut(how):
    return lambda case: case.s.shutdown(how)


def reset_told(case):
    case.s.getsockopt(SOL, socket.SO_ERROR)


def take_all(case):
    case.s.recv(100)


IN, OUT, ERR, HUP, RDHUP = 1, 4, 8, 16, 0x2000
STATES = {
    "unbound": new, "bound": bound, "bound-here": bound_here, "listening": listening, "waiting": waiting, "waiting-reset": waiting_reset,
    "connecting": nobody, "refused": refused, "refused-told": refused_told, "idle": idle, "accepted": accepted,
    "listening-options": listening_options, "accepted-options": accepted_options, "idle-options": idle_options,
    "unread": after(idle, "send", IN), "finished": after(idle, "finish", RDHUP), "finished-unread": after(idle, "send", IN, "finish", RDHUP),
    "finished-read": after(idle, "send", "finish", RDHUP, take_all),
    "shut-read": after(idle, shut(0)), "shut-write": after(idle, shut(1)), "shut-both": after(idle, shut(2)),
    "shut-read-unread": after(idle, "send", IN, shut(0)), "shut-both-unread": after(idle, "send", IN, shut(2)),
    "reset": after(idle, "reset", HUP), "reset-unread": after(idle, "send", IN, "reset", HUP), "reset-told": after(idle, "reset", HUP, reset_told),
    "closed": after(idle, "close", RDHUP), "accepted-closed": after(accepted, "close", RDHUP),
    "both-finished": after(idle, "finish", RDHUP, shut(1), HUP), "both-finished-unread": after(idle, "send", "finish", RDHUP, shut(1), HUP),
    "we-first": after(idle, shut(1), "finish", HUP), "full": slow, "full-finished": after(slow, "finish", RDHUP), "full-reset": after(slow, "reset", HUP),
    "full-shut": after(slow, shut(1)),
}


def datagrams(cases):
    for case in cases:
        case.s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def datagrams_bound(cases, host=""):
    datagrams(cases)
    for case in cases:
        case.s.bind((host and case.table.ours, 0))


def datagrams_connected(cases, port=PORT):
    datagrams(cases)
    for case in cases:
        case.s.connect((PEER, port))


def told_info(case):
    case.s.setsockopt(socket.IPPROTO_IP, 8, 1)


def connected(port):
    return lambda case: case.s.connect((PEER, port))


def send_one(case):
    case.s.send(b"x")


def send_begin(case):
    case.s.send(b"begun", MORE)


def settle(case):
    """What was sent behind what is there is there, too."""
    time.sleep(0.005)


def disconnect_now(case):
    libc.connect(case.s.fileno(), bytes(16), 16)


def connected_near(case):
    case.s.connect(case.table.near.getsockname())


def send_near(case):
    case.table.near.sendto(b"0123456789", ("127.0.0.1", case.s.getsockname()[1]))


STATES |= {
    "dgram-near": after(datagrams_bound, connected_near), "dgram-near-unread": after(datagrams_bound, connected_near, send_near, IN),
    "dgram-near-bound": after(datagrams_bound, send_near, IN), "dgram-near-left": after(datagrams_bound, connected_near, disconnect_now),
    "dgram-unbound": datagrams, "dgram-bound": datagrams_bound, "dgram-here": lambda cases: datagrams_bound(cases, "ours"),
    "dgram-connected": datagrams_connected, "dgram-bound-connected": after(datagrams_bound, connected(PORT)),
    "dgram-unread": after(datagrams_connected, "datagram", IN), "dgram-two": after(datagrams_bound, told_info, "datagram", "datagram", IN, settle),
    "dgram-empty": after(datagrams_bound, "empty", IN), "dgram-refused": after(lambda cases: datagrams_connected(cases, REFUSED), send_one, ERR),
    "dgram-disconnected": after(datagrams_connected, disconnect_now), "dgram-bound-disconnected": after(datagrams_bound, connected(PORT), disconnect_now),
    "dgram-begun": after(datagrams_connected, send_begin), "dgram-corked": after(datagrams_connected, lambda case: case.s.setsockopt(17, 1, 1)),
    "dgram-shut-read": after(datagrams_connected, shut(0)), "dgram-shut-write": after(datagrams_connected, shut(1)),
    "dgram-shut-both-unread": after(datagrams_connected, "datagram", IN, shut(2)),
}
# Big ones have their buffers filled: fewer of them.
FULL = [state for state in STATES if state.startswith("full")]


def until(cases, wanted):
    """For ten seconds, or the state is another; which the table shows."""
    last = time.monotonic() + 10
    for case in cases:
        while not poll_of(case.s.fileno()) & wanted and time.monotonic() < last:
            time.sleep(0.001)


def calls_of(state):
    return DATAGRAM_CALLS if state.startswith("dgram-") else CALLS


class Table:
    def __init__(self, control, ours, share, turn):
        self.control, self.ours, self.share, self.turn = control, ours, share, turn
        self.cases = None
        self.here = threading.local()
        self.ports = itertools.count()
        self.pool = concurrent.futures.ThreadPoolExecutor(24)
        # This host's, which by exos run is the kernel's, too.
        self.near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.near.bind(("127.0.0.1", 0))
        threading.Thread(target=self.drain, daemon=True).start()

    def drain(self):
        while True:
            self.near.recv(1)

    def ask(self, what, cases):
        if not hasattr(self.here, "control"):
            self.here.control = socket.socket(socket.AF_UNIX)
            self.here.control.connect(self.control)
            self.here.answers = self.here.control.makefile()
        ports = [getattr(case, "known", None) or case.port() for case in cases]
        for case, port in zip(cases, ports):
            case.known = port
        known = [(id(case), port) for case, port in zip(cases, ports)]
        self.here.control.sendall(json.dumps([what, self.ours, known]).encode() + b"\n")
        assert self.here.answers.readline() == "done\n"

    def run(self, state):
        lines = []
        for blocking in (False, True):
            mode = "waits" if blocking else "at-once"
            calls = calls_of(state)
            cases = [Case(self, a, b) for a in calls for b in calls if self.is_wanted(f"{state} {mode} {a} {b}", state)]
            most = AT_ONCE // 4 if state in FULL else AT_ONCE
            for at in range(0, len(cases), most):
                some = cases[at:at + most]
                STATES[state](some)
                pause()
                for case in some:
                    case.fd = os.dup(case.s.fileno())
                    case.s.close()
                    limit = struct.pack("@ll", 0, 20000)
                    for which in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                        libc.setsockopt(case.fd, SOL, which, limit, len(limit))
                    os.set_blocking(case.fd, blocking)
                first = list(self.pool.map(lambda case: self.call(case, case.first), some))
                pause()
                second = list(self.pool.map(lambda case: self.call(case, case.second), some))
                for case, *answers in zip(some, first, second):
                    lines.append(f"{state} {mode} {case.first} {case.second}: {' | '.join(answers)}")
                with_peer = [case for case in some if hasattr(case, "known")]
                if with_peer:
                    self.ask("forget", with_peer)
                for case in some:
                    if case.fd >= 0:
                        os.close(case.fd)
                    if case.listener:
                        case.listener.close()
        return lines

    def is_wanted(self, name, state):
        return zlib.crc32(name.encode()) % self.share == self.turn and (not self.cases or name in self.cases)

    @staticmethod
    def call(case, what):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPIPE])
        return (CALLS | DATAGRAM_CALLS)[what](case)


def table(control, ours, share="1", turn="0", cases=None):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPIPE])
    made = Table(control, ours, int(share), int(turn))
    if cases:
        with open(cases) as lines:
            made.cases = {line.split(": ", 1)[0] for line in lines}
    with concurrent.futures.ThreadPoolExecutor(4) as states:
        for lines in states.map(made.run, STATES):
            print(*lines, sep="\n", end="\n" * bool(lines), flush=True)


class Peer:
    def __init__(self):
        # By the address that they come from, until it is said whose they are; then by the case.
        self.connections = {}
        self.held = {}
        self.arrived = threading.Condition()
        self.hard = struct.pack("=2i", 1, 0)
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(("", PORT))

    def take(self, listener):
        while True:
            s, (host, port) = listener.accept()
            with self.arrived:
                self.connections[host, port] = s
                self.arrived.notify_all()

    def serve(self, control):
        for line in control.makefile():
            what, host, known = json.loads(line)
            for case, port in known:
                getattr(self, what)(case, (host, port))
            control.sendall(b"done\n")

    def drain(self):
        while True:
            self.datagrams.recv(1)

    def visit(self, case, key):
        self.held[case] = socket.create_connection(key)

    def of(self, case, key):
        with self.arrived:
            if case not in self.held:
                assert self.arrived.wait_for(lambda: key in self.connections, 10), key
                self.held[case] = self.connections.pop(key)
            return self.held[case]

    def forget(self, case, key):
        if s := self.held.pop(case, None):
            self.end(s)

    def reset(self, case, key):
        self.end(self.of(case, key))

    def end(self, s):
        if s.fileno() >= 0:
            s.setsockopt(SOL, socket.SO_LINGER, self.hard)
            s.close()

    def send(self, case, key):
        self.of(case, key).send(b"0123456789")

    def finish(self, case, key):
        self.of(case, key).shutdown(1)

    def close(self, case, key):
        self.of(case, key).close()

    def datagram(self, case, key):
        self.datagrams.sendto(b"0123456789", key)

    def empty(self, case, key):
        self.datagrams.sendto(b"", key)


setattr(Peer, "await", Peer.of)


def peer(control):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    made = Peer()
    for port in (PORT, SLOW):
        listener = socket.socket()
        listener.setsockopt(SOL, socket.SO_REUSEADDR, 1)
        if port == SLOW:
            listener.setsockopt(SOL, socket.SO_RCVBUF, 32768)
        listener.bind(("", port))
        listener.listen(4000)
        threading.Thread(target=made.take, args=(listener,), daemon=True).start()
    threading.Thread(target=made.drain, daemon=True).start()
    server = socket.socket(socket.AF_UNIX)
    server.bind(control)
    server.listen()
    while True:
        threading.Thread(target=made.serve, args=(server.accept()[0],), daemon=True).start()


def compare(kernel, ours, of):
    def answers(path):
        with open(path) as lines:
            return dict(line.rstrip("\n").split(": ", 1) for line in lines)
    wanted, got = answers(kernel), answers(ours)
    assert wanted, "an empty table"
    # Of a share not every known one has its case in it.
    unused = set(range(len(KNOWN))) if of == "all" else set()
    strange = [f"{name}: not there" for name in wanted.keys() ^ got.keys()]
    for name in wanted.keys() & got.keys():
        if wanted[name] != got[name]:
            line = f"{wanted[name]} -> {got[name]}"
            known = {at for at, (case, change, _) in enumerate(KNOWN) if re.fullmatch(case, name) and re.fullmatch(change, line)}
            unused -= known
            if not known:
                strange.append(f"{name}: {line}")
    strange += [f"known, and not there any more: {KNOWN[at][2]}" for at in unused]
    print("\n".join(sorted(strange)))
    return len(strange) > 0


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]](*sys.argv[2:]))
