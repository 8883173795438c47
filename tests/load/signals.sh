#!/usr/bin/env bash
# The release binary's `load` is ended by SIGINT or SIGTERM in each of its phases, over packets and over the kernel's sockets:
# it ends before its time, says what it has, and leaves nothing, neither here nor at the server. Prints "ok NAME",
# "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/load/signals.sh PATH/TO/exos
#
# Everything happens in namespaces of its own; what is started is ended by its id. The wire is long, so that there is always
# something under way. That a load has ended before its time shows in what it says, and in loads that would take minutes.
. "$(dirname "$0")/common.sh"
need_root "ending the load generator"
need_programs "ending the load generator" nginx python3
be_alone "$@"
begin
lab=signals-$$
mkdir -p "$work/site"
head -c 100 /dev/urandom >"$work/site/small"
configure_nginx "access_log $work/nginx/log; keepalive_requests 100000;" "listen 10.10.0.1:80 backlog=8192;"
loading=
cleanup_load() { [ -z "$loading" ] || end "$loading"; loading=; }
trap '[ "$BASHPID" != $$ ] || { cleanup_load; cleanup; }' EXIT

lab_up --delay 100ms || { bad "lab up"; exit 1; }
start_nginx
# Nobody is there, and nobody says so: what is sent there is lost behind the server's host.
client ip route add 10.30.0.0/24 via 10.10.0.1
inside a -- ip route add blackhole 10.30.0.0/24

# begin_load ARGUMENTS...: in the background; its process is $loading.
begin_load() {
    : >"$work/load"; : >"$work/load.err"
    before=$(wc -l <"$work/nginx/log"); read -r received taken < <(seen_by_server)
    "$exos" lab exec --name "$lab" b -- "$exos" load --json --idle sleep "${carrier[@]}" "$@" >"$work/load" 2>"$work/load.err" & loading=$!
}
# ended SIGNAL: asks it to end; its status is in $status.
ended() {
    kill -"$1" "$loading" 2>/dev/null
    local limit=$((SECONDS + 60))
    while kill -0 "$loading" 2>/dev/null; do
        [ $SECONDS -lt $limit ] || { status="it did not end within a minute"; end "$loading"; loading=; return; }
        sleep 0.05
    done
    wait "$loading"; status=$?; loading=
}
# seen_by_server: how many packets of IP its host has received, and how many connections it has taken.
seen_by_server() { inside a -- awk '/^Ip: [0-9]/ { packets = $4 } /^Tcp: [0-9]/ { print packets, $7 }' /proc/net/snmp; }
# looks: a packet has come to the server's host since it began.
looks() { local packets; read -r packets _ < <(seen_by_server); [ "$packets" -gt "$received" ]; }
# has_looked: it has had a connection to see whether the server is there, which has ended, and has its link.
has_looked() {
    local connections; read -r _ connections < <(seen_by_server)
    [ "$connections" -gt "$taken" ] && [ "$(inside a -- ss -Htn state connected exclude time-wait sport = :80 | wc -l)" = 0 ] &&
        { [ $way = sockets ] || client ip link show wire | grep -q xdp; }
}
got() { python3 -S -c "import json; r = json.load(open('$work/load')); print($1)" 2>&1; }
# has_connections COUNT: this many of the server's stand.
has_connections() { [ "$(inside a -- ss -Htn state established sport = :80 | wc -l)" -ge "$1" ]; }
# answered COUNT: this many requests more than when the load began.
answered() { [ "$(wc -l <"$work/nginx/log")" -ge $((before + $1)) ]; }
# left NAME: nothing is left of a load, at once or after a moment: half-open connections would be there for a minute.
none_left() {
    [ "$(inside a -- ss -Htn state connected exclude time-wait sport = :80 | wc -l)" = 0 ] &&
        ! client ip link show wire | grep -q xdp
}
left() {
    local limit=$((SECONDS + 20))
    until none_left; do
        [ $SECONDS -lt $limit ] || { bad "$1: nothing is left" "$(inside a -- ss -Htan state connected exclude time-wait sport = :80 | head -n 3) $(client ip link show wire | grep xdp)"; return; }
        sleep 0.1
    done
    ok "$1: nothing is left"
}

