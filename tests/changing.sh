#!/usr/bin/env bash
# Files that change while they are fetched over a bad wire: the release binary serves a directory whose files are
# renamed, rewritten and linked by changing.py, which fetches them at the same time, over a lab's emulated wire, and
# holds each response against all versions of its file. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/changing.sh PATH/TO/exos
#   EXOS_FETCHES=100000 tests/changing.sh PATH/TO/exos      longer
#
# Everything happens in namespaces of a lab of its own and takes about half a minute; what is started is ended by its
# id, also when this script is interrupted.
set -uo pipefail
exos=$(realpath "$1")
author=$(dirname "$(realpath "$0")")/changing.py
fetches=${EXOS_FETCHES:-3000}
seed=${EXOS_SEED:-1}
lab=changing-$$
work=$(mktemp -d)
failures=0
server=

cleanup() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null
    "$exos" lab down --name $lab >/dev/null 2>&1
    rm -rf "$work"
}
ok() { echo "ok $1"; }
bad() { echo "not ok $1: ${2:-}"; failures=$((failures + 1)); }
await() { local end=$((SECONDS + 60)); until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $end ] || return 1; sleep 0.05; done; }

[ "$(id -u)" = 0 ] || { echo "SKIPPED: files that change, over a bad wire: needs root"; exit 0; }
command -v python3 >/dev/null || { echo "SKIPPED: files that change: python3 is not installed (apt-get install python3)"; exit 0; }
trap cleanup EXIT
trap 'exit 130' INT TERM

# fetch NAME LAB-SETTINGS...
fetch() {
    local name=$1 said status; shift
    mkdir -p "$work/site" "$work/releases"
    "$exos" lab up --name $lab --wire plain --seed "$seed" "$@" >/dev/null || { bad "$name: lab up"; return; }
    : >"$work/out"
    "$exos" lab exec --name $lab a -- "$exos" serve "$work/site" --link xdp:wire --address 10.10.0.10/24 >"$work/out" 2>"$work/err" &
    server=$!
    await grep -q '^http' "$work/out" || { bad "$name: the server starts" "$(cat "$work/err")"; return; }
    said=$("$exos" lab exec --name $lab b -- python3 "$author" "$work/site" http://10.10.0.10 "$fetches" "$seed" 2>&1) || failures=$((failures + 1))
    sed -E "s/^(not ok|ok|#) /&$name: /" <<<"${said:-not ok it says nothing}"
    kill -TERM "$server"; wait "$server"; status=$?; server=
    [ $status = 0 ] && ok "$name: the server ends in order" || bad "$name: the server ends in order" "status $status: $(cat "$work/err")"
    "$exos" lab down --name $lab >/dev/null
    rm -rf "$work/site" "$work/releases"
}

fetch "changing files"
fetch "changing files, bad wire" --delay 2ms --jitter 1ms --loss 1% --burst-loss 0.5%:3 --reorder 2%:2ms --duplicate 1% --corrupt 0.2%
exit $((failures > 0))
