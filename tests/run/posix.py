#!/usr/bin/env python3
"""What socket calls answer in each state of a socket, of TCP and of UDP: a table, made on the kernel's sockets and by `exos run`, and compared.

    posix.py peer CONTROL               the peer, on the kernel's stack: does what is asked for through the Unix socket
    posix.py table CONTROL OURS [SHARE TURN [CASES]]
                                        prints "STATE MODE CALL CALL: ANSWER | ANSWER" for each pair of calls, or for one of SHARE, the
                                        turn's; of those that the file names alone (a line begins with "STATE MODE CALL CALL:")
    posix.py compare KERNEL OURS all|share
                                        tells differences that are not known (`KNOWN`), and of all pairs known ones that are not there
                                        any more
"""
import concurrent.futures
import errno
import itertools
import json
import os
import re
import resource
import signal
import socket
import struct
import sys
import threading
import time
import zlib

import posix_calls
import posix_datagrams
import posix_descriptors
from posix_calls import PORT, REFUSED, SLOW, SOL, TCP, families, libc, poll_of
from posix_datagrams import MORE

CALLS = posix_calls.CALLS | posix_descriptors.STREAMS
DATAGRAM_CALLS = posix_datagrams.CALLS | posix_descriptors.ALL
ALL_CALLS = CALLS | DATAGRAM_CALLS
# How long calls wait by their sockets' options, in seconds and microseconds. On a machine that is busy a connection may take longer: what
# has differed has more time then.
FIRST, AGAIN = (0, 20000), (1, 0)
# One that does not end by that.
CALL_LIMIT = float(os.environ.get("EXOS_CALL_LIMIT", 60))
AT_ONCE = 96

