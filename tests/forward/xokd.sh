#!/usr/bin/env bash
# The forwarder as an ordinary user, on addresses that the daemon lends, beside another program of it; release binary, Linux's
# stack as client and as servers, on one bridge and behind a router. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/forward/xokd.sh PATH/TO/exos
#
# The daemon runs in a namespace of its own; programs run outside, as user 65534, and have nothing but the daemon's socket.
# What is started is ended by its id, and the namespaces go, also when this script is interrupted.
lab=forward-xokd-$$
. "$(dirname "$0")/../daemon/common.sh"
need_programs "exos forward by the daemon" ip python3 curl
. "$here/hosts.sh"
# That of host a, the daemon's, is then called as in a lab.
net=exos-$lab
reports=$work/forward.out
forwarder=

cleanup() {
    local host
    # shellcheck disable=SC2086
    end "${programs[@]}" "${servers[@]}" $daemon
    "$exos" daemon --namespace exos-$lab-a --clean >/dev/null 2>&1
    for host in client a one two switch router far; do ip netns delete "$net-$host" 2>/dev/null; done
    rm -rf "$work"
}
client() { in_ client "$@"; }
# A host behind a router, on a way that is narrower than either end of it knows.
far_away() {
    local far=$net-far router=$net-router
    ip netns add "$far" || return 1
    ip link add wire netns "$far" type veth peer name far netns "$router" || return 1
    ip -n "$far" link set wire up
    ip -n "$far" address add 10.20.0.2/24 dev wire
    ip -n "$far" route add default via 10.20.0.1
    ip -n "$router" link set far mtu 1300 up
    ip -n "$router" address add 10.20.0.1/24 dev far
    in_ router sysctl -qw net.ipv4.ip_forward=1
}
network() {
    switch && host client 1 && host a 5 && host router 9 && host one 11 && host two 12 && far_away
}
# forward ARGUMENTS...: the forwarder, as the user.
forward() {
    start forward forward --via xokd --json "$@" || { bad "it starts" "$(cat "$work/forward.err")"; exit 1; }
    forwarder=$started
}
# ends SIGNAL WANTED: it ends by it, with that status.
ends() {
    kill "-$1" "$forwarder"; wait "$forwarder"
    same "it ends by $1" "$2" $?
}
run_forwarder() { nobody timeout 60 "$work/exos" forward --xokd "$socket" "$@"; }
ask_for_report() { kill -USR1 "$forwarder"; }
# slot PROGRAM EXPRESSION: of what the daemon says of it, as `s`.
slot() {
    report
    python3 -S -c "
import json
report = json.load(open('$work/top'))['report']
s = next((s for i in report['interfaces'] for s in i['slots'] if s['program'] == '$1'), None)
print(s and ($2))" 2>&1
}
# claims PROGRAM: what it has.
claims() { slot "$1" '", ".join(sorted(g["claim"] for g in s["grants"]))'; }
# stopped PROGRAM: what it was not let send, for whatever reason but its share.
stopped() { slot "$1" '{n: c for n, c in s["counters"].items() if c and n.startswith("tx_") and n not in ("tx_packets", "tx_bytes", "tx_over_share")}'; }

network || { bad "a bridge and its namespaces" "$(ip netns list)"; exit 1; }
cat >"$work/xokd.toml" <<POLICY
[[interface]]
name = "wire"
# The first of a family is the one that the daemon asks neighbours from: servers behind a tunnel have the listener's.
addresses = ["10.10.0.21/24", "fd10::21/64", "10.10.0.20/24", "fd10::20/64", "10.10.0.30/24", "10.10.0.31/24"]
gateways = ["10.10.0.9"]

[[allow]]
user = "$user"
addresses = ["10.10.0.20", "fd10::20", "10.10.0.21", "fd10::21"]
protocols = ["ip", "tcp", "udp"]
ports = ["1-65535"]

[[allow]]
user = "$user"
addresses = ["10.10.0.30"]
protocols = ["tcp", "udp"]
ports = ["80", "1024-65535"]
POLICY

# ---- what is refused ----

