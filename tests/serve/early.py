"""What `early.sh` needs of clients that send early data, and of an upstream.

    early.py record IP PORT FLIGHT OPTIONS...   keeps the first flight of `openssl s_client OPTIONS...` from the server, in a file
    early.py send IP PORT FLIGHT COPIES [LEN]   sends it as often, at once, or as much of it, and reads what is answered to that
    early.py frames FILE                        writes requests of HTTP/2
    early.py upstream PORT                      answers 425 what says Early-Data: 1
"""

import http.server
import socket
import struct
import subprocess
import sys
import threading

from common import PATIENCE


def record(ip, port, flight, *options):
    listener = socket.create_server(("127.0.0.1", 0))
    there = f"127.0.0.1:{listener.getsockname()[1]}"
    client = subprocess.Popen(["openssl", "s_client", "-connect", there, *options],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    connection, _ = listener.accept()
    connection.settimeout(PATIENCE)
    bytes_ = b""
    # A hello, what middleboxes want to see, and data.
    while [23] != [kind for kind in kinds(bytes_)][-1:]:
        piece = connection.recv(65536)
        assert piece, f"it has sent {list(kinds(bytes_))}"
        bytes_ += piece
    with open(flight, "wb") as file:
        file.write(bytes_)
    connection.close()
    client.kill()
    client.wait()


def kinds(bytes_):
    """The types of whole records."""
    while len(bytes_) >= 5 and len(bytes_) >= (end := 5 + struct.unpack(">H", bytes_[3:5])[0]):
        yield bytes_[0]
        bytes_ = bytes_[end:]


def send(ip, port, flight, copies, length=None):
    with open(flight, "rb") as file:
        bytes_ = file.read()
    bytes_ = bytes_[:int(length)] if length else bytes_
    connections = [socket.create_connection((ip, int(port)), timeout=PATIENCE) for _ in range(int(copies))]
    together = threading.Barrier(len(connections))

    def one(connection):
        together.wait()
        connection.sendall(bytes_)
        if not length:
            assert connection.recv(65536), "nothing was answered"
        connection.close()

    threads = [threading.Thread(target=one, args=(connection,)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def frames(path):
    def frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    def text(index, value):
        return bytes([index, len(value)]) + value

    def request(stream, method, target):
        # RFC 7541 §A: :scheme https is 7, :authority 1, :path 4.
        return frame(1, 5, stream, bytes([method, 0x87]) + text(1, b"a.test") + text(4, target))

    with open(path, "wb") as file:
        file.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
        file.write(request(1, 0x82, b"/h2-get") + request(3, 0x83, b"/h2-post"))
        file.write(frame(7, 0, 0, bytes(8)))


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        said = self.headers.get_all("Early-Data") or []
        self.send_response(425 if said == ["1"] else 200)
        body = ("early " + ",".join(said)).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def upstream(port):
    http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Upstream).serve_forever()


{"record": record, "send": send, "frames": frames, "upstream": upstream}[sys.argv[1]](*sys.argv[2:])
