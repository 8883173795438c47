"""What a packet capture and the results of a load say of the same requests, beside each other.

    capture.py RESULTS CAPTURE SERVER:PORT

The capture is a file of tcpdump's with nanoseconds (`--time-stamp-precision=nano -w`), of Ethernet and IPv4, taken where the
server is. A request is the first segment with data to the server since the last response, or the SYN before it, since the time
of a connection is part of its first request's; and its response is all data to the client until the next. Prints JSON: how
many of both there are, and for first bytes and last ones the percentiles of both, in microseconds."""

import json
import socket
import struct
import sys
from collections import defaultdict

POINTS = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def packets(path):
    """Times in nanoseconds, and the frames."""
    data = open(path, "rb").read()
    magic, _, _, _, _, _, link = struct.unpack_from("<IHHiIII", data)
    if magic != 0xA1B23C4D or link != 1:
        sys.exit(f"{path} is no capture of Ethernet with nanoseconds")
    at = 24
    while at + 16 <= len(data):
        seconds, nanoseconds, captured, _ = struct.unpack_from("<IIII", data, at)
        yield seconds * 10**9 + nanoseconds, data[at + 16 : at + 16 + captured]
        at += 16 + captured


def segments(path):
    """Times, ends, how much data of TCP a packet has, and whether it is a SYN; lengths are the headers', since captures cut."""
    for time, frame in packets(path):
        if len(frame) < 54 or frame[12:14] != b"\x08\x00" or frame[23] != 6:
            continue
        ip = 4 * (frame[14] & 15)
        length = struct.unpack_from("!H", frame, 16)[0]
        tcp = 14 + ip
        ports = struct.unpack_from("!HH", frame, tcp)
        data = length - ip - 4 * (frame[tcp + 12] >> 4)
        ends = [(frame[26 + 4 * n : 30 + 4 * n], ports[n]) for n in (0, 1)]
        yield time, ends[0], ends[1], data, frame[tcp + 13] & 2 != 0


def visits(path, server):
    """For each request the times of its first byte, and of its last one, in microseconds after it."""
    open_ones = {}
    done = []
    for time, source, target, data, is_syn in segments(path):
        if data <= 0 and not is_syn:
            continue
        if target == server:
            if source in open_ones and open_ones[source][1] is not None:
                done.append(open_ones.pop(source))
            open_ones.setdefault(source, [time, None, None])
        elif source == server and target in open_ones and data > 0:
            visit = open_ones[target]
            visit[1] = visit[1] or time
            visit[2] = time
    done.extend(visit for visit in open_ones.values() if visit[1] is not None)
    return [((first - begun) / 1000, (last - begun) / 1000) for begun, first, last in done]


def points(values):
    values = sorted(values)
    return {name: round(values[min(len(values) - 1, int(q * len(values)))], 1) for name, q in POINTS.items()} if values else None


def main():
    results = json.load(open(sys.argv[1]))
    address, port = sys.argv[3].rsplit(":", 1)
    seen = visits(sys.argv[2], (socket.inet_aton(address), int(port)))
    times = results["times_us"]
    said = {name: {point: times[name][point] for point in POINTS} for name in ("first_byte", "service", "total")}
    captured = {"first_byte": points([first for first, _ in seen]), "service": points([last for _, last in seen])}
    print(json.dumps({
        "responses": results["responses"],
        "captured": len(seen),
        "results_us": said,
        "capture_us": captured,
        "median_apart_us": {
            name: captured[name] and round(times[name]["p50"] - captured[name]["p50"], 1) for name in captured
        },
    }))


main()
