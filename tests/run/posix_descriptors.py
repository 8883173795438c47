"""Calls of descriptors, and of what passes by them, for the table of what they answer (posix.py): each has the case, and gives what was
answered. They work on sockets of all kinds."""
import array
import ctypes
import fcntl
import os
import socket
import struct
import tempfile

from posix_calls import PORT, SOL, TCP, errors, libc, message, option

libc.lseek.restype = ctypes.c_long


def quiet(call, *arguments):
    """Of a function of Python's: a number, or the error's name."""
    try:
        return str(call(*arguments))
    except OSError as e:
        ctypes.set_errno(e.errno)
        return errors(-1)


def over_it(case):
    """Another file takes its number: with dup2, which closes the socket."""
    reading, writing = os.pipe()
    os.write(writing, b"pipe")
    os.close(writing)
    said = quiet(os.dup2, reading, case.fd, False) if case.fd >= 0 else "EBADF"
    os.close(reading)
    return "EBADF" if said == "EBADF" else "0"


def onto_another(case):
    """It takes the number of an open socket, of which nothing is left; and what dup2 and dup3 refuse."""
    other = socket.socket(case.family.kind)
    other.bind(("", 0))
    place = other.detach()
    said = [errors(libc.dup3(case.fd, case.fd, 0)), errors(libc.dup3(case.fd, place, 7)), errors(libc.dup2(case.fd, -1)),
            errors(min(libc.dup2(case.fd, case.fd), 0)), errors(min(libc.dup3(case.fd, place, os.O_CLOEXEC), 0))]
    if said[-1] == "0":
        said.append(str(fcntl.fcntl(place, fcntl.F_GETFD)))
        os.close(case.fd)
        case.fd = place
    else:
        os.close(place)
    return " ".join(said)


def passed(case):
    """To itself, by a Unix socket (SCM_RIGHTS); the number that it had is closed meanwhile."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sent = quiet(ours.sendmsg, [b"x"], [(SOL, socket.SCM_RIGHTS, array.array("i", [case.fd]))])
        if sent != "1":
            return sent
        os.close(case.fd)
        _, control, flags, _ = theirs.recvmsg(1, 64)
        case.fd = array.array("i", control[0][2])[0]
        return f"{sent} {len(control)} {flags}"


def numbers(case):
    """Copies at a number, and flags of the descriptor and of the file (fcntl(2))."""
    if case.fd < 0:
        return errors(libc.fcntl(case.fd, fcntl.F_GETFD, 0))
    said = []
    for what in (fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC):
        copy = libc.fcntl(case.fd, what, 700)
        said.append(f"{errors(min(copy, 0))} {copy >= 700} {fcntl.fcntl(copy, fcntl.F_GETFD)} {oct(fcntl.fcntl(copy, fcntl.F_GETFL))}")
        os.close(copy)
    said += [errors(libc.fcntl(case.fd, *one)) for one in ((fcntl.F_DUPFD, -1), (fcntl.F_DUPFD, 1 << 30), (fcntl.F_SETFD, 1), (fcntl.F_GETFD, 0),
                                                          (fcntl.F_SETFD, 0), (fcntl.F_GETFD, 0), (fcntl.F_GETOWN, 0), (9999, 0))]
    return " ".join(said)


def as_file(case):
    """What is for files."""
    four = ctypes.create_string_buffer(4)
    return " ".join(errors(result()) for result in (
        lambda: libc.lseek(case.fd, ctypes.c_long(0), 0), lambda: libc.lseek(case.fd, ctypes.c_long(0), 1), lambda: libc.pread(case.fd, four, 4, ctypes.c_long(0)),
        lambda: libc.pwrite(case.fd, four, 4, ctypes.c_long(0)), lambda: libc.ftruncate(case.fd, ctypes.c_long(0)), lambda: libc.fsync(case.fd),
        lambda: libc.fallocate(case.fd, 0, ctypes.c_long(0), ctypes.c_long(1)), lambda: libc.posix_fadvise(case.fd, ctypes.c_long(0), ctypes.c_long(0), 0),
        lambda: libc.fchdir(case.fd)))


def splice_in(case):
    """From a pipe, as much as it has."""
    reading, writing = os.pipe()
    os.write(writing, b"spliced")
    said = errors(libc.splice(reading, None, case.fd, None, 100, 2))
    left = os.read(reading, 100) if said != "7" else b""
    os.close(reading)
    os.close(writing)
    return f"{said} {len(left)}"


def splice_out(case):
    """Into a pipe, at once."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    said = errors(libc.splice(case.fd, None, writing, None, 4, 2))
    got = os.read(reading, 100) if said.isdigit() and int(said) else b""
    os.close(reading)
    os.close(writing)
    return f"{said}:{got.decode()}"


