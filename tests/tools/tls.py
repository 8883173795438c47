#!/usr/bin/env python3
"""A TLS server for tests/tools/tls.sh, and what tshark says of hellos, as `exos dump` writes it.

    tls.py serve PORT VERSION CERTIFICATE KEY COUNT (ends|cuts)   for each of COUNT connections: takes a line that says how many bytes
                                                                  follow, sends those back, and ends TLS or cuts it off
    tls.py hellos CAPTURE
"""
import socket
import ssl
import subprocess
import sys


def serve(port, version, certificate, key, count, end):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    wanted = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}[version]
    context.minimum_version = context.maximum_version = wanted
    listener = socket.create_server(("0.0.0.0", int(port)))
    print("listening", flush=True)
    for _ in range(int(count)):
        plain = listener.accept()[0]
        plain.settimeout(60)
        try:
            with context.wrap_socket(plain, server_side=True) as peer:
                echo(peer, end)
        except (ssl.SSLError, ConnectionError) as why:
            print(why, flush=True)


def echo(peer, end):
    taken = b""
    while b"\n" not in taken:
        some = peer.recv(1 << 16)
        if not some:
            return
        taken += some
    count, taken = taken.split(b"\n", 1)
    while len(taken) < int(count):
        taken += peer.recv(1 << 16)
    peer.sendall(taken)
    if end == "ends":
        peer.unwrap()
    else:
        socket.socket(fileno=peer.detach()).close()


VERSIONS = {"0x0301": "1.0", "0x0302": "1.1", "0x0303": "1.2", "0x0304": "1.3"}
FIELDS = ["type", "extensions_server_name", "extensions_alpn_str", "extensions.supported_version", "version"]


def hellos(capture):
    fields = [word for name in FIELDS for word in ("-e", "tls.handshake." + name)]
    every = ["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,"]
    # Each port is looked at.
    heuristic = ["--enable-heuristic", "tls_tcp"]
    said = subprocess.run(["tshark", "-r", capture, "-Y", "tls.handshake.type in {1,2}", *heuristic, *every, *fields],
                          capture_output=True, text=True, check=True).stdout
    for line in said.splitlines():
        kind, name, alpn, supported, version = (field.split(",") for field in line.split("\t"))
        known = [VERSIONS[it] for it in supported if it in VERSIONS] or [VERSIONS[version[0]]]
        words = ["ClientHello" if kind[0] == "1" else "ServerHello", name[0], ",".join(alpn), max(known)]
        print("TLS", *(word for word in words if word))


commands = {"serve": serve, "hellos": hellos}
commands[sys.argv[1]](*sys.argv[2:])
