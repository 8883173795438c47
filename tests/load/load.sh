#!/usr/bin/env bash
# The release binary's `load` against servers that count too: our own and nginx, with connections that are new for each
# request and that stand, in closed and open loops; and what it refuses. Prints "ok NAME", "not ok NAME: why" or
# "SKIPPED: ..." lines.
#
#   tests/load/load.sh PATH/TO/exos
#
# Everything happens in namespaces of its own; what is started is ended by its id. Nothing here judges how fast it is.
. "$(dirname "$0")/common.sh"
need_root "the load generator"
need_programs "the load generator" nginx python3
be_alone "$@"
begin
lab=load-$$
mkdir -p "$work/site"
# Where everybody may run it.
cp "$exos" "$work/exos"; chmod a+rx "$work" "$work/exos"
head -c 100 /dev/urandom >"$work/site/small"
head -c 300000 /dev/urandom >"$work/site/large"
"$exos" load surge-files "$work/site/set" --files 60 --seed 4 >"$work/surge" || bad "a set of documents is written" ""

# load ARGUMENTS...: its JSON is in $work/load. It leaves the core to others while it waits; with idle= it does what it does when nothing is said.
load() { timeout "${most:-300}" "$exos" lab exec --name "$lab" b -- "$exos" load --link xdp:wire --address 10.10.0.20/24 --address fd10::20/64 ${idle---idle sleep} --json "$@" >"$work/load" 2>"$work/load.err"; }
# over_sockets ARGUMENTS...: the same over the kernel's sockets, as nobody and without privileges.
over_sockets() { timeout 300 "$exos" lab exec --name "$lab" "${over_sockets_at:-b}" -- setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all "$work/exos" load --sockets ${idle---idle sleep} --json "$@" >"$work/load" 2>"$work/load.err"; }
# got EXPRESSION: of the load's JSON, which is called r; where there is none, why the load has failed.
got() {
    [ -s "$work/load" ] || { echo "no report: $(tail -n 3 "$work/load.err")"; return; }
    python3 -S -c "import json; r = json.load(open('$work/load')); print($1)" 2>&1
}
# count EXPRESSION: a number of it, 0 where there is none.
count() { local number; number=$(got "$1"); [[ $number =~ ^[0-9]+$ ]] || number=0; echo "$number"; }
# What was to begin of a load with a rate and an end, and other errors: what a busy machine does not let begin in time is told, and counts.
begun="r['errors'].pop('not_begun', 0) + r['responses'], r['errors']"
# refused NAME WANTED ARGUMENTS...: no load is begun, and it is said why.
refused() {
    local name=$1 wanted=$2 status; shift 2
    load "$@"; status=$?
    if [ $status != 0 ] && [ $status != 124 ]; then has "$name" "$wanted" "$(cat "$work/load.err")"; else bad "$name" "status $status"; fi
}

lab_up || { bad "lab up"; exit 1; }

