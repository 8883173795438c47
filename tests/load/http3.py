"""A server of HTTP/3 (aioquic's) that does what is asked of it: http3.py ADDRESS PORT CERTIFICATE KEY HOW

HOW is `answers`, `resets` (every fifth), `rejects` (every fifth is not looked at), `goaway` (after ten
requests of a connection), `refuses` (goes away at once), `closes` (with an error, after five), `push`, `settings` (twice), `short` (a
body that is shorter than it says), `drops` (says nothing at all), `upload`. Says "ready", and at the end of its input what it saw.
"""

import asyncio
import hashlib
import json
import sys

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.buffer import encode_uint_var
from aioquic.h3.connection import FrameType, H3Connection, StreamType, encode_frame
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, ProtocolNegotiated

address, port, certificate, key, how = sys.argv[1:]
saw = {"requests": 0, "connections": 0, "most": 0, "bodies": [], "codes": []}
REQUEST_REJECTED, INTERNAL_ERROR, EXCESSIVE_LOAD = 0x10B, 0x102, 0x107


class Server(QuicConnectionProtocol):
    http = None
    requests = 0
    is_gone = False

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            saw["connections"] += 1
            self.http = H3Connection(self._quic)
            self.under_way, self.bodies = set(), {}
            if how == "settings":
                self.control(encode_frame(FrameType.SETTINGS, b""))
            if how == "refuses":
                self.go_away(0)
        if isinstance(event, ConnectionTerminated):
            saw["codes"].append(event.error_code)
        if self.http is None:
            return
        for one in self.http.handle_event(event):
            if isinstance(one, HeadersReceived):
                self.bodies[one.stream_id] = b""
                self.under_way.add(one.stream_id)
                saw["most"] = max(saw["most"], len(self.under_way))
            if isinstance(one, DataReceived):
                self.bodies[one.stream_id] += one.data
            if isinstance(one, (HeadersReceived, DataReceived)) and one.stream_ended:
                # Others come to be under way in the meantime.
                asyncio.get_running_loop().call_later(0.001, self.answer, one.stream_id)

    def control(self, frame):
        self._quic.send_stream_data(self.http._local_control_stream_id, frame)

    def go_away(self, stream):
        self.is_gone = True
        self.control(encode_frame(FrameType.GOAWAY, encode_uint_var(stream)))

    def answer(self, stream):
        self.under_way.discard(stream)
        number = self.requests
        if how == "drops" or self.is_gone and stream >= self.gone_from():
            return
        self.requests += 1
        saw["requests"] += 1
        if how == "upload":
            saw["bodies"].append(hashlib.sha256(self.bodies[stream]).hexdigest())
        if how == "closes" and number >= 5:
            self._quic.close(error_code=EXCESSIVE_LOAD)
            return self.transmit()
        if how in ("resets", "rejects") and number % 5 == 4:
            self._quic.reset_stream(stream, INTERNAL_ERROR if how == "resets" else REQUEST_REJECTED)
            return self.transmit()
        if how == "push":
            self._quic.send_stream_data(stream, encode_frame(FrameType.PUSH_PROMISE, b"\0\0\0"))
            return self.transmit()
        length = b"6" if how == "short" else b"5"
        self.http.send_headers(stream, [(b":status", b"103"), (b"link", b"</a>")])
        self.http.send_headers(stream, [(b":status", b"200"), (b"content-length", length), (b"server", b"aioquic")])
        self.http.send_data(stream, b"hello", end_stream=True)
        if how == "goaway" and self.requests == 10:
            self.go_away(stream + 4)
            self.limit = stream + 4
        self.transmit()

    def gone_from(self):
        return 0 if how == "refuses" else self.limit


async def main():
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["h3"])
    configuration.load_cert_chain(certificate, key)
    server = await serve(address, int(port), configuration=configuration, create_protocol=Server)
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print(json.dumps(saw), flush=True)
    server.close()


asyncio.run(main())
