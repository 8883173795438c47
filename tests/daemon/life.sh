#!/usr/bin/env bash
# What is taken back, what is left behind, and who sees what: the daemon, programs of ordinary users, release binary,
# real clients on the lab wire. Prints "ok NAME", "not ok NAME" or "SKIPPED: ..." lines.
#
#   tests/daemon/life.sh PATH/TO/exos
lab=xokdlife-$$
. "$(dirname "$0")/common.sh"
trap '[ "$BASHPID" != $$ ] || { ip netns del exos-$lab-c 2>/dev/null; cleanup; }' EXIT

site=$work/site
mkdir -p "$site"
echo '<title>home</title>' >"$site/index.html"
head -c 30000000 /dev/urandom >"$site/large.bin"
chmod -R a+rX "$site"

lab_up || { bad "lab up"; exit 1; }
wire=$(client ip -br link | grep -v '^lo' | cut -d' ' -f1 | cut -d@ -f1)
# policy ADDRESSES PORTS DUMP: what the user and another one may.
policy() {
    cat >"$work/xokd.toml" <<POLICY
[[interface]]
name = "$wire"
addresses = ["10.10.0.10/24", "fd10::10/64", "10.10.0.11/24"]
gateways = ["10.10.0.2", "fd10::2"]

[[allow]]
user = "$user"
addresses = $1
protocols = ["tcp", "udp"]
ports = [$2]

[[allow]]
user = "65533"
protocols = ["tcp"]
ports = ["9000"]
dump = "$3"
POLICY
}
reload() { policy "$@"; kill -HUP $daemon; }
status_of() { fetch -o /dev/null -w '%{http_code}' "$@"; }

policy '"any"' '"80", "1024-65535"' own
start_daemon || { bad "the daemon starts" "$(cat "$work/daemon.out")"; exit 1; }
v4=http://10.10.0.10 v6="http://[fd10::10]" other=http://10.10.0.11

# ICMP errors reach the program whose packet caused them: behind a router with a short link it learns to send less.
client ip link add short mtu 1280 type veth peer name long
ip netns add exos-$lab-c
client ip link set long netns exos-$lab-c
far() { ip netns exec exos-$lab-c "$@"; }
client sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.short.accept_dad=0
far sysctl -qw net.ipv6.conf.long.accept_dad=0
client ip addr add 10.20.0.1/24 dev short; client ip addr add fd20::1/64 dev short; client ip link set short up
far ip addr add 10.20.0.2/24 dev long; far ip addr add fd20::2/64 dev long; far ip link set long up
far ip route add default via 10.20.0.1; far ip -6 route add default via fd20::1
start one serve "$site" --address 10.10.0.10/24 --address fd10::10/64 || { bad "a program serves" "$(cat "$work/one.err")"; exit 1; }
one=$started
for base in "$v4" "$v6"; do
    far curl -sS -m 100 -o "$work/got" "$base/large.bin"
    check "over a short link, $base sends less and all arrives" cmp "$work/got" "$site/large.bin"
done
errors=$(client nstat -asz 'IcmpOutDestUnreachs' 'Icmp6OutPktTooBigs' | awk '$2 > 0' | grep -c Out)
same "because the router has said so, in both families" 2 "$errors"
said=$(head -c 5 /dev/zero | nobody timeout 100 "$work/exos" cat --xokd "$socket" 10.10.0.2:7999 2>&1)
has "a reset reaches the program that connected" "refused" "$said"
ip netns del exos-$lab-c

# A program ends: the daemon answers for its connections in TIME-WAIT, and the port may be claimed again.
mkfifo "$work/go"
client python3 -S "$here/life.py" last_ack 10.10.0.10 80 "$wire" <"$work/go" >"$work/peer" &
peer_pid=$!; programs+=($peer_pid)
exec 9>"$work/go"
await grep -q closed "$work/peer"
kill -TERM $one; wait $one; same "the program ends in order" 0 $?
echo >&9; exec 9>&-
wait $peer_pid
same "the daemon answers the last segment, sent again, as the program would" "acknowledged" "$(tail -n 1 "$work/peer")"
start one serve "$site" --address 10.10.0.10/24 --address fd10::10/64; one=$started
has "and the port may be claimed again" "200" "$(status_of $v4/)"