refused "options of TLS without TLS" "no TLS is spoken" http://10.10.0.10/ --insecure
refused "a host that nobody knows" "there is no host no-such-host.invalid" http://no-such-host.invalid/
refused "a file that is not there" "cannot read" http://10.10.0.10/ --body "$work/none"
refused "a warm-up without an end" "takes the whole load" http://10.10.0.10/ -d 1s --warm-up 1s
refused "a peak of one load" "one load has no peak" http://10.10.0.10/ --fail-if 'peak<5'
refused "a server that is not ours" "--yes-i-own-this-target" http://192.0.2.1/
over_sockets http://192.0.2.1/
has "nor is it by sockets" "--yes-i-own-this-target" "$(cat "$work/load.err")"
over_sockets http://10.10.0.10/ --address 10.10.0.20/24
has "a link's options, by sockets" "cannot be used with" "$(cat "$work/load.err")"
refused "an address of the host" "is an address of this host" http://10.10.0.10/ --address 10.10.0.2/24
printf 'http://10.10.0.10/\n-1 /small\n' >"$work/list"
refused "a pool that does not begin there" "is 10.20.0.0/16" http://10.10.0.10/ --pool 10.20.0.1/16
refused "a pool with everybody's address in it" "the network 10.10.0.0/24" http://10.10.0.10/ --pool 10.10.0.128/25
refused "a pool with the server in it" "the server 10.10.0.10 is in the pool" http://10.10.0.10/ --pool 10.10.0.8/29
refused "a pool with the host in it" "10.10.0.2 is an address of this host" http://10.10.0.10/ --pool 10.10.0.2/31
inside a -- ip address add 10.10.0.99/24 dev wire
refused "a pool with somebody else in it" "10.10.0.99 is the address of a host on the link" http://10.10.0.10/ --pool 10.10.0.96/29
inside a -- ip address delete 10.10.0.99/24 dev wire
over_sockets http://10.10.0.10/ --pool 10.20.0.0/16
has "a pool, by sockets" "cannot be used with" "$(cat "$work/load.err")"
refused "a list with a wrong weight" "line 2" --urls "$work/list"
printf 'http://10.10.0.10/\nhttp://10.10.0.11/\n' >"$work/list"
refused "a list of two servers" "line 2: http://10.10.0.11 is another server" --urls "$work/list"
refused "a set of documents that is not there" "surge-files" http://10.10.0.10/ --surge "$work/none"
refused "a log that is none" "no line of it is a request" http://10.10.0.10/ --replay "$work/list"
refused "nobody there" "10.10.0.11 is unreachable" http://10.10.0.11/
refused "nobody listens" "10.10.0.1:9 refuses connections" http://10.10.0.1:9/
over_sockets http://10.10.0.11/
has "nobody there, by sockets" "10.10.0.11 is unreachable" "$(cat "$work/load.err")"
over_sockets http://10.10.0.1:9/
has "nobody listens, by sockets" "10.10.0.1:9 refuses connections" "$(cat "$work/load.err")"
load http://10.10.0.11/ -c 1 -d 3s --timeout 1s --no-probe
same "nobody there: each request runs into its time" "True 0" "$(got "r['errors'].get('connect_timeout', 0) >= 1, r['responses']" | tr -d '(),')"
load http://10.10.0.1:9/ -c 1 -d 100ms --no-probe
same "nobody listens: each is refused" "True 0" "$(got "r['errors'].get('refused', 0) >= 1, r['responses']" | tr -d '(),')"

# ---- against a server that says that it closes, and never does ----

cat >"$work/lasting.py" <<'END'
import socket
listener = socket.create_server(("10.10.0.1", 81))
print("listening", flush=True)
visits = []
while True:
    visits.append(listener.accept()[0])
    visits[-1].recv(4096)
    visits[-1].sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
END
"$exos" lab exec --name "$lab" a -- python3 "$work/lasting.py" >"$work/lasting" 2>&1 & peer=$!
await grep -q listening "$work/lasting"
load http://10.10.0.1:81/ -c 3 -n 6 --requests-per-connection 1
same "a server that does not close: left after a second" "6 {} True" "$(got "r['responses'], r['errors'], 1 <= r['measured_secs'] < 60" | tr -d '(),')"
# Its connections stand, closed by us alone, unless they were reset.
none_half_open() { [ -z "$(inside a -- ss -Htn sport = :81)" ]; }
check "and reset in the end: nothing is left half open" await none_half_open
kill "$peer"; wait "$peer" 2>/dev/null; peer=

# ---- against our own server, whose counts are compared ----

