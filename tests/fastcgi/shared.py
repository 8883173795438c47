#!/usr/bin/env python3
"""What `exos serve` makes of an application that shares its buffers; see shared.sh.

    shared.py ADDRESS PORT PAGES SOCKET SERVER-PID SERVER-MESSAGES ACCESS-LOG [LANGUAGE]

PAGES is the application's program, which this starts and kills. `/app/*` is for it with bodies up to 4 MiB, `/hasty/*` with a timeout of 5 s, `/few/*`
with four requests at once; at `/nobody/*` nobody listens. One in Python has no path that is never answered. Prints "ok NAME" or "not ok NAME: why" lines; ends with 1 when one was not ok.
"""

import http.client
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from common import PATIENCE, failed, say, wait_until

HOST, PORT, PAGES, SOCKET, SERVER, MESSAGES, ACCESS = sys.argv[1], int(sys.argv[2]), *sys.argv[3:8]
LANGUAGE = sys.argv[8] if len(sys.argv) > 8 else "rust"
application = None


def page(kind, length):
    """What the application makes at a path: no other page has any of its lines."""
    if kind == "template":
        return page("kept", 4000) + line_page(kind, length) + page("kept", 4000)
    return line_page(kind, length)


def line_page(kind, length):
    line = f"/{kind}/{length} is what an application says ".ljust(63, ".").encode() + b"\n"
    return (line * (length // len(line) + 1))[:length]


def read(path):
    with open(path, encoding="latin-1") as file:
        return file.read()


def start():
    global application
    application = subprocess.Popen([PAGES, SOCKET], stdin=subprocess.DEVNULL)


def kill():
    application.kill()
    application.wait()


def connect():
    return http.client.HTTPConnection(HOST, PORT, timeout=PATIENCE)


def ask(target, method="GET", body=None, fields=None, made=None):
    """Status, fields and content of an answer, and whether it is whole; nothing of it where the connection broke before."""
    made = made or connect()
    try:
        made.request(method, target, body=body, headers=fields or {})
        answer = made.getresponse()
    except (http.client.HTTPException, OSError):
        return None, {}, b"", False
    try:
        return answer.status, answer.headers, answer.read(), True
    except (http.client.HTTPException, OSError) as error:
        return answer.status, answer.headers, getattr(error, "partial", b""), False


def status(target, **more):
    return ask(target, **more)[0]


def is_there():
    return status("/app/kept/10") == 200


def well():
    made = connect()
    for length in (0, 1, 32, 33, 511, 1000, 1024, 4096, 10_000, 65_536, 65_537, 102_400, 200_000, 300_000, 3_000_000):
        wrong = []
        for kind in ("kept", "fresh", "template", "stream"):
            wanted = page(kind, length)
            for _ in range(2):
                code, fields, content, is_whole = ask(f"/app/{kind}/{length}", made=made)
                framed = fields.get("Content-Length") == (None if kind == "stream" else str(len(wanted)))
                if (code, is_whole, content == wanted, framed) != (200, True, True, True):
                    wrong.append((kind, code, len(content), is_whole, framed))
        say(f"pages of {length} bytes, twice each on one connection", not wrong, wrong)
    code, fields, content, _ = ask("/app/kept/5000", method="HEAD")
    say("HEAD has the length and no content", (code, fields.get("Content-Length"), content) == (200, "5000", b""))
    say("any status", [status(f"/app/status/{code}") for code in (204, 304, 404, 418, 503)] == [204, 304, 404, 418, 503])
    say("rules about fields", ask("/app/kept/1")[1].get("X-Rule") == "yes")
    _, _, content, _ = ask("/app/variables/x?y=z&q", fields={"X-A": "1", "Proxy": "evil"})
    said = dict(line.split("=", 1) for line in content.decode("latin-1").splitlines())
    wanted = {
        "REQUEST_METHOD": "GET", "REQUEST_URI": "/app/variables/x?y=z&q", "QUERY_STRING": "y=z&q", "SCRIPT_NAME": "/app",
        "PATH_INFO": "/variables/x", "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_X_A": "1", "HTTP_PROXY": None, "SERVER_ADDR": HOST,
    }
    say("a request is variables", all(said.get(name) == value for name, value in wanted.items()), said)
    say("rules of access come before", status("/app/variables/secret/x") == 403)
    named = ask("/app/variables/users/x", fields={"Authorization": "Basic bmFtZTp3b3Jk"})[2]
    say("whose password it is, is said", b"REMOTE_USER=name\n" in named and b"AUTH_TYPE=Basic\n" in named, named)
    say("nobody listens: 502", status("/nobody/x") == 502)
    say("one that says that it fails: 500", status("/app/fail") == 500)
    say("and why, to the operator", wait_until(lambda: "says: it was told to fail" in read(MESSAGES)))
    say("documents are served beside", ask("/static.txt")[2] == b"static\n")
    with socket.create_connection((HOST, PORT), PATIENCE) as raw:
        for target in ("/app/kept/3000", "/static.txt", "/app/stream/3000", "/app/fresh/10"):
            raw.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        raw.sendall(b"GET /static.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        parts = []
        while part := raw.recv(65536):
            parts.append(part)
        got = b"".join(parts)
        say("pipelined with documents, in order", got.count(b"HTTP/1.1 200 OK") == 5 and page("kept", 3000) in got and page("fresh", 10) in got and got.endswith(b"static\n"))
    with socket.create_connection((HOST, PORT), PATIENCE) as raw:
        raw.sendall(b"GET /app/stream/100000 HTTP/1.0\r\n\r\n")
        parts = []
        while part := raw.recv(65536):
            parts.append(part)
        got = b"".join(parts)
        say("the end of the connection for HTTP/1.0", got.partition(b"\r\n\r\n")[2] == page("stream", 100_000))


def bodies():
    for length in (1, 16_384, 65_536, 65_537, 1_000_000, 4 * 1024 * 1024):
        body = random.randbytes(length)
        say(f"{length} bytes there and back", ask("/app/echo", "POST", body)[2] == body)
    say("a body beyond the limit: 413", status("/app/echo", method="POST", body=b"x" * (4 * 1024 * 1024 + 1)) in (413, None))
    chunks = iter([b"hello", b" ", b"world" * 1000])
    say("a chunked body", ask("/app/echo", "POST", chunks)[2] == b"hello " + b"world" * 1000)


def clients():
    if LANGUAGE != "python":
        started = time.monotonic()
        say("silence: 504 when its time is over", (status("/hasty/never"), time.monotonic() - started > 4) == (504, True))
    slow = []
    for _ in range(12):
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect((HOST, PORT))
        raw.sendall(b"GET /app/fresh/3000000 HTTP/1.1\r\nHost: a\r\n\r\n")
        slow.append(raw)
    time.sleep(0.5)
    say("clients that take nothing keep nobody waiting", [ask("/app/kept/50000")[2] == page("kept", 50_000) for _ in range(20)] == [True] * 20)
    for raw in slow[::2]:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.close()
    answer = http.client.HTTPResponse(slow[1])
    answer.begin()
    say("one that was slow gets all of it", answer.read() == page("fresh", 3_000_000))
    for raw in slow[1::2]:
        raw.close()
    say("others that went are forgotten", ask("/app/fresh/100000")[2] == page("fresh", 100_000))
    results = []

    def many(number):
        made = connect()
        for n in range(20):
            length = (number * 7919 + n * 104729) % 150_000
            kind = ("kept", "fresh", "stream")[n % 3]
            results.append(ask(f"/app/{kind}/{length}", made=made)[2] == page(kind, length))

    threads = [threading.Thread(target=many, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say("640 requests of 32 clients", results == [True] * 640, results.count(False))
    results.clear()
    threads = [threading.Thread(target=lambda: results.append(status("/few/stream/200000"))) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say("thirty where a client has one at once: they wait", results == [200] * 30, results)


def ended():
    """The application gives answers up, and stops when it is told to."""
    for length in (1, 10_000, 400_000):
        code, _, content, is_whole = ask(f"/app/broken/{length}")
        is_cut = not is_whole and line_page("stream", length).startswith(content)
        # In Python nothing has gone of a short one.
        say(f"given up behind {length} bytes: the client hears that", is_cut or code == 500 and not content, (code, len(content)))
    say("and others are answered on", is_there())
    made = connect()
    made.request("GET", "/app/stream/20000000")
    # It is under way, and waits for its client.
    answer = made.getresponse()
    stopped = application
    stopped.terminate()
    say("told to stop: it does not listen any more", wait_until(is_refused))
    # Its place is free for another that takes what is asked from then on.
    start()
    say("the next one is asked", wait_until(is_there))
    say("and it is there still, for its answer", stopped.poll() is None)
    say("which becomes whole", answer.read() == page("stream", 20_000_000))
    say("then it ends by itself, in order", stopped.wait(PATIENCE) == 0)
    idle = subprocess.Popen([PAGES, SOCKET + ".idle"], stdin=subprocess.DEVNULL)
    say("one that nobody asks listens", wait_until(lambda: not is_refused(SOCKET + ".idle")))
    say("and looks out for who tells it to stop", wait_until(lambda: is_watching(idle.pid)))
    idle.terminate()
    code = idle.wait(PATIENCE)
    say("and stops when it is told to", code == 0, code)


def is_watching(pid):
    """Whether SIGTERM is caught, or waits to be read."""
    with open(f"/proc/{pid}/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return any(int(lines[name], 16) >> (signal.SIGTERM - 1) & 1 for name in ("SigCgt", "SigBlk"))


def is_refused(path=SOCKET):
    with socket.socket(socket.AF_UNIX) as made:
        try:
            made.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return True
    return False


def killed():
    """The application ends at random moments, under load: an answer is whole and right, or seen not to be."""
    over, counts, wrong = threading.Event(), {}, []

    def load(number):
        chance = random.Random(number)
        while not over.is_set():
            kind, length = chance.choice(("kept", "fresh", "stream", "template")), chance.choice((10, 1000, 30_000, 500_000))
            code, _, content, is_whole = ask(f"/app/{kind}/{length}")
            wanted = page(kind, length)
            if code == 200 and is_whole and content != wanted:
                wrong.append((kind, length, len(content)))
            if code == 200 and not is_whole and not wanted.startswith(content):
                wrong.append(("a part", kind, length))
            if code not in (200, 502, 504, None):
                wrong.append(code)
            key = code if is_whole else f"{code} in part"
            counts[key] = counts.get(key, 0) + 1

    threads = [threading.Thread(target=load, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(15):
        time.sleep(random.uniform(0.02, 0.4))
        kill()
        start()
    is_served = wait_until(is_there)
    over.set()
    for thread in threads:
        thread.join()
    say("killed fifteen times under load, and served again", is_served, counts)
    say("no answer was wrong", not wrong, wrong[:10])
    before = os.listdir(f"/proc/{SERVER}/fd")
    kill()
    say("killed: 502", wait_until(lambda: status("/app/kept/10") == 502))
    start()
    say("started again: 200", wait_until(is_there))
    is_closed = wait_until(lambda: len(os.listdir(f"/proc/{SERVER}/fd")) <= len(before) + 8)
    say("no descriptors are left of links that have ended", is_closed, (len(before), len(os.listdir(f"/proc/{SERVER}/fd"))))
    say("it may end by itself", status("/app/end") in (502, None))
    application.wait()
    start()
    say("and be started again", wait_until(is_there))


try:
    start()
    say("the application is asked", wait_until(is_there))
    for part in (well, bodies, clients, ended, killed):
        part()
finally:
    kill()
sys.exit(failed())
