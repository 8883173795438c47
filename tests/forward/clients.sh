#!/usr/bin/env bash
# Ordinary programs through the release binary's `forward`, packet by packet, in the kernel and by joining sockets: iperf3 both
# ways over TCP and UDP, redis with large values and many clients, sessions of ssh. Prints "ok NAME", "not ok NAME: why" or
# "SKIPPED: ..." lines.
#
#   tests/forward/clients.sh PATH/TO/exos
#
# Client and servers are on one side of the wire, and the forwarder on the other. Nothing here judges how fast it is.
. "$(dirname "$0")/../common.sh"
need_root "programs through exos forward"
need_programs "programs through exos forward" iperf3 redis-benchmark:redis-tools dropbear:dropbear-bin ssh:openssh-client ethtool
be_alone "$@"
begin
lab=programs-$$
started=()
cleanup() {
    # shellcheck disable=SC2086
    end $server ${started[@]+"${started[@]}"}
    "$exos" lab down --name "$lab" >/dev/null 2>&1
    rm -rf "$work"
}
forwarder=10.10.0.20 ; forwarder6=fd10::20
# The servers, and so the client.
other=10.10.0.2 ; other6=fd10::2

"$exos" lab up --name "$lab" --wire offload >/dev/null || { bad "lab up"; exit 1; }
# For packets that the kernel of the forwarder's side sends back.
client ethtool -K wire gro on

# ---- servers ----

# serve PORT COMMAND...: in the background, until it listens.
serve() {
    local port=$1; shift
    (exec "$exos" lab exec --name "$lab" b -- "$@") >>"$work/servers" 2>&1 & started+=($!)
    await eval "client ss -Hltn 'sport = :$port' | grep -q ." || bad "$1 listens" "$(tail -n 3 "$work/servers")"
}
serve 5201 iperf3 --server
# The server is the program that checks its files, under another name, which installs no service.
serve 6379 bash -c "cd '$work'; exec -a redis-server redis-check-rdb --bind 0.0.0.0 :: --protected-mode no --save '' --port 6379"
mkdir -p "$work/home/.ssh"
ssh-keygen -q -t ed25519 -N '' -f "$work/key" </dev/null
cp "$work/key.pub" "$work/home/.ssh/authorized_keys"
chmod -R go-rwx "$work/home"
dropbearkey -t ed25519 -f "$work/host" >/dev/null 2>&1
# It looks for keys in root's home: another one for it, in a mount namespace of its own.
serve 22 unshare --mount bash -c "mount --bind '$work/home' /root; exec dropbear -F -E -s -P '$work/pid' -r '$work/host'"

# ---- programs ----

# measured FIELD ARGUMENTS...: what iperf3 has counted at the end.
measured() {
    local field=$1; shift
    client timeout -k 1 100 iperf3 --client "$to" --json "$@" >"$work/iperf" 2>&1
    python3 -S -c "import json, sys; v = json.load(open('$work/iperf')); print(v.get('error') or v['end']$field)" 2>&1
}
# more NAME BOUND GOT
more() { if [[ $3 =~ ^[0-9]+$ ]] && [ "$3" -ge "$2" ]; then ok "$1"; else bad "$1" "wanted $2 at least, got '$3'"; fi; }
session() { client timeout -k 1 60 ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -i "$work/key" "root@$to" "$@"; }
copied() { session cat <"$work/large" | cmp - "$work/large"; }
redis() { client timeout -k 1 60 redis-cli -h "$to" "$@"; }
kept() { redis -x set large <"$work/large" >/dev/null && redis get large | head -c 3000000 | cmp - "$work/large"; }
# As many as dropbear has of one address that has not said yet who it is.
sessions() {
    local n waiting=() failed=0
    for n in $(seq 4); do [ "$(session echo "$n")" = "$n" ] & waiting+=($!); done
    for n in "${waiting[@]}"; do wait "$n" || failed=1; done
    return $failed
}
head -c 3000000 /dev/urandom >"$work/large"

# all: iperf3 does not count what is under way when it has sent all, which may be most where four connections have as many buffers.
all() {
    more "iperf3 sends" 1000000 "$(measured '["sum_received"]["bytes"]' --bytes 20M)"
    more "and is sent to" 1000000 "$(measured '["sum_received"]["bytes"]' --bytes 20M --reverse)"
    more "over four connections" 1000000 "$(measured '["sum_received"]["bytes"]' --bytes 20M --parallel 4)"
    # A hundred simultaneous clients; every command is answered, or the program says so and fails.
    check "redis-benchmark" client timeout -k 1 100 redis-benchmark -h "$to" -n 5000 -c 100 -q -t ping,set,get,lpush,lrange_100
    check "a large value, every byte" kept
    check "ssh: every byte there and back" copied
    check "four sessions at once" sessions
}
datagrams() { more "iperf3's datagrams" 1000 "$(measured '["sum"]["packets"]' --udp --bitrate 20M --bytes 2M --length 1200)"; }

# forward LISTENERS AND OPTIONS...: the forwarder of all ports of TCP, and of these.
forward() {
    local listen=() port
    for port in 22 5201 6379; do listen+=("$forwarder:$port" "[$forwarder6]:$port"); done
    launch tcp "$exos" lab exec --name "$lab" a -- "$exos" forward --listen "${listen[@]}" "$@" \
        --to $other $other6 || { bad "it starts" "$(cat "$work/err")"; exit 1; }
}
link=(--link xdp:wire --address "$forwarder/24" --address "$forwarder6/64")
udp=("udp:$forwarder:5201" "udp:[$forwarder6]:5201")

for how in "in user space" "in the kernel"; do
    more=(); [ "$how" = "in user space" ] || more=(--in-kernel)
    forward "${udp[@]}" "${link[@]}" ${more[@]+"${more[@]}"}
    for to in $forwarder $forwarder6; do
        about="$how, $to: "
        all
        datagrams
    done
    about="$how: "
    check "it ends" stop
done

about="by joining sockets: "
inside a -- ip address add $forwarder/24 dev wire
inside a -- ip address add $forwarder6/64 dev wire nodad
forward --splice
for to in $forwarder $forwarder6; do
    about="by joining sockets, $to: "
    all
done
check "it ends" stop
exit $((failures > 0))