if launch_in_lab "$work/site" --link xdp:wire --address 10.10.0.10/24 --address fd10::10/64 --json; then
    idle= load http://10.10.0.10/small -n 3000 -c 20
    same "requests on connections that stand" "3000 300000 20 {'200': 3000} {}" \
        "$(got "r['responses'], r['content_bytes'], r['connections'], r['statuses'], r['errors']" | sed 's/^(//; s/)$//; s/\([0-9}]\),/\1/g')"
    load http://10.10.0.10/small -n 3000 -c 20 --requests-per-connection 1
    same "a connection for each" "3000 3000 {}" "$(got "r['responses'], r['connections'], r['errors']" | tr -d '(),')"
    load http://10.10.0.10/small -n 3000 -c 20 --requests-per-connection 1
    same "and again, on ports that the server remembers" "3000 3000 {}" "$(got "r['responses'], r['connections'], r['errors']" | tr -d '(),')"
    load "http://[fd10::10]/large" -n 50 -c 5 --requests-per-connection 7 --no-merging
    same "large ones over IPv6, seven a connection, nothing merged" "50 15000000 {}" "$(got "r['responses'], r['content_bytes'], r['errors']" | tr -d '(),')"
    load http://10.10.0.10/none -n 10 --early-finish --requests-per-connection 1 --http 1.0 -X HEAD
    same "what is not there, its head only, with our FIN first" "10 0 {'404': 10} {}" "$(got "r['responses'], r['content_bytes'], r['statuses'], r['errors']" | sed 's/^(//; s/)$//; s/\([0-9}]\),/\1/g')"
    # Who looks on does not sleep between two requests, who sleeps does for each; a part of a loop's turns without a frame is spun.
    idle= load http://10.10.0.10/small -n 200 -c 1 --think 5ms --idle poll; polls=$(got "r['counters']['sleeps']")
    load http://10.10.0.10/small -n 200 -c 1 --think 5ms; sleeps=$(got "r['counters']['sleeps']")
    same "one that looks on sleeps seldom, one that sleeps each time" "yes yes" \
        "$([ "$polls" -lt 20 ] && echo yes || echo "$polls") $([ "$sleeps" -ge 190 ] && echo yes || echo "$sleeps")"
    # Acknowledgements ride on what is sent next, or go alone. What a late server has sent again is none of it.
    sent="r['counters']['tcp_segments_sent'] - r['counters']['tcp_segments_retransmitted']"
    load http://10.10.0.10/small -n 300 -c 1 --requests-per-connection 1; merged=$(count "$sent")
    load http://10.10.0.10/small -n 300 -c 1 --requests-per-connection 1 --no-merging; alone=$(count "$sent")
    same "merging saves a segment of each request at least" yes "$([ "$merged" -gt 0 ] && [ $((merged + 300)) -le "$alone" ] && echo yes || echo "$merged $alone")"
    load http://10.10.0.10/large -n 20 --no-verify-checksums
    same "checksums that are not verified" "20 6000000 {}" "$(got "r['responses'], r['content_bytes'], r['errors']" | tr -d '(),')"
    load http://10.10.0.10/small --rate 500:1s,500-1500:1s
    steps=$(count "r['responses']")
    same "steps and ramps" "1500 {}" "$(got "$begun" | tr -d '(),')"
    printf '3 http://10.10.0.10/small\n/large # less often\n' >"$work/list"
    load --urls "$work/list" -n 400 -c 8
    same "a list: small ones three times as often" "400 True {}" \
        "$(got "r['responses'], 70 * 300000 < r['content_bytes'] < 130 * 300000, r['errors']" | tr -d '(),')"
    for line in 1:GET 1:HEAD 3:GET 3:GET 3:GET 3:GET; do
        echo "::1 - - [22/Nov/2026:14:32:0${line%%:*} +0000] \"${line#*:} /small HTTP/1.1\" 200 100"
    done >"$work/log"; echo "::1 - - [22/Nov/2026:14:32:09 +0000] \"-\" 400 0" >>"$work/log"
    load http://10.10.0.10/ --replay "$work/log" --speed 2
    same "a log by its times: from its first request to its last but a quarter of a second" "6 500 {} True" \
        "$(got "r['responses'], r['content_bytes'], r['errors'], 1.3 < r['measured_secs'] < 30" | tr -d '(),')"
    has "what is no request of it is said" "1 of 7 lines" "$(cat "$work/load.err")"
    same "and counted" "6 6 {'request': 1}" "$(got "r['generators'][0]['log']['requests'], r['generators'][0]['log']['begun'], r['generators'][0]['log']['left_out']" | sed 's/^(//; s/)$//; s/,//g')"
    load http://10.10.0.10/ --replay "$work/log" --as-fast-as-possible -c 2
    same "a log as fast as possible" "6 500 2 {}" "$(got "r['responses'], r['content_bytes'], r['connections'], r['errors']" | tr -d '(),')"
    # Results that are read again.
    start=$(($(date +%s) + 5))
    load http://10.10.0.10/small -n 400 -c 4 --rate 200 --start-at $start; cp "$work/load" "$work/first"
    "$exos" load merge "$work/first" --json >"$work/load" 2>"$work/load.err"
    # A busy machine may not be ready by then; it never begins before.
    same "a load that began no sooner than it was told to, read again" "True 400 400" \
        "$(got "r['started_unix_secs'] > $start - 0.01, r['responses'], sum(n for _, n in r['times_us']['total']['histogram'])" | tr -d '(),')"
    # Two that run together, the one on sockets: both are ready by then.
    start=$(($(date +%s) + 10))
    timeout 100 "$exos" lab exec --name "$lab" b -- setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all "$work/exos" \
        load http://10.10.0.10/small --sockets -n 400 -c 4 --rate 200 --start-at $start --json >"$work/second" 2>"$work/load.err" & peer=$!
    load http://10.10.0.10/small -n 200 -c 4 --rate 100 --start-at $start; cp "$work/load" "$work/third"
    wait $peer; peer=
    "$exos" load merge "$work/second" "$work/third" --json >"$work/load" 2>"$work/load.err"
    same "two that ran together are one" "600 600 2 {}" \
        "$(got "r['responses'], sum(n for _, n in r['times_us']['total']['histogram']), len(r['generators']), r['errors']" | tr -d '(),')"
    load http://10.10.0.10/small -n 100 -c 4
    refusal=$("$exos" load merge "$work/first" "$work/load" 2>&1)
    "$exos" load merge "$work/first" --fail-if 'errors>0' --fail-if 'p99<1us' >/dev/null 2>&1
    same "no condition met" 0 $?
    failure=$("$exos" load merge "$work/first" --fail-if 'errors>0' --fail-if 'rate>1' --fail-if 'status-share:2xx>=100%' 2>&1 >/dev/null)
    same "conditions met" "2 2" "$? $(grep -c "^exos load: failed: " <<<"$failure")"
    has "loads one after the other are not added up" "did not run while the others did" "$refusal"
    has "but compared" "requests/s" "$("$exos" load compare "$work/first" "$work/load" 2>&1)"
    sum=$(sha256sum <"$work/site/large" | cut -d' ' -f1)
    load http://10.10.0.10/large -n 20 -c 3 --expect-status 200 --expect-length 300000 --expect-sha256 "$sum"
    same "what comes is what is served" "20 {}" "$(got "r['responses'], r['errors']" | tr -d '(),')"
    load http://10.10.0.10/small -n 20 -c 3 --expect-sha256 "$sum"
    same "what is not is a mismatch" "0 {'mismatch': 20}" "$(got "r['responses'], r['errors']" | tr -d '(),')"
    load http://10.10.0.10/large -n 20 -c 3 --range 100-199 --expect-status 206 --expect-length 100
    same "a part" "20 2000 {}" "$(got "r['responses'], r['content_bytes'], r['errors']" | tr -d '(),')"
    load http://10.10.0.10/small -n 3000 -c 5 --pipeline 16 --requests-per-connection 50 --expect-length 100
    same "sixteen under way on a connection" "3000 300000 {}" "$(got "r['responses'], r['content_bytes'], r['errors']" | tr -d '(),')"
    idle= over_sockets http://10.10.0.10/small -n 3000 -c 20
    same "sockets: requests on connections that stand" "3000 300000 20 {'200': 3000} {}" \
        "$(got "r['responses'], r['content_bytes'], r['connections'], r['statuses'], r['errors']" | sed 's/^(//; s/)$//; s/\([0-9}]\),/\1/g')"
    over_sockets "http://[fd10::10]/large" -n 50 -c 5 --requests-per-connection 7
    same "sockets: large ones over IPv6, seven a connection" "50 15000000 {}" "$(got "r['responses'], r['content_bytes'], r['errors']" | tr -d '(),')"
    over_sockets http://10.10.0.10/none -n 10 --early-finish --requests-per-connection 1 --http 1.0 -X HEAD
    same "sockets: what is not there, its head only, with our FIN first" "10 0 {'404': 10} {}" "$(got "r['responses'], r['content_bytes'], r['statuses'], r['errors']" | sed 's/^(//; s/)$//; s/\([0-9}]\),/\1/g')"
    over_sockets http://10.10.0.10/small --rate 500:1s,500-1500:1s
    steps=$((steps + $(count "r['responses']")))
    same "sockets: steps and ramps" "1500 {}" "$(got "$begun" | tr -d '(),')"
    load http://10.10.0.10/set --surge "$work/site/set" -c 50 -d 4s
    same "users of a set of documents" "True {}" \
        "$(got "r['statuses'] == {'200': r['responses']} and r['responses'] >= 50, r['errors']" | tr -d '(),')"
    surge=$(count "r['responses']")
    # Pools: parts of the network, whose addresses are asked for, and networks that the server reaches by our addresses.
    load http://10.10.0.10/small -n 2000 -c 40 --requests-per-connection 1 --pool 10.10.0.64/26
    same "from a part of the network" "2000 2000 {}" "$(got "r['responses'], r['connections'], r['errors']" | tr -d '(),')"
    load "http://[fd10::10]/small" -n 2000 -c 40 --requests-per-connection 1 --pool fd10::8:0/122
    same "and over IPv6" "2000 2000 {}" "$(got "r['responses'], r['connections'], r['errors']" | tr -d '(),')"
    kill -TERM "$server"; wait "$server"; server=
    requests=$(tail -n 1 "$work/out" | grep -o '"http_responses_[0-9]*":[0-9]*' | awk -F: '{ all += $2 } END { print all }')
    same "the server counted as many" $((3000 * 3 + 50 + 10 + 200 * 2 + 300 * 2 + 20 + steps + 400 + 600 + 100 + 400 + 6 + 6 + surge + 3000 + 50 + 10 + 60 + 3000 + 4000)) "$requests"
