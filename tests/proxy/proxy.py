#!/usr/bin/env python3
"""What `exos serve` makes of upstreams that behave well or badly; see proxy.sh.

    proxy.py URL UPSTREAM-LOG SERVER-MESSAGES ACCESS-LOG

The upstream (upstream.py) is at `/app`, at `/hasty` with a timeout of 2 s, at `/base` with another path and host, at `/unix` over a Unix socket, where
this client is trusted, behind documents at `/both`, three of them at `/some`, of which one is not there; nobody at `/nobody`; `/closed` is for nobody.
Prints "ok NAME" or "not ok NAME: why" lines; ends with 1 when one was not ok.
"""

import base64
import hashlib
import os
import socket
import ssl
import sys
from urllib.parse import urlsplit

from common import PATIENCE, failed, say, wait_until
from websocket import CLOSE, message

URL, UPSTREAM, MESSAGES, ACCESS = sys.argv[1:5]
HOST, IS_TLS = urlsplit(URL).hostname, URL.startswith("https")
PORT = 443 if IS_TLS else 80


def read(path):
    with open(path, encoding="latin-1") as file:
        return file.read()


def connect():
    made = socket.create_connection((HOST, PORT), PATIENCE)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not IS_TLS:
        return made
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(made)


class Client:
    """A connection, and what has come on it."""

    def __init__(self):
        self.made, self.buffer = connect(), b""

    def more(self):
        part = self.made.recv(65536)
        if not part:
            raise EOFError
        self.buffer += part

    def until(self, end):
        while end not in self.buffer:
            self.more()
        taken, self.buffer = self.buffer.split(end, 1)
        return taken

    def take(self, count):
        while len(self.buffer) < count:
            self.more()
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def ask(self, target, method="GET", fields="", body=b"", version="1.1"):
        head = f"{method} {target} HTTP/{version}\r\nHost: a.test\r\n{fields}"
        if body and "Transfer-Encoding" not in fields:
            head += f"Content-Length: {len(body)}\r\n"
        self.made.sendall(head.encode("latin-1") + b"\r\n" + body)

    def answer(self, is_head=False):
        """Status, fields and content; the content is None where it is cut off."""
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        status = int(lines[0].split()[1])
        fields = {line.split(": ", 1)[0].lower(): line.split(": ", 1)[1] for line in lines[1:]}
        if is_head or status in (100, 101, 103, 204, 304):
            return status, fields, b""
        content = b""
        try:
            if "content-length" in fields:
                content = self.take(int(fields["content-length"]))
            elif fields.get("transfer-encoding") == "chunked":
                while count := int(self.until(b"\r\n"), 16):
                    content += self.take(count)
                    assert self.take(2) == b"\r\n"
                self.until(b"\r\n")
            else:
                while True:
                    self.more()
        except EOFError:
            if "content-length" in fields or "transfer-encoding" in fields:
                return status, fields, None
            content, self.buffer = self.buffer, b""
        return status, fields, content

    def get(self, target, **how):
        self.ask(target, **how)
        return self.answer(how.get("method") == "HEAD")

    def is_over(self):
        try:
            self.more()
        except (EOFError, ConnectionError):
            return True
        return False