refused "without a daemon it does not start" "there is no daemon at" --via xokd --listen 10.10.0.20:80 --to 10.10.0.11
start_daemon || { bad "the daemon starts" "$(cat "$work/daemon.out")"; exit 1; }
refused "servers that see their clients" "clients' addresses" --via xokd --reach transparent --listen 10.10.0.20:80 --to 10.10.0.11
refused "servers that answer by themselves" "clients' addresses" --via xokd --reach direct --listen 10.10.0.20:80 --to 10.10.0.11
refused "in the kernel" "that interface is the daemon's" --via xokd --in-kernel --listen 10.10.0.20:80 --to 10.10.0.11
refused "an address that policy does not give wholly" 'addresses = ["10.10.0.30"], protocols = ["tcp"], ports = ["1-65535"]' \
    --via xokd --listen 10.10.0.30:80 --to 10.10.0.11
refused "one that policy gives to nobody" 'addresses = ["10.10.0.31"]' --via xokd --listen 10.10.0.31:80 --to 10.10.0.11
refused "one that the daemon does not have" "the daemon has no address 10.10.0.40" --via xokd --listen 10.10.0.40:80 --to 10.10.0.11
refused "one that was not named" "is no address of ours" --via xokd --address 10.10.0.20/24 --listen 10.10.0.21:80 --to 10.10.0.11
refused "routes of its own" "the daemon knows routes" --via xokd --gateway 10.10.0.9 --listen 10.10.0.20:80 --to 10.10.0.11

# ---- servers ----

serve_on one two
chmod -R a+rX "$work/site"
# Where the user may write.
mkdir "$work/run"; chown $user "$work/run"
listen=(--listen)
for port in 80 7 9; do listen+=("10.10.0.20:$port" "[fd10::20]:$port"); done
for port in 7 9; do listen+=("udp:10.10.0.20:$port" "udp:[fd10::20]:$port"); done
to=(--to 10.10.0.11 10.10.0.12 fd10::11 fd10::12)

# ---- what clients see ----

forward "${listen[@]}" "${to[@]}"
same "it has no capability" "0000000000000000" "$(awk '/^CapEff/{print $2}' "/proc/$forwarder/status")"
clients_see
same "what it has is TCP and UDP of its addresses" "tcp 10.10.0.20, tcp fd10::20, udp 10.10.0.20, udp fd10::20" "$(claims forward)"
before=$(counters forwarded_icmp_errors)
check "a document goes over a way that is narrower than its ends know" in_ far curl -gsS -m 60 -o "$work/got" http://10.10.0.20/large.bin
check "every byte" cmp "$work/got" "$work/site/large.bin"
same "servers were told of it" yes "$([ "$(counters forwarded_icmp_errors)" -gt "$before" ] && echo yes)"
if command -v wrk >/dev/null; then
    client timeout 100 wrk -t1 -c4 -d1 --timeout 30s -H 'Connection: close' http://10.10.0.20/one.txt >"$work/wrk" 2>&1
    has "wrk is answered" "requests in" "$(cat "$work/wrk")"
    same "and nothing else" "" "$(grep -E 'Socket errors|Non-2xx' "$work/wrk")"
else
    echo "SKIPPED: wrk through the forwarder: not installed (apt-get install wrk)"
fi
same "nothing that it sent was stopped" "{}" "$(stopped forward)"
ends TERM 0

# ---- a server is killed ----

echoes one; echoes two
forward --listen 10.10.0.20:91 --to 10.10.0.11 10.10.0.12
clients_outlive "$echoes"
ends TERM 0

# ---- beside another program ----

forward --listen 10.10.0.20:80 10.10.0.20:7 --to 10.10.0.11 10.10.0.12 --control "$work/run/forward.sock" --check tcp --check-interval 1s

ctl() { nobody "$work/exos" forward ctl --control "$work/run/forward.sock" "$@"; }
serve() { start serve serve "$work/site" "$@"; }
serve --address 10.10.0.30/24 || bad "another program starts" "$(cat "$work/serve.err")"
serving=$started
same "it has what is its own" "tcp 10.10.0.30:80" "$(claims serve)"
# at URL: whose document it is.
at() { client curl -gsS -m 60 "$1"; }
for n in 1 2 3; do
    same "clients find the one ($n)" one "$(at http://10.10.0.30/one.txt)"
    same "and the other ($n)" one "$(at http://10.10.0.20/one.txt)"