else
    bad "our server starts" "$(cat "$work/err")"
fi

# ---- more connections than an address has ports, to a server that has us for its gateway ----

if launch_in_lab "$work/site" --link xdp:wire --address 10.10.0.10/24 --address fd10::10/64 --gateway 10.10.0.20 --gateway fd10::20 --json; then
    # What is finished by us keeps its port for a minute.
    most=900 load http://10.10.0.10/small -n 70000 -c 100 -d 800s --requests-per-connection 1 --early-finish --pool 10.20.0.0/30 --pool 10.20.1.0/31
    same "seventy thousand connections, whose ports are not free again" "70000 70000 {}" "$(got "r['responses'], r['connections'], r['errors']" | tr -d '(),')"
    # Of two addresses, of which each has 16,384.
    most=900 load "http://[fd10::10]/small" -n 17000 -c 100 -d 800s --requests-per-connection 1 --early-finish --pool fd20::/127
    same "over IPv6, more of them than an address has" "17000 17000 {}" "$(got "r['responses'], r['connections'], r['errors']" | tr -d '(),')"
    kill -TERM "$server"; wait "$server"; server=
    has "the server answered each" '"http_responses_200":87000' "$(tail -n 1 "$work/out" | tr -d ' ')"
else
    bad "our server starts with a gateway" "$(cat "$work/err")"
