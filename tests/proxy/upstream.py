#!/usr/bin/env python3
"""An HTTP server behind a proxy, which behaves well and badly; see proxy.sh.

    upstream.py PORT|SOCKET LOG

Each request is a line of the log: the number of its connection, the method and the target. What it answers is said by the target, after
the last `/app`:

    /say        what came: the request line, the fields and the body's length and sum
    /trailers   three bytes in chunks, and fields behind them, with two that are none to pass on
    /length/N   N bytes with a Content-Length; /chunked/N in chunks; /close/N to the end of the connection
    /status/N   this status, without content
    /hints      two answers before the last one
    /websocket  a WebSocket that gives back what it is sent; /websocket/KIND one that does not: another accept (`wrong`), a reset behind a
                byte (`reset`), a reset before any answer (`broken`), N bytes and the end (`N`)
    /drop       nothing: the connection ends; /silent: nothing, for as long as the client stays
    /early      an answer before the body is read, then the end
    /bad/KIND   something that is no answer
"""

import base64
import hashlib
import os
import socket
import struct
import sys
import threading

WHERE, LOG = sys.argv[1:3]
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

BAD = {
    "nonsense": b"nonsense\r\n\r\n",
    "version": b"HTTP/9.9 200 OK\r\nContent-Length: 0\r\n\r\n",
    "both": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "fold": b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
    "return": b"HTTP/1.1 200 OK\r\nA: b\rSet-Cookie: c\r\nContent-Length: 0\r\n\r\n",
    "zero": b"HTTP/1.1 200 OK\r\nA: b\0\r\nContent-Length: 0\r\n\r\n",
    "long": b"HTTP/1.1 200 OK\r\nA: " + b"x" * 100_000 + b"\r\n\r\n",
    "many": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000 + b"\r\n",
    "interims": b"HTTP/1.1 102 Wait\r\n\r\n" * 100,
    "upgrade": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    # These begin well, and are cut off.
    "short": b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nabc",
    "chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX",
    "cut": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
}
# An answer, and a second one that nobody asked for.
SMUGGLED = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"


class Gone(Exception):
    pass


class Peer:
    """A connection that is read by lines and lengths."""

    def __init__(self, made):
        self.made, self.buffer, self.trailers = made, b"", []

    def more(self):
        part = self.made.recv(65536)
        if not part:
            raise Gone
        self.buffer += part

    def line(self):
        while b"\r\n" not in self.buffer:
            self.more()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def take(self, count):
        while len(self.buffer) < count:
            self.more()
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def body(self, fields):
        said = {name.lower(): value for name, value in fields}
        if said.get(b"transfer-encoding") == b"chunked":
            parts = []
            while count := int(self.line(), 16):
                parts.append(self.take(count))
                assert self.line() == b""
            while line := self.line():
                self.trailers.append(line)
            return b"".join(parts)
        return self.take(int(said.get(b"content-length", b"0")))


