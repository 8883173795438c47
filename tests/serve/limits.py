#!/usr/bin/env python3
"""Clients at their limits, from the other side of a lab wire; see hostile.sh.

    limits.py PID STATISTICS-FILE LARGE-FILE [in-kernel]

The server answers for 10.10.0.10 and fd10::10, serves small.txt (100 bytes) and large.bin (the large file), and appends
a line of statistics to the file for each SIGUSR1. It was started with `--max-connections 24 --max-peer-connections 4
--min-head-rate 100 --min-read-rate 50000`. This side has 10.10.0.20 to 39, and two addresses of one /64. With
`in-kernel` the kernel answers what it can. Prints "ok NAME" or "not ok NAME: why" lines; ends with 1 when one was not ok.
"""

import contextlib
import socket
import sys
import threading
import time

from common import PATIENCE, failed, say, statistics_of, wait_until

PID, STATISTICS, LARGE = int(sys.argv[1]), sys.argv[2], sys.argv[3]
IN_KERNEL = sys.argv[4:] == ["in-kernel"]
PEER, ALL = 4, 24
# Seconds without an answer, in which a client has asked again.
UNANSWERED = 2.5
GET = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"


def statistics():
    """What its counters are now."""
    return statistics_of(PID, STATISTICS)


def count(name):
    return statistics()[name]


def sent_again():
    """Segments that this side's kernel has sent once more."""
    with open("/proc/self/net/snmp") as file:
        names, counts = (line.split() for line in file if line.startswith("Tcp:"))
    return int(counts[names.index("RetransSegs")])


def connect(source, to="10.10.0.10", timeout=PATIENCE):
    return socket.create_connection((to, 80), timeout, (source, 0))


def is_served(made, timeout=PATIENCE):
    """Whether a small document comes over it."""
    try:
        made.settimeout(timeout)
        made.sendall(GET % b"small.txt")
        got = b""
        while not got.endswith(b"x" * 100):
            part = made.recv(4096)
            if not part:
                return False
            got += part
        return b" 200 " in got
    except OSError:
        return False


def attempt(source, to="10.10.0.10", timeout=PATIENCE):
    """A connection over which a document has come; None when there was none to be had."""
    try:
        made = connect(source, to, timeout)
    except OSError:
        return None
    if is_served(made, timeout):
        return made
    made.close()
    return None


def kernel_answers():
    """Requests of one connection are answered by the kernel, all of them: SYNs and FINs alone would not count as many."""
    requests = 20

    def all_of_one():
        before = count("link_xdp_answered")
        with connect("10.10.0.21") as made:
            served = all([is_served(made) for _ in range(requests)])
        return served and count("link_xdp_answered") - before >= requests

    say("requests are answered in the kernel, within limits, too", wait_until(all_of_one))
    close([])


def close(all_of_them, left=0):
    """All but those that others read meanwhile."""
    for made in all_of_them:
        made.close()
    say("all have gone", wait_until(lambda: count("connections") <= left), statistics()["connections"])


def begin(does, each):
    """Threads that do this, with these arguments each."""
    all_of_them = [threading.Thread(target=does, args=arguments) for arguments in each]
    for one in all_of_them:
        one.start()
    return all_of_them


def await_end(all_of_them):
    for one in all_of_them:
        one.join()


def of_a_peer():
    """An address has four connections, and so has a network of 64 bits; another address has its own."""
    for name, to, sources in [
        ("an address", "10.10.0.10", ["10.10.0.20"]),
        ("a /64", "fd10::10", ["fd10::2", "fd10::3"]),
    ]:
        refused, again_before = count("http_peer_refusals"), sent_again()
        tried = [attempt(sources[n % len(sources)], to) for n in range(3 * PEER)]
        held = [made for made in tried if made]
        say(f"{name} has as many connections as it may", len(held) == PEER, f"{len(held)} of {PEER}")
        grown = count("http_peer_refusals") - refused
        refusals = 3 * PEER - len(held)
        # A cookie comes back with the acknowledgement and with the request behind it, and each may be refused. So is a SYN that was
        # sent again because the server was late.
        most = (refusals * 2 if IN_KERNEL else refusals) + sent_again() - again_before
        say("and each beyond them is counted", refusals <= grown <= most, f"{grown} of {refusals}")
        other = attempt("10.10.0.21")
        say("while another address is served", other is not None)
        held.pop().close()
        again = []
        came = wait_until(lambda: again.append(attempt(sources[0], to)) or again[-1] is not None)
        say("one that goes makes room for another", came)
        close(held + [made for made in [other, *again] if made])


