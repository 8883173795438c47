"""Peers on Linux's stack for tests/daemon/life.sh: what each does stands in its function."""
import socket
import struct
import sys


def tcp_of(frame):
    """Ports, flags and the TCP header's bytes of an IPv4 frame; None when it is no TCP."""
    if frame[12:14] != b"\x08\x00" or frame[23] != 6:
        return None
    at = 14 + 4 * (frame[14] & 15)
    source, destination = struct.unpack_from("!HH", frame, at)
    return source, destination, frame[at + 13]


def last_ack(address, port, wire):
    """Lets the server close first; after a line on the input sends its last FIN again, and says what is answered."""
    ours = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    ours.bind((wire, 0))
    ours.settimeout(60)
    s = socket.create_connection((address, int(port)), timeout=60)
    local = s.getsockname()[1]
    s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    while s.recv(1 << 16):
        pass
    s.close()
    fin = answer = None
    while fin is None:
        frame, about = ours.recvfrom(65536)
        if about[2] == socket.PACKET_OUTGOING and (tcp := tcp_of(frame)) and tcp[0] == local and tcp[2] & 1:
            fin = frame
    print("closed", flush=True)
    sys.stdin.readline()
    ours.setblocking(False)
    try:
        while True:
            ours.recv(65536)  # What came meanwhile is no answer.
    except BlockingIOError:
        pass
    ours.settimeout(0.5)
    for _ in range(20):
        # Again and again, as a peer does that has heard nothing.
        ours.send(fin)
        try:
            while answer is None:
                frame, about = ours.recvfrom(65536)
                if about[2] != socket.PACKET_OUTGOING and (tcp := tcp_of(frame)) and tcp[:2] == (int(port), local):
                    answer = tcp[2]
            break
        except TimeoutError:
            continue
    assert answer is not None, "nobody answers"
    print("reset" if answer & 4 else "acknowledged" if answer & 16 else "flags %#x" % answer)


globals()[sys.argv[1]](*sys.argv[2:])