fi

# ---- the peak, over a wire for which it is known ----

cat >"$work/curve.py" <<'END'
# The steps of a search are those that follow from what each of them saw, and each is judged by its own numbers.
import json, sys
r = json.load(open(sys.argv[1]))
bound_us, measured, held, failed, tries, rate = float(sys.argv[2]), float(sys.argv[3]), None, None, 0, 100.0
for step in r["steps"]:
    assert abs(step["rate"] - rate) < 1e-6 * rate, f"{step['rate']} is not the next rate, {rate}"
    times = [step["total_us"][name] for name in ("p50", "p75", "p90", "p99", "p99.9", "max")]
    assert times == sorted(times), times
    assert step["bound_value_us"] == step["total_us"]["p99"], step
    expected = rate * measured
    assert step["is_reached"] == (abs(step["requests"] - expected) <= max(1, expected / 1000)), step
    assert step["holds"] == (step["bound_value_us"] < bound_us and step["errors"] == 0 and step["is_reached"]), step
    assert step["errors"] <= step["requests"] and 0 <= step["busy_share"] <= 1, step
    if step["holds"]:
        held, tries = rate, 0
    else:
        tries += 1
        if tries < 2: continue
        failed, tries = rate, 0
    rate = held * 2 if failed is None else failed / 2 if held is None else (held + failed) / 2
