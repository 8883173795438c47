#!/usr/bin/env python3
"""WebSockets over HTTP/3 (RFC 9220) through `exos serve`, by aioquic; see streams.sh.

    streams3.py ADDRESS PORT [hold]

The upstream (upstream.py) is at `/app`, documents are at `/`. With `hold`, a tunnel is opened alone, which is said, and kept until the server ends it. Prints "ok NAME" or "not ok NAME: why" lines; ends with 1 when one was not ok.
"""

import asyncio
import os
import sys

from aioquic.asyncio.client import connect

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../serve"))
from common import PATIENCE, failed, say
from h3client import Client, Response, settings
from websocket import CLOSE, message

REQUEST_CANCELLED = 0x10C


class Tunnels(Client):
    def open(self, path, protocol="websocket", method="CONNECT", more=()):
        return self.begin(method, path, [(":protocol", protocol)], [("sec-websocket-version", "13"), *more])

    def begin(self, method, path, own=(), more=()):
        stream, response = self._quic.get_next_available_stream_id(), Response()
        self.responses[stream] = response
        fields = [(":method", method), *own, (":scheme", "https"), (":authority", "localhost"), (":path", path), *more]
        self.http.send_headers(stream, [(name.encode(), value.encode()) for name, value in fields])
        self.transmit()
        return stream, response

    def say(self, stream, content, is_end=False):
        self.http.send_data(stream, content, is_end)
        self.transmit()


async def until(holds):
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.02)


async def heard(response, count):
    """So many bytes of what comes."""
    await until(lambda: len(response.body) >= count or response.end)
    taken = bytes(response.body[:count])
    del response.body[:count]
    return taken


async def echoed(response):
    first, length = await heard(response, 2)
    if length > 125:
        length = int.from_bytes(await heard(response, 2 if length == 126 else 8), "big")
    return first, await heard(response, length)


async def hold():
    async with connect(sys.argv[1], int(sys.argv[2]), configuration=settings(), create_protocol=Tunnels) as client:
        await client.get("GET", "/")
        stream, response = client.open("/app/websocket")
        await until(lambda: response.status)
        say("a tunnel stands", response.status == 200, response.fields)
        print("open", flush=True)
        await until(lambda: response.end)
        say("a tunnel over HTTP/3 ends with the server", True)


async def silence(client):
    stream, response = client.open("/brief/websocket")
    await until(lambda: response.end)
    how = (response.status, response.end)
    say("a tunnel in which nobody speaks ends in order", how == (200, "whole"), how)


async def main():
    async with connect(sys.argv[1], int(sys.argv[2]), configuration=settings(), create_protocol=Tunnels) as client:
        page = await client.get("GET", "/")
        await until(lambda: client.http.received_settings)
        say("the server says that CONNECT may name a protocol", client.http.received_settings.get(8) == 1, client.http.received_settings)
        stream, response = client.open("/app/websocket")
        await until(lambda: response.status)
        say("a WebSocket opens", (page.status, response.status) == (200, 200), response.fields)
        for count in (0, 125, 65536, 1_000_000):
            content = os.urandom(count)
            client.say(stream, message(content))
            say(f"a message of {count} bytes comes back", await echoed(response) == (0x82, content))
        client.say(stream, CLOSE)
        await until(lambda: response.end)
        say("it ends in order", response.end == "whole", response.end)
        stream, response = client.open("/app/websocket/reset")
        say("before a reset there is an answer", await heard(response, 1) == b"x")
        client.say(stream, b"y")
        await until(lambda: response.end)
        say("the upstream's reset is one of the stream", response.end == f"reset {REQUEST_CANCELLED:#x}", response.end)
        for path, wanted in [("/app/say", 502), ("/app/drop", 502), ("/app/websocket/broken", 502), ("/app/status/403", 403), ("/", 501), ("/fixed/websocket", 501), ("/denied/a", 403)]:
            stream, response = client.open(path)
            client.say(stream, b"GET /app/other HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await until(lambda: response.end)
            say(f"{path} is no WebSocket", (response.status, response.end) == (wanted, "whole"), (response.end, response.fields))
        answer = await client.get("GET", "/app/trailers")
        behind = [answer.fields.get(name) for name in ("x-sum", "grpc-status", "set-cookie")]
        say("trailers come behind the content", (answer.end, bytes(answer.body), behind) == ("whole", b"abc", ["900150983c", "0", None]), answer.fields)
        stream, response = client.begin("POST", "/app/say")
        client.say(stream, b"body")
        client.http.send_headers(stream, [(b"x-sum", b"1"), (b"cookie", b"a=b")], end_stream=True)
        client.transmit()
        await until(lambda: response.end)
        say("a request's go to the upstream", b"\nbehind x-sum: 1\n" in response.body and b"behind cookie" not in response.body, response.body)
        stream, response = client.begin("POST", "/app/say")
        client.say(stream, b"body")
        client.http.send_headers(stream, [(b"x-a", b"1"), (b"x-sig", b"y" * 19000)], end_stream=True)
        client.transmit()
        await until(lambda: response.end)
        say("one that is too long is refused", response.status == 413, response.fields)
        await silence(client)
        for method, more in [("GET", ()), ("CONNECT", [("content-length", "5")])]:
            stream, response = client.open("/app/websocket", method=method, more=more)
            await until(lambda: response.end)
            say(f"{method} with a protocol and {len(more)} more is malformed", response.end == "reset 0x10e", response.end)


asyncio.run(hold() if sys.argv[3:] == ["hold"] else main())
sys.exit(failed())
