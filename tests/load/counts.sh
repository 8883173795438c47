#!/usr/bin/env bash
# The release binary's `load` counts what the interfaces count: packets and bytes on the link in both directions, to the
# last one, whatever the requests are like. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/load/counts.sh PATH/TO/exos
#
# The counters are those of the server's side of the wire. IPv6, whose kernels announce themselves when they please, is off.
# Then the load alone speaks to the server, but for its host, which asks before whether somebody has the load's address:
# an ARP request of 42 bytes, or three where nobody runs for seconds. ARP of the load and of the server is counted
# by both. A veth whose other end has an XDP program counts what it sends there without Ethernet headers, of 14 bytes.
# Nothing here judges how fast it is.
. "$(dirname "$0")/common.sh"
need_root "the load generator's counts"
need_programs "the load generator's counts" nginx python3
be_alone "$@"
begin
lab=counts-$$
mkdir -p "$work/site"
head -c 100 /dev/urandom >"$work/site/small"
head -c 300000 /dev/urandom >"$work/site/large"
head -c 100000 /dev/urandom >"$work/body"
configure_nginx "log_format sent '\$bytes_sent'; access_log $work/nginx/log sent; keepalive_requests 100;" "listen 10.10.0.1:80;"

lab_up || { bad "lab up"; exit 1; }
for side in a b; do
    for setting in all default; do inside $side -- sysctl -qw net.ipv6.conf.$setting.disable_ipv6=1; done
done
wire=$(inside a -- ls /sys/class/net | grep -v '^lo$')
# Some seconds after it spoke to an address, a kernel asks whether that is still where it was: not here, between two loads.
other=$(inside b -- ls /sys/class/net | grep -v '^lo$')
# knows SIDE INTERFACE ADDRESS OTHER_SIDE OTHER_INTERFACE: it will not ask.
knows() { inside "$1" -- ip neigh replace "$3" lladdr "$(inside "$4" -- cat "/sys/class/net/$5/address")" nud permanent dev "$2"; }
knows a "$wire" 10.10.0.2 b "$other"
knows a "$wire" 10.10.0.20 b "$other"
knows b "$other" 10.10.0.1 a "$wire"
# counted: packets and bytes that came to the server's side, and that left it.
counted() { inside a -- ip -s -j link show dev "$wire" | python3 -S -c 'import json, sys; s = json.load(sys.stdin)[0]["stats64"]; print(*(s[way][what] for way in ("rx", "tx") for what in ("packets", "bytes")))'; }
# rests: until the counters have stood still for a second; what went before is over.
rests() {
    local before now
    before=$(counted)
    for _ in $(seq 60); do
        sleep 1
        now=$(counted)
        [ "$now" != "$before" ] || return 0
        before=$now
    done
    return 1
}
# agrees NAME RESPONSES ARGUMENTS...: a load with this many responses, of whose packets the interface has counted as many.
agrees() {
    local name=$1 responses=$2 before after said; shift 2
    rests || { bad "$name" "the wire does not come to rest"; return; }
    before=$(counted)
    : >"$work/nginx/log"
    timeout 300 "$exos" lab exec --name "$lab" b -- "$exos" load --link xdp:wire --address 10.10.0.20/24 --idle sleep --json --timeout 60s "$@" >"$work/load" 2>"$work/load.err"
    rests
    after=$(counted)
    # shellcheck disable=SC2086
    said=$(python3 -S -c '
import json, sys
results = json.load(open(sys.argv[1])); link = results["link"]
before, after = (list(map(int, sys.argv[n:n + 4])) for n in (2, 6))
packets_to, bytes_to, packets_from, bytes_from = (b - a for a, b in zip(before, after))
asked = packets_to - link["packets_sent"]
assert 1 <= asked <= 3 and bytes_to - link["bytes_sent"] == 42 * asked, ("to the server", packets_to, bytes_to, link)
assert packets_from == link["packets_received"] + link["packets_dropped"], ("from the server", packets_from, link)
assert link["packets_dropped"] or bytes_from == link["bytes_received"] - 14 * packets_from, ("from the server", bytes_from, link)
print(results["responses"])' "$work/load" $before $after 2>&1)
    same "$name: packets and bytes, of $responses responses" "$responses" "$(tail -n 1 <<<"$said")"
    same "$name: bytes of responses, as nginx counts them" "$(awk '{ all += $1 } END { print all }' "$work/nginx/log")" \
        "$(python3 -S -c 'import json; print(json.load(open("'"$work/load"'"))["response_bytes"])' 2>&1)"
}

start_nginx
url=http://10.10.0.1
agrees "connections that stand" 3000 $url/small -n 3000 -c 20
agrees "a connection for each" 2000 $url/small -n 2000 -c 20 --requests-per-connection 1
agrees "nothing merged" 1000 $url/small -n 1000 -c 20 --requests-per-connection 1 --no-merging
agrees "large documents" 100 $url/large -n 100 -c 4
agrees "bodies of a hundred kilobytes, which the kernel cuts" 60 $url/small -n 60 -c 4 -X POST --body "$work/body"
agrees "sixteen under way" 2000 $url/small -n 2000 -c 4 --pipeline 16 --requests-per-connection 100
agrees "a rate" 500 $url/small --rate 500 -d 1s
exit $((failures > 0))
