#!/usr/bin/env python3
"""A server of HTTP/2 that is told how to misbehave, for tests of `exos load`: it takes any request, and answers 200 with five bytes.

    http2.py ADDRESS PORT HOW

HOW is what it does beside that:

    limit    allows three streams at once, and notes how many there were
    resets   resets each fifth stream (REFUSED_STREAM)
    goaway   goes away after each tenth stream, having looked at no later one
    refuses  goes away because it is asked too much (ENHANCE_YOUR_CALM), having looked at nothing
    upload   has windows of a thousand bytes for bodies, and opens them as bodies come
    push     pushes, which it may not
    pings    pings without end

When its input ends, it prints what it saw as a line of JSON.
"""
import json
import socket
import struct
import sys
import threading

DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 5, 6, 7, 8
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WINDOW = 1000
seen = {"connections": 0, "requests": 0, "most": 0, "bodies": [], "windows_kept": True}
lock = threading.Lock()


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def setting(name, value):
    return struct.pack(">HI", name, value)


class Connection:
    def __init__(self, sock, how):
        self.sock, self.how, self.buffer = sock, how, b""
        self.open, self.bodies, self.count, self.gone = [], {}, 0, False

    def read(self, length):
        while len(self.buffer) < length:
            more = self.sock.recv(65536)
            if not more:
                raise EOFError
            self.buffer += more
        taken, self.buffer = self.buffer[:length], self.buffer[length:]
        return taken

    def frame(self):
        head = self.read(9)
        length = int.from_bytes(head[:3], "big")
        return head[3], head[4], int.from_bytes(head[5:], "big"), self.read(length)

    def run(self):
        values = {"limit": setting(3, 3), "upload": setting(4, WINDOW)}.get(self.how, b"")
        self.sock.sendall(frame(SETTINGS, 0, 0, values))
        if self.read(len(PREFACE)) != PREFACE:
            return
        while True:
            self.take(*self.frame())
            # What lies there is read before any of it is answered, so that as many streams are open as the client opens.
            if len(self.buffer) < 9:
                self.answer()

    def take(self, kind, flags, stream, payload):
        if kind == SETTINGS and not flags & 1:
            self.sock.sendall(frame(SETTINGS, 1, 0))
            if self.how == "pings":
                self.sock.sendall(frame(PING, 0, 0, b"12345678") * 20_000)
        elif kind == HEADERS:
            self.begin(stream, flags & 1)
        elif kind == DATA and stream in self.bodies:
            self.bodies[stream] += payload
            with lock:
                # The first may be on its way before the client knows of them.
                seen["windows_kept"] &= stream == 1 or len(payload) <= WINDOW
            if flags & 1:
                with lock:
                    seen["bodies"].append(len(self.bodies.pop(stream)))
                self.open.append(stream)
            else:
                more = struct.pack(">I", len(payload))
                self.sock.sendall(frame(WINDOW_UPDATE, 0, 0, more) + frame(WINDOW_UPDATE, 0, stream, more))

    def begin(self, stream, is_all):
        if self.gone:
            return
        self.count += 1
        with lock:
            seen["requests"] += 1
        if self.how == "refuses":
            self.go_away(0, 11)
        elif self.how == "push":
            self.sock.sendall(frame(PUSH_PROMISE, 4, stream, struct.pack(">I", 2) + b"\x82"))
        elif is_all:
            self.open.append(stream)
            with lock:
                seen["most"] = max(seen["most"], len(self.open))
            if self.how == "goaway" and self.count == 10:
                self.go_away(stream, 0)
        else:
            self.bodies[stream] = b""

    def go_away(self, last, code):
        self.gone = True
        self.sock.sendall(frame(GOAWAY, 0, 0, struct.pack(">II", last, code)))

    def answer(self):
        out = b""
        for stream in self.open:
            if self.how == "resets" and stream % 10 == 9:
                out += frame(RST_STREAM, 0, stream, struct.pack(">I", 7))
            else:
                out += frame(HEADERS, 4, stream, b"\x88") + frame(DATA, 1, stream, b"hello")
        self.open = []
        self.sock.sendall(out)


def serve(sock, how):
    with sock:
        try:
            Connection(sock, how).run()
        except (EOFError, OSError):
            pass


def accept(listener, how):
    while True:
        sock, _ = listener.accept()
        with lock:
            seen["connections"] += 1
        threading.Thread(target=serve, args=(sock, how), daemon=True).start()


listener = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=100)
threading.Thread(target=accept, args=(listener, sys.argv[3]), daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
with lock:
    print(json.dumps(seen))
