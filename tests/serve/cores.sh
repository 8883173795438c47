#!/usr/bin/env bash
# The released web server on two cores, over a veth of two queues, with real clients: what it serves while documents
# change and are read again, its limits, its log, its numbers, and how it ends. Prints "ok NAME", "not ok NAME: why" or
# "SKIPPED: ..." lines.
#
#   tests/serve/cores.sh PATH/TO/exos [in-kernel]
#
# Everything happens in namespaces of its own and takes about a minute; what is started is ended by its id, also when
# this script is interrupted. Nothing here judges how fast it is.
. "$(dirname "$0")/../common.sh"
need_root "a server on two cores"
[ "$(nproc)" -ge 2 ] || skip "a server on two cores" "there is one"
need_programs "a server on two cores" curl python3 wrk
server_net=cores-a-$$
client_net=cores-b-$$
cleanup() {
    # shellcheck disable=SC2086
    end $server
    ip netns del "$server_net" 2>/dev/null
    ip netns del "$client_net" 2>/dev/null
    rm -rf "$work"
}
begin

# expect NAME CONDITION...: a test command and what to say when it is not so.
expect() { local name=$1; shift; if "$@"; then ok "$name"; else bad "$name" "not so: $*"; fi; }
client() { ip netns exec "$client_net" "$@"; }
fetch() { client curl -sS -m 60 "$@"; }
visit() { client python3 -S "$here/cores.py" "$@" || failures=$((failures + 1)); }

# wire QUEUES: a veth between two namespaces, whose server's end has this many queues.
wire() {
    ip netns del "$server_net" 2>/dev/null; ip netns del "$client_net" 2>/dev/null
    ip netns add "$server_net" && ip netns add "$client_net" || return 1
    ip link add wire netns "$server_net" numrxqueues "$1" numtxqueues "$1" type veth \
        peer name wire netns "$client_net" numrxqueues "$1" numtxqueues "$1" || return 1
    ip -n "$server_net" link set wire up && ip -n "$client_net" link set wire up
    ip -n "$client_net" addr add 10.0.0.2/24 dev wire
    ip -n "$client_net" addr add fd00::2/64 dev wire nodad
    [ -z "$in_kernel" ] || client ethtool -K wire gro on
    # A client that reads slowly keeps the server waiting, not its own buffers full.
    client sysctl -qw net.ipv4.tcp_rmem="4096 65536 262144"
    for n in $(seq 3 20); do ip -n "$client_net" addr add 10.0.0.$n/24 dev wire; done
}
# serve OPTIONS...: the server on two cores.
serve() { launch http ip netns exec "$server_net" "$exos" serve --link xdp:wire --cores 2 $in_kernel "$@"; }
# start OPTIONS...: the same at addresses of its own.
start() { serve --address 10.0.0.1/24 --address fd00::1/64 --status /.exos --status-allow 0.0.0.0/0 "$@"; }
# number NAME: a number of the last JSON report, jq's way without jq.
number() { python3 -S -c 'import json,sys; print(eval("report" + sys.argv[2], {"report": json.loads(open(sys.argv[1]).readlines()[-1])}))' "$work/out" "$1"; }

mkdir "$work/site"
echo '<title>home</title>' >"$work/site/index.html"
head -c 8000000 /dev/urandom >"$work/site/large.bin"
for n in $(seq 0 19); do echo "version 0" >"$work/site/$n.txt"; done

wire 2 || { bad "a veth of two queues"; exit 1; }

# There is a queue for each core, or it says what to do; more are shared.
wire 1
refused=$(ip netns exec "$server_net" "$exos" serve --link xdp:wire --address 10.0.0.1/24 --cores 2 2>&1)
expect "one queue is refused for two cores" [ "${refused/numrxqueues 2/}" != "$refused" ]
expect "or one core is to be had" [ "${refused/--cores 1/}" != "$refused" ]
wire 3
ip netns exec "$server_net" ethtool -L wire rx 1 tx 1
refused=$(ip netns exec "$server_net" "$exos" serve --link xdp:wire --address 10.0.0.1/24 --cores 2 2>&1)
expect "three queues of which one is in use are refused for two cores" [ "${refused/ethtool -L wire rx 2 tx 2/}" != "$refused" ]
refused=$(ip netns exec "$server_net" "$exos" serve --link tap:t0 --address 10.0.0.1/24 --cores 2 2>&1)
expect "a TAP device is refused" [ "${refused/one queue/}" != "$refused" ]
refused=$("$exos" serve --check --cores 4000 2>&1)
expect "more cores than there are are refused" [ "${refused/give --cores $(nproc)/}" != "$refused" ]

refused=$("$exos" serve --sockets --core 0,1 2>&1)
expect "on sockets two cores are refused" [ "${refused/one loop/}" != "$refused" ]
printf '[link]\ncores = 2\n[[site]]\nroot = "site"\n' >"$work/two.toml"
refused=$("$exos" serve --sockets --config "$work/two.toml" 2>&1)
expect "by a file too" [ "${refused/one loop/}" != "$refused" ]

