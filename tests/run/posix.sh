#!/usr/bin/env bash
# exos run: what socket calls answer in each state of a TCP or UDP socket, on the kernel's sockets and on ours. A table is made of both
# (posix.py), and compared. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/run/posix.sh PATH/TO/exos
#
# Of the pairs of calls an eightieth, and in ./test --long all; EXOS_SHARE=4 for a quarter of them, EXOS_TURN=2 for its third.
. "$(dirname "$0")/../common.sh"
need_root "socket calls, compared with the kernel's"
need_programs "socket calls, compared with the kernel's" python3
begin
lab=posix-$$
ip=10.10.0.10
share=${EXOS_SHARE:-80}
turn=$((${EXOS_TURN:-0} % share))
lab_up || { bad "lab up"; exit 1; }
in_lab() { timeout -k 1 $((300 + 3000 / share)) "$exos" lab exec --name $lab "$@"; }
table() { python3 "$here/posix.py" "$@"; }

# Each refusal of a datagram is told: a kernel tells at most 1,000 in a second of the kinds that are in these masks.
in_lab b -- sh -c 'echo 0 >/proc/sys/net/ipv4/icmp_ratemask; echo >/proc/sys/net/ipv6/icmp/ratemask'
"$exos" lab exec --name $lab b -- python3 "$here/posix.py" peer "$work/control" >"$work/peer" 2>&1 &
peer=$!
await test -S "$work/control"
kernels=$(in_lab a -- ip -4 -o address show | grep -o '10\.10\.0\.[0-9]*' | head -n 1),fd10::1
# tables NAME [FILE]: both tables, of all pairs of the share or of those in FILE.
tables() {
    check "the kernel's sockets, $1" in_lab a -- \
        sh -c 'python3 "$1/posix.py" table "$2/control" "$3" "$4" "$5" $6 >"$2/kernel"' - "$here" "$work" "$kernels" "$share" "$turn" "${2:-}"
    check "ours, $1" in_lab a -- "$exos" run --preload --link xdp:wire --address $ip/24 --address fd10::10/64 -- \
        sh -c 'python3 "$1/posix.py" table "$2/control" "$3" "$4" "$5" $6 >"$2/ours"' - "$here" "$work" "$ip,fd10::10" "$share" "$turn" "${2:-}"
}
# differ FILE all|share: whether the tables do, which is told there.
differ() { ! table compare "$work/kernel" "$work/ours" "$2" >"$1"; }

of=share
[ "$share" != 1 ] || of=all
tables "EXOS_SHARE=$share EXOS_TURN=$turn"
pairs=$(wc -l <"$work/kernel")
if differ "$work/differences" $of; then
    # A visitor of a case before may have come to this one's port: what differs for that reason does not differ again.
    tables "what differed" "$work/differences"
    differ "$work/again" share || echo "$(wc -l <"$work/differences") differed once: $(head -n 5 "$work/differences")"
    grep '^known, ' "$work/differences" >>"$work/again"
else
    : >"$work/again"
fi
if [ ! -s "$work/again" ] || [ -z "$(tr -d '\n' <"$work/again")" ]; then
    ok "$pairs pairs of calls are answered as the kernel does"
else
    bad "socket calls are answered as the kernel does" "$(wc -l <"$work/again") differences: $(head -n 40 "$work/again")"
fi
exit $((failures > 0))
