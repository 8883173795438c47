#!/usr/bin/env bash
# The release binary as a forwarder between two networks: clients on one interface, servers on another, IPv4 and IPv6, TCP and UDP;
# packets too long for the other side, servers that see their clients, checks, a forwarder that is killed and one that takes over; in
# user space and in the kernel, by AF_XDP and by packet sockets.
# Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/forward/links.sh PATH/TO/exos
#
#   client  10.10.0.1  ── front │ forwarder 10.10.0.20 │ 10.10.1.20 │ wire ── switch ── one, two  10.10.1.11, .12
. "$(dirname "$0")/../common.sh"
need_root "exos forward across two interfaces"
need_programs "exos forward" ip ethtool ping python3 curl
begin
. "$here/hosts.sh"
net=links-$$
reports=$work/out
hosts=(client forwarder one two)

cleanup() {
    local host
    # shellcheck disable=SC2086
    end $server "${servers[@]}"
    for host in "${hosts[@]}" switch; do ip netns delete "$net-$host" 2>/dev/null; done
    rm -rf "$work"
}
# addressed HOST DEVICE NETWORK NUMBER
addressed() {
    in_ "$1" sysctl -qw "net.ipv6.conf.$2.accept_dad=0"
    ip -n "$net-$1" address add "10.10.$3.$4/24" dev "$2"
    ip -n "$net-$1" address add "fd1$3::$4/64" dev "$2"
}
network() {
    switch && host forwarder 0 && host one 0 && host two 0 || return 1
    addressed one wire 1 11; addressed two wire 1 12
    ip netns add "$net-client" && ip -n "$net-client" link set lo up
    ip link add wire netns "$net-client" type veth peer name front netns "$net-forwarder" || return 1
    ip -n "$net-client" link set wire up && ip -n "$net-forwarder" link set front up
    addressed client wire 0 1
    # Behind routers of the forwarder's, which are the client's and a server's hosts themselves: a client and a server.
    ip -n "$net-client" address add 203.0.113.1/32 dev lo
    ip -n "$net-one" address add 198.51.100.1/32 dev lo
}
front=(--link xdp:front --address 10.10.0.20/24 --address fd10::20/64)
back=(--link xdp:wire --address 10.10.1.20/24 --address fd11::20/64)
# start ARGUMENTS...: the forwarder, with the links that are among these.
start() {
    launch tcp ip netns exec "$net-forwarder" "$exos" forward --json "$@" || { bad "it starts" "$(cat "$work/err")"; exit 1; }
}
run_forwarder() { in_ forwarder timeout 60 "$exos" forward "$@"; }
ask_for_report() { kill -USR1 "$server"; }
slow() { peer client slow "$1" 7 300000 "$work/slow-$1"; }
ctl() { "$exos" forward ctl --control "$work/control" "$@"; }
# Also those that were cut off for a while.
are_well() { counters drop_hops && [ "$(field '["servers"] and all(s["checks_passed"] > 0 and s["well"] for s in v["servers"] if s["protocol"] == "tcp")')" = True ]; }
more() { [ "$(counters "$1")" -gt "$2" ]; }

network || { bad "two networks" "$(ip netns list)"; exit 1; }
serve_on one two

listen=(--listen)
for port in 80 7 9 6; do listen+=("10.10.0.20:$port" "[fd10::20]:$port"); done
for port in 7 9; do listen+=("udp:10.10.0.20:$port" "udp:[fd10::20]:$port"); done
to=(--to 10.10.1.11 10.10.1.12 fd11::11 fd11::12)

# ---- what is refused ----