def pattern(count):
    return (bytes(range(256)) * (count // 256 + 1))[:count]


def websocket(peer, fields, kind):
    said = dict((name.lower(), value) for name, value in fields)
    accept = base64.b64encode(hashlib.sha1(said[b"sec-websocket-key"] + GUID).digest())
    if kind == "broken":
        peer.made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise Gone
    if kind == "wrong":
        accept = accept[::-1]
    protocol = said.get(b"sec-websocket-protocol")
    if protocol:
        accept += b"\r\nSec-WebSocket-Protocol: " + protocol.split(b",")[0]
    peer.made.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n"
    )
    if kind == "reset":
        peer.made.sendall(b"x")
        peer.take(1)
        # SO_LINGER without time: the end is a reset.
        peer.made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise Gone
    if kind.isdigit():
        peer.made.sendall(pattern(int(kind)))
        raise Gone
    while True:
        first, second = peer.take(2)
        length = second & 0x7F
        if length == 126:
            length = int.from_bytes(peer.take(2), "big")
        elif length == 127:
            length = int.from_bytes(peer.take(8), "big")
        mask = peer.take(4)
        content = peer.take(length)
        content = (int.from_bytes(content, "big") ^ int.from_bytes((mask * (length // 4 + 1))[:length], "big")).to_bytes(length, "big")
        head = bytes([first])
        head += bytes([length]) if length < 126 else (bytes([126]) + length.to_bytes(2, "big") if length < 65536 else bytes([127]) + length.to_bytes(8, "big"))
        peer.made.sendall(head + content)
        if first & 15 == 8:
            raise Gone


def send(peer, status, content, more=b""):
    peer.made.sendall(b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\n%sContent-Length: %d\r\n\r\n%s" % (status, more, len(content), content))


def answer(peer, number, line, fields):
    method, target, _ = line.split(b" ")
    words = target.split(b"?")[0].decode("latin-1").split("/app", 1)[-1].strip("/").split("/")
    what, argument = words[0], words[-1]
    if what == "drop":
        raise Gone
    if what == "silent":
        while True:
            peer.more()
    if what == "early":
        send(peer, b"413 Too Large", b"no", b"Connection: close\r\n")
        raise Gone
    if what == "websocket":
        return websocket(peer, fields, argument)
    peer.trailers = []
    body = peer.body(fields)
    if what == "say":
        lines = [line, *(name + b": " + value for name, value in fields), b"body %d %s" % (len(body), hashlib.md5(body).hexdigest().encode())]
        lines += [b"behind " + line for line in peer.trailers]
        content = b"\n".join(lines) + b"\n"
        send(peer, b"200 OK", b"" if method == b"HEAD" else content, b"X-Connection: %d\r\n" % number)
    elif what == "trailers":
        peer.made.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 900150983c\r\nContent-Length: 7\r\nSet-Cookie: a=b\r\ngrpc-status: 0\r\n\r\n")
    elif what == "length":
        send(peer, b"200 OK", pattern(int(argument)))
    elif what == "chunked":
        left = pattern(int(argument))
        peer.made.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")
        while left:
            part, left = left[:3001], left[3001:]
            peer.made.sendall(b"%x;a=b\r\n%s\r\n" % (len(part), part))
        peer.made.sendall(b"0\r\nX-Sum: 1\r\n\r\n")
    elif what == "close":
        peer.made.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + pattern(int(argument)))
        raise Gone
    elif what == "status":
        peer.made.sendall(b"HTTP/1.1 %s Status\r\nLocation: /elsewhere\r\nETag: \"x\"\r\n%s\r\n" % (argument.encode(), b"" if argument in ("204", "304") else b"Content-Length: 0\r\n"))
    elif what == "hints":
        peer.made.sendall(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n")
        send(peer, b"200 OK", b"hinted")
    elif what == "smuggled":
        peer.made.sendall(SMUGGLED)
    elif what == "bad":
        peer.made.sendall(BAD[argument])
        raise Gone
    else:
        send(peer, b"404 Not Found", b"nothing\n")


def serve(made, number):
    peer = Peer(made)
    try:
        while True:
            line = peer.line()
            fields = []
            while field := peer.line():
                name, value = field.split(b":", 1)
                fields.append((name, value.strip()))
            with open(LOG, "ab") as log:
                log.write(b"%d %s\n" % (number, line))
            answer(peer, number, line, fields)
    except (Gone, OSError):
        made.close()


def main():
    if WHERE.isdigit():
        listener = socket.create_server(("127.0.0.1", int(WHERE)), backlog=1024, reuse_port=True)
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(WHERE)
        os.chmod(WHERE, 0o666)
        listener.listen(1024)
    number = 0
    while True:
        made = listener.accept()[0]
        if WHERE.isdigit():
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number += 1
        threading.Thread(target=serve, args=(made, number), daemon=True).start()


main()
