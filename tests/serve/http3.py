#!/usr/bin/env python3
"""A client of HTTP/3 by aioquic: asks a server for what it has by HTTPS, and says what differs.

http3.py HOST PORT FOLDER [--stop PID | --give-up PID]: the server has FOLDER. With --stop it is asked to stop while a file is under way; with
--give-up while one is of which its client takes no more, so that the server waits no longer in the end. Prints "ok NAME" and "not ok NAME: why" lines. HEAD is not asked: aioquic 1.7 takes the length in its response for that of a body, and breaks off.
"""

import asyncio
import os
import signal
import sys

from aioquic.asyncio.client import connect
from h3client import Client, settings

HOST, PORT, FOLDER = sys.argv[1], int(sys.argv[2]), sys.argv[3]
WAY, SERVER = (sys.argv[4], int(sys.argv[5])) if len(sys.argv) > 4 else (None, None)


def report(name, got, wanted):
    print(f"ok {name}" if got == wanted else f"not ok {name}: {got!r} in place of {wanted!r}")


def content(name):
    with open(os.path.join(FOLDER, name), "rb") as file:
        return file.read()


async def ask_all(client):
    got = await client.get("GET", "/")
    report("a document", (got.status, bytes(got.body), got.end), (200, content("index.html"), "whole"))
    report("it names HTTP/3", f'h3=":{PORT}"' in got.fields.get("alt-svc", ""), True)
    same = await client.get("GET", "/", [("if-none-match", got.fields["etag"])])
    report("a condition", (same.status, len(same.body)), (304, 0))
    part = await client.get("GET", "/middle.bin", [("range", "bytes=100-199")])
    report("a range", (part.status, bytes(part.body)), (206, content("middle.bin")[100:200]))
    missing = await client.get("GET", "/none")
    report("what is not there", (missing.status, missing.end), (404, "whole"))
    long = await client.get("GET", "/", [(f"x-{n}", "y" * 1000) for n in range(30)])
    report("a head that is too long", long.status, 431)
    post = await client.get("POST", "/", body=b"x" * 200_000)
    report("a body that nobody wants", post.status in (405, 411, 413), True)
    all_of_them = await asyncio.gather(*[client.get("GET", "/middle.bin") for _ in range(100)])
    report("a hundred at once", {bytes(one.body) for one in all_of_them}, {content("middle.bin")})
    file = await client.get("GET", "/long.bin")
    report("a long file", bytes(file.body) == content("long.bin"), True)


async def end_under_way(client):
    file = client.ask("GET", "/wide.bin")
    await file.has_body.wait()
    os.kill(SERVER, signal.SIGTERM)
    await asyncio.wait_for(file.has_ended.wait(), 60)
    report("a response under way at the end", (file.end, bytes(file.body) == content("wide.bin")), ("whole", True))
    await asyncio.wait_for(client.wait_closed(), 60)
    print("ok the connection is closed then")


async def be_given_up(client):
    """RFC 9114 §4.1.1: a request hears that it is given up before its connection ends."""
    client._quic._write_stream_limits = lambda *args, **named: None
    file = client.ask("GET", "/wide.bin")
    await file.has_body.wait()
    os.kill(SERVER, signal.SIGTERM)
    await asyncio.wait_for(file.has_ended.wait(), 60)
    await asyncio.wait_for(client.wait_closed(), 60)
    report("a response that is not taken is given up at the end", (file.end, client.ended_by), ("reset 0x10c", 0x100))


async def main():
    more = {"max_stream_data": 100_000} if WAY == "--give-up" else {}
    async with connect(HOST, PORT, configuration=settings(**more), create_protocol=Client) as client:
        await {None: ask_all, "--stop": end_under_way, "--give-up": be_given_up}[WAY](client)


asyncio.run(main())
print("end")
