#!/usr/bin/env bash
# Our TCP and Linux's on bad wires: a file each way at the same time over one connection, either of them
# opening it, both families, over the lab's emulated wire. Linux with itself does the same, to show what the
# wire allows. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/wire.sh PATH/TO/exos
#
# Everything happens in namespaces of a lab of its own and takes about half a minute; what is started is ended
# by its id, also when this script is interrupted.
set -uo pipefail
exos=$(realpath "$1")
linux=$(dirname "$(realpath "$0")")/wire.py
lab=badwire-$$
work=$(mktemp -d)
failures=0
peer=

cleanup() {
    [ -z "$peer" ] || kill -KILL "$peer" 2>/dev/null
    "$exos" lab down --name $lab >/dev/null 2>&1
    rm -rf "$work"
}
ok() { echo "ok $1"; }
bad() { echo "not ok $1: ${2:-}"; failures=$((failures + 1)); }
inside() { "$exos" lab exec --name $lab "$@"; }
# await SECONDS COMMAND...: until it succeeds.
await() { local end=$((SECONDS + $1)); shift; until "$@" 2>/dev/null; do [ $SECONDS -lt $end ] || return 1; sleep 0.05; done; }

[ "$(id -u)" = 0 ] || { echo "SKIPPED: bad wires: needs root"; exit 0; }
command -v python3 >/dev/null || { echo "SKIPPED: bad wires: python3 is not installed (apt-get install python3)"; exit 0; }
trap cleanup EXIT
trap 'exit 130' INT TERM

head -c 1500000 /dev/urandom >"$work/one"
head -c 1500000 /dev/urandom >"$work/other"
head -c 300000 /dev/urandom >"$work/short"
own=(--link xdp:wire --address 10.10.0.10/24 --address fd10::10/64)
port=20000

# listening PORT: Linux listens there in b.
listening() { [ -n "$(inside b -- ss -Hltn "sport = :$1")" ]; }
# whole NAME [FILE]: both files came across, the one that goes to a being FILE.
whole() {
    local why=
    cmp -s "$work/one" "$work/got-one" || why="what was sent: $(cmp "$work/one" "$work/got-one" 2>&1)"
    cmp -s "$work/${2:-other}" "$work/got-other" || why="$why what came back: $(cmp "$work/${2:-other}" "$work/got-other" 2>&1)"
    [ -z "$why" ] && ok "$1" || bad "$1" "$why $(cat "$work/err" "$work/err-linux" | head -c 500)"
}

# we_open NAME ADDRESS PROGRAM...: the program runs in a and connects; Linux listens in b.
we_open() {
    local name=$1 address=$2; shift 2
    rm -f "$work"/got-*
    inside b -- python3 "$linux" listen "$address" $port "$work/other" "$work/got-one" 2>"$work/err-linux" & peer=$!
    await 60 listening $port
    inside a -- timeout 120 "$@" <"$work/one" >"$work/got-other" 2>"$work/err"
    wait $peer; peer=
    whole "$name"
    port=$((port + 1))
}

# they_open NAME ADDRESS: we listen in a. A SYN that comes before we do is sent again.
they_open() {
    rm -f "$work"/got-* "$work/err"
    # Like netcat, one that listens ends when its peer has finished: so its file is the shorter.
    inside a -- timeout 120 "$exos" cat --listen --port $port "${own[@]}" <"$work/short" >"$work/got-one" 2>"$work/err" & peer=$!
    await 60 grep -q "listening" "$work/err"
    inside b -- python3 "$linux" connect "$2" $port "$work/one" "$work/got-other" 2>"$work/err-linux"
    wait $peer; peer=
    whole "$1" short
    port=$((port + 1))
}

while read -r name settings; do
    # shellcheck disable=SC2086
    "$exos" lab up --name $lab --wire plain --seed 7 $settings >/dev/null || { bad "lab up $settings"; continue; }
    we_open "$name wire: Linux with Linux" 10.10.0.2 python3 "$linux" connect 10.10.0.2 $port /dev/stdin /dev/stdout
    we_open "$name wire: we open, IPv4" 10.10.0.2 "$exos" cat "${own[@]}" 10.10.0.2:$port
    we_open "$name wire: we open, IPv6" fd10::2 "$exos" cat "${own[@]}" "[fd10::2]:$port"
    they_open "$name wire: they open, IPv4" 10.10.0.10
    they_open "$name wire: they open, IPv6" fd10::10
    "$exos" lab down --name $lab >/dev/null
done <<'WIRES'
lossy --delay 5ms --loss 1%
bursty --delay 5ms --jitter 2ms --burst-loss 1%:4
disordered --delay 5ms --reorder 5%:3ms --duplicate 2%
damaging --delay 3ms --corrupt 0.5%
narrow --delay 10ms --rate 20mbit --queue 30kb
WIRES
exit $((failures > 0))