done
said=$(nobody "$work/exos" serve --xokd "$socket" --address 10.10.0.20/24 --port 8080 2>&1)
same "it gets no port of the forwarder's address" 1 $?
has "and is told whose that is" "pid $forwarder" "$said"
serve --address 10.10.0.21/24 --port 8080 || bad "a program on one port" "$(cat "$work/serve.err")"
end $serving; serving=$started
refused "an address of which another has a port" "pid $serving" --via xokd --listen 10.10.0.21:80 --to 10.10.0.11
end $serving
serve --address 10.10.0.30/24 || bad "another program starts again" "$(cat "$work/serve.err")"
for server_of in 10.10.0.11 10.10.0.12; do ctl drain $server_of >/dev/null; done
check "a program of the same daemon is a server" ctl add 10.10.0.30 --listener tcp:10.10.0.20:80
check "and gets clients" in_ client curl -gsS -m 60 -o "$work/got" http://10.10.0.20/large.bin
check "which get every byte" cmp "$work/got" "$work/site/large.bin"
has "it is well" '"server":"10.10.0.30:80"' "$(ctl status --json | tr -d ' ')"
end $started
check "when it has ended, it is found out" await grep -q "10.10.0.30:80 gets no new connections" "$work/forward.err"
for server_of in 10.10.0.11 10.10.0.12; do ctl resume $server_of >/dev/null; done
same "the others are" one "$(at http://10.10.0.20/one.txt)"

# ---- without the daemon, and with the next one ----

peer client slow 10.10.0.20 7 300000 "$work/slow" >"$work/slow.said" 2>&1 & slow=$!; programs+=($slow)
await test -e "$work/slow.half"
kill -KILL $daemon; wait $daemon 2>/dev/null
check "it notices that the daemon is gone" await grep -q "packets still flow" "$work/forward.err"
touch "$work/slow.go"
check "a connection goes on" wait $slow
same "and others begin" one "$(at http://10.10.0.20/one.txt)"
start_daemon || bad "the daemon starts again" "$(cat "$work/daemon.out")"
check "it finds the next one" await grep -q "the daemon is back" "$work/forward.err"
same "and forwards" one "$(at http://10.10.0.20/one.txt)"
ends TERM 0

# ---- a forwarder that is killed, and the next one ----

kept=(--listen 10.10.0.20:7 '[fd10::20]:7' --to 10.10.0.11 10.10.0.12 fd10::11 fd10::12 --keep "$work/run/flows")
# awaited EXPRESSION: of what the daemon keeps for successors, as `a`.
awaited() {
    report
    python3 -S -c "
import json
a = json.load(open('$work/top'))['report']['interfaces'][0]['awaited']
print($1)" 2>&1
}
# talkers: connections that talk all the time.
talkers() {
    local address
    rm -f "$work"/talk.*
    talking=()
    for address in 10.10.0.20 fd10::20; do
        mkdir -p "$work/talk.$address"
        peer client talk "$address" 7 10 "$work/talk.$address/" >"$work/talk.$address.said" 2>&1 & talking+=($!)
        await test -e "$work/talk.$address/.stand" || bad "connections stand" "$(cat "$work/talk.$address.said")"
    done
    programs+=("${talking[@]}")
}
# go_on NAME: so far all of them do.
go_on() {
    local address
    for address in 10.10.0.20 fd10::20; do touch "$work/talk.$address/.enough"; done
    for talk in "${talking[@]}"; do check "$1" wait "$talk"; done
    rm -rf "$work"/talk.*
}
# are_reset NAME: all of them are.
are_reset() {
    local address talk
    for talk in "${talking[@]}"; do wait "$talk"; done
    for address in 10.10.0.20 fd10::20; do has "$1" "10 of 10: " "$(cat "$work/talk.$address.said")"; has "$1" "reset" "$(cat "$work/talk.$address.said")"; done
    rm -rf "$work"/talk.*
}
# killed: the forwarder is, and the daemon knows.
killed() {
    kill -KILL "$forwarder"; wait "$forwarder" 2>/dev/null
    await eval '[ "$(claims forward)" = None ]' || bad "the daemon notices"
}
whole="tcp 10.10.0.20, tcp fd10::20"
awaited_now() { awaited '", ".join(sorted(g["claim"] for g in a))'; }