# A connection or a listener that was connected to nobody: the case's beginning.
DISCONNECTED = r"(?!\S*dgram)\S+ \S+ disconnect "
# What differs: the case, the answers ("FIRST | SECOND -> FIRST | SECOND"), and why it stays.
KNOWN = [
    (r".* (bind \S+|\S+ bind)", r"0 \| .* -> EINVAL \| .*|(.*) \| 0 -> \1 \| EINVAL|EADDRNOTAVAIL \| 0 -> EINVAL \| EINVAL",
     "a connection that failed or is over is not bound again: nobody does, and the address would have to outlive it"),
    (r"(bound\S*|unbound|refused\S*) \S+ connect(2|-none)? names", r"(.*) \| \d+/\d+ \S+ ENOTCONN -> \1 \| \d+/\d+ ANY:0 ENOTCONN",
     "one that could not be connected forgets its port"),
    (r"bound\S* waits connect2 bind", r"ECONNREFUSED \| EINVAL -> ECONNREFUSED \| 0", "and can have another"),
    (r"connecting \S+ shut[012] \S+", r"0 \| .* -> 0 \| .*",
     "one that is shut down while it connects is as new, without an error that tells of it"),
    (r"(listening|waiting)\S* \S+ shut[02] connect2?", r"0 \| (0|EINPROGRESS|ECONNREFUSED|EINVAL) -> 0 \| (EALREADY|ECONNABORTED)",
     "one that listened does not connect"),
    (r"(listening|waiting)\S* \S+ shut[02] connect-none", r"0 \| EINVAL EINVAL EAFNOSUPPORT EINVAL -> 0 \| (EALREADY|ECONNABORTED) EINVAL \1 EINVAL",
     "whatever the address"),
    (r"dgram-(unread|empty|shut-both-unread|near-unread|near-bound) \S+ pktinfo (message|recvmmsg\S*)", r"(.*)(,8:ANY,(OURS|HERE)|,41,50:|,50:).* -> .*",
     "IP_PKTINFO tells of datagrams, too, that were there before it was asked for"),
    (r"dgram-begun \S+ connect2 .*", r"0 \| (.*ECONNREFUSED.*|1 4 0) -> 0 \| .*", "a datagram that has begun goes where it began to go"),
    (r"dgram-(begun|corked) \S+ (sndbuf|segments) (poll|select|epoll|edge|oneshot|nested\S*)", r"(.*) \| (?:(?!OUT).)* -> \1 \| .*(OUT|w).*",
     "what has begun does not count as being sent"),
    (r"dgram-\S+ \S+ sndbuf (more-whole|sendto-long|sendfile)", r"(.*) \| .*ENOBUFS.* -> \1 \| .*", "a small buffer to send from does not bound one datagram"),
    (r"full(-finished)? \S+ buffers (send\S*|nosignal|write|writev)",
     r"(.*) \| (\d|0 10 .* 3 10 2|1 EINVAL 1 .*) -> \1 \| (EAGAIN|0 10 .* EAGAIN 7 2|EAGAIN EINVAL EAGAIN .*)",
     "a larger buffer to send from has no more room than before"),
    (r"full(-finished)? \S+ buffers (poll|select|epoll|edge|oneshot|nested\S*|exclusive)", r"(.*) \| .*(OUT|w).* -> \1 \| (?:(?!OUT|w).)*",
     "and so it is not writable"),
    (r"dgram-\S+ \S+ dgram-headers dgram-options", r"(.*) MTU=ENOTCONN none=ENOPROTOOPT -> .* MTU=(1500|6553[56]) none=ENOPROTOOPT",
     "what is known of the path to a peer is not forgotten with another class of service"),
    (r"dgram-near\S* \S+ connect2? dgram-options", r"EINVAL \| (.*) MTU=ENOTCONN none=ENOPROTOOPT -> EINVAL \| .* MTU=6553[56] none=ENOPROTOOPT",
     "nor by connecting in vain"),
    (r"refused\S* \S+ shut[012] connect2?", r"(\S+) \| EINVAL -> \1 \| (ECONNREFUSED|ECONNABORTED)",
     "one that could not be connected is told so, after a shutdown as before it"),
    (r".* (bind-elsewhere \S+|\S+ bind-elsewhere)", r"(.*)(EADDRNOTAVAIL|EINVAL)(.*) -> \1(EADDRNOTAVAIL|EINVAL)\3",
     "of an address that is not ours, to a socket that has one already, either is said"),
    (r".* (passed|splice-in|splice-out) \S+", r"(?!.*waits for ever).*", "a socket that was passed on or spliced is a Unix socket from then on"),
    (r".* bind-elsewhere bind-elsewhere", r"EADDRNOTAVAIL \| EADDRNOTAVAIL -> EINVAL \| EINVAL|EINVAL \| EINVAL -> EADDRNOTAVAIL \| EADDRNOTAVAIL", "and said twice"),
    (r".* bind-elsewhere splice-(in|out)", r"EADDRNOTAVAIL \| (?!waits).* -> EINVAL \| (?!waits).*", "one that was to be bound elsewhere is spliced as others are"),
    (r".* \S+ splice-(in|out)", r"(.*) \| (?!waits).* -> \1 \| (?!waits).*", "and so it is spliced"),
    (r"(accepted-)?closed\S* .*(send-control|send-parts).*", r".*(EPIPE|ECONNRESET).* -> .*", "the answer to what is sent to one that has closed may come later"),
    (DISCONNECTED + r"(recv\S*|peek\S*|dontwait|waitall|read\S*|receive-control|place|splice-out)", r"0 \| (?:ECONNRESET|ECONNREFUSED)(.*) -> 0 \| ENOTCONN\1",
     "one that is connected to nobody is as new: without an error"),
    (DISCONNECTED + r"(send\S*|write\S*|nosignal|splice-in)", r"0 \| (.*)(?:ECONNRESET|ECONNREFUSED)(.*) -> 0 \| \1EPIPE(\+SIGPIPE)?\2", "and what it sends has no peer"),
    (DISCONNECTED + "error", r"0 \| (104|111) -> 0 \| 0", "nor does it tell of one"),
    (DISCONNECTED + r"(poll|epoll|edge|oneshot|nested\S*|exclusive)", r"0 \| (.*?)\+ERR(.*?)(?:\+ERR)?(.*?)(?:\+ERR)?(.*) -> 0 \| \1\2\3\4", "by waits neither"),
    (DISCONNECTED + "names", r"0 \| (\d+/\d+) (OURS|ANY|HERE):port ENOTCONN -> 0 \| \1 ANY:0 ENOTCONN", "and without a port"),
    (DISCONNECTED + r"(bind|listen)", r"0 \| (EINVAL|EADDRINUSE) -> 0 \| 0", "so that it can have another, which nobody else has"),
    (r"refused\S* \S+ shut[012] connect-none", r"(\S+) \| .* -> \1 \| .*", "one that could not be connected is as new once that is told"),
    (r"dgram-\S+ \S+ sendfile sendto-(none|port0)", r"(.*) \| 5 -> \1 \| (ENETUNREACH|EINVAL)",
     "what sendfile is given less of than was asked for waits in a socket for IPv6, for the next to go with it; here it is sent"),
    (r"dgram-(refused \S+ .*sendfile.*|\S+ \S+ connect2 sendfile)", r"(?!.*waits for ever).*ECONNREFUSED.* -> .*", "a refusal may come later than the next call"),
    (r"dgram-near.*", r".* -> .*EINVAL.*|.* 2 4 4 -> .* 1 4 0", "one of IPv6, too, that is connected by loopback reaches no other host"),
]