wire 2
# What is under way when it ends may take as long as a busy machine lets its client.
start "$work/site" --log "$work/log" --json --shutdown-timeout 60s || { bad "it starts" "$(cat "$work/err")"; exit 1; }
fetch -o "$work/got" http://10.0.0.1/large.bin
expect "a large document is whole" cmp -s "$work/got" "$work/site/large.bin"
fetch -o "$work/got" "http://[fd00::1]/large.bin"
expect "over IPv6 too" cmp -s "$work/got" "$work/site/large.bin"
for n in $(seq 40); do fetch -o /dev/null -w '%{http_code}\n' http://10.0.0.1/; done | sort -u >"$work/codes"
expect "every new connection is answered" [ "$(cat "$work/codes")" = 200 ]
asked=42
# Documents that change, and are read again, under load: no request fails, and nobody sees an older version again.
visit changes 10.0.0.1 "$work" "$server" >"$work/said"; cat "$work/said"
asked=$((asked + $(sed -n 's/^asked //p' "$work/said")))
client wrk -t1 -c16 -d1 --timeout 60s http://10.0.0.1/ >"$work/wrk"
expect "wrk has no errors" [ -z "$(grep -E 'Non-2xx|Socket errors' "$work/wrk")" ]
asked=$((asked + $(sed -n 's/ *\([0-9]*\) requests in.*/\1/p' "$work/wrk")))
kill -USR1 "$server"; await [ -s "$work/out" ] && await grep -q '^{' "$work/out"
expect "a report has both cores" [ "$(number '["cores"].__len__()')" = 2 ]
expect "both have answered" [ "$(number '["cores"][0]["responses"]')" -gt 20 -a "$(number '["cores"][1]["responses"]')" -gt 20 ]
expect "Prometheus is told of both" [ "$(fetch http://10.0.0.1/.exos/metrics | grep -c '^exos_serve_core_responses_total{core=')" = 2 ]
asked=$((asked + 1))
# The log is opened again by its name.
mv "$work/log" "$work/log.1"; kill -USR2 "$server"
await [ -e "$work/log" ]; expect "the log is opened again" [ -e "$work/log" ]
# Responses under way end, on both cores, before it does.
visit stop 10.0.0.1 "$work" "$server"
asked=$((asked + 8))
wait "$server"; expect "it ends in order" [ $? = 0 ]; server=
# wrk ends in the middle of requests, of which it counts none: each connection may have one more.
lines=$(cat "$work/log.1" "$work/log" | wc -l)
expect "each request has its line" [ "$lines" -ge "$asked" -a "$lines" -le $((asked + 16)) ]
expect "each line is whole" [ "$(grep -cE '^[0-9a-f.:]+ - - \[[^]]*\] "GET [^"]*" 200 [0-9]+ "[^"]*" "[^"]*"$' <(cat "$work/log.1" "$work/log"))" = "$lines" ]
expect "the last report agrees with the log" [ "$(number '["counters"]["http_log_lines"]')" = "$lines" ]

# Limits are those of all cores together.
start "$work/site" --max-peer-connections 5 --max-connections 64 --json --shutdown-timeout 60s || { bad "it starts with limits" "$(cat "$work/err")"; exit 1; }
visit limits 10.0.0.1 5 64
rm "$work/got"
{ fetch http://10.0.0.1/large.bin | hold "$work/go" >"$work/got"; } & slow=$!
await [ -s "$work/got" ]
kill -TERM "$server"; sleep 0.2; kill -TERM "$server" || bad "it ended too early"; touch "$work/go"; wait "$server"
expect "a second signal changes nothing" [ $? = 0 ]; server=
wait "$slow"
expect "nor for a response under way" cmp -s "$work/got" "$work/site/large.bin"

# The host's own address, whose other ports stay the host's.
ip -n "$server_net" addr add 10.0.0.1/24 dev wire
if serve "$work/site" --share-address --port 8080 --json; then
    for n in $(seq 40); do fetch -o /dev/null -w '%{http_code}\n' http://10.0.0.1:8080/; done | sort -u >"$work/codes"
    expect "every new connection to an address shared with the host is answered" [ "$(cat "$work/codes")" = 200 ]
    fetch -o "$work/got" http://10.0.0.1:8080/large.bin
    expect "and a large document is whole" cmp -s "$work/got" "$work/site/large.bin"
    expect "the host's ping goes on" eval 'client ping -c 1 -W 20 10.0.0.1 >/dev/null'
    client curl -sv -m 20 -o /dev/null http://10.0.0.1:81/ 2>"$work/refused"
    expect "and so do its other ports" grep -q "refused" "$work/refused"
    stop; expect "it ends in order beside the host" [ $? = 0 ]
    expect "both cores have answered there" [ "$(number '["cores"][0]["responses"]')" -gt 0 -a "$(number '["cores"][1]["responses"]')" -gt 0 ]
else
    bad "it starts at the host's address" "$(cat "$work/err")"
fi
ip -n "$server_net" addr del 10.0.0.1/24 dev wire

# The interface goes: the program ends with that error.
start "$work/site" || { bad "it starts again" "$(cat "$work/err")"; exit 1; }
ip -n "$server_net" link del wire
wait "$server"; expect "it ends when its interface goes" [ $? != 0 ]; server=
expect "and says why" grep -q 'cannot' "$work/err"
exit $((failures > 0))
