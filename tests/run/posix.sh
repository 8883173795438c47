#!/usr/bin/env bash
# exos run: what socket calls answer in each state of a TCP or UDP socket, on the kernel's sockets and on ours. A table is made of both
# (posix.py), and compared. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/run/posix.sh PATH/TO/exos
#
# Of the pairs of calls a sixteenth, always the same; EXOS_SHARE=4 for a quarter of them.
. "$(dirname "$0")/../common.sh"
need_root "socket calls, compared with the kernel's"
need_programs "socket calls, compared with the kernel's" python3
begin
lab=posix-$$
ip=10.10.0.10
share=${EXOS_SHARE:-16}
lab_up || { bad "lab up"; exit 1; }
in_lab() { timeout -k 1 300 "$exos" lab exec --name $lab "$@"; }
table() { python3 "$here/posix.py" "$@"; }

# Each refusal of a datagram is told.
in_lab b -- sh -c 'echo 0 >/proc/sys/net/ipv4/icmp_ratemask'
"$exos" lab exec --name $lab b -- python3 "$here/posix.py" peer "$work/control" >"$work/peer" 2>&1 &
peer=$!
await test -S "$work/control"
kernels=$(in_lab a -- ip -4 -o address show | grep -o '10\.10\.0\.[0-9]*' | head -n 1)
check "the kernel's sockets" in_lab a -- sh -c 'python3 "$1/posix.py" table "$2/control" "$3" "$4" >"$2/kernel"' - "$here" "$work" "$kernels" "$share"
check "ours" in_lab a -- "$exos" run --preload --link xdp:wire --address $ip/24 -- \
    sh -c 'python3 "$1/posix.py" table "$2/control" "$3" "$4" >"$2/ours"' - "$here" "$work" "$ip" "$share"
if table compare "$work/kernel" "$work/ours" >"$work/differences"; then
    ok "$(wc -l <"$work/kernel") pairs of calls are answered as the kernel does"
else
    bad "socket calls are answered as the kernel does" "$(wc -l <"$work/differences") differences: $(head -n 40 "$work/differences")"
fi
exit $((failures > 0))
