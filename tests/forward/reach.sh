#!/usr/bin/env bash
# Servers that see their clients, and servers that answer them by themselves: the release binary as a forwarder by each --reach,
# with checksums that the kernel leaves unfinished and without, in user space and in the kernel. Prints "ok NAME", "not ok NAME:
# why" or "SKIPPED: ..." lines.
#
#   tests/forward/reach.sh PATH/TO/exos
. "$(dirname "$0")/common.sh"

# settings REACH: what servers have to be set to; `unset_` undoes it.
unwrapping=()
settings_() {
    local host=$1
    case $2 in
    transparent)
        ip -n "$net-$host" route add 10.10.0.1/32 via 10.10.0.20 dev wire
        ip -n "$net-$host" route add fd10::1/128 via fd10::20 dev wire ;;
    direct)
        in_ $host sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
        ip -n "$net-$host" address add 10.10.0.20/32 dev lo
        ip -n "$net-$host" address add fd10::20/128 dev lo ;;
    tunnel)
        settings_ $host direct
        (exec ip netns exec "$net-$host" python3 -S "$here/forward.py" unwrap unwrap) & started+=($!); unwrapping+=($!)
        await ip -n "$net-$host" link set unwrap up || bad "a tunnel ends at $host"
        in_ $host sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.unwrap.rp_filter=0 ;;
    esac
}
settings() { local host; for host in one two; do settings_ $host "$1"; done; }
unset_() {
    local host
    [ "$1" != tunnel ] || end "${unwrapping[@]}"
    unwrapping=()
    for host in one two; do
        case $1 in
        transparent)
            ip -n "$net-$host" route delete 10.10.0.1/32
            ip -n "$net-$host" route delete fd10::1/128 ;;
        direct | tunnel)
            ip -n "$net-$host" address delete 10.10.0.20/32 dev lo
            ip -n "$net-$host" address delete fd10::20/128 dev lo ;;
        esac
    done
}
# documents: what has to do with how long packets are, and with their checksums.
documents() {
    local address url
    for address in 10.10.0.20 fd10::20; do
        url=http://$address; [ $address = fd10::20 ] && url='http://[fd10::20]'
        check "$address: a document" in_ client curl -gsS -m 60 -o "$work/got" "$url/large.bin"
        check "$address: all of it" cmp "$work/got" "$work/site/large.bin"
        check "$address: bytes both ways again" peer client echo $address 7 300000
        check "$address: another datagram in fragments" peer client datagram $address 7 9000
    done
    for host in client one two; do
        same "$host has seen no damaged checksum still" 0 "$(wrong_sums $host)"
    done
}
# reached REACH WIRE [--in-kernel]: all that clients see, and whom servers see.
reached() {
    local address server_of
    settings "$1"
    # Servers that have the listener's address are spoken to from another.
    start --address 10.10.0.21/24 --address fd10::21/64 "${listen[@]}" "${to[@]}" --reach "$1" ${3:+"$3"}
    [ "$2" = plain ] || all "$1${3:+ in the kernel}, $2"
    about="$1${3:+ in the kernel}, $2 wire: "
    documents
    for address in 10.10.0.20 fd10::20; do check "$address: servers see their clients" peer client seen $address 6; done
    [ -z "${3:-}" ] || by_the_kernel "$1"
    server_of=$(counters forwarded_to_clients ${3:+kernel_forwarded_to_clients})
    if [ "$1" != transparent ]; then same "servers answer by themselves" 0 "$server_of"
    else same "answers come by the forwarder" yes "$([ "$server_of" -gt 1000 ] && echo yes)"; fi
    # On the second wire they know it from the first.
    if [ "$1" = tunnel ] && [ "$2" = offload ]; then same "clients were told what fits" yes "$([ "$(counters too_big_answered)" -gt 0 ] && echo yes)"; fi
    same "nothing was lost" "0 0 0" "$(for name in drop_ends_in_use drop_table_full drop_hops; do field "[\"counters\"][\"$name\"]"; done | xargs)"
    stop; same "it ends in order" 0 $?
    unset_ "$1"
    about=
}
# by_the_kernel REACH: packets of what stands go by the kernel, and nothing else comes to user space than begins and ends it.
by_the_kernel() {
    local address
    for address in 10.10.0.20 fd10::20; do
        rm -f "$work"/slow-*
        touch "$work/slow-$address.go"
        check "$address: bytes both ways go by the kernel" in_time by_kernel_of "$1" 200 20 slow "$address" 7 300000 "$work/slow-$address"
        # Of the first ones one is told in the next second that it is not the only one.
        check "$address: datagrams too" in_time by_kernel_of "$1" 6 8 several "$address" 7 12
    done
    check "none is left there" await none_is_left
    same "all had room" 0 "$(field '["counters"]["kernel_flows_refused"]')"
    same "they are traffic of servers" True "$(field '["servers"] and sum(s["bytes_to_servers"] for s in v["servers"] if s["server"].endswith(":7")) > 600000')"
}
# spent WHAT...: what the packets of a client took: to servers and to clients, in user space and in the kernel, into $took.
spent() {
    local before now n
    mapfile -t before < <(counts "${ways[@]}")
    peer client "$@" || return
    mapfile -t now < <(counts "${ways[@]}")
    [ "${#before[@]} ${#now[@]}" = "${#ways[@]} ${#ways[@]}" ] || { echo "it does not count"; return 1; }
    took=()
    for n in "${!ways[@]}"; do took+=($((now[n] - before[n]))); done
}
ways=(forwarded_to_servers forwarded_to_clients kernel_forwarded_to_servers kernel_forwarded_to_clients)
# by_kernel_of REACH LEAST MOST WHAT...: of a client's packets this many at least went by the kernel each way that they come, and this many at
# most by user space.
by_kernel_of() {
    local reach=$1 least=$2 most=$3 user took; shift 3
    spent "$@" || return
    user=$((took[0] + took[1]))
    echo "${took[*]}"
    [ "${took[2]}" -ge "$least" ] && [ $user -gt 0 ] && [ $user -le "$most" ] || return
    if [ "$reach" = direct ]; then [ $((took[1] + took[3])) = 0 ]; else [ "${took[3]}" -ge "$least" ]; fi
}
# Of TCP; datagrams are for five minutes.
none_is_left() { counters kernel_flows_begun && [ "$(field '["flows"]["established"] + v["flows"]["claimed"]')" = 0 ] && [ "$(field '["flows"]["in_kernel"] == v["flows"]["talking"]')" = True ]; }