url=http://10.10.0.1/small
for way in packets sockets; do
    about="$way: "
    case $way in
    packets) carrier=(--link xdp:wire --address 10.10.0.20/24 --gateway 10.10.0.1) ;;
    sockets) carrier=(--sockets) ;;
    esac

    begin_load $url --start-at $(($(date +%s) + 300))
    check "it has looked, and waits for its begin" await has_looked
    ended TERM
    same "before its begin: it says so, and has no results" "1 0" "$status $(wc -c <"$work/load")"
    has "before its begin" "stopped before the load began" "$(cat "$work/load.err")"
    left "before its begin"

    begin_load http://10.30.0.9/ --yes-i-own-this-target
    check "it looks" await looks
    ended INT
    same "while it looks whether the server is there" "1 0" "$status $(wc -c <"$work/load")"
    has "while it looks" "stopped before the load began" "$(cat "$work/load.err")"

    # Some half of them are being opened at any time. Who asks for more than there are clients has seen responses.
    begin_load $url -c 300 -d 300s --requests-per-connection 1
    await answered 301
    ended INT
    same "while connections are opened: what has come by then" "0 True" "$status $(got "r['responses'] > 0 and r['measured_secs'] < 200")"
    left "while connections are opened"

    begin_load $url -c 20 -d 300s --warm-up 200s
    await has_connections 20
    ended TERM
    same "in its warm-up: nothing was measured" "0 0 0.0" "$status $(got "r['responses'], r['measured_secs']" | tr -d '(),')"
    left "in its warm-up"

    begin_load $url --rate 200 -d 300s --fail-if 'errors>0'
    await answered 201
    ended TERM
    # What was under way is counted as unfinished and is an error; on a busy machine a request whose time had come has not begun.
    same "an open loop: conditions are judged by what there is" "2 True True" \
        "$status $(got "r['responses'] > 0, 'unfinished' in r['errors'] and not set(r['errors']) - {'unfinished', 'not_begun'}" | tr -d '(),')"
    left "an open loop"

    # The resets of 4000 connections leave in several goes, and further signals come meanwhile.
    begin_load $url -c 4000 -d 300s --think 1s
    await has_connections 3990
    for _ in 1 2 3; do kill -INT "$loading"; sleep 0.01; done
    ended TERM
    same "while connections are reset" "0 True" "$status $(got "r['responses'] > 0")"
    left "while connections are reset"

    begin_load $url --find-peak 'p99<10s' -d 1200ms --warm-up 200ms
    await grep -q ' %  ' "$work/load.err"
    ended INT
    same "in a search for the peak: the curve so far" "0 True True" \
        "$status $(got "r['is_unfinished'], len(r['steps']) == $(grep -c ' %  ' "$work/load.err") > 0" | tr -d '(),')"
    left "in a search"
done

# A pair of interfaces of its own, and the host's routes to it, go with it.
about="a pair of its own: "
inside_a() { inside a -- sh -c "ip -br link | cut -d' ' -f1; ip route"; }
inside_a >"$work/before"
before=$(wc -l <"$work/nginx/log")
"$exos" lab exec --name "$lab" a -- "$exos" load --via none --idle sleep --json $url -c 20 -d 300s --pool 10.20.0.0/24 >"$work/load" 2>"$work/load.err" & loading=$!
await answered 21
check "it is there" eval '! inside_a | cmp -s - "$work/before"'
ended TERM
same "it ends in order" "0 True" "$status $(got "r['responses'] > 0")"
check "and leaves neither interface nor route" await eval 'inside_a | cmp -s - "$work/before"'
left "the load"
exit $((failures > 0))
