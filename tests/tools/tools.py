"""Peers on Linux's stack for tests/tools/tools.sh: what each does stands in its function.

Exits with an assertion's message when our side does not do what it should."""
import selectors
import socket
import sys
import threading
import time


def connect(address, port):
    s = socket.create_connection((address, int(port)), timeout=100)
    s.settimeout(100)
    return s


def noise(length, seed):
    import random
    return random.Random(seed).randbytes(length)


def read_all(s):
    parts = []
    while part := s.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def exchange_bytes(s, data):
    """Send all, finish, and return all that comes."""
    sender = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
    sender.start()
    got = read_all(s)
    sender.join()
    return got


def echo(address, port, length, connections):
    """So many connections at once, each with data of its own that must come back."""
    failures = []

    def one(n):
        try:
            data = noise(int(length), n)
            got = exchange_bytes(connect(address, port), data)
            if got != data:
                failures.append(f"connection {n}: {len(got)} bytes of {len(data)}")
        except OSError as e:
            failures.append(f"connection {n}: {e}")

    threads = [threading.Thread(target=one, args=(n,)) for n in range(int(connections))]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failures, failures[:3]


def datagram(address, port, source, wanted, length="500"):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.bind(("", int(source)))
    s.settimeout(60 if wanted == "answered" else 0.5)
    data = noise(int(length), 1)
    s.sendto(data, (address, int(port)))
    try:
        got, sender = s.recvfrom(1 << 16)
    except TimeoutError:
        assert wanted == "silent", "no answer"
        return
    assert wanted == "answered", "it was answered"
    assert got == data and sender[0] == address, (len(got), sender)


def stall(address, port):
    """Send without reading: before long nothing more is taken."""
    s = connect(address, port)
    s.settimeout(1)
    sent = 0
    try:
        while sent < 100_000_000:
            sent += s.send(bytes(1 << 16))
    except TimeoutError:
        return
    raise AssertionError(f"{sent} bytes were taken without an answer being read")


def pattern(length):
    lines = (bytes(32 + (line + n) % 95 for n in range(72)) + b"\r\n" for line in range(95))
    once = b"".join(lines)
    return (once * (length // len(once) + 1))[:length]


def source(address, port, length, _):
    got = read_all(connect(address, port))
    assert length == "any" or len(got) == int(length), len(got)
    assert got and got == pattern(len(got))


def sink(address, port, length):
    s = connect(address, port)
    s.sendall(noise(int(length), 1))
    s.shutdown(socket.SHUT_WR)
    assert s.recv(1) == b"", "an answer"


def exchange(address, port, path):
    """Sends all, and finishes when all has come: with its peer's end one that listens ends, whatever it has left to send."""
    data = open(path, "rb").read()
    with connect(address, port) as s:
        sender = threading.Thread(target=s.sendall, args=(data,))
        sender.start()
        parts, left = [], len(data)
        while left and (part := s.recv(min(left, 1 << 16))):
            parts.append(part)
            left -= len(part)
        sender.join()
        s.shutdown(socket.SHUT_WR)
        assert b"".join(parts) == data and s.recv(1) == b""


def listen(port):
    s = socket.create_server(("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
    print("listening", flush=True)
    s.settimeout(100)
    return s


def serve_sink(port, connections):
    """Takes what comes on so many connections, and tells how much."""
    server, total, taken, open_ones = listen(port), 0, 0, 0
    watch = selectors.DefaultSelector()
    watch.register(server, selectors.EVENT_READ)
    end = time.monotonic() + 100
    while (taken < int(connections) or open_ones) and time.monotonic() < end:
        for key, _ in watch.select(1):
            if key.fileobj is server:
                watch.register(server.accept()[0], selectors.EVENT_READ)
                taken, open_ones = taken + 1, open_ones + 1
            elif part := key.fileobj.recv(1 << 16):
                total += len(part)
            else:
                watch.unregister(key.fileobj)
                key.fileobj.close()
                open_ones -= 1
    print(f"{total} bytes in {taken} connections")


def serve_source(port, length):
    s, _ = listen(port).accept()
    try:
        s.sendall(noise(int(length), 1))
    except (ConnectionResetError, BrokenPipeError):
        pass


def serve_echo(port):
    s, _ = listen(port).accept()
    while part := s.recv(1 << 16):
        s.sendall(part)


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")](*sys.argv[2:])