def send_parts_of_file(case):
    """From its end, of no length, from before its beginning, and a part."""
    with tempfile.TemporaryFile() as file:
        file.write(b"0123456789")
        file.seek(2)
        said = []
        for offset, size in ((10, 5), (0, 0), (-1, 3), (None, 0), (7, 10)):
            at = ctypes.c_long(0 if offset is None else offset)
            said.append(errors(libc.sendfile(case.fd, file.fileno(), None if offset is None else ctypes.byref(at), ctypes.c_size_t(size))))
            said.append(str(at.value))
        return " ".join([*said, str(os.lseek(file.fileno(), 0, 1))])


def send_from_what_is_none(case):
    """sendfile from a pipe, from itself, from what is closed."""
    reading, writing = os.pipe()
    os.close(writing)
    said = [errors(libc.sendfile(case.fd, fd, None, ctypes.c_size_t(3))) for fd in (reading, case.fd, -1)]
    os.close(reading)
    return " ".join(said)


def send_to_named(case):
    """A connection has its peer already."""
    return errors(libc.sendto(case.fd, b"to", 2, 0, case.family.address("PEER", PORT), case.family.length))


def receive_named(case):
    into, name, size = ctypes.create_string_buffer(4), ctypes.create_string_buffer(28), ctypes.c_uint(28)
    said = errors(libc.recvfrom(case.fd, into, 4, 0, name, ctypes.byref(size)))
    return f"{said}:{into.raw[: int(said)].decode()} {size.value}" if said.isdigit() else said


def send_control(case):
    """With control data of kinds that there are, that there are not, and that are cut."""
    said = []
    for length, level, kind in ((20, SOL, 2), (20, SOL, 99), (20, TCP, 99), (20, 99, 1), (4, SOL, 2), (100, SOL, 2), (20, SOL, socket.SO_MARK)):
        whole, *kept = message(1)
        control = ctypes.create_string_buffer(struct.pack("=Qiii4x", length, level, kind, 0), 24)
        struct.pack_into("=QQ", whole, 32, ctypes.addressof(control), 24)
        said.append(errors(libc.sendmsg(case.fd, whole, 0)))
    return " ".join(said)


def receive_control(case):
    """With room for control data, of which a connection has none."""
    whole, parts, buffers = message(3, 4)
    control = ctypes.create_string_buffer(64)
    struct.pack_into("=QQi", whole, 32, ctypes.addressof(control), 64, 0x7fffffff)
    said = errors(libc.recvmsg(case.fd, whole, 0))
    return said + (" control={} flags={}".format(*struct.unpack_from("=Qi", whole, 40)) if said.isdigit() else "")