assert r["peak_rate"] == held and not r["is_unfinished"], r
assert held < failed <= held * 1.02, (held, failed)
# A response of 5000 bytes takes four milliseconds of the wire, and a request's 300 are few.
assert held < 250, f"{held} responses do not go through ten megabits a second"
END
"$exos" lab down --name "$lab" >/dev/null 2>&1
head -c 5000 /dev/urandom >"$work/site/medium"
lab_up --rate 10mbit --queue 64kb || { bad "a slow lab up"; exit 1; }
if launch_in_lab "$work/site" --link xdp:wire --address 10.10.0.10/24 --json; then
    # A wire of ten megabits is waited for asleep: looking on would take a core for half a minute.
    most=900 load http://10.10.0.10/medium --find-peak 'p99<50ms' -d 1200ms --warm-up 400ms --timeout 2s --html "$work/peak.html" \
        --fail-if 'peak<1' --fail-if 'peak>250' --fail-if 'errors>0' --fail-if 'p99>=50ms'
    same "a peak that no condition fails" 0 $?
    check "its curve is consistent" python3 "$work/curve.py" "$work/load" 50000 0.8
    same "and drawn: as many points as rates have times" "$(got "4 * len({s['rate'] for s in r['steps']})")" "$(grep -c '<circle' "$work/peak.html")"
    load http://10.10.0.10/medium --find-peak 'p99<1us' -d 120ms --warm-up 20ms --fail-if 'peak<0.01'
    same "where there is no peak every condition fails" "2 1 None" "$? $(grep -c 'failed: peak<0.01: there is no peak' "$work/load.err") $(got "r['peak_rate']")"
    stop
    same "the server ends in order" 0 $?
else
    bad "our server starts behind a slow wire" "$(cat "$work/err")"
fi
"$exos" lab down --name "$lab" >/dev/null 2>&1
lab_up || { bad "lab up again"; exit 1; }

# ---- against nginx, whose log is compared ----

configure_nginx "access_log $work/nginx/log; keepalive_requests 100;" \
    "listen 10.10.0.1:80; listen 10.30.0.1:80; listen [fd10::1]:80;"
