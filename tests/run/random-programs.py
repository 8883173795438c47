#!/usr/bin/env python3
"""Random programs of socket calls, by `exos run`, against an echo server on the kernel's stack: every byte is accounted for.

    random-programs.py echo             the server
    random-programs.py play HOST SEED   the program: connections at once, each with its bytes, in one of the ways below
    random-programs.py forks HOST       forks with a thousand open connections: how long it takes, and that none is lost
    random-programs.py sets HOST        more epoll sets and threads that poll than can be told by shared memory
    random-programs.py signals HOST     prints what calls that wait answer when a signal comes
    random-programs.py children HOST    more processes at once than can have shared sockets
"""
import array
import ctypes
import errno
import faulthandler
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
import threading
import time

from common import asleep

PORT = 9200
WHOLE = random.Random(1).randbytes(3 << 20)


def echo():
    unlimited()
    listener = socket.create_server(("", PORT), backlog=2000)
    print("listening", flush=True)

    def serve(s):
        chance = random.Random(s.getpeername()[1])
        with s:
            try:
                while piece := s.recv(chance.choice((100, 4096, 1 << 16))):
                    if not chance.randrange(50):
                        time.sleep(0.005)
                    s.sendall(piece)
            except OSError:
                pass
    threading.stack_size(1 << 18)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def unlimited():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Connection:
    """What is sent of it, and checked when it comes back."""

    def __init__(self, host, chance):
        self.chance = chance
        self.size = chance.choice((10, 5000, 300_000, 1_500_000))
        self.start = chance.randrange(len(WHOLE) - self.size)
        self.bytes = memoryview(WHOLE)[self.start:self.start + self.size]
        self.s = socket.socket()
        if chance.randrange(2):
            self.s.setblocking(False)
            assert self.s.connect_ex((host, PORT)) == errno.EINPROGRESS
            ready_for(self.s, False, True, chance)
            assert self.s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            self.s.setblocking(True)
        else:
            self.s.connect((host, PORT))

    def piece(self):
        return self.chance.choice((1, 100, 5000, 70_000, 300_000))

    def send_some(self, fd, at, most=None):
        """One call; gives how many bytes it took."""
        bytes_ = self.bytes[at:at + min(self.piece(), most or self.size)]
        half = len(bytes_) // 2
        match self.chance.randrange(5):
            case 0:
                return os.write(fd, bytes_)
            case 1:
                return os.writev(fd, [bytes_[:half], bytes_[half:]])
            case 2:
                s = socket.socket(fileno=fd)
                try:
                    return s.send(bytes_)
                finally:
                    s.detach()
            case 3:
                s = socket.socket(fileno=fd)
                try:
                    return s.sendmsg([bytes_[:half], bytes_[half:]])
                finally:
                    s.detach()
            case _:
                with tempfile.TemporaryFile() as file:
                    file.write(bytes_)
                    file.flush()
                    return os.sendfile(fd, file.fileno(), 0, len(bytes_))

    def send(self, fd, at=0, end=None):
        end = self.size if end is None else end
        while at < end:
            at += self.send_some(fd, at, end - at)

    def receive_some(self, fd, at):
        """One call, and its bytes are what was sent; gives how many came."""
        room = self.piece()
        s = socket.socket(fileno=fd)
        try:
            match self.chance.randrange(5):
                case 0:
                    got = os.read(fd, room)
                case 1:
                    into = [bytearray(room // 2 + 1), bytearray(room)]
                    got = self.joined(into, os.readv(fd, into))
                case 2:
                    got = s.recvmsg(room)[0]
                case 3:
                    seen = s.recv(room, socket.MSG_PEEK)
                    got = s.recv(room)
                    assert got.startswith(seen)
                case _:
                    got = s.recv(room)
        finally:
            s.detach()
        assert got == self.bytes[at:at + len(got)], f"other bytes at {at}"
        return len(got)

    @staticmethod
    def joined(into, count):
        return (bytes(into[0]) + bytes(into[1]))[:count]

    def receive(self, fd, least=None):
        """To the end, which comes after all that was sent, or after as much at least."""
        at = 0
        while count := self.receive_some(fd, at):
            at += count
        assert at == self.size if least is None else at >= least, f"{at} bytes of {self.size if least is None else least} came back"


def ready_for(s, reading, writing, chance, pipe=None):
    """Waits in one of the ways; gives for what it is ready."""
    kind = chance.randrange(3)
    if kind == 0:
        r, w, _ = select.select([s] if reading else [], [s] if writing else [], [], 30)
        assert r or w, "nothing comes of select"
        return bool(r), bool(w)
    wanted = (select.POLLIN if reading else 0) | (select.POLLOUT if writing else 0)
    if kind == 1:
        poll = select.poll()
        poll.register(s, wanted)
        if pipe is not None:
            poll.register(pipe, select.POLLIN)
        told = dict(poll.poll(30_000))
    else:
        with select.epoll() as epoll:
            epoll.register(s, wanted | chance.choice((0, select.EPOLLET, select.EPOLLONESHOT)))
            if pipe is not None:
                epoll.register(pipe, select.EPOLLIN)
            told = dict(epoll.poll(30))
    assert told, "nothing comes of poll"
    bits = told.get(s.fileno(), 0)
    return bool(bits & (1 | 16 | 8)), bool(bits & (4 | 16 | 8))


def child(run):
    """A process that does this and ends."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        run()
        status = 0
    except BaseException as e:
        print("in a child:", repr(e), file=sys.stderr, flush=True)
    os._exit(status)


def ended(pid, wanted=0):
    assert (status := os.waitpid(pid, 0)[1]) == wanted, f"a child ended with {status}"


# The ways.

def by_threads(c):
    sender = threading.Thread(target=lambda: (c.send(c.s.fileno()), c.s.shutdown(1)))
    sender.start()
    c.receive(c.s.fileno())
    sender.join()


def by_fork(c):
    pid = child(lambda: (c.send(c.s.fileno()), c.s.shutdown(1)))
    c.receive(c.s.fileno())
    ended(pid)


def by_fork_that_reads(c):
    pid = child(lambda: c.receive(c.s.fileno()))
    c.send(c.s.fileno())
    c.s.shutdown(1)
    ended(pid)


def by_turns(c):
    """Parent and children write in turns, and the last to close ends it."""
    cuts = sorted(c.chance.randrange(c.size + 1) for _ in range(3))
    for begin, end in zip([0] + cuts, cuts):
        ended(child(lambda: c.send(c.s.fileno(), begin, end)))
    pid = child(lambda: c.receive(c.s.fileno()))
    c.send(c.s.fileno(), cuts[-1])
    c.s.shutdown(1)
    c.s.close()
    ended(pid)


def by_copies(c):
    fd, at = c.s.detach(), 0
    reader = os.dup(fd)
    receiving = threading.Thread(target=kept, args=(c, lambda: c.receive(reader)))
    receiving.start()
    while at < c.size:
        copy = os.dup(fd)
        if c.chance.randrange(2):
            place = os.open("/dev/null", os.O_RDONLY)
            os.dup2(copy, place)
            os.close(copy)
            copy = place
        os.close(fd)
        fd = copy
        at += c.send_some(fd, at)
    last = socket.socket(fileno=fd)
    last.shutdown(1)
    last.close()
    receiving.join()
    os.close(reader)


def by_passing(c):
    ours, theirs = socket.socketpair()

    def other():
        ours.close()
        c.s.close()
        _, ancillary, _, _ = theirs.recvmsg(1, 100)
        passed = array.array("i", ancillary[0][2])[0]
        c.send(passed)
        socket.socket(fileno=passed).shutdown(1)
    pid = child(other)
    theirs.close()
    ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [c.s.fileno()]))])
    c.receive(c.s.fileno())
    ended(pid)


def by_program(c):
    with tempfile.NamedTemporaryFile() as file:
        file.write(c.bytes)
        file.flush()
        with subprocess.Popen(["cat", file.name], stdin=subprocess.DEVNULL, stdout=c.s.fileno()) as other:
            reader = threading.Thread(target=kept, args=(c, lambda: c.receive(c.s.fileno())))
            reader.start()
            assert other.wait() == 0
        c.s.shutdown(1)
        reader.join()


def by_waiting(c):
    reading, writing = os.pipe()
    c.s.setblocking(False)
    sent = got = 0
    while True:
        if not c.chance.randrange(10):
            os.write(writing, b"x")
        readable, writable = ready_for(c.s, True, sent < c.size, c.chance, reading)
        if select.select([reading], [], [], 0)[0]:
            os.read(reading, 100)
        if writable and sent < c.size:
            try:
                sent += c.send_some(c.s.fileno(), sent)
            except BlockingIOError:
                pass
            if sent == c.size:
                c.s.shutdown(1)
        if readable:
            try:
                count = c.receive_some(c.s.fileno(), got)
            except BlockingIOError:
                continue
            got += count
            if not count:
                break
    assert got == c.size, (got, c.size)
    os.close(reading)
    os.close(writing)


def by_one_that_is_killed(c):
    said, saying = os.pipe()

    def other():
        at = 0
        while at < c.size:
            at += c.send_some(c.s.fileno(), at)
            os.write(saying, at.to_bytes(8, "little"))
        time.sleep(30)
    pid = child(other)
    os.close(saying)
    reader = threading.Thread(target=kept, args=(c, lambda: c.receive(c.s.fileno(), 0)))
    reader.start()
    time.sleep(c.chance.random() * 0.1)
    os.kill(pid, signal.SIGKILL)
    ended(pid, signal.SIGKILL)
    c.s.shutdown(1)
    reader.join()
    os.close(said)


def by_one_that_is_stopped(c):
    pid = child(lambda: (c.send(c.s.fileno()), c.s.shutdown(1)))

    def stop():
        for _ in range(3):
            time.sleep(c.chance.random() * 0.02)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(c.chance.random() * 0.02)
            os.kill(pid, signal.SIGCONT)
    stopping = threading.Thread(target=stop)
    stopping.start()
    c.receive(c.s.fileno())
    stopping.join()
    ended(pid)


WAYS = [by_threads, by_fork, by_fork_that_reads, by_turns, by_copies, by_passing, by_program, by_waiting, by_one_that_is_killed, by_one_that_is_stopped]
FAILED = []


def kept(c, run):
    try:
        run()
    except BaseException as e:
        FAILED.append(f"{c.way}: {e!r}")


def play(host, seed):
    faulthandler.dump_traceback_later(50, exit=True)
    # Its first call takes locks, which a child inherits from a thread that holds them.
    tempfile.NamedTemporaryFile().close()
    chance = random.Random(int(seed))
    only = [way for way in WAYS if way.__name__ in os.environ.get("WAYS", "").split()] or WAYS

    def one(seed):
        own = random.Random(seed)
        way = own.choice(only)
        try:
            c = Connection(host, own)
            c.way = way.__name__
            way(c)
            c.s.close()
        except BaseException as e:
            FAILED.append(f"{way.__name__}: {e!r}")
    # One after another: Python may not fork while its other threads hold its locks; and some at once.
    for at in range(12):
        some = [threading.Thread(target=one, args=(chance.random(),)) for _ in range(chance.choice((1, 1, 4)))]
        for thread in some:
            thread.start()
        for thread in some:
            thread.join()
    left = [fd for fd in map(int, os.listdir("/proc/self/fd")) if "eventfd" in link(fd) and fd < 900]
    if left:
        FAILED.append(f"descriptors are left: {left}")
    print(f"seed {seed}: {'; '.join(FAILED) or 'every byte'}", flush=True)
    os._exit(len(FAILED) > 0)


def link(fd):
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


def received(s, size):
    got = b""
    while len(got) < size:
        piece = s.recv(size - len(got))
        assert piece, f"the connection has ended behind {got!r}"
        got += piece
    return got


def said_back(s, word):
    s.sendall(word)
    assert (got := received(s, len(word))) == word, (got, word)


def forks(host, count="1000"):
    unlimited()
    all_ = [socket.create_connection((host, PORT)) for _ in range(int(count))]
    times = []
    for turn in range(5):
        began = time.perf_counter()
        pid = os.fork()
        if not pid:
            # Half of them are the child's to speak by.
            for s in all_[turn % 2::2]:
                s.sendall(b"child")
            os._exit(0)
        times.append(time.perf_counter() - began)
        ended(pid)
        for at, s in enumerate(all_):
            if at % 2 == turn % 2:
                assert received(s, 5) == b"child", at
            else:
                said_back(s, b"parent")
    print(f"fork with {count} connections: {sorted(times)[2] * 1000:.1f} ms", flush=True)


def sets(host, count="300"):
    """More epoll sets, and more threads that poll, than there are watchers for: each hears of its socket, and of what comes into a set."""
    unlimited()
    connections = [socket.create_connection((host, PORT)) for _ in range(2 * int(count))]
    watched, polled = connections[::2], connections[1::2]
    all_ = [select.epoll() for _ in watched]
    for at, (s, epoll) in enumerate(zip(watched, all_)):
        epoll.register(s, select.POLLIN)
        epoll.modify(s, select.POLLIN | (select.EPOLLET if at % 2 else 0))
    heard = []

    def poll(s, epoll):
        poll = select.poll()
        for one in (s, epoll):
            poll.register(one, select.POLLIN)
        while s.fileno() not in (told := dict(poll.poll(30_000))):
            # A set that got its first socket meanwhile is told of once in vain.
            assert told == {epoll.fileno(): select.POLLIN} and epoll.poll(0) == [], told
        assert s.recv(100) == b"poll"
        heard.append(s)
    inner = [select.epoll() for _ in polled]
    threads = [threading.Thread(target=poll, args=pair) for pair in zip(polled, inner)]
    for thread in threads:
        thread.start()
    late = [socket.create_connection((host, PORT)) for _ in inner]
    for s, epoll in zip(late, inner):
        epoll.register(s, select.POLLIN)
    for s in polled:
        s.sendall(b"poll")
    for thread in threads:
        thread.join()
    assert len(heard) == len(polled), len(heard)
    for s, epoll in zip(watched + late, all_ + inner):
        s.sendall(b"set")
        told = epoll.poll(30)
        assert told == [(s.fileno(), select.POLLIN)], told
        assert s.recv(100) == b"set"
        epoll.unregister(s)
        assert epoll.poll(0) == []
    print(f"{len(all_)} sets and {len(threads)} threads that poll", flush=True)


def children(host, count="1100"):
    """More processes at once than have a part of the memory: each speaks by what it inherits and by a connection of its own."""
    unlimited()
    kept = [socket.create_connection((host, PORT)) for _ in range(20)]
    begin, wait = os.pipe()
    pids = []
    for number in range(int(count)):
        s = socket.create_connection((host, PORT))

        def run(s=s, word=b"%d" % number):
            os.close(wait)
            said_back(s, b"at once " + word)
            # All are there before one goes on.
            assert os.read(begin, 1) == b""
            said_back(s, b"later " + word)
            with socket.create_connection((host, PORT)) as own:
                said_back(own, b"own " + word)
        pids.append(child(run))
        s.close()
    os.close(wait)
    for pid in pids:
        ended(pid)
    for number, s in enumerate(kept):
        said_back(s, b"kept %d" % number)
    print(f"{len(pids)} children at once", flush=True)


def signals(host):
    """A signal comes once the call waits; what it waits for comes once it waits again, or never."""
    libc = ctypes.CDLL(None, use_errno=True)
    main = threading.get_native_id()
    signal.signal(signal.SIGALRM, lambda *_: None)
    fresh, events = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)

    def connected():
        return socket.create_connection((host, PORT))

    def listener():
        s = socket.socket()
        s.bind((connected().getsockname()[0], 0))
        s.listen()
        return s

    def nobody():
        s = socket.socket()
        s.setsockopt(socket.IPPROTO_TCP, 18, 2000)
        return s

    def speak(s):
        s.send(b"x")

    def visit(s):
        speak.kept = socket.create_connection(s.getsockname())

    def nothing(s):
        pass

    def polled(s):
        events[:8] = struct.pack("=ihh", s.fileno(), 1, 0)
        return libc.poll(events, 1, -1)

    def selected(s):
        sets = (ctypes.c_ulong * 16)()
        sets[s.fileno() // 64] = 1 << s.fileno() % 64
        return libc.select(s.fileno() + 1, sets, None, None, None)

    def epolled(s):
        with select.epoll() as epoll:
            epoll.register(s, select.POLLIN)
            said = libc.epoll_wait(epoll.fileno(), fresh, 1, -1)
            failed = ctypes.get_errno()
        ctypes.set_errno(failed)
        return said
    name = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(PORT), socket.inet_aton("10.10.0.99"))
    calls = {
        "recv": (connected, lambda s: libc.recv(s.fileno(), fresh, 9, 0), speak), "read": (connected, lambda s: libc.read(s.fileno(), fresh, 9), speak),
        "accept": (listener, lambda s: min(libc.accept(s.fileno(), None, None), 0), visit), "connect": (nobody, lambda s: libc.connect(s.fileno(), name, 16), nothing),
        "poll": (connected, polled, speak), "select": (connected, selected, speak), "epoll_wait": (connected, epolled, speak)}
    for what, (make, call, end) in calls.items():
        for restarts in (False, True):
            for limit in (0, 20):
                signal.siginterrupt(signal.SIGALRM, not restarts)
                s = make()
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", limit, 0))
                over = threading.Event()

                def disturb():
                    while not asleep(main):
                        pass
                    signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)
                    while not over.is_set() and not asleep(main):
                        pass
                    end(s)
                beside = threading.Thread(target=disturb)
                beside.start()
                said = call(s)
                failed = ctypes.get_errno()
                over.set()
                beside.join()
                # Of a host that is not there the kernel may hear by ARP before it gives up.
                failed = errno.errorcode.get(failed, "").replace("EHOSTUNREACH", "ETIMEDOUT")
                print(f"{what} restarts={restarts} limit={limit}: {said if said >= 0 else failed}", flush=True)
                s.close()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
