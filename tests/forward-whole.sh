#!/usr/bin/env bash
# The binary as a forwarder by packet sockets, where kernels at both ends send 64 KB at once: what comes whole passes whole, and
# clients see what they see by AF_XDP, over IPv4 and IPv6. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/forward-whole.sh PATH/TO/exos
. "$(dirname "$0")/forward-common.sh"

link=(--link packet:wire --address 10.10.0.20/24)
refused "a tunnel" "--reach tunnel where they come by packet sockets" "${link[@]}" --reach tunnel --listen 10.10.0.20:80 --to 10.10.0.11

# moved HOST WAY: packets that went by its interface, of which one may stand for several.
moved() { in_ "$1" cat "/sys/class/net/wire/statistics/$2_packets"; }
# whole ADDRESS: a document of 3,000,000 bytes, which are 2,072 segments, goes as a tenth of so many packets.
whole() {
    local sent got
    sent=$(($(moved one tx) + $(moved two tx))) got=$(moved client rx)
    check "a large document of $1" in_ client curl -gsS -m 60 -o "$work/got" "http://$1/large.bin"
    check "it is what was served" cmp "$work/got" "$work/site/large.bin"
    sent=$(($(moved one tx) + $(moved two tx) - sent)) got=$(($(moved client rx) - got))
    if [ $sent -le 207 ] && [ $got -le 207 ]; then ok "nobody cuts it"
    else bad "nobody cuts it" "$sent packets left the server, $got came to the client"; fi
}

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
all "packet sockets, in the kernel, on an offload"
user=$(counters forwarded_to_servers forwarded_to_clients)
bytes=$(counters kernel_bytes_to_clients)
whole 10.10.0.20
whole '[fd10::20]'
user=$(($(counters forwarded_to_servers forwarded_to_clients) - user)) bytes=$(($(counters kernel_bytes_to_clients) - bytes))
if [ $user -le 60 ] && [ $bytes -gt 5900000 ]; then ok "its packets do not come to user space"
else bad "its packets do not come to user space" "$user in user space, $bytes bytes in the kernel"; fi
check "datagrams that leave as one, in the kernel" peer client train 10.10.0.20 7 20
stop; same "it ends in order" 0 $?

for how in "" --in-kernel; do
    about="transparent $how: "
    # shellcheck disable=SC2086
    start "${listen[@]}" "${to[@]}" --reach transparent $how
    for host in one two; do ip -n "$net-$host" route replace 10.10.0.1 via 10.10.0.20; done
    whole 10.10.0.20
    stop; same "it ends in order" 0 $?
done

exit $((failures > 0))