def accept_kinds(case):
    """Flags of what is accepted, flags that there are not, and a name with little room, none, or less than none."""
    said = [errors(libc.accept4(case.fd, None, None, 0x1000))]
    for room in (4, -1):
        name, size = ctypes.create_string_buffer(28), ctypes.c_int(room)
        made = libc.accept4(case.fd, name, ctypes.byref(size), socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        said.append(errors(min(made, 0)))
        if made >= 0:
            said.append(f"{size.value} {name.raw[:2].hex()} {name.raw[4:].strip(bytes(1)).hex()} {oct(fcntl.fcntl(made, fcntl.F_GETFL))} {fcntl.fcntl(made, fcntl.F_GETFD)}")
            os.close(made)
    return " ".join(said)


def short_names(case):
    """Names with little room, none, and less than none."""
    said = []
    for call in (libc.getsockname, libc.getpeername):
        for room in (4, 0, -1):
            name, size = ctypes.create_string_buffer(28), ctypes.c_int(room)
            said.append(f"{errors(call(case.fd, name, ctypes.byref(size)))}:{size.value}:{name.raw[:2].hex()}:{name.raw[4:].strip(bytes(1)).hex()}")
    return " ".join(said)


def connect_to_none(case):
    """Addresses that are none: short, of another family, of no family and too short for one."""
    name = case.family.address("PEER", PORT)
    others = struct.pack("=H", socket.AF_UNIX) + name[2:]
    return " ".join(errors(libc.connect(case.fd, *one)) for one in ((name, 8), (name, 1), (others, len(name)), (name, 200)))


def bind_to_none(case):
    name = case.family.address("ANY", 0)
    others = struct.pack("=H", socket.AF_UNIX) + name[2:]
    return " ".join(errors(libc.bind(case.fd, *one)) for one in ((name, 8), (others, len(name)), (name, 200)))


def bind_elsewhere(case):
    return errors(libc.bind(case.fd, case.family.address("OTHERS", 0), case.family.length))


def disconnect(case):
    """connect(2) to no family."""
    return errors(libc.connect(case.fd, bytes(16), 16))


def every_option(level, count, but):
    """What each option says, but for those whose value is of the moment."""
    def call(case):
        said = {what: option(level, what)(case) for what in range(count) if what not in but}
        if len(set(said.values())) == 1:
            return f"all={said.popitem()[1]}"
        return " ".join(f"{what}={answer}" for what, answer in said.items() if answer != "ENOPROTOOPT")
    return call


# SO_ERROR is taken by looking; buffers, SO_PEERNAME, SO_PEERSEC, SO_INCOMING_CPU, SO_COOKIE, SO_BUF_LOCK, NAPI's and what is not a number are left out.
OF_SOCKETS = every_option(SOL, 90, {4, 7, 8, 26, 28, 31, 42, 49, 53, 55, 56, 57, 59, 72, 82, 83})
# TCP_MAXSEG, WINDOW_CLAMP, INFO, QUICKACK, CONGESTION, TIMESTAMP and others of the moment; from 42 on, what only new kernels have.
OF_TCP = every_option(TCP, 42, {2, 10, 11, 12, 13, 24, 26, 28, 35})
# IP_MTU, the multicast interface and time to live (an accepted connection has its peer's there), and the port that IP_PROTOCOL tells.
OF_IPV4 = every_option(0, 60, {14, 16, 17, 33, 41, 48, 52})
# IPV6_ADDRFORM, IPV6_MTU and others of the moment; for groups an accepted connection has what its peer came by.
OF_IPV6 = every_option(41, 90, {1, 17, 18, 24, 34, 56, 59, 61})

ALL = {
    "over": over_it, "onto": onto_another, "passed": passed, "numbers": numbers, "as-file": as_file, "splice-in": splice_in, "splice-out": splice_out,
    "accept-kinds": accept_kinds, "short-names": short_names, "connect-none": connect_to_none, "bind-none": bind_to_none, "bind-elsewhere": bind_elsewhere,
    "of-sockets": OF_SOCKETS, "of-tcp": OF_TCP, "of-ipv4": OF_IPV4, "of-ipv6": OF_IPV6, "send-none": send_from_what_is_none,
}
STREAMS = ALL | {
    "send-parts": send_parts_of_file, "sendto-named": send_to_named, "recvfrom-named": receive_named, "send-control": send_control,
    "receive-control": receive_control, "disconnect": disconnect,
}
