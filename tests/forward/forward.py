"""The ends of forwarded connections, as Linux's sockets: a server that sends back what it hears, and clients of it.

    forward.py serve PORT                            TCP and UDP, IPv4 and IPv6, until it is ended; at the port before it, who
                                                     connects is told from which end
    forward.py echo ADDRESS PORT BYTES [CONNECTIONS [FILE]]
                                                     every byte comes back, and then the end; the bytes again and again until
                                                     FILE is there
    forward.py slow ADDRESS PORT BYTES FILES         the same in two halves: makes FILES.half after the first, waits for FILES.go
    forward.py proxied ADDRESS PORT v1|v2            the server was told of us by the PROXY protocol
    forward.py seen ADDRESS PORT                     the server names our own end as who it speaks to
    forward.py unwrap INTERFACE                      gives the kernel what is in packets of IP in IP, by a TUN device of this name
    forward.py half ADDRESS PORT                     what is asked before we finish is answered after it
    forward.py datagram ADDRESS PORT BYTES           it comes back
    forward.py backwards ADDRESS PORT BYTES          the same, in fragments of which the last is sent first; over IPv4
    forward.py several ADDRESS PORT COUNT            so many datagrams of one end, four a second, come back
    forward.py train ADDRESS PORT COUNT              so many datagrams that leave as one, for a device to cut, come back
    forward.py refused ADDRESS PORT                  a connection is refused
    forward.py knock ADDRESS PORT SECONDS FILES      connections are made, four at a time, until FILES.enough is there: none is
                                                     refused, or takes longer than SECONDS; makes FILES.some when a hundred
                                                     have been
    forward.py syns INTERFACE PORT FILE              counts the SYNs over IPv4 to this port that go by an interface, from when it
                                                     makes FILE.counts until FILE.counted is there, and prints how many
    forward.py unread FIFO                           reads a line, makes FIFO.read, and reads no more until FIFO.done is there
    forward.py reset ADDRESS PORT                    a connection is taken, and reset
    forward.py unreachable ADDRESS PORT              a datagram is answered with an error of ICMP
    forward.py expired ADDRESS PORT                  one that may go over a single hop is answered with "time exceeded"
    forward.py acknowledged ADDRESS PORT FILES       opens a connection, and makes FILES.stands; when FILES.cut is there, sends
                                                     something, and makes FILES.seen when that is acknowledged; then waits until
                                                     it comes back
    forward.py unacknowledged ADDRESS PORT FILES     opens a connection, and makes FILES.stands; when FILES.cut is there, sends
                                                     something, and makes FILES.seen when that has been sent again and is not
                                                     acknowledged; then waits until it comes back
"""

import fcntl
import os
import select
import socket
import struct
import sys
import threading
import time

from common import PATIENCE, wait_until

# For a script to go on, which does much meanwhile.
LONG = 5 * PATIENCE

# This program is started for each of several hundred checks, most of which do not need what takes long to import: that is imported where
# it is used.

# Of struct tcp_info (linux/tcp.h): tcpi_retransmits and tcpi_unacked.
RETRANSMITS_AT, UNACKED_AT = 2, 24


def accept(port, handle):
    """Gives each connection to a thread of its own."""
    listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("::", port))
    listener.listen(1024)
    while True:
        connection, client = listener.accept()
        threading.Thread(target=handle, args=(connection, client), daemon=True).start()


def stream(connection, _):
    with connection:
        try:
            while data := connection.recv(65536):
                connection.sendall(data)
        except ConnectionError:
            pass  # The other end says what it thinks of that.


def tell_client(connection, client):
    address, port = client[:2]
    with connection:
        connection.sendall(f"{address.removeprefix('::ffff:')} {port}".encode())


def noise(seed, length):
    import random
    return random.Random(seed).randbytes(int(length))


def datagrams(port):
    """Sends back what comes, from the address that it came to, whichever of the host's that is."""
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    s.bind(("::", port))
    while True:
        try:
            data, said, _, client = s.recvmsg(65535, 256)
            ours = said[0][2][:16] + bytes(4)
            s.sendmsg([data], [(socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, ours)], 0, client)
        except OSError:
            pass  # The client has refused an answer before.


def serve(port):
    threading.Thread(target=datagrams, args=(int(port),), daemon=True).start()
    threading.Thread(target=accept, args=(int(port) - 1, tell_client), daemon=True).start()
    accept(int(port), stream)


def connect(address, port):
    return socket.create_connection((address, int(port)), timeout=PATIENCE)


