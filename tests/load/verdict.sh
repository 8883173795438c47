#!/usr/bin/env bash
# The release binary's `load` says who was the limit: a wire that loses, one that is slow, a server that is, or a generator
# that has no processor to itself. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/load/verdict.sh PATH/TO/exos
#
# What a wire does shows in what is counted, and on a busy machine too; the generator's own limit may then be found before
# it, as it should be, so that wires are looked for among all that was found. Of a server nothing is said by a generator
# that was late itself: that it was is then looked at in its times.
. "$(dirname "$0")/common.sh"
need_root "the load generator's verdicts"
need_programs "the load generator's verdicts" nginx python3 taskset
be_alone "$@"
begin
lab=verdict-$$
mkdir -p "$work/site"
head -c 100 /dev/urandom >"$work/site/small"
head -c 300000 /dev/urandom >"$work/site/large"
configure_nginx "access_log off;" "listen 10.10.0.1:80; location /slow { limit_rate 100k; alias $work/site/large; }"
busy=()
cleanup_busy() { end "${busy[@]}"; busy=(); }
trap '[ "$BASHPID" != $$ ] || { cleanup_busy; cleanup; }' EXIT

# wire ARGUMENTS...: a lab with such a wire, and the server in it.
wire() {
    if [ -n "$peer" ]; then kill -QUIT "$peer"; wait "$peer"; peer=; fi
    "$exos" lab down --name "$lab" >/dev/null 2>&1
    lab_up "$@" || { bad "lab up $*"; exit 1; }
    start_nginx
}
# load ARGUMENTS...: what is counted of a wire is so however it waits; where it is judged itself, by times, it waits as it does when nothing is said.
waiting=(--idle sleep)
load() { timeout 300 "$exos" lab exec --name "$lab" b -- "$exos" load --link xdp:wire --address 10.10.0.20/24 "${waiting[@]}" --json "$@" >"$work/load" 2>"$work/load.err"; }
# found NAME LIMIT WORDS [late]: it is the limit, or found behind the generator, for a reason with these words; or, where
# that may be, the generator was late.
found() {
    local said late
    said=$(python3 -S -c '
import json, sys
verdict = json.load(open(sys.argv[1]))["verdict"]
for it in [verdict, *verdict["also"]]:
    print(it["limited_by"] + ": " + "; ".join(it["reasons"]))' "$work/load" 2>&1)
    late=$(python3 -S -c 'import json, sys; print(json.load(open(sys.argv[1]))["times_us"]["slip"]["p99"] > 1000)' "$work/load" 2>&1)
    if grep -q "^$2: .*$3" <<<"$said"; then ok "$1"
    elif [ "${4:-} $late" = "late True" ] && grep -q "^generator: .*late or more" <<<"$said"; then ok "$1 (it is not told: we were late)"
    else bad "$1" "$said $(cat "$work/load.err")"
    fi
}

url=http://10.10.0.1
wire --loss 4%
load $url/small -c 32 -n 3000
found "requests that are lost: the wire" wire "sent again"
load $url/small --rate 300 -d 4s
found "and in an open loop" wire "sent again"
load $url/large -c 8 -n 100
found "responses that are lost: the wire" wire "came before others"

wire --rate 10mbit --queue 64kb
load $url/large -c 8 -d 5s
found "a slow wire" wire "came before others"

wire
waiting=()
load $url/slow -c 4 -d 3s
found "a server that is slow: clients wait for it" server "waited for it"
load $url/slow --rate 50 -c 5 -d 3s
found "and in an open loop, requests for connections" server "no connection was free\|found no answer" late
load $url/small --rate 100 -d 2s
found "a rate that is met" nobody "was answered" late

# Until it is told to end: however late this script is, it loads when the server stands still, and after that.
"$exos" lab exec --name "$lab" b -- "$exos" load --link xdp:wire --address 10.10.0.20/24 --json $url/small --rate 2000 -d 100s --no-probe >"$work/load" 2>"$work/load.err" & loading=$!
# Its connections stand. Without the look whether the server is there, which has one of its own.
loads() { inside a -- ss -Htn state established sport = :80 | grep -q .; }
await loads; sleep 1; kill -STOP "$peer"; sleep 1; kill -CONT "$peer"; sleep 1; kill -TERM $loading; wait $loading
found "a server that stands still for a second" server "nothing came of any response" late

core=$(taskset -pc $$ | sed 's/.*: //; s/[-,].*//')
for _ in 1 2 3 4; do taskset -c "$core" sh -c 'while :; do :; done' & busy+=($!); done
load $url/small --rate 200000 -d 2s --core "$core"
found "a generator that shares its core with four others" generator "late or more\|busy for"
cleanup_busy
exit $((failures > 0))
