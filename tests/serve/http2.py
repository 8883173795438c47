#!/usr/bin/env python3
"""Clients of HTTP/2 that no browser is, against a running `exos serve --json`; see http2.sh.

    http2.py ADDRESS PORT AUTHORITY PID STATISTICS-FILE floods|windows|closed|half|goaway [DOCUMENT]

The server serves small.txt (100 bytes) and large.bin, which lies at DOCUMENT, in plain text. `floods` breaks the protocol in the ways
that attacks do, each of which has a counter; `windows` opens no windows, and leaves the server with what it would send, `closed` until
it has enough of that; `half` leaves frames half said; `goaway` has responses under way while the server is asked to end. Prints
"ok NAME" or "not ok NAME: why" lines; ends with 1 when one was not ok.
"""

import os
import signal
import socket
import struct
import sys
import threading

from common import PATIENCE, failed, say, statistics_of, wait_until
from h2frames import (CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE,
                      frame, literal, number, status)

ADDRESS, PORT, AUTHORITY, PID, STATISTICS = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5]
ENHANCE_YOUR_CALM = 11
MOST = (1 << 31) - 1


def request(path, method=b"GET"):
    fields = [(b":method", method), (b":scheme", b"http"), (b":path", path), (b":authority", AUTHORITY.encode())]
    return b"".join(literal(*field) for field in fields)


class Client:
    """A connection that has said its preface and these settings."""

    def __init__(self, settings=b"", timeout=PATIENCE):
        self.sock = socket.create_connection((ADDRESS, PORT), timeout=timeout)
        self.sock.sendall(PREFACE + frame(SETTINGS, 0, 0, settings))
        self.buffer = b""

    def send(self, bytes_):
        """As far as the server takes it: one that has gone away takes nothing."""
        try:
            self.sock.sendall(bytes_)
            return True
        except OSError:
            return False

    def ask(self, stream, path, is_all=True, method=b"GET"):
        return self.send(frame(HEADERS, END_HEADERS | is_all * END_STREAM, stream, request(path, method)))

    def frame(self):
        """The next one; nothing at the end of the connection."""
        try:
            while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
                more = self.sock.recv(65536)
                if not more:
                    return None
                self.buffer += more
        except OSError:
            return None
        length = int.from_bytes(self.buffer[:3], "big")
        head, payload = self.buffer[:9], self.buffer[9 : 9 + length]
        self.buffer = self.buffer[9 + length :]
        return head[3], head[4], int.from_bytes(head[5:], "big"), payload

    def frames(self):
        while got := self.frame():
            yield got

    def goodbye(self):
        """The code of the server's GOAWAY; nothing if there is none before the end."""
        for kind, _, _, payload in self.frames():
            if kind == GOAWAY:
                return int.from_bytes(payload[4:8], "big")
        return None

    def response(self, stream):
        """Status and content of one."""
        code, content = None, b""
        for kind, flags, its, payload in self.frames():
            if its != stream:
                continue
            if kind == HEADERS:
                code = status(payload)
            elif kind == DATA:
                content += payload
            elif kind == RST_STREAM:
                return "reset", int.from_bytes(payload, "big")
            if flags & END_STREAM:
                return code, content
        return code, content

    def close(self):
        self.sock.close()


def is_served():
    client = Client()
    client.ask(1, b"/small.txt")
    got = client.response(1)
    client.close()
    return got == (200, b"x" * 100)