# One grant of two is taken back while both are under load.
kill -TERM $one; wait $one
start one serve "$site" --address 10.10.0.10/24 --address 10.10.0.11/24 || bad "a program with two addresses" "$(cat "$work/one.err")"
one=$started
start two serve --port 8080 --address 10.10.0.11/24; two=$started
client curl -sS -m 200 --limit-rate 4M -o "$work/kept" $v4/large.bin 2>"$work/kept.err" & kept=$!
# Slow enough not to have all of it before the grant is taken, however late that is.
client curl -sS -m 200 --limit-rate 200k -o "$work/lost" $other/large.bin 2>"$work/lost.err" & lost=$!
programs+=($kept $lost)
await test -s "$work/lost"; await test -s "$work/kept"
# It does not answer: what it has is taken all the same.
kill -STOP $two
reload '["10.10.0.10", "fd10::10"]' '"80", "1024-65535"' own
await grep -q '10.10.0.11:80 back' "$work/one.err"
has "it is told which grant goes" "the daemon takes tcp 10.10.0.11:80 back within" "$(cat "$work/one.err")"
wait $lost; same "connections of that grant are reset" 56 $?
refused() { [[ $(client timeout 20 bash -c "</dev/tcp/$1/$2" 2>&1) == *refused* ]]; }
check "then nobody is there" await refused 10.10.0.11 80
check "nor where the program does not answer" await refused 10.10.0.11 8080
wait $kept; same "connections of the other grant go on" 0 $?
check "and all of it arrives" cmp "$work/kept" "$site/large.bin"
has "new ones are served" "200" "$(status_of $v4/large.bin)"
kill -CONT $two; wait $two; same "who slept through it ends with an error" 1 $?

# Each user sees the packets of their own programs; all of them takes policy's leave.
as_nobody=(setpriv --reuid 65533 --regid 65533 --clear-groups --inh-caps=-all --bounding-set=-all)
reload '"any"' '"80", "1024-65535"' own; await grep -q 'read again' "$work/daemon.out"
await start theirs serve --port 9000 --address 10.10.0.10/24 || bad "a program of another user" "$(cat "$work/theirs.err")"
theirs=$started
# look NAME ARGUMENTS...: what the other user sees of a page from each program.
look() {
    local name=$1; shift
    "${as_nobody[@]}" timeout 100 "$work/exos" dump --xokd "$socket" -c 12 "$@" >"$work/$name" 2>"$work/$name.err" &
    local dump=$!
    await grep -q . "$work/$name.err"
    for _ in 1 2 3; do fetch -o /dev/null $v4/; fetch -o /dev/null $v4:9000/; done
    wait $dump
}
look own
has "a user sees their program's packets" "10.10.0.10.9000" "$(cat "$work/own" "$work/own.err")"
same "and no other's" "" "$(grep -F '10.10.0.10.80 ' "$work/own")"
said=$("${as_nobody[@]}" timeout 60 "$work/exos" dump --xokd "$socket" --all -c 1 2>&1)
has "all packets need a line of policy" 'dump = "all"' "$said"
reload '"any"' '"80", "1024-65535"' all
await eval '[ "$(grep -c "read again" "$work/daemon.out")" -ge 3 ]'
look all --all
has "with it a user sees the others'" "10.10.0.10.80 " "$(cat "$work/all" "$work/all.err")"
has "and their own" "10.10.0.10.9000" "$(cat "$work/all")"
kill -TERM $theirs; wait $theirs

kill -TERM $daemon; wait $daemon; same "the daemon stops in order" 0 $?; daemon=
wait $one
exit $failures
