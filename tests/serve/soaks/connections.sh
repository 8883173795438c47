#!/usr/bin/env bash
# Many connections: opened by `exos load`, one request each, held open against `exos serve` for a while, and closed by
# resets. What both processes take of memory for each is printed and held against bounds. Prints "ok NAME", "not ok NAME:
# why" or "SKIPPED: ..." lines.
#
#   tests/serve/soaks/connections.sh PATH/TO/exos [in-kernel]
#   EXOS_CONNECTIONS=1000000 EXOS_HELD_SECS=20 tests/serve/soaks/connections.sh PATH/TO/exos
. "$(dirname "$0")/../../common.sh"
wanted=${EXOS_CONNECTIONS:-40000}
# What the kernel answers it has for 5 s when nothing more comes, and then the server: resets are to come to that.
held_for=${EXOS_HELD_SECS:-$([ -z "$in_kernel" ] && echo 3 || echo 10)}
# What a beginning needs is given back within a second, and is used again: of few connections it is a part of each.
bytes_most=800; [ "$wanted" -ge 500000 ] || bytes_most=1472
need_root "many connections"
need_programs "many connections" python3
free_kb=$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)
[ "$free_kb" -gt $((200000 + 4 * wanted)) ] || skip "many connections" "there are not 4 KB of free memory for each of them"
be_alone "$@"
begin
lab=connections-$$
mkdir "$work/site"
head -c 100 /dev/urandom >"$work/site/small"

# memory_of PID: in KB, shared pages in parts.
memory_of() { awk '/^Pss:/ { print $2 }' "/proc/$1/smaps_rollup"; }
# most_of PID: the most that it ever had, in KB.
most_of() { awk '/^VmHWM/ { print $2 }' "/proc/$1/status"; }
# got EXPRESSION: of the load's JSON, which is called r.
got() { python3 -S -c "import json; r = json.load(open('$work/load')); print($1)" 2>&1; }
are_open() { tail -n 1 "$work/progress" 2>/dev/null | grep -q " $1 connections"; }
# hold COUNT SECONDS: opens this many and holds them; $client_kb and $server_kb are what the two processes have then.
hold() {
    local begun=$SECONDS
    "$exos" lab exec --name "$lab" b -- "$exos" load http://10.10.0.10/small --link xdp:wire --address 10.10.0.20/24 --pool 10.10.0.64/26 --idle sleep \
        -c "$1" --think 1h -d 1h --timeout 60s --progress --json >"$work/load" 2>"$work/progress" & peer=$!
    local limit=$((SECONDS + 300))
    until are_open "$1"; do
        [ $SECONDS -lt $limit ] && kill -0 "$peer" 2>/dev/null || return 1
        sleep 0.2
    done
    opened_in=$((SECONDS - begun))
    sleep "$2"
    # What a beginning needs is given back when there is a turn for that.
    for _ in $(seq 20); do
        client_kb=$(memory_of "$peer") server_kb=$(memory_of "$server")
        [ "$1" != 1 ] && [ $(((client_kb - client_alone_kb) * 1024 / $1)) -gt "$bytes_most" -o $(((server_kb - server_alone_kb) * 1024 / $1)) -gt "$bytes_most" ] || break
        sleep 1
    done
    client_most_kb=$(most_of "$peer") server_most_kb=$(most_of "$server")
    kill -INT "$peer"; wait "$peer"; peer=
}
# server_says EXPRESSION: of the counters of the server, which has ended.
server_says() { tail -n 1 "$work/out" | python3 -S -c "import json, sys; s = json.load(sys.stdin)['counters']; print($1)" 2>&1; }
# within NAME MOST GOT: a number of bytes.
within() { if [ "$3" -le "$2" ]; then ok "$1: $3"; else bad "$1" "$3, more than $2"; fi; }

lab_up || { bad "lab up"; exit 1; }
launch_in_lab "$work/site" --link xdp:wire --address 10.10.0.10/24 --json || { bad "a server" "$(tail -n 3 "$work/err")"; exit 1; }
hold 1 1 || { bad "one connection" "$(tail -n 3 "$work/progress")"; exit 1; }
client_alone_kb=$client_kb server_alone_kb=$server_kb

if hold "$wanted" "$held_for"; then
    echo "$wanted connections were open after $opened_in s. Of memory, the client took $((client_kb / 1024)) MiB then and $((client_most_kb / 1024)) at most," \
        "the server $((server_kb / 1024)) and $((server_most_kb / 1024))."
    same "each had its response, and none failed" "$wanted $wanted {}" "$(got "r['connections'], r['responses'], r['errors']" | tr -d '(),')"
    same "all were reset" "$wanted" "$(got "r['counters']['tcp_aborted'] - r['counters']['drop_tcp_answer_queue_full']")"
    within "bytes of the client for each" "$bytes_most" $(((client_kb - client_alone_kb) * 1024 / wanted))
    within "bytes of the server for each" "$bytes_most" $(((server_kb - server_alone_kb) * 1024 / wanted))
    within "KiB of both at most" $((4 << 20)) $((client_most_kb + server_most_kb))
else
    bad "$wanted connections" "$(tail -n 3 "$work/progress")"
fi
stop; same "the server ends well" 0 $?
# A reset that the kernel could not hand over, because the server had no turn for too long, is counted there, or by the interface
# that it left by, and its connection is aborted in the end.
dropped=$(got "sum(n for name, n in r['counters'].items() if name == 'link_interface_tx_dropped')")
lost="($dropped + sum(n for name, n in s.items() if name.startswith('link_kernel_rx_')))"
same "and none of them was left to it, but those whose resets the link has counted as lost" "True True" \
    "$(server_says "s['tcp_reset_received'] + $lost > $wanted, s['tcp_aborted'] <= $lost" | tr -d '(),')"
exit $((failures > 0))
