#!/usr/bin/env python3
"""What `exos serve` makes of a FastCGI application that behaves well or badly; see fastcgi.sh.

    fastcgi.py ADDRESS PORT APPLICATION-LOG SERVER-MESSAGES ACCESS-LOG

The application (application.py) has `/app/*` with 12 connections at once, of which a client has 3, and bodies up to 4 MiB, `/hasty/*` with a
timeout of 2 s, and `/keep/*` with connections that are kept; at `/nobody/*` nobody listens; `/closed/*` is for nobody. Prints "ok NAME" or
"not ok NAME: why" lines; ends with 1 when one was not ok.
"""

import re
import socket
import sys
import threading
import time

from common import PATIENCE, failed, say, wait_until

HOST, PORT, APPLICATION, MESSAGES, ACCESS = sys.argv[1], int(sys.argv[2]), *sys.argv[3:6]


def read(path):
    with open(path, encoding="latin-1") as file:
        return file.read()


def connect():
    return socket.create_connection((HOST, PORT), PATIENCE)


class Answer:
    """A response as it comes over a connection."""

    def __init__(self, made, is_head=False, buffer=b""):
        self.made, self.buffer = made, buffer
        while b"\r\n\r\n" not in self.buffer:
            self.more()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1])
        self.reason = lines[0].split(" ", 2)[2]
        self.fields = [tuple(line.split(": ", 1)) for line in lines[1:]]
        self.is_whole, self.body = True, b""
        if is_head or self.status in (100, 204, 304):
            return
        if self.field("Content-Length") is not None:
            self.body = self.take(int(self.field("Content-Length")))
        elif self.field("Transfer-Encoding") == "chunked":
            self.chunks()
        else:
            self.to_the_end()

    def field(self, name):
        found = [value for field, value in self.fields if field.lower() == name.lower()]
        return ", ".join(found) if found else None

    def more(self):
        part = self.made.recv(65536)
        if not part:
            raise EOFError
        self.buffer += part

    def take(self, count):
        while len(self.buffer) < count:
            self.more()
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def line(self):
        while b"\r\n" not in self.buffer:
            self.more()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def chunks(self):
        parts = []
        try:
            while length := int(self.line(), 16):
                parts.append(self.take(length))
                assert self.line() == b""
            assert self.line() == b""
        except (EOFError, ConnectionResetError):
            self.is_whole = False
        self.body = b"".join(parts)

    def to_the_end(self):
        try:
            while True:
                self.more()
        except EOFError:
            self.body, self.buffer = self.buffer, b""