# ---- what the kernel leaves unfinished, and then what looks like a wire ----

in_kernel_too() {
    in_ switch ethtool -K forwarder gro on
    for reach in transparent direct; do reached $reach "$1" --in-kernel; done
    in_ switch ethtool -K forwarder gro off
}
for reach in transparent direct tunnel; do reached $reach offload; done
in_kernel_too offload
for host in client one two; do
    in_ $host ethtool -K wire tx off tso off gso off gro off >/dev/null 2>&1 || true
done
for reach in transparent direct tunnel; do reached $reach plain; done
in_kernel_too plain

# ---- each service its own, by a file that is read again, and by a command ----

# It answers one's clients by itself; the other sees them.
settings_ one direct
settings_ two transparent
in_ switch ethtool -K forwarder gro on
about="in the kernel, by a file: "
file() { cat >"$work/forward.toml"; }
said_so() { grep -q "$1" "$work/err"; }
ctl() { "$exos" forward ctl --control "$work/control" "$@"; }
head='in_kernel = true
control = "'$work/control'"
[link]
name = "xdp:wire"
addresses = ["10.10.0.19/24", "10.10.0.20/24", "10.10.0.21/24", "fd10::19/64", "fd10::20/64", "fd10::21/64"]
[[service]]
listen = ["10.10.0.21:7"]
to = ["10.10.0.11", "10.10.0.12"]
'
echo "$head" | file
launch tcp ip netns exec "$net-forwarder" "$exos" forward --config "$work/forward.toml" --json || bad "it starts from a file" "$(cat "$work/err")"
# A second is what it takes at most.
forwards_v6() {
    local before
    before=$(counters kernel_forwarded_to_servers) && peer client echo fd10::20 7 100000 && [ $(($(counters kernel_forwarded_to_servers) - before)) -ge 20 ]
}
# goes_by REACH ADDRESS: its packets go by the kernel as they do by this reach.
goes_by() {
    rm -f "$work"/slow-*
    touch "$work/slow-$2.go"
    check "$2: by the kernel, $1" in_time by_kernel_of "$1" 200 20 slow "$2" 7 300000 "$work/slow-$2"
}
goes_by nat 10.10.0.21
echo "$head"'[[service]]
listen = ["10.10.0.20:7", "10.10.0.20:6", "[fd10::20]:7", "udp:10.10.0.20:7"]
reach = "direct"
to = ["10.10.0.11", "fd10::11"]
[[service]]
listen = ["10.10.0.21:6", "[fd10::21]:7"]
reach = "transparent"
to = ["10.10.0.12", "fd10::12"]' | file
kill -HUP "$server"
check "it reads the file again" await said_so "read its file again: 6 added"
check "the kernel has learned of IPv6" await forwards_v6
goes_by nat 10.10.0.21
goes_by direct 10.10.0.20
goes_by direct fd10::20
goes_by transparent fd10::21
for address in 10.10.0.20 10.10.0.21; do check "$address: servers see their clients" peer client seen $address 6; done
# Another server that answers by itself, by a command; connections go to it alone.
ip -n "$net-two" address add 10.10.0.20/32 dev lo
in_ two sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
ip -n "$net-two" route delete 10.10.0.1/32
check "a server is added" ctl add 10.10.0.12 --listener tcp:10.10.0.20:7
check "the other is drained" ctl drain 10.10.0.11 --listener tcp:10.10.0.20:7
goes_by direct 10.10.0.20
of() { ctl status --json | python3 -S -c "import json, sys; print(next(s['$2'] for s in json.load(sys.stdin)['status']['servers'] if s['protocol'] == 'tcp' and s['server'] == '$1' and s['reach'] == 'direct'))"; }
same "which was the new one's" True "$([ "$(of 10.10.0.12:7 bytes_to_servers)" -gt 300000 ] && echo True)"
echo "$head"'[[service]]
listen = ["10.10.0.20:7"]
reach = "tunnel"
to = ["10.10.0.11"]' | file
kill -HUP "$server"
check "a tunnel is refused" await said_so "goes on as before: .*does not forward by --reach tunnel"
goes_by direct 10.10.0.20
stop; same "it ends in order" 0 $?
exit $((failures > 0))