# What differs by some kernels alone (6.18.44 is one): there a socket that has listened never connects, and one that could not be
# connected never listens.
NEWER_KERNELS = [
    (r"(listening|waiting)\S* \S+ disconnect connect2?", r"0 \| EINVAL -> 0 \| (0|EINPROGRESS|ECONNREFUSED)"),
    (r"(bound\S*|unbound|refused\S*) \S+ connect(2|-none)? listen", r"(.*) \| EINVAL -> \1 \| 0"),
]


# The states. Each brings sockets there, many at once.

class Case:
    def __init__(self, table, family, first, second):
        self.table, self.family, self.first, self.second = table, family, first, second
        self.listener = None

    def socket(self, kind=socket.SOCK_STREAM):
        return socket.socket(self.family.kind, kind)

    def at(self, name, port):
        """An address, as Python has it."""
        return self.family.hosts[name], port

    def near(self):
        """A socket of the kernel's at this host."""
        return self.table.near[self.family.of_wire]

    def port(self):
        return self.s.getsockname()[1]


def new(cases):
    for case in cases:
        case.s = case.socket()


def bound(cases):
    new(cases)
    for case in cases:
        case.s.bind(case.at("ANY", 0))


def bound_here(cases):
    for case in cases:
        to_port(case, lambda s: None, 3000, 4000)


def to_port(case, then, first=10000, count=22000):
    """Each with a port that no other has had for long, and that nobody is given (32768 and more): the peer knows connections by them."""
    while True:
        case.s = case.socket()
        try:
            case.s.bind(case.at("OURS", first + next(case.table.ports) % count))
            return then(case.s)
        except OSError as e:
            if e.errno != errno.EADDRINUSE:
                raise
            case.s.close()


def listening(cases):
    bound(cases)
    for case in cases:
        case.s.listen(5)


def waiting(cases):
    listening(cases)
    cases[0].table.ask("visit", cases)
    until(cases, 1)


def waiting_reset(cases):
    waiting(cases)
    cases[0].table.ask("reset", cases)
    time.sleep(0.05)


def attempt(cases, host, port):
    new(cases)
    for case in cases:
        case.s.setblocking(False)
        case.s.connect_ex(case.at(host, port))


def nobody(cases):
    attempt(cases, "NOBODY", PORT)


def refused(cases):
    attempt(cases, "PEER", REFUSED)
    until(cases, 8)


def refused_told(cases):
    refused(cases)
    for case in cases:
        case.s.getsockopt(SOL, socket.SO_ERROR)


def idle(cases, port=PORT):
    for case in cases:
        to_port(case, lambda s, case=case: s.connect(case.at("PEER", port)))
        case.known = case.port()
    cases[0].table.ask("await", cases)


