#!/usr/bin/env bash
# An outsider and a clumsy operator against the release binary: peers that no kernel is (segments.py), broken and forged
# packets, floods, slow and broken clients (hostile.py), clients at their limits (limits.py); taken addresses, full pipes, kills
# while it starts, interfaces that vanish. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/serve/hostile.sh PATH/TO/exos [daemon|daemon-in-kernel|in-kernel|in-kernel-cores]
#
# With `daemon` the server is a program of user 65534 that has its link from the daemon, and the outsider is all there is.
# With `in-kernel` the kernel answers what it can, with `daemon-in-kernel` both.
#
# Everything happens in namespaces of its own and takes about two minutes, with the daemon half of one; what is started is
# ended by its id, also when this script is interrupted.
if [[ ${2:-} == daemon* ]]; then
    lab=hostile-xokd-$$
    . "$(dirname "$0")/../daemon/common.sh"
else
    . "$(dirname "$0")/../common.sh"
    need_root "attacks over AF_XDP"
    be_alone "$@"
    begin
    lab=hostile-$$
fi
need_programs "attacks" python3

code() { inside b -- curl -sS -m 60 -o /dev/null -w '%{http_code}' "http://10.10.0.10$1" 2>/dev/null; }
# ended PID: it is no more, or waits for its parent only.
ended() { ! grep -q '^State:[[:space:]]*[^Z[:space:]]' "/proc/$1/status"; }
# serve ARGUMENTS...: the server, in side a.
serve() { launch_in_lab "$@" || { bad "the server starts" "$(cat "$work/err")"; return 1; }; }
# What a program of ours may leave in the kernel.
kernel_state() {
    ip netns | grep -o "^exos-$lab-[ab]"
    ip -br link | grep -o '^exos[^ ]*'
    inside a -- ip -d link show wire | grep -o 'prog/xdp.*'
    inside a -- ip -br address show wire
}

lab_up || { bad "lab up"; exit 1; }

site=$work/site
mkdir -p "$site"
head -c 100 /dev/zero | tr '\0' x >"$site/small.txt"
head -c 50000 /dev/urandom >"$site/middle.bin"
head -c 1000000 /dev/urandom >"$site/large.bin"
head -c 3000000 /dev/urandom >"$site/huge.bin"
addresses=(--address 10.10.0.10/24 --address fd10::10/64)
wire=(--link xdp:wire "${addresses[@]}")

# ---- an outsider ----

# outsider PROCESS STATISTICS [daemon|in-kernel]: whose interface does not join the segments that come, which are to be seen.
outsider() {
    [ -z "$in_kernel" ] || inside b -- ip link set wire gro_max_size 1
    inside b -- timeout 300 python3 -S "$here/segments.py" wire "$@" || failures=$((failures + 1))
    inside b -- timeout 300 python3 -S "$here/hostile.py" wire "$@" || failures=$((failures + 1))
}
if [[ ${2:-} == daemon* ]]; then
    chmod -R a+rX "$site"
    allow 'ports = ["80"]'
    start_daemon || { bad "the daemon starts" "$(cat "$work/daemon.out")"; exit 1; }
    start server serve "$site" "${addresses[@]}" $in_kernel --json || { bad "the server starts" "$(cat "$work/server.err")"; exit 1; }
    outsider "$started" "$work/server.out" "$2"
    same "it has not complained" "" "$(grep -i 'panic\|error' "$work/server.err")"
    exit $((failures > 0))
fi
if serve "$site" "${wire[@]}" --json; then
    outsider "$server" "$work/out" ${in_kernel:+in-kernel}
    stop; same "it stops in order after all that" 0 $?
    same "and has not complained" "" "$(grep -i 'panic\|error' "$work/err")"
fi

# ---- clients that take more than they may ----

for n in $(seq 20 39); do inside b -- ip address add 10.10.0.$n/24 dev wire; done
inside b -- ip address add fd10::3/64 dev wire nodad
if serve "$site" "${wire[@]}" --json --max-connections 24 --max-peer-connections 4 --min-head-rate 100 --min-read-rate 50000; then
    timeout 300 "$exos" lab exec --name $lab b -- python3 -S "$here/limits.py" "$server" "$work/out" "$site/large.bin" ${in_kernel:+in-kernel} || failures=$((failures + 1))
    stop; same "it stops in order after clients at their limits" 0 $?
    same "and has not complained of them" "" "$(grep -i 'panic\|error' "$work/err")"
fi
for n in $(seq 20 39); do inside b -- ip address del 10.10.0.$n/24 dev wire; done
inside b -- ip address del fd10::3/64 dev wire

# ---- a clumsy operator ----