def resident_kib():
    with open(f"/proc/{PID}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


# ---- floods ----


def resets(client):
    for nth in range(5000):
        if not (client.ask(2 * nth + 1, b"/small.txt") and client.send(frame(RST_STREAM, 0, 2 * nth + 1, number(8)))):
            return


def repeated(bytes_, times=20_000):
    def flood(client):
        for _ in range(times // 100):
            if not client.send(bytes_ * 100):
                return

    return flood


def continuations(client):
    client.send(frame(HEADERS, END_STREAM, 1, request(b"/small.txt")))
    repeated(frame(CONTINUATION, 0, 1, b""))(client)


def long_block(client):
    client.send(frame(HEADERS, END_STREAM, 1, request(b"/small.txt")))
    repeated(frame(CONTINUATION, 0, 1, literal(b"x-long", b"a" * 100) * 10), 200)(client)


def empty_data(client):
    client.ask(1, b"/small.txt", is_all=False, method=b"POST")
    repeated(frame(DATA, 0, 1))(client)


def settings(client):
    repeated(frame(SETTINGS, 0, 0))(client)


def windows(client):
    repeated(frame(WINDOW_UPDATE, 0, 0, number(1)), 200_000)(client)


def faults(client):
    """Requests that are none, each a fault of its stream."""
    for nth in range(5000):
        if not client.send(frame(HEADERS, END_HEADERS | END_STREAM, 2 * nth + 1, literal(b"a", b"b"))):
            return


# Each with the counter that grows.
FLOODS = {
    "http2_reset_flood": resets,
    "http2_continuation_flood": continuations,
    "http2_header_block_too_long": long_block,
    "http2_ping_flood": repeated(frame(PING, 0, 0, b"12345678")),
    "http2_settings_flood": settings,
    "http2_empty_flood": empty_data,
    "http2_priority_flood": repeated(frame(PRIORITY, 0, 1, number(0) + b"\x10")),
    "http2_window_flood": windows,
    "http2_fault_flood": faults,
}


def counter(name):
    """The one whose name ends so."""
    found = {its: value for its, value in statistics_of(PID, STATISTICS).items() if its.endswith(name.removeprefix("http2_"))}
    return sum(found.values()) if found else None


def floods():
    for name, flood in FLOODS.items():
        before = counter(name)
        client = Client()
        reader = []
        # What is sent is read, too, so that the server is not stopped by that.
        thread = threading.Thread(target=lambda: reader.append(client.goodbye()))
        thread.start()
        flood(client)
        thread.join()
        client.close()
        # A goodbye may be lost with the connection, which is reset where bytes lie unread.
        say(f"{name}: the connection ends", reader in ([ENHANCE_YOUR_CALM], [None]), f"the code is {reader}")
        say(f"{name}: it is counted", before is not None and wait_until(lambda: counter(name) > before), f"{before}")
        say(f"{name}: others are served", is_served())
    bomb()


def bomb():
    """A field of four thousand bytes, once, and then in two bytes each."""
    before = resident_kib()
    client = Client()
    # A literal that enters the table (RFC 7541, 6.2.1): a name of one byte, and a value of 4,000.
    entry = b"\x40\x01x\x7f\xa1\x1e" + b"a" * 4000
    assert len(entry) - 6 == 127 + 0x21 + (0x1E << 7)
    client.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, request(b"/small.txt") + entry))
    first = client.response(1)
    say("a header bomb: its first request is one", first[0] in (200, 431), f"{first}")
    codes = []
    for nth in range(1, 50):
        block = request(b"/small.txt") + b"\xbe" * 10_000
        if not client.send(frame(HEADERS, END_HEADERS | END_STREAM, 2 * nth + 1, block)):
            break
        codes.append(client.response(2 * nth + 1)[0])
    say("a header bomb is refused", not any(code == 200 for code in codes), f"{codes}")
    client.close()
    grown = resident_kib() - before
    say("a header bomb takes no memory", grown < 20_000, f"{grown} KiB more")
    say("a header bomb: others are served", is_served())


# ---- windows ----


def closed_windows():
    """Clients that ask for much and take nothing: what they cost is bounded, and they end some time."""
    before = resident_kib()
    small = struct.pack(">HI", 4, 0)
    clients = [Client(small) for _ in range(50)]
    for client in clients:
        for nth in range(100):
            client.ask(2 * nth + 1, b"/large.bin")
    say("no window: others are served", is_served())
    grown = resident_kib() - before
    say("no window: 5,000 responses that wait take little memory", grown < 40_000, f"{grown} KiB more")
    # One opens them after all, byte by byte at first.
    client = clients[0]
    for _ in range(5):
        client.send(frame(WINDOW_UPDATE, 0, 1, number(1)))
    client.send(frame(WINDOW_UPDATE, 0, 1, number(1 << 24)) + frame(WINDOW_UPDATE, 0, 0, number(1 << 24)))
    with open(sys.argv[7], "rb") as file:
        say("no window: one that is opened late carries all", client.response(1) == (200, file.read()))
    for client in clients:
        client.close()
    # A window that grows beyond all bounds, and settings that make it so.
    client = Client()
    client.send(frame(WINDOW_UPDATE, 0, 0, number(MOST)))
    say("a window beyond all bounds", client.goodbye() == 3)
    client.close()
    # The first update is all that there may be; behind it the connection's window, which is its own, lets too little go for the second to fit.
    client = Client(struct.pack(">HI", 4, 0))
    client.ask(1, b"/large.bin")
    client.send(frame(WINDOW_UPDATE, 0, 1, number(MOST)) * 2)
    got = client.response(1)
    say("a stream's window beyond all bounds", got == ("reset", 3) or got[0] is None, f"{got[0]}")
    client.close()