def with_options(case):
    for level, what, value in ((TCP, socket.TCP_NODELAY, 1), (SOL, socket.SO_KEEPALIVE, 1), (SOL, socket.SO_REUSEADDR, 1), (SOL, socket.SO_REUSEPORT, 1),
                               (TCP, socket.TCP_KEEPIDLE, 77), (TCP, socket.TCP_KEEPINTVL, 11), (TCP, socket.TCP_KEEPCNT, 3), (TCP, 18, 60000), (SOL, socket.SO_RCVLOWAT, 2),
                               (SOL, socket.SO_SNDBUF, 40000), (SOL, socket.SO_LINGER, struct.pack("=2i", 1, 3)), (SOL, socket.SO_RCVTIMEO, struct.pack("@ll", 5, 0))):
        case.s.setsockopt(level, what, value)


def listening_options(cases):
    """Options that are set before it listens, and one after."""
    bound(cases)
    for case in cases:
        with_options(case)
        case.s.listen(5)
        case.s.setsockopt(TCP, socket.TCP_KEEPCNT, 4)


def accepted_options(cases):
    listening_options(cases)
    cases[0].table.ask("visit", cases)
    until(cases, 1)
    take_visitors(cases)


def idle_options(cases):
    for case in cases:
        to_port(case, lambda s, case=case: (with_options(case), s.connect(case.at("PEER", PORT))))
    cases[0].table.ask("await", cases)


def accepted(cases):
    waiting(cases)
    take_visitors(cases)


def take_visitors(cases):
    for case in cases:
        case.listener = case.s
        case.known = case.listener.getsockname()[1]
        case.s, _ = case.listener.accept()


def after(before, *steps):
    """What the peer (a word) or we (a function) do then, and what poll is to tell of it."""
    def state(cases):
        before(cases)
        for step in steps:
            if isinstance(step, str):
                cases[0].table.ask(step, cases)
            elif isinstance(step, int):
                until(cases, step)
            else:
                for case in cases:
                    step(case)
    return state


def slow(cases):
    """The peer does not read, and all buffers are full."""
    for case in cases:
        def connect(s, case=case):
            s.setsockopt(SOL, socket.SO_SNDBUF, 4096)
            s.connect(case.at("PEER", SLOW))
            s.setblocking(False)
        to_port(case, connect)
    cases[0].table.ask("await", cases)
    quiet = 0
    while quiet < 6:
        if any([fill(case.s) for case in cases]):
            quiet = 0
        quiet += 1
        time.sleep(0.05)


def fill(s):
    count = 0
    for size in (1 << 16, 64, 1):
        try:
            while True:
                count += s.send(bytes(size))
        except BlockingIOError:
            pass
    return count


def pause():
    """What the other side answers to the last step is there, too."""
    time.sleep(0.03)


def shut(how):
    return lambda case: case.s.shutdown(how)


def reset_told(case):
    case.s.getsockopt(SOL, socket.SO_ERROR)


def take_all(case):
    case.s.recv(100)


IN, OUT, ERR, HUP, RDHUP = 1, 4, 8, 16, 0x2000
STATES = {
    "unbound": new, "bound": bound, "bound-here": bound_here, "listening": listening, "waiting": waiting, "waiting-reset": waiting_reset,
    "connecting": nobody, "refused": refused, "refused-told": refused_told, "idle": idle, "accepted": accepted,
    "listening-options": listening_options, "accepted-options": accepted_options, "idle-options": idle_options,
    "unread": after(idle, "send", IN), "finished": after(idle, "finish", RDHUP), "finished-unread": after(idle, "send", IN, "finish", RDHUP),
    "finished-read": after(idle, "send", "finish", RDHUP, take_all),
    "shut-read": after(idle, shut(0)), "shut-write": after(idle, shut(1)), "shut-both": after(idle, shut(2)),
    "shut-read-unread": after(idle, "send", IN, shut(0)), "shut-both-unread": after(idle, "send", IN, shut(2)),
    "reset": after(idle, "reset", HUP), "reset-unread": after(idle, "send", IN, "reset", HUP), "reset-told": after(idle, "reset", HUP, reset_told),
    "closed": after(idle, "close", RDHUP), "accepted-closed": after(accepted, "close", RDHUP),
    "both-finished": after(idle, "finish", RDHUP, shut(1), HUP), "both-finished-unread": after(idle, "send", "finish", RDHUP, shut(1), HUP),
    "we-first": after(idle, shut(1), "finish", HUP), "full": slow, "full-finished": after(slow, "finish", RDHUP), "full-reset": after(slow, "reset", HUP),
    "full-shut": after(slow, shut(1)),
}


