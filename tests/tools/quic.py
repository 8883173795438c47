"""Sessions of QUIC by aioquic, for what exos dump makes of them; see quic.sh.

    quic.py PORT KEYS CERTIFICATE KEY

They are with the web server on that port, and on the next ones with servers of aioquic's, which speak version 2 and have clients try again.
Prints "done"."""

import asyncio
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "serve"))
from aioquic.asyncio import serve  # noqa: E402
from aioquic.asyncio.client import connect  # noqa: E402
from aioquic.asyncio.protocol import QuicConnectionProtocol  # noqa: E402
from aioquic.h3.connection import H3_ALPN, H3Connection  # noqa: E402
from aioquic.h3.events import HeadersReceived  # noqa: E402
from aioquic.quic.configuration import QuicConfiguration  # noqa: E402
from aioquic.quic.packet import QuicProtocolVersion  # noqa: E402
from aioquic.tls import CipherSuite  # noqa: E402
from h3client import Client, settings  # noqa: E402

PORT, KEYS, CERTIFICATE, KEY = int(sys.argv[1]), *sys.argv[2:5]
V1, V2 = QuicProtocolVersion.VERSION_1, QuicProtocolVersion.VERSION_2


class Server(QuicConnectionProtocol):
    """Answers what is asked with nothing."""

    http = None

    def quic_event_received(self, event):
        self.http = self.http or H3Connection(self._quic)
        for part in self.http.handle_event(event):
            if isinstance(part, HeadersReceived):
                self.http.send_headers(part.stream_id, [(b":status", b"204"), (b"server", b"aioquic")], end_stream=True)
                self.transmit()


def begin(log, port=PORT, handler=None, waits=True, **more):
    """A connection of a client that logs its keys, or does not."""
    configuration = settings(secrets_log_file=log, **more)
    return connect("127.0.0.1", port, configuration=configuration, create_protocol=Client, session_ticket_handler=handler, wait_connected=waits)


async def with_web_server(log):
    for name, suite in [("aes256", CipherSuite.AES_256_GCM_SHA384), ("chacha", CipherSuite.CHACHA20_POLY1305_SHA256)]:
        async with begin(log, cipher_suites=[suite]) as client:
            await client.get("GET", f"/{name}")
    # Changes of keys and of identifiers, and several requests at once.
    async with begin(log) as client:
        await client.get("GET", "/large")
        for at in range(3):
            client.request_key_update()
            client.change_connection_id()
            await asyncio.gather(*(client.get("GET", f"/changed/{at}/{number}") for number in range(4)))
        await client.get("POST", "/posted", body=b"x" * 5000)
    # The server does not speak the first version.
    async with begin(log, original_version=V2, supported_versions=[V2, V1]) as client:
        await client.get("GET", "/other-version")
    # A hello that does not fit into a datagram, and a client with the longest of identifiers.
    async with begin(log, quantum_readiness_test=True) as client:
        await client.get("GET", "/two-datagrams")
    async with begin(log, connection_id_length=20) as client:
        await client.get("GET", "/long-name")
    tickets = []
    async with begin(log, handler=tickets.append) as client:
        await client.get("GET", "/ticket")
        for _ in range(100):
            if tickets:
                break
            await client.ping()
    async with begin(log, session_ticket=tickets[-1], waits=False) as client:
        await client.get("GET", "/resumed")
    async with begin(None) as client:
        await client.get("GET", "/untold")


async def with_own_servers(log):
    configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN, supported_versions=[V2, V1])
    configuration.load_cert_chain(CERTIFICATE, KEY)
    for port, retries in [(PORT + 1, False), (PORT + 2, True)]:
        server = await serve("127.0.0.1", port, configuration=configuration, create_protocol=Server, retry=retries)
        for name, versions in [("first", [V1]), ("second", [V2]), ("negotiated", [V1, V2])]:
            async with begin(log, port, original_version=versions[0], supported_versions=versions[::-1]) as client:
                await client.get("GET", f"/{name}-version/{'retried' if retries else 'at-once'}")
        if not retries:
            await with_table(log, port)
        server.close()


async def with_table(log, port):
    """Fields that come again and again: both ends allow QPACK's table, and name its entries."""
    async with begin(log, port) as client:
        field = [("x-table", "a value that is long enough to be kept")]
        for number in range(5):
            await client.get("GET", f"/table/{number}", field)
        await asyncio.gather(*(client.get("GET", f"/table/{number}", field) for number in range(5, 10)))
        assert client.http._encoder_bytes_sent > 40, "the table is used"


async def main():
    with open(KEYS, "a", buffering=1) as log:
        await with_web_server(log)
        await with_own_servers(log)
    print("done")


asyncio.run(main())
