#!/usr/bin/env bash
# Files that change while they are fetched over a bad wire: the release binary serves a directory whose files are
# renamed, rewritten and linked by changing.py, which fetches them at the same time, over a lab's emulated wire, and
# holds each response against all versions of its file. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/serve/soaks/changing.sh PATH/TO/exos [in-kernel|in-kernel-cores]
#   EXOS_FETCHES=100000 tests/serve/soaks/changing.sh PATH/TO/exos      longer
#
# Everything happens in namespaces of a lab of its own and takes about half a minute; what is started is ended by its
# id, also when this script is interrupted.
. "$(dirname "$0")/../../common.sh"
fetches=${EXOS_FETCHES:-3000}
seed=${EXOS_SEED:-1}
need_root "files that change, over a bad wire"
need_programs "files that change" python3
begin
lab=changing-$$

# fetch NAME LAB-SETTINGS...
fetch() {
    local name=$1 said status; shift
    mkdir -p "$work/site" "$work/releases"
    lab_up --seed "$seed" "$@" || { bad "$name: lab up"; return; }
    launch_in_lab "$work/site" --link xdp:wire --address 10.10.0.10/24 --json || { bad "$name: the server starts" "$(cat "$work/err")"; return; }
    said=$(client python3 -S "$here/changing.py" "$work/site" http://10.10.0.10 "$fetches" "$seed" 2>&1) || failures=$((failures + 1))
    sed -E "s/^(not ok|ok|#) /&$name: /" <<<"${said:-not ok it says nothing}"
    stop; status=$?
    [ $status = 0 ] && ok "$name: the server ends in order" || bad "$name: the server ends in order" "status $status: $(cat "$work/err")"
    kernel_answered "$name: "
    "$exos" lab down --name $lab >/dev/null
    rm -rf "$work/site" "$work/releases"
}

fetch "changing files"
fetch "changing files, bad wire" --delay 2ms --jitter 1ms --loss 1% --burst-loss 0.5%:3 --reorder 2%:2ms --duplicate 1% --corrupt 0.2%
exit $((failures > 0))
