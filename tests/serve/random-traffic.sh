#!/usr/bin/env bash
# Random clients against `exos serve` with and without `--in-kernel`, on one core and on two, over IPv4 and IPv6, near and far: they ask alike, cut, lose, double,
# delay and damage segments, and receive the same from both, byte for byte but for dates. The logs say the same, too, and where no wire loses
# anything nobody has to send again. Prints "ok NAME", "not ok NAME: why" or
# "SKIPPED: ..." lines.
#
#   tests/serve/random-traffic.sh PATH/TO/exos [daemon]
#
# With `daemon` the servers are programs of user 65534 that have their links, and the kernel's part, from the daemon.
#
#   EXOS_CONNECTIONS=5000 EXOS_SEED=7 tests/serve/random-traffic.sh PATH/TO/exos      others, and more
mode=${2:-}
if [ "$mode" = daemon ]; then
    lab=random-traffic-xokd-$$
    . "$(dirname "$0")/../daemon/common.sh"
else
    . "$(dirname "$0")/../common.sh"
    need_root "random clients"
    be_alone "$@"
    begin
    lab=random-traffic-$$
fi
connections=${EXOS_CONNECTIONS:-300}
seed=${EXOS_SEED:-1}
need_programs "random clients" python3 curl

# serve_it ARGUMENTS...: by the daemon, or on a link of the server's own.
serve_it() {
    if [ "$mode" = daemon ]; then
        start out serve "$@"; local status=$?
        mv "$work/out.out" "$work/out"; mv "$work/out.err" "$work/err"
        server=$started
        return $status
    fi
    launch_in_lab "$@" --link xdp:wire --address 10.10.0.10/24 --address fd10::10/64
}
# play NAME ARGUMENTS...: the clients against a server; what they receive is in $work/NAME, and the server's log in $work/NAME.log.
play() {
    local name=$1; shift
    touch "$work/$name.log"; chown nobody "$work/$name.log"
    serve_it "$work/site" --json --log "$work/$name.log" --log-format json \
        --status /.exos --status-allow 10.10.0.0/24 "$@" ||
        { bad "the server starts, $name" "$(cat "$work/err")"; exit 1; }
    # In its first seconds no connection begins in the kernel.
    if [ "${1:-}" = --in-kernel ]; then
        for host in 10.10.0.10 "[fd10::10]"; do
            if await kernel_answers "$host"; then ok "the kernel answers for $host"; else bad "the kernel answers for $host" "$(answered)"; fi
        done
    fi
    inside b -- timeout 600 python3 -S "$here/random-traffic.py" wire "$seed" "$connections" "$work/site" "$work/$name" || bad "clients, $name"
    stop; same "it ends in order, $name" 0 $?
}
# kernel_answers HOST: 30 requests on one connection, beside which SYNs and FINs are few.
kernel_answers() {
    local before all
    before=$(answered)
    mapfile -t all < <(yes "http://$1/small.txt" | head -n 30)
    client curl -sS -g -m 60 "${all[@]}" >"$work/all"
    [ "$(wc -l <"$work/all")" = 30 ] && [ $(($(answered) - before)) -ge 30 ]
}
answered() { client curl -sS -m 60 http://10.10.0.10/.exos/metrics | sed -n 's/^exos_serve_link_xdp_answered_total //p'; }
# lines NAME: what is logged of clients that do not reset, but for times and the length of what changes.
lines() { grep -E '"(10.10.0.77|fd10::77)"' "$work/$1.log" | sed 's/"time":"[^"]*",//; s/"request_time":[0-9.]*,//; /changing/ s/bytes_sent":[0-9]*/bytes_sent":/g' | sort; }
# counter NAME: of the last server.
counter() { tail -n 1 "$work/out" | python3 -S -c "import json, sys; print(json.load(sys.stdin)['counters']['$1'])"; }

mkdir "$work/site"
echo small >"$work/site/small.txt"
echo other >"$work/site/other.txt"
for bytes in 100 400 700 1000 1100 1300; do head -c $bytes /dev/urandom | base64 -w 0 | head -c $bytes >"$work/site/page-$bytes.txt"; done
echo "version 0" >"$work/site/changing.txt"
head -c 20000 /dev/urandom >"$work/site/middle.bin"
queues=2
lab_up || { bad "lab up"; exit 1; }
client ethtool -K wire gro on
if [ "$mode" = daemon ]; then
    allow 'ports = ["80"]'
    start_daemon || { bad "the daemon starts" "$(cat "$work/daemon.out")"; exit 1; }
fi

play "without"
lines without >"$work/lines"
for cores in 1 2; do
    [ $cores -le "$(nproc)" ] || { echo "SKIPPED: two cores: there is one"; break; }
    name="in the kernel, cores: $cores"
    play "$name" --in-kernel --cores $cores
    answered=$(counter link_xdp_answered) taken_on=$(counter tcp_taken_on)
    if [ "$answered" -ge "$connections" ]; then ok "the kernel answers clients"; else bad "the kernel answers clients" "$answered"; fi
    if [ "$taken_on" -ge $((connections / 50)) ]; then ok "and gives up connections"; else bad "and gives up connections" "$taken_on"; fi
    handed_on=$(counter cores_frames_handed_on 2>&1)
    [ $cores = 1 ] || [ "$mode" = daemon ] || if [ "$handed_on" -ge "$connections" ]; then ok "segments come to either core"; else bad "segments come to either core" "$handed_on"; fi
    python3 -S "$here/random-traffic.py" compare "$work/without" "$work/$name" || failures=$((failures + 1))
    lines "$name" >"$work/lines in the kernel"
    check "the logs say the same" diff "$work/lines" "$work/lines in the kernel"
done
exit $((failures > 0))
