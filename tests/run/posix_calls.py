"""Calls of sockets, for the table of what they answer (posix.py): each has the case, and gives what was answered."""
import ctypes
import errno
import fcntl
import os
import select
import signal
import socket
import struct
import tempfile

PORT, SLOW, REFUSED = 9000, 9001, 7999
libc = ctypes.CDLL(None, use_errno=True)


class Family:
    """What the sockets of a case are, and how hosts are written there: by their names here (PEER, NOBODY, OURS, HERE, ANY, OTHERS, GROUP)."""

    def __init__(self, kind, hosts):
        self.kind, self.hosts = kind, hosts
        self.is_v6 = kind == socket.AF_INET6
        # As the other side sees it.
        self.seen = hosts["OURS"].removeprefix("::ffff:")
        self.of_wire = socket.AF_INET6 if ":" in self.seen else socket.AF_INET
        self.length = 28 if self.is_v6 else 16
        self.packed = {name: socket.inet_pton(kind, host) for name, host in hosts.items()}
        self.names = {packed: name for name, packed in self.packed.items()}

    def address(self, name, port):
        """As `struct sockaddr`."""
        if self.is_v6:
            return struct.pack("=HHI16sI", self.kind, socket.htons(port), 0, self.packed[name], 0)
        return struct.pack("=HH4s8x", self.kind, socket.htons(port), self.packed[name])

    def host(self, packed):
        return self.names.get(packed) or socket.inet_ntop(self.kind, packed)

    def told(self, raw):
        """An address that was told, with ports that are the same in all tables."""
        family, port = struct.unpack_from("=H", raw)[0], struct.unpack_from(">H", raw, 2)[0]
        if family not in (0, self.kind):
            return f"of family {family}"
        packed = raw[8:24] if self.is_v6 else raw[4:8]
        return f"{self.host(packed)}:{port if port in (0, PORT, SLOW, REFUSED) else 'port'}"


def families(v4, v6):
    """With these addresses of ours."""
    hosts = {"PEER": "10.10.0.2", "NOBODY": "10.10.0.99", "OURS": v4, "HERE": "127.0.0.1", "OTHERS": "192.0.2.77", "GROUP": "224.0.0.1"}
    six = {"PEER": "fd10::2", "NOBODY": "fd10::99", "OURS": v6, "HERE": "::1", "OTHERS": "2001:db8::77", "GROUP": "ff02::1"}
    mapped = {name: f"::ffff:{host}" for name, host in hosts.items()}
    return {"": Family(socket.AF_INET, hosts | {"ANY": "0.0.0.0"}), "v6-": Family(socket.AF_INET6, six | {"ANY": "::"}),
            "mapped-": Family(socket.AF_INET6, mapped | {"ANY": "::"})}


def errors(result):
    """A C function's answer: its value, or the error's name; and whether SIGPIPE came."""
    said = result if result >= 0 else errno.errorcode[ctypes.get_errno()]
    if signal.sigtimedwait([signal.SIGPIPE], 0):
        said = f"{said}+SIGPIPE"
    return str(said)


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
        return f"socket {size.value} {case.family.host(name.raw[8:24] if case.family.is_v6 else name.raw[4:8])}"
    return said


def connecting(host, port):
    return lambda case: errors(libc.connect(case.fd, case.family.address(host, port), case.family.length))


def listen(case):
    return errors(libc.listen(case.fd, 5))


def bind(case):
    return errors(libc.bind(case.fd, case.family.address("ANY", 0), case.family.length))


def names(case):
    return " ".join(name_of(case, what) for what in ("getsockname", "getpeername"))


def name_of(case, what):
    name, size = ctypes.create_string_buffer(28), ctypes.c_uint(28)
    said = errors(getattr(libc, what)(case.fd, name, ctypes.byref(size)))
    if said != "0":
        return said
    return f"{struct.unpack_from('=H', name.raw)[0]}/{size.value} {case.family.told(name.raw)}"


def option(level, what, size=4):
    def call(case):
        value, length = ctypes.create_string_buffer(16), ctypes.c_uint(size)
        said = errors(libc.getsockopt(case.fd, level, what, value, ctypes.byref(length)))
        return said if said != "0" else ",".join(str(n) for n in struct.unpack("=4i", value.raw)[: length.value // 4])
    return call


def setting(level, what, value):
    one = struct.pack("=i", value)
    return lambda case: errors(libc.setsockopt(case.fd, level, what, one, 4))


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


def headers(options, of_v6):
    """Options of what IP headers say, or of what is told of them, of all lengths and values; in IPv6 those of both."""
    values = (b"", b"\0", b"\7", b"\1\2\3", b"\xff\0\0\0", bytes(4), b"\xff" * 4, b"\0\1\0\0", b"\x43\0\0\0\0")

    def call(case):
        asked = [(0, what) for what in options] + [(41, what) for what in of_v6 if case.family.is_v6]
        return " ".join(f"{errors(libc.setsockopt(case.fd, level, what, value, len(value)))}={option(level, what)(case)}"
                        for level, what in asked for value in values)
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
    sets, time_ = (ctypes.c_ulong * 16)(), (ctypes.c_long * 2)(0, 50_000)
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
    "connect": connecting("PEER", PORT), "connect2": connecting("PEER", REFUSED), "listen": listen, "bind": bind,
    "names": names, "error": option(SOL, socket.SO_ERROR), "options": options, "setopts": set_options, "buffers": buffers, "headers": headers((socket.IP_TTL, socket.IP_TOS), (16, 67)), "fionread": readable, "poll": poll,
    "select": selecting, "epoll": epolling(0), "edge": epolling(1 << 31), "oneshot": epolling(1 << 30), "nested": nesting(0, 0),
    "nested-edge": nesting(1 << 31, 1 << 31), "nested-oneshot": nesting(1 << 30, 1 << 31), "nested-level": nesting(1 << 31, 0), "close": close, "dupclose": dup_and_close,
    "exclusive": exclusive, "ioctls": ioctls, "kinds": kinds, "peek-parts": peek_parts, "select-left": select_left,
    "copy": nonblock_by_copy, "place": at_place, "elsewhere": elsewhere,
    "low-water": low_water(3), "high-water": low_water(50), "peek-all": reading("recv", 20, PEEK | WAITALL),
}
