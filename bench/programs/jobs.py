"""Programs of a few lines for `exos bench sockets`, whose jobs are in jobs.toml: a server and clients that say `rate N`."""
import asyncio
import socket
import struct
import sys
import time

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + bytes(1000)
CLIENTS = 10


def serve(port):
    """Answers requests with a page, on kept connections."""

    async def answer(reader, writer):
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(PAGE)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def forever():
        async with await asyncio.start_server(answer, "0.0.0.0", int(port), backlog=200) as server:
            await server.serve_forever()

    asyncio.run(forever())


def counted(seconds, step):
    """How often a step is made in this time."""
    begin, count = time.monotonic(), 0
    while (took := time.monotonic() - begin) < float(seconds):
        step()
        count += 1
    print("rate", count / took)


def request(url, seconds):
    """By `requests`, on a kept connection."""
    import requests

    with requests.Session() as session:
        counted(seconds, lambda: len(session.get(url, timeout=20).content) == 1000 or sys.exit("a wrong answer"))


def connect(host, port, seconds):
    """A connection after the other, each read to its end."""

    def step():
        with socket.create_connection((host, int(port)), 20) as s:
            if len(s.makefile("rb").read()) != 1000:
                sys.exit("a wrong answer")

    counted(seconds, step)


def get(host, port, seconds):
    """By `asyncio`, a request after the other on each of some connections."""

    async def client(end):
        reader, writer = await asyncio.open_connection(host, int(port))
        count = 0
        while time.monotonic() < end:
            writer.write(b"GET /small HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(1000)
            count += 1
        writer.close()
        return count

    async def clients():
        end = time.monotonic() + float(seconds)
        return sum(await asyncio.gather(*[client(end) for _ in range(CLIENTS)]))

    print("rate", asyncio.run(clients()) / float(seconds))


def ask(server, seconds):
    """A name, of a name server: as many questions under way; all again where nothing comes."""
    question = struct.pack("!5H", 0x100, 1, 0, 0, 0) + b"\4name\3lab\0" + struct.pack("!2H", 1, 1)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(1)
    s.connect((server, 53))

    def ask_all():
        for number in range(CLIENTS):
            s.send(struct.pack("!H", number) + question)

    def step():
        try:
            answer = s.recv(1500)
        except TimeoutError:
            ask_all()
            answer = s.recv(1500)
        if not answer.endswith(socket.inet_aton("192.0.2.77")):
            sys.exit("a wrong answer")
        s.send(answer[:2] + question)

    ask_all()
    counted(seconds, step)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
