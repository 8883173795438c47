#!/usr/bin/env bash
# The released web server and load generator on two interfaces, each a veth to clients of its own: both families on both,
# the documents, the log, the numbers and a reload for all, one interface that goes down and comes back, and what is left at
# the end; a load by both to one server. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/tools/interfaces.sh PATH/TO/exos
#
# Everything happens in namespaces of its own and takes some seconds; what is started is ended by its id, also when this
# script is interrupted. Nothing here judges how fast it is.
. "$(dirname "$0")/../common.sh"
need_root "programs on two interfaces"
need_programs "programs on two interfaces" curl python3
host=interfaces-h-$$
east=interfaces-e-$$
west=interfaces-w-$$
cleanup() {
    # shellcheck disable=SC2086
    end $server
    for net in "$host" "$east" "$west"; do ip netns del "$net" 2>/dev/null; done
    rm -rf "$work"
}
begin

expect() { local name=$1; shift; if "$@"; then ok "$name"; else bad "$name" "not so: $* ($(tail -n 2 "$work/err" 2>/dev/null))"; fi; }
on() { local net=$1; shift; ip netns exec "$net" "$@"; }
# wire NET NUMBER: a veth between the host and clients, who have 10.0.NUMBER.2 and fd00:NUMBER::2.
wire() {
    ip netns add "$1" && ip link add "eth$2" netns "$host" type veth peer name wire netns "$1" || return 1
    ip -n "$host" link set "eth$2" up && ip -n "$1" link set wire up && ip -n "$1" link set lo up
    # A client that reads slowly keeps the server waiting, not its own buffers full.
    on "$1" sysctl -qw net.ipv4.tcp_rmem="4096 65536 262144"
    ip -n "$1" addr add "10.0.$2.2/24" dev wire && ip -n "$1" addr add "fd00:$2::2/64" dev wire nodad
}
ip netns add "$host" && on "$host" sysctl -qw net.ipv6.conf.default.accept_dad=0
wire "$east" 1 && wire "$west" 2 || { bad "two wires"; exit 1; }
# state: what the kernel has on the interfaces.
# What of this host the kernel tells; a link's carrier some time after it has changed.
state() { ip -n "$host" -d link show; ip -n "$host" addr; on "$host" ethtool -k eth1; on "$host" ethtool -k eth2; }
await eval '[ "$(ip -n "$host" link | grep -c "state UP")" = 2 ] && [ "$(ip -n "$host" -6 -o addr show scope link | wc -l)" = 2 ]'
state >"$work/before"

