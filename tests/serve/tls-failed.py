"""A session that fails in the middle of a response: what the log says of it is what its client has got. `tls.sh` runs it.

    tls-failed.py IP PORT CA NAME FULL LOG

NAME has FULL bytes; LOG is the server's access log.
"""

import socket
import ssl
import sys
import time

from common import PATIENCE

ip, port, ca, name, full, log = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6]


def fail_within():
    """Asks, takes some, sends a record that is none, and reads to the end; gives how many bytes came."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context(cafile=ca).wrap_bio(incoming, outgoing, server_hostname="a.test")
    with socket.create_connection((ip, port), timeout=PATIENCE) as raw:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                raw.sendall(outgoing.read())
                incoming.write(raw.recv(65536))
        tls.write(f"GET /{name} HTTP/1.1\r\nHost: a.test\r\n\r\n".encode())
        raw.sendall(outgoing.read())
        got = len(raw.recv(65536))
        raw.sendall(b"\x17\x03\x03\x00\x20" + b"y" * 32)
        while piece := raw.recv(65536):
            got += len(piece)
        return got


def line():
    """What the log says was sent of it, once that is there."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with open(log, encoding="ascii") as file:
            for text in file:
                if f"GET /{name} " in text:
                    return int(text.split('"')[2].split()[1])
        time.sleep(0.1)
    return None


got = fail_within()
said = line()
good = got < full and said is not None and said <= got
if not good:
    print(f"the client got {got} of {full} bytes, and the log says {said}")
sys.exit(not good)
