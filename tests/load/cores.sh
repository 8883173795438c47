#!/usr/bin/env bash
# The release binary's `load` from two cores, over a wire of two queues, against our server on two cores and against nginx:
# counts agree exactly with the servers', each core makes its part, and no two connections are from the same port. Prints
# "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/load/cores.sh PATH/TO/exos
#
# Everything happens in namespaces of its own; what is started is ended by its id. Nothing here judges how fast it is.
. "$(dirname "$0")/common.sh"
need_root "a load from two cores"
[ "$(nproc)" -ge 2 ] || skip "a load from two cores" "there is one"
need_programs "a load from two cores" curl nginx python3
be_alone "$@"
begin
lab=load-cores-$$
loading=
cleanup() {
    # shellcheck disable=SC2086
    end $loading $peer $server
    "$exos" lab down --name "$lab" >/dev/null 2>&1
    rm -rf "$work"
}
mkdir -p "$work/site"
head -c 100 /dev/urandom >"$work/site/small"
head -c 300000 /dev/urandom >"$work/site/large"
for n in $(seq 0 199); do echo "$n" >"$work/site/$n"; done
configure_nginx "log_format from '\$remote_addr \$remote_port \$request_uri'; access_log $work/nginx/log from;" \
    "listen 10.10.0.1:80; listen [fd10::1]:80;"