def pattern(count):
    return (bytes(range(256)) * (count // 256 + 1))[:count]


def same(name, wanted, got):
    say(name, wanted == got, f"wanted {wanted!r}, got {got!r}"[:600])


def forwarding():
    client = Client()
    status, fields, content = client.get("/app/say?a=%20b&c=%2F", fields="X-Mine: 1\r\nX_Mine: 2\r\nX-Forwarded-For: 9.9.9.9\r\nX-Real-IP: 9.9.9.9\r\nConnection: X-Hop\r\nX-Hop: 3\r\nTE: trailers\r\n")
    lines = content.decode().splitlines()
    own = client.made.getsockname()[0]
    scheme = "https" if IS_TLS else "http"
    same("a request goes on as it is", "GET /app/say?a=%20b&c=%2F HTTP/1.1", lines[0])
    wanted = {"Host: a.test", "X-Mine: 1", f"X-Forwarded-For: {own}", f"X-Forwarded-Proto: {scheme}", "X-Forwarded-Host: a.test", "Via: 1.1 exos", "TE: trailers", "Connection: TE", f"Forwarded: for={own};host=\"a.test\";proto={scheme}"}
    same("with these fields", wanted, set(lines[1:-1]))
    same("an answer has a rule's field, and our Server", ("yes", "exos"), (fields.get("x-rule"), fields.get("server")))
    lines = client.get("/base/./say?x")[2].decode().splitlines()
    same("a path stands in the place of another", ("GET /app/say?x HTTP/1.1", True), (lines[0], "Host: 127.0.0.1:9100" in lines))
    lines = client.get("/unix/say", fields="X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: gopher\r\n")[2].decode().splitlines()
    same("a proxy that is trusted is believed", True, f"X-Forwarded-For: 9.9.9.9, {own}" in lines and "X-Forwarded-Proto: gopher" in lines)
    same("a document comes first", b"static\n", client.get("/both/there.txt")[2])
    same("and what is none is the upstream's", 200, client.get("/both/say")[0])
    same("what is closed is closed", 403, client.get("/closed/say")[0])
    same("TRACE is refused", 405, client.get("/app/say", method="TRACE")[0])


def bodies():
    client = Client()
    body = pattern(3_000_000)
    for name, fields, sent in [
        ("a length", "", body),
        ("chunks", "Transfer-Encoding: chunked\r\n", b"".join(b"%x;a=b\r\n%s\r\n" % (len(part), part) for part in (body[at : at + 777] for at in range(0, 1_000_000, 777))) + b"0\r\n\r\n"),
    ]:
        whole = body if not fields else b"".join(body[at : at + 777] for at in range(0, 1_000_000, 777))
        lines = client.get("/app/say", method="POST", fields=fields, body=sent)[2].decode().splitlines()
        same(f"a body with {name}", f"body {len(whole)} {hashlib.md5(whole).hexdigest()}", lines[-1])
        same(f"a body with {name} has a length there", 1, sum(line.lower().startswith("content-length:") for line in lines))
    lines = client.get("/app/say", method="POST", fields="Transfer-Encoding: chunked\r\n", body=b"3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nA: b\r\nHost: c\r\n\r\n")[2].decode().splitlines()
    same("with a field behind it a body comes in chunks", [f"body 5 {hashlib.md5(b'abcde').hexdigest()}", "behind A: b"], lines[-2:])
    say("and has no length", "Transfer-Encoding: chunked" in lines and not any(line.startswith("Content-Length") for line in lines), lines)
    client.ask("/app/say", method="POST", fields="Expect: 100-continue\r\nContent-Length: 3\r\n")
    same("leave to send a body", 100, client.answer()[0])
    client.made.sendall(b"abc")
    same("which is sent then", f"body 3 {hashlib.md5(b'abc').hexdigest()}", client.answer()[2].decode().splitlines()[-1])
    client = Client()
    client.ask("/app/early", method="POST", fields="Content-Length: 10000000\r\n")
    # What comes behind an answer is read and dropped for a while, so that it arrives.
    client.made.sendall(b"x" * 10_000_000)
    same("an answer before the body is read", (413, b"no"), client.answer()[::2])


def answers():
    for version in ("1.1", "1.0"):
        for way in ("length", "chunked", "close"):
            for count in (0, 1, 100, 1_000_000):
                got = Client().get(f"/app/{way}/{count}", version=version, fields="Connection: close\r\n")
                say(f"{count} bytes by {way} for HTTP/{version}", got[0] == 200 and got[2] == pattern(count), str(got)[:300])
    client = Client()
    client.ask("/app/hints")
    same("hints go on", (103, "</a.css>"), (client.answer()[0], "</a.css>"))
    same("and the answer behind them", b"hinted", client.answer()[2])
    for method in ("HEAD", "GET"):
        same(f"{method} keeps the connection", 200, client.get("/app/say", method=method)[0])
    same("204 too", 204, client.get("/app/status/204")[0])
    same("and 304", 304, client.get("/app/status/304", fields='If-None-Match: "x"\r\n')[0])
    # What comes behind an answer is nobody's.
    same("an answer with another one behind it", b"abc", client.get("/app/smuggled")[2])
    same("is one", 200, client.get("/app/say")[0])


def kept():
    numbers = set()
    client = Client()
    for _ in range(50):
        numbers.add(client.get("/unix/say")[1]["x-connection"])
    same("fifty requests need one connection", 1, len(numbers))


def failures():
    for kind in ("nonsense", "version", "both", "lengths", "coding", "fold", "return", "zero", "long", "many", "interims", "upgrade"):
        client = Client()
        same(f"an answer that is none is a bad gateway: {kind}", 502, client.get(f"/app/bad/{kind}")[0])
        same(f"and the connection goes on: {kind}", 200, client.get("/app/say")[0])
    # What is wrong may be seen before anything has gone to the client.
    status, _, content = Client().get("/app/bad/chunk")
    say("chunks that are none are no answer, or none that is whole", status == 502 or content is None, f"{status} {content}")
    for kind in ("short", "cut"):
        client = Client()
        same(f"an answer that is cut off is not whole: {kind}", None, client.get(f"/app/bad/{kind}")[2])
        say(f"and the connection ends: {kind}", client.is_over())
    client = Client()
    same("nobody is there", 502, client.get("/nobody/x")[0])
    same("it says nothing", 504, client.get("/hasty/silent")[0])
    same("it ends without an answer", 502, client.get("/app/drop")[0])
    same("and is asked once", 1, read(UPSTREAM).count("GET /app/drop"))
    got = [client.get("/some/say")[0] for _ in range(12)]
    same("one of three is not there", [200] * 12, got)
    say("a message says why", wait_until(lambda: "nobody listens there" in read(MESSAGES)), read(MESSAGES)[-300:])
    say("the log has the status", wait_until(lambda: '"GET /nobody/x HTTP/1.1" 502' in read(ACCESS)), read(ACCESS)[-300:])


def smuggling():
    """Nothing of these reaches the upstream as a request of its own."""
    for name, request in [
        ("both lengths", b"POST /app/say HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /app/forged HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("two lengths", b"POST /app/say HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 35\r\n\r\nGET /app/forged HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("another coding", b"POST /app/say HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET /app/forged HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("a folded line", b"POST /app/say HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\nGET /app/forged HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("a space before the colon", b"POST /app/say HTTP/1.1\r\nHost: a\r\nContent-Length : 35\r\n\r\nGET /app/forged HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("a bare return", b"GET /app/say HTTP/1.1\r\nHost: a\r\nA: b\rX: c\r\n\r\nGET /app/forged HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("a bad chunk", b"POST /app/say HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\nGET /app/forged HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("a chunk that is longer than it says", b"POST /app/say HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\nGET /app/forged HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("HTTP/2 by upgrade", b"GET /app/say HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"),
    ]:
        client = Client()
        client.made.sendall(request)
        status = client.answer()[0]
        wanted = 200 if "HTTP/2" in name else None
        say(f"smuggling by {name}", status == wanted if wanted else status in (400, 501), str(status))
        say(f"ends the connection, or changes nothing: {name}", wanted or client.is_over())
    same("nothing was smuggled", 0, read(UPSTREAM).count("forged"))


def websocket():
    client = Client()
    key = base64.b64encode(os.urandom(16)).decode()
    asked = f"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
    status, _, _ = client.get("/app/websocket/broken", fields=asked)
    same("an upstream that resets before it changes", 502, status)
    client = Client()
    status, fields, _ = client.get("/app/websocket", fields=asked)
    accept = base64.b64encode(hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()
    same("a WebSocket opens", (101, "websocket", "upgrade", accept), (status, fields.get("upgrade"), fields.get("connection"), fields.get("sec-websocket-accept")))
    for count in (0, 1, 125, 126, 65535, 65536, 1_000_000):
        content = os.urandom(count)
        # The upstream takes a message whole before it gives it back.
        client.made.sendall(message(content))
        head = client.take(2)
        length = head[1] if head[1] < 126 else int.from_bytes(client.take(2 if head[1] == 126 else 8), "big")
        say(f"a message of {count} bytes comes back", head[0] == 0x82 and client.take(length) == content)
    client.made.sendall(CLOSE)
    say("it ends in order", client.take(2) == b"\x88\0" and client.is_over())


def main():
    forwarding()
    bodies()
    answers()
    kept()
    failures()
    smuggling()
    websocket()
    sys.exit(failed())


main()
