#!/usr/bin/env python3
"""WebSockets over HTTP/2 (RFC 8441) through `exos serve` to an upstream of HTTP/1.1, frame by frame; see streams.sh.

    streams.py ADDRESS PORT PID STATISTICS-FILE UPSTREAM-LOG [hold]

The upstream (upstream.py) is at `/app`, without changes of protocol at `/fixed`, and with a second for tunnels in which nobody says anything at `/brief`;
documents are at `/`, and `/denied` is for nobody. With `hold`, tunnels over HTTP/1.1 and 2 are opened alone, which is said, and kept until
the server ends them. Prints "ok NAME" or "not ok NAME: why" lines; ends with 1 when one was not ok.
"""

import os
import socket
import struct
import sys

from common import PATIENCE, failed, say, statistics_of, wait_until
from websocket import CLOSE, message
from h2frames import CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, literal, number, status

ADDRESS, PORT, PID, STATISTICS, UPSTREAM = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
PROTOCOL_ERROR, CANCEL, WINDOW, CONNECT_PROTOCOL = 1, 8, 65535, 8
MOST = (1 << 31) - 1
# What would be another request, were it looked at.
OTHER = b"GET /app/other HTTP/1.1\r\nHost: a.test\r\n\r\n"


def counter(name):
    return statistics_of(PID, STATISTICS)[name]


class Client:
    """A connection of many streams, which keeps to windows."""

    def __init__(self):
        self.sock = socket.create_connection((ADDRESS, PORT), timeout=PATIENCE)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The window of each stream stays as it is, and that of the connection is no limit. No table: each head says all that it says.
        self.sock.sendall(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 1, 0)) + frame(WINDOW_UPDATE, 0, 0, number(MOST - WINDOW)))
        self.buffer, self.settings, self.next = b"", {}, 1
        self.trailers = {}
        self.codes, self.content, self.ended, self.resets, self.gone = {}, {}, set(), {}, None
        # What may be sent: on the connection (0), and on each stream.
        self.room = {0: WINDOW}
        self.until(lambda: self.settings)

    def read(self):
        """Takes one frame."""
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            more = self.sock.recv(1 << 18)
            if not more:
                raise EOFError
            self.buffer += more
        length = int.from_bytes(self.buffer[:3], "big")
        (kind, flags), stream = self.buffer[3:5], int.from_bytes(self.buffer[5:9], "big")
        payload, self.buffer = self.buffer[9 : 9 + length], self.buffer[9 + length :]
        if kind == SETTINGS and not flags & 1:
            self.settings |= {key: value for key, value in struct.iter_unpack(">HI", payload)}
            self.sock.sendall(frame(SETTINGS, 1, 0))
        elif kind == HEADERS and stream in self.codes:
            self.trailers[stream] = payload
        elif kind == HEADERS:
            self.codes[stream] = status(payload)
        elif kind == DATA:
            self.content[stream] = self.content.get(stream, b"") + payload
        elif kind == RST_STREAM:
            self.resets[stream] = int.from_bytes(payload, "big")
        elif kind == WINDOW_UPDATE:
            self.room[stream] = self.room.get(stream, 0) + int.from_bytes(payload, "big")
        elif kind == GOAWAY:
            self.gone = int.from_bytes(payload[4:8], "big")
        if flags & END_STREAM and kind in (HEADERS, DATA):
            self.ended.add(stream)

    def until(self, holds):
        """Whether it comes to hold, before the connection's end."""
        try:
            while not holds():
                self.read()
            return True
        except (EOFError, OSError):
            return False

    def ask(self, path, fields=(), method=b"GET", flags=END_STREAM):
        stream, self.next = self.next, self.next + 2
        self.room[stream] = self.settings.get(4, WINDOW)
        own = [(b":method", method), (b":scheme", b"http"), (b":path", path), (b":authority", b"a.test")]
        block = b"".join(literal(*field) for field in own + list(fields))
        self.sock.sendall(frame(HEADERS, END_HEADERS | flags, stream, block))
        return stream

    def connect(self, path, protocol=b"websocket", fields=(), flags=0):
        more = [(b":protocol", protocol), (b"sec-websocket-version", b"13"), (b"origin", b"http://a.test")]
        return self.ask(path, more + list(fields), b"CONNECT", flags)

    def status(self, stream):
        """Of its answer; of one that was reset, that."""
        self.until(lambda: stream in self.codes or stream in self.resets)
        return self.codes.get(stream) or f"reset {self.resets.get(stream)}"

    def send(self, stream, content, flags=0):
        while content or flags:
            room = min(self.room[0], self.room[stream], 16384)
            if content and room <= 0:
                if not self.until(lambda: self.room[0] > 0 and self.room[stream] > 0):
                    raise EOFError
                continue
            part, content = content[:room], content[room:]
            self.room[0] -= len(part)
            self.room[stream] -= len(part)
            self.sock.sendall(frame(DATA, 0 if content else flags, stream, part))
            flags = flags if content else 0

    def take(self, stream, count):
        """So many bytes of what comes on a stream, for which there is room again."""
        taken = b""
        while len(taken) < count:
            if not self.until(lambda: self.content.get(stream)):
                raise EOFError
            came = self.content[stream]
            part, self.content[stream] = came[: count - len(taken)], came[count - len(taken) :]
            taken += part
            if stream not in self.ended:
                self.sock.sendall(frame(WINDOW_UPDATE, 0, stream, number(len(part))))
        return taken

    def message(self, stream):
        """Of a WebSocket."""
        first, length = self.take(stream, 2)
        if length > 125:
            length = int.from_bytes(self.take(stream, 2 if length == 126 else 8), "big")
        return first, self.take(stream, length)


