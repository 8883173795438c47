"""A client of a port that several programs share, each of which serves a page of its own.

    shared-port.py BASE-ADDRESS PORT [ADDRESS]

Reads commands, a line each, and says what came of each: how many answers each page was, by name, and how many failed.

    open N    N connections that stay, with a request on each
    again     a request on each of these
    new N     N connections that end with their answer
    until F   such connections one after the other, until the file F is there
"""

import collections
import os
import socket
import sys

host, port = sys.argv[1], int(sys.argv[2])
standing = []


def connect():
    return socket.create_connection((host, port), timeout=60)


def ask(connection, last):
    """The page that answers, or how it failed."""
    end = "close" if last else "keep-alive"
    connection.sendall(f"GET / HTTP/1.1\r\nHost: x\r\nConnection: {end}\r\n\r\n".encode())
    data = b""
    while b"</title>" not in data:
        got = connection.recv(65536)
        if not got:
            return "ended"
        data += got
    return data.split(b"<title>")[1].split(b"<")[0].decode()


def tried(work):
    try:
        return work()
    except OSError as error:
        return type(error).__name__


def once():
    with connect() as connection:
        return ask(connection, True)


for line in sys.stdin:
    command, *argument = line.split()
    answers = collections.Counter()
    if command == "open":
        standing += [connect() for _ in range(int(argument[0]))]
    if command in ("open", "again"):
        answers.update(tried(lambda c=c: ask(c, False)) for c in standing)
    elif command == "new":
        answers.update(tried(once) for _ in range(int(argument[0])))
    elif command == "until":
        while not os.path.exists(argument[0]):
            answers.update([tried(once)])
    print(" ".join(f"{name}={n}" for name, n in sorted(answers.items())), flush=True)