both=(--link xdp:eth1 --address 10.0.1.1/24 --address fd00:1::1/64 --link xdp:eth2 --address 10.0.2.1/24 --address fd00:2::1/64)
# start OPTIONS...: the server on both.
start() { launch "http://\[fd00:2" ip netns exec "$host" "$exos" serve "$work/site" --via none "${both[@]}" "$@"; }
told_of_both() { [ "$(fetch "$east" http://10.0.1.1/.exos/metrics | grep -c '^exos_serve_core_responses_total{core="[0-9]*",interface="eth[12]"}')" = 2 ]; }
fetch() { local net=$1; shift; on "$net" curl -sS -m 60 "$@"; }
# page NET URL WANTED: what is there begins so.
page() { [[ $(fetch "$1" "$2") == "$3"* ]]; }
# read_slowly NET HOST: gets the large document, a little at a time until $work/go is there; $work/begun says that it comes.
read_slowly() {
    rm -f "$work/begun" "$work/go" "$work/got"
    on "$1" python3 -S -c '
import os, socket, sys, time
host, work = sys.argv[1:]
made = socket.create_connection((host, 80), 60)
made.sendall(b"GET /large.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
came = bytearray()
while more := made.recv(16384):
    came += more
    if len(came) > 100000:
        open(work + "/begun", "w")
    if not os.path.exists(work + "/go"):
        time.sleep(0.01)
open(work + "/got", "wb").write(came.split(b"\r\n\r\n", 1)[1])' "$2" "$work" &
    reader=$!
    await [ -e "$work/begun" ]
}
# is_read: it has come whole.
is_read() { touch "$work/go"; wait "$reader" && cmp -s "$work/got" "$work/site/large.bin"; }
# report WORDS: what the last report says, of a Python expression about it.
report() { python3 -S -c 'import json,sys; print(eval(sys.argv[2], {"r": json.loads(open(sys.argv[1]).readlines()[-1])}))' "$work/out" "$1"; }
refused() { on "$host" "$exos" serve --via none --check "$@" 2>&1; }

mkdir "$work/site"
echo "version 0" >"$work/site/index.html"
head -c 4000000 /dev/urandom >"$work/site/large.bin"

has "an interface is given once" "eth1 is named twice" "$(refused "${both[@]}" --link xdp:eth1)"
has "an address is on one interface" "10.0.1.1 is given twice" "$(refused "${both[@]}" --address 10.0.1.1/24)"
has "an address has an interface" "stands before the first" "$(refused --address 10.0.1.1/24 "${both[@]}")"
has "each is by AF_XDP" "each of them by AF_XDP" "$(refused "${both[@]:0:6}" --link packet:eth2 --address 10.9.9.9/24)"
has "an interface has an address" "on eth2: no address" "$(refused "${both[@]:0:6}" --link xdp:eth2)"
has "the daemon lends one interface" "one part of one interface" "$(refused --via xokd:eth1)"

# Of one core, which runs a loop for each; then of as many as there are.
for cores in 1 2; do
    [ "$(nproc)" -ge $cores ] || continue
    about="$cores core(s): "
    # What is under way when it ends may take as long as a busy machine lets its client.
    start --cores $cores --json --shutdown-timeout 60s --log "$work/log" --status /.exos --status-allow 0.0.0.0/0 || { bad "it starts" "$(cat "$work/err")"; exit 1; }
    for url in "$east http://10.0.1.1/" "$east http://[fd00:1::1]/" "$west http://10.0.2.1/" "$west http://[fd00:2::1]/"; do
        # shellcheck disable=SC2086
        expect "it serves ${url#* }" page $url "version"
    done
    for at in "$east 10.0.1.1" "$west [fd00:2::1]"; do
        fetch "${at% *}" -o "$work/got" "http://${at#* }/large.bin"
        expect "a large document of ${at#* } is whole" cmp -s "$work/got" "$work/site/large.bin"
    done
    # An interface has its own addresses, and no other's.
    ip -n "$east" route replace 10.0.2.0/24 via 10.0.1.1 2>/dev/null
    on "$east" curl -s -m 0.3 http://10.0.2.1/ >"$work/got" && bad "an interface answers for another's address" || ok "an interface answers for none of another's"
    # Each core says so within its first second.
    expect "Prometheus is told of both" await told_of_both
    expect "so is the page for people" await eval 'fetch "$west" http://10.0.2.1/.exos/ | grep -q "interface eth1"'
    echo "version $cores" >"$work/site/index.html"; kill -HUP "$server"
    await grep -q "read again" "$work/err"
    await page "$east" http://10.0.1.1/ "version $cores"; await page "$west" http://10.0.2.1/ "version $cores"
    expect "both serve what was read again" eval 'page "$east" http://10.0.1.1/ "version $cores" && page "$west" http://10.0.2.1/ "version $cores"'

    # One interface goes down, the first loop's or the other's: clients of the other notice nothing, and its own find it again.
    if [ $cores = 1 ]; then down="1 $east 2 $west"; else down="2 $west 1 $east"; fi
    read -r number its other others <<<"$down"
    read_slowly "$its" "10.0.$number.1"
    ip -n "$host" link set "eth$number" down
    await grep -q "eth$number (core [0-9]*) is cut off" "$work/err"
    expect "eth$number is down, eth$other serves" page "$others" "http://10.0.$other.1/" version
    ip -n "$host" link set "eth$number" up
    expect "a response goes on when eth$number is up again" is_read
    expect "it says so" await grep -q "eth$number (core [0-9]*) is back" "$work/err"

    kill -USR1 "$server"; await grep -q '^{' "$work/out"
    same "a report has both" "['eth1', 'eth2']" "$(report '[c["interface"] for c in r["cores"]]')"
    expect "and what each has done" [ "$(report 'min(c["responses"] for c in r["cores"]) > 4')" = True ]
    read_slowly "$west" 10.0.2.1
    kill -TERM "$server"; sleep 0.1
    expect "it ends after the response under way" is_read
    wait "$server"; expect "in order" [ $? = 0 ]; server=
    same "the log has a line of each response" "$(report 'r["counters"]["http_log_lines"]')" "$(wc -l <"$work/log")"
    expect "of clients of both" eval 'grep -q "^10.0.1.2 " "$work/log" && grep -q "^fd00:2::2 " "$work/log"'
    rm "$work/log"
    await eval 'state | cmp -s - "$work/before"'
    same "the kernel has nothing left" "" "$(state | diff "$work/before" -)"
done
about=

# A load by both interfaces to one server behind them, over either family.
ip -n "$east" addr add 10.0.9.1/32 dev lo; ip -n "$east" addr add fd00:9::1/128 dev lo nodad
ip -n "$east" route del 10.0.2.0/24 2>/dev/null
ip link add eth3 netns "$host" type veth peer name wire3 netns "$east"
ip -n "$host" link set eth3 up; ip -n "$east" link set wire3 up
ip -n "$east" addr add 10.0.3.2/24 dev wire3; ip -n "$east" addr add fd00:3::2/64 dev wire3 nodad
launch http ip netns exec "$east" "$exos" serve "$work/site" --sockets --log "$work/log" || { bad "a server for the load" "$(cat "$work/err")"; exit 1; }
first=(--link xdp:eth1 --address 10.0.1.1/24 --gateway 10.0.1.2 --address fd00:1::1/64 --gateway fd00:1::2)
second=(--link xdp:eth3 --address 10.0.3.1/24 --gateway 10.0.3.2 --address fd00:3::1/64 --gateway fd00:3::2)
load() { on "$host" timeout 300 "$exos" load --idle sleep --json -c 8 -n 400 "$@" >"$work/load" 2>"$work/load.err"; }
# got EXPRESSION: of the load's JSON.
got() { python3 -S -c 'import json,sys; r = json.load(open(sys.argv[1])); cores = r["generators"][0]["cores"]; print(*eval(sys.argv[2]))' "$work/load" "$1" 2>&1; }
for at in "1 10.0.9.1" "2 [fd00:9::1]"; do
    [ "$(nproc)" -ge "${at% *}" ] || continue
    about="a load on ${at% *} core(s): "
    check "of ${at#* }" load "${first[@]}" "${second[@]}" --cores "${at% *}" --yes-i-own-this-target "http://${at#* }/"
    same "both interfaces have a part" "['eth1', 'eth3'] 400 True" "$(got '[[c["interface"] for c in cores], sum(c["responses"] for c in cores), min(c["responses"] for c in cores) > 0]')"
done
about=
load "${first[@]}" --link xdp:eth2 --address 10.0.2.1/24 --yes-i-own-this-target http://10.0.1.2/
has "an interface that does not lead to the server" "on eth2: no route leads to 10.0.1.2" "$(cat "$work/load.err")"
load "${first[@]}" "${second[@]}" --pool 10.7.0.0/16 http://10.0.9.1/
has "a pool of neither" "10.7.0.0/16 is in no network of a link" "$(cat "$work/load.err")"
stop; ip -n "$host" link del eth3
same "the server has seen all addresses" "10.0.1.1 10.0.3.1 fd00:1::1 fd00:3::1" "$(cut -d' ' -f1 "$work/log" | sed 's/^::ffff://' | sort -u | paste -sd' ')"

# Beside the host on the first, as a user, where the host's other ports stay its own.
ip -n "$host" addr add 10.0.1.1/24 dev eth1
launch "http://10.0.2.1" ip netns exec "$host" "$exos" serve --via none --user nobody --port 8080 --share-address \
    --link xdp:eth1 --link xdp:eth2 --address 10.0.2.1/24 || { bad "it starts beside the host" "$(cat "$work/err")"; exit 1; }
expect "it serves at the host's address" [ "$(fetch "$east" -o /dev/null -w '%{http_code}' http://10.0.1.1:8080/)" = 200 ]
expect "and at one of its own" [ "$(fetch "$west" -o /dev/null -w '%{http_code}' http://10.0.2.1:8080/)" = 200 ]
stop; expect "it ends in order beside the host" [ $? = 0 ]
ip -n "$host" addr del 10.0.1.1/24 dev eth1

# On three, with fewer and fewer descriptors: where one core cannot begin, the others end, one that serves already among them.
ip -n "$host" link add eth3 type veth peer name wire3 && ip -n "$host" link set eth3 up && ip -n "$host" link set wire3 up
three=("$exos" serve "$work/site" --via none "${both[@]}" --link xdp:eth3 --address 10.0.3.1/24)
launch "http://10.0.3.1" ip netns exec "$host" "${three[@]}" || bad "it starts on three" "$(cat "$work/err")"
needed=$(ls "/proc/$server/fd" | wc -l)
stop; expect "it ends in order on three" [ $? = 0 ]
: >"$work/failed"
for most in $(seq $((needed - 12)) "$needed"); do
    # What is said there is the next one's, also before it has begun.
    : >"$work/out"; : >"$work/err"
    (ulimit -n "$most" && exec ip netns exec "$host" "${three[@]}") >"$work/out" 2>"$work/err" & server=$!
    await eval 'grep -q "http://10.0.3.1" "$work/out" "$work/err" || ! is_ours $server || [ "$(ps -o stat= -p $server)" = Z ]'
    kill -TERM "$server" 2>/dev/null
    await eval '! is_ours $server || [[ $(ps -o stat= -p $server) == Z* ]]' || { bad "it ends with $most descriptors" "$(cat "$work/err")"; end "$server"; }
    wait "$server" && break
    cat "$work/err" >>"$work/failed"
done
server=
expect "where a core cannot begin it ends, and says which" grep -q "on core [0-9]*: .*Too many open files" "$work/failed"
ip -n "$host" link del eth3

# By a file. One interface is taken away for good, then the other: that is the end.
cat >"$work/serve.toml" <<END
[[link]]
name = "xdp:eth1"
addresses = ["10.0.1.1/24"]
[[link]]
name = "xdp:eth2"
addresses = ["10.0.2.1/24"]
[[site]]
root = "$work/site"
END
launch "http://10.0.2.1" ip netns exec "$host" "$exos" serve --config "$work/serve.toml" || { bad "it starts by a file" "$(cat "$work/err")"; exit 1; }
ip -n "$host" link del eth1
await grep -q "eth1 (core [0-9]*) is cut off" "$work/err"
expect "eth1 is gone, eth2 serves" page "$west" http://10.0.2.1/ version
kill -HUP "$server"; await grep -q "read again" "$work/err"
expect "and reads its documents again" grep -q "read again" "$work/err"
ip -n "$host" link del eth2
wait "$server"; expect "without an interface it ends" [ $? != 0 ]; server=
expect "and says why" grep -q "cannot send" "$work/err"
exit $((failures > 0))
