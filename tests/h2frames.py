"""Frames of HTTP/2 as tests' clients write and read them by hand (RFC 9113)."""

import struct

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def number(value):
    return struct.pack(">I", value)


def literal(name, value):
    """A field that enters no table (RFC 7541, 6.2.2), with lengths below 127."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def digits(coded):
    """Digits by the code of RFC 7541, Appendix B: 0 to 2 have five bits, the others six."""
    bits, text = "".join(f"{byte:08b}" for byte in coded), ""
    while len(bits) >= 5 and not set(bits) == {"1"}:
        taken = 5 if bits < "00011" else 6
        text += str(int(bits[:5], 2) if taken == 5 else int(bits[:6], 2) - 0b011001 + 3)
        bits = bits[taken:]
    return text


def status(block):
    """Of a block that begins with it, as a server's does (RFC 9113, 8.3)."""
    # What a table's size is from here on comes first.
    while block[0] & 0xE0 == 0x20:
        block = block[1:]
    known = {0x88: 200, 0x89: 204, 0x8A: 206, 0x8B: 304, 0x8C: 400, 0x8D: 404, 0x8E: 500}
    if block[0] in known:
        return known[block[0]]
    length = block[1] & 0x7F
    value = block[2 : 2 + length]
    return int(digits(value) if block[1] & 0x80 else value)