def echoes():
    client = Client()
    say("the server says that CONNECT may name a protocol", client.settings.get(CONNECT_PROTOCOL) == 1, client.settings)
    stream = client.connect(b"/app/websocket")
    say("a WebSocket opens", client.status(stream) == 200, client.status(stream))
    for count in (0, 1, 125, 126, 65535, 65536, 1_000_000):
        content = os.urandom(count)
        # The upstream takes a message whole before it gives it back: more than the windows of either side.
        client.send(stream, message(content))
        say(f"a message of {count} bytes comes back", client.message(stream) == (0x82, content))
    stream_of_one = client.connect(b"/app/websocket")
    client.status(stream_of_one)
    client.send(stream_of_one, message(b"last"), END_STREAM)
    came = client.message(stream_of_one)
    say("a message with the stream's end comes back, and the end", came == (0x82, b"last") and client.until(lambda: stream_of_one in client.ended), came)
    client.send(stream, CLOSE)
    say("the end is passed on", client.message(stream)[0] == 0x88 and client.until(lambda: stream in client.ended), client.resets)
    # Beside each other and beside requests, on one connection.
    streams = [client.connect(b"/app/websocket") for _ in range(20)]
    opened = {client.status(stream) for stream in streams}
    for nth, stream in enumerate(streams):
        client.send(stream, message(b"of %d" % nth))
    page = client.ask(b"/")
    came = [client.message(stream)[1] for stream in streams]
    say("twenty beside each other", opened == {200} and came == [b"of %d" % nth for nth in range(20)], (opened, came))
    say("and a page", client.status(page) == 200, client.status(page))
    is_open = wait_until(lambda: counter("proxy_tunnels_open") == 20)
    say("they are counted", is_open, counter("proxy_tunnels_open"))
    # A client that gives up, one that ends its side, and one that goes.
    client.sock.sendall(frame(RST_STREAM, 0, streams[0], number(CANCEL)))
    client.send(streams[1], b"", END_STREAM)
    ended = client.until(lambda: streams[1] in client.ended)
    say("a client that ends its side hears the end", ended, client.resets)
    say("and each is over at the upstream", wait_until(lambda: counter("proxy_tunnels_open") == 18), counter("proxy_tunnels_open"))
    client.send(streams[2], message(b"still"))
    say("the others go on", client.message(streams[2]) == (0x82, b"still"))
    client.sock.close()
    say("none is left when the client has gone", wait_until(lambda: counter("proxy_tunnels_open") == 0), counter("proxy_tunnels_open"))


