#!/bin/bash
# What comes through a forwarder over a wire that loses and takes its time, beside what comes without one:
#
#   sudo bench/forward-losses.sh target/release/exos [SECONDS [SEEDS]]
#
#   client ── emulated wire ── switch ┬─ forwarder
#                                     └─ server
#
# The client is wrk, on the kernel's TCP, with eight connections that ask for 1 MB again and again; the server is exos serve, with
# CUBIC, which losses make so slow that no core is what limits. For each loss and seed a lab is made in which all who forward
# have their turn; told are megabytes a second, and the median over the seeds of what each had by what there was without a
# forwarder. Anyone who joins sockets has another TCP send to the client, so is not in here. Needs root, wrk, curl, ethtool and
# iproute2.
# shellcheck source=../tests/common.sh
source "$(dirname "$(realpath "$0")")/../tests/common.sh"
seconds=${2:-6}
seeds=${3:-5}
need_root "forwarding over bad wires"
need_programs "forwarding over bad wires" wrk ethtool curl ip
begin
lab=fl$$
hosts="forwarder server"
cleanup_lab() { cleanup; for host in $hosts; do ip netns del "exos-$lab-$host" 2>/dev/null; done; }
trap cleanup_lab EXIT

plain() { ip netns exec "$1" ethtool -K "$2" tx off sg off tso off gso off gro off >/dev/null 2>&1; }
# host NAME ADDRESS: a host on the switch.
host() {
    local name=exos-$lab-$1 switch=exos-$lab-b
    ip netns add "$name"
    ip link add wire netns "$name" type veth peer name "$1" netns "$switch"
    plain "$name" wire; plain "$switch" "$1"
    ip -n "$switch" link set "$1" master switch up
    ip -n "$name" link set lo up
    ip -n "$name" link set wire up
    ip -n "$name" address add "$2/24" dev wire
}
# room LOSS SEED: side a of a lab is the client, side b the switch.
room() {
    lab_up --delay 10ms --loss "$1" --seed "$2" || exit 1
    local switch=exos-$lab-b
    ip -n "$switch" link add switch type bridge
    ip netns exec "$switch" sysctl -qw net.bridge.bridge-nf-call-iptables=0 2>/dev/null
    ip -n "$switch" link set wire master switch
    ip -n "$switch" link set switch up
    host forwarder 10.10.0.3
    host server 10.10.0.12
}
unroom() {
    for host in $hosts; do ip netns del "exos-$lab-$host"; done
    "$exos" lab down --name "$lab" >/dev/null
}
# forward WHO: starts it; clients ask at $at.
forward() {
    local in=(ip netns exec "exos-$lab-forwarder")
    local ours=("$exos" forward --link xdp:wire --address 10.10.0.20/24 --listen 10.10.0.20:80 --to 10.10.0.11:80)
    at=10.10.0.20
    case $1 in
        nobody) at=10.10.0.11; return ;;
        exos) "${in[@]}" "${ours[@]}" >"$work/forward" 2>&1 & ;;
        exos-kernel)
            ip netns exec "exos-$lab-b" ethtool -K forwarder gro on >/dev/null
            "${in[@]}" "${ours[@]}" --in-kernel >"$work/forward" 2>&1 & ;;
    esac
    peer=$!
}
# rate WHO: megabytes a second.
rate() {
    forward "$1"
    await inside a -- curl -sf -m 5 -o "$work/got" "http://$at/document.html" || { echo "$1: nothing comes: $(tail -n 1 "$work/forward")" >&2; exit 1; }
    cmp -s "$work/got" "$work/documents/document.html" || { echo "$1: other bytes" >&2; exit 1; }
    inside a -- wrk -t1 -c8 "-d${seconds}s" "http://$at/document.html" >"$work/wrk"
    [ -z "$peer" ] || { kill -TERM "$peer"; wait "$peer" 2>/dev/null; peer=; }
    ip netns exec "exos-$lab-b" ethtool -K forwarder gro off >/dev/null
    awk '$1 == "Transfer/sec:" { unit = $2; sub(/[0-9.]+/, "", unit); sub(/[A-Z]+/, "", $2)
        print $2 * (unit == "GB" ? 1073.741824 : unit == "MB" ? 1.048576 : unit == "KB" ? 0.001024 : 0.000001) }' "$work/wrk"
}

who="nobody exos exos-kernel"
mkdir "$work/documents"
head -c 750000 /dev/urandom | base64 -w0 | head -c 1000000 >"$work/documents/document.html"
for loss in 0.1% 1%; do
    for seed in $(seq "$seeds"); do
        room "$loss" "$seed"
        launch "http://" ip netns exec "exos-$lab-server" "$exos" serve "$work/documents" --link xdp:wire --via none --address 10.10.0.11/24 --port 80 --congestion cubic \
            || { echo "the server does not start: $(tail -n 1 "$work/err")"; exit 1; }
        for one in $who; do echo "$loss $seed $one $(rate "$one")"; done | tee -a "$work/rates"
        end "$server"; server=
        unroom
    done
done
awk '{ rate[$1, $2, $3] = $4; of[$1, $3] = of[$1, $3] " " $2; if (!(($1, $3) in n)) { n[$1, $3] = 0; order[++count] = $1 SUBSEP $3 } }
    function median(list, n,    i, j, t) {
        for (i = 2; i <= n; i++) for (j = i; j > 1 && list[j] < list[j - 1]; j--) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
        return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
    }
    END {
        for (c = 1; c <= count; c++) {
            split(order[c], key, SUBSEP); k = split(of[key[1], key[2]], seeds, " ")
            delete rates; delete ratios
            for (i = 1; i <= k; i++) {
                rates[i] = rate[key[1], seeds[i], key[2]]
                ratios[i] = rates[i] / rate[key[1], seeds[i], "nobody"]
            }
            printf "loss %s, %s: %.2f MB/s, %.3f of what there is without a forwarder (median of %d seeds)\n", key[1], key[2], median(rates, k), median(ratios, k), k
        }
    }' "$work/rates"