few=(--listen 10.10.0.20:80 --to 10.10.1.11)
refused "an address before its link" "stands before the first of several --link" --address 10.10.0.20/24 --link xdp:front --link xdp:wire "${few[@]}"
refused "one interface as two links" "named as two links" "${front[@]}" --link xdp:front --address 10.10.1.20/24 "${few[@]}"
refused "one network on two links" "are one network" "${front[@]}" --link xdp:wire --address 10.10.0.21/24 "${few[@]}"
refused "two default gateways" "not the only default gateway" "${front[@]}" --gateway 10.10.0.1 "${back[@]}" --gateway 10.10.1.1 "${few[@]}"
refused "a link in the kernel where packets would not arrive" "would not arrive" "${front[@]}" "${back[@]}" --in-kernel "${few[@]}"
refused "two links of which a daemon lends one" "are two links" "${front[@]}" "${back[@]}" --via xokd "${few[@]}"
refused "a TAP device" "give --link xdp:INTERFACE" "${front[@]}" --link tap:t0 --address 10.10.1.20/24 "${few[@]}"
refused "packet sockets" "give --link xdp:INTERFACE for each" "${front[@]}" --link packet:wire --address 10.10.1.20/24 "${few[@]}"
refused "one address on two links" "an address on front and on wire" "${front[@]}" --link xdp:wire --address 10.10.0.20/25 "${few[@]}"
refused "a router that is not on the link" "in the prefix of none" "${front[@]}" "${back[@]}" --route 10.8.0.0/16,10.10.0.1 "${few[@]}"
refused "one route on two links" "are one network" "${front[@]}" --route 10.8.0.0/16,10.10.0.1 "${back[@]}" --route 10.8.0.0/16,10.10.1.1 "${few[@]}"
refused "a route where the daemon knows them" "the daemon knows routes" --via xokd --address 10.10.0.20/24 --route 10.8.0.0/16,10.10.0.1 "${few[@]}"
refused "a route of joined sockets" "need no link" --splice --route 10.8.0.0/16,10.10.0.1 "${few[@]}"
refused "a server without a route" "no route leads to" "${front[@]}" "${back[@]}" --listen 10.10.0.20:80 --to 192.0.2.1
refused "an address that is to be shared" "unexpected argument '--share-address'" --link xdp:front --share-address "${few[@]}"
ip -n "$net-forwarder" address add 10.10.0.20/24 dev front
refused "an address of the host" "choose one that nobody has" "${front[@]}" --gateway 10.10.0.1 --listen 10.10.0.20:80 --to 10.10.0.9
ip -n "$net-forwarder" address delete 10.10.0.20/24 dev front
refused "a link without an address" "no address to answer for" "${front[@]}" --link xdp:wire "${few[@]}"

# ---- all that clients see, with checks ----

start "${front[@]}" --gateway 10.10.0.1 "${back[@]}" --route 198.51.100.0/24,10.10.1.11 "${listen[@]}" "${to[@]}" --check tcp --check-interval 1s --check-port 7 --control "$work/control"
clients_see
check "a client behind the gateway" in_ client curl -gsS -m 60 --interface 203.0.113.1 -o /dev/null http://10.10.0.20/one.txt
same "no packet waited for a port, a place or a hop" "0 0 0 0" \
    "$(counters drop_hops >/dev/null; for name in drop_no_port drop_table_full drop_hops drop_ip_no_route; do field "[\"counters\"][\"$name\"]"; done | xargs)"
check "every server passes its checks" await are_well
same "each link has counted" "front wire True" \
    "$(field '["links"][0]["link"] + " " + v["links"][1]["link"], all(l["counters"]["link_rx_frames"] > 1000 and l["counters"]["link_tx_frames"] > 1000 for l in v["links"])' | tr -d "(),'")"
same "together what the forwarder has" True "$(field '["counters"]["link_rx_frames"] == sum(l["counters"]["link_rx_frames"] for l in v["links"])')"
has "Prometheus is told of each" 'exos_forward_by_link_link_rx_frames_total{link="wire"}' "$(ctl metrics)"
check "an address that nobody has is added" ctl add 10.10.1.99 --listener udp:10.10.0.20:7
check "which is told" await grep -q "nobody has the address 10.10.1.99 on this link" "$work/err"
for server_of in 10.10.1.11 10.10.1.12; do ctl drain "$server_of" --listener tcp:10.10.0.20:80 >/dev/null; done
check "a server behind a router is added" ctl add 198.51.100.1 --listener tcp:10.10.0.20:80
check "and sends documents, also to the client behind the gateway" in_ client curl -gsS -m 60 --interface 203.0.113.1 -o /dev/null http://10.10.0.20/one.txt
stop; same "it ends in order" 0 $?

# ---- in the kernel ----

