#!/usr/bin/env python3
"""What tests/run/run.sh and tests/run/services.sh have programs of their own for: sockets beside threads, forks, poll and epoll; small servers and clients."""
import ctypes
import errno
import fcntl
import mmap
import os
import random
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

# asyncio and concurrent.futures take as long to load as most of these programs run: those that need them import them. What the tests share is
# found only where the environment is theirs.

IPPROTO_MPTCP = 262
REQUEST = b"GET /small HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def read_all(s):
    said = b""
    while piece := s.recv(4096):
        said += piece
    return said


def fetched(said):
    assert said.startswith(b"HTTP/1.1 200 OK") and said.endswith(b"hello\n"), said


def client(host, port):
    to = (host, int(port))

    def fetch():
        with socket.create_connection(to) as s:
            s.sendall(REQUEST)
            fetched(read_all(s))

    threads = [threading.Thread(target=fetch) for _ in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()

    # What asks for multipath TCP, as Go's servers do, has TCP.
    try:
        s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    except OSError as error:
        assert error.errno in (errno.EPROTONOSUPPORT, errno.ENOPROTOOPT)
    else:
        with s, socket.create_connection(to) as plain:
            s.connect(to)
            assert s.getsockname()[0] == plain.getsockname()[0]
            s.sendall(REQUEST)
            fetched(read_all(s))

    # What it says of its segments and packets.
    with socket.create_connection(to) as s:
        segment = struct.unpack_from("=I", s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 16)[0]
        assert s.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) == segment == 1448
        assert s.getsockopt(socket.IPPROTO_IP, socket.IP_TTL) == 64

    # A connection that a child goes on with, and one that it has by another number.
    s = socket.create_connection(to)
    copy = os.dup(s.fileno())
    assert s.getpeername() == to and s.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_INET
    if not (child := os.fork()):
        s.sendall(REQUEST)
        os._exit(0)
    os.waitpid(child, 0)
    s.close()
    fetched(read_all(socket.socket(fileno=copy)))

    # What is connected without waiting is writable then, and not before; beside a descriptor of the kernel's.
    s = socket.socket()
    s.setblocking(False)
    assert s.connect_ex(to) == 115, "EINPROGRESS"
    reading, writing = os.pipe()
    epoll = select.epoll()
    epoll.register(s.fileno(), select.EPOLLOUT)
    epoll.register(reading, select.EPOLLIN)
    assert epoll.poll(60) == [(s.fileno(), select.EPOLLOUT)]
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    epoll.modify(s.fileno(), select.EPOLLIN)
    s.send(REQUEST)
    assert epoll.poll(60) == [(s.fileno(), select.EPOLLIN)]
    os.write(writing, b"x")
    assert len(epoll.poll(60)) == 2
    s.setblocking(True)
    fetched(read_all(s))

    # One that is refused says so.
    s = socket.socket()
    s.setblocking(False)
    assert s.connect_ex((host, 7999)) == 115
    poll = select.poll()
    poll.register(s.fileno(), select.POLLOUT)
    assert poll.poll(60000)
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 111, "ECONNREFUSED"

    # A read that is to wait no longer, and a signal.
    s = socket.create_connection(to)
    s.settimeout(0.05)
    try:
        s.recv(1)
        raise AssertionError("nothing was asked for")
    except TimeoutError:
        pass


def closed_sets(host, port):
    """A socket that was in a set that is closed by the time that it connects is in no other one of that number; but by another descriptor
    of the set it is in there still."""
    for is_copied in (False, True):
        with socket.socket() as s, select.epoll() as first:
            s.setblocking(False)
            first.register(s, select.EPOLLOUT)
            number = first.fileno()
            copy = select.epoll.fromfd(os.dup(number)) if is_copied else None
            first.close()
            with select.epoll() as other:
                assert other.fileno() == number
                assert s.connect_ex((host, int(port))) == errno.EINPROGRESS
                assert select.select([], [s], [], 60)[1] == [s]
                assert other.poll(0) == []
                assert not copy or copy.poll(60) == [(s.fileno(), select.EPOLLOUT)]


def many_files(host, port):
    """Sockets that wait in an epoll set before they connect: one that the process has from the beginning, one that it makes later, a copy."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    first = select.epoll()
    twice = os.dup(first.fileno())
    files = [os.open("/dev/null", os.O_RDONLY) for _ in range(2000)]

    def connects(epoll):
        with socket.socket() as s:
            s.setblocking(False)
            epoll.register(s.fileno(), select.EPOLLOUT)
            assert s.connect_ex((host, int(port))) == errno.EINPROGRESS
            assert epoll.poll(60) == [(s.fileno(), select.EPOLLOUT)]
            epoll.unregister(s.fileno())

    for _ in range(100):
        connects(first)
    later = select.epoll()
    for _ in range(100):
        connects(later)
    copy = select.epoll.fromfd(os.dup(later.fileno()))
    later.close()
    with select.epoll() as other:
        # By the number of the one that was closed.
        for _ in range(50):
            connects(copy)
            connects(other)
    os.close(twice)
    for file in files:
        os.close(file)


def leaves_behind(work):
    """Leaves two servers behind; one does not end when it is asked to. Says who they are, and then who it is itself."""
    for port in (9411, 9412):
        if os.fork():
            continue
        with socket.create_server(("", port)) as s:
            def asked(*_):
                open(f"{work}/asked-{port}", "w").close()
                if port == 9411:
                    os._exit(0)
            signal.signal(signal.SIGTERM, asked)
            with open(f"{work}/left-{port}.new", "w") as file:
                print(os.getpid(), file=file)
            os.rename(f"{work}/left-{port}.new", f"{work}/left-{port}")
            while True:
                s.accept()
    while not all(os.path.exists(f"{work}/left-{port}") for port in (9411, 9412)):
        time.sleep(0.01)
    with open(f"{work}/first", "w") as file:
        print(os.getpid(), file=file)


def leaves_slow(work):
    """Leaves one behind that takes some time to end, and says when it has had it. Says who it is itself."""
    ours, theirs = os.pipe()
    if os.fork() == 0:
        def asked(*_):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(0.5)
            open(f"{work}/ended-slowly", "w").close()
            os._exit(0)
        signal.signal(signal.SIGTERM, asked)
        os.write(theirs, b"ready")
        while True:
            signal.pause()
    os.read(ours, 5)
    with open(f"{work}/first", "w") as file:
        print(os.getpid(), file=file)


def counts_asked(work):
    """Counts how often it is asked to end, says that each time, and ends when it has been enough."""
    times = 0

    def say():
        with open(f"{work}/asked-times.new", "w") as file:
            print(times, file=file)
        os.rename(f"{work}/asked-times.new", f"{work}/asked-times")

    def asked(*_):
        nonlocal times
        times += 1
    signal.signal(signal.SIGTERM, asked)
    said = -1
    while not os.path.exists(f"{work}/enough"):
        if said != times:
            said = times
            say()
        time.sleep(0.01)
    say()


def with_signals(how, *program):
    """Becomes a program that is to start with some signals ignored and some blocked, or none."""
    names = "INT QUIT TERM HUP PIPE USR1 USR2 CHLD XFSZ" if how == "some" else ""
    for signal_of in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        is_named = signal_of in [getattr(signal, f"SIG{name}") for name in names.split()]
        signal.signal(signal_of, signal.SIG_IGN if is_named else signal.SIG_DFL)
    blocked = {signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2, signal.SIGRTMAX} if how == "some" else ()
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    os.execvp(program[0], program)


def with_blocked(name, *program):
    """Becomes a program that is to start with a signal blocked."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {getattr(signal, f"SIG{name}")})
    os.execvp(program[0], program)


def waits_for(name, work):
    """Takes a signal that it has blocked, and ends with the supervisor there."""
    with open(f"{work}/counting", "w") as file:
        print(os.getpid(), file=file)
    signal.sigwait({getattr(signal, f"SIG{name}")})


def echo():
    """Sends datagrams back, of both families."""
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.bind(("::", 9200))
    print("listening", flush=True)
    while True:
        data, peer = s.recvfrom(70000)
        s.sendto(data, peer[:2])


class Supervisor:
    """The exos run of this process, its guard's parent."""

    def __init__(self):
        self.pid = self.status(os.getppid(), "PPid")

    @staticmethod
    def status(pid, name):
        with open(f"/proc/{pid}/status") as lines:
            return int(next(line for line in lines if line.startswith(name + ":")).split()[1])

    def sleeps(self):
        """How often it has gone to sleep, and so how often it was woken."""
        return self.status(self.pid, "voluntary_ctxt_switches")


def computes(host, port):
    """A program that computes between an answer and the next request is let alone meanwhile, on a processor that exos run shares with it."""
    supervisor, requests = Supervisor(), 100
    with socket.create_connection((host, int(port))) as s:

        def ask():
            s.sendall(b"GET /small HTTP/1.1\r\nHost: x\r\n\r\n")
            said = b""
            while not said.endswith(b"hello\n"):
                said += s.recv(4096)
            end = time.process_time() + 0.002
            while time.process_time() < end:
                pass

        for _ in range(20):
            ask()
        before = supervisor.sleeps()
        for _ in range(requests):
            ask()
    woken = supervisor.sleeps() - before
    # By the request, and by the answer in two packets. By a pause and four naps it would be six times at least.
    assert woken < 5 * requests, f"{woken} times for {requests} requests"


def polls(host, port):
    """Waits for answers by poll(2), also for what never comes by a pipe, and says how often."""
    count, (silent, kept) = 0, os.pipe()
    with socket.create_connection((host, int(port))) as s:
        poll = select.poll()
        poll.register(s, select.POLLIN)
        poll.register(silent, select.POLLIN)
        for _ in range(100):
            s.sendall(b"GET /small HTTP/1.1\r\nHost: x\r\n\r\n")
            said = b""
            while not said.endswith(b"hello\n"):
                assert poll.poll(20_000) == [(s.fileno(), select.POLLIN)]
                count += 1
                said += s.recv(4096)
        assert poll.poll(10) == []
        os.write(kept, b"x")
        for _ in range(2):
            assert poll.poll(20_000) == [(silent, select.POLLIN)]
        s.sendall(b"GET /small HTTP/1.0\r\n\r\n")
        while len(poll.poll(20_000)) < 2:
            time.sleep(0.001)
            count += 1
    print(count + 4)


def reads(ip):
    """What a program reads of its Unix socket is nothing that exos run hears of, as long as there was room for what came."""
    pieces, piece = 200, b"0123456789"

    supervisor = Supervisor()
    with socket.create_server((ip, 8070)) as listener, socket.create_connection((ip, 8070)) as to:
        taker, _ = listener.accept()
        to.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        waiting = bytearray(4)
        for number in range(1, pieces + 1):
            to.send(piece)
            # Each comes by itself.
            end = time.monotonic() + 20
            while fcntl.ioctl(taker, termios.FIONREAD, waiting) or int.from_bytes(waiting, sys.byteorder) < number * len(piece):
                assert time.monotonic() < end, f"piece {number} does not come"
                time.sleep(0.0002)
        time.sleep(0.1)
        # What else wakes it does so as often in the same time.
        begin, before = time.monotonic(), supervisor.sleeps()
        time.sleep(pieces * 0.0012)
        rate = (supervisor.sleeps() - before) / (time.monotonic() - begin)
        begin, before = time.monotonic(), supervisor.sleeps()
        for _ in range(pieces):
            assert taker.recv(len(piece)) == piece
            time.sleep(0.001)
        woken = supervisor.sleeps() - before - rate * (time.monotonic() - begin)
        assert woken < pieces / 8, f"{woken} times for {pieces} reads"
        taker.close()


