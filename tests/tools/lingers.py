"""Hands a file cache sockets whose last close waits for an hour: with a request, behind what ends the connection, and several at once. Until it is ended."""
import array
import os
import socket
import struct
import sys
import time

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
listener.bind(("127.0.0.1", 0))
listener.listen()


kept = []


def lingering():
    sender = socket.socket()
    sender.connect(listener.getsockname())
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    sender.setblocking(False)
    try:
        while True:
            sender.send(b"x" * 65536)
    except BlockingIOError:
        return sender


def hand_over(requests, copies):
    service = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    service.connect(sys.argv[1])
    for request in requests:
        if request:
            kept.append(lingering())
        descriptor = array.array("i", [kept[-1].fileno()] * copies) if request else array.array("i")
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptor)] if request else []
        try:
            service.sendmsg([request or b"no request"], rights)
        except BrokenPipeError:
            pass


# What a process has is closed in the background when it ends.
if os.fork() == 0:
    opens = struct.pack("<4Q", 1, 0, 0, 0)
    hand_over([opens, None, opens], 1)
    hand_over([opens], 3)
    os._exit(0)
taken = [listener.accept()[0] for _ in range(3)]
os.wait()
print("handed over", flush=True)
time.sleep(3600)