about="in the kernel: "
gro() { in_ client ethtool -K wire gro "$1" && in_ switch ethtool -K forwarder gro "$1"; }
said_so() { [ "$(grep -c "$1" "$work/err")" -ge "$2" ]; }
kernel=(kernel_forwarded_to_servers kernel_forwarded_to_clients)
# by_kernel COMMAND...: it succeeds, and packets of it went each way in the kernel.
by_kernel() {
    local before now n
    mapfile -t before < <(counts "${kernel[@]}")
    "$@" || return
    mapfile -t now < <(counts "${kernel[@]}")
    [ "${#before[@]} ${#now[@]}" = "${#kernel[@]} ${#kernel[@]}" ] || { echo "it does not count"; return 1; }
    for n in "${!kernel[@]}"; do
        [ $((now[n] - before[n])) -ge 20 ] || { echo "${kernel[n]}: $((now[n] - before[n]))"; return 1; }
    done
}
gro on
start "${front[@]}" --gateway 10.10.0.1 "${back[@]}" "${listen[@]}" "${to[@]}" --in-kernel
for address in 10.10.0.20 fd10::20; do
    url=http://$address; [ $address = fd10::20 ] && url='http://[fd10::20]'
    check "$address: a large document" by_kernel in_ client curl -gsS -m 60 -o "$work/got" "$url/large.bin"
    check "$address: every byte" cmp "$work/got" "$work/site/large.bin"
    check "$address: bytes both ways" by_kernel peer client echo $address 7 300000
    check "$address: datagrams" peer client several $address 7 12
done
check "a client behind the gateway" by_kernel in_ client curl -gsS -m 60 --interface 203.0.113.1 -o /dev/null http://10.10.0.20/large.bin
same "user space had what begins and ends connections" True "$([ "$(counters forwarded_to_servers forwarded_to_clients)" -le 300 ] && echo True)"
# One connection goes on in user space, another comes back from there.
rm -f "$work"/slow-*
slow 10.10.0.20 >"$work/slow" 2>&1 & first_slow=$!
await test -e "$work/slow-10.10.0.20.half"
in_ client ethtool -K wire gro off
check "it is noticed that packets do not arrive any more" await said_so "no longer in the kernel" 1
slow fd10::20 >"$work/slow" 2>&1 & second_slow=$!
await test -e "$work/slow-fd10::20.half"
touch "$work/slow-10.10.0.20.go"
check "a connection goes on in user space" wait $first_slow
in_ client ethtool -K wire gro on
check "and that they do again" await said_so "in the kernel again" 1
before=$(counters "${kernel[@]}")
touch "$work/slow-fd10::20.go"
check "another comes back from there" wait $second_slow
check "into the kernel" more kernel_forwarded_to_clients 100
rm -f "$work"/slow-*
same "which has its packets" True "$([ $(($(counters "${kernel[@]}") - before)) -ge 100 ] && echo True)"
for host in client one two; do same "$host has seen no damaged checksum" 0 "$(wrong_sums $host)"; done
same "all had room" 0 "$(field '["counters"]["kernel_flows_refused"]')"
stop; same "it ends in order" 0 $?

# ---- what is too long for the other side ----

about="too long: "
ip -n "$net-forwarder" link set wire mtu 1400
# Servers that say to their peers that they take more than comes through.
for host in one two; do
    ip -n "$net-$host" route replace 10.10.1.0/24 dev wire mtu lock 1400 advmss 1460
    ip -n "$net-$host" -6 route replace fd11::/64 dev wire metric 256 mtu lock 1400 advmss 1440
done
for how in "" --in-kernel; do
about="too long${how:+ in the kernel}: "
in_ client ip route flush cache; in_ client ip -6 route flush cache
# shellcheck disable=SC2086
start "${front[@]}" "${back[@]}" "${listen[@]}" "${to[@]}" $how
# Before the client is told what fits.
check "a datagram in fragments" peer client datagram 10.10.0.20 7 9000
check "which were cut again" more forwarded_cut 0
check "bytes both ways" peer client echo 10.10.0.20 7 300000
same "the client was told" True "$([ "$(counters too_big_answered)" -ge 1 ] && echo True)"
told=$(counters too_big_answered)
check "bytes both ways over IPv6" peer client echo fd10::20 7 300000
check "of IPv6 too it was told" more too_big_answered "$told"
check "a datagram in fragments over IPv6" peer client datagram fd10::20 7 9000
for host in client one two; do same "$host has seen no damaged checksum" 0 "$(wrong_sums $host)"; done
stop; same "it ends in order" 0 $?
done
ip -n "$net-forwarder" link set wire mtu 1500
for host in one two; do
    ip -n "$net-$host" route replace 10.10.1.0/24 dev wire
    ip -n "$net-$host" -6 route replace fd11::/64 dev wire metric 256
done

# ---- servers that see their clients ----

about="transparent: "
for host in one two; do
    ip -n "$net-$host" route add 10.10.0.0/24 via 10.10.1.20 dev wire
    ip -n "$net-$host" route add fd10::/64 via fd11::20 dev wire