def itself(datagrams, *addresses):
    """Connections to addresses of our own: between threads, of one thread with itself, between processes, of a port with itself."""
    noise = bytes(i % 251 for i in range(1000000))
    for host in addresses:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, 0), family=family, backlog=100)
        at = listener.getsockname()[:2]

        def serve():
            with listener.accept()[0] as s:
                assert read_all(s) == noise
                s.sendall(noise)

        thread = threading.Thread(target=serve)
        thread.start()
        with socket.create_connection(at, 20) as s:
            assert s.getpeername()[:2] == at and s.getsockname()[0] == host
            s.sendall(noise)
            s.shutdown(socket.SHUT_WR)
            assert read_all(s) == noise
        thread.join()

        # One thread has both ends, of many.
        ours = [socket.create_connection(at, 20) for _ in range(50)]
        theirs = [listener.accept()[0] for _ in ours]
        assert sorted(s.getpeername() for s in theirs) == sorted(s.getsockname() for s in ours)
        for s in theirs:
            s.sendall(b"hello")
            s.close()
        assert all(read_all(s) == b"hello" for s in ours)

        # A child is the client, and the parent the server.
        if not (child := os.fork()):
            with socket.create_connection(at, 20) as s:
                s.sendall(b"of a child")
                s.shutdown(socket.SHUT_WR)
                os._exit(0 if read_all(s) == b"of a child" else 1)
        with listener.accept()[0] as s:
            s.sendall(read_all(s))
        assert os.waitpid(child, 0)[1] == 0

        # A port without a listener, and one that is connected to itself.
        listener.close()
        with socket.socket(family) as s:
            assert s.connect_ex(at) == errno.ECONNREFUSED
        with socket.socket(family) as s:
            s.settimeout(20)
            s.bind((host, 0))
            s.connect(s.getsockname()[:2])
            assert s.getpeername() == s.getsockname()
            s.sendall(b"echo")
            assert s.recv(100) == b"echo"
            s.shutdown(socket.SHUT_WR)
            assert s.recv(100) == b""
        if datagrams == "datagrams":
            send_to_itself(family, host)


def send_to_itself(family, host):
    with socket.socket(family, socket.SOCK_DGRAM) as at, socket.socket(family, socket.SOCK_DGRAM) as s:
        at.settimeout(20)
        at.bind((host, 0))
        for size in (0, 1, 1472, 60000):
            s.sendto(bytes(size), at.getsockname())
            came, peer = at.recvfrom(65536)
            assert came == bytes(size) and peer[0] == host
        at.sendto(b"back", peer)
        s.settimeout(20)
        assert s.recvfrom(100) == (b"back", at.getsockname())
        to = at.getsockname()[:2]
        at.close()
        s.connect(to)
        s.send(b"nobody")
        assert refusal(s.recv, 100) == errno.ECONNREFUSED


def refusal(call, *arguments):
    """The number of the error that a call gives."""
    try:
        raise AssertionError(call(*arguments))
    except OSError as error:
        return error.errno


def header_fields(fresh, to):
    """Hops and class of datagrams: the peer says what came, and sends its own, of which it is told."""
    v6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    v6.settimeout(20)
    # Said before the socket is used, and behind that.
    v6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 9)
    for s, level, peer, hops, tos, told, told_tos in (
            (fresh(), 0, (to[0], 9201), socket.IP_TTL, socket.IP_TOS, 12, 13),
            (v6, 41, ("fd10::2", 9201), socket.IPV6_UNICAST_HOPS, socket.IPV6_TCLASS, 51, 66),
            (v6, 0, ("::ffff:" + to[0], 9201), socket.IP_TTL, socket.IP_TOS, 12, 13)):
        for option in (told, told_tos):
            s.setsockopt(level, option, 1)
        for said in ((9, 0) if s is v6 and level else (64, 0), (7, 0xb9), (255, 3)):
            if said[1]:
                s.setsockopt(level, hops, said[0])
                s.setsockopt(level, tos, said[1])
            s.sendto(b"x", peer)
            came, control, *_ = s.recvmsg(100, 100)
            assert came == b"%d %d" % said, (came, said)
            values = [int.from_bytes(value, "little") for _, _, value in control]
            assert values == [77, 0x2d], control
        # Of one alone.
        kinds = {0: (socket.IP_TTL, socket.IP_TOS)}.get(level, (socket.IPV6_HOPLIMIT, socket.IPV6_TCLASS))
        s.sendmsg([b"x"], [(level, kind, struct.pack("=i", value)) for kind, value in zip(kinds, (5, 8))], 0, peer)
        assert s.recv(100) == b"5 8"
        s.sendto(b"x", peer)
        assert s.recv(100) == b"255 3"
        assert refusal(s.sendmsg, [b"x"], [(level, kinds[0], struct.pack("=i", 256))], 0, peer) == errno.EINVAL


MINTTL, SAVE_SYN, SAVED_SYN = 21, 27, 28


def fields_of_connections(host, ours, *way):
    """Hops and class of connections: of their SYN, of all that follows, and of those that were accepted."""
    listener = socket.create_server((ours, 9305))
    listener.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 250)
    s = socket.socket()
    s.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 99)
    s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0xb8)
    s.settimeout(20)
    s.connect((host, 9202))
    assert s.recv(2) == bytes((99, 0xb8))
    assert (s.getsockopt(socket.IPPROTO_IP, socket.IP_TTL), s.getsockopt(socket.IPPROTO_IP, socket.IP_TOS)) == (99, 0xb8)
    s.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 250)
    assert refusal(s.setsockopt, socket.IPPROTO_IP, socket.IP_TTL, 256) == errno.EINVAL
    # The peer hears nothing with fewer hops left by now.
    s.sendall(b"next")
    assert s.recv(4) == b"next"
    with listener.accept()[0] as accepted:
        # By intercepted calls it has none of its listener's.
        if way:
            accepted.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 250)
        assert accepted.getsockopt(socket.IPPROTO_IP, socket.IP_TTL) == 250
        accepted.sendall(b"accepted")
        assert s.recv(8) == b"accepted"
    v6 = socket.socket(socket.AF_INET6)
    v6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 98)
    v6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, 0x2c)
    v6.settimeout(20)
    v6.connect(("fd10::2", 9202))
    assert v6.recv(2) == bytes((98, 0x2c))


def fields_peer(ours):
    """Says what SYNs said, and takes only what has 240 hops left."""
    listener = socket.create_server(("::", 9202), family=socket.AF_INET6, dualstack_ipv6=True)
    listener.setsockopt(socket.IPPROTO_TCP, SAVE_SYN, 1)
    print("listening", flush=True)
    while True:
        s, (host, *_) = listener.accept()
        syn = s.getsockopt(socket.IPPROTO_TCP, SAVED_SYN, 100)
        if syn[0] >> 4 == 6:
            s.sendall(bytes((syn[7], syn[0] << 4 & 0xff | syn[1] >> 4)))
            continue
        s.sendall(bytes((syn[8], syn[1])))
        s.setsockopt(socket.IPPROTO_IP, MINTTL, 240)
        s.sendall(s.recv(4))
        with socket.create_connection((ours, 9305)) as back:
            back.setsockopt(socket.IPPROTO_IP, MINTTL, 240)
            s.sendall(back.recv(8))


def telling():
    """Says of each datagram with how many hops and which class it came, and sends with others."""
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.bind(("::", 9201))
    for level, option, value in ((0, 12, 1), (0, 13, 1), (41, 51, 1), (41, 66, 1), (0, socket.IP_TTL, 77), (0, socket.IP_TOS, 0x2d),
                                 (41, socket.IPV6_UNICAST_HOPS, 77), (41, socket.IPV6_TCLASS, 0x2d)):
        s.setsockopt(level, option, value)
    print("listening", flush=True)
    while True:
        _, control, _, peer = s.recvmsg(100, 100)
        values = {kind: int.from_bytes(value, "little") for _, kind, value in control}
        hops, tos = (values.get(a, values.get(b)) for a, b in ((socket.IP_TTL, socket.IPV6_HOPLIMIT), (socket.IP_TOS, socket.IPV6_TCLASS)))
        s.sendto(b"%d %d" % (hops, tos), peer)


def one_by_several_calls(fresh, to):
    """One datagram by several calls (MSG_MORE, UDP_CORK), and of a file (sendfile)."""
    s, more = fresh(), socket.MSG_MORE
    for round in range(20):
        data = os.urandom(60000)
        s.sendto(data[:1], more, to)
        # Whatever address the others give.
        s.sendto(data[1:30000], more, (to[0], 7999))
        if round % 2:
            s.sendmsg([data[30000:]])
        else:
            s.send(data[30000:], more)
            s.setsockopt(socket.IPPROTO_UDP, 1, 0)
        assert s.recvfrom(70000) == (data, to)
    # In two processes, cut (UDP_SEGMENT), until the option is off; set before the socket was used.
    s = fresh()
    s.setsockopt(socket.IPPROTO_UDP, 1, 1)
    s.sendmsg([data[:900]], [(socket.IPPROTO_UDP, 103, struct.pack("=H", 1000))], 0, to)
    if not os.fork():
        s.send(data[900:2500])
        os._exit(0)
    os.wait()
    assert s.getsockopt(socket.IPPROTO_UDP, 1) == 1
    s.setsockopt(socket.IPPROTO_UDP, 1, 0)
    assert [s.recv(70000) for _ in range(3)] == [data[:1000], data[1000:2000], data[2000:2500]]
    assert "eventfd" in os.readlink(f"/proc/self/fd/{s.fileno()}")
    s.connect(to)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        for size in (1, 4097, 60000):
            assert os.sendfile(s.fileno(), file.fileno(), 0, size) == size and s.recv(70000) == data[:size]
        s.send(b"begun", more)
        file.seek(50000)
        # From where the file is, to its end.
        assert os.sendfile(s.fileno(), file.fileno(), None, 65000) == 10000 and file.tell() == 60000
        assert s.recv(70000) == b"begun" + data[50000:]
    # A splice has it be a Unix socket.
    out, into = os.pipe()
    os.write(into, data[:20000])
    assert os.splice(out, s.fileno(), 20000) == 20000 and s.recv(70000) == data[:20000]