def datagrams(cases):
    for case in cases:
        case.s = case.socket(socket.SOCK_DGRAM)


def datagrams_bound(cases, host="ANY"):
    datagrams(cases)
    for case in cases:
        case.s.bind(case.at(host, 0))


def datagrams_connected(cases, port=PORT):
    datagrams(cases)
    for case in cases:
        case.s.connect(case.at("PEER", port))


def told_info(case):
    posix_datagrams.tell_info(case.s.fileno(), case.family)


def connected(port):
    return lambda case: case.s.connect(case.at("PEER", port))


def send_one(case):
    case.s.send(b"x")


def send_begin(case):
    case.s.send(b"begun", MORE)


def settle(case):
    """What was sent behind what is there is there, too."""
    time.sleep(0.005)


def disconnect_now(case):
    libc.connect(case.s.fileno(), bytes(16), 16)


def connected_near(case):
    case.s.connect(case.at("HERE", case.near().getsockname()[1]))


def send_near(case):
    case.near().sendto(b"0123456789", (case.near().getsockname()[0], case.port()))


STATES |= {
    "dgram-near": after(datagrams_bound, connected_near), "dgram-near-unread": after(datagrams_bound, connected_near, send_near, IN),
    "dgram-near-bound": after(datagrams_bound, send_near, IN), "dgram-near-left": after(datagrams_bound, connected_near, disconnect_now),
    "dgram-unbound": datagrams, "dgram-bound": datagrams_bound, "dgram-here": lambda cases: datagrams_bound(cases, "OURS"),
    "dgram-connected": datagrams_connected, "dgram-bound-connected": after(datagrams_bound, connected(PORT)),
    "dgram-unread": after(datagrams_connected, "datagram", IN), "dgram-two": after(datagrams_bound, told_info, "datagram", "datagram", IN, settle),
    "dgram-empty": after(datagrams_bound, "empty", IN), "dgram-refused": after(lambda cases: datagrams_connected(cases, REFUSED), send_one, ERR),
    "dgram-disconnected": after(datagrams_connected, disconnect_now), "dgram-bound-disconnected": after(datagrams_bound, connected(PORT), disconnect_now),
    "dgram-begun": after(datagrams_connected, send_begin), "dgram-corked": after(datagrams_connected, lambda case: case.s.setsockopt(17, 1, 1)),
    "dgram-shut-read": after(datagrams_connected, shut(0)), "dgram-shut-write": after(datagrams_connected, shut(1)),
    "dgram-shut-both-unread": after(datagrams_connected, "datagram", IN, shut(2)),
}
# Big ones have their buffers filled: fewer of them.
FULL = [state for state in STATES if state.startswith("full")]


def until(cases, wanted):
    """For ten seconds, or the state is another; which the table shows."""
    last = time.monotonic() + 10
    for case in cases:
        while not poll_of(case.s.fileno()) & wanted and time.monotonic() < last:
            time.sleep(0.001)


def calls_of(state):
    return DATAGRAM_CALLS if state.startswith("dgram-") else CALLS


def near_at(host):
    """A socket for datagrams of which all are taken."""
    near = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    near.bind((host, 0))

    def drain():
        while True:
            near.recv(1)
    threading.Thread(target=drain, daemon=True).start()
    return near