done
for how in "" --in-kernel; do
    about="transparent${how:+ in the kernel}: "
    # shellcheck disable=SC2086
    start "${front[@]}" "${back[@]}" "${listen[@]}" "${to[@]}" --reach transparent $how
    for address in 10.10.0.20 fd10::20; do
        check "$address: bytes both ways" ${how:+by_kernel} peer client echo $address 7 300000
        check "$address: servers see their clients" peer client seen $address 6
    done
    stop; same "it ends in order" 0 $?
done
gro off

# ---- by packet sockets ----

# many_in_one URL: a large document comes, by fewer packets than its 2,072 segments.
many_in_one() {
    local got
    got=$(in_ client cat /sys/class/net/wire/statistics/rx_packets)
    in_ client curl -gsS -m 60 -o "$work/got" "$1/large.bin" && cmp "$work/got" "$work/site/large.bin" || return
    got=$(($(in_ client cat /sys/class/net/wire/statistics/rx_packets) - got))
    echo "$got packets"
    [ $got -le 400 ]
}
by_sockets=(--link packet:front --address 10.10.0.20/24 --address fd10::20/64 --link packet:wire --address 10.10.1.20/24 --address fd11::20/64)
ip -n "$net-forwarder" link set wire mtu 1400
refused "packet sockets of two MTUs" "have one MTU" "${by_sockets[@]}" "${few[@]}"
ip -n "$net-forwarder" link set wire mtu 1500
for how in "" --in-kernel; do
    about="packet sockets${how:+, in the kernel}: "
    # shellcheck disable=SC2086
    start "${by_sockets[@]}" "${listen[@]}" --to 10.10.1.11 fd11::11 $how
    for address in 10.10.0.20 fd10::20; do
        url=http://$address; [ $address = fd10::20 ] && url='http://[fd10::20]'
        check "$address: segments of a large document come many in one" in_time many_in_one "$url"
        check "$address: bytes both ways" peer client echo $address 7 2000000
        check "$address: 100 connections at once" peer client echo $address 7 20000 100
        check "$address: a datagram in fragments" peer client datagram $address 7 20000
        check "$address: datagrams that leave as one" peer client train $address 7 20
    done
    [ -z "$how" ] || check "the kernel forwards" more kernel_forwarded_to_clients 100
    same "nothing was without a port or a hop" 0 "$(counters drop_no_port drop_hops)"
    # What stands for several does not wait for its neighbour, who is asked again after a while.
    few_uncut() { [ "$(counters drop_uncut)" -le 10 ]; }
    check "hardly anything was lost" few_uncut
    for host in client one; do same "$host has seen no damaged checksum" 0 "$(wrong_sums $host)"; done
    stop; same "it ends in order" 0 $?
done

# ---- another in its place, by a file, as another user ----

about="another in its place: "
chmod 711 "$work"
mkdir -m 777 "$work/run"
cat >"$work/forward.toml" <<END
keep = "$work/run/flows"
control = "$work/run/control"
[[link]]
name = "xdp:front"
addresses = ["10.10.0.20/24", "fd10::20/64"]
[[link]]
name = "xdp:wire"
addresses = ["10.10.1.20/24", "fd11::20/64"]
[[service]]
listen = ["10.10.0.20:7", "[fd10::20]:7", "10.10.0.20:80"]
to = ["10.10.1.11", "fd11::11"]
END
file=(--config "$work/forward.toml" --user 65534:65534)
check "the file is good" run_forwarder "${file[@]}" --check
start "${file[@]}"
for address in 10.10.0.20 fd10::20; do slow $address >"$work/slow" 2>&1 & eval "slow_${address//[.:]/_}=$!"; done
await test -e "$work/slow-10.10.0.20.half" && await test -e "$work/slow-fd10::20.half"
end "$server"; server=
start "${file[@]}"
has "one that was killed has left its connections" "goes on with" "$(cat "$work/err")"
first=$server
start "${file[@]}" --take-over
wait "$first"; same "one that is asked ends in order" 0 $?
has "and leaves them" "goes on with" "$(cat "$work/err")"
touch "$work/slow-10.10.0.20.go" "$work/slow-fd10::20.go"
check "a connection outlives both" wait "$slow_10_10_0_20"
check "and one over IPv6" wait "$slow_fd10__20"
sed -i 's/"10.10.1.11", /"10.10.1.11", "10.10.1.12", /' "$work/forward.toml"
kill -HUP "$server"
check "it reads the file again" await grep -q "read its file again: 2 added" "$work/err"
check "a document" in_ client curl -gsS -m 60 -o /dev/null http://10.10.0.20/one.txt
stop; same "it ends in order" 0 $?

exit $((failures > 0))
