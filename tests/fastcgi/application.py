#!/usr/bin/env python3
"""A FastCGI application that behaves as it is told; see fastcgi.sh.

    application.py SOCKET-OR-PORT LOG

It listens at a Unix socket, or at a port of 127.0.0.1, and serves each connection with a thread. The first word of the query
says what it does with a request; what it hears of its clients' ends it appends to the log.
"""

import os
import socket
import struct
import sys
import threading
import time

BEGIN, ABORT, END, PARAMS, STDIN, STDOUT, STDERR = 1, 2, 3, 4, 5, 6, 7
KEEP = 1
where, log = sys.argv[1:]
lock = threading.Lock()


def note(line):
    with lock, open(log, "a", encoding="utf-8") as out:
        out.write(line + "\n")


def record(kind, content=b"", padding=0, identity=1, version=1):
    return struct.pack(">BBHHBx", version, kind, identity, len(content), padding) + content + bytes(padding)


def end(status=0):
    return record(END, struct.pack(">IB3x", 0, status))


class Gone(Exception):
    pass


class Connection:
    def __init__(self, made):
        self.made, self.buffer = made, b""

    def read(self, count):
        while len(self.buffer) < count:
            part = self.made.recv(65536)
            if not part:
                raise Gone
            self.buffer += part
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def record(self):
        version, kind, identity, length, padding = struct.unpack(">BBHHBx", self.read(8))
        assert version == 1 and identity == 1
        content = self.read(length)
        self.read(padding)
        return kind, content

    def request(self):
        """Its variables and whether the connection is kept; the body is read by `body`."""
        kind, content = self.record()
        assert kind == BEGIN, kind
        role, flags = struct.unpack(">HB5x", content)
        assert role == 1
        params = b""
        while True:
            kind, content = self.record()
            assert kind == PARAMS, kind
            if not content:
                break
            params += content
        return variables(params), bool(flags & KEEP)

    def body(self):
        """Its parts as they come."""
        while True:
            kind, content = self.record()
            if kind == ABORT:
                raise Gone
            assert kind == STDIN, kind
            if not content:
                return
            yield content

    def send(self, *parts):
        self.made.sendall(b"".join(parts))

    def awaits_end(self):
        """Until the client has no more to say: with what its end is told."""
        self.made.settimeout(20)
        try:
            while True:
                kind, _ = self.record()
                if kind == ABORT:
                    return "abort"
        except Gone:
            return "closed"
        except OSError as error:
            return str(error)


def variables(params):
    def length():
        nonlocal params
        if params[0] < 128:
            count, params = params[0], params[1:]
        else:
            count, params = struct.unpack(">I", params[:4])[0] & 0x7FFFFFFF, params[4:]
        return count

    found = {}
    while params:
        name, value = length(), length()
        key = params[:name].decode("latin-1")
        assert key not in found, key
        found[key] = params[name:name + value].decode("latin-1")
        params = params[name + value:]
    return found


HEAD = b"Content-Type: text/plain\r\n\r\n"


def answer(connection, said):
    """Answers a request; false when the connection is to be closed whatever was asked."""
    what, _, argument = said["QUERY_STRING"].partition("&")[0].partition("=")
    send = connection.send
    if what == "early":
        # The body is not read.
        send(record(STDOUT, b"Status: 403\r\n\r\nno"), record(STDOUT), end())
        return False
    if what == "slowbody":
        parts = 0
        for part in connection.body():
            parts += len(part)
            time.sleep(0.002)
        send(record(STDOUT, HEAD + str(parts).encode()), record(STDOUT), end())
        return True
    body = b"".join(connection.body())
    if what == "echo":
        lines = "".join(f"{name}={said[name]}\n" for name in sorted(said))
        send(record(STDOUT, HEAD + lines.encode("latin-1") + b"\n" + body), record(STDOUT), end())
    elif what == "body":
        for at in range(0, len(body), 60000):
            head = HEAD if at == 0 else b""
            send(record(STDOUT, head + body[at:at + 60000]))
        send(record(STDOUT), end())
    elif what == "bytes":
        send(record(STDOUT, HEAD, 5))
        left = int(argument)
        while left:
            part = b"x" * min(left, 65535)
            send(record(STDOUT, part))
            left -= len(part)
        send(record(STDOUT), end())
    elif what == "cut":
        whole = record(STDOUT, HEAD + b"cut anywhere" * 20, 7) + record(STDERR, b"a warning\n", 3) + record(STDOUT) + end()
        for byte in whole:
            send(bytes([byte]))
            time.sleep(0.0005)
    elif what == "length":
        send(record(STDOUT, b"Content-Length: " + argument.encode() + b"\r\n\r\n0123456789"), record(STDOUT), end())
    elif what == "status":
        send(record(STDOUT, b"Status: " + argument.replace("_", " ").encode() + b"\r\nX: y\r\n\r\ncontent"), record(STDOUT), end())
    elif what == "location":
        send(record(STDOUT, b"Location: " + argument.encode() + b"\r\n\r\n"), record(STDOUT), end())
    elif what == "hop":
        send(record(STDOUT, b"Connection: X-Hop\r\nX-Hop: 1\r\nTransfer-Encoding: x\r\nKeep-Alive: 1\r\nServer: evil\r\nX-Kept: 1\r\n\r\nok"))
        send(record(STDOUT), end())
    elif what == "stderr":
        send(record(STDERR, b"\x1b[31mwoe\x07 to you\n"), record(STDOUT, HEAD + b"ok"), record(STDOUT), end())
    elif what == "silence":
        note("silence " + connection.awaits_end())
        return False
    elif what == "half":
        send(record(STDOUT, HEAD + b"half"))
        note("half " + connection.awaits_end())
        return False
    elif what == "endless":
        try:
            send(record(STDOUT, HEAD))
            while True:
                send(record(STDOUT, b"y" * 65535))
        except OSError:
            note("endless over")
        return False
    elif what == "dies":
        send(record(STDOUT, HEAD + b"half"))
        return False
    elif what == "gone":
        return False
    elif what == "rubbish":
        send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nrubbish")
        return False
    elif what == "identity":
        send(record(STDOUT, HEAD, identity=2))
        return False
    elif what == "endlesshead":
        try:
            while True:
                send(record(STDOUT, b"X: " + b"y" * 4000))
        except OSError:
            pass
        return False
    elif what == "badhead":
        send(record(STDOUT, b"<html>\n\n"), record(STDOUT), end())
    elif what == "nohead":
        send(record(STDOUT), end())
    elif what == "overloaded":
        send(end(2))
    elif what == "split":
        # A client must not see two answers.
        send(record(STDOUT, b"X: a\rSet-Cookie: evil\r\n\r\n"), record(STDOUT), end())
    elif what == "long":
        send(record(STDOUT, b"\r\n"), struct.pack(">BBHHBx", 1, STDOUT, 1, 65535, 255), b"short")
        return False
    elif what == "sleep":
        time.sleep(float(argument))
        send(record(STDOUT, HEAD + b"slept"), record(STDOUT), end())
    else:
        send(record(STDOUT, HEAD + b"hello"), record(STDOUT), end())
    return True


def serve(made):
    note("connection")
    connection = Connection(made)
    with made:
        try:
            while True:
                said, keeps = connection.request()
                if not answer(connection, said) or not keeps:
                    return
        except (Gone, OSError):
            pass


if where.startswith("/"):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(where)
    os.chmod(where, 0o666)
else:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(where)))
listener.listen(64)
note("listening")
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
