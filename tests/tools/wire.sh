#!/usr/bin/env bash
# Our TCP and Linux's on bad wires: a file each way at the same time over one connection, either of them
# opening it, both families, over the lab's emulated wire. Linux with itself does the same, to show what the
# wire allows. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/tools/wire.sh PATH/TO/exos [daemon]
#
# With `daemon` ours are programs of user 65534 that have their links from the daemon, and one wire is enough.
#
# Everything happens in namespaces of a lab of its own and takes about half a minute, with the daemon a few seconds; what is
# started is ended by its id, also when this script is interrupted.
addresses=(--address 10.10.0.10/24 --address fd10::10/64)
if [ "${2:-}" = daemon ]; then
    lab=badwire-xokd-$$
    . "$(dirname "$0")/../daemon/common.sh"
    # ours COMMAND ARGUMENTS...
    ours() { nobody timeout 120 "$work/exos" "$@" --xokd "$socket" "${addresses[@]}"; }
    allow
else
    . "$(dirname "$0")/../common.sh"
    need_root "bad wires"
    begin
    lab=badwire-$$
    ours() { inside a -- timeout 120 "$exos" "$@" --link xdp:wire "${addresses[@]}"; }
fi
need_programs "bad wires" python3

head -c 1500000 /dev/urandom >"$work/one"
head -c 1500000 /dev/urandom >"$work/other"
head -c 300000 /dev/urandom >"$work/short"
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

# we_open NAME ADDRESS PROGRAM...: the program connects; Linux listens in b.
we_open() {
    local name=$1 address=$2; shift 2
    rm -f "$work"/got-*
    inside b -- python3 -S "$here/wire.py" listen "$address" $port "$work/other" "$work/got-one" 2>"$work/err-linux" & peer=$!
    await listening $port
    "$@" <"$work/one" >"$work/got-other" 2>"$work/err"
    wait $peer; peer=
    whole "$name"
    port=$((port + 1))
}

# they_open NAME ADDRESS: we listen. A SYN that comes before we do is sent again.
they_open() {
    rm -f "$work"/got-* "$work/err"
    # Like netcat, one that listens ends when its peer has finished: so its file is the shorter.
    ours cat --listen --port $port <"$work/short" >"$work/got-one" 2>"$work/err" & peer=$!
    await grep -q "listening" "$work/err"
    inside b -- python3 -S "$here/wire.py" connect "$2" $port "$work/one" "$work/got-other" 2>"$work/err-linux"
    wait $peer; peer=
    whole "$1" short
    port=$((port + 1))
}

while read -r name settings; do
    [ "${2:-}" != daemon ] || [ "$name" = disordered ] || continue
    # shellcheck disable=SC2086
    lab_up --seed 7 $settings || { bad "lab up $settings"; continue; }
    if [ "${2:-}" = daemon ]; then
        start_daemon || { bad "the daemon starts" "$(cat "$work/daemon.out")"; exit 1; }
    fi
    we_open "$name wire: Linux with Linux" 10.10.0.2 inside a -- timeout 120 python3 -S "$here/wire.py" connect 10.10.0.2 $port /dev/stdin /dev/stdout
    we_open "$name wire: we open, IPv4" 10.10.0.2 ours cat 10.10.0.2:$port
    we_open "$name wire: we open, IPv6" fd10::2 ours cat "[fd10::2]:$port"
    they_open "$name wire: they open, IPv4" 10.10.0.10
    they_open "$name wire: they open, IPv6" fd10::10
    [ "${2:-}" != daemon ] || break
    "$exos" lab down --name $lab >/dev/null
done <<'WIRES'
lossy --delay 5ms --loss 1%
bursty --delay 5ms --jitter 2ms --burst-loss 1%:4
disordered --delay 5ms --reorder 5%:3ms --duplicate 2%
damaging --delay 3ms --corrupt 0.5%
narrow --delay 10ms --rate 20mbit --queue 30kb
WIRES
exit $((failures > 0))