def ends():
    client = Client()
    stream = client.connect(b"/app/websocket/reset")
    say("before a reset there is an answer", client.status(stream) == 200 and client.take(stream, 1) == b"x")
    client.send(stream, b"y")
    say("the upstream's reset is one of the stream", client.until(lambda: stream in client.resets) and client.resets[stream] == CANCEL, (client.resets, client.ended))
    # Nothing is read here: what comes is what the window lets, and the rest when it is opened.
    count = 3_000_000
    stream = client.connect(b"/app/websocket/%d" % count)
    page = client.ask(b"/")
    client.until(lambda: len(client.content.get(stream, b"")) >= WINDOW and page in client.ended)
    say("what the client does not take waits", len(client.content[stream]) == WINDOW and stream not in client.ended, len(client.content[stream]))
    content = client.take(stream, count)
    say("and comes whole", content == (bytes(range(256)) * (count // 256 + 1))[:count])
    say("with the upstream's end", client.until(lambda: stream in client.ended), client.resets)


def silence():
    client, before = Client(), counter("proxy_tunnel_timeouts")
    stream, other = client.connect(b"/brief/websocket"), client.connect(b"/app/websocket")
    opened = client.status(stream), client.status(other)
    say("a tunnel in which nobody speaks ends in order", opened == (200, 200) and client.until(lambda: stream in client.ended), (opened, client.resets))
    say("which is counted", wait_until(lambda: counter("proxy_tunnel_timeouts") == before + 1), counter("proxy_tunnel_timeouts") - before)
    client.send(other, message(b"still"))
    say("another one goes on", client.message(other) == (0x82, b"still"))
    plain = plain_tunnel(b"/brief/websocket")
    say("over HTTP/1.1 its connection ends", is_over(plain))


def plain_tunnel(path):
    """A tunnel over HTTP/1.1."""
    sock = socket.create_connection((ADDRESS, PORT), timeout=PATIENCE)
    fields = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    sock.sendall(b"GET %s HTTP/1.1\r\nHost: a.test\r\n%s\r\n" % (path, fields))
    head = b""
    while b"\r\n\r\n" not in head:
        part = sock.recv(1)
        if not part:
            raise EOFError(head)
        head += part
    assert head.startswith(b"HTTP/1.1 101 "), head
    return sock


def is_over(sock):
    """It ends, by a FIN or a reset, before patience does."""
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True
    except OSError:
        return False


def hold():
    plain, client = plain_tunnel(b"/app/websocket"), Client()
    stream = client.connect(b"/app/websocket")
    assert client.status(stream) == 200
    print("open", flush=True)
    client.until(lambda: stream in client.ended or stream in client.resets)
    # A stream that was begun ends by itself or with its connection.
    say("a tunnel over HTTP/2 ends with the server", is_over(client.sock) or stream in client.ended | client.resets.keys(), client.resets)
    say("one over HTTP/1.1, too", is_over(plain))


def refusals():
    client = Client()
    before = counter("http_fault_protocol_unknown")
    for name, path, protocol, wanted in [
        ("an upstream that does not change", b"/app/say", b"websocket", 502),
        ("an upstream that has not understood the key", b"/app/websocket/wrong", b"websocket", 502),
        ("an upstream that ends without an answer", b"/app/drop", b"websocket", 502),
        ("an upstream that resets before its answer", b"/app/websocket/broken", b"websocket", 502),
        ("an upstream that refuses", b"/app/status/403", b"websocket", 403),
        ("an upstream that redirects", b"/app/status/302", b"websocket", 302),
        ("a rule without changes of protocol", b"/fixed/websocket", b"websocket", 501),
        ("a document", b"/", b"websocket", 501),
        ("what is not there", b"/none", b"websocket", 501),
        ("what is denied", b"/denied/a", b"websocket", 403),
        ("HTTP in a tunnel", b"/app/websocket", b"h2c", 501),
        ("a protocol that the upstream does not speak", b"/app/say", b"chat", 502),
    ]:
        stream = client.connect(path, protocol)
        client.send(stream, OTHER)
        client.until(lambda: stream in client.ended or stream in client.resets)
        client.send(stream, OTHER)
        # The connection has looked at that when it answers this.
        page = client.ask(b"/")
        client.until(lambda: page in client.ended)
        how = (client.codes.get(stream), stream in client.ended, client.resets.get(stream), client.trailers.get(stream))
        say(f"{name}: {wanted}, and the end", how == (wanted, True, None, None), how)
    say("what nobody speaks is counted", counter("http_fault_protocol_unknown") == before + 4, counter("http_fault_protocol_unknown") - before)
    for name, method, more in [
        ("a protocol that is no token", b"CONNECT", [(b":protocol", b"web socket")]),
        ("a protocol of GET", b"GET", [(b":protocol", b"websocket")]),
        ("a tunnel with a length", b"CONNECT", [(b":protocol", b"websocket"), (b"content-length", b"5")]),
        ("CONNECT with a path and no protocol", b"CONNECT", []),
    ]:
        stream = client.ask(b"/app/websocket", more, method)
        wanted = f"reset {PROTOCOL_ERROR}"
        say(f"{name} is malformed", client.status(stream) == wanted, client.status(stream))
    stream = client.ask(b"/app/say")
    say("the connection goes on", client.status(stream) == 200 and client.gone is None, client.gone)
    with open(UPSTREAM, "rb") as log:
        asked = log.read()
    say("what is in a refused tunnel is no request", b"/other" not in asked, asked[-400:])
    stream = client.connect(b"/app/websocket")
    opened = client.status(stream)
    client.sock.sendall(frame(HEADERS, END_HEADERS | END_STREAM, stream, literal(b"a", b"b")))
    ended = client.until(lambda: stream in client.resets)
    say("fields in a tunnel are a fault of its stream", ended and (opened, client.resets[stream]) == (200, PROTOCOL_ERROR), (opened, client.resets))
    say("the upstream is asked by GET", b"GET /app/websocket HTTP/1.1" in asked and b"CONNECT" not in asked, asked[-200:])


def trailers():
    client = Client()
    before = counter("proxy_trailers_left_out")
    stream = client.ask(b"/app/trailers")
    client.until(lambda: stream in client.ended)
    block = client.trailers.get(stream, b"")
    say("an answer's trailers end its stream", client.content.get(stream) == b"abc" and count_of(block) == 2, (client.content, block))
    stream = client.ask(b"/app/say", [], b"POST", 0)
    client.send(stream, b"body")
    more = [(b"x-sum", b"1"), (b"authorization", b"x"), (b"x-forwarded-for", b"9.9.9.9"), (b"content-length", b"4")]
    client.sock.sendall(frame(HEADERS, END_HEADERS | END_STREAM, stream, b"".join(literal(*field) for field in more)))
    client.until(lambda: stream in client.ended)
    said = client.content[stream].decode().split("\n")
    behind = [line for line in said if line.startswith("behind ")]
    say("a request's go to the upstream, with its body", behind == ["behind x-sum: 1"] and any(line.startswith("body 4 ") for line in said), said)
    say("in chunks", "Transfer-Encoding: chunked" in said and not any(line.startswith("Content-Length") for line in said), said)
    say("what is a head's does not go on", counter("proxy_trailers_left_out") == before + 5, counter("proxy_trailers_left_out") - before)
    stream = client.ask(b"/app/say", [(b"content-length", b"4")], b"POST", 0)
    client.send(stream, b"body")
    client.sock.sendall(frame(HEADERS, END_HEADERS | END_STREAM, stream, literal(b"x-sum", b"1")))
    client.until(lambda: stream in client.ended)
    say("behind a body with a length there are none", b"behind" not in client.content[stream] and b"Content-Length: 4" in client.content[stream], client.content[stream])
    stream = client.ask(b"/app/say", [], b"POST", 0)
    client.send(stream, b"body")
    client.sock.sendall(frame(HEADERS, END_HEADERS | END_STREAM, stream, literal(b"x-long", b"y" * 100) * 50))
    say("too many are refused", client.status(stream) == 413, client.status(stream))
    # Of 19,000 bytes, which are not kept: what is before them does not go on alone.
    block = literal(b"x-a", b"1") + b"\0\x05x-sig\x7f\xb9\x93\x01" + b"y" * 19000
    stream = client.ask(b"/app/say", [], b"POST", 0)
    client.send(stream, b"body")
    client.sock.sendall(frame(HEADERS, END_STREAM, stream, block[:16000]) + frame(CONTINUATION, END_HEADERS, stream, block[16000:]))
    say("and so is one that is far too long", client.status(stream) == 413, client.status(stream))
    stream = client.ask(b"/app/say", [], b"POST", 0)
    client.send(stream, b"body")
    client.sock.sendall(frame(HEADERS, END_HEADERS | END_STREAM, stream, literal(b":path", b"/")))
    say("a pseudo field among them is malformed", client.status(stream) == f"reset {PROTOCOL_ERROR}", client.status(stream))


def count_of(block):
    """Fields in a block that names no table, with lengths below 127."""
    count = 0
    while block:
        block = block[2 + (block[1] & 0x7F) :]
        block = block[1 + (block[0] & 0x7F) :]
        count += 1
    return count


if sys.argv[6:] == ["hold"]:
    hold()
    sys.exit(failed())
echoes()
ends()
silence()
refusals()
trailers()
sys.exit(failed())