# loads ARGUMENTS...: its JSON is in $work/load.
loads() { timeout 300 "$exos" lab exec --name "$lab" b -- "$exos" load --idle sleep --json "$@" >"$work/load" 2>"$work/load.err"; }
# load ARGUMENTS...: the same from two cores.
load() { loads --link xdp:wire --address 10.10.0.20/24 --address fd10::20/64 --cores 2 "$@"; }
over_sockets() { loads --sockets "$@"; }
# got EXPRESSIONS: of the load's JSON, which is called r; its cores are called cores.
got() { python3 -S -c "
import json; r = json.load(open('$work/load')); cores = r['generators'][0]['cores']; print(*($1,))" 2>&1; }
# parts: how many responses each core has, and that they are all.
parts="len(cores), sum(on['responses'] for on in cores) == r['responses'], min(on['responses'] for on in cores)"
# refused NAME WANTED ARGUMENTS...
refused() {
    local name=$1 wanted=$2; shift 2
    if loads --address 10.10.0.20/24 "$@"; then bad "$name" "it is not"; else has "$name" "$wanted" "$(cat "$work/load.err")"; fi
}

lab_up || { bad "lab up"; exit 1; }
refused "one queue, and two cores" "numrxqueues 2" http://10.10.0.1/ --link xdp:wire --cores 2
has "or one core" "--cores 1" "$(cat "$work/load.err")"
"$exos" lab down --name "$lab" >/dev/null
lab_up --queues 2 || { bad "lab up with two queues"; exit 1; }
refused "more cores than there are" "give --cores $(nproc)" http://10.10.0.1/ --link xdp:wire --cores 4000 -c 5000
refused "more cores than clients" "give --connections 2 or more, or --cores 1" http://10.10.0.1/ --link xdp:wire --cores 2 -c 1
refused "one queue of several" "without the queue" http://10.10.0.1/ --link xdp:wire:1 --cores 2
refused "a TAP device" "one queue here" http://10.10.0.1/ --link tap:t0 --cores 2
refused "nobody there" "10.10.0.11 is unreachable" http://10.10.0.11/ --link xdp:wire --cores 2
refused "nobody listens" "10.10.0.1:9 refuses connections" http://10.10.0.1:9/ --link xdp:wire --cores 2

# ---- against our server on two cores, whose counts are compared ----

if launch_in_lab "$work/site" --link xdp:wire --address 10.10.0.10/24 --address fd10::10/64 --cores 2 --json; then
    load http://10.10.0.10/small -n 3001 -c 21
    same "connections that stand: requests and clients are divided to the last" "3001 300100 21 {} 2 True 1500" \
        "$(got "r['responses'], r['content_bytes'], r['connections'], r['errors'], $parts")"
    same "what our own server answers comes to whom it is for: little is handed on" "0 True" \
        "$(got "r['counters']['cores_frames_lost'], r['counters']['cores_frames_handed_on'] * 20 < r['link']['packets_received']")"
    load http://10.10.0.10/small -n 3000 -c 20 --requests-per-connection 1
    same "a connection for each" "3000 3000 {} 2 True 1500" "$(got "r['responses'], r['connections'], r['errors'], $parts")"
    load "http://[fd10::10]/large" -n 50 -c 5 --requests-per-connection 7
    same "large ones over IPv6" "50 15000000 {} 2 True 25" "$(got "r['responses'], r['content_bytes'], r['errors'], $parts")"
    # What a busy machine does not let begin in time is told, and counts.
    begun="r['errors'].pop('not_begun', 0) + r['responses']"
    load http://10.10.0.10/small --rate 500:1s,500-1500:1s
    open=$(got "r['responses']")
    same "steps and ramps" "1500 {} 2 True True" "$(got "$begun, r['errors'], len(cores), sum(on['responses'] for on in cores) == r['responses'], all(0 < on['responses'] <= 750 for on in cores)")"
    # A busy machine may not be ready by then, and is asked once more; it never begins before.
    for _ in 1 2 3; do
        start=$(($(date +%s) + 3))
        load http://10.10.0.10/small --rate 400 --poisson --seed 5 -d 2s --start-at $start
        open=$((open + $(got "r['responses']")))
        [ "$(got "r['started_unix_secs'] > $start + 1")" = True ] || break
    done
    cp "$work/load" "$work/two"
    over_sockets http://10.10.0.10/small --rate 400 --poisson --seed 5 -d 2s
    open=$((open + $(got "r['responses']")))
    one=$(got "$begun")
    cp "$work/two" "$work/load"
    same "arrivals by chance are as many as those of one core, and begin when they are told to" "$one {} True True" \
        "$(got "$begun, r['errors'], all(on['responses'] > 300 for on in cores), abs(r['started_unix_secs'] - $start) < 1")"
    stop
    has "the server counted as many" "\"http_responses_200\":$((3001 + 3000 + 50 + open))" "$(tail -n 1 "$work/out" | tr -d ' ')"
else
    bad "our server starts" "$(cat "$work/err")"
fi

# ---- against nginx, whose log is compared ----

start_nginx
# logged NAME LINES: this many since the last call, each with another pair of address and port.
logged() {
    await eval '[ "$(wc -l <"$work/nginx/log")" -ge '"$2"' ]'
    same "$1" "$2 $2" "$(wc -l <"$work/nginx/log") $(cut -d' ' -f1,2 "$work/nginx/log" | sort -u | wc -l)"
    truncate -s 0 "$work/nginx/log"
}
load http://10.10.0.1/small -n 4001 -c 31
same "nginx: connections that stand" "4001 {} 2 True 2000" "$(got "r['responses'], r['errors'], $parts")"
same "and half of what comes is handed on, none of it lost" "True 0" \
    "$(got "r['counters']['cores_frames_handed_on'] > 0, r['counters']['cores_frames_lost']")"
truncate -s 0 "$work/nginx/log"
load http://10.10.0.1/small -n 4000 -c 30 --requests-per-connection 1
same "nginx: a connection for each" "4000 4000 {} 2 True 2000" "$(got "r['responses'], r['connections'], r['errors'], $parts")"
logged "nginx: each is logged, and no two from the same port" 4000
load "http://[fd10::1]/small" -n 4000 -c 30 --requests-per-connection 1 --pool fd10::8:0/123
same "nginx: over IPv6 from a pool" "4000 4000 {}" "$(got "r['responses'], r['connections'], r['errors']")"
logged "nginx: each is logged, and no two from the same port of an address" 4000
loads http://10.10.0.1/small --via none --cores 2 -n 2000 -c 20 --requests-per-connection 1
same "nginx: without a link, beside the host" "2000 2000 {} 2 True 1000" "$(got "r['responses'], r['connections'], r['errors'], $parts")"
logged "nginx: each is logged, and no two from the same port of the host's" 2000
for n in $(seq 0 199); do echo "::1 - - [22/Nov/2026:14:32:0$((n / 100)) +0000] \"GET /$n HTTP/1.1\" 200 100"; done >"$work/log"
for how in "--speed 2" "--as-fast-as-possible -c 8"; do
    # shellcheck disable=SC2086
    load http://10.10.0.1/ --replay "$work/log" $how
    same "nginx: a log again, $how" "200 {} 2 True 100" "$(got "r['responses'], r['errors'], $parts")"
    same "nginx: each line of it once" "$(seq -f /%.0f 0 199 | sort)" "$(cut -d' ' -f3 "$work/nginx/log" | sort)"
    truncate -s 0 "$work/nginx/log"
done
over_sockets http://10.10.0.1/small --cores 2 -n 4000 -c 30 --requests-per-connection 1
same "nginx, by sockets: a connection for each" "4000 4000 {} 2 True 2000" "$(got "r['responses'], r['connections'], r['errors'], $parts")"
await eval '[ "$(wc -l <"$work/nginx/log")" -ge 4000 ]'
same "nginx, by sockets: each is logged" 4000 "$(wc -l <"$work/nginx/log")"
over_sockets http://10.10.0.1/small --cores 2 -d 600ms --warm-up 200ms --timeout 1s --find-peak 'p99<500ms'
same "nginx, by sockets: its peak" "True" "$(python3 -S -c "import json; r = json.load(open('$work/load')); print(r['peak_rate'] == max(s['rate'] for s in r['steps'] if s['holds']))")"

# ---- signals reach both cores, and all that either has open is reset ----

standing() { inside a -- ss -Htn state established sport = :80 | wc -l; }
for way in "--link xdp:wire --address 10.10.0.20/24" --sockets; do
    # shellcheck disable=SC2086
    "$exos" lab exec --name "$lab" b -- "$exos" load http://10.10.0.1/small $way --cores 2 -c 200 -d 300s --think 50ms --json >"$work/load" 2>"$work/load.err" &
    loading=$!
    await eval '[ "$(standing)" = 200 ]' || bad "two hundred clients, $way" "$(standing) connections"
    kill -USR1 "$loading"
    check "USR1: what both cores see is shown, $way" await grep -q ' 200 connections ' "$work/load.err"
    kill -TERM "$loading"
    wait "$loading"
    same "TERM: it ends in order, $way" 0 $?
    loading=
    same "with the results of both cores, $way" "2 True True" "$(got "$parts > 0")"
    check "and nothing stays open, $way" await eval '[ "$(standing)" = 0 ]'
done

# ---- what goes wrong on a core ends all ----

# Who polls has to look for it: before a sleep the link is asked in any case.
"$exos" lab exec --name "$lab" b -- "$exos" load http://10.10.0.1/small --link xdp:wire --address 10.10.0.20/24 --cores 2 -c 20 -d 300s --idle poll >"$work/load" 2>"$work/load.err" &
loading=$!
await eval '[ "$(standing)" = 20 ]'
inside b -- ip link delete wire
wait "$loading"
same "the interface goes: it ends" 1 $?
loading=
has "and says why" "the interface is down or gone" "$(cat "$work/load.err")"
exit $((failures > 0))
