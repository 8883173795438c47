"""Messages of a WebSocket as its client sends them (RFC 6455 §5.2)."""

import os

CLOSE = b"\x88\x80\0\0\0\0"


def message(content):
    length, mask = len(content), os.urandom(4)
    head = b"\x82" + (bytes([0x80 | length]) if length < 126 else b"\xfe" + length.to_bytes(2, "big") if length < 65536 else b"\xff" + length.to_bytes(8, "big"))
    masked = (int.from_bytes(content, "big") ^ int.from_bytes((mask * (length // 4 + 1))[:length], "big")).to_bytes(length, "big")
    return head + mask + masked
