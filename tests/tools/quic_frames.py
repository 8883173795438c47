"""Whether exos dump's lines of a capture have the packets and frames of QUIC that tshark finds in it; see quic.sh.

    quic_frames.py CAPTURE KEYS DUMPED

tshark says of each datagram the numbers of its packets, the types of their frames, and identifiers and places of streams. It does not cut
what a kernel was given uncut, and does not decrypt all that is behind a change of keys or of version: where it says nothing, nothing is
compared, and a datagram that it gives up in the middle is compared up to there. Prints "ok NAME" or "not ok NAME: why" lines; ends with 1 when
one was not ok.
"""

import re
import subprocess
import sys

from common import failed, say

CAPTURE, KEYS, DUMPED = sys.argv[1:4]
FIELDS = ["quic.packet_number", "quic.frame_type", "quic.stream.stream_id", "quic.stream.offset", "http3.frame_type"]
# RFC 9000 §19.
NAMES = ["PADDING", "PING", "ACK", "ACK", "RESET_STREAM", "STOP_SENDING", "CRYPTO", "NEW_TOKEN", *["STREAM"] * 8, "MAX_DATA", "MAX_STREAM_DATA"]
NAMES += ["MAX_STREAMS", "MAX_STREAMS", "DATA_BLOCKED", "STREAM_DATA_BLOCKED", "STREAMS_BLOCKED", "STREAMS_BLOCKED", "NEW_CONNECTION_ID"]
NAMES += ["RETIRE_CONNECTION_ID", "PATH_CHALLENGE", "PATH_RESPONSE", "CONNECTION_CLOSE", "CONNECTION_CLOSE", "HANDSHAKE_DONE"]
# And of draft-ietf-quic-ack-frequency.
NAMES = {**dict(enumerate(NAMES)), 0x1F: "IMMEDIATE_ACK", 0xAF: "ACK_FREQUENCY"}
# Behind a datagram that was not cut tshark takes the zeros of a body for frames of data: those are not counted.
HTTP3 = {1: "HEADERS", 4: "SETTINGS", 7: "GOAWAY", 13: "MAX_PUSH_ID"}


def theirs():
    """Of each datagram: numbers, frames, streams, frames of HTTP/3."""
    ports = [f"udp.port=={port},quic" for port in (8443, 8444, 8445)]
    command = ["tshark", "-r", CAPTURE, "-o", f"tls.keylog_file:{KEYS}", "-T", "fields", "-E", "occurrence=a", "-E", "aggregator= "]
    command += [word for port in ports for word in ("-d", port)] + [word for field in FIELDS for word in ("-e", field)]
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        numbers, frames, streams, places, http3 = ([int(word, 0) for word in part.split()] for part in line.split("\t"))
        # Where one begins its stream, it has no place.
        places, with_place = iter(places), [kind & 4 for kind in frames if 8 <= kind < 16]
        streams = [(stream, next(places) if placed else 0) for stream, placed in zip(streams, with_place)]
        yield numbers, [NAMES[kind] for kind in frames], streams, [HTTP3[kind] for kind in http3 if kind in HTTP3]


def ours(line):
    numbers = [int(number) for number in re.findall(r"(?:Initial|Handshake|0-RTT|1-RTT)[^#,{]* #(\d+)", line)]
    packets = [[word.split(" ") for word in part.split(", ")] for part in re.findall(r"\{([^}]*)\}", line)]
    words = [word for packet in packets for word in packet]
    # How many frames there are up to the end of each packet.
    ends = [sum(map(len, packets[:count])) for count in range(len(packets) + 1)]
    streams = [(int(word[1]), int(word[2].split(":")[0])) for word in words if word[0] == "STREAM"]
    http3 = re.findall(r" HTTP/3 (?:control HTTP/3 )?(HEADERS|SETTINGS|GOAWAY|MAX_PUSH_ID)", line)
    return numbers, [word[0] for word in words], streams, http3, ends


def main():
    with open(DUMPED, encoding="ascii") as dumped:
        lines = dumped.read().splitlines()
    found = list(theirs())
    say("a line for each packet", len(lines) == len(found), f"{len(lines)} of {len(found)}")
    wrong, silent, compared, parts, http3 = [], 0, 0, 0, [0, 0]
    for at, (line, wanted) in enumerate(zip(lines, found), 1):
        got = ours(line)
        http3[0] += len(wanted[3])
        http3[1] += len(got[3])
        if not wanted[1]:
            silent += bool(got[1])
            continue
        compared += len(wanted[1])
        # A packet that it has not decrypted has no frames, and a number or none: its frames are those of the packets before.
        is_part = all(part == whole[: len(part)] for part, whole in zip(wanted[1:3], got[1:3])) and len(wanted[1]) in got[4]
        parts += is_part and got[:3] != wanted[:3]
        if not is_part or (len(wanted[0]) <= len(got[0]) and wanted[0] != got[0][: len(wanted[0])]):
            wrong.append(f"{at}: {wanted[:3]} is {got[:3]}")
    say("packets, frames and streams are those that tshark finds", not wrong, f"{len(wrong)}: {wrong[:3]}")
    say("there are many", compared > 700 and parts < 20, (compared, parts))
    say("of HTTP/3 there are as many frames, or more", http3[1] >= http3[0] > 150, http3)
    print(f"# {compared} frames compared; {silent} datagrams that tshark says nothing of, {parts} of which it says a part")
    sys.exit(failed())


main()