def datagrams(host, ours):
    """A socket for datagrams in all that a program does with one."""
    import asyncio
    to = (host, 9200)

    def fresh(*bound):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(20)
        if bound:
            s.bind(bound)
        return s

    # Of every length, whole, with who sent it.
    s = fresh()
    for size in (0, 1, 1472, 1473, 9000, 65507):
        data = os.urandom(size)
        s.sendto(data, to)
        assert s.recvfrom(70000) == (data, to), size
    assert "eventfd" in os.readlink(f"/proc/self/fd/{s.fileno()}")
    header_fields(fresh, to)
    # Several by one call, whole (UDP_SEGMENT): for one call, and for all that follow.
    data = os.urandom(1000)
    s.sendmsg([data[:450], data[450:]], [(socket.IPPROTO_UDP, 103, struct.pack("=H", 300))], 0, to)
    assert [s.recv(70000) for _ in range(4)] == [data[at:at + 300] for at in range(0, 1000, 300)]
    s.setsockopt(socket.IPPROTO_UDP, 103, 1400)
    for size in (1400, 40000, 1):
        data = os.urandom(size)
        assert s.sendto(data, to) == size
        assert b"".join(s.recv(70000) for _ in range(0, size, 1400)) == data
    s.setsockopt(socket.IPPROTO_UDP, 103, 0)
    # Also where that was said before the socket was used.
    early = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    early.settimeout(20)
    early.setsockopt(socket.IPPROTO_UDP, 103, 1000)
    early.setsockopt(socket.IPPROTO_UDP, 104, 1)
    data = os.urandom(4500)
    assert early.sendto(data, to) == len(data)
    assert [early.recv(70000) for _ in range(5)] == [data[at:at + 1000] for at in range(0, 4500, 1000)]
    assert [early.getsockopt(socket.IPPROTO_UDP, option) for option in (103, 104)] == [1000, 1]
    assert "eventfd" in os.readlink(f"/proc/self/fd/{early.fileno()}")
    early.close()
    one_by_several_calls(fresh, to)
    # A port that nobody is at is told to one that is connected, and the next that comes is told, too.
    s.connect((host, 7999))
    s.send(b"x")
    try:
        s.recv(1)
        raise AssertionError("nobody is there")
    except ConnectionRefusedError:
        pass
    s.connect(to)
    assert s.getsockname()[0] == ours and s.getpeername() == to
    s.send(b"again")
    assert s.recv(10) == b"again"
    # By which of our addresses it came; and both families by one socket.
    s = fresh("", 0)
    s.setsockopt(socket.IPPROTO_IP, 8, 1)
    s.sendto(b"x", to)
    assert socket.inet_aton(ours) in s.recvmsg(10, 100)[1][0][2]
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.settimeout(20)
    for peer in ("::ffff:" + host, "fd10::2"):
        s.sendto(b"x", (peer, 9200))
        assert s.recvfrom(10)[1][:2] == (peer, 9200)
    info = struct.pack("=16sI", socket.inet_pton(socket.AF_INET6, "2001:db8::77"), 0)
    assert refusal(s.sendmsg, [b"x"], [(socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, info)], 0, ("fd10::2", 9200)) == errno.EINVAL
    # What goes to this host is the kernel's.
    s = fresh("127.0.0.1", 0)
    s.sendto(b"x", s.getsockname())
    assert s.recv(10) == b"x" and "socket" in os.readlink(f"/proc/self/fd/{s.fileno()}")

    # One socket in two processes, whichever uses it first, and the one that lives on.
    for first in ("child", "parent"):
        s = fresh()
        if first == "parent":
            s.sendto(b"parent", to)
        if not os.fork():
            s.sendto(b"child", to)
            os._exit(0)
        os.wait()
        if first == "child":
            s.sendto(b"parent", to)
        assert sorted((s.recv(10), s.recv(10))) == [b"child", b"parent"], first
    # And by two descriptors.
    s = fresh()
    copy = s.dup()
    copy.sendto(b"x", to)
    assert s.recv(10) == b"x"
    # One that was not used before the fork serves this host, too.
    s = fresh()
    if not os.fork():
        s.bind(("127.0.0.1", 9300))
        os._exit(0)
    os.wait()
    s.sendto(b"x", s.getsockname())
    assert s.recv(10) == b"x"

    # Another program, and one that it is passed to.
    s = fresh()
    s.connect(to)
    s.set_inheritable(True)
    program = f"import socket; s = socket.socket(fileno={s.fileno()}); s.settimeout(20); s.send(b'x'); print(s.type, s.recv(10))"
    said = subprocess.run([sys.executable, "-c", program], close_fds=False, capture_output=True, check=True).stdout
    assert said == b"2 b'x'\n", said
    s.send(b"mine")
    assert s.recv(10) == b"mine"
    s = fresh("", 0)
    s.sendto(b"before", to)
    one, other = socket.socketpair()
    socket.send_fds(one, [b"x"], [s.fileno()])
    passed = socket.socket(fileno=socket.recv_fds(other, 10, 1)[1][0])
    passed.settimeout(20)
    assert passed.recv(10) == b"before"
    passed.send(b"to the last")
    assert passed.recv(20) == b"to the last"

    # A full ring: it is not writable, and then it is.
    s = fresh()
    s.setblocking(False)
    try:
        while True:
            s.sendto(bytes(60000), (host, 7999))
    except BlockingIOError:
        pass
    s.setblocking(True)
    assert select.select([], [s], [], 20)[1] == [s]
    assert s.sendto(bytes(65507), (host, 7999)) == 65507
    asyncio.run(asynchronous(to))
    # At the place where it is (-1), reading and writing are a socket's; it has no other.
    s = fresh(ours, 0)
    s.setblocking(False)
    at_once, buffer = 8, bytearray(4)
    assert refusal(os.preadv, s.fileno(), [buffer], -1) == errno.EAGAIN
    s.connect(to)
    assert os.pwritev(s.fileno(), [b"pla", b"ce"], -1) == 5
    assert select.select([s], [], [], 20)[0] and os.preadv(s.fileno(), [buffer], -1, at_once) == 4 and buffer == b"plac"
    s.setblocking(True)
    assert refusal(os.preadv, s.fileno(), [buffer], -1, at_once) == errno.EAGAIN
    library = ctypes.CDLL(None, use_errno=True)
    room = ctypes.create_string_buffer(8)
    part = (ctypes.c_size_t * 2)(ctypes.addressof(room), 8)
    for name in ("pread", "pwrite", "preadv", "pwritev", "preadv2", "pwritev2"):
        first = (ctypes.c_size_t(part[0]), ctypes.c_size_t(8)) if name in ("pread", "pwrite") else (part, 1)
        for offset, error in ((0, errno.ESPIPE), (-2, errno.EINVAL)):
            assert getattr(library, name)(s.fileno(), *first, ctypes.c_long(offset), 0) == -1 and ctypes.get_errno() == error, (name, offset)
    # Options and control data that nobody knows, and one at an address of IPv4 that sends by IPv6.
    assert s.getsockopt(socket.IPPROTO_IP, 14) == 1500 and refusal(fresh(ours, 0).getsockopt, socket.IPPROTO_IP, 14) == errno.ENOTCONN
    assert refusal(s.setsockopt, socket.IPPROTO_IP, 60, 1) == refusal(s.getsockopt, socket.IPPROTO_IP, 60) == errno.ENOPROTOOPT
    for level, kind in ((socket.IPPROTO_IP, 99), (socket.SOL_SOCKET, 99)):
        assert refusal(s.sendmsg, [b"x"], [(level, kind, bytes(4))]) == errno.EINVAL
    for ttl in (0, 300):
        assert refusal(s.setsockopt, socket.IPPROTO_IP, socket.IP_TTL, ttl) == errno.EINVAL
    v6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    v6.settimeout(20)
    v6.bind(("::ffff:" + ours, 0))
    assert refusal(v6.sendto, b"x", ("fd10::2", 9200)) == refusal(v6.connect, ("fd10::2", 9200)) == errno.EAFNOSUPPORT
    assert refusal(v6.setsockopt, socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 300) == errno.EINVAL
    v6.sendto(b"mapped", ("::ffff:" + host, 9200))
    assert v6.recv(10) == b"mapped"
    # Where no route leads is told by connect, and to a thread that waits after sendto.
    far = ("192.0.2.1", 9200)
    assert refusal(fresh().connect, far) == errno.ENETUNREACH
    s = fresh()
    s.settimeout(None)
    s.sendto(b"first", to)
    assert s.recv(10) == b"first"
    threading.Timer(0.1, lambda: s.sendto(b"x", far)).start()
    assert refusal(s.recv, 1) == errno.ENETUNREACH
    # One thread waits while another shuts.
    s = fresh()
    s.settimeout(None)
    s.connect(to)
    threading.Timer(0.1, lambda: s.shutdown(socket.SHUT_RD)).start()
    assert s.recv(1) == b""


