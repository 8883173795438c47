"""Asks on one connection until others are shown another certificate, and then once more.

    acme.py IP PORT ROOT NAME
"""
import http.client
import socket
import ssl
import sys
import time

ip, port, root, name = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
trust = ssl.create_default_context(cafile=root)


def connect():
    return trust.wrap_socket(socket.create_connection((ip, port), 30), server_hostname=name)


def shown():
    with connect() as stream:
        return stream.getpeercert()["serialNumber"]


kept = http.client.HTTPConnection(name)
kept.sock = connect()
before = kept.sock.getpeercert()["serialNumber"]
asked = 0
while True:
    is_renewed = shown() != before
    kept.request("GET", "/")
    answer = kept.getresponse()
    assert answer.status == 200 and answer.read() == b"home\n", answer.status
    asked += 1
    if is_renewed:
        break
    time.sleep(0.2)
print(f"{asked} answers on one connection")
