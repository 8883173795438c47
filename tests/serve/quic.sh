#!/usr/bin/env bash
# HTTP/3 where clients' addresses change, where many want a connection, and where they do not keep to what is usual: on sockets over loopback,
# and on packets over the lab wire, on one core and on two; with `daemon` on a link that the daemon lends. Prints "ok NAME", "not ok NAME: why"
# or "SKIPPED: ..." lines.
#
#   tests/serve/quic.sh PATH/TO/exos [daemon]
#
# The clients are aioquic's; PYTHON names an interpreter that has it. It takes about two minutes, with the daemon one.
if [ "${2:-}" = daemon ]; then
    . "$(dirname "$0")/../common.sh"
    need_root "HTTP/3 by the daemon"
    need_aioquic "HTTP/3 by the daemon"
    lab=quic-xokd-$$
    . "$(dirname "$0")/../daemon/common.sh"
else
    . "$(dirname "$0")/../common.sh"
    need_root "clients of HTTP/3"
    need_programs "clients of HTTP/3" python3
    need_aioquic "clients of HTTP/3"
    be_alone "$@"
    begin
    lab=quic-$$
fi
in_the_end() { cleanup; forget_aioquic; }
trap '[ "$BASHPID" != $$ ] || in_the_end' EXIT

site=$work/site
mkdir "$site"
echo home >"$site/index.html"
head -c 100000 /dev/urandom >"$site/middle.bin"
head -c 6000000 /dev/urandom >"$site/long.bin"
common="--port 8080 --tls-port 8443 --tls-self-signed --http3 --json"

# judge RUNNER IP TEST...
judge() {
    local run=$1 ip=$2; shift 2
    # shellcheck disable=SC2086
    judged "the clients come to their end" $run timeout 500 "$PYTHON" "$here/quic.py" "$ip" 8443 "$site" "$@"
}
# counted FILE NAME: of a server that has ended.
counted() { python3 -S -c "import json; print(json.loads(open('$1').read().splitlines()[-1])['counters'].get('$2'))" 2>&1; }
# at_least NAME LEAST COUNT
at_least() { if [ "$3" -ge "$2" ] 2>/dev/null; then ok "$1"; else bad "$1" "$3 in place of $2 or more"; fi; }

if [ "${2:-}" = daemon ]; then
    lab_up || { bad "lab up"; exit 1; }
    chmod -R a+rX "$site"
    allow 'protocols = ["tcp", "udp"]' 'ports = ["8080", "8443"]'
    start_daemon || { bad "the daemon starts" "$(cat "$work/daemon.out")"; exit 1; }
    # shellcheck disable=SC2086
    start server serve "$site" --address 10.10.0.10/24 $common || { bad "the server starts" "$(cat "$work/server.err")"; exit 1; }
    judge client 10.10.0.10 migrate retry limits
    kill -TERM "$started"; wait "$started"; same "it ends in order" 0 $?
    at_least "handshakes were asked for their address" 1 "$(counted "$work/server.out" quic_retries)"
    exit $((failures > 0))
fi

about="sockets: "
# shellcheck disable=SC2086
if launch "https://" "$exos" serve --sockets "$site" $common --tls-early-data; then
    judge "" 127.0.0.1 early migrate retry limits slow
    stop; same "it ends in order" 0 $?
    same "two connections began with requests" 2 "$(counted "$work/out" quic_early_accepted)"
    at_least "handshakes were asked for their address" 1 "$(counted "$work/out" quic_retries)"
    at_least "a request that did not come whole was counted" 1 "$(counted "$work/out" http3_request_timeouts)"
else
    bad "it starts" "$(cat "$work/err")"
fi

about="packets: "
# shellcheck disable=SC2086
if lab_up && launch_in_lab "$site" --link xdp:wire --address 10.10.0.10/24 $common --tls-early-data; then
    judge client 10.10.0.10 early migrate retry limits
    stop; same "it ends in order" 0 $?
    at_least "handshakes were asked for their address" 1 "$(counted "$work/out" quic_retries)"
else
    bad "it starts" "$(cat "$work/err")"
fi
"$exos" lab down --name "$lab" >/dev/null 2>&1

# Over a wire that takes several datagrams as one frame, our own client in place of aioquic's: what the kernel hands on so comes to packet sockets, and
# what the server sends so to the kernel's.
about="several in a frame: "
sum=$(sha256sum <"$site/long.bin" | cut -d ' ' -f 1)
# load COUNTER ADDRESS LINK...: our client; its counter of this name is in $got.
load() {
    local name=$1 at=$2; shift 2
    client timeout 300 "$exos" load "https://$at:8443/long.bin" "$@" --idle sleep --http 3 --insecure -c 2 --streams 2 -n 6 -d 600s --timeout 300s --expect-sha256 "$sum" --json >"$work/load" 2>"$work/load.err"
    got=$(python3 -S -c "import json; r = json.load(open('$work/load')); print(r['responses'], r['errors']); print(r['counters'].get('$name', 0))" 2>&1)
    same "files come whole" "6 {}" "$(head -n 1 <<<"$got")$(cat "$work/load.err")"
    got=$(tail -n 1 <<<"$got")
}
if "$exos" lab up --name "$lab" --wire offload >/dev/null; then
    # shellcheck disable=SC2086
    launch "https://" "$exos" lab exec --name "$lab" a -- "$exos" serve --sockets "$site" $common || bad "it starts" "$(cat "$work/err")"
    load link_rx_gso_frames 10.10.0.1 --link packet:wire --address 10.10.0.20/24
    at_least "they come so to packet sockets" 10 "$got"
    stop
    # shellcheck disable=SC2086
    launch_in_lab "$site" --link xdp:wire --address 10.10.0.10/24 $common || bad "it starts" "$(cat "$work/err")"
    load quic_datagrams_received 10.10.0.10 --sockets
    stop
    at_least "they leave so beside the ring" 10 "$(counted "$work/out" link_tx_super_packets)"
else
    bad "lab up"
fi
"$exos" lab down --name "$lab" >/dev/null 2>&1

about="two cores: "
queues=2
# shellcheck disable=SC2086
if [ "$(nproc)" -lt 2 ]; then
    echo "SKIPPED: clients of HTTP/3 on two cores: there is one"
elif lab_up && launch_in_lab "$site" --link xdp:wire --address 10.10.0.10/24 $common --tls-early-data --cores 2; then
    judge client 10.10.0.10 early
    for _ in 1 2 3; do judge client 10.10.0.10 migrate; done
    judge client 10.10.0.10 limits
    stop; same "it ends in order" 0 $?
    # Of sixty moves; a neighbour's answer and the like count as one.
    at_least "datagrams came to the other core, and were handed on" 15 "$(counted "$work/out" cores_frames_handed_on)"
else
    bad "it starts" "$(cat "$work/err")"
fi
[ $failures = 0 ]