# followed NAME ENDS...: the forwarder ends so while connections talk, which go on with the next one. That is awaited for ten seconds: where this script
# takes longer each of three times, nothing can be said.
followed() {
    local name=$1 began took; shift
    for _ in 1 2 3; do
        talkers
        began=$SECONDS
        "$@"
        forward "${kept[@]}"
        took=$((SECONDS - began))
        if [ $took -le 8 ]; then
            go_on "$name"
            return
        fi
        let_go
    done
    echo "SKIPPED: $about$name: ten seconds are promised, of which this machine took $took"
}
# let_go: those that talk end, however they do.
let_go() {
    local address talk
    for address in 10.10.0.20 fd10::20; do touch "$work/talk.$address/.enough"; done
    for talk in "${talking[@]}"; do wait "$talk"; done
    rm -rf "$work"/talk.*
}
killed_and_kept() { killed; kept_for=$(awaited_now); }
killed_with_the_daemon() {
    killed
    kill -KILL $daemon; wait $daemon 2>/dev/null
    start_daemon || bad "the daemon starts again" "$(cat "$work/daemon.out")"
}
forward "${kept[@]}"
same "it says that another follows" 10000 "$(slot forward 's["grants"][0]["successor_ms"]')"
followed "connections that talk meanwhile outlive SIGKILL" killed_and_kept
same "its addresses were kept for the next one" "$whole" "$kept_for"
same "which has them" "$whole, " "$(claims forward), $(awaited_now)"
followed "and an end in order" ends TERM 0
followed "and the daemon's at the same time" killed_with_the_daemon

talkers
killed
check "after a while the daemon answers" await eval '[ -z "$(awaited_now)" ]'
are_reset "connections that talk are reset then"

# The daemon reads its policy in its own time.
allowed() {
    local said
    said=$(nobody timeout 60 "$work/exos" forward --xokd "$socket" --via xokd --listen 10.10.0.20:7 --to 10.10.0.99 --keep "$work/nowhere/at/all" 2>&1)
    [[ $said == *"cannot keep flows"* ]]
}
for _ in 1 2 3; do
    forward "${kept[@]}"
    talkers
    began=$SECONDS
    killed
    cp "$work/xokd.toml" "$work/xokd.toml.before"
    sed -i 's/addresses = \["10.10.0.20", "fd10::20", /addresses = [/' "$work/xokd.toml"
    kill -HUP $daemon
    asked_after=$((SECONDS - began)) left=10000
    # If it ended by its time, the last that is seen of it would be near its end.
    while [ "$(awaited_now)" ]; do left=$(awaited '(a or [{"left_ms": "'$left'"}])[0]["left_ms"]'); done
    are_reset "connections of what policy takes back are reset"
    mv "$work/xokd.toml.before" "$work/xokd.toml"
    kill -HUP $daemon
    check "and it allows it again" await allowed
    # That is of the time that is left when it was asked.
    [ $asked_after -gt 4 ] || break
done
same "what policy takes back is kept for nobody" yes "$([ "$left" -gt 1000 ] && echo yes)"
forward "${kept[@]:0:8}"
talkers
killed
same "without --keep nobody is awaited" "" "$(awaited_now)"
are_reset "and connections that talk are reset"

# ---- a file that is read again ----

file() {
    cat >"$work/forward.toml" <<FILE
[link]
via = "xokd"

[[service]]
listen = [$1]
to = ["10.10.0.11"]
reach = "$2"
FILE
}
file '"10.10.0.20:80"' nat
start forward forward --config "$work/forward.toml" || bad "it starts by a file" "$(cat "$work/forward.err")"
forwarder=$started
same "of what it does not forward it has nothing" "tcp 10.10.0.20" "$(claims forward)"
file '"10.10.0.20:80", "udp:10.10.0.20:7"' nat
kill -HUP "$forwarder"
check "with a listener more" await grep -q "1 added" "$work/forward.err"
same "it has what that needs" "tcp 10.10.0.20, udp 10.10.0.20" "$(claims forward)"
check "and forwards it" peer client datagram 10.10.0.20 7 100
file '"10.10.0.20:80"' transparent
kill -HUP "$forwarder"
check "what cannot be changes nothing" await grep -q "goes on as before: .*clients' addresses" "$work/forward.err"
same "and it forwards" one "$(at http://10.10.0.20/one.txt)"
ends TERM 0

# ---- servers behind a tunnel ----

for host in one two; do
    (exec ip netns exec "$net-$host" python3 -S "$here/forward.py" unwrap unwrap) & programs+=($!)
    await ip -n "$net-$host" link set unwrap up || bad "a tunnel ends at $host"
    in_ $host sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.unwrap.rp_filter=0 \
        net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
    ip -n "$net-$host" address add 10.10.0.20/32 dev lo
    ip -n "$net-$host" address add fd10::20/128 dev lo
