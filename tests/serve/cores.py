#!/usr/bin/env python3
"""The visitor of tests/serve/cores.sh. Prints "ok NAME" and "not ok NAME: why" lines, and ends with 1 when one was not ok.

    cores.py changes HOST FOLDER PID       documents change and are read again under load; says "asked N"
    cores.py stop HOST FOLDER PID          the server is asked to end while it sends
    cores.py limits HOST PEER ALL          so many connections of a peer, and in all
"""

import concurrent.futures
import os
import signal
import socket
import sys
import threading
import time

from common import PATIENCE, failed, say



def connect(host, source=None, patience=PATIENCE):
    made = socket.create_connection((host, 80), patience, source and (source, 0))
    made.settimeout(PATIENCE)
    return made


def ask(made, path):
    made.sendall(b"GET %s HTTP/1.1\r\nHost: h\r\n\r\n" % path.encode())


def head(made):
    """The status, the length of the body, and what of it has come."""
    came = b""
    while b"\r\n\r\n" not in came:
        more = made.recv(65536)
        if not more:
            raise ConnectionError(f"closed after {came!r}")
        came += more
    fields, body = came.split(b"\r\n\r\n", 1)
    lines = fields.decode().split("\r\n")
    length = next(int(line.split(": ")[1]) for line in lines if line.startswith("Content-Length"))
    return int(lines[0].split()[1]), length, body


def get(made, path):
    ask(made, path)
    status, length, body = head(made)
    while len(body) < length:
        more = made.recv(65536)
        if not more:
            raise ConnectionError(f"closed after {len(body)} of {length}")
        body += more
    return status, body


def version(made, n):
    status, body = get(made, f"/{n}.txt")
    if status != 200 or not body.startswith(b"version "):
        raise ValueError(f"{status}: {body[:80]!r}")
    return int(body.split()[1])


def changes(host, folder, pid):
    """Readers on connections that stay and on new ones, while a writer makes new versions and signals reloads."""
    over, rereading, asked, wrong = threading.Event(), threading.Event(), [], []

    def read(seed):
        # Each connection stays on its core: there no older version comes after a newer one. Only a reload, which reads
        # what was there when it began, may show what was, for as long as the followers of the new tables take.
        seen, kept, count = {}, connect(host), 0
        try:
            while not over.is_set():
                n = (seed + count) % 20
                newest = version(kept, n)
                if newest < seen.get(n, 0) and not rereading.is_set():
                    wrong.append(f"/{n}.txt: version {newest} after {seen[n]}")
                seen[n] = newest
                fresh = connect(host)
                version(fresh, n)
                fresh.close()
                count += 1
                asked.append(2)
        except Exception as error:
            wrong.append(repr(error))

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(6)]
    for reader in readers:
        reader.start()
    last = 60
    for made in range(1, last + 1):
        for n in range(20):
            path = f"{folder}/site/{n}.txt"
            with open(path + ".new", "w") as file:
                file.write(f"version {made}\n")
            os.rename(path + ".new", path)
        if made > last // 2:
            rereading.set()
            if made % 10 == 0:
                os.kill(pid, signal.SIGHUP)
        time.sleep(0.05)
    # It comes to be the last version on both cores: new connections go to either.
    late, until = None, time.monotonic() + PATIENCE
    while late != {last} and time.monotonic() < until:
        late = set()
        for n in range(20):
            fresh = connect(host)
            late.add(version(fresh, n))
            fresh.close()
            asked.append(1)
    over.set()
    for reader in readers:
        reader.join()
    say("no request fails while documents change and are read again", not wrong, "; ".join(wrong[:3]))
    say("all cores come to serve the last version", late == {last}, f"{late}")
    print(f"asked {sum(asked)}")


def stop(host, folder, pid):
    """Large responses on connections that both cores have, half read when the server is asked to end."""
    with open(f"{folder}/site/large.bin", "rb") as file:
        wanted = file.read()
    under_way = []
    for _ in range(8):
        made = connect(host)
        ask(made, "/large.bin")
        status, length, body = head(made)
        under_way.append((made, status, length, [body]))
    os.kill(pid, signal.SIGTERM)
    time.sleep(0.3)

    def is_whole(made, status, length, parts):
        while more := made.recv(1 << 20):
            parts.append(more)
        return status == 200 and b"".join(parts) == wanted

    # All at the same time: one that takes nothing for a minute would be reset.
    with concurrent.futures.ThreadPoolExecutor(len(under_way)) as threads:
        whole = sum(threads.map(lambda one: is_whole(*one), under_way))
    say("responses under way end before the server", whole == len(under_way), f"{whole} of {len(under_way)}")


def visit(host, source, patience=PATIENCE):
    """A connection, if it comes to be."""
    try:
        return connect(host, source, patience)
    except OSError:
        return None


def is_served(made):
    try:
        return get(made, "/")[0] == 200
    except OSError:
        return False


def limits(host, peer, everybody):
    """Connections that both cores have are counted together."""
    mine = [made for made in (visit(host, "10.0.0.2") for _ in range(4 * peer)) if made]
    served = [made for made in mine if is_served(made)]
    say("a peer has as many connections as it may, on all cores", len(served) == peer, f"{len(served)} of {peer}")
    for made in mine:
        made.close()
    # As many peers as it takes: those beyond the limit are not answered, or where the kernel answers what they ask is not.
    held, refused = [], 0
    for n in range(2 * everybody):
        made = visit(host, f"10.0.0.{3 + n % 18}", 0.7)
        if made:
            made.settimeout(2)
        if made and is_served(made):
            held.append(made)
            continue
        refused += 1
        # A machine that is busy answers some too late.
        if refused > 4 and len(held) >= everybody // 2:
            break
    most = everybody
    say("there are no more connections than there may be", len(held) <= most, f"{len(held)} of {most}")
    say("and nearly as many", len(held) >= most // 2, f"{len(held)} of {most}")
    for made in held:
        made.close()


def main():
    what, host, *rest = sys.argv[1:]
    if what == "limits":
        limits(host, *map(int, rest))
    else:
        {"changes": changes, "stop": stop}[what](host, rest[0], int(rest[1]))
    return failed()


sys.exit(main())
