#!/usr/bin/env python3
"""Random programs of servers' socket calls, which say the same each time: run on the kernel's sockets and by `exos run`, and compared.

    random-servers.py peer CONTROL                 the clients, on the kernel's stack: they do what is asked for by the Unix socket
    random-servers.py program CONTROL OURS SEED    prints what each call answers, in an order that the seed decides

Each step is done by the process itself, by a thread or by a child, on listeners and connections that are there by then. A step waits for
what the peer has done before, so that nothing depends on time.
"""
import array
import errno
import fcntl
import json
import os
import random
import select
import signal
import socket
import struct
import sys
import threading
import time
import zlib

STEPS = 120
LIMIT = 60
LISTENERS, CONNECTIONS = 3, 12


class Peer:
    """One client after another, each by its number."""

    def __init__(self):
        self.held = {}

    def connect(self, number, host, port):
        self.held[number] = socket.create_connection((host, port), LIMIT)
        return "0"

    def send(self, number, seed, size):
        self.held[number].sendall(random.Random(seed).randbytes(size))
        return str(size)

    def read(self, number, size):
        """As many bytes; fewer, where the connection ends before."""
        got = b""
        try:
            while len(got) < size and (piece := self.held[number].recv(size - len(got))):
                got += piece
        except ConnectionResetError:
            return f"{len(got)} {zlib.crc32(got)} reset"
        return f"{len(got)} {zlib.crc32(got)}"

    def end(self, number):
        """Its end, behind which nothing is."""
        said = self.read(number, 1)
        self.held.pop(number).close()
        return said

    @staticmethod
    def refused(host, port):
        """Nobody listens there, or soon does not."""
        last = time.monotonic() + LIMIT
        while True:
            try:
                socket.create_connection((host, port), LIMIT).close()
            except ConnectionRefusedError:
                return "refused"
            except ConnectionResetError:
                pass
            assert time.monotonic() < last, "somebody listens"

    def finish(self, number):
        self.held[number].shutdown(socket.SHUT_WR)
        return "0"

    def reset(self, number):
        s = self.held.pop(number)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=2i", 1, 0))
        s.close()
        return "0"


def peer(control):
    server = socket.socket(socket.AF_UNIX)
    server.bind(control)
    server.listen()
    while True:
        made, (s, _) = Peer(), server.accept()
        for line in s.makefile():
            what, *arguments = json.loads(line)
            try:
                said = getattr(made, what)(*arguments)
            except OSError as e:
                said = errno.errorcode.get(e.errno, repr(e))
            except KeyError:
                said = "it is not there"
            s.sendall(f"{said}\n".encode())


class Listener:
    def __init__(self, fd, host, port):
        self.fds, self.host, self.port, self.waiting = [fd], host, port, []


class Connection:
    def __init__(self, number):
        self.number, self.fds = number, []
        # What the peer has sent and we have not read, and the other way.
        self.coming, self.going = b"", 0
        self.has_finished = self.has_shut = self.was_passed_on = False


def wrapped(fd, call):
    s = socket.socket(fileno=fd)
    try:
        return call(s)
    finally:
        s.detach()


def answer(call, *arguments):
    """What a call gives, or its error's name."""
    try:
        return str(call(*arguments))
    except OSError as e:
        return errno.errorcode[e.errno]


