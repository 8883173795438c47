#!/usr/bin/env python3
"""A client of HTTP/3 by aioquic whose address changes, and others that go to a server's limits.

    quic.py HOST PORT FOLDER TEST...

The server has FOLDER. Prints "ok NAME" and "not ok NAME: why" lines.

    migrate    from one port to the next, between requests and while a file is under way (RFC 9000 section 9)
    retry      many handshakes are begun and not gone on with; then clients have to show their address (section 8.1.2)
    limits     streams, requests that are given up, control streams that say too much or too little (RFC 9114 section 10.5)
    early      with a ticket of a connection before, a request leaves with the hello (RFC 9001 section 4.6), of a server that takes it
    slow       clients that do not go on: with their request, or with reading (takes half a minute)
"""

import asyncio
import os
import socket
import sys

from aioquic.asyncio.client import connect
from aioquic.buffer import encode_uint_var
from aioquic.h3.connection import ErrorCode
from aioquic.quic.connection import QuicConnection
from h3client import Client, settings

HOST, PORT, FOLDER = sys.argv[1], int(sys.argv[2]), sys.argv[3]
# Of several cores, as many as this are not missed by chance: each goes to the same one as before at one in two.
MOVES = 20
# Clients have to show their address from 64 handshakes under way on.
HANDSHAKES = 80
# Requests that a client may give up before it must have been ended: 256 in a row and 64 in each second are nothing.
GIVEN_UP = 20_000


def report(name, got, wanted):
    print(f"ok {name}" if got == wanted else f"not ok {name}: {got!r} in place of {wanted!r}", flush=True)


def content(name):
    with open(os.path.join(FOLDER, name), "rb") as file:
        return file.read()


def session(**more):
    return connect(HOST, PORT, configuration=settings(**more), create_protocol=Client)


def own_socket():
    """At a port that is free, for both families."""
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    sock.bind(("::", 0, 0, 0))
    return sock


async def move(client):
    """From now on from another port."""
    before = client._transport
    await asyncio.get_running_loop().create_datagram_endpoint(lambda: client, sock=own_socket())
    # What is under way to the port before is lost; the connection does not end with it.
    client.connection_lost = lambda _: None
    before.close()


async def migrate():
    async with session() as client:
        # Nobody moves before the handshake is confirmed (RFC 9000 §9): what confirms it would go to where the client was.
        while not client._quic._handshake_confirmed:
            await client.get("GET", "/")
        bodies = set()
        for _ in range(MOVES):
            await move(client)
            bodies.add(bytes((await client.get("GET", "/middle.bin")).body))
        report(f"{MOVES} times from another port, and answered", bodies, {content("middle.bin")})
        file = client.ask("GET", "/long.bin")
        await file.has_body.wait()
        moved, length = 0, len(content("long.bin"))
        # With each sixth of it that has come.
        while not file.has_ended.is_set() and moved < 5:
            if len(file.body) * 6 < length * (moved + 1):
                await asyncio.sleep(0.005)
                continue
            await move(client)
            # With nothing to acknowledge it would have nothing to send, and the server would not learn where it is (RFC 9000 §9.2).
            client._quic.send_ping(moved)
            client.transmit()
            moved += 1
        await asyncio.wait_for(file.has_ended.wait(), 300)
        report("a file goes on from there", (bytes(file.body) == content("long.bin"), moved > 0), (True, True))


async def silent_hellos():
    """Begins handshakes, and hears nothing of them."""
    sock, loop = own_socket(), asyncio.get_running_loop()
    for _ in range(HANDSHAKES):
        quic = QuicConnection(configuration=settings())
        quic.connect((f"::ffff:{HOST}", PORT, 0, 0), now=loop.time())
        for data, address in quic.datagrams_to_send(now=loop.time()):
            sock.sendto(data, address)
    return sock


async def retry():
    async with session() as client:
        await client.get("GET", "/")
        report("few clients have nothing to show", client._quic._retry_source_connection_id, None)
    socks, shown = [], 0
    for _ in range(10):
        # Again each time: the server waits for those before only so long.
        socks.append(await silent_hellos())
        async with session() as client:
            answer = await client.get("GET", "/middle.bin")
            report("a client is served all the same", bytes(answer.body) == content("middle.bin"), True)
            shown = client._quic._retry_source_connection_id is not None
        if shown:
            break
        await asyncio.sleep(0.1)
    report("behind many handshakes it shows its address first", shown, True)
    for sock in socks:
        sock.close()


async def ended_by(client):
    await asyncio.wait_for(client.wait_closed(), 60)
    return client.ended_by