def interfaces(host):
    """What is asked of interfaces by way of a shared socket: by one socket of the kernel's for all, which programs do not close."""
    loopback = struct.pack("16si20x", b"", 1)

    def name(s):
        return fcntl.ioctl(s, 0x8910, loopback)[:16].rstrip(b"\0")

    def of_kernels():
        all = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
        return sum(os.readlink(fd).startswith("socket:") for fd in all if os.path.lexists(fd))

    def fresh():
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.sendto(b"x", (host, 9200))
        assert "eventfd" in os.readlink(f"/proc/self/fd/{s.fileno()}")
        return s

    def asks(s):
        threads = [threading.Thread(target=lambda: [name(s) for _ in range(100)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert name(s) == b"lo" and of_kernels() == before + 1
        # No request of these is there.
        for _ in range(3):
            assert refusal(fcntl.ioctl, s, 0x89a0 - 1, loopback) == errno.ENOTTY
        assert of_kernels() == before + 1

    before = of_kernels()
    s = fresh()
    assert of_kernels() == before
    asks(s)
    os.closerange(3, 4000)
    s.detach()
    before = 0
    asks(fresh())
    if not (child := os.fork()):
        asks(fresh())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    asks(fresh())


class InterfaceAddress(ctypes.Structure):
    """An address of an interface (getifaddrs(3))."""


InterfaceAddress._fields_ = [("next", ctypes.POINTER(InterfaceAddress)), ("name", ctypes.c_char_p), ("flags", ctypes.c_uint),
                             *[(name, ctypes.c_void_p) for name in ("address", "mask", "broadcast", "data")]]


def own_addresses(*wanted):
    """The stack's addresses are among this host's, each once, beside the host's own. Without: it is in a network of its own, with none."""
    def text(at, family):
        start, size = (4, 4) if family == socket.AF_INET else (8, 16)
        return socket.inet_ntop(family, ctypes.string_at(at + start, size))

    libc = ctypes.CDLL(None, use_errno=True)
    for _ in range(100):
        first, found = ctypes.POINTER(InterfaceAddress)(), []
        assert libc.getifaddrs(ctypes.byref(first)) == 0
        at = first
        while at:
            one, at = at.contents, at.contents.next
            family = one.address and struct.unpack("H", ctypes.string_at(one.address, 2))[0]
            if family in (socket.AF_INET, socket.AF_INET6):
                broadcast = one.broadcast and text(one.broadcast, family)
                found.append((one.name, text(one.address, family), text(one.mask, family), one.flags & 0x41, broadcast))
        libc.freeifaddrs(first)
    masks = {"10.10.0.10": ("255.255.255.0", "10.10.0.255"), "fd10::10": ("ffff:ffff:ffff:ffff::", None)}
    for address in wanted:
        (mask, broadcast), ours = masks[address], [one for one in found if one[1] == address]
        assert ours == [(b"wire", address, mask, 0x41, broadcast)], (ours, found)
    others = {one[0] for one in found if one[1] not in wanted}
    assert {b"lo", b"wire"} <= others if wanted else not found, found
    # By a socket of the kernel's, and by a shared one.
    with socket.socket(type=socket.SOCK_DGRAM) as kernels, socket.socket(type=socket.SOCK_DGRAM) as ours:
        if wanted:
            ours.connect(("10.10.0.2", 9))
        for asked in kernels, ours:
            addresses_by_ioctl(asked, [address for address in wanted if ":" not in address])


def addresses_by_ioctl(asked, wanted):
    """The same of IPv4 by ioctl(2) (netdevice(7)): as many as there is room for, and how much room all want."""
    entry, conf, of_address, other_end, broadcast, mask = 40, 0x8912, 0x8915, 0x8917, 0x8919, 0x891b

    def listed(room):
        array = ctypes.create_string_buffer(room or 1)
        got = fcntl.ioctl(asked, conf, struct.pack("iP", room, ctypes.addressof(array) if room else 0))
        length = struct.unpack("iP", got)[0]
        if not room:
            return length // entry
        pieces = [array.raw[at:at + entry] for at in range(0, length, entry)]
        return [(piece[:16].rstrip(b"\0"), socket.inet_ntoa(piece[20:24])) for piece in pieces]

    all_of_them = listed(100 * entry)
    # What cannot be read is refused, and nobody dies of it.
    libc = ctypes.CDLL(None, use_errno=True)
    for descriptor, error in (asked.fileno(), errno.EFAULT), (-1, errno.EBADF):
        result = libc.ioctl(descriptor, ctypes.c_ulong(conf), ctypes.c_void_p(1))
        assert (result, ctypes.get_errno()) == (-1, error), (descriptor, result, ctypes.get_errno())
    ours = [one for one in all_of_them if one[1] in wanted]
    assert ours == [(b"wire", address) for address in wanted], all_of_them
    assert listed(0) >= len(all_of_them)
    if not wanted:
        return
    assert listed(len(all_of_them) * entry) == all_of_them
    assert listed((len(all_of_them) - 1) * entry + 8) == all_of_them[:-1]
    # An interface without one of the kernel's has the stack's.
    if not any(one == b"wire" and address not in wanted for one, address in all_of_them):
        told = [fcntl.ioctl(asked, what, b"wire".ljust(entry, b"\0")) for what in (of_address, other_end, mask, broadcast)]
        assert [socket.inet_ntoa(piece[20:24]) for piece in told] == [*wanted, *wanted, "255.255.255.0", "10.10.0.255"], told
        print("the stack's alone")


def datagrams_by_loopback(host):
    """A socket at all addresses hears this host by loopback, beside the wire, and answers from there."""
    pktinfo, to_wire = 8, (host, 9200)
    is_ours = lambda s: "eventfd" in os.readlink(f"/proc/self/fd/{s.fileno()}")

    def of_kernels(at="127.0.0.1", port=0):
        s = socket.socket(socket.AF_INET6 if ":" in at else socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(20)
        s.bind((at, port))
        assert not is_ours(s)
        return s

    def at_all(port, family=socket.AF_INET, **options):
        s = socket.socket(family, socket.SOCK_DGRAM)
        s.settimeout(20)
        for option, value in options.items():
            level = {"I": socket.IPPROTO_IPV6, "S": socket.SOL_SOCKET}[option[0]]
            s.setsockopt(level, getattr(socket, option), value)
        s.bind(("", port))
        assert is_ours(s)
        return s

    def disconnect(s):
        library = ctypes.CDLL(None, use_errno=True)
        assert library.connect(s.fileno(), bytes(16), 16) == 0, ctypes.get_errno()

    def hears(s, *clients):
        """Datagrams of each, and answers to each."""
        for client, at in clients:
            client.sendto(b"asked", at)
            data, peer = s.recvfrom(100)
            assert data == b"asked" and peer[1] == client.getsockname()[1], (data, peer)
            s.sendto(b"told", peer[:2])
            assert client.recvfrom(100)[1][:2] == at

    # Of every length, beside the wire, with the address that it came to, from which the answer comes.
    s, client, other = at_all(9500), of_kernels(), of_kernels()
    s.setsockopt(socket.IPPROTO_IP, pktinfo, 1)
    near = ("127.0.0.1", 9500)
    for size in (0, 1, 1472, 60000):
        data = os.urandom(size)
        client.sendto(data, near)
        came, control, _, peer = s.recvmsg(70000, 100)
        assert (came, peer) == (data, client.getsockname())
        assert control[0][2][4:] == socket.inet_aton("127.0.0.1") * 2 and control[0][2][0] == 1, control
        s.sendmsg([data], control, 0, peer)
        assert client.recvfrom(70000) == (data, near)
        s.sendto(data, to_wire)
        assert s.recvfrom(70000) == (data, to_wire)
    source = struct.pack("=i4s4x", 0, socket.inet_aton("127.0.0.1"))
    assert refusal(s.sendmsg, [b"x"], [(socket.IPPROTO_IP, pktinfo, source)], 0, to_wire) == errno.EINVAL
    # More than there is room for: what is there comes in order, and then what is sent further.
    for i in range(40):
        client.sendto(bytes([i]) * 60000, near)
    came = [s.recv(70000)[0]]
    s.settimeout(0.2)
    while came[-1] != 99:
        client.sendto(bytes([99]), near)
        try:
            came.append(s.recv(70000)[0])
        except TimeoutError:
            pass
    assert came == sorted(came) and len(came) > 3, came
    s.settimeout(20)
    while select.select([s], [], [], 0.2)[0]:
        assert s.recv(10) == bytes([99])
    # By poll and epoll.
    with select.epoll() as epoll:
        epoll.register(s, select.EPOLLIN | select.EPOLLET)
        client.sendto(b"x", near)
        assert epoll.poll(20) == [(s.fileno(), select.EPOLLIN)] and s.recv(9) == b"x"
    # One that is connected by loopback hears its peer alone, and sends by it; connected to nobody it hears all again.
    s.connect(client.getsockname())
    assert (s.getsockname(), s.getpeername()) == (near, client.getsockname())
    other.sendto(b"other", near)
    client.sendto(b"peer", near)
    assert s.recv(100) == b"peer" and not select.select([s], [], [], 0)[0]
    assert refusal(s.sendto, b"x", to_wire) == errno.EINVAL
    s.send(b"told")
    assert client.recvfrom(100) == (b"told", near)
    client_at = client.getsockname()
    client.close()
    s.send(b"nobody")
    assert refusal(s.recv, 100) == errno.ECONNREFUSED
    disconnect(s)
    client = of_kernels()
    hears(s, (client, near), (other, near))
    # One that is connected by the wire is not there by loopback.
    s.connect(to_wire)
    client.connect(near)
    client.send(b"x")
    assert refusal(client.recv, 100) == errno.ECONNREFUSED
    disconnect(s)
    client = of_kernels()
    hears(s, (client, near))
    s.connect(client.getsockname())
    # In another program it hears its peer still.
    s.set_inheritable(True)
    program = f"import socket; s = socket.socket(fileno={s.fileno()}); s.settimeout(20); s.send(b'asked'); assert s.recv(10) == b'told'"
    child = subprocess.Popen([sys.executable, "-c", program], close_fds=False)
    assert client.recvfrom(10) == (b"asked", near)
    client.sendto(b"told", near)
    assert child.wait() == 0
    s.close()
    # Once it is closed, others have the port.
    await_that(lambda: subprocess.run([sys.executable, "-c", "import socket; socket.socket(type=2).bind(('127.0.0.1', 9500))"],
                                      stderr=subprocess.DEVNULL).returncode == 0)
    # A client that has spoken with another host first.
    service, s = of_kernels(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(20)
    s.sendto(b"far", to_wire)
    assert s.recvfrom(10) == (b"far", to_wire) and is_ours(s)
    s.sendto(b"near", service.getsockname())
    data, peer = service.recvfrom(10)
    assert (data, peer) == (b"near", ("127.0.0.1", s.getsockname()[1]))
    service.sendto(b"back", peer)
    assert s.recvfrom(10) == (b"back", service.getsockname())
    # Both families by one socket, or one of them.
    v6 = of_kernels("::1")
    with at_all(9501, socket.AF_INET6) as s:
        hears(s, (of_kernels(), ("127.0.0.1", 9501)), (v6, ("::1", 9501)))
    with at_all(9502, socket.AF_INET6, IPV6_V6ONLY=1) as s:
        hears(s, (v6, ("::1", 9502)))
        client = of_kernels()
        client.connect(("127.0.0.1", 9502))
        client.send(b"x")
        assert refusal(client.recv, 10) == errno.ECONNREFUSED
    # Two that share a port, and one of another interface.
    with at_all(9503, SO_REUSEPORT=1), at_all(9503, SO_REUSEPORT=1):
        pass
    with at_all(9504, SO_BINDTODEVICE=b"wire"):
        client = of_kernels()
        client.connect(("127.0.0.1", 9504))
        client.send(b"x")
        assert refusal(client.recv, 10) == errno.ECONNREFUSED
    # A port that this host has: that is said, and the wire's is heard.
    with of_kernels("127.0.0.1", 9505), at_all(9505) as s:
        s.sendto(b"far", to_wire)
        assert s.recvfrom(10) == (b"far", to_wire)


async def asynchronous(to):
    import asyncio
    class Protocol(asyncio.DatagramProtocol):
        def __init__(self):
            self.got = asyncio.get_running_loop().create_future()

        def datagram_received(self, data, peer):
            self.got.set_result((data, peer))

    for how, peer in (({"remote_addr": to}, None), ({"local_addr": ("0.0.0.0", 0)}, to)):
        transport, protocol = await asyncio.get_running_loop().create_datagram_endpoint(Protocol, **how)
        transport.sendto(b"x", peer)
        assert await asyncio.wait_for(protocol.got, 20) == (b"x", to)
        transport.close()


def ask(server, name):
    """The address that a name server says a name has."""
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(60)
        s.connect((server, 53))
        s.send(struct.pack("!6H", 77, 0x100, 1, 0, 0, 0) + labels + struct.pack("!x2H", 1, 1))
        answer = s.recv(1500)
    assert struct.unpack_from("!4H", answer)[3] == 1, answer
    print(socket.inet_ntoa(answer[-4:]))


SHARING = """
import os, socket
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(("", 9000))
listener.listen(100)
print("listening", flush=True)
while True:
    listener.accept()[0].sendall(b"%d" % os.getpid())
"""


def sharing(exos, lab, ip, *way):
    """Two processes take connections to one port, and when one ends the other takes all."""
    two = f"import subprocess, sys; children = [subprocess.Popen([sys.executable, '-c', {SHARING!r}]) for _ in range(2)]; children[0].wait(); children[1].wait()"
    server = subprocess.Popen([exos, "lab", "exec", "--name", lab, "a", "--", exos, "run", *way, "--link", "xdp:wire", "--address", ip + "/24",
                               "--", sys.executable, "-c", two], stdout=subprocess.PIPE)
    try:
        assert [server.stdout.readline() for _ in range(2)] == [b"listening\n"] * 2

        def pids():
            said = subprocess.run([exos, "lab", "exec", "--name", lab, "b", "--", sys.executable, __file__, "bodies", ip, "9000", "bare"], check=True,
                                  timeout=100, capture_output=True)
            return said.stdout.split()

        both = pids()
        assert len(both) == 2, both
        os.kill(int(both[0]), signal.SIGKILL)
        last = time.monotonic() + 60
        while (left := pids()) != both[1:] and time.monotonic() < last:
            pass
        assert left == both[1:], (both, left)
    finally:
        for pid in both[1:]:
            os.kill(int(pid), signal.SIGTERM)
        server.terminate()
        server.wait(20)


def bodies(host, port, bare=None):
    """How many different answers many connections get; of those that are not HTTP, which."""
    said = set()
    for _ in range(60):
        with socket.create_connection((host, int(port)), 20) as s:
            if not bare:
                s.sendall(REQUEST)
            said.add(read_all(s).rpartition(b"\r\n\r\n")[2])
    print(*(sorted(map(bytes.decode, said)) if bare else [len(said)]))


def numbered(host, port):
    """Calls by their numbers (syscall(2), x86-64), as libuv and others make some of theirs."""
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long

    def call(number, *words):
        """The result, or the error's number."""
        words = [ctypes.c_long(word) if isinstance(word, int) else word for word in words]
        result = library.syscall(ctypes.c_long(number), *words)
        return result if result != -1 else -ctypes.get_errno()

    read, write, close, dup, dup2, mmap, sendto, recvfrom, preadv2, pwritev2, close_range = 0, 1, 3, 32, 33, 9, 44, 45, 327, 328, 436
    bad, request, room = -9, b"GET /small HTTP/1.0\r\n\r\n", ctypes.create_string_buffer(4096)

    def answer(number, fd, *more):
        said = b""
        while (count := call(number, fd, room, 4096, *more)) > 0:
            said += room.raw[:count]
        assert count == 0 and said.endswith(b"hello\n"), (count, said)

    # By each of its numbers, of which the first is closed.
    s = socket.create_connection((host, int(port)))
    first = s.detach()
    second = call(dup, first)
    third = call(dup2, first, 700)
    assert call(close, first) == 0 and call(close, first) == bad and third == 700
    assert call(write, first, request, len(request)) == bad
    assert call(write, second, request, len(request)) == len(request)
    answer(read, third)
    assert call(close, second) == 0 and call(close_range, third, third, 0) == 0
    # The number of a socket that was closed so is a file's: it has what is written to it, and the next socket is another.
    s = socket.create_connection((host, int(port))).detach()
    assert call(close, s) == 0
    file = os.memfd_create("file")
    assert file == s, (file, s)
    page = os.sysconf("SC_PAGE_SIZE")
    assert os.pwrite(file, b"second page", page) == 11 and call(write, file, b"first", 5) == 5
    # Six arguments, and a result that is no small number.
    address = call(mmap, 0, page, 1, 1, file, page)
    assert address > 4096 and ctypes.string_at(address, 11) == b"second page"
    assert call(mmap, 0, 0, 1, 1, file, page) == -22, "EINVAL"
    s = socket.create_connection((host, int(port))).detach()
    assert call(sendto, s, request, len(request), 0, 0, 0) == len(request)
    answer(recvfrom, s, 0, 0, 0)
    s2 = socket.create_connection((host, int(port))).detach()
    asked = ctypes.create_string_buffer(request)
    part = (ctypes.c_size_t * 2)(ctypes.addressof(asked), len(request))
    assert call(pwritev2, s2, part, 1, -1, 0, 0) == len(request)
    part[0], part[1] = ctypes.addressof(room), 4096
    assert call(preadv2, s2, part, 1, -1, 0, 0) > 0 and room.raw.startswith(b"HTTP/1.")
    assert call(preadv2, s2, part, 1, 0, 0, 0) == -29, "ESPIPE"
    assert call(close, s2) == 0
    assert call(close, s) == 0 and os.pread(file, 100, 0)[:5] == b"first"


SERVER = """
import os, signal, socket
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.create_server(("", 9000), backlog=500)
print("listening", flush=True)
while True:
    s, peer = listener.accept()
    if not os.fork():
        listener.close()
        while piece := s.recv(4096):
            s.sendall(piece)
        os._exit(0)
    s.close()
"""


# One connection for each time that the listener is readable.
SELECTING = """
import select, socket
listener = socket.create_server(("", 9000), backlog=1000)
listener.setblocking(False)
print("listening", flush=True)
open_ = {}
while True:
    for fd in select.select([listener, *open_.values()], [], [])[0]:
        if fd is listener:
            s, peer = listener.accept()
            open_[s.fileno()] = s
        elif piece := fd.recv(4096):
            fd.sendall(piece)
        else:
            del open_[fd.fileno()]
            fd.close()
"""


# Four threads that share one epoll set: each takes one event at a time.
POOLED = """
import select, socket, threading
listener = socket.create_server(("", 9000), backlog=100)
listener.setblocking(False)
epoll, open_ = select.epoll(), {}
ONCE = select.EPOLLIN | select.EPOLLONESHOT
def take(fd):
    if fd == listener.fileno():
        try:
            s, peer = listener.accept()
        except BlockingIOError:
            return
        open_[s.fileno()] = s
        epoll.register(s, ONCE)
    elif piece := open_[fd].recv(4096):
        open_[fd].sendall(piece)
        epoll.modify(fd, ONCE)
    else:
        open_.pop(fd).close()
def run():
    while True:
        for fd, _ in epoll.poll(-1, 1):
            take(fd)
many = [threading.Thread(target=run) for _ in range(4)]
for thread in many:
    thread.start()
# These sleep by now, or are about to.
epoll.register(listener, select.EPOLLIN)
print("listening", flush=True)
"""


def threads(host, port):
    """One thread waits for a socket while another does something to it, or to the set that it is in."""

    def connect():
        return socket.create_connection((host, int(port)), 20)

    def ask(s):
        s.sendall(b"GET /small HTTP/1.0\r\n\r\n")

    def beside(call):
        """What the call gives, in a thread that waits by now."""
        got = []

        def run():
            try:
                got.append(call())
            except OSError as error:
                got.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        select.select([], [], [], 0.1)

        def join():
            thread.join(20)
            assert got, "it waits for ever"
            return got[0]

        return join

    def answer(s):
        text = b""
        while piece := s.recv(4096):
            text += piece
        assert text.endswith(b"hello\n"), text

    # A set that is waited for gets its first socket, another one that is ready, and one by a copy of its descriptor.
    epoll = select.epoll()
    many = [connect() for _ in range(3)]
    for s in many:
        ask(s)
    for n, place in enumerate((epoll, epoll, select.epoll.fromfd(os.dup(epoll.fileno())))):
        told = beside(lambda: epoll.poll(20))
        place.register(many[n], select.EPOLLIN | select.EPOLLET)
        assert told() == [(many[n].fileno(), select.EPOLLIN)] or told()[0][0] == many[n].fileno(), told()
    for s in many:
        answer(s)

    # Sets within sets, that are waited for in each way while something comes for a socket in the inner one, or the socket itself does.
    inner, middle, outer = select.epoll(), select.epoll(), select.epoll()
    middle.register(inner, select.EPOLLIN)
    outer.register(middle, select.EPOLLIN)
    poll = select.poll()
    poll.register(middle, select.POLLIN)
    waits = {"outer": lambda: outer.poll(20), "poll": lambda: poll.poll(20000), "select": lambda: select.select([middle], [], [], 20)[0]}
    for what, wait in waits.items():
        for is_there in (False, True):
            s = connect()
            if is_there:
                inner.register(s, select.EPOLLIN)
            assert not outer.poll(0) and not poll.poll(0), what
            told = beside(wait)
            ask(s)
            if not is_there:
                inner.register(s, select.EPOLLIN)
            assert told() in ([(middle.fileno(), select.EPOLLIN)], [middle]), (what, told())
            assert inner.poll(20) == [(s.fileno(), select.EPOLLIN)]
            answer(s)
            s.close()
            assert not outer.poll(0) and not poll.poll(0), what

    # Of several that are ready, sets and a socket, each has its turn where one event is asked for; also a set by a copy of its descriptor.
    outer, many = select.epoll(), [connect() for _ in range(4)]
    inner = [select.epoll() for _ in range(3)]
    for s, place in zip(many, [*inner, outer]):
        ask(s)
        assert select.select([s], [], [], 20)[0]
        place.register(s, select.EPOLLIN)
    for place in inner:
        outer.register(place, select.EPOLLIN)
    wanted = {place.fileno() for place in (*inner, many[3])}
    copy = os.dup(inner[2].fileno())
    inner[2].close()
    told = [outer.poll(20, 1) for _ in range(40)]
    assert {fd for [(fd, _)] in told} == wanted, told
    os.close(copy)
    assert len(outer.poll(20)) == 3
    for s in many:
        answer(s)
        s.close()
    assert not outer.poll(0)

    # A socket that another program inherits, while it is waited for in each way.
    for wait in ("recv", "poll", "epoll"):
        s = connect()
        s.set_inheritable(True)
        if wait == "recv":
            told = beside(lambda: s.recv(1, socket.MSG_PEEK))
        elif wait == "poll":
            poll = select.poll()
            poll.register(s, select.POLLIN)
            told = beside(lambda: poll.poll(20000))
        else:
            epoll.register(s, select.EPOLLIN)
            told = beside(lambda: epoll.poll(20))
        assert os.system("true") == 0
        ask(s)
        assert told(), wait
        answer(s)

    # A set goes on in a child whose parent ends.
    out, into = os.pipe()
    if os.fork() == 0:
        inherited = select.epoll()
        s = connect()
        inherited.register(s, select.EPOLLIN)
        parent = os.getpid()
        if os.fork() == 0:
            while os.getppid() == parent:
                select.select([], [], [], 0.01)
            ask(s)
            os.write(into, b"told" if inherited.poll(20) else b"not told")
        os._exit(0)
    assert os.read(out, 100) == b"told"

    # Closed while another thread reads: what comes on the next connection is the next one's.
    s = connect()
    told = beside(lambda: s.recv(4096))
    os.close(s.detach())
    following = [connect() for _ in range(4)]
    for s in following:
        ask(s)
    for s in following:
        answer(s)


def sink():
    """Says how many bytes a connection brings, whose reader is slow."""
    listener = socket.create_server(("", 9100))
    print("listening", flush=True)
    s, _ = listener.accept()
    select.select([], [], [], 0.3)
    count = 0
    while piece := s.recv(1 << 16):
        count += len(piece)
    print(count, flush=True)


def upload(host):
    """Writes, and ends at once."""
    socket.create_connection((host, 9100)).sendall(bytes(3000000))
    os._exit(0)


def echoing(count):
    """Echoes what this many connections bring, until the last of them ends."""
    def answer(s):
        with s:
            while piece := s.recv(4096):
                s.sendall(piece)

    with socket.create_server(("", 9001), backlog=100) as listener:
        listener.settimeout(60)
        print("listening", flush=True)
        threads = []
        for _ in range(int(count)):
            threads.append(threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True))
            threads[-1].start()
    # Clients take a busy machine's time.
    end = time.monotonic() + 200
    for thread in threads:
        thread.join(max(0, end - time.monotonic()))
    print(sum(thread.is_alive() for thread in threads), "left", flush=True)


# Echoes, as a program of coroutines.
ECHOING = """
import asyncio
import concurrent.futures

async def echo(reader, writer):
    while piece := await reader.read(4096):
        writer.write(piece)
        await writer.drain()
    writer.close()

async def serve():
    server = await asyncio.start_server(echo, "0.0.0.0", 9000, backlog=200)
    print("listening", flush=True)
    await server.serve_forever()

asyncio.run(serve())
"""


def asynchronous_server(exos, lab, ip, *way):
    serving(exos, lab, ip, ECHOING, 100, way)


def asynchronous_client(host, port, path):
    """Ten connections at once, each of which gets a whole file."""
    import asyncio

    async def fetch():
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /noise HTTP/1.0\r\n\r\n")
        said = await reader.read(-1)
        writer.close()
        return said.partition(b"\r\n\r\n")[2]

    async def all_of_them():
        return await asyncio.gather(*[fetch() for _ in range(10)])

    wanted = contents(path)
    assert all(said == wanted for said in asyncio.run(all_of_them()))


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def requests(url, path):
    """By `requests`: what there is, on one connection after the other, and what there is not."""
    import requests

    with requests.Session() as session:
        for _ in range(5):
            assert session.get(url, timeout=60).content == contents(path)
        assert session.get(url + ".not", timeout=60).status_code == 404
        assert session.post(url, data=bytes(100000), timeout=60).status_code == 501


def git_over_http(root):
    """git's own back end for HTTP, as a CGI program behind a web server (git-http-backend(1))."""
    import http.server

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            path, _, query = self.path.partition("?")
            size = int(self.headers.get("Content-Length", 0))
            environment = os.environ | {
                "GIT_PROJECT_ROOT": root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(size), "REMOTE_ADDR": self.client_address[0],
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
            said = subprocess.run(["git", "http-backend"], env=environment, input=self.rfile.read(size), stdout=subprocess.PIPE, check=True).stdout
            head, _, body = said.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
            self.send_response(int(fields.pop("Status", "200").split()[0]))
            for field in fields.items():
                self.send_header(*field)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer

    http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()


def takes_one():
    """A service of inetd's that waits: the listener is its standard input; it takes one connection."""
    with socket.socket(fileno=0).accept()[0] as s:
        s.sendall(s.recv(100))


def said(host, port, word):
    with socket.create_connection((host, int(port)), 20) as s:
        s.sendall(word.encode())
        print(read_all(s).decode())


def activated():
    """A service that is started when somebody connects (sd_listen_fds(3)): the listener is descriptor 3."""
    assert os.environ["LISTEN_FDS"] == "1" and os.environ["LISTEN_PID"] == str(os.getpid())
    listener = socket.socket(fileno=3)
    while True:
        with listener.accept()[0] as s:
            while piece := s.recv(65536):
                s.sendall(piece)


def echoed(host, port, path):
    """A file comes back as it was sent."""
    wanted = contents(path)
    with socket.create_connection((host, int(port)), 20) as s:
        def send():
            s.sendall(wanted)
            s.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        got = bytearray()
        while piece := s.recv(1 << 16):
            got += piece
        sender.join()
    assert got == wanted, len(got)


def forking(exos, lab, ip, *way):
    serving(exos, lab, ip, SERVER, 100, way)


def selecting(exos, lab, ip, *way):
    serving(exos, lab, ip, SELECTING, 400, way)


def pooled(exos, lab, ip, *way):
    serving(exos, lab, ip, POOLED, 200, way, "exchange")


def serving(exos, lab, ip, program, count, way, visit="visit"):
    server = subprocess.Popen([exos, "lab", "exec", "--name", lab, "a", "--", exos, "run", *way, "--link", "xdp:wire", "--address", ip + "/24",
                               "--", sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert server.stdout.readline() == b"listening\n"
        subprocess.run([exos, "lab", "exec", "--name", lab, "b", "--", sys.executable, __file__, visit, ip, str(count)], check=True, timeout=100)
    finally:
        server.terminate()
        server.wait(20)


def visit(ip, count):
    sockets = [socket.create_connection((ip, 9000)) for _ in range(int(count))]
    for i, s in enumerate(sockets):
        s.sendall(b"%d" % i * 1000)
    for i, s in enumerate(sockets):
        wanted = b"%d" % i * 1000
        got = b""
        while len(got) < len(wanted):
            got += s.recv(len(wanted))
        assert got == wanted
        s.shutdown(socket.SHUT_WR)
        assert s.recv(1) == b""


def exchange(ip, count):
    """Eight clients that ask and wait, many times on each of several connections, all at once."""
    import concurrent.futures

    def run(_):
        for _ in range(8):
            with socket.create_connection((ip, 9000), 20) as s:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for _ in range(int(count)):
                    select.select([], [], [], random.random() * 0.0003)
                    s.sendall(b"x" * 8)
                    assert s.recv(16) == b"x" * 8

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(8)))


def copies(host, port):
    """An epoll set knows a socket by each of its descriptors."""
    with socket.create_connection((host, port)) as s, s.dup() as copy, select.epoll() as epoll:
        def refused(call, *arguments):
            try:
                return call(*arguments)
            except OSError as e:
                return e.errno
        epoll.register(s, select.POLLOUT)
        assert refused(epoll.modify, copy, select.POLLOUT) == refused(epoll.unregister, copy) == errno.ENOENT
        epoll.register(copy, select.POLLOUT)
        assert refused(epoll.register, copy, select.POLLOUT) == errno.EEXIST
        assert sorted(epoll.poll(5)) == sorted((one.fileno(), select.POLLOUT) for one in (s, copy))
        epoll.unregister(s)
        assert epoll.poll(5) == [(copy.fileno(), select.POLLOUT)]
        copy.sendall(b"GET /small HTTP/1.0\r\n\r\n")
        assert read_all(s).endswith(b"hello\n")
    # One that was in the set before, or whose number another had that was, is told of once.
    with select.epoll() as epoll:
        for _ in range(3):
            with socket.create_connection((host, port)) as s:
                for _ in range(3):
                    epoll.register(s, select.POLLOUT)
                    assert epoll.poll(5) == [(s.fileno(), select.POLLOUT)]
                    epoll.unregister(s)


def unshared_in_vain(host, port):
    """A socket that cannot become a Unix socket, for want of descriptors, stays in the epoll sets that it is in."""
    with socket.create_connection((host, port)) as s, select.epoll() as epoll:
        epoll.register(s, select.EPOLLIN)
        ours, theirs = socket.socketpair()
        supervisor = supervisor_of_this()
        limit = resource.prlimit(supervisor, resource.RLIMIT_NOFILE)
        resource.prlimit(supervisor, resource.RLIMIT_NOFILE, (3, limit[1]))
        socket.send_fds(ours, [b"x"], [s.fileno()])
        resource.prlimit(supervisor, resource.RLIMIT_NOFILE, limit)
        assert os.readlink(f"/proc/self/fd/{s.fileno()}").startswith("anon_inode")
        s.sendall(b"GET /small HTTP/1.0\r\n\r\n")
        assert epoll.poll(5) == [(s.fileno(), select.EPOLLIN)]
        assert read_all(s).endswith(b"hello\n")
        ours.close(), theirs.close()


def supervisor_of_this():
    """The first process above that runs no Python is the guard; its parent."""
    pid = os.getppid()
    while "python" in os.readlink(f"/proc/{pid}/exe"):
        pid = parent_of(pid)
    return parent_of(pid)


def parent_of(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("PPid:"))


def beneath():
    """A function that makes a system call by an instruction of its own, which the library does not see; of x86-64."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex("4889f8 4889f7 4889d6 4889ca 4d89c2 4d89c8 4c8b4c2408 0f05 c3"))
    call = ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_long] * 7)(ctypes.addressof(ctypes.c_char.from_buffer(page)))

    def by_number(number, *words):
        assert page
        return call(number, *words, *[0] * (6 - len(words)))
    return by_number


def say_counters():
    """Has the supervisor say what it has counted: it has heard of that before it answers two more calls."""
    os.kill(supervisor_of_this(), signal.SIGUSR1)
    with socket.socket() as s:
        for _ in range(3):
            s.setsockopt(1, socket.SO_KEEPALIVE, 1)


def listens(port=9400, backlog=4096):
    listener = socket.create_server(("", port), backlog=backlog)
    listener.settimeout(60)
    return listener


def many_by_loopback():
    """Connections by loopback that wait are few descriptors of the supervisor's; each is taken, and more come when it has none for a while."""
    supervisor = supervisor_of_this()
    descriptors = lambda: len(os.listdir(f"/proc/{supervisor}/fd"))
    with listens() as listener:
        before = descriptors()
        waiting = [socket.create_connection(("127.0.0.1", 9400), 60) for _ in range(300)]
        for i, s in enumerate(waiting):
            s.sendall(b"%d\n" % i)
        listener.accept()[0].close()
        assert descriptors() - before < 20, (before, descriptors())
        came = []
        for _ in range(299):
            with listener.accept()[0] as s:
                came.append(int(s.makefile("rb").readline()))
        assert came == list(range(1, 300)), came
        # It has no descriptor for one that comes, and nothing more comes later.
        limit = resource.prlimit(supervisor, resource.RLIMIT_NOFILE)
        resource.prlimit(supervisor, resource.RLIMIT_NOFILE, (3, limit[1]))
        # Which needs none of it, as connect does.
        late = socket.socket()
        late.sendto(b"hello", socket.MSG_FASTOPEN, ("127.0.0.1", 9400))
        time.sleep(0.2)
        resource.prlimit(supervisor, resource.RLIMIT_NOFILE, limit)
        with listener.accept()[0] as s:
            assert s.recv(5) == b"hello"
            s.sendall(b"late")
        assert read_all(late) == b"late"


def by_turns(ours):
    """Connections by the wire and by loopback are accepted by turns, and have the options that the listener was given last."""
    with listens(9404, backlog=4) as listener:
        by_wire = [socket.create_connection((ours, 9404), 60) for _ in range(7)]
        near = socket.create_connection(("127.0.0.1", 9404), 60)
        accepted = [listener.accept() for _ in range(8)]
        at = [peer[0] for _, peer in accepted].index("127.0.0.1")
        assert at < 7, at
        if not os.readlink(f"/proc/self/fd/{listener.fileno()}").startswith("socket:"):
            for option in ((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77)):
                listener.setsockopt(*option)
                with socket.create_connection(("127.0.0.1", 9404), 60), listener.accept()[0] as s:
                    assert s.getsockopt(*option[:2]) == option[2], option
        for s in [near, *by_wire, *(s for s, _ in accepted)]:
            s.close()


def watched_before_listening():
    """A listener that was in an epoll set before it listened is told of once, and not once it is closed."""
    for is_closed in (True, False):
        s = socket.socket()
        s.bind(("", 9401))
        with select.epoll() as epoll:
            epoll.register(s, select.EPOLLIN)
            s.listen()
            assert not [event for event in epoll.poll(0.1) if event[1] & select.EPOLLIN]
            with socket.create_connection(("127.0.0.1", 9401), 60):
                assert epoll.poll(60, 8) == [(s.fileno(), select.EPOLLIN)]
                s.settimeout(60)
                s.accept()[0].close()
                await_that(lambda: epoll.poll(0.1) == [])
                with open(f"/proc/self/fdinfo/{epoll.fileno()}") as info:
                    assert sum(line.split()[1] == str(s.fileno()) for line in info if line.startswith("tfd:")) <= 1
                if is_closed:
                    s.close()
                    await_that(lambda: epoll.poll(0.1) == [])
        s.close()


def refused_by_loopback():
    """Loopback is refused where a listener is at another interface, and while one is shut down."""
    reached = lambda port: socket.socket().connect_ex(("127.0.0.1", port)) == 0
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"wire")
        s.bind(("", 9402))
        s.listen()
        assert not reached(9402)
    with listens(9403) as s:
        assert reached(9403)
        s.accept()[0].close()
        if not os.readlink(f"/proc/self/fd/{s.fileno()}").startswith("socket:"):
            s.shutdown(socket.SHUT_RD)
            await_that(lambda: not reached(9403))
            s.listen()
            await_that(lambda: reached(9403))


def options_by_loopback():
    """Connections by loopback have of their listener's options what the kernel's own have."""
    of_socket, lowat = socket.SOL_SOCKET, 25
    said = [(of_socket, socket.SO_MARK, 7), (of_socket, socket.SO_RCVLOWAT, 3), (of_socket, socket.SO_RCVBUF, 40000),
            (of_socket, socket.SO_SNDBUF, 50000), (of_socket, socket.SO_PRIORITY, 5), (socket.IPPROTO_TCP, lowat, 777)]
    values = []
    for at in ("127.0.0.1", ""):
        with socket.socket() as listener:
            for option in said:
                listener.setsockopt(*option)
            listener.bind((at, 9405 if at else 9406))
            listener.listen()
            if not os.readlink(f"/proc/self/fd/{listener.fileno()}").startswith("socket:") or at:
                listener.setsockopt(of_socket, socket.SO_SNDBUF, 60000)
                said_last = 120000
            else:
                said_last = 100000
            with socket.create_connection(("127.0.0.1", listener.getsockname()[1]), 60), listener.accept()[0] as s:
                assert s.getsockopt(of_socket, socket.SO_SNDBUF) == said_last
                values.append([s.getsockopt(*option[:2]) for option in said if option[1] != socket.SO_SNDBUF])
    assert values[0] == values[1] and values[0][0] == 7, values


def in_other_namespace(host, ours, datagrams):
    """A program in a network namespace of its own is on our stack by the wire; this host's loopback is not its."""
    program = [sys.executable, __file__, "namespaced", host]
    with subprocess.Popen(["unshare", "-n", *program], stdout=subprocess.PIPE, stdin=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"listening\n"
        assert socket.socket().connect_ex(("127.0.0.1", 9407)) == errno.ECONNREFUSED
        with socket.create_connection((ours, 9407), 20) as s:
            assert s.recv(5) == b"hello"
        if datagrams == "datagrams":
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.bind(("127.0.0.1", 0))
                s.connect(("127.0.0.1", 9408))
                s.send(b"x")
                s.settimeout(20)
                assert refusal(s.recv, 1) == errno.ECONNREFUSED
        child.stdin.close()
        assert child.wait() == 0


def namespaced(host):
    with listens(9407) as listener, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("", 9408))
        print("listening", flush=True)
        listener.accept()[0].sendall(b"hello")
        with socket.create_connection((host, 8000), 20) as s:
            s.sendall(REQUEST)
            fetched(read_all(s))
        sys.stdin.read()


def await_that(is_so):
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def counted(host, port):
    """What is looked at by several stretches of memory, and counted alone, is as much as there is."""
    with socket.create_connection((host, port), 20) as s:
        s.sendall(b"GET /small HTTP/1.0\r\n\r\n")
        s.settimeout(None)
        while not (there := s.recv(4096, socket.MSG_PEEK)).endswith(b"hello\n"):
            assert there
        into = [bytearray(3), bytearray(4096)]
        assert s.recvmsg_into(into, 0, socket.MSG_PEEK | socket.MSG_TRUNC)[0] == len(there)
        assert read_all(s) == there


def options(ours):
    """Options that were set before connect and listen do something: TCP_USER_TIMEOUT, and IPV6_V6ONLY beside a listener of IPv4."""
    user_timeout = 18
    with socket.socket() as s:
        s.setsockopt(socket.IPPROTO_TCP, user_timeout, 300)
        try:
            s.connect(("10.10.0.99", 9))
            raise AssertionError("nobody is there")
        except TimeoutError as e:
            assert e.errno == errno.ETIMEDOUT, e
    with socket.socket(socket.AF_INET6) as v6, socket.socket() as v4:
        v6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        for s, at in ((v6, "::"), (v4, "0.0.0.0")):
            s.bind((at, 9300))
            s.listen()
        with socket.create_connection((ours, 9300), 60):
            assert select.select([v4, v6], [], [], 60)[0] == [v4]


def as_made(ours, *hosts):
    """A socket that nothing was done to before connect has a new one's options; what was done to another, be it by another descriptor or
    another process, is there behind it."""
    idle, ttl = (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), (socket.IPPROTO_IP, socket.IP_TTL)
    asked = [(1, option) for option in (socket.SO_KEEPALIVE, socket.SO_REUSEADDR, socket.SO_REUSEPORT, socket.SO_RCVLOWAT)]
    asked += [idle, (6, socket.TCP_KEEPINTVL), (6, socket.TCP_KEEPCNT), (6, socket.TCP_NODELAY), (6, 18), ttl, (0, socket.IP_TOS)]
    of_v6 = [(41, option) for option in (socket.IPV6_V6ONLY, socket.IPV6_UNICAST_HOPS, socket.IPV6_TCLASS)]

    def by_copy(s):
        with s.dup() as copy:
            copy.setsockopt(*idle, 77)

    def by_child(s):
        child = os.fork()
        if child == 0:
            s.setsockopt(*idle, 77)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0

    def by_passing(s):
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with one, other:
            socket.send_fds(one, [b"x"], [s.fileno()])
            with socket.socket(fileno=socket.recv_fds(other, 1, 1)[1][0]) as passed:
                passed.setsockopt(*idle, 77)

    for host, port in ((host, 8000) for host in hosts):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET  # That of IPv4 addresses, too.
        all_asked = asked + (of_v6 if ":" in host else [])
        for inheritable, limit in ((False, None), (True, None), (False, 0), (True, 0)):
            with socket.socket(family) as s:
                s.settimeout(limit)
                s.set_inheritable(inheritable)
                before = [s.getsockopt(*option) for option in all_asked], fcntl.fcntl(s, fcntl.F_GETFL) & os.O_NONBLOCK
                assert s.connect_ex((host, port)) in (0, errno.EINPROGRESS)
                assert os.readlink(f"/proc/self/fd/{s.fileno()}").startswith("anon_inode:")
                assert s.get_inheritable() == inheritable
                select.select([], [s], [], 60)
                now = [s.getsockopt(*option) for option in all_asked], fcntl.fcntl(s, fcntl.F_GETFL) & os.O_NONBLOCK
                assert now == before, (now, before)
        for change in (lambda s: s.setsockopt(*idle, 77), by_copy, by_child, by_passing):
            with socket.socket(family) as s:
                change(s)
                s.connect((host, port))
                assert s.getsockopt(*idle) == 77, change
        # A copy that is left of it.
        with socket.socket(family) as s:
            fd = os.dup(s.fileno())
        with socket.socket(fileno=fd) as s:
            s.setsockopt(*idle, 78)
            s.connect((host, port))
            assert s.getsockopt(*idle) == 78
    # What is done beneath the library: by the C library itself, and by instructions of a program's own.
    libc = ctypes.CDLL(None, use_errno=True)
    with socket.socket() as s:
        assert libc.bindresvport(s.fileno(), None) == 0, os.strerror(ctypes.get_errno())
        assert (port := s.getsockname()[1]) < 1024
        s.connect((hosts[0], 8000))
        assert s.getsockname() == (ours, port), (s.getsockname(), port)
    if os.uname().machine == "x86_64":
        call, value = beneath(), ctypes.c_int(77)

        def set_beneath(s):
            assert call(54, s.fileno(), *idle, ctypes.addressof(value), 4) == 0

        def set_by_thread(s):
            thread = threading.Thread(target=set_beneath, args=(s,))
            thread.start()
            thread.join()

        for change in set_beneath, set_by_thread:
            with socket.socket() as s:
                change(s)
                s.connect((hosts[0], 8000))
                assert s.getsockopt(*idle) == 77, change
        # A number that is another socket's by now.
        closed = socket.socket().detach()
        assert call(3, closed) == 0
        with socket.socket(socket.AF_INET6) as s:
            assert s.fileno() == closed
            s.connect(("fd10::2", 8000))
            assert s.getpeername()[0] == "fd10::2"
    # One that listened, and went by a Unix socket.
    with socket.socket() as s:
        s.listen()
        fcntl.fcntl(s, fcntl.F_SETOWN, os.getpid())
        assert s.connect_ex((hosts[0], 8000)) == errno.EINVAL
    with socket.socket() as s:
        s.bind((ours, 9301))
        s.connect((hosts[0], 8000))
        assert s.getsockname() == (ours, 9301)


def refused_options():
    """Options of a socket whose connection nobody takes stay."""
    kept = [(socket.SOL_SOCKET, socket.SO_SNDBUF, 30000), (socket.SOL_SOCKET, socket.SO_RCVBUF, 40000), (socket.IPPROTO_IP, socket.IP_TOS, 32),
            (socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 7), (socket.IPPROTO_IPV6, socket.IPV6_TCLASS, 64)]
    for family, peer, few in ((socket.AF_INET, "10.10.0.2", kept[:3]), (socket.AF_INET6, "fd10::2", kept)):
        with socket.socket(family) as s:
            for option in few:
                s.setsockopt(*option)
            before = [s.getsockopt(*option[:2]) for option in few]
            assert s.connect_ex((peer, 7999)) == errno.ECONNREFUSED
            assert (now := [s.getsockopt(*option[:2]) for option in few]) == before, (now, before)


def other_options(host, port):
    """Options of a shared socket that say what it does, or are refused; and it has no place to go to."""
    def failure(call, *arguments):
        try:
            return call(*arguments)
        except OSError as error:
            return error.errno

    with socket.create_connection((host, int(port))) as s:
        assert [s.getsockopt(1, option) for option in (18, 19)] == [1, 1]  # SO_RCVLOWAT, SO_SNDLOWAT
        for said, kept in ((0, 1), (7, 7), (-1, 131072)):
            s.setsockopt(1, socket.SO_RCVLOWAT, said)
            assert s.getsockopt(1, socket.SO_RCVLOWAT) == kept
        assert failure(s.setsockopt, 1, 19, 2) == errno.ENOPROTOOPT
        for device, answer in ((b"nosuchdevice", errno.ENODEV), (b"wire", None), (b"", None)):
            assert failure(s.setsockopt, 1, socket.SO_BINDTODEVICE, device) == answer, device
        assert s.getsockopt(6, socket.TCP_CONGESTION, 16).rstrip(b"\0") == b"cubic"
        assert failure(s.setsockopt, 6, socket.TCP_CONGESTION, b"cubic") is None
        assert failure(s.setsockopt, 6, socket.TCP_CONGESTION, b"reno") == errno.ENOENT
        assert failure(os.lseek, s.fileno(), 0, os.SEEK_SET) == errno.ESPIPE


def passed_and_shut(host, port):
    """A socket for datagrams that was passed on and is shut down keeps nobody: other sockets go on, and it hears."""
    ours, theirs = socket.socketpair()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as first:
        first.connect((host, int(port)))
        socket.send_fds(ours, [b"x"], [first.fileno()])
        _, fds, _, _ = socket.recv_fds(theirs, 1, 1)
    with socket.socket(fileno=fds[0]) as datagrams:
        datagrams.send(b"")
        datagrams.shutdown(socket.SHUT_WR)
        with socket.create_connection((host, int(port)), 30) as c:
            c.sendall(b"GET /small HTTP/1.0\r\n\r\n")
            c.settimeout(30)
            assert c.recv(4) == b"HTTP"


def traced(host, port):
    """Calls of all kinds, for --trace to print, and none of another file that would be."""
    listener = socket.create_server(("", 9100))
    c = socket.create_connection((host, int(port)))
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    c.getsockname()
    c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    c.sendall(b"GET /small HTTP/1.1\r\nHost:x\r\n\r\n")
    poll = select.poll()
    poll.register(c, select.POLLIN)
    poll.poll(30_000)
    select.select([c], [], [], 30)
    # More arguments than there is room for.
    with open("/dev/null", "rb+", buffering=0) as nothing:
        copies = [os.dup(nothing.fileno()) for _ in range(250)]
        assert [len(ready) for ready in select.select([c, *copies], copies, copies, 30)] == [251, 250, 0]
        for copy in copies:
            os.close(copy)
    with select.epoll() as epoll:
        epoll.register(c, select.EPOLLIN)
        epoll.poll(30)
        assert c.recv(4, socket.MSG_PEEK) == b"HTTP"
        copy = os.dup(c.fileno())
        assert os.read(copy, 4) == b"HTTP"
        os.close(copy)
    assert c.recvmsg(3)[0] == b"/1."
    # The server waits for another request, and so resets nothing when this is none.
    c.sendmsg([b"a", b"\0b"])
    listener.setblocking(False)
    try:
        listener.accept()
    except BlockingIOError:
        pass
    c.shutdown(socket.SHUT_WR)
    with open("/dev/null") as nothing:
        os.read(nothing.fileno(), 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.sendto(b"datagram", (host, 9))
    c.close()
    try:
        socket.create_connection((host, 7999))
    except ConnectionRefusedError:
        pass
    if (pid := os.fork()) == 0:
        listener.shutdown(socket.SHUT_RD)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    listener.listen()
    listener.shutdown(socket.SHUT_RD)
    # One that makes no socket is given one of the kernel's.
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        near.sendall(b"given")
        given = server.accept()[0]
    with given:
        assert subprocess.run(["cat"], stdin=given, capture_output=True, check=True).stdout == b"given"


def chatty(host, port, said):
    """Makes more calls than are kept for a reader that has stopped, and then has every byte of a file."""
    with socket.create_connection((host, int(port)), 20) as c:
        for _ in range(30000):
            c.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        c.sendall(b"GET /noise HTTP/1.0\r\n\r\n")
        assert len(read_all(c)) > 3000000
    open(said, "w").close()


def left_elsewhere(host):
    """A socket of the kernel's that sends to another host is ours once another process has had it leave its peer, and its port with that."""
    def kind():
        return os.readlink(f"/proc/self/fd/{s.fileno()}").split(":")[0]

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        near.bind(("127.0.0.1", 0))
        s.connect(near.getsockname())
        assert kind() == "socket"
        for _ in range(2):
            # To an address by loopback there is no way to another host.
            try:
                s.sendto(b"x", (host, 9))
            except OSError as e:
                assert e.errno in (errno.EINVAL, errno.ENETUNREACH, errno.EHOSTUNREACH), e
            assert kind() == "socket"
        if (pid := os.fork()) == 0:
            none = bytes(16)
            os._exit(0 if ctypes.CDLL(None).connect(s.fileno(), none, 16) == 0 else 1)
        assert os.waitpid(pid, 0)[1] == 0
        s.settimeout(20)
        s.sendto(b"echoed", (host, 9200))
        assert kind() == "anon_inode", kind()
        assert s.recvfrom(100) == (b"echoed", (host, 9200))


def limited(host, port):
    """A process that may have little address space has that for itself, and so has what it becomes. One that has the memory of shared sockets
    before it says so goes on with them; one that may have as little from its beginning goes by intercepted calls."""
    limits = (2 << 30, 4 << 30)

    def space(size):
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def fetches(kind):
        with socket.create_connection((host, int(port)), 20) as c:
            assert os.readlink(f"/proc/self/fd/{c.fileno()}").startswith(kind)
            # Of the address space alone: the memory would take its time.
            large = space(1 << 30)
            c.sendall(b"GET /small HTTP/1.0\r\n\r\n")
            assert read_all(c).endswith(b"hello\n")
            large.close()
        try:
            space(3 << 30)
        except OSError as error:
            assert error.errno == errno.ENOMEM
        else:
            raise AssertionError("it may have as much as it likes")
        assert resource.getrlimit(resource.RLIMIT_AS) == limits

    if os.environ.get("LIMITED"):
        return fetches("socket:")
    select.epoll().close()
    resource.setrlimit(resource.RLIMIT_AS, limits)
    fetches("anon_inode:")
    if (pid := os.fork()) == 0:
        fetches("anon_inode:")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert resource.prlimit(os.getpid(), resource.RLIMIT_AS, limits) == limits
    if (pid := os.fork()) == 0:
        # Without privilege it cannot take back what it has said.
        os.setresuid(65534, 65534, 65534)
        for some in ((1 << 30, 3 << 30), (1 << 30, 1 << 30)):
            resource.setrlimit(resource.RLIMIT_AS, some)
            assert resource.getrlimit(resource.RLIMIT_AS) == some
        try:
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 2 << 30))
        except ValueError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    again = [sys.executable, *sys.argv]
    # By vfork, and by itself; none of the first two is there.
    environment = os.environ | {"LIMITED": "1", "PATH": "/no:/none:" + os.path.dirname(sys.executable)}
    pid = os.posix_spawnp(os.path.basename(sys.executable), again, environment)
    assert os.waitpid(pid, 0)[1] == 0
    os.execvpe(os.path.basename(sys.executable), again, environment)


def locked(host, port):
    """A process that locks all of its memory has the memory of shared sockets as it is used, before and after that is there."""
    libc = ctypes.CDLL(None, use_errno=True)
    current, future = 1, 2

    def shared_kib():
        return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssShmem:"))

    assert libc.mlockall(future) == 0, os.strerror(ctypes.get_errno())
    with socket.create_connection((host, int(port)), 20) as c:
        assert os.readlink(f"/proc/self/fd/{c.fileno()}").startswith("anon_inode:")
        assert shared_kib() < 1 << 20, "locked with what comes"
        assert libc.mlockall(current | future) == 0, os.strerror(ctypes.get_errno())
        assert shared_kib() < 1 << 20, "locked with what is there"
        c.sendall(b"GET /small HTTP/1.0\r\n\r\n")
        assert read_all(c).endswith(b"hello\n")
    assert libc.mlockall(0) == -1 and ctypes.get_errno() == errno.EINVAL
    assert libc.munlockall() == 0


def time_limits(host, ours):
    """A call waits as long as its socket says (SO_RCVTIMEO, SO_SNDTIMEO), also of a listener that was passed on, and connections come as before."""
    import concurrent.futures
    from common import asleep

    def limit(s, which, seconds):
        s.setsockopt(socket.SOL_SOCKET, which, struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6)))

    def ends(call, error, least):
        began = time.monotonic()
        try:
            call()
        except OSError as e:
            assert e.errno == error, e
        else:
            raise AssertionError("it has not ended")
        assert least <= time.monotonic() - began < least + 30, time.monotonic() - began

    def passed(s):
        ours, theirs = socket.socketpair()
        with ours, theirs, s:
            socket.send_fds(ours, [b"x"], [s.fileno()])
            return socket.socket(fileno=socket.recv_fds(theirs, 1, 1)[1][0])

    libc = ctypes.CDLL(None, use_errno=True)

    def accepted(s, flags):
        with socket.create_connection((ours, s.getsockname()[1]), 20) as c:
            fd = libc.accept4(s.fileno(), None, None, flags)
            assert fd >= 0, ctypes.get_errno()
            with socket.socket(fileno=fd) as a:
                a.setblocking(True)
                c.sendall(b"x")
                assert a.recv(1) == b"x"
                return fcntl.fcntl(a, fcntl.F_GETFD)

    listener = socket.create_server(("", 9420))
    limit(listener, socket.SO_RCVTIMEO, 0.3)
    for again in range(3):
        ends(listener.accept, errno.EAGAIN, 0.29)
        # The shorter limit of two that wait, and then the longer.
        limit(listener, socket.SO_RCVTIMEO, 1.2)
        waits = []

        def waits_longer():
            waits.append(threading.get_native_id())
            ends(listener.accept, errno.EAGAIN, 1.19)

        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            longer = threads.submit(waits_longer)
            await_that(lambda: longer.done() or waits and asleep(waits[0]))
            limit(listener, socket.SO_RCVTIMEO, 0.3)
            ends(listener.accept, errno.EAGAIN, 0.29)
            longer.result()
        assert libc.accept4(listener.fileno(), None, None, 0x1000) == -1 and ctypes.get_errno() == errno.EINVAL
        assert accepted(listener, socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) == 1 and accepted(listener, 0) == 0
        listener = passed(listener)
    # Nobody is there, and nothing says so for three seconds.
    with socket.socket() as c:
        limit(c, socket.SO_SNDTIMEO, 0.3)
        ends(lambda: c.connect(("10.10.0.98", 80)), errno.EINPROGRESS, 0.29)
        ends(lambda: c.connect(("10.10.0.98", 80)), errno.EALREADY, 0.29)
    with socket.socket() as c:
        limit(c, socket.SO_SNDTIMEO, 5)
        c.connect((host, 8000))
        c.sendall(b"GET /small HTTP/1.0\r\n\r\n")
        assert read_all(c).endswith(b"hello\n")


def low_water(ours):
    """SO_RCVLOWAT: poll and epoll tell of no fewer bytes, a call that waits returns with no fewer, and a lower one is told of at once."""
    import concurrent.futures
    def waits():
        return struct.unpack("i", fcntl.ioctl(s, 0x541B, bytes(4)))[0]

    def is_ready():
        return bool(select.select([s], [], [], 0)[0])

    def set_to(count):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

    with listens(9440) as listener, socket.create_connection((ours, 9440), 20) as peer, select.epoll() as epoll:
        s = listener.accept()[0]
        epoll.register(s, select.EPOLLIN)
        set_to(10)
        peer.sendall(b"four")
        await_that(lambda: waits() == 4)
        assert not is_ready() and epoll.poll(0) == []
        peer.sendall(b"six...")
        await_that(is_ready)
        assert epoll.poll(20) == [(s.fileno(), select.EPOLLIN)]
        assert s.recv(4) == b"four" and not is_ready()
        # Those that wait hear that fewer are enough.
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            waiting = [threads.submit(epoll.poll, 20), threads.submit(select.select, [s], [], [], 20)]
            set_to(6)
            assert waiting[0].result() and waiting[1].result()[0] == [s]
            assert s.recv(100, socket.MSG_DONTWAIT) == b"six..."
            set_to(8)
            peer.sendall(b"one")
            await_that(lambda: waits() == 3)
            received = threads.submit(s.recv, 100)
            await_that(lambda: waits() == 0)
            peer.sendall(b"+two.")
            assert received.result(20) == b"one+two."
            peer.sendall(b"see")
            seen = threads.submit(s.recv, 100, socket.MSG_PEEK)
            time.sleep(0.05)
            peer.sendall(b"+all.")
            assert seen.result(20) == b"see+all." and s.recv(100) == b"see+all."
        # The end is told whatever it says; so is a call's that does not wait.
        peer.sendall(b"end")
        await_that(lambda: waits() == 3)
        assert not is_ready()
        peer.shutdown(socket.SHUT_WR)
        await_that(is_ready)
        assert s.recv(100) == b"end" and s.recv(100) == b""
        s.close()


def kernels_datagrams(host):
    """A socket that stays the kernel's sends without asking each time, until it has left its port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(b"x", ("127.0.0.1", 9))
        for _ in range(2000):
            s.sendto(b"x", (host, 9))
        assert os.readlink(f"/proc/self/fd/{s.fileno()}").startswith("socket:")
        libc = ctypes.CDLL(None)
        assert libc.connect(s.fileno(), bytes(16), 16) == 0
        s.sendto(b"x", (host, 9))
        assert "eventfd" in os.readlink(f"/proc/self/fd/{s.fileno()}")
    say_counters()


def connects_untouched(*hosts):
    """Sockets that are connected as they were made, 25 to each, by two threads; and what was counted of them."""
    def connect_all(count):
        for host in hosts:
            for _ in range(count):
                with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
                    s.settimeout(60)
                    s.connect((host, 8000))
    connect_all(20)
    thread = threading.Thread(target=connect_all, args=(5,))
    thread.start()
    thread.join()
    say_counters()


def claims(host, port):
    """A process that says the part of the memory that another has, or asks for what is another's, has nothing put into that one's table, and
    gets nothing of its."""
    call, marked, asks, place = beneath(), 0x45584f53_6d61726b, 0x45584f53, 200
    name = ctypes.create_string_buffer(struct.pack("=H", socket.AF_INET) + struct.pack("!H", int(port)) + socket.inet_aton(host) + bytes(8))

    def kind(fd):
        return os.readlink(f"/proc/self/fd/{fd}").partition(":")[0]

    def claim_parts(expected):
        for part in range(16):
            made = call(41, socket.AF_INET, socket.SOCK_STREAM, 0)
            assert made >= 0 and call(33, made, place) == place and call(3, made) == 0
            assert (said := call(42, place, ctypes.addressof(name), 16, marked, part << 4 | 1)) == 0, said
            assert kind(place) == expected, (part, kind(place))
            os.close(place)

    def claim_sockets(shared):
        counter = call(290, 0xe8050000, os.O_NONBLOCK)
        assert counter >= 0
        for number in range(64):
            assert call(54, counter, asks, 2, number) < 0, "the watcher of another"
            call(54, counter, asks, 3, number)
            assert kind(counter) == "anon_inode", f"socket {number} of another"
        # What it has of its parent it may have go by a Unix socket.
        for number in range(64):
            call(54, shared, asks, 3, number)
        assert kind(shared) == "socket", kind(shared)

    def claim_info(close, shared):
        """What TCP knows of a socket, and a port for it, it has for those alone that it has still."""
        info = ctypes.create_string_buffer(104)

        def told():
            return [number for number in range(64) if call(54, number, asks, 4, ctypes.addressof(info)) == 0]
        assert len(told()) == 1 and info.raw[0] == 1, told()
        close(shared)
        assert told() == [] and all(call(54, number, asks, 6, 0) == -errno.EBADF for number in range(64))

    def claim_by_exec(shared):
        """A counter of its own in the place of what it had of its parent: it is not that one when the process becomes another program."""
        counter, nowhere = call(290, 0xe8050000, os.O_NONBLOCK), ctypes.create_string_buffer(b"/nowhere")
        assert counter >= 0 and call(33, counter, shared) == shared
        assert call(59, ctypes.addressof(nowhere), 0, 0) == -errno.ENOENT
        assert kind(shared) == "anon_inode", kind(shared)

    def in_child(fork, attack, *arguments):
        if (pid := fork()) == 0:
            try:
                attack(*arguments)
                os._exit(0)
            finally:
                sys.excepthook(*sys.exc_info())
                os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0

    def without_part():
        return call(57)

    reader, writer = os.pipe()
    os.dup2(reader, place)
    with socket.create_connection((host, int(port)), 60) as s:
        assert kind(s.fileno()) == "anon_inode"
        for arguments in ((os.fork, claim_parts, "anon_inode"), (without_part, claim_parts, "socket"), (os.fork, claim_info, os.close, s.fileno()),
                          (without_part, claim_info, lambda fd: call(3, fd), s.fileno()), (without_part, claim_by_exec, s.fileno()),
                          (without_part, claim_sockets, s.fileno())):
            in_child(*arguments)
            os.write(writer, b"kept")
            assert os.read(place, 10) == b"kept"
        s.sendall(REQUEST)
        assert read_all(s).endswith(b"hello\n")


def drawn_claims(host, port, seed):
    """Processes that ask for anything, with any numbers, by the calls of the library: others' connections go on."""
    call, chance = beneath(), random.Random(int(seed))
    room = ctypes.create_string_buffer(struct.pack("=H", socket.AF_INET) + struct.pack("!H", int(port)) + socket.inet_aton(host) + bytes(120))
    values = [ctypes.addressof(room), 8, *(1 << bits for bits in range(64)), *((1 << bits) - 1 for bits in range(65))]
    MARKS = (0x45584f53_6d61726b, 0x45584f53_6d61726c)

    def value():
        return ctypes.c_long(chance.choice(values)).value

    def socket_number():
        """Half of the time of a socket that there may be."""
        return chance.choice((chance.randrange(8), value()))

    def draw(shared):
        for _ in range(1000):
            made = call(41, chance.choice((socket.AF_INET, socket.AF_INET6)), chance.choice((1, 2)) | os.O_NONBLOCK, 0)
            counter = call(290, 0xe8050000, os.O_NONBLOCK)
            fd = chance.choice((made, made, counter, shared, value()))
            match chance.randrange(3):
                case 0:
                    call(54, fd, 0x45584f53, chance.choice((*range(10), value())), socket_number(), value())
                case 1:
                    call(42, fd, ctypes.addressof(room), chance.choice((16, 28, value())), chance.choice(MARKS), chance.choice((value(), value() << 4 | 1)))
                case 2:
                    call(chance.choice((49, 50, 55)), fd, value(), value(), chance.choice(MARKS), value(), chance.choice(MARKS))
            # By whichever it is by now.
            for mine in (made, counter):
                call(3, mine)

    with socket.create_connection((host, int(port)), 60) as s:
        for nth, fork in enumerate((os.fork, lambda: call(57))):
            if (pid := fork()) == 0:
                try:
                    chance.seed(2 * int(seed) + nth)
                    draw(s.fileno())
                    os._exit(0)
                finally:
                    sys.excepthook(*sys.exc_info())
                    os._exit(1)
            assert os.waitpid(pid, 0)[1] == 0
        s.sendall(REQUEST)
        assert read_all(s).endswith(b"hello\n")
    with socket.create_connection((host, int(port)), 60) as s:
        s.sendall(REQUEST)
        assert read_all(s).endswith(b"hello\n")


def options_kept(host, port):
    """A connection keeps its options where it comes to go by a Unix socket, and the times of keep-alive that were set before connect."""
    limit = struct.pack("@ll", 0, 300000)
    with socket.socket() as s:
        for level, option, value in ((1, socket.SO_RCVTIMEO, limit), (1, socket.SO_LINGER, struct.pack("ii", 1, 7)), (1, socket.SO_REUSEADDR, 1),
                                     (6, socket.TCP_KEEPIDLE, 77), (6, socket.TCP_KEEPINTVL, 7), (6, socket.TCP_KEEPCNT, 5)):
            s.setsockopt(level, option, value)
        s.connect((host, int(port)))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Shared sockets send no signals.
        fcntl.fcntl(s, fcntl.F_SETOWN, os.getpid())
        assert os.readlink(f"/proc/self/fd/{s.fileno()}").startswith("socket:")
        assert s.getsockopt(1, socket.SO_RCVTIMEO, 16) == limit
        assert s.getsockopt(1, socket.SO_LINGER, 8) == struct.pack("ii", 1, 7)
        assert all(s.getsockopt(1, option) == 1 for option in (socket.SO_KEEPALIVE, socket.SO_REUSEADDR))
        times = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert [s.getsockopt(6, option) for option in times] == [77, 7, 5]
        s.setsockopt(6, socket.TCP_KEEPIDLE, 78)
        assert s.getsockopt(6, socket.TCP_KEEPIDLE) == 78
        try:
            s.setsockopt(6, socket.TCP_KEEPCNT, 128)
            raise AssertionError("too many")
        except OSError as e:
            assert e.errno == errno.EINVAL, e
        signal.alarm(20)
        try:
            s.recv(1)
            raise AssertionError("nothing is sent")
        except BlockingIOError:
            signal.alarm(0)


def memcached(host):
    """Eight connections, each with values of its own, all at once."""
    many = [socket.create_connection((host, 11211)) for _ in range(8)]
    values = [bytes([65 + i]) * 100000 for i in range(8)]
    for i, s in enumerate(many):
        s.sendall(b"set key%d 0 0 100000\r\n" % i + values[i] + b"\r\n")
    for s in many:
        assert s.makefile("rb").readline() == b"STORED\r\n"
    for i, s in enumerate(many):
        s.sendall(b"get key%d\r\n" % (7 - i))
    for i, s in enumerate(many):
        answer = s.makefile("rb")
        assert answer.readline() == b"VALUE key%d 0 100000\r\n" % (7 - i)
        assert answer.read(100002) == values[7 - i] + b"\r\n"


def https(host, port):
    """A file that openssl serves from the folder where it was started."""
    import ssl

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(socket.create_connection((host, int(port)))) as s:
        s.sendall(b"GET /test HTTP/1.0\r\n\r\n")
        answer = b""
        while piece := s.recv(65536):
            answer += piece
    with open("test", "rb") as file:
        assert answer.partition(b"\r\n\r\n")[2] == file.read()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
