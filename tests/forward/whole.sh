#!/usr/bin/env bash
# The binary as a forwarder by packet sockets, where kernels at both ends send 64 KB at once: what comes whole passes whole, and
# clients see what they see by AF_XDP, over IPv4 and IPv6. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/forward/whole.sh PATH/TO/exos
. "$(dirname "$0")/common.sh"

link=(--link packet:wire --address 10.10.0.20/24)
refused "a tunnel" "--reach tunnel where they come by packet sockets" "${link[@]}" --reach tunnel --listen 10.10.0.20:80 --to 10.10.0.11

# moved HOST WAY: packets that went by its interface, of which one may stand for several.
moved() { in_ "$1" cat "/sys/class/net/wire/statistics/$2_packets"; }
# uncut ADDRESS: a document of 3,000,000 bytes, which are 2,072 segments, goes as a tenth as many packets.
uncut() {
    local sent got
    sent=$(($(moved one tx) + $(moved two tx))) got=$(moved client rx)
    in_ client curl -gsS -m 60 -o "$work/got" "http://$1/large.bin" && cmp "$work/got" "$work/site/large.bin" || return
    sent=$(($(moved one tx) + $(moved two tx) - sent)) got=$(($(moved client rx) - got))
    echo "$sent packets left the server, $got came to the client"
    [ $sent -le 207 ] && [ $got -le 207 ]
}
whole() { check "a large document of $1 comes, and nobody cuts it" in_time uncut "$1"; }

link_kind=packet
start "${listen[@]}" "${to[@]}"
all "packet sockets on an offload"
whole 10.10.0.20
whole '[fd10::20]'
same "nothing was without a port, a place or a hop" 0 "$(counters drop_no_port drop_table_full drop_hops)"
# Datagrams that are cut behind their sender's stack, too.
check "datagrams that leave as one" peer client train 10.10.0.20 7 20

# Killed, it leaves nothing on the interface: the host has its packets again.
kill -KILL "$server"; wait "$server" 2>/dev/null
ip -n "$net-forwarder" address add 10.10.0.20/24 dev wire
check "the host answers when it was killed" in_ client ping -c 1 -W 20 10.10.0.20
ip -n "$net-forwarder" address del 10.10.0.20/24 dev wire

start "${listen[@]}" "${to[@]}" --in-kernel
for address in 10.10.0.20 fd10::20; do
    check "in the kernel, $address: bytes both ways" peer client echo $address 7 2000000
    check "in the kernel, $address: 200 connections at once" peer client echo $address 7 20000 200
    check "in the kernel, $address: a datagram in fragments" peer client datagram $address 7 20000
done
# by_kernel: of two documents of 3 MB; the first packets of each, of up to 64 KB, come before the kernel is told.
by_kernel() {
    local user bytes
    user=$(counters forwarded_to_servers forwarded_to_clients)
    bytes=$(counters kernel_bytes_to_clients)
    uncut 10.10.0.20 && uncut '[fd10::20]' || return
    user=$(($(counters forwarded_to_servers forwarded_to_clients) - user)) bytes=$(($(counters kernel_bytes_to_clients) - bytes))
    echo "$user in user space, $bytes bytes in the kernel"
    [ $user -le 60 ] && [ $bytes -gt 5000000 ] && [ $((bytes + user * 65536)) -gt 6000000 ]
}
check "nobody cuts large documents, whose packets do not come to user space" in_time by_kernel
check "datagrams that leave as one, in the kernel" peer client train 10.10.0.20 7 20
for host in client one two; do same "in the kernel, $host has seen no damaged checksum" 0 "$(wrong_sums $host)"; done
stop; same "it ends in order" 0 $?

for how in "" --in-kernel; do
    about="transparent $how: "
    # shellcheck disable=SC2086
    start "${listen[@]}" "${to[@]}" --reach transparent $how
    for host in one two; do ip -n "$net-$host" route replace 10.10.0.1 via 10.10.0.20; done
    whole 10.10.0.20
    stop; same "it ends in order" 0 $?
done

# Another takes its place, while clients come and a connection stands.
for how in "" --in-kernel; do
    about="taken over $how: "
    # shellcheck disable=SC2206
    kept=("${listen[@]}" "${to[@]}" --control "$work/control" --keep "$work/flows" $how)
    rm -f "$work"/knock* "$work"/slow-*
    start "${kept[@]}"
    peer client knock 10.10.0.20 7 60 "$work/knock" >"$work/knocked" 2>&1 & clients=$!
    slow 10.10.0.20 >"$work/slow.out" 2>&1 & half=$!
    await test -e "$work/knock.some" && await test -e "$work/slow-10.10.0.20.half"
    first=$server
    start "${kept[@]}" --take-over
    wait "$first"; same "the one before ends" 0 $?
    touch "$work/slow-10.10.0.20.go"
    check "a connection goes on" wait $half
    rm -f "$work/knock.some"; await test -e "$work/knock.some"
    touch "$work/knock.enough"
    check "all who come are served" wait $clients
    stop; same "it ends in order" 0 $?
    rm -f "$work/flows"
done

exit $((failures > 0))