def request(target, method="GET", version="1.1", fields=(), body=b""):
    lines = [f"{method} {target} HTTP/{version}", "Host: here.test", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def ask(target, method="GET", version="1.1", fields=(), body=b""):
    if body:
        fields = [*fields, f"Content-Length: {len(body)}"]
    with connect() as made:
        made.sendall(request(target, method, version, fields, body))
        return Answer(made, method == "HEAD")


def raw(text):
    """The status of the answer to these bytes, and whether the connection ends behind it."""
    with connect() as made:
        made.sendall(text)
        answer = Answer(made)
        try:
            is_closed = not answer.buffer and made.recv(1) == b""
        except OSError:
            is_closed = False
        return answer.status, is_closed


def well():
    answer = ask("/app/x/y?echo&z=1", "POST", fields=["Content-Type: text/x", "Proxy: evil", "X-A: 1", "x-a: 2"], body=b"the body")
    lines, _, body = answer.body.decode().partition("\n\n")
    said = dict(line.split("=", 1) for line in lines.split("\n"))
    say("a request is variables and a body", (answer.status, body) == (200, "the body") and all(
        said.get(name) == value for name, value in {
            "SCRIPT_NAME": "/app", "PATH_INFO": "/x/y", "QUERY_STRING": "echo&z=1", "REQUEST_METHOD": "POST",
            "REQUEST_URI": "/app/x/y?echo&z=1", "CONTENT_LENGTH": "8", "CONTENT_TYPE": "text/x", "HTTP_X_A": "1, 2",
            "SERVER_NAME": "here.test", "SERVER_PORT": str(PORT), "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_PROXY": None,
            "SERVER_ADDR": HOST, "GATEWAY_INTERFACE": "CGI/1.1",
        }.items()), lines)
    say("chunks for HTTP/1.1", ask("/app/?hello").field("Transfer-Encoding") == "chunked")
    old = ask("/app/?hello", version="1.0")
    say("the end of the connection for HTTP/1.0", (old.body, old.field("Connection"), old.field("Transfer-Encoding")) == (b"hello", "close", None))
    head = ask("/app/?length=10", "HEAD")
    say("HEAD has the length and no content", (head.field("Content-Length"), head.buffer) == ("10", b""))
    say("a length is kept", (ask("/app/?length=10").body, ask("/app/?length=10").field("Transfer-Encoding")) == (b"0123456789", None))
    say("what is beyond it is left out", ask("/app/?length=4").body == b"0123")
    say("any status", [(answer.status, answer.reason) for answer in map(ask, ("/app/?status=418_I_am", "/app/?status=201", "/app/?status=204"))]
        == [(418, "I am"), (201, "Created"), (204, "No Content")])
    there = ask("/app/?location=http://a.test/b")
    say("a Location is a redirect", (there.status, there.field("Location")) == (302, "http://a.test/b"))
    hop = ask("/app/?hop")
    say("fields of the connection are the server's", (hop.field("X-Hop"), hop.field("Keep-Alive"), hop.field("Server"), hop.field("X-Kept")) == (None, None, "exos", "1"), hop.fields)
    say("records cut anywhere", ask("/app/?cut").body == b"cut anywhere" * 20)
    say("30 MB", ask("/app/?bytes=30000000").body == b"x" * 30_000_000)
    say("methods that only applications have", [ask("/app/?hello", method).status for method in ("PUT", "DELETE", "PATCH", "PROPFIND", "OPTIONS", "TRACE")] == [200] * 5 + [405])
    with connect() as made:
        made.sendall(request("/app/?hello") + request("/static.txt") + request("/app/?length=10") + request("/static.txt"))
        answers, rest = [], b""
        for _ in range(4):
            answer = Answer(made, buffer=rest)
            rest = answer.buffer
            answers.append(answer.body)
        say("pipelined with documents, in order", answers == [b"hello", b"static\n", b"0123456789", b"static\n"], answers)
    ask("/app/?stderr")
    say("what it says to the operator is a message, without controls", wait_until(lambda: "says:  [31mwoe  to you" in read(MESSAGES)))
    say("rules of access come before", (ask("/closed/?hello").status, ask("/app/secret/?hello").status) == (403, 403))
    ask("/app/users/?hello", fields=["Authorization: Basic bmFtZTp3b3Jk"])
    named = ask("/app/users/?echo", fields=["Authorization: Basic bmFtZTp3b3Jk"]).body.decode().split("\n")
    say("whose password it is, is said", "REMOTE_USER=name" in named and "AUTH_TYPE=Basic" in named, named)
    say("and of nobody where none is wanted", b"REMOTE_USER" not in ask("/app/?echo", fields=["Authorization: Basic bmFtZTp3b3Jk"]).body)
    say("a wrong one is no user", ask("/app/users/?echo", fields=["Authorization: Basic bmFtZTp3cm9uZw=="]).status == 401)
    say("rules about fields", ask("/app/?hello").field("X-Rule") == "yes")
    say("a redirect comes before", ask("/app/old").status == 301)


def bodies():
    long = bytes(range(256)) * 12000
    say("3 MB there and back", ask("/app/?body", "POST", body=long).body == long)
    say("an application that reads slowly", ask("/app/?slowbody", "POST", body=long).body == str(len(long)).encode())
    say("a body beyond the limit: 413", ask("/app/?body", "POST", body=b"x" * (4 * 1024 * 1024 + 1)).status == 413)
    chunked = b"5\r\nhello\r\n6;a=b\r\n world\r\n0\r\nX: y\r\n\r\n"
    fields = ["Transfer-Encoding: chunked"]
    with connect() as made:
        made.sendall(request("/app/?echo", "POST", fields=fields, body=chunked) + request("/static.txt"))
        first = Answer(made)
        second = Answer(made, buffer=first.buffer)
        say("a chunked body, and what follows it", first.body.endswith(b"\n\nhello world") and b"CONTENT_LENGTH=11\n" in first.body and second.body == b"static\n")
    with connect() as made:
        for byte in request("/app/?echo", "POST", fields=fields, body=chunked):
            made.sendall(bytes([byte]))
            time.sleep(0.001)
        say("the same byte by byte", Answer(made).body.endswith(b"\n\nhello world"))
    say("chunks that are none: 400", raw(request("/app/?echo", "POST", fields=fields, body=b"5\nhello\n0\n\n")) == (400, True))
    say("chunks beyond a megabyte: 413", raw(request("/app/?echo", "POST", fields=fields, body=b"fffff1\r\n")) == (413, True))
    both = [*fields, "Content-Length: 5"]
    say("a length and chunks: 400", raw(request("/app/?echo", "POST", fields=both, body=chunked)) == (400, True))
    say("chunks in HTTP/1.0: 400", raw(request("/app/?echo", "POST", "1.0", fields, chunked)) == (400, True))
    say("another coding: 501", raw(request("/app/?echo", "POST", fields=["Transfer-Encoding: gzip, chunked"])) == (501, True))
    with connect() as made:
        made.sendall(request("/app/?body", "POST", fields=["Content-Length: 5", "Expect: 100-continue"]))
        leave = Answer(made)
        made.sendall(b"hello")
        say("leave is given to send", (leave.status, Answer(made, buffer=leave.buffer).body) == (100, b"hello"))
    too_long = ["Content-Length: 99999999", "Expect: 100-continue"]
    say("or the body is refused before it is sent", raw(request("/app/?body", "POST", fields=too_long)) == (413, True))
    early = ask("/app/?early", "POST", body=long)
    say("an application that answers and does not read", (early.status, early.body) == (403, b"no"))
    with connect() as made:
        made.sendall(request("/app/?body", "POST", fields=["Content-Length: 40000"], body=b"x" * 20000))
        made.shutdown(socket.SHUT_WR)
        try:
            got = made.recv(1)
        except ConnectionResetError:
            got = b""
        say("half a body and no more", got == b"")


def badly():
    started = time.monotonic()
    say("silence: 504 when its time is over", (ask("/hasty/?silence").status, 1.5 < time.monotonic() - started < 30) == (504, True))
    say("and it is told of that", wait_until(lambda: "silence abort" in read(APPLICATION)))
    for what in ("gone", "rubbish", "identity", "endlesshead", "badhead", "nohead", "split"):
        say(f"{what}: 502", ask(f"/app/?{what}").status == 502)
    say("overloaded: 503", ask("/app/?overloaded").status == 503)
    for what in ("dies", "long"):
        say(f"{what}: the client sees that it is not whole", not ask(f"/app/?{what}").is_whole)
    try:
        short = ask("/app/?length=11").body
    except (EOFError, ConnectionResetError):
        short = None
    say("shorter than it says: the client sees that", short is None)
    say("half an answer: the client sees that", not ask("/app/?half").is_whole)
    say("nobody listens: 502", ask("/nobody/").status == 502)
    why = ("nobody listens there; start", "it said nothing for 2 s")
    say("with messages that say why", wait_until(lambda: all(text in read(MESSAGES) for text in why)), read(MESSAGES)[-2000:])
    say("and others are served meanwhile", (ask("/app/?hello").status, ask("/static.txt").status) == (200, 200))


def clients():
    """Clients that go away, or take nothing."""
    for what in ("silence", "half"):
        before = read(APPLICATION).count(f"{what} abort")
        made = connect()
        made.sendall(request(f"/app/?{what}"))
        time.sleep(0.5)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        made.close()
        say(f"a client that goes in the middle of {what}: the request is aborted", wait_until(lambda: read(APPLICATION).count(f"{what} abort") > before))
    say("one that got no answer is logged as 499", wait_until(lambda: '/app/?silence HTTP/1.1" 499 0 ' in read(ACCESS)), read(ACCESS)[-2000:])
    before = read(APPLICATION).count("endless over")
    made = connect()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.sendall(request("/app/?endless"))
    time.sleep(1)
    say("an endless answer waits for its client", read(APPLICATION).count("endless over") == before and ask("/app/?hello").status == 200)
    made.close()
    say("and ends with it", wait_until(lambda: read(APPLICATION).count("endless over") > before))
    before = read(APPLICATION).count("endless over")
    say("of HEAD nobody waits for the content", (ask("/app/?endless", "HEAD").status, ask("/app/?endless&length=3", "HEAD").status) == (200, 200))
    say("which ends", wait_until(lambda: read(APPLICATION).count("endless over") > before))
    results = []
    threads = [threading.Thread(target=lambda: results.append(ask("/app/?sleep=0.1").body)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say("twenty at once over the three connections of a client", results == [b"slept"] * 20, results)


def kept():
    before = read(APPLICATION).count("connection\n")
    say("ten requests", [ask("/keep/?hello").body for _ in range(10)] == [b"hello"] * 10)
    say("over one connection that is kept", wait_until(lambda: read(APPLICATION).count("connection\n") == before + 1))
    ask("/keep/?gone")
    say("it is closed by the application, and nobody notices", [ask("/keep/?hello").body for _ in range(3)] == [b"hello"] * 3)


def logged():
    wanted = r'"GET /app/\?length=10 HTTP/1\.1" 200 10 '
    say("each is a line of the log", wait_until(lambda: re.search(wanted, read(ACCESS))))
    others = (("app/?gone", 502), ("hasty/?silence", 504), ("app/?dies", 200))
    say("also those that no application answered", all(f"GET /{what} HTTP/1.1\" {status} " in read(ACCESS) for what, status in others))


for part in (well, bodies, badly, clients, kept, logged):
    part()
sys.exit(failed())