class Table:
    def __init__(self, control, ours, share, turn):
        self.control, self.share, self.turn = control, share, turn
        self.families = families(*ours.split(","))
        self.cases, self.limit = None, FIRST
        self.here = threading.local()
        self.ports = itertools.count()
        self.pool = concurrent.futures.ThreadPoolExecutor(64)
        # This host's, which by exos run is the kernel's, too.
        self.near = {socket.AF_INET: near_at("127.0.0.1"), socket.AF_INET6: near_at("::1")}

    def ask(self, what, cases):
        if not hasattr(self.here, "control"):
            self.here.control = socket.socket(socket.AF_UNIX)
            self.here.control.connect(self.control)
            self.here.answers = self.here.control.makefile()
        ports = [getattr(case, "known", None) or case.port() for case in cases]
        for case, port in zip(cases, ports):
            case.known = port
        known = [(id(case), port) for case, port in zip(cases, ports)]
        self.here.control.sendall(json.dumps([what, cases[0].family.seen, known]).encode() + b"\n")
        assert self.here.answers.readline() == "done\n"

    def run(self, of):
        prefix, state = of
        lines = []
        for blocking in (False, True):
            mode = "waits" if blocking else "at-once"
            cases = [Case(self, self.families[prefix], a, b) for a, b in self.wanted(f"{prefix}{state} {mode} ", calls_of(state))]
            most = AT_ONCE // 4 if state in FULL else AT_ONCE
            for at in range(0, len(cases), most):
                some = cases[at:at + most]
                STATES[state](some)
                pause()
                for case in some:
                    case.fd = os.dup(case.s.fileno())
                    case.s.close()
                    limit = struct.pack("@ll", *self.limit)
                    for which in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                        libc.setsockopt(case.fd, SOL, which, limit, len(limit))
                    os.set_blocking(case.fd, blocking)
                first = self.answers(some, "first")
                pause()
                second = self.answers(some, "second")
                for case, *answers in zip(some, first, second):
                    lines.append(f"{prefix}{state} {mode} {case.first} {case.second}: {' | '.join(answers)}")
                with_peer = [case for case in some if hasattr(case, "known")]
                if with_peer:
                    self.ask("forget", with_peer)
                for case in some:
                    if case.fd >= 0:
                        os.close(case.fd)
                    if case.listener:
                        case.listener.close()
        return lines

    def answers(self, cases, which):
        """Of the first call of each, or the second; one that waits for ever does not have the others wait."""
        begun = [self.pool.submit(self.call, case, getattr(case, which)) for case in cases]
        over = time.monotonic() + CALL_LIMIT
        answers = []
        for case, one in zip(cases, begun):
            try:
                answers.append(one.result(max(over - time.monotonic(), 0)))
            except concurrent.futures.TimeoutError:
                # Its thread may use the number still.
                case.fd = -1
                answers.append("waits for ever")
                one.cancel()
        return answers

    def wanted(self, before, calls):
        """Of the pairs of calls those of the share, each chosen by the sum of its name, whose beginning is summed once; or those of the cases."""
        ends = [(call, call.encode()) for call in calls]
        for first in calls:
            name = f"{before}{first} "
            begun = zlib.crc32(name.encode())
            for second, end in ends:
                if zlib.crc32(end, begun) % self.share == self.turn and (not self.cases or name + second in self.cases):
                    yield first, second

    @staticmethod
    def call(case, what):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPIPE])
        return ALL_CALLS[what](case)


def table(control, ours, share="1", turn="0", cases=None):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPIPE])
    made = Table(control, ours, int(share), int(turn))
    if cases:
        with open(cases) as lines:
            made.cases, made.limit = {line.split(": ", 1)[0] for line in lines}, AGAIN
    with concurrent.futures.ThreadPoolExecutor(4) as states:
        for lines in states.map(made.run, itertools.product(made.families, STATES)):
            print(*lines, sep="\n", end="\n" * bool(lines), flush=True)
    # Threads that wait for ever end with it.
    os._exit(0)