def comes_back(address, port, data, until=""):
    """Sends and hears at the same time, the data over and over until there is a file of this name; whether it comes back."""
    rounds, heard, same = 0, 0, True
    with connect(address, port) as s:
        def send():
            nonlocal rounds
            limit = time.monotonic() + LONG
            while rounds == 0 or (until and not os.path.exists(until) and time.monotonic() < limit):
                s.sendall(data)
                rounds += 1
            s.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send)
        sender.start()
        while part := s.recv(65536):
            at = heard % len(data)
            same = same and part == (data[at:] + data)[:len(part)]
            heard += len(part)
        sender.join()
    return same and heard == rounds * len(data)


def echo(address, port, length, connections="1", until=""):
    wrong = []

    def visit(n):
        data = noise(n, length)
        try:
            if not comes_back(address, port, data, until):
                wrong.append(f"connection {n}: other bytes came back")
        except OSError as error:
            wrong.append(f"connection {n}: {error}")
    visits = [threading.Thread(target=visit, args=(n,)) for n in range(int(connections))]
    for visit in visits:
        visit.start()
    for visit in visits:
        visit.join()
    return "; ".join(wrong[:3])


def slow(address, port, length, files):
    data = noise(7, length)
    with connect(address, port) as s:
        for n, part in enumerate((data[:len(data) // 2], data[len(data) // 2:])):
            s.sendall(part)
            heard = b""
            while len(heard) < len(part) and (more := s.recv(65536)):
                heard += more
            if heard != part:
                return f"other bytes came back in half {n}"
            if n == 0:
                open(f"{files}.half", "w").close()
                if not wait_until(lambda: os.path.exists(f"{files}.go"), LONG):
                    return "nobody said to go on"
    return ""


def talk(address, port, count, files):
    """Connections that say something all the time, until somebody says that it is enough."""
    said = []

    def one():
        try:
            with connect(address, port) as s:
                n = 0
                while not os.path.exists(f"{files}.enough"):
                    word = struct.pack(">Q", n)
                    s.sendall(word)
                    if s.recv(8, socket.MSG_WAITALL) != word:
                        said.append("another word came back")
                        return
                    if n == 10:
                        standing.release()
                    n += 1
                    time.sleep(0.002)
        except OSError as e:
            said.append(str(e))

    standing = threading.Semaphore(0)
    talking = [threading.Thread(target=one) for _ in range(int(count))]
    for thread in talking:
        thread.start()
    for _ in talking:
        standing.acquire(timeout=PATIENCE)
    open(f"{files}.stand", "w").close()
    for thread in talking:
        thread.join()
    return f"{len(said)} of {count}: {said[0]}" if said else ""


def proxied(address, port, version):
    """What the server hears first is the header with our end and the listener's, which it sends back."""
    with connect(address, port) as s:
        (us, our_port), (listener, listener_port) = s.getsockname()[:2], s.getpeername()[:2]
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        if version == "v1":
            name = "TCP6" if family == socket.AF_INET6 else "TCP4"
            wanted = f"PROXY {name} {us} {listener} {our_port} {listener_port}\r\n".encode()
        else:
            ends = b"".join(socket.inet_pton(family, end) for end in (us, listener))
            ends += struct.pack(">HH", our_port, listener_port)
            wanted = b"\r\n\r\n\0\r\nQUIT\n\x21" + (b"\x21" if family == socket.AF_INET6 else b"\x11")
            wanted += struct.pack(">H", len(ends)) + ends
        s.sendall(b"and more")
        s.shutdown(socket.SHUT_WR)
        heard = b""
        while part := s.recv(4096):
            heard += part
    return "" if heard == wanted + b"and more" else f"{heard!r} instead of {wanted!r}"


def seen(address, port):
    with connect(address, port) as s:
        ours = " ".join(map(str, s.getsockname()[:2]))
        heard = b""
        while part := s.recv(100):
            heard += part
    return "" if heard.decode() == ours else f"it sees {heard.decode()}, not {ours}"


def unwrap(interface):
    # Linux has devices that do this, of modules that not every kernel has.
    device = os.open("/dev/net/tun", os.O_RDWR)
    TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454ca, 1, 0x1000
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", interface.encode(), IFF_TUN | IFF_NO_PI))
    v4 = socket.socket(socket.AF_INET, socket.SOCK_RAW, 4)
    v6 = socket.socket(socket.AF_INET6, socket.SOCK_RAW, 41)
    for s in (v4, v6):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    while True:
        for s in select.select([v4, v6], [], [])[0]:
            packet = s.recv(65535)
            try:
                # With the header around it, of IPv4 alone.
                os.write(device, packet[20:] if s is v4 else packet)
            except OSError:
                pass  # The device is down yet.


def half(address, port):
    with connect(address, port) as s:
        s.sendall(b"first")
        s.shutdown(socket.SHUT_WR)
        heard = b""
        while part := s.recv(100):
            heard += part
    return "" if heard == b"first" else f"{heard!r} came back"


def datagram(address, port, length):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    data = noise(1, length)
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(2)
        s.connect((address, int(port)))
        # One may be lost, as datagrams are.
        for _ in range(PATIENCE // 2):
            s.send(data)
            try:
                return "" if s.recv(65535) == data else "another datagram came back"
            except TimeoutError:
                pass
    return "nothing came back"


def backwards(address, port, length):
    data = noise(2, length)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s, \
            socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        s.settimeout(2)
        s.connect((address, int(port)))
        ours, our_port = s.getsockname()
        # Without a checksum, as UDP over IPv4 may be.
        whole = struct.pack("!4H", our_port, int(port), 8 + len(data), 0) + data
        size, more = 1400, 0x2000
        for ident in range(1, 1 + PATIENCE // 2):
            for at in reversed(range(0, len(whole), size)):
                place = at // 8 | (more if at + size < len(whole) else 0)
                # Length and checksum are the kernel's to write.
                head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, ident, place, 64, socket.IPPROTO_UDP, 0,
                                   socket.inet_aton(ours), socket.inet_aton(address))
                raw.sendto(head + whole[at:at + size], (address, 0))
            try:
                return "" if s.recv(65535) == data else "another datagram came back"
            except TimeoutError:
                pass
    return "nothing came back"


def several(address, port, count):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    back, sent = set(), set()
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(2)
        s.connect((address, int(port)))
        for n in range(int(count)):
            sent.add(word := str(n).encode())
            s.send(word)
            try:
                # One that comes late comes before this one.
                while word not in back:
                    back.add(s.recv(100))
            except TimeoutError:
                pass  # One may be lost, as datagrams are.
            time.sleep(0.25)
    return "" if back <= sent and len(back) >= int(count) - 1 else f"of {count} came back {back}"


def train(address, port, count):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    data = [bytes([n]) * 1000 for n in range(int(count))]
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(2)
        s.connect((address, int(port)))
        s.setsockopt(socket.SOL_UDP, 103, 1000)  # UDP_SEGMENT, linux/udp.h
        back = set()
        # Some may be lost, as datagrams are.
        for _ in range(PATIENCE // 2):
            s.send(b"".join(data))
            try:
                while len(back) < len(data):
                    back.add(s.recv(65535))
                return "" if back == set(data) else "other datagrams came back"
            except TimeoutError:
                pass
    return f"{len(back)} of {count} came back"


def refused(address, port):
    try:
        connect(address, port).close()
    except ConnectionRefusedError:
        return ""
    except OSError as error:
        return str(error)
    return "it was taken"


def knock(address, port, patience, files):
    """Those may fail that are under way at once, in the moment in which a server goes: it may have been asked already."""
    made, wrong, failed, worst = [0] * 4, [], [], [0.0] * 4
    began = time.monotonic()

    def visit(n):
        while not os.path.exists(f"{files}.enough"):
            begin = time.monotonic()
            try:
                connect(address, port).close()
            except OSError as error:
                wrong.append(f"{error}, after {begin - began:.3f} s, within {time.monotonic() - begin:.3f} s")
                failed.append((begin, time.monotonic()))
            worst[n] = max(worst[n], time.monotonic() - begin)
            made[n] += 1
            if sum(made) >= 100:
                open(f"{files}.some", "w").close()
            time.sleep(0.005)
    visits = [threading.Thread(target=visit, args=(n,)) for n in range(4)]
    for visit in visits:
        visit.start()
    for visit in visits:
        visit.join()
    print(f"{len(wrong)} of {sum(made)} connections failed, and the slowest took {max(worst) * 1000:.0f} ms")
    if failed and max(begin for begin, _ in failed) > min(end for _, end in failed):
        return f"{len(wrong)} of {sum(made)} were not made: {wrong[0]}; {wrong[-1]}"
    return "" if max(worst) <= float(patience) else f"the slowest took {max(worst):.3f} s"


def syns(interface, port, file):
    """By the kernel's count of what a filter lets in: nothing is read, so nothing is missed."""
    import ctypes
    load_half, load_byte, equal, mask, answer = 0x28, 0x30, 0x15, 0x54, 0x06
    steps = [(load_half, 0, 0, 12), (equal, 0, 8, 0x0800),            # IPv4,
             (load_byte, 0, 0, 23), (equal, 0, 6, 6),                 # of TCP,
             (load_half, 0, 0, 36), (equal, 0, 4, int(port)),         # to the port,
             (load_byte, 0, 0, 47), (mask, 0, 0, 0x12), (equal, 0, 1, 0x02),  # with SYN, and without ACK.
             (answer, 0, 0, 1), (answer, 0, 0, 0)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    SO_ATTACH_FILTER, ETH_P_ALL, SOL_PACKET, PACKET_STATISTICS = 26, 3, 263, 6
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as s:
        s.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", len(steps), ctypes.addressof(code)))
        s.bind((interface, ETH_P_ALL))
        open(f"{file}.counts", "w").close()
        if not wait_until(lambda: os.path.exists(f"{file}.counted"), LONG):
            return "nobody asked how many"
        # What the socket had no room for is in it too.
        print(struct.unpack("II", s.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[0])


def unread(fifo):
    F_SETPIPE_SZ = 1031
    with open(fifo) as pipe:
        # The least that a pipe holds.
        fcntl.fcntl(pipe, F_SETPIPE_SZ, 4096)
        pipe.readline()
        open(f"{fifo}.read", "w").close()
        return "" if wait_until(lambda: os.path.exists(f"{fifo}.done"), LONG) else "it was not ended"


def reset(address, port):
    """It is taken, and then reset."""
    try:
        with connect(address, port) as s:
            return f"{s.recv(100)!r} came"
    except ConnectionError:
        return ""


def expired(address, port):
    # IP_RECVERR and IPV6_RECVERR (linux/in.h, linux/in6.h), and struct sock_extended_err: number, origin, type and code.
    family, level, hops, errors, kind = (socket.AF_INET6, socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 25, (3, 3, 0)) \
        if ":" in address else (socket.AF_INET, socket.IPPROTO_IP, socket.IP_TTL, 11, (2, 11, 0))
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.setsockopt(level, hops, 1)
        s.setsockopt(level, errors, 1)
        s.connect((address, int(port)))
        for _ in range(PATIENCE):
            s.send(b"too far")
            wait = select.poll()
            wait.register(s, 0)
            if wait.poll(1000):
                said = s.recvmsg(100, 512, socket.MSG_ERRQUEUE)[1][0][2]
                heard = tuple(said[4:7])
                return "" if heard == kind else f"{heard} was heard"
    return "nothing was heard"


def unreachable(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(2)
        s.connect((address, int(port)))
        # Errors of ICMP are bounded in their rate.
        for _ in range(PATIENCE // 2):
            try:
                s.send(b"is anybody there?")
                s.recv(100)
                return "somebody answered"
            except ConnectionRefusedError:
                return ""
            except TimeoutError:
                pass
    return "no error came"


def acknowledged(address, port, files):
    return cut_off(address, port, files, lambda retransmits, unacked: unacked == 0, "not acknowledged")


def unacknowledged(address, port, files):
    # Twice sent again, and still nobody has acknowledged it.
    return cut_off(address, port, files, lambda retransmits, unacked: retransmits >= 2 and unacked > 0,
                   "acknowledged while the server was cut off")


def cut_off(address, port, files, is_so, otherwise):
    def make(name):
        open(f"{files}.{name}", "w").close()

    with connect(address, port) as s:
        def info():
            raw = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
            return raw[RETRANSMITS_AT], struct.unpack_from("I", raw, UNACKED_AT)[0]
        s.sendall(b"before")
        if s.recv(100) != b"before":
            return "the server does not answer"
        make("stands")
        if not wait_until(lambda: os.path.exists(f"{files}.cut")):
            return "nobody cut the servers off"
        s.sendall(b"after")
        if not wait_until(lambda: is_so(*info())):
            return f"{otherwise}: {info()}"
        make("seen")
        if s.recv(100) != b"after":
            return "it did not arrive"
        return "" if wait_until(lambda: info()[1] == 0) else "it was not acknowledged"


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    names = (serve, echo, slow, talk, seen, unwrap, half, datagram, backwards, several, train, refused, knock, syns, unread, reset, unreachable, expired, proxied, acknowledged, unacknowledged)
    sys.exit({f.__name__: f for f in names}[name](*arguments) or 0)