done
forward --reach tunnel --address 10.10.0.21/24 --address fd10::21/64 --address 10.10.0.20/24 --address fd10::20/64 "${listen[@]}" "${to[@]}"
same "a tunnel takes the addresses with all protocols" "ip 10.10.0.20, ip 10.10.0.21, ip fd10::20, ip fd10::21" "$(claims forward)"
for address in 10.10.0.20 fd10::20; do
    check "$address: bytes both ways by a tunnel" peer client echo $address 7 300000
    check "$address: a datagram in fragments" peer client datagram $address 7 9000
done
same "nothing that it sent was stopped" "{}" "$(stopped forward)"

# ---- what policy takes back ----

sed -i 's/addresses = \["10.10.0.20", "fd10::20", /addresses = [/' "$work/xokd.toml"
kill -HUP $daemon
check "it is told what policy does not allow any more" await grep -q "the daemon takes ip 10.10.0.20 back" "$work/forward.err"
check "which goes" await eval '[ "$(claims forward)" = "ip 10.10.0.21, ip fd10::21" ]'
sed -i 's/addresses = \["10.10.0.21", "fd10::21"\]/addresses = ["10.10.0.31"]/' "$work/xokd.toml"
kill -HUP $daemon
wait "$forwarder"
same "without anything left it ends with an error" 1 $?
has "and says why" "ended because the daemon took the link back" "$(cat "$work/forward.err")"

# ---- clients on one interface of the daemon's, servers on another ----

about="two interfaces: "
end $daemon
ip link add back netns "$net-a" type veth peer name back netns "$net-one"
for host in a one; do
    in_ "$host" sysctl -qw net.ipv6.conf.back.accept_dad=0
    ip -n "$net-$host" link set back up
done
ip -n "$net-one" address add 10.10.1.11/24 dev back
ip -n "$net-one" address add fd11::11/64 dev back
cat >"$work/xokd.toml" <<POLICY
[[interface]]
name = "wire"
addresses = ["10.10.0.20/24", "fd10::20/64"]

[[interface]]
name = "back"
addresses = ["10.10.1.20/24", "fd11::20/64"]

[[allow]]
user = "$user"
addresses = "any"
protocols = ["tcp", "udp"]
ports = ["1-65535"]
POLICY
start_daemon || bad "the daemon starts" "$(cat "$work/daemon.out")"
ours=(--link xokd:wire --address 10.10.0.20/24 --address fd10::20/64)
theirs=(--link xokd:back --address 10.10.1.20/24 --address fd11::20/64)
kept=(--listen 10.10.0.20:80 10.10.0.20:7 '[fd10::20]:7' udp:10.10.0.20:7 --to 10.10.1.11 fd11::11 --keep "$work/run/flows-between")
refused "one that the daemon does not serve" "this daemon serves wire, back" "${ours[@]}" --link xokd:nowhere --address 10.10.1.20/24 "${kept[@]}"
refused "one that is opened and one that is lent" "or all lent by the daemon" "${ours[@]}" --link xdp:back --address 10.10.1.20/24 "${kept[@]}"
refused "one without an address" "is no address of ours" --link xokd:wire "${theirs[@]}" "${kept[@]}"
between() {
    start forward forward "${ours[@]}" "${theirs[@]}" "${kept[@]}" --json || { bad "it starts" "$(cat "$work/forward.err")"; exit 1; }
    forwarder=$started
}
between
check "a document" in_ client curl -gsS -m 60 -o "$work/got" http://10.10.0.20/large.bin
check "every byte" cmp "$work/got" "$work/site/large.bin"
check "a datagram" peer client datagram 10.10.0.20 7 100
same "each has its own addresses" "tcp 10.10.0.20, tcp fd10::20, udp 10.10.0.20 and tcp 10.10.1.20, tcp fd11::20, udp 10.10.1.20" \
    "$(report; python3 -S -c "
import json
each = json.load(open('$work/top'))['report']['interfaces']
print(' and '.join(', '.join(sorted(g['claim'] for s in i['slots'] if s['program'] == 'forward' for g in s['grants'])) for i in each))")"
same "nothing that it sent was stopped" "{}" "$(stopped forward)"
talkers
killed
between
go_on "connections that talk outlive SIGKILL"
same "no server has seen a damaged checksum" 0 "$(wrong_sums one)"
ends TERM 0
exit $failures