def at_all(family, kind, port):
    """A socket at all addresses of the family."""
    s = socket.socket(family, kind)
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    s.setsockopt(SOL, socket.SO_REUSEADDR, 1)
    if port == SLOW:
        s.setsockopt(SOL, socket.SO_RCVBUF, 32768)
    s.bind(("", port))
    return s


class Peer:
    def __init__(self):
        # By the address that they come from, until it is said whose they are; then by the case.
        self.connections = {}
        self.held = {}
        self.arrived = threading.Condition()
        self.hard = struct.pack("=2i", 1, 0)
        self.datagrams = {family: at_all(family, socket.SOCK_DGRAM, PORT) for family in (socket.AF_INET, socket.AF_INET6)}

    def take(self, listener):
        while True:
            s, (host, port, *_) = listener.accept()
            with self.arrived:
                self.connections[host, port] = s
                self.arrived.notify_all()

    def serve(self, control):
        for line in control.makefile():
            what, host, known = json.loads(line)
            for case, port in known:
                getattr(self, what)(case, (host, port))
            control.sendall(b"done\n")

    @staticmethod
    def drain(s):
        while True:
            s.recv(1)

    def visit(self, case, key):
        self.held[case] = socket.create_connection(key)

    def of(self, case, key):
        with self.arrived:
            if case not in self.held:
                assert self.arrived.wait_for(lambda: key in self.connections, 60), key
                self.held[case] = self.connections.pop(key)
            return self.held[case]

    def forget(self, case, key):
        if s := self.held.pop(case, None):
            self.end(s)

    def reset(self, case, key):
        self.end(self.of(case, key))

    def end(self, s):
        if s.fileno() >= 0:
            s.setsockopt(SOL, socket.SO_LINGER, self.hard)
            s.close()

    def send(self, case, key):
        self.of(case, key).send(b"0123456789")

    def finish(self, case, key):
        self.of(case, key).shutdown(1)

    def close(self, case, key):
        self.of(case, key).close()

    def datagram(self, case, key):
        self.datagrams[family_of(key)].sendto(b"0123456789", key)

    def empty(self, case, key):
        self.datagrams[family_of(key)].sendto(b"", key)


def family_of(key):
    return socket.AF_INET6 if ":" in key[0] else socket.AF_INET


setattr(Peer, "await", Peer.of)


def peer(control):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    made = Peer()
    for family in (socket.AF_INET, socket.AF_INET6):
        for port in (PORT, SLOW):
            listener = at_all(family, socket.SOCK_STREAM, port)
            listener.listen(4000)
            threading.Thread(target=made.take, args=(listener,), daemon=True).start()
        threading.Thread(target=made.drain, args=(made.datagrams[family],), daemon=True).start()
    server = socket.socket(socket.AF_UNIX)
    server.bind(control)
    server.listen()
    while True:
        threading.Thread(target=made.serve, args=(server.accept()[0],), daemon=True).start()


def compare(kernel, ours, of):
    def answers(path):
        with open(path) as lines:
            return dict(line.rstrip("\n").split(": ", 1) for line in lines)
    wanted, got = answers(kernel), answers(ours)
    assert wanted, "an empty table"
    # Of a share not every known one has its case in it.
    unused = set(range(len(KNOWN))) if of == "all" else set()
    strange = [f"{name}: not there" for name in wanted.keys() ^ got.keys()]
    for name in wanted.keys() & got.keys():
        if wanted[name] != got[name]:
            line = f"{wanted[name]} -> {got[name]}"

            def is_of(case, change):
                return re.fullmatch(rf"(v6-|mapped-)?{case}", name) and re.fullmatch(change, line)
            known = {at for at, (case, change, _) in enumerate(KNOWN) if is_of(case, change)}
            unused -= known
            if not known and not any(is_of(*newer) for newer in NEWER_KERNELS):
                strange.append(f"{name}: {line}")
    strange += [f"known, and not there any more: {KNOWN[at][2]}" for at in unused]
    print("\n".join(sorted(strange)))
    return len(strange) > 0


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]](*sys.argv[2:]))
