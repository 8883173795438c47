#!/usr/bin/env bash
# The release binary as a forwarder on two cores, over veths of two queues: one interface, and two with clients and servers on either
# side; in user space and in the kernel; checks, limits, statistics, flows that are kept, and another in its place. Prints "ok NAME",
# "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/forward/cores.sh PATH/TO/exos
#
#   client  10.10.0.1  ── front │ forwarder 10.10.0.20 │ 10.10.1.20 │ back ── one  10.10.1.11, .12
. "$(dirname "$0")/../common.sh"
need_root "exos forward on two cores"
[ "$(nproc)" -ge 2 ] || skip "exos forward on two cores" "there is one"
need_programs "exos forward" ip ethtool ping python3 curl
begin
. "$here/hosts.sh"
net=fcores-$$
reports=$work/out
# Another user makes files there.
chmod 711 "$work"; mkdir -m 777 "$work/run"

cleanup() {
    local host
    # shellcheck disable=SC2086
    end $server "${servers[@]}"
    for host in client forwarder one; do ip netns delete "$net-$host" 2>/dev/null; done
    rm -rf "$work"
}
# wire HOST DEVICE NETWORK NUMBER...: two queues between a host and the forwarder, whose end is DEVICE.
wire() {
    local host=$1 device=$2 network=$3 number; shift 3
    ip link add wire netns "$net-$host" numrxqueues 2 numtxqueues 2 type veth \
        peer name "$device" netns "$net-forwarder" numrxqueues 2 numtxqueues 2 || return 1
    in_ "$host" sysctl -qw net.ipv6.conf.wire.accept_dad=0
    ip -n "$net-$host" link set wire up && ip -n "$net-forwarder" link set "$device" up
    for number; do
        ip -n "$net-$host" address add "10.10.$network.$number/24" dev wire
        ip -n "$net-$host" address add "fd1$network::$number/64" dev wire
    done
}
for host in client forwarder one; do ip netns add "$net-$host" && ip -n "$net-$host" link set lo up; done
wire client front 0 1 2 && wire one back 1 11 12 || { bad "two wires of two queues" "$(ip netns list)"; exit 1; }
control=(--control "$work/run/control")
front=(--link xdp:front --address 10.10.0.20/24 --address fd10::20/64)
back=(--link xdp:back --address 10.10.1.20/24 --address fd11::20/64)

start() {
    launch tcp ip netns exec "$net-forwarder" "$exos" forward --json "$@" || { bad "it starts" "$(cat "$work/err")"; exit 1; }
}
run_forwarder() { in_ forwarder timeout 60 "$exos" forward "$@"; }
ask_for_report() { kill -USR1 "$server"; }
slow() { peer client slow "$1" 7 300000 "$work/slow-$1"; }
ctl() { "$exos" forward ctl --control "$work/run/control" "$@"; }
# both COUNTER: both cores have counted it, and together what the forwarder has.
both() {
    counters drop_hops >/dev/null
    same "both cores have $1, which add up" True \
        "$(field "[\"counters\"][\"$1\"] == sum(c[\"counters\"][\"$1\"] for c in v[\"cores\"]) and all(c[\"counters\"][\"$1\"] > 50 for c in v[\"cores\"])")"
}
more() { [ "$(counters "$1")" -gt "$2" ]; }
are_well() { counters drop_hops && [ "$(field '["servers"] and all(s["checks_passed"] > 0 and s["well"] for s in v["servers"])')" = True ]; }

serve_on client one

