"""A client of HTTP/3 by aioquic, for tests of a server: what is asked and answered, and how the client is to be."""

import asyncio
import ssl

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset


def settings(**more):
    """Of a client that looks at no certificate."""
    return QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_NONE, server_name="localhost", **more)


class Response:
    def __init__(self):
        self.fields, self.body, self.end = {}, bytearray(), None
        self.has_body, self.has_ended = asyncio.Event(), asyncio.Event()

    def finish(self, how):
        self.end = how
        self.has_body.set()
        self.has_ended.set()

    @property
    def status(self):
        return int(self.fields.get(":status", 0))


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.http, self.responses = H3Connection(self._quic), {}
        # How the connection was ended, and which streams were.
        self.ended_by, self.reset = None, {}

    def quic_event_received(self, event):
        if isinstance(event, StreamReset):
            self.reset[event.stream_id] = event.error_code
        if isinstance(event, StreamReset) and event.stream_id in self.responses:
            self.responses.pop(event.stream_id).finish(f"reset {event.error_code:#x}")
        if isinstance(event, ConnectionTerminated):
            self.ended_by = event.error_code
            for response in self.responses.values():
                response.finish(f"closed {event.error_code:#x}")
            self.responses = {}
        for part in self.http.handle_event(event):
            response = self.responses.get(getattr(part, "stream_id", None))
            if response is None:
                continue
            if isinstance(part, HeadersReceived):
                response.fields.update((name.decode(), value.decode()) for name, value in part.headers)
            elif isinstance(part, DataReceived):
                response.body.extend(part.data)
                response.has_body.set()
            if part.stream_ended:
                self.responses.pop(part.stream_id).finish("whole")

    def ask(self, method, path, fields=(), body=None):
        stream, response = self._quic.get_next_available_stream_id(), Response()
        self.responses[stream] = response
        own = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
        head = [(name.encode(), value.encode()) for name, value in own + list(fields)]
        self.http.send_headers(stream, head, end_stream=body is None)
        if body is not None:
            self.http.send_data(stream, body, True)
        self.transmit()
        return response

    async def get(self, *args, **named):
        response = self.ask(*args, **named)
        await asyncio.wait_for(response.has_ended.wait(), 300)
        return response