before=$(kernel_state)
# refused NAME WANTED ARGUMENTS...
refused() {
    local name=$1 wanted=$2 text status; shift 2
    text=$(timeout 60 "$exos" lab exec --name $lab a -- "$exos" serve "$site" "$@" 2>&1); status=$?
    if [ $status = 1 ]; then has "$name" "$wanted" "$text"; else bad "$name" "exit status $status: $text"; fi
    same "$name: in one line" 1 "$(wc -l <<<"$text")"
}
refused "an address that a host on the wire has" "10.10.0.2 is the address of" --link xdp:wire --address 10.10.0.2/24
refused "the same with IPv6" "fd10::2 is the address of" --link xdp:wire --address fd10::2/64
refused "an address of this host" "--share-address" --link xdp:wire --address 10.10.0.1/24
refused "a queue that is not there" "queue 7" --link xdp:wire:7 --address 10.10.0.10/24
refused "a core that is not there" "choose from" "${wire[@]}" --core 999
same "refusals leave nothing behind" "$before" "$(kernel_state)"

# Killed at any moment while it starts.
for n in $(seq 20); do
    "$exos" lab exec --name $lab a -- "$exos" serve "$site" "${wire[@]}" >/dev/null 2>&1 &
    server=$!
    sleep "0.$(printf %03d $((RANDOM % 300)))"
    kill -KILL "$server"; wait "$server" 2>/dev/null
    "$exos" serve "$site" >/dev/null 2>&1 &
    server=$!
    sleep "0.$(printf %03d $((RANDOM % 300)))"
    kill -KILL "$server"; wait "$server" 2>/dev/null
done
server=
# The kernel takes namespaces and rings away at leisure.
await eval '[ "$(kernel_state)" = "$before" ]'
same "40 kills while it starts leave nothing behind" "$before" "$(kernel_state)"

# Nobody reads what it says.
mkfifo "$work/pipe"
sleep 600 <"$work/pipe" & peer=$!
"$exos" lab exec --name $lab a -- "$exos" serve "$site" "${wire[@]}" --json >"$work/pipe" 2>"$work/err" &
server=$!
if await eval '[ "$(code /small.txt)" = 200 ]'; then
    for _ in $(seq 60); do kill -USR1 "$server"; sleep 0.01; done
    same "served beside statistics that nobody reads" 200 "$(code /small.txt)"
    kill -TERM "$server"; await ended "$server" && ok "and ended" || bad "and ended" "it still runs"
    kill "$peer"; wait "$peer" 2>/dev/null; peer=
    kill -KILL "$server" 2>/dev/null; wait "$server" 2>/dev/null; server=
else
    bad "served beside statistics that nobody reads" "$(cat "$work/err")"
fi
"$exos" lab exec --name $lab a -- "$exos" serve "$site" "${wire[@]}" 2>"$work/err" >&- &
server=$!
await eval '[ "$(code /small.txt)" = 200 ]' && ok "served with standard output closed" || bad "served with standard output closed" "$(cat "$work/err")"
stop

# Ended while it sends: the stop comes when 16 clients are in the middle of their downloads, and they take the rest
# after it, more than the 10 s later that they would have by default. (A client whose SYN comes after it is rightly refused.)
mkfifo "$work/go"
if serve "$site" "${wire[@]}" --shutdown-timeout 5m; then
    inside b -- python3 -S -c '
import concurrent.futures, socket, sys
clients = [socket.create_connection(("10.10.0.10", 80), timeout=60) for _ in range(16)]
for s in clients:
    s.sendall(b"GET /huge.bin HTTP/1.1\r\nHost: x\r\n\r\n")
begun = [s.recv(1000) for s in clients]
print("begun", flush=True)
sys.stdin.readline()
wanted = open(sys.argv[1], "rb").read()
def is_whole(s, got):
    while part := s.recv(1 << 20):
        got += part
    return got.split(b"\r\n\r\n", 1)[1] == wanted
# All at the same time: one that takes nothing for a minute would be reset.
with concurrent.futures.ThreadPoolExecutor(len(clients)) as threads:
    print(sum(threads.map(is_whole, clients, begun)), "of", len(clients))
' "$site/huge.bin" <"$work/go" >"$work/downloads" 2>&1 & peer=$!
    exec 9>"$work/go"
    await grep -q begun "$work/downloads"
    kill -TERM "$server"; sleep 10.5; echo >&9; exec 9>&-
    wait "$server"; same "SIGTERM while it sends: it ends in order" 0 $?
    server=
    wait $peer; peer=
    same "and every download is whole" "16 of 16" "$(tail -n 1 "$work/downloads")"
fi

# Its interface goes, or changes.
if serve "$site" "${wire[@]}"; then
    inside a -- ip link set wire down; sleep 0.3; inside a -- ip link set wire up
    await eval '[ "$(code /small.txt)" = 200 ]' && ok "served after the interface was down" || bad "served after the interface was down" "$(cat "$work/err")"
    inside a -- ip link del wire
    await ended "$server" || bad "it ends when its interface goes" "it still runs"
    wait "$server"; same "it ends when its interface goes" 1 $?
    server=
    has "and says so" "interface is down or gone" "$(cat "$work/err")"
    lab_up
fi
if serve "$site" "${wire[@]}"; then
    "$exos" lab down --name $lab >/dev/null
    await ended "$server"; wait "$server"; same "it ends when its lab goes" 1 $?
    server=
    same "and the lab is gone" "" "$(ls /run/netns 2>/dev/null | grep "exos-$lab")"
fi
exit $((failures > 0))
