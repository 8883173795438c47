"""HTTPS beside the usual: many connections at once, pipelines, and clients who break the rules. `tls.sh` runs it.

    tls.py IP PORT CA SITE
"""

import os
import socket
import ssl
import struct
import sys
import threading

from common import PATIENCE

ip, port, ca, site = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
wrong = []


def note(good, what):
    if not good:
        wrong.append(what)


def context(**changes):
    made = ssl.create_default_context(cafile=ca)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def connect(made=None):
    raw = socket.create_connection((ip, port), timeout=PATIENCE)
    return (made or context()).wrap_socket(raw, server_hostname="a.test")


def plain():
    return socket.create_connection((ip, port), timeout=PATIENCE)


def read_all(sock):
    data = b""
    try:
        while piece := sock.recv(65536):
            data += piece
    except (ConnectionResetError, ssl.SSLError):
        pass
    return data


def get(path, more=b""):
    return b"GET " + path + b" HTTP/1.1\r\nHost: a.test\r\n" + more + b"\r\n"


def content(name):
    with open(os.path.join(site, name), "rb") as file:
        return file.read()


def pipeline():
    """Requests in one piece are answered in their order, and close_notify comes before the end."""
    with connect() as tls:
        tls.sendall(get(b"/small.txt") * 200 + get(b"/large.bin") + get(b"/small.txt", b"Connection: close\r\n"))
        answer = read_all(tls)
        small, large = content("small.txt"), content("large.bin")
        note(answer.count(b"HTTP/1.1 200 OK") == 202, "pipeline: not 202 answers")
        note(answer.count(small + b"HTTP/1.1") == 200 and answer.endswith(small), "pipeline: not in order")
        note(large in answer, "pipeline: the long one is not whole")


def many():
    """Clients at once, each of which reads a document of its own pace."""
    large = content("large.bin")

    def one(number):
        with connect() as tls:
            tls.sendall(get(b"/large.bin", b"Connection: close\r\n"))
            answer = read_all(tls)
            note(answer.endswith(large), f"client {number}: {len(answer)} bytes")

    threads = [threading.Thread(target=one, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def piecemeal():
    """A request byte by byte, each in a record of its own; then one in two records."""
    with connect() as tls:
        tls.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in get(b"/small.txt"):
            tls.sendall(bytes([byte]))
        note(b"200 OK" in tls.recv(65536), "piecemeal")


def close_notify():
    """The server answers a client's end with its own, and ends with close_notify."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context().wrap_bio(incoming, outgoing, server_hostname="a.test")
    with plain() as raw:

        def pump(act):
            while True:
                try:
                    return act()
                except ssl.SSLWantReadError:
                    raw.sendall(outgoing.read())
                    data = raw.recv(65536)
                    incoming.write(data) if data else incoming.write_eof()

        pump(tls.do_handshake)
        tls.write(get(b"/small.txt", b"Connection: close\r\n"))
        data = b""
        try:
            while piece := pump(lambda: tls.read(65536)):
                data += piece
            note(True, "")
        except ssl.SSLError as error:
            note(isinstance(error, ssl.SSLZeroReturnError), f"close_notify: {error}")
        note(data.endswith(content("small.txt")), "close_notify: not whole")


def truncated():
    """Clients who leave in the middle of the handshake, or send what is none."""
    hello = hello_of()
    for cut in (1, 4, 5, 6, 40, len(hello) - 1):
        with plain() as raw:
            raw.sendall(hello[:cut])
    for garbage in (b"\x00" * 300, b"\x16\x03\x01\xff\xff" + b"x" * 65535, b"\x16\x03\x01\x00\x00" * 50,
                    b"\x15\x03\x01\x00\x02\x02\x28", b"\x17\x03\x03\x00\x20" + b"y" * 32, b"\x80" + os.urandom(5000),
                    b"\x16\x03\x01\x00\x04\x01\x00\xff\xff"):
        with plain() as raw:
            try:
                raw.sendall(garbage)
                raw.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            answer = read_all(raw)
            note(len(answer) < 100 and b"200 OK" not in answer, f"garbage {garbage[:8]}: {answer[:50]}")


def hello_of():
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context().wrap_bio(incoming, outgoing, server_hostname="a.test")
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def half_closed():
    """A client that sends more requests than are looked at at once, and ends its side behind them."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context().wrap_bio(incoming, outgoing, server_hostname="a.test")
    with plain() as raw:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                raw.sendall(outgoing.read())
                incoming.write(raw.recv(65536))
        count = 4000
        tls.write(get(b"/small.txt") * count)
        data = outgoing.read()

        def send():
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        incoming.write(read_all(raw))
        sender.join()
        answer = b""
        try:
            while piece := tls.read(65536):
                answer += piece
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        got = answer.count(b"HTTP/1.1 200 OK")
        note(got == count, f"half closed: {got} answers of {count}")


def giant_hello():
    """A hello of many records that never is whole is given up, and an answer says so."""
    with plain() as raw:
        try:
            raw.sendall(b"\x16\x03\x01\x40\x00\x01\x00\xff\xfb" + b"a" * 16380)
            for _ in range(20):
                raw.sendall(b"\x16\x03\x01\x40\x00" + b"a" * 16384)
        except OSError:
            pass
        answer = read_all(raw)
        note(len(answer) < 100, f"giant hello: {len(answer)} bytes")


def changed_record():
    """A record that was changed ends the connection with an alert, and nothing of it is answered."""
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        made = context(maximum_version=version, minimum_version=version)
        tls = made.wrap_bio(incoming, outgoing, server_hostname="a.test")
        with plain() as raw:
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    raw.sendall(outgoing.read())
                    incoming.write(raw.recv(65536))
            if pending := outgoing.read():
                raw.sendall(pending)
            tls.write(get(b"/small.txt"))
            record = bytearray(outgoing.read())
            record[-1] ^= 1
            raw.sendall(record)
            incoming.write(read_all(raw))
            try:
                note(tls.read(1000) == b"", f"changed record: answered in {version}")
            except ssl.SSLError as error:
                note("bad record mac" in str(error).lower() or "BAD_RECORD_MAC" in str(error), f"changed record: {error}")


def no_close_notify():
    """A client that resets, and one that ends without close_notify: the server goes on."""
    with connect() as tls:
        tls.sendall(get(b"/large.bin"))
        tls.recv(1000)
        tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with connect() as tls:
        tls.sendall(get(b"/small.txt", b"Connection: close\r\n"))
        socket.socket.shutdown(tls, socket.SHUT_WR)
        note(b"200 OK" in read_all(tls), "half closed: no answer")


for test in (pipeline, half_closed, many, piecemeal, close_notify, truncated, giant_hello, changed_record, no_close_notify, pipeline):
    test()
for what in wrong:
    print(what)
sys.exit(bool(wrong))