# clients_of CONNECTIONS ADDRESS...: what clients see of a forwarder on two cores, with this many connections at once.
clients_of() {
    local address url count=$1; shift
    for address; do
        url=http://$address; [[ $address != *:* ]] || url="http://[$address]"
        check "$address answers echo requests" in_ client ping -c 3 -i 0.2 -W 20 "$address"
        check "$address: a large document" in_ client curl -gsS -m 60 -o "$work/got" "$url/large.bin"
        check "$address: every byte" cmp "$work/got" "$work/site/large.bin"
        check "$address: $count connections at once" peer client echo "$address" 7 20000 "$count"
        check "$address: a half that is closed" peer client half "$address" 7
        check "$address: a datagram" peer client datagram "$address" 7 100
        check "$address: a datagram in fragments" peer client datagram "$address" 7 20000
        check "$address: a refusal of a server's is passed on" peer client refused "$address" 9
        check "$address: a port that is not forwarded is refused" peer client refused "$address" 10
    done
    same "no damaged checksum" "0 0" "$(wrong_sums client) $(wrong_sums one)"
}
listen=(--listen)
for port in 80 7 9; do listen+=("10.10.0.20:$port" "[fd10::20]:$port"); done
listen+=("udp:10.10.0.20:7" "udp:[fd10::20]:7")

few=(--listen 10.10.0.20:80 --to 10.10.0.2)

# ---- what is refused ----

refused "more cores than there are" "give --cores $(nproc)" "${front[@]}" --cores 4000 "${few[@]}"
refused "a core that is named twice" "named twice" "${front[@]}" --core 0,0 "${few[@]}"
refused "one queue for two cores" "without the queue" --link xdp:front:0 --address 10.10.0.20/24 --cores 2 "${few[@]}"
refused "packet sockets" "packet sockets are one core's" --link packet:front --address 10.10.0.20/24 --cores 2 "${few[@]}"
refused "a part of a daemon's interface" "the daemon divides what comes for a port that is served" --via xokd --cores 2 "${few[@]}"
refused "joined sockets" "cannot be used with" --splice --cores 2 "${few[@]}"
in_ forwarder ethtool -L front rx 1 tx 1
refused "an interface with one queue in use" "ethtool -L front rx 2 tx 2" "${front[@]}" --cores 2 "${few[@]}"
in_ forwarder ethtool -L front rx 2 tx 2

# ---- one interface, in user space and in the kernel, with checks ----

servers_here=(--to 10.10.0.2 fd10::2)
for how in "" --in-kernel; do
    about="one interface${how:+, $how}: "
    # What the kernel sends on by a veth arrives then.
    [ -z "$how" ] || in_ client ethtool -K wire gro on
    # shellcheck disable=SC2086
    start "${control[@]}" "${front[@]}" --cores 2 $how "${listen[@]}" "${servers_here[@]}" --check tcp --check-interval 1s --check-port 7
    clients_of 100 10.10.0.20 fd10::20
    check "servers pass their checks, which are made once" await are_well
    both link_rx_frames
    if [ -n "$how" ]; then check "the kernel forwards" more kernel_forwarded_to_clients 100; fi
    has "Prometheus is told of each core" 'exos_forward_by_core_link_rx_frames_total{core="1"}' "$(ctl metrics)"
    stop; same "it ends in order" 0 $?
done

# ---- two interfaces, by a file, with a small table, and servers that change ----

about="two interfaces: "
cat >"$work/forward.toml" <<END
flows = 128
control = "$work/run/control"
[[link]]
name = "xdp:front"
addresses = ["10.10.0.20/24", "fd10::20/64"]
core = [1, 0]
[[link]]
name = "xdp:back"
addresses = ["10.10.1.20/24", "fd11::20/64"]
[[service]]
listen = ["10.10.0.20:80", "[fd10::20]:80", "10.10.0.20:7", "[fd10::20]:7", "udp:10.10.0.20:7", "udp:[fd10::20]:7", "10.10.0.20:9", "[fd10::20]:9"]
to = ["10.10.1.11", "fd11::11"]
END
check "the file is good" run_forwarder --config "$work/forward.toml" --check
start --config "$work/forward.toml"
# A quarter of the flows may be on their way to be opened, so that more connections at once would lose some.
clients_of 30 fd10::20
for _ in 1 2 3 4; do check "30 connections at once over IPv4" peer client echo 10.10.0.20 7 20000 30; done
both link_rx_frames
same "each interface is reported, and each core" "2 2 True" \
    "$(field '["links"].__len__()') $(field '["cores"].__len__()') $(field '["counters"]["link_rx_frames"] == sum(l["counters"]["link_rx_frames"] for l in v["links"])')"
