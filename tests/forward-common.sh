# What the tests of the forwarder have in common; to be sourced, with the release binary in $1: four namespaces on one bridge,
# Linux's stack as client and as servers, and what clients see. What is started is ended by its id, and the namespaces go, also
# when the script is interrupted.
. "$(dirname "$0")/common.sh"
need_root "exos forward over AF_XDP"
need_programs "exos forward" ip ethtool ping python3 curl
begin
net=forward-$$
hosts=(client forwarder one two)
started=()

cleanup() {
    local host
    # shellcheck disable=SC2086
    end $server ${started[@]+"${started[@]}"}
    for host in "${hosts[@]}" switch; do ip netns delete "$net-$host" 2>/dev/null; done
    rm -rf "$work"
}
# in_ HOST COMMAND...: inside a namespace; the process is the command's.
in_() { local host=$1; shift; ip netns exec "$net-$host" "$@"; }
# peer HOST ARGUMENTS...: the other ends, as Linux's sockets.
peer() { local host=$1; shift; in_ "$host" timeout -k 1 100 python3 "$here/forward.py" "$@"; }
# host NAME NUMBER: a namespace with a wire to the switch, 10.10.0.NUMBER and fd10::NUMBER.
host() {
    ip netns add "$net-$1" || return 1
    ip link add wire netns "$net-$1" type veth peer name "$1" netns "$net-switch" || return 1
    ip -n "$net-switch" link set "$1" master switch up
    in_ "$1" sysctl -qw net.ipv6.conf.wire.accept_dad=0
    ip -n "$net-$1" link set lo up
    ip -n "$net-$1" link set wire up
    [ "$2" = 0 ] && return
    ip -n "$net-$1" address add "10.10.0.$2/24" dev wire
    ip -n "$net-$1" address add "fd10::$2/64" dev wire
}
network() {
    ip netns add "$net-switch" && ip -n "$net-switch" link add switch type bridge || return 1
    ip -n "$net-switch" link set switch up
    host client 1 && host forwarder 0 && host one 11 && host two 12
}
# start ARGUMENTS...: the forwarder.
start() {
    launch tcp ip netns exec "$net-forwarder" "$exos" forward --link xdp:wire --address 10.10.0.20/24 \
        --address fd10::20/64 --json "$@" || { bad "it starts" "$(cat "$work/err")"; exit 1; }
}
# refused NAME WANTED ARGUMENTS...: it does not start, and says why.
refused() {
    local name=$1 wanted=$2 text status; shift 2
    text=$(in_ forwarder timeout 60 "$exos" forward "$@" 2>&1); status=$?
    if [ $status != 0 ] && [ $status != 124 ]; then has "$name" "$wanted" "$text"; else bad "$name" "status $status: $text"; fi
}
# field PATH: of the last line of JSON, written as in Python.
field() { grep '^{' "$work/out" | tail -n 1 | python3 -c "import json, sys; v = json.load(sys.stdin); print(v$1)"; }
# counters NAME...: their sum, as the forwarder counts now.
counters() {
    local reports name sum=0
    reports=$(grep -c '^{' "$work/out")
    kill -USR1 "$server"
    await more_reports "$reports" || return 1
    for name; do sum=$((sum + $(field "[\"counters\"][\"$name\"]"))); done
    echo $sum
}
more_reports() { [ "$(grep -c '^{' "$work/out")" -gt "$1" ]; }
# wrong_sums HOST: segments and datagrams that the kernel there found damaged.
wrong_sums() {
    in_ "$1" cat /proc/net/snmp /proc/net/snmp6 |
        awk '/^Tcp:|^Udp:/ { if (!($1 in names)) { names[$1] = $0; next } split(names[$1], n); for (i in n) if (n[i] == "InCsumErrors") sum += $i }
             /InCsumErrors/ && !/:/ { sum += $2 } END { print sum + 0 }'
}

network || { bad "a bridge and four namespaces" "$(ip netns list)"; exit 1; }

# ---- servers ----

mkdir "$work/site"
head -c 3000000 /dev/urandom >"$work/site/large.bin"
for host in one two; do
    echo "$host" >"$work/site/$host.txt"
    (cd "$work/site" && exec ip netns exec "$net-$host" python3 -m http.server --bind :: 80) >/dev/null 2>&1 & started+=($!)
    (exec ip netns exec "$net-$host" python3 "$here/forward.py" serve 7) & started+=($!)
    await in_ "$host" python3 "$here/forward.py" echo 127.0.0.1 7 1 || bad "a server starts"
done

# all WIRE: what clients see.
all() {
    local address url
    about="$1 wire: "
    for address in 10.10.0.20 fd10::20; do
        url=http://$address; [ $address = fd10::20 ] && url='http://[fd10::20]'
        check "$address answers echo requests" in_ client ping -c 3 -W 20 $address
        check "$address: a large document" in_ client curl -gsS -m 60 -o "$work/got" "$url/large.bin"
        check "$address: every byte" cmp "$work/got" "$work/site/large.bin"
        check "$address: bytes both ways" peer client echo $address 7 2000000
        check "$address: 200 connections at once" peer client echo $address 7 20000 200
        check "$address: a half that is closed" peer client half $address 7
        check "$address: a datagram" peer client datagram $address 7 100
        check "$address: a datagram in fragments" peer client datagram $address 7 20000
        check "$address: a refusal of a server's is passed on" peer client refused $address 9
        check "$address: and that of a datagram" peer client unreachable $address 9
        check "$address: a port that is not forwarded is refused" peer client refused $address 10
        check "$address: nobody acknowledges what the server has not heard" proof $address
    done
    for host in client one two; do
        same "$host has seen no damaged checksum" 0 "$(wrong_sums $host)"
    done
    about=
}
# proof ADDRESS [HOW]: with the servers cut off, what a client sends is not acknowledged (or HOW); with them back, it arrives.
proof() {
    peer client "${2:-unacknowledged}" "$1" 7 "$work/cut" & local client=$! status
    await test -e "$work/cut.stands"
    for host in one two; do ip -n "$net-switch" link set "$host" down; done
    touch "$work/cut.cut"
    await test -e "$work/cut.seen" && status=0 || status=1
    for host in one two; do ip -n "$net-switch" link set "$host" up; done
    wait $client || status=1
    rm -f "$work"/cut.*
    return $status
}
# slow ADDRESS: bytes both ways for some seconds.
slow() { peer client slow "$1" 7 300000 "$work/slow-$1"; }

listen=(--listen)
for port in 80 7 9 6; do listen+=("10.10.0.20:$port" "[fd10::20]:$port"); done
for port in 7 9; do listen+=("udp:10.10.0.20:$port" "udp:[fd10::20]:$port"); done
to=(--to 10.10.0.11 10.10.0.12 fd10::11 fd10::12)