inside a -- ip address add 10.30.0.1/32 dev lo; inside b -- ip route add 10.30.0.0/24 via 10.10.0.1
"$exos" lab exec --name "$lab" a -- nginx -c "$work/nginx/conf" >/dev/null 2>&1 & peer=$!
if await eval 'client curl -sf -o /dev/null http://10.10.0.1/small'; then
    load http://10.10.0.1/small -n 5000 -c 30
    same "nginx: connections that it ends after a hundred requests" "5000 {}" "$(got "r['responses'], r['errors']" | tr -d '(),')"
    load http://10.10.0.1/small -n 2000 -c 30 --requests-per-connection 1
    same "nginx: a connection for each" "2000 2000 {}" "$(got "r['responses'], r['connections'], r['errors']" | tr -d '(),')"
    load "http://[fd10::1]/large" -n 100 -c 10
    same "nginx: large ones over IPv6" "100 30000000 {}" "$(got "r['responses'], r['content_bytes'], r['errors']" | tr -d '(),')"
    over_sockets http://10.10.0.1/small -n 5000 -c 30
    same "nginx, sockets: connections that it ends after a hundred requests" "5000 {}" "$(got "r['responses'], r['errors']" | tr -d '(),')"
    over_sockets http://10.10.0.1/small -n 2000 -c 30 --requests-per-connection 1
    same "nginx, sockets: a connection for each" "2000 2000 {}" "$(got "r['responses'], r['connections'], r['errors']" | tr -d '(),')"
    over_sockets_at=a over_sockets "http://[fd10::1]/large" -n 100 -c 10
    same "nginx, sockets: large ones over IPv6, on the server's own host" "100 30000000 {}" "$(got "r['responses'], r['content_bytes'], r['errors']" | tr -d '(),')"
    # addresses REQUESTS: from how many the last ones came.
    addresses() { settled; tail -n "$1" "$work/nginx/log" | cut -d' ' -f1 | sort -u | wc -l; }
    # 256 addresses are fewer than the kernel's table of neighbours holds.
    load http://10.10.0.1/small -n 1024 -c 16 --requests-per-connection 1 --pool 10.10.0.64/26
    same "nginx: from a part of the network" "1024 {} 64" \
        "$(got "r['responses'], r['errors']" | tr -d '(),') $(addresses 1024)"
    inside a -- ip route add 10.20.0.0/16 via 10.10.0.20; inside a -- ip -6 route add fd20::/64 via fd10::20
    load http://10.10.0.1/small -n 3000 -c 16 --requests-per-connection 1 --pool 10.20.0.0/16
    same "nginx: from a network that is routed to us, from three thousand addresses of it" "3000 {} 3000" \
        "$(got "r['responses'], r['errors']" | tr -d '(),') $(addresses 3000)"
    load "http://[fd10::1]/small" -n 3000 -c 16 --requests-per-connection 1 --pool fd20::/64
    same "nginx: and over IPv6" "3000 {} 3000" \
        "$(got "r['responses'], r['errors']" | tr -d '(),') $(addresses 3000)"
    # Beyond the host, without a link: beside the host, whose own connections to the same server go on.
    plainly() { timeout 300 "$exos" lab exec --name "$lab" b -- "$exos" load --via none --idle sleep --json "$@" >"$work/load" 2>"$work/load.err"; }
    plainly http://10.10.0.1/small -n 2000 -c 20 --requests-per-connection 1 & beside=$!
    mine=$(for _ in $(seq 20); do client curl -sS -m 60 -o /dev/null -w '%{http_code} ' http://10.10.0.1/small; done)
    wait "$beside"
    same "nginx: without a link, beside the host" "2000 2000 {}" "$(got "r['responses'], r['connections'], r['errors']" | tr -d '(),')"
    has "which is said" "10.10.0.1 is reached by wire: going beside the host there" "$(cat "$work/load.err")"
    same "and the host's own connections go on" "$(for _ in $(seq 20); do printf '200 '; done)" "$mine"
    plainly "http://[fd10::1]/small" -n 500 -c 20 --requests-per-connection 1
    same "nginx: and over IPv6" "500 500 {}" "$(got "r['responses'], r['connections'], r['errors']" | tr -d '(),')"
    plainly http://10.30.0.1/small -n 500 -c 20 --requests-per-connection 1
    has "nginx: what is no neighbour must be ours" "--yes-i-own-this-target" "$(cat "$work/load.err")"
    plainly http://10.30.0.1/small -n 500 -c 20 --requests-per-connection 1 --yes-i-own-this-target
    same "nginx: through a gateway" "500 500 {} 1" \
        "$(got "r['responses'], r['connections'], r['errors']" | tr -d '(),') $(grep -c 'reached by wire through 10.10.0.1' "$work/load.err")"
    same "and nothing stays on the interface" 0 "$(inside b -- ip link show wire | grep -c xdp)"
    kill -QUIT "$peer"; wait "$peer"; peer=
    same "its log has as many" $((1 + 2 * (5000 + 2000 + 100) + 1024 + 6000 + 2000 + 20 + 500 + 500)) "$(wc -l <"$work/nginx/log")"
else
    bad "nginx starts" "$(cat "$work/nginx/error")"
fi

# ---- without a link: over a pair of its own, to a server of this host ----

python3 -S -m http.server 8099 --bind 127.0.0.1 --directory "$work/site" >/dev/null 2>&1 & peer=$!
if await curl -sf -o /dev/null http://127.0.0.1:8099/small; then
    timeout 60 "$exos" load http://127.0.0.1:8099/small -n 20 -c 2 --json --via none >"$work/load" 2>"$work/load.err"
    same "a server of this host, over a pair of our own" "20 2000 {}" "$(got "r['responses'], r['content_bytes'], r['errors']" | tr -d '(),')"
    timeout 60 "$exos" load http://127.0.0.1:8099/small -n 40 -c 20 --requests-per-connection 1 --json --via none --pool 10.20.0.0/24 >"$work/load" 2>"$work/load.err"
    same "and from a pool, to which the host has a route while it lasts" "40 {} 0" "$(got "r['responses'], r['errors']" | tr -d '(),') $(ip route | grep -c 10.20.0.0)"
    timeout 200 "$exos" load http://127.0.0.1:8099/small --sockets --idle sleep -c 20 -d 600ms --warm-up 200ms --timeout 1s --find-peak 'p99<500ms' --json >"$work/load" 2>"$work/load.err"
    same "its peak: the highest rate that holds, and one above it does not" "True True" \
        "$(got "r['peak_rate'] == max(s['rate'] for s in r['steps'] if s['holds']), r['peak_rate'] < max(s['rate'] for s in r['steps'])" | tr -d '(),')"
    as_nobody() { timeout 60 setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all "$work/exos" load http://127.0.0.1:8099/small --sockets --json "$@" >"$work/load" 2>"$work/load.err"; }
    as_nobody -n 20 -c 2
    same "and by nobody over loopback" "20 2000 {} None" "$(got "r['responses'], r['content_bytes'], r['errors'], r['retransmissions']" | tr -d '(),')"
    (ulimit -n 20; as_nobody -d 200ms -c 30)
    same "who has too few descriptors" "True" "$(got "r['errors'].get('no_connection', 0) > 0")"
    same "is told once what to do" 1 "$(grep -c 'ulimit -n' "$work/load.err")"
fi
exit $((failures > 0))