def attempts():
    """Connections that are served, of twice as many as there may be, at once."""
    tried, held = [socket.socket() for _ in range(2 * ALL)], []

    def attempt_one(n, made):
        made.settimeout(PATIENCE)
        with contextlib.suppress(OSError):
            made.bind((f"10.10.0.{20 + n // PEER}", 0))
            made.connect(("10.10.0.10", 80))
            # Beyond the limit the kernel answers the SYN, and nobody what follows.
            if is_served(made):
                held.append(made)

    attempting = begin(attempt_one, enumerate(tried))
    wait_until(lambda: len(held) >= ALL)
    time.sleep(UNANSWERED)
    for made in set(tried).difference(held):
        with contextlib.suppress(OSError):
            made.shutdown(socket.SHUT_RDWR)
    await_end(attempting)
    for made in set(tried).difference(held):
        made.close()
    return held


def of_all():
    """24 connections in all: the next SYN is not answered until one has gone."""
    dropped = count("drop_tcp_connections_full")
    if IN_KERNEL:
        held = attempts()
    else:
        held = [made for n in range(ALL) if (made := attempt(f"10.10.0.{20 + n // PEER}"))]
    say("as many connections as there may be", len(held) == ALL, len(held))
    if not IN_KERNEL:
        say("one more is not answered", attempt("10.10.0.39", timeout=UNANSWERED) is None)
    grown = count("drop_tcp_connections_full") - dropped
    say("and SYNs beyond are counted", grown >= 1, grown)
    say("those that stand are served", all(is_served(made) for made in held))
    waiting = []
    late = threading.Thread(target=lambda: waiting.append(attempt("10.10.0.39")))
    late.start()
    time.sleep(0.5)
    held.pop().close()
    late.join()
    say("one that keeps asking gets in when one has gone", waiting[0] is not None)
    close(held + [made for made in waiting if made])


def slow_heads(readers):
    """Heads that come little by little: at 20 bytes a second they are ended with 408, after 5 s; at 600 they are not. The first of those
    come ahead of their time, which this side may be late for."""
    ends = {}

    def send(name, rate):
        # What it takes to connect is the server's time, too.
        began = time.time()
        with connect("10.10.0.22") as made:
            sent = 3000 if name == "fast" else 0
            try:
                made.sendall(b"GET /small.txt HTTP/1.1\r\nHost: x\r\nX: " + b"y" * sent)
                while time.time() < began + 8:
                    due = int((time.time() - began) * rate)
                    made.sendall(b"y" * (due - sent))
                    sent = max(sent, due)
                    time.sleep(0.05)
                made.sendall(b"\r\n\r\n")
            except OSError:
                pass  # It was ended; what was said is there to be read.
            try:
                made.settimeout(PATIENCE)
                ends[name] = (made.recv(4096)[9:12].decode(), time.time() - began)
            except OSError as error:
                ends[name] = (repr(error), time.time() - began)

    before = count("http_slow_heads")
    both = begin(send, [("slow", 20), ("fast", 600)])
    other = attempt("10.10.0.23")
    say("others are served beside slow heads", other is not None)
    await_end(both)
    say("a head that comes too slowly is answered with 408", ends["slow"][0] == "408", ends["slow"])
    say("but not at once", ends["slow"][1] > 4.5, ends["slow"])
    say("one that comes fast enough may take longer", ends["fast"][0] == "200", ends["fast"])
    grown = count("http_slow_heads") - before
    say("one slow head was counted", grown == 1, grown)
    close([other] if other else [], left=readers)


def slow_readers():
    """Who takes 10,000 bytes a second is reset within a minute; who takes 300,000 gets all of it. Slow heads come meanwhile."""
    with open(LARGE, "rb") as file:
        wanted = file.read()
    ends = {}
    # So often on one connection: 27 s at the faster rate, and beyond the 20 s after which it is judged.
    times = 8

    def read(name, rate):
        made = socket.socket()
        # The slow one's window is small: what it has not taken is the server's to send.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192 if name == "slow" else 65536)
        made.bind(("10.10.0.24" if name == "slow" else "10.10.0.25", 0))
        made.settimeout(PATIENCE)
        # What it takes to connect is the server's time, too.
        got, began = bytearray(), time.time()
        made.connect(("10.10.0.10", 80))
        made.sendall((GET % b"large.bin") * times)
        try:
            while time.time() < began + (50 if name == "slow" else 200) and got.count(wanted[-100:]) < times:
                part = made.recv(4096)
                if not part:
                    break
                got += part
                time.sleep(max(0, len(got) / rate - (time.time() - began)))
            ends[name] = (bytes(got).count(wanted), time.time() - began)
        except ConnectionResetError:
            ends[name] = ("reset", time.time() - began)
        made.close()

    before = count("http_slow_readers")
    both = begin(read, [("slow", 10_000), ("fast", 300_000)])
    slow_heads(len(both))
    await_end(both)
    say("who reads too slowly is reset", ends["slow"][0] == "reset", ends["slow"])
    say("not before 20 s", ends["slow"][1] > 19, ends["slow"])
    say("who reads fast enough gets everything", ends["fast"][0] == times, ends["fast"])
    grown = count("http_slow_readers") - before
    say("one slow reader was counted", grown == 1, grown)
    close([])


if IN_KERNEL:
    kernel_answers()
of_a_peer()
of_all()
slow_readers()
sys.exit(failed())
