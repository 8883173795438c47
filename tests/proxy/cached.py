#!/usr/bin/env python3
"""An upstream whose answers are to be kept, or not; see cache.sh.

    cached.py PORT LOG [CERTIFICATE KEY]

The query says what is answered: `len=N` bytes of content, `status=N`, `tag=T` an entity tag (a request with If-None-Match of it is a 304), `field=NAME:VALUE`, once
or several times. Each request is a line of the log: the method, the target and what it says in If-None-Match. While there is a file called
LOG.down, every request is answered with 503, and while there is one called LOG.hold, none is answered.
"""

import os
import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PORT, LOG = int(sys.argv[1]), sys.argv[2]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, fields, content):
        # Date and Server are this server's own to leave out.
        self.send_response_only(status)
        for name, value in fields:
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_GET(self):
        said = parse_qs(urlsplit(self.path).query)
        known = self.headers.get("If-None-Match", "-")
        with open(LOG, "a", encoding="ascii") as log:
            log.write(f"{self.command} {self.path} {known}\n")
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if os.path.exists(LOG + ".down"):
            return self.answer(503, [], b"down")
        while os.path.exists(LOG + ".hold"):
            time.sleep(0.02)
        fields = [tuple(field.split(":", 1)) for field in said.get("field", [])]
        tag = said.get("tag", [None])[0]
        if tag:
            fields.append(("ETag", f'"{tag}"'))
        if tag and known == f'"{tag}"':
            return self.answer(304, fields, b"")
        length = int(said.get("len", ["10"])[0])
        return self.answer(int(said.get("status", ["200"])[0]), fields, (b"0123456789" * (length // 10 + 1))[:length])

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


SERVER = Server(("127.0.0.1", PORT), Handler)
if len(sys.argv) > 3:
    CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    CONTEXT.load_cert_chain(sys.argv[3], sys.argv[4])
    SERVER.socket = CONTEXT.wrap_socket(SERVER.socket, server_side=True)
SERVER.serve_forever()
