#!/usr/bin/env bash
# The systemd units as systemd reads them, without running it: no mistakes (`systemd-analyze verify`), and no more
# exposure than is known (`systemd-analyze security`). Prints "ok NAME", "not ok NAME" or "SKIPPED: ..." lines.
#
#   tests/units.sh PATH/TO/exos
set -uo pipefail
exos=$(realpath "$1")
cd "$(dirname "$0")/../dist"
failures=0
ok() { echo "ok units: $1"; }
bad() { echo "not ok units: $1: ${2:-}"; failures=$((failures + 1)); }

if ! systemd-analyze security --help 2>/dev/null | grep -q -- --offline; then
    echo "SKIPPED: the systemd units: systemd-analyze of systemd 250 or newer is not installed (apt-get install systemd)"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for unit in *.service; do
    # The command is where this build has it.
    sed "s,/usr/bin/exos,$exos," "$unit" >"$work/$unit"
done

# verify UNIT: whatever is said about it is a mistake; "Unknown key" ends with success, too.
verify() { systemd-analyze verify --man=no "$1" 2>&1 | grep -F "$(basename "$1")"; }
for unit in "$work"/*.service; do
    said=$(verify "$unit")
    if [ -z "$said" ]; then ok "$(basename "$unit") is understood"; else bad "$(basename "$unit")" "$said"; fi
    # As the unit calls it, as far as the command line goes: nothing is started by --help.
    command=$(sed -n 's/^ExecStart=//p' "$unit")
    if $command --help >"$work/said" 2>&1; then ok "$(basename "$unit") has a sound command"; else bad "$command" "$(tail -n 2 "$work/said")"; fi
done
sed 's/^ProtectClock=/ProtectClocks=/' "$work/exos-daemon.service" >"$work/wrong.service"
if [ -n "$(verify "$work/wrong.service")" ]; then ok "a mistake is found"; else bad "a mistake is found"; fi

# exposed UNIT MAX: the exposure that is reckoned, in tenths; what is left is needed, as the unit says.
exposed() {
    local said
    if said=$(systemd-analyze security --offline=true --no-pager --threshold="$2" "$work/$1" 2>&1); then
        ok "$1 is exposed by at most $2 of 100"
    else
        bad "$1 is exposed by at most $2 of 100" "$(tail -n 1 <<<"$said")"
    fi
}
# What the daemon's start and its end call, in namespaces of its own, lies in what the unit allows.
# calls GROUP: the system calls of a group of systemd's.
calls() {
    local name
    systemd-analyze syscall-filter "$1" | sed -n 's/^    \([@a-z]\)/\1/p' | while read -r name; do
        case $name in @*) calls "$name" ;; *) echo "$name" ;; esac
    done
}
# allowed UNIT SIGN: what its SystemCallFilter lines name, those that forbid (~) or those that allow ("").
allowed() {
    local name
    for name in $(sed -n "s/^SystemCallFilter=$2\([@a-z]\)/\1/p" "$1"); do
        case $name in @*) calls "$name" ;; *) echo "$name" ;; esac
    done | sort -u
}
# traced: runs the daemon on a wire of a namespace, until it has started, and stops it.
traced() {
    local tracer space=units-$$
    ip netns add $space && ip -n $space link add wire type veth peer name far || return 1
    ip -n $space link set wire up
    strace -f -qq -c -o "$work/calls" "$exos" daemon --namespace $space --interface wire --address 10.99.0.7/24 \
        --user 0 --socket "$work/sock" >"$work/daemon" 2>&1 &
    tracer=$!
    for _ in $(seq 400); do grep -q listening "$work/daemon" && break; sleep 0.05; done
    kill -TERM "$(pgrep -P $tracer)"; wait $tracer
    ip netns del $space
    awk '$NF ~ /^[a-z]/ && $NF !~ /^(syscall|total)$/ { print $NF }' "$work/calls" | sort -u >"$work/used"
    grep -q stopping "$work/daemon" && [ -s "$work/used" ]
}
# So does all that it may call once it is up.
{ allowed exos-daemon.service ""; calls @default; } | sort -u >"$work/listed"
allowed exos-daemon.service '~' | comm -23 "$work/listed" - >"$work/allowed"
sed -n 's/^ *libc::SYS_\([a-z0-9_]*\),$/\1/p' ../crates/xokd/src/command/confinement.rs | sort -u >"$work/kept"
said=$(comm -23 "$work/kept" "$work/allowed" | xargs)
if [ -s "$work/kept" ] && [ -z "$said" ]; then ok "it allows what the daemon allows itself"; else bad "not in SystemCallFilter" "$said"; fi
if [ "$(id -u)" != 0 ] || ! command -v strace >/dev/null; then
    echo "SKIPPED: system calls of the daemon beside its unit's: needs root and strace (apt-get install strace)"
elif ! traced; then
    bad "the daemon under strace" "$(tail -n 2 "$work/daemon")"
else
    said=$(comm -23 "$work/used" "$work/allowed" | xargs)
    if [ -z "$said" ]; then ok "exos-daemon.service allows what the daemon calls"; else bad "not in SystemCallFilter" "$said"; fi
    said=$(grep -v '^seccomp$' "$work/allowed" | comm -23 "$work/used" - | xargs)
    if [ "$said" = seccomp ]; then ok "one that is missing would be found"; else bad "one that is missing would be found" "$said"; fi
fi

exposed exos-daemon.service 50
exposed exos-metrics.service 12
exit $failures
