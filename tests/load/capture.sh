#!/usr/bin/env bash
# The release binary's `load` beside a packet capture of the same load, taken where the server is: as many requests and
# responses in both. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines; with `measure`, the times that both have
# of the same requests too, for docs/measured.md.
#
#   tests/load/capture.sh PATH/TO/exos [measure]
#
# The capture is stamped by the kernel when a request has crossed the wire, and when its response is about to. What lies
# between that and the load's own times is the way of both over the wire, and how soon the load looks.
measure=${2:-}
. "$(dirname "$0")/common.sh"
need_root "a load beside a capture"
need_programs "a load beside a capture" nginx python3 tcpdump
be_alone "$@"
begin
lab=capture-$$
mkdir -p "$work/site"
head -c 100 /dev/urandom >"$work/site/small"
head -c 20000 /dev/urandom >"$work/site/medium"
configure_nginx "access_log off; keepalive_requests 1000000;" "listen 10.10.0.1:80;"
tcpdump=
trap '[ "$BASHPID" != $$ ] || { end $tcpdump; cleanup; }' EXIT

# has_all: the capture has taken what the kernel has received for it, but what it lost. tcpdump says so in a line when it is asked.
has_all() {
    kill -USR1 "$tcpdump"
    tail -n 1 "$work/said" | awk '/ captured, / { good = $2 + $10 >= $5 } END { exit !good }'
}
# beside NAME ARGUMENTS...: a load and its capture; what both say is in $work/both.
beside() {
    local name=$1; shift
    # It may not write where its user may not.
    : >"$work/said"
    "$exos" lab exec --name "$lab" a -- tcpdump -i wire -s 96 -B 65536 -j host --time-stamp-precision=nano --immediate-mode -w "$work/capture" tcp port 80 2>"$work/said" & tcpdump=$!
    await grep -q 'listening on' "$work/said" || { bad "$name" "$(cat "$work/said")"; return; }
    timeout 300 "$exos" lab exec --name "$lab" b -- "$exos" load --json --timeout 60s --no-probe "$@" >"$work/load" 2>"$work/load.err"
    await has_all
    kill -INT "$tcpdump"; wait "$tcpdump"; tcpdump=
    python3 -S "$here/capture.py" "$work/load" "$work/capture" 10.10.0.1:80 >"$work/both" 2>"$work/both.err"
    if ! grep -q '^0 packets dropped by kernel' "$work/said"; then
        echo "SKIPPED: $name: the capture has lost packets"
        return
    fi
    same "$name: as many requests in the capture" "$(python3 -S -c 'import json, sys; print(json.load(open(sys.argv[1]))["responses"])' "$work/load" 2>&1)" \
        "$(python3 -S -c 'import json, sys; print(json.load(open(sys.argv[1]))["captured"])' "$work/both" 2>&1; cat "$work/both.err")"
    [ -z "$measure" ] || cat "$work/both"
}

lab_up || { bad "lab up"; exit 1; }
# Who measures looks on, who counts leaves the core to others, but in one case, which waits as a load does when nothing is said.
pinned=() generator=() waiting=(--idle sleep)
[ -z "$measure" ] || { pinned=(taskset -c 0) generator=(--core 1) waiting=(); }
start_nginx "${pinned[@]}"
packets=(--link xdp:wire --address 10.10.0.20/24 "${generator[@]}")
for document in small medium; do
    url=http://10.10.0.1/$document
    beside "packets, $document, a closed loop" $url "${packets[@]}" "${waiting[@]}" -n 1000 -c 4
    beside "packets, $document, a rate" $url "${packets[@]}" --rate 500 -d 2s
    beside "packets, $document, a connection for each" $url "${packets[@]}" "${waiting[@]}" -n 300 -c 4 --requests-per-connection 1
    beside "sockets, $document, a rate" $url --sockets "${generator[@]}" "${waiting[@]}" --rate 500 -d 2s
done
if [ -n "$measure" ]; then
    beside "packets, one client" http://10.10.0.1/small "${packets[@]}" -n 20000 -c 1
    beside "packets, 5000 a second" http://10.10.0.1/small "${packets[@]}" --rate 5000 -d 2s
fi
exit $((failures > 0))