async def limits():
    async with session() as client:
        await client.get("GET", "/")
        report("128 requests at once", client._quic._remote_max_streams_bidi, 128)
    # Windows that hold none of the responses whole: each is given up while it is under way, and costs the client a packet or two.
    async with session(max_stream_data=1000) as client:
        await client.get("GET", "/")
        # The server forgives some of them each second: a slow client needs more of them than a fast one to go too far.
        for _ in range(GIVEN_UP):
            # It would give up streams, too, that it may not begin yet.
            while client.ended_by is None and client._quic.get_next_available_stream_id() // 4 >= client._quic._remote_max_streams_bidi:
                await asyncio.sleep(0.001)
            if client.ended_by is not None:
                break
            client.ask("GET", "/long.bin")
            stream = max(client.responses)
            client._quic.reset_stream(stream, ErrorCode.H3_REQUEST_CANCELLED)
            client._quic.stop_stream(stream, ErrorCode.H3_REQUEST_CANCELLED)
            client.transmit()
            await asyncio.sleep(0)
        report("requests that are given up in numbers", await ended_by(client), ErrorCode.H3_EXCESSIVE_LOAD)
    async with session() as client:
        await client.get("GET", "/")
        control = client.http._local_control_stream_id
        # A frame of a kind that is not known (section 7.2.8), again and again.
        waste = encode_uint_var(0x21) + encode_uint_var(1000) + bytes(1000)
        for _ in range(100):
            if client.ended_by is not None:
                break
            client._quic.send_stream_data(control, waste)
            client.transmit()
            await asyncio.sleep(0)
        report("a control stream that says nothing, at length", await ended_by(client), ErrorCode.H3_EXCESSIVE_LOAD)
    async with session() as client:
        await client.get("GET", "/")
        client._quic.send_stream_data(client.http._local_control_stream_id, b"", end_stream=True)
        client.transmit()
        report("a control stream that ends", await ended_by(client), ErrorCode.H3_CLOSED_CRITICAL_STREAM)
    async with session() as client:
        fields = [(f"x-{n}", "y" * 4000) for n in range(14)]
        answer = await client.get("GET", "/", fields)
        report("a head that is longer than any", answer.end, f"reset {ErrorCode.H3_EXCESSIVE_LOAD:#x}")
        answer = await client.get("GET", "/")
        report("ends that request alone", answer.status, 200)


async def ticket():
    """Of a connection by which something was asked."""
    tickets = []
    async with connect(HOST, PORT, configuration=settings(), create_protocol=Client, session_ticket_handler=tickets.append) as client:
        while not tickets:
            await client.get("GET", "/")
    return tickets[0]


async def with_hello(own, method, path, body=None):
    """What is answered, and whether it left with the hello and was taken then."""
    configuration = settings(session_ticket=own)
    async with connect(HOST, PORT, configuration=configuration, create_protocol=Client, wait_connected=False) as client:
        answer = await client.get(method, path, body=body)
        return answer, client._quic.tls.early_data_accepted


async def early():
    first, second = await ticket(), await ticket()
    answer, accepted = await with_hello(first, "GET", "/middle.bin")
    report("a request comes with the hello", (bytes(answer.body) == content("middle.bin"), accepted), (True, True))
    answer, accepted = await with_hello(first, "GET", "/middle.bin")
    report("by a ticket that was used it is asked again", (bytes(answer.body) == content("middle.bin"), accepted), (True, False))
    answer, accepted = await with_hello(second, "POST", "/", b"x")
    report("one that is not safe is not taken so early", (answer.status, accepted), (425, True))


async def slow():
    async with session() as half, session(max_data=100_000, max_stream_data=100_000) as deaf, session() as other:
        # A request of which nothing but the beginning of a frame comes.
        stream = half._quic.get_next_available_stream_id()
        half._quic.send_stream_data(stream, encode_uint_var(1) + encode_uint_var(100))
        half.transmit()
        # A response that is not read: no window is given, however much has come.
        deaf._quic._write_connection_limits = lambda **_: None
        deaf._quic._write_stream_limits = lambda **_: None
        held = deaf.ask("GET", "/long.bin")
        served = set()
        # It has 20 s, and as many more as a busy machine takes.
        for _ in range(15):
            await asyncio.sleep(4)
            answer = await other.get("GET", "/middle.bin")
            served.add((answer.status, bytes(answer.body) == content("middle.bin")))
            if stream in half.reset:
                break
        report("others are served meanwhile", served, {(200, True)})
        report("one that does not read gets what it has room for", len(held.body) <= 100_000, True)
        report("one whose request does not come is given up", half.reset.get(stream), ErrorCode.H3_REQUEST_INCOMPLETE)


async def main():
    for test in sys.argv[4:]:
        await {"migrate": migrate, "retry": retry, "limits": limits, "early": early, "slow": slow}[test]()


asyncio.run(main())
print("end")
