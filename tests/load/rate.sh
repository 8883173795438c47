#!/usr/bin/env bash
# The release binary's `load` begins as many requests as its rate says, over packets and over sockets. Prints "ok NAME",
# "not ok NAME: why" or "SKIPPED: ..." lines; with `measure`, a table of what was begun from a tenth to eight tenths of the
# highest rate, for docs/measured.md.
#
#   tests/load/rate.sh PATH/TO/exos [measure]
#
# How many requests are meant to begin in a time follows from the rate, by chance too: from the seed. So both carriers have
# the same number of them, on any machine. That each second has its part is measured, on a quiet one.
measure=${2:-}
. "$(dirname "$0")/../common.sh"
need_root "the load generator's rate"
need_programs "the load generator's rate" python3
be_alone "$@"
begin
lab=rate-$$
mkdir -p "$work/site"
head -c 100 /dev/urandom >"$work/site/small"
chmod -R a+rX "$work"
url=http://10.10.0.10/small

# load CARRIER ARGUMENTS...
load() {
    local by=(--link xdp:wire --address 10.10.0.20/24)
    [ "$1" = packets ] || by=(--sockets)
    # The highest rate waits as a load does when nothing is said, as what is measured does.
    [ -n "$measure" ] || [ "$rate" = 2000 ] || by+=(--idle sleep)
    shift
    timeout 200 "$exos" lab exec --name "$lab" b -- "$exos" load $url "${by[@]}" --json "$@" >"$work/load" 2>"$work/load.err"
}
got() { python3 -S -c "import json; r = json.load(open('$work/load')); print($1)" 2>&1; }
# What a busy machine does not let begin in time is told, and counts.
begun="r['errors'].pop('not_begun', 0) + r['responses']"

lab_up || { bad "lab up"; exit 1; }
pinned=()
[ -z "$measure" ] || pinned=(--core 0)
launch_in_lab "$work/site" --link xdp:wire --address 10.10.0.10/24 "${pinned[@]}" || { bad "our server starts" "$(cat "$work/err")"; exit 1; }

if [ -n "$measure" ]; then
    for carrier in packets sockets; do
        load $carrier --core 1 --find-peak 'p99<5ms' -d 1s --warm-up 300ms
        peak=$(got "r['peak_rate']")
        echo "$carrier: peak $peak/s"
        for tenths in 1 2 4 6 8; do
            rate=$(python3 -S -c "print(round($peak * $tenths / 10))")
            for arrivals in "" --poisson; do
                # shellcheck disable=SC2086
                load $carrier --core 1 --rate "$rate" -d 4s $arrivals
                got "'$tenths tenths $arrivals: meant and begun %d, answered in time %.4f %%; begun in a second at most %.4f %% from the rate; variance by mean %.2f; slip p50 %d p99 %d us; %s' % (sum(s['begun'] for s in r['seconds']), 100 * r['responses'] / ($rate * 4), max(abs(s['begun'] / $rate - 1) for s in r['seconds'][:4]) * 100, sum((s['begun'] - $rate) ** 2 for s in r['seconds'][:4]) / 4 / $rate, r['times_us']['slip']['p50'], r['times_us']['slip']['p99'], r['verdict']['limited_by'])"
            done
        done
    done
    exit 0
fi

for rate in 70 333.5 2000; do
    for arrivals in "" --poisson; do
        for carrier in packets sockets; do
            # shellcheck disable=SC2086
            load $carrier --rate $rate -d 2s --timeout 60s --seed 5 $arrivals
            [ $carrier = packets ] && by_packets=$(got "$begun")
        done
        same "$rate a second $arrivals: both seconds are told" True "$(got "len(r['seconds']) >= 2")"
        # A request that lies on the end is not begun; a Poisson process has a deviation of the root of its mean.
        same "$rate a second $arrivals: as many over both, all answered, and as the rate says" "$by_packets {} True" \
            "$(got "(all := $begun), r['errors'], abs(all - 2 * $rate) <= (4 * (2 * $rate) ** 0.5 if '$arrivals' else 1)" | tr -d '(),')"
    done
done
exit $((failures > 0))
