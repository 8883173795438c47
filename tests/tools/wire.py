#!/usr/bin/env python3
"""Linux's side of tests/tools/wire.sh: send a file, take another, over one connection.

    wire.py listen ADDRESS PORT SEND TAKE
    wire.py connect ADDRESS PORT SEND TAKE

Unlike netcat it goes on until both directions have ended. Exits with 1 when the connection fails.
"""
import socket
import sys
import threading


def main():
    mode, address, port, to_send, to_take = sys.argv[1:]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    peer = socket.socket(family, socket.SOCK_STREAM)
    peer.settimeout(110)
    if mode == "listen":
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        peer.bind((address, int(port)))
        peer.listen(1)
        peer = peer.accept()[0]
        peer.settimeout(110)
    else:
        peer.connect((address, int(port)))

    def send():
        with open(to_send, "rb") as file:
            peer.sendfile(file)
        peer.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    with open(to_take, "wb") as file:
        while chunk := peer.recv(1 << 16):
            file.write(chunk)
    sender.join(110)
    return int(sender.is_alive())


sys.exit(main())