same "there are as many flows as are allowed, on all cores together" True "$(field '["flows"]["capacity"] == 128 and sum(n for name, n in v["flows"].items() if name != "capacity") <= 128')"
sed -i 's/"10.10.1.11", /"10.10.1.11", "10.10.1.12", /' "$work/forward.toml"
kill -HUP "$server"
check "it reads the file again" await grep -q "read its file again: 4 added" "$work/err"
check "and the other drained" ctl drain 10.10.1.11 --listener tcp:10.10.0.20:7
check "connections come to the new one" peer client echo 10.10.0.20 7 20000 30
same "all of them" True "$(counters drop_hops >/dev/null; field '["servers"] and [s["flows_begun"] for s in v["servers"] if s["server"] == "10.10.1.12:7" and s["protocol"] == "tcp"][0] >= 30')"
stop; same "it ends in order" 0 $?

# ---- two interfaces, in the kernel ----

about="two interfaces, --in-kernel: "
in_ one ethtool -K wire gro on
start "${front[@]}" "${back[@]}" --cores 2 --in-kernel "${listen[@]}" --to 10.10.1.11 fd11::11
for url in http://10.10.0.20 'http://[fd10::20]'; do
    check "$url: a large document" in_ client curl -gsS -m 60 -o "$work/got" "$url/large.bin"
    check "$url: every byte" cmp "$work/got" "$work/site/large.bin"
done
for address in 10.10.0.20 fd10::20; do check "$address: 100 connections at once" peer client echo $address 7 20000 100; done
check "the kernel forwards" more kernel_forwarded_to_clients 1000
same "all had room" 0 "$(field '["counters"]["kernel_flows_refused"]')"
same "no damaged checksum" "0 0" "$(wrong_sums client) $(wrong_sums one)"
stop; same "it ends in order" 0 $?

# ---- another in its place, as another user ----

for how in "" --in-kernel; do
    about="another in its place${how:+, $how}: "
    rm -rf "$work/run"; mkdir -m 777 "$work/run"
    # shellcheck disable=SC2206
    same_again=("${control[@]}" "${front[@]}" $how "${listen[@]}" "${servers_here[@]}" --keep "$work/run/flows" --user 65534:65534)
    start "${same_again[@]}" --cores 2
    rm -f "$work"/slow*
    slows=()
    for n in 1 2 3 4; do
        for address in 10.10.0.20 fd10::20; do
            peer client slow $address 7 300000 "$work/slow-$n-$address" >"$work/slow" 2>&1 & slows+=($!)
        done
    done
    halves() { [ "$(ls "$work"/slow-*.half | wc -l)" = 8 ]; }
    check "connections stand" await halves
    end "$server"; server=
    start "${same_again[@]}" --cores 2
    has "one that was killed has left its connections" "goes on with" "$(tr -d '\0' <"$work/err")"
    for cores in 1 2; do
        first=$server
        start "${same_again[@]}" --cores $cores --take-over
        wait "$first"; same "one that is asked by one on $cores cores ends in order" 0 $?
        has "and leaves them" "goes on with" "$(tr -d '\0' <"$work/err")"
    done
    for n in 1 2 3 4; do touch "$work/slow-$n-10.10.0.20.go" "$work/slow-$n-fd10::20.go"; done
    lasting=0
    for slow in "${slows[@]}"; do wait "$slow" || lasting=1; done
    same "connections outlive them all" 0 $lasting
    stop; same "it ends in order" 0 $?
done

exit $((failures > 0))
