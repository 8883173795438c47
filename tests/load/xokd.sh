#!/usr/bin/env bash
# The release binary's `load` without privilege, on a link that the daemon lends: its connections are from ports that the
# daemon granted, and as many requests arrive as it counts. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/load/xokd.sh PATH/TO/exos
#
# The daemon runs in one side of a lab of its own, the server in the other; what is started is ended by its id.
lab=load-xokd-$$
. "$(dirname "$0")/../daemon/common.sh"
need_programs "the load generator and the daemon" python3
mkdir "$work/site"
head -c 100 /dev/zero | tr '\0' x >"$work/site/small"
chmod -R a+rX "$work/site"
lab_up || { bad "lab up"; exit 1; }
wire=$(client ip -br link | grep -v '^lo' | cut -d' ' -f1 | cut -d@ -f1)
# policy PORTS: the user may have these.
policy() {
    cat >"$work/xokd.toml" <<POLICY
[[interface]]
name = "$wire"
addresses = ["10.10.0.10/24", "fd10::10/64", "10.10.0.11/24"]

[[allow]]
user = "$user"
addresses = "any"
protocols = ["tcp"]
ports = ["$1"]
POLICY
}
# load ARGUMENTS...: its JSON is in $work/load.
load() { timeout 400 "${as_nobody[@]}" "$work/exos" load --via xokd --xokd "$socket" --idle sleep --json "$@" >"$work/load" 2>"$work/load.err"; }
got() { python3 -S -c "import json; r = json.load(open('$work/load')); print(*($1))" 2>&1 || cat "$work/load.err"; }

load http://10.10.0.2/small -n 5
same "without a daemon nothing is begun" 1 $?
has "and it says what to do" "exos daemon" "$(cat "$work/load.err")"
policy 1024-65535
start_daemon || { bad "the daemon starts" "$(cat "$work/daemon.out")"; exit 1; }
load http://10.10.0.2/small -n 5
has "nobody listens" "10.10.0.2:80 refuses connections" "$(cat "$work/load.err")"
[ "$(nproc)" -lt 2 ] || load http://10.10.0.2/small -n 5 --cores 2
[ "$(nproc)" -lt 2 ] || has "two cores are not to be had of a daemon" "the daemon divides what comes for a port that is served" "$(cat "$work/load.err")"
launch http "$exos" lab exec --name $lab b -- "$exos" serve "$work/site" --sockets --port 80 --json || { bad "a server starts" "$(cat "$work/err")"; exit 1; }
load http://10.10.0.2/small -n 1000 -c 8
same "on connections that stand" "1000 8 {}" "$(got "r['responses'], r['connections'], r['errors']")"
load http://10.10.0.2/small -n 1000 -c 8 --requests-per-connection 1
same "a connection for each, on ports that are used again" "1000 1000 {}" "$(got "r['responses'], r['connections'], r['errors']")"
load "http://[fd10::2]/small" -n 500 -c 100 --requests-per-connection 3
same "over IPv6, more at once than ports are claimed ahead" "500 {}" "$(got "r['responses'], r['errors']")"
load http://10.10.0.2/small -n 100 --address 10.10.0.11/24
same "from an address that is not the first of the daemon's" "100 {}" "$(got "r['responses'], r['errors']")"
load http://10.10.0.2/small --http 2 -n 1000 -c 4 --streams 50
same "over HTTP/2, many on each" "1000 4 {}" "$(got "r['responses'], r['connections'], r['errors']")"
load http://10.10.0.2/small --http 2 -n 500 -c 3 --streams 10 --requests-per-connection 20
same "and on connections that end" "500 True {}" "$(got "r['responses'], 25 <= r['connections'] <= 27, r['errors']")"
load http://10.10.0.2/small --rate 200 -d 2s
# What a busy machine does not let begin in time is told, and counts.
same "an open loop" "400 True {}" "$(got "r['errors'].pop('not_begun', 0) + r['responses'], r['responses'] > 0, r['errors']")"
load http://10.10.0.2/small -c 4 -d 300s & loading=$!
programs+=("$loading")
await eval 'inside b -- ss -Htn state established sport = :80 | grep -q .'
pkill -TERM -P "$loading"
wait "$loading"
same "a signal ends it in order" 0 $?
check "and leaves no connection" await eval '! inside b -- ss -Htn state established sport = :80 | grep -q .'

# Fewer ports than connections.
end "$daemon"
policy 20000-20009
start_daemon || { bad "the daemon starts again" "$(cat "$work/daemon.out")"; exit 1; }
load http://10.10.0.2/small -n 200 -c 30 --no-probe
same "who has too few ports" "200 True" "$(got "r['responses'] + sum(r['errors'].values()), r['errors'].get('no_connection', 0) > 0")"
same "is told once" 1 "$(grep -c "exos load: " "$work/load.err")"
stop
same "the server ends in order" 0 $?