def closed_window():
    """Who opens no window is left in the time that a reader has who takes nothing."""
    client = Client(struct.pack(">HI", 4, 0), timeout=2 * PATIENCE)
    client.ask(1, b"/large.bin")
    is_left = True
    try:
        while client.sock.recv(65536):
            pass
    except TimeoutError:
        is_left = False
    except OSError:
        pass
    say("no window at all: the client is left", is_left)
    say("no window at all: that is counted", statistics_of(PID, STATISTICS)["http_send_timeouts"] >= 1)


# ---- half frames ----


def half_frames():
    """What is not said to its end keeps nobody, and ends by itself."""
    whole = PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS | END_STREAM, 1, request(b"/small.txt"))
    clients = []
    for cut in (3, 23, 24, 27, 33, 35, 40, 42, 50, len(whole) - 1):
        sock = socket.create_connection((ADDRESS, PORT), timeout=PATIENCE)
        sock.sendall(whole[:cut])
        clients.append((cut, sock))
    say("half frames: others are served", is_served())
    for cut, sock in clients:
        got = b""
        try:
            while more := sock.recv(65536):
                got += more
        except TimeoutError:
            got = b"nothing"
        except OSError:
            pass
        say(f"half frames: {cut} bytes are not waited for without end", got != b"nothing")
        sock.close()
    # Byte by byte it is a request like any other.
    sock = socket.create_connection((ADDRESS, PORT), timeout=PATIENCE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for at in range(len(whole)):
        sock.sendall(whole[at : at + 1])
    client = Client.__new__(Client)
    client.sock, client.buffer = sock, b""
    say("a request byte by byte", client.response(1) == (200, b"x" * 100))


# ---- an end in order ----


def goes_away():
    """The server is asked to end while eight responses are under way, which come whole; what is asked later it does not take."""
    with open(sys.argv[7], "rb") as file:
        wanted = file.read()
    client = Client()
    for nth in range(8):
        client.ask(2 * nth + 1, b"/large.bin")
    contents, ended, last, resets_seen = {2 * nth + 1: b"" for nth in range(8)}, set(), None, []
    while True:
        got = client.frame()
        if got is None:
            break
        kind, flags, stream, payload = got
        if kind == DATA:
            if not any(contents.values()):
                os.kill(PID, signal.SIGTERM)
            if stream not in contents:
                continue
            contents[stream] += payload
            more = number(max(len(payload), 1))
            if last is not None:
                client.send(frame(WINDOW_UPDATE, 0, 0, more) + frame(WINDOW_UPDATE, 0, stream, more))
        if kind == GOAWAY:
            if last is None:
                # The windows are opened only now, so that none is whole before.
                client.send(b"".join(frame(WINDOW_UPDATE, 0, stream, number(1 << 24)) for stream in contents) + frame(WINDOW_UPDATE, 0, 0, number(1 << 28)))
                client.ask(101, b"/small.txt")
            last = (int.from_bytes(payload[:4], "big"), int.from_bytes(payload[4:8], "big"))
        if kind == RST_STREAM:
            resets_seen.append(stream)
        if flags & END_STREAM and kind in (DATA, HEADERS):
            ended.add(stream)
    say("an end in order: it says goodbye", last is not None and last[1] == 0 and last[0] >= 15, f"{last}")
    say("an end in order: what is under way comes whole", all(it == wanted for it in contents.values()), f"{[len(it) for it in contents.values()]} of {len(wanted)}")
    say("an end in order: and ends", ended >= set(contents), f"{ended}")


{"floods": floods, "windows": closed_windows, "closed": closed_window, "half": half_frames, "goaway": goes_away}[sys.argv[6]]()
sys.exit(failed())