class Program:
    def __init__(self, control, ours, seed):
        self.chance = random.Random(int(seed))
        self.ours = ours.split(",")
        self.listeners, self.connections, self.count = [], [], 0
        self.control = socket.socket(socket.AF_UNIX)
        self.control.connect(control)
        self.answers = self.control.makefile()

    def ask(self, *what):
        self.control.sendall(json.dumps(what).encode() + b"\n")
        return self.answers.readline().strip()

    def run(self):
        for step in range(STEPS):
            what = self.draw()
            said = getattr(self, what)()
            print(f"{step} {what}: {said}", flush=True)
        # In any order, the last of each is heard by its peer.
        left = self.connections[:]
        self.chance.shuffle(left)
        for connection in left:
            print(f"at the end: {self.leave(connection)}", flush=True)
        fds = [fd for listener in self.listeners for fd in listener.fds]
        self.chance.shuffle(fds)
        for fd in fds:
            os.close(fd)
        for listener in self.listeners:
            print(f"at the end: {[self.ask('end', number) for number in listener.waiting]} {self.ask('refused', listener.host, listener.port)}", flush=True)

    def draw(self):
        """What can be done by now."""
        can = ["open"] * (len(self.listeners) < LISTENERS)
        if self.listeners:
            can += ["visit"] * 4 * (self.count_all() < CONNECTIONS) + ["accept_none", "look", "copy_listener", "close_copy"]
        if any(listener.waiting for listener in self.listeners):
            can += ["accept"] * 6 + ["serve_by_child"] * 3
        if self.connections:
            can += ["come", "read", "write", "look_at_connection", "copy", "put_over", "finish", "shut"] * 2 + ["close", "reset", "pass_on", "write_by_child"]
        return self.chance.choice(can)

    def count_all(self):
        return len(self.connections) + sum(len(listener.waiting) for listener in self.listeners)

    # Listeners.

    def open(self):
        host = self.chance.choice([*self.ours, "0.0.0.0", "::"])
        s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        if self.chance.randrange(2):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        before = answer(s.accept)
        s.bind((host, 0))
        said = [answer(s.listen, 20), answer(s.listen, 20), answer(s.bind, (host, 0)), answer(s.connect, (self.ours[":" in host], 9))]
        port = s.getsockname()[1]
        to = self.chance.choice(self.ours) if host == "::" else self.ours[0] if host == "0.0.0.0" else host
        self.listeners.append(Listener(s.detach(), to, port))
        return f"{before} {said}"

    def listener(self, waiting=False):
        return self.chance.choice([listener for listener in self.listeners if listener.waiting or not waiting])

    def visit(self):
        listener = self.listener()
        self.count += 1
        said = self.ask("connect", self.count, listener.host, listener.port)
        listener.waiting.append(self.count)
        self.until(listener.fds[0], select.POLLIN)
        return said

    @staticmethod
    def until(fd, wanted):
        poll = select.poll()
        poll.register(fd, wanted)
        assert poll.poll(LIMIT * 1000), "nothing comes"

    def take(self, listener):
        """Of its first visitor."""
        fd = self.chance.choice(listener.fds)
        flags = self.chance.choice((0, os.O_NONBLOCK))
        s, _ = wrapped(fd, socket.socket.accept)
        s.setblocking(not flags)
        connection = Connection(listener.waiting.pop(0))
        connection.fds.append(s.detach())
        return connection

    def accept(self):
        connection = self.by_thread(self.take, self.listener(True))
        self.connections.append(connection)
        return self.state(connection.fds[0])

    def accept_none(self):
        listener = self.listener()
        if listener.waiting:
            return "some wait"
        fd = self.chance.choice(listener.fds)
        os.set_blocking(fd, False)
        said = answer(lambda: wrapped(fd, socket.socket.accept))
        os.set_blocking(fd, True)
        return said

    def look(self):
        listener = self.listener()
        return f"{len(listener.fds)} {self.state(self.chance.choice(listener.fds))}"

    def copy_listener(self):
        listener = self.listener()
        listener.fds.append(os.dup(self.chance.choice(listener.fds)))
        return len(listener.fds)

    def close_copy(self):
        listener = self.listener()
        if len(listener.fds) < 2:
            return "it has one"
        os.close(listener.fds.pop(self.chance.randrange(len(listener.fds))))
        return len(listener.fds)

    def serve_by_child(self):
        """A child takes the connection, and has it to its end."""
        listener = self.listener(True)
        number, seed, size = listener.waiting[0], self.chance.randrange(1 << 30), self.chance.choice((1, 1000, 200_000))
        sent = self.ask("send", number, seed, size)
        listener.waiting.pop(0)
        fd = self.chance.choice(listener.fds)

        def run():
            s, _ = wrapped(fd, socket.socket.accept)
            for other in listener.fds:
                os.close(other)
            got = b""
            while len(got) < size:
                got += s.recv(1 << 16)
            s.sendall(got[::-1])
            return f"{len(got)} {zlib.crc32(got)}"
        pid, said = self.child(run)
        got = self.ask("read", number, size)
        end = self.ask("end", number)
        said = said.read()
        return f"{sent} {said} {got} {end} {os.waitpid(pid, 0)[1]}"

    # Connections.

    def connection(self):
        return self.chance.choice(self.connections)

    def come(self):
        """The peer sends, and it is all there."""
        connection = self.connection()
        if connection.has_finished or len(connection.coming) > 50_000:
            return "no more"
        seed, size = self.chance.randrange(1 << 30), self.chance.choice((1, 100, 20_000))
        said = self.ask("send", connection.number, seed, size)
        connection.coming += random.Random(seed).randbytes(size)
        self.until_there(connection)
        return said

    @staticmethod
    def until_there(connection):
        last = time.monotonic() + LIMIT
        count = array.array("i", [0])
        while count[0] != len(connection.coming):
            assert time.monotonic() < last, (count, len(connection.coming))
            fcntl.ioctl(connection.fds[0], 0x541B, count)
            time.sleep(0.0005)

    def read(self):
        connection = self.connection()
        fd, size = self.chance.choice(connection.fds), self.chance.choice((1, 10, 5000, 100_000))
        how = self.chance.choice((0, socket.MSG_PEEK, socket.MSG_WAITALL))
        if not connection.coming and not connection.has_finished or how == socket.MSG_WAITALL and size > len(connection.coming):
            how = socket.MSG_DONTWAIT
        try:
            got = self.by_thread(lambda fd: wrapped(fd, lambda s: s.recv(size, how)), fd)
        except OSError as e:
            return errno.errorcode[e.errno]
        assert got == connection.coming[:len(got)], "other bytes"
        if how != socket.MSG_PEEK:
            connection.coming = connection.coming[len(got):]
        return f"{how} {len(got)} {zlib.crc32(got)}"

    def write(self):
        connection = self.connection()
        return self.written(connection, self.chance.choice(connection.fds), self.by_thread)

    def written(self, connection, fd, by):
        """All of it, which the peer reads."""
        size = self.chance.choice((1, 3000, 150_000))
        bytes_ = random.Random(size).randbytes(size)
        kind = self.chance.randrange(3)

        def call(fd):
            done = 0
            while done < size:
                try:
                    piece = bytes_[done:done + 40_000]
                    done += os.write(fd, piece) if kind == 0 else os.writev(fd, [piece[:7], piece[7:]]) if kind == 1 else wrapped(fd, lambda s: s.send(piece, socket.MSG_NOSIGNAL))
                except BlockingIOError:
                    self.until(fd, select.POLLOUT)
                except OSError as e:
                    return errno.errorcode[e.errno]
            return str(done)
        if connection.has_shut:
            return by(call, fd)
        reading = threading.Thread(target=lambda: said.append(self.ask("read", connection.number, size)))
        said = []
        reading.start()
        wrote = by(call, fd)
        reading.join()
        return f"{wrote} {said[0]}"

    def write_by_child(self):
        connection = self.connection()
        fd = self.chance.choice(connection.fds)
        if connection.has_shut:
            return "no more"
        bytes_ = random.Random(1).randbytes(self.chance.choice((1, 60_000)))

        def run():
            os.set_blocking(fd, True)
            wrapped(fd, lambda s: s.sendall(bytes_))
            return f"{len(bytes_)}"
        blocking = os.get_blocking(fd)
        pid, said = self.child(run)
        got = self.ask("read", connection.number, len(bytes_))
        status = os.waitpid(pid, 0)[1]
        os.set_blocking(fd, blocking)
        return f"{said.read()} {got} {status}"

    def look_at_connection(self):
        connection = self.connection()
        return f"{len(connection.fds)} {self.state_of(connection, self.chance.choice(connection.fds))}"

    def copy(self):
        connection = self.connection()
        connection.fds.append(os.dup(self.chance.choice(connection.fds)))
        return len(connection.fds)

    def put_over(self):
        """A copy takes the number of another file, or of another's copy."""
        connection, other = self.connection(), self.connection()
        fd = self.chance.choice(connection.fds)
        if other is not connection and len(other.fds) > 1:
            place = other.fds.pop(self.chance.randrange(len(other.fds)))
            said = "another's"
        else:
            place = os.open("/dev/null", os.O_RDONLY)
            said = "a file's"
        connection.fds.append(os.dup2(fd, place))
        return f"{said} {self.state_of(connection, place)}"

    def finish(self):
        connection = self.connection()
        if connection.has_finished:
            return "it has"
        said = self.ask("finish", connection.number)
        connection.has_finished = True
        self.until(connection.fds[0], 0x2000)
        return f"{said} {self.state_of(connection)}"

    def shut(self):
        connection = self.connection()
        # What is behind both ends is the connection's no more.
        if connection.has_finished:
            return "no more"
        connection.has_shut = True
        return answer(lambda: wrapped(self.chance.choice(connection.fds), lambda s: s.shutdown(socket.SHUT_WR)))

    def reset(self):
        connection = self.connection()
        if connection.has_shut or connection.has_finished or connection.was_passed_on:
            return "not now"
        said = self.ask("reset", connection.number)
        fd = connection.fds[0]
        self.until(fd, select.POLLHUP)
        state = self.state(fd)
        said = f"{said} {state} {answer(lambda: wrapped(fd, lambda s: s.getsockopt(1, 4)))} {answer(os.read, fd, 0)} {self.state(fd)}"
        for fd in connection.fds:
            os.close(fd)
        self.connections.remove(connection)
        return said

    def close(self):
        connection = self.connection()
        if len(connection.fds) > 1:
            os.close(connection.fds.pop(self.chance.randrange(len(connection.fds))))
            return f"{len(connection.fds)} left, {self.state_of(connection)}"
        self.connections.remove(connection)
        return self.leave(connection)

    def leave(self, connection):
        """With bytes that nobody has read it is reset, else it ends."""
        self.chance.shuffle(connection.fds)
        for fd in connection.fds:
            os.close(fd)
        return f"{len(connection.coming)} unread: {self.ask('end', connection.number)}"

    def pass_on(self):
        """A child gets a copy by a Unix socket, and writes by it."""
        connection = self.connection()
        if connection.has_shut:
            return "no more"
        # By exos run a Unix socket is in its place, which has no addresses behind its end.
        connection.was_passed_on = True
        ours, theirs = socket.socketpair()

        def run():
            ours.close()
            _, control, _, _ = theirs.recvmsg(1, 64)
            got = array.array("i", control[0][2])[0]
            os.set_blocking(got, True)
            wrapped(got, lambda s: s.sendall(b"passed on"))
            return "sent"
        blocking = os.get_blocking(connection.fds[0])
        pid, said = self.child(run)
        theirs.close()
        ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [connection.fds[0]]))])
        got = self.ask("read", connection.number, 9)
        status = os.waitpid(pid, 0)[1]
        ours.close()
        os.set_blocking(connection.fds[0], blocking)
        return f"{said.read()} {got} {status}"

    # By whom.

    def by_thread(self, call, *arguments):
        if self.chance.randrange(2):
            return call(*arguments)
        said = []

        def run():
            try:
                said.append(call(*arguments))
            except OSError as e:
                said.append(e)
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if isinstance(said[0], OSError):
            raise said[0]
        return said[0]

    @staticmethod
    def child(run):
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                os.close(reading)
                os.write(writing, run().encode())
            except BaseException as e:
                os.write(writing, repr(e).encode())
            os._exit(0)
        os.close(writing)
        return pid, os.fdopen(reading)

    def state_of(self, connection, fd=None):
        fd = connection.fds[0] if fd is None else fd
        return f"open {os.get_blocking(fd)}" if connection.was_passed_on else self.state(fd)

    def state(self, fd):
        """What is told of a socket, and can be told twice."""
        poll = select.poll()
        poll.register(fd, 0x2147 & ~4)
        bits = dict(poll.poll(0)).get(fd, 0)
        s = socket.socket(fileno=fd)
        try:
            # Ports are others each time.
            names = [answer(lambda: named(call(), self.ours)) for call in (s.getsockname, s.getpeername)]
            flags = (oct(fcntl.fcntl(fd, fcntl.F_GETFL)), fcntl.fcntl(fd, fcntl.F_GETFD), s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        finally:
            s.detach()
        return f"{bits:x} {names} {flags}"


def named(address, ours):
    return address[0].replace("::ffff:", "").replace(ours[0], "OURS").replace(ours[1], "OURS")


def program(control, ours, seed):
    signal.alarm(110)
    Program(control, ours, seed).run()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
