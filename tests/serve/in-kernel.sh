#!/usr/bin/env bash
# The release binary with `serve --in-kernel`, which has the kernel answer requests for small documents, and curl: over a veth, with
# connections that stand and that do not, through changes of documents and what is handed up. Prints "ok NAME", "not ok NAME: why"
# or "SKIPPED: ..." lines.
#
#   tests/serve/in-kernel.sh PATH/TO/exos [in-kernel|in-kernel-cores|daemon|daemon-cores]
#
# With `in-kernel-cores` the server is on two cores; with `daemon` it is a program of user 65534 that has its link, and the kernel's
# part, from the daemon, and with `daemon-cores` that on two cores.
#
# Everything happens in namespaces of its own; what is started is ended by its id. Nothing here judges how fast it is.
case ${2:-} in daemon) on_cores= ;; daemon-cores) on_cores="--cores 2" ;; esac
if [ -n "${on_cores+by the daemon}" ]; then
    lab=in-kernel-xokd-$$
    . "$(dirname "$0")/../daemon/common.sh"
else
    . "$(dirname "$0")/../common.sh"
    need_root "requests answered in the kernel"
    be_alone "$@"
    begin
    lab=in-kernel-$$
fi
[ "$queues${on_cores:-}" = 1 ] || [ "$(nproc)" -ge 2 ] || skip "two cores" "there is one"
how=${in_kernel:---in-kernel}
in_kernel=

serve() {
    launch_in_lab "$work/site" --link xdp:wire --address 10.10.0.10/24 --address fd10::10/64 \
        --status /.exos --status-allow 10.10.0.0/24 --json \
        --log "$work/log" --log-format json "$@"
}
# count NAME: a counter, as Prometheus sees it.
count() { client curl -sS -m 60 http://10.10.0.10/.exos/metrics | sed -n "s/^exos_serve_$1_total \([0-9]*\)$/\1/p"; }
get() { client curl -sS -m 60 "$@"; }
# refused NAME WANTED ARGUMENTS...: it does not start, and says why.
refused() {
    local name=$1 wanted=$2 text status; shift 2
    text=$(timeout 60 "$exos" lab exec --name $lab a -- "$exos" serve "$work/site" --in-kernel "$@" 2>&1); status=$?
    if [ $status != 0 ] && [ $status != 124 ]; then has "$name" "$wanted" "$text"; else bad "$name" "status $status: $text"; fi
}
# answers NAME URL: the kernel comes to answer it; what changes only once a second may keep it waiting.
answers() {
    local before urls
    before=$(answered)
    urls=$(yes "$2" | head -n 20 | xargs)
    await eval 'get -H "Connection: close" '"$urls"' >/dev/null; [ "$(answered)" -ge '$((before + 40))' ]' && ok "$1" || bad "$1" "$(answered) answers, before $before"
}
# answered: how many the kernel has answered by now. The status page may be a second old, a report on SIGUSR1 is of its moment.
answered() {
    local out=$work/out process=${server:-${started:-}} before
    [ -n "$server" ] || out=$work/server.out
    before=$(grep -c '^{.*}$' "$out")
    kill -USR1 "$process"
    await eval '[ "$(grep -c "^{.*}\$" "$out")" -gt '"$before"' ]'
    sed -n '$s/.*"link_xdp_answered":\([0-9]*\).*/\1/p' "$out"
}
# gives NAME WANTED COUNT ARGUMENTS...: each run of curl says just this, its lines in order but for dates, and the kernel comes to
# give COUNT in one run.
gives() {
    local name=$1 wanted=$2 count=$3; shift 3
    given() {
        local before; before=$(answered)
        get "$@" | tr -d '\r' | grep -v '^Date: ' >>"$work/given"
        [ "$(answered)" -ge $((before + count)) ]
    }
    get "$@" >/dev/null
    : >"$work/given"
    if await given "$@"; then same "$name" "$wanted" "$(sort -u "$work/given" | xargs)"; else bad "$name" "$(xargs <"$work/given")"; fi
}
# unseen NAME URL: the kernel comes to answer ten clients at once, each with fields that no request has had before.
agents=0
unseen() {
    local url=$2
    ten() {
        local before; before=$(answered)
        for n in $(seq 10); do
            agents=$((agents + 1))
            get -A "agent-$agents" -e "http://from/$agents" -H "Cookie: number=$agents" -H "X-Number: $agents" "$url" >>"$work/given"
        done
        # SYNs and requests.
        [ "$(answered)" -ge $((before + 20)) ]
    }
    : >"$work/given"
    if await ten; then same "$1" small "$(sort -u "$work/given" | xargs)"; else bad "$1" "$(answered)"; fi
}

mkdir "$work/site"
echo small >"$work/site/small.txt"
echo other >"$work/site/other.txt"
head -c 768 /dev/urandom | base64 -w 0 >"$work/site/kilobyte.txt"
head -c 6000000 /dev/urandom >"$work/site/large.bin"
lab_up || { bad "lab up"; exit 1; }

# ---- by the daemon ----

# by_daemon ARGUMENTS...: the server, as the user.
# shellcheck disable=SC2086
by_daemon() {
    start server serve "$work/site" --in-kernel --status /.exos --status-allow 10.10.0.0/24 --json $on_cores "$@"
}
# of_slots NAME: a counter of each slot.
of_slots() {
    report
    grep -o "\"$1\": *[0-9]*" "$work/top" | grep -o '[0-9]*$'
}
if [ -n "${on_cores+by the daemon}" ]; then
    client ethtool -K wire gro on
    chmod -R a+rX "$work/site"
    allow 'ports = ["80"]' 'dump = "own"'
    start_daemon || { bad "the daemon starts" "$(cat "$work/daemon.out")"; exit 1; }
    # Several programs that share the port.
    for n in 1 2; do
        by_daemon --reuse-port || bad "it starts beside another" "$(cat "$work/server.err")"
        eval "both$n=$started"; mv "$work/server.out" "$work/both$n"
    done
    for n in $(seq 100); do get http://10.10.0.10/small.txt http://10.10.0.10/small.txt http://10.10.0.10/none http://10.10.0.10/small.txt | sort -u; done | grep -c small >"$work/codes"
    same "two programs share the port" 100 "$(cat "$work/codes")"
    kilobyte=$(cat "$work/site/kilobyte.txt")
    for n in $(seq 100); do get http://10.10.0.10/kilobyte.txt; echo; done | grep -cxF "$kilobyte" >"$work/codes"
    same "and give what packets have no room for" 100 "$(cat "$work/codes")"
    for n in 1 2; do
        server=both$n; server=${!server}
        stop; same "the $n. of them ends in order" 0 $?
        for what in xdp_answered tc_lengthened; do
            given=$(grep '^{' "$work/both$n" | tail -n 1 | sed -n "s/.*\"link_$what\":\([0-9]*\).*/\1/p")
            if [ "${given:-0}" -ge 10 ]; then ok "and the kernel has answered for it: $what"; else bad "and the kernel has answered for it: $what" "$given"; fi
        done
    done
    by_daemon || { bad "it starts" "$(cat "$work/server.err")"; exit 1; }
    for host in 10.10.0.10 '[fd10::10]'; do
        url=http://$host/small.txt; long=http://$host/kilobyte.txt
        same "it serves $host" small "$(get "$url")"
        answers "the kernel answers" "$url"
        gives "the same, on a connection that stands" small 3 "$url" "$url" "$url"
        gives "and on one that closes" small 1 -H 'Connection: close' "$url"
        unseen "clients that say what none has said" "$url"
        for offload in on off; do
            for side in a b; do inside $side -- ethtool -K wire tx $offload >"$work/ethtool" 2>&1; done
            gives "a kilobyte, checksums by the device $offload" "${kilobyte}$kilobyte" 2 "$long" "$long"
        done
        client curl -sS -m 60 "$url" "http://$host/none" "http://$host/large.bin" "$url" -o "$work/1" -o "$work/2" -o "$work/3" -o "$work/4" -w '%{http_code} %{num_connects}\n' >"$work/codes"
        same "what is not known goes up with its connection" "200 1 404 0 200 0 200 0" "$(xargs <"$work/codes")"
        cmp -s "$work/3" "$work/site/large.bin" && ok "and a large document is whole" || bad "and a large document is whole"
    done
    url=http://10.10.0.10/small.txt
    if [ -n "$on_cores" ]; then
        before=$(of_slots handler_answered)
        for n in $(seq 40); do get $url >/dev/null; done
        same "the kernel answers for either core" 2 "$(paste <(echo "$before") <(of_slots handler_answered) | awk '$2 > $1' | wc -l)"
    fi
    echo changed >"$work/site/small.txt"
    await eval '[ "$(get '$url')" = changed ]' && ok "a changed document is served" || bad "a changed document is served" "$(get $url)"
    same "the host of the daemon is served by the server" changed "$(inside a -- curl -sS -m 60 $url)"
    # Copies are made of what goes up; what the kernel answers it goes on answering.
    "${as_nobody[@]}" "$work/exos" dump --xokd "$socket" -n >"$work/dump" 2>"$work/dump.err" & peer=$!
    await eval 'get http://10.10.0.10/none >/dev/null; grep -q "10.10.0.10.80: .*HTTP" "$work/dump"' || bad "what goes up is copied" "$(head -n 3 "$work/dump" "$work/dump.err")"
    answers "it answers while somebody copies packets" $url
    end $peer; peer=
    end $daemon; daemon=
    # shellcheck disable=SC2046
    gives "and while there is no daemon" changed 30 $(yes $url | head -n 30)
    start_daemon || bad "another daemon starts" "$(cat "$work/daemon.out")"
    answers "and with another" $url
    gives "where its answers are completed" "$kilobyte" 1 http://10.10.0.10/kilobyte.txt
    # Who begins from now on may send little.
    sed -i 's/^ports.*/&\nrate_max = "10mbit"/' "$work/xokd.toml"; kill -HUP $daemon
    await grep -q 'policy was read again' "$work/daemon.out"
    # Of its end the kernel's part hears nothing; its successor has its port, and begins with nothing of it.
    kill -KILL "$started"; wait "$started" 2>/dev/null
    await by_daemon && ok "one that was killed leaves its port" || bad "one that was killed leaves its port" "$(cat "$work/server.err")"
    same "where the next serves" changed "$(get $url)"
    answers "and the kernel answers for it" $url
    # Where little may be sent, acknowledgements of what the server sends come to it all the same.
    client curl -sS -m 120 http://10.10.0.10/large.bin -o "$work/1" & peer=$!
    small=
    for n in $(seq 20); do small="$small $(get $url)"; done
    same "small documents come beside a large one that takes all that may be sent" "changed 20" "$(echo $small | xargs -n 1 | uniq -c | awk '{ print $2, $1 }')"
    wait $peer; same "which comes, too" 0 $?; peer=
    cmp -s "$work/1" "$work/site/large.bin" && ok "and is whole" || bad "and is whole"
    # counts NAME: of the slot that has the most.
    counts() { of_slots "$1" | sort -n | tail -n 1; }
    over=$(counts tx_over_share)
    if [ "${over:-0}" -gt 0 ]; then ok "more than may be sent was dropped"; else bad "more than may be sent was dropped" "$over"; fi
    same "and nothing of what came" 0 "$(counts handler_dropped)"
    # So few steps that hardly a segment is looked at; it says what to do about it.
    steps() {
        local read; read=$(grep -c "policy was read again" "$work/daemon.out")
        sed -i "s/^rate_max.*/handler_steps = $1/; s/^handler_steps.*/handler_steps = $1/" "$work/xokd.toml"; kill -HUP $daemon
        await eval '[ "$(grep -c "policy was read again" "$work/daemon.out")" -gt '"$read"' ]'
    }
    same "and it says nothing of that" "" "$(grep handler_steps "$work/server.err")"
    steps 20000
    await eval 'get $url >/dev/null; [ "$(counts handler_dropped)" -gt 0 ]' && ok "what is beyond its steps is dropped" || bad "what is beyond its steps is dropped" "$(counts handler_dropped)"
    await grep -q 'raise `handler_steps`' "$work/server.err" && ok "and it says what to do" || bad "and it says what to do" "$(cat "$work/server.err")"
    answered >/dev/null
    given=$(sed -n '$s/.*"link_handler_dropped":\([0-9]*\).*/\1/p' "$work/server.out")
    if [ "${given:-0}" -gt 0 ]; then ok "its report counts them"; else bad "its report counts them" "$given"; fi
    steps 100000000
    # A policy that takes the steps back takes the kernel's part away, whose connections are the server's then.
    python=$(cat <<'PYTHON'
import http.client, sys
connection = http.client.HTTPConnection("10.10.0.10", timeout=60)
def get():
    connection.request("GET", "/small.txt")
    return connection.getresponse().read().decode().strip()
print(get(), flush=True)
port = connection.sock.getsockname()[1]
sys.stdin.readline()
print(get(), connection.sock.getsockname()[1] == port, flush=True)
PYTHON
    )
    mkfifo "$work/go"; exec 3<>"$work/go"
    inside b -- python3 -S -c "$python" <&3 >"$work/python" 2>&1 & peer=$!
    await grep -q changed "$work/python"
    steps 0
    before=$(answered); echo go >&3; wait $peer; peer=
    same "a connection goes on without the kernel's part" "changed changed True" "$(xargs <"$work/python")"
    get $url >/dev/null; same "which is gone" 0 $(($(answered) - before))
    kill -TERM "$started"; wait "$started"; same "it ends in order" 0 $?
    given=$(grep '^{' "$work/server.out" | tail -n 1 | sed -n 's/.*"link_xdp_answered":\([0-9]*\).*/\1/p')
    if [ "${given:-0}" -ge 40 ]; then ok "its last report has what the kernel answered"; else bad "its last report has what the kernel answered" "$given"; fi
    same "and has not complained" "" "$(grep -i 'panic\|error' "$work/server.err")"
    by_daemon && bad "where policy gives no steps it does not start"
    has "where policy gives no steps it does not start" handler_steps "$(cat "$work/server.err")"
    exit $((failures > 0))
fi

refused "a TAP device has none" "AF_XDP only" --link tap:t0 --address 10.10.9.1/24

refused "nor does it answer where nobody hears" "turn GRO on there" --link xdp:wire --address 10.10.0.10/24
client ethtool -K wire gro on
in_kernel=$how
inside a -- ip link set wire mtu 1400
refused "nor where responses would not fit" "an MTU of 1400 is less than the 1432" --link xdp:wire --address 10.10.0.10/24
inside a -- ip link set wire mtu 1500

if serve; then
    kilobyte=$(cat "$work/site/kilobyte.txt")
    for host in 10.10.0.10 '[fd10::10]'; do
        url=http://$host/small.txt
        same "it serves $host" small "$(get "$url")"
        answers "the kernel answers" "$url"
        gives "the same, on a connection that stands" small 3 "$url" "$url" "$url"
        gives "and on one that closes" small 1 -H 'Connection: close' "$url"
        gives "with HTTP/1.0" small 1 -0 "$url"
        unseen "clients that say what none has said" "$url"
        # Packets of a veth have no room for these.
        long=http://$host/kilobyte.txt; before=$(count link_tc_lengthened)
        for offload in on off; do
            for side in a b; do inside $side -- ethtool -K wire tx $offload >"$work/ethtool" 2>&1; done
            gives "a kilobyte, checksums by the device $offload" "$kilobyte" 1 -H 'Connection: close' "$long"
            gives "and on a connection that stands" "${kilobyte}$kilobyte" 2 "$long" "$long"
        done
        await eval '[ "$(count link_tc_lengthened)" -ge '$((before + 4))' ]' && ok "by the second stage" || bad "by the second stage" "$(count link_tc_lengthened)"
        head=$(get -I -H 'X-Other: 1' "$url" | tr -d '\r' | grep -v '^Date: ' | sort -u | xargs)
        gives "the head alone" "$head" 1 -I "$url"
        asked=$(date +%s)
        date=$(get -I "$url" | sed -n 's/^Date: //p' | tr -d '\r')
        now=$(date +%s); then=$(date -d "$date" +%s)
        if [ $((asked - then)) -le 5 ] && [ $((then - now)) -le 1 ]; then ok "its date is of now"; else bad "its date is of now" "$date"; fi
        etag=$(get -I "$url" | sed -n 's/^ETag: //p' | tr -d '\r')
        gives "a conditional request" 304 1 -o /dev/null -w '%{http_code}\n' -H "If-None-Match: $etag" "$url"
        # A request in the middle that the kernel does not know, and a large document behind it. What nobody has asked for 10 s goes.
        get "$url" >/dev/null; before=$(count tcp_taken_on)
        client curl -sS -m 60 "$url" "$url" "http://$host/none" "http://$host/large.bin" "$url" -o "$work/1" -o "$work/2" -o "$work/3" -o "$work/4" -o "$work/5" -w '%{http_code} %{num_connects}\n' >"$work/codes"
        same "what is not known goes up with its connection" "200 1 200 0 404 0 200 0 200 0" "$(xargs <"$work/codes")"
        cmp -s "$work/4" "$work/site/large.bin" && ok "and a large document is whole" || bad "and a large document is whole"
        # Where the server has no turn for 2 s, connections begin with it.
        await eval 'get "'"$url"'" "'"${url%/*}"'/none" >/dev/null; [ "$(count tcp_taken_on)" -gt '"$before"' ]' && ok "the stack has taken it on" || bad "the stack has taken it on" "$(count tcp_taken_on)"
    done
    url=http://10.10.0.10/small.txt
    same "a body is taken" 405 "$(get -o /dev/null -w '%{http_code}' -d abc $url)"
    echo changed >"$work/site/small.txt"
    await eval '[ "$(get '$url')" = changed ]' && ok "a changed document is served" || bad "a changed document is served" "$(get $url)"
    # shellcheck disable=SC2046
    gives "and none of before any more" changed 30 $(yes $url | head -n 30)
    hits=$(count http_cache_hits)
    for n in $(seq 20); do get $url >/dev/null; done
    await eval '[ "$(count http_cache_hits)" -ge '$((hits + 20))' ]' && ok "answers of the kernel are counted" || bad "answers of the kernel are counted" "$(count http_cache_hits), before $hits"
    # One request many times, on a connection of its own and behind others: each has its line, whoever answers it.
    before=$(answered)
    for n in $(seq 40); do get -A logged $url >/dev/null; done
    # shellcheck disable=SC2046
    get -A logged $(yes $url | head -n 40) >/dev/null
    given=$(($(answered) - before))
    if [ $given -ge 40 ]; then ok "the kernel answers where there is a log"; else bad "the kernel answers where there is a log" "$given"; fi
    whole=$(($(get -i -A logged $url | wc -c)))
    # SYNs and requests of six connections of each family. Where the server has no turn for 2 s, connections begin with it.
    for tries in 1 2 3; do
        before=$(answered)
        : >"$work/ends"
        "$exos" lab exec --name $lab b -- timeout 300 python3 -S "$here/in-kernel.py" wire $((20000 + tries)) >"$work/ends" & peer=$!
        await grep -q ready "$work/ends"
        given=$(($(answered) - before))
        [ $given -lt 20 ] && [ $tries -lt 3 ] || break
        kill -TERM $peer; wait $peer
    done
    if [ $given -ge 20 ]; then ok "the kernel has connections at the end"; else bad "the kernel has connections at the end" "$given answers"; fi
    stop; same "it ends in order" 0 $?
    wait $peer || failures=$((failures + 1))
    peer=
    grep -v ready "$work/ends"
    line="\"peer\":\"10.10.0.2\",\"request\":\"GET /small.txt HTTP/1.1\",\"status\":200,\"body_bytes_sent\":8,\"bytes_sent\":$whole,"
    line="$line\"host\":\"10.10.0.10\",\"referer\":\"-\",\"user_agent\":\"logged\"}"
    lines=$(grep '"logged"' "$work/log" | sed 's/^{"time":"[^"]*",//; s/"request_time":[0-9.]*,//' | sort | uniq -c)
    same "each answer has its line in the log" "81 $line" "$(sed 's/^ *//' <<<"$lines")"
    for n in $(seq $agents); do echo "\"referer\":\"http://from/$n\",\"user_agent\":\"agent-$n\""; done | sort >"$work/wanted"
    grep '"status":200,"body_bytes_sent":6,' "$work/log" | grep -o '"referer":"http:[^}]*"agent-[0-9]*"' | sort | cmp -s - "$work/wanted" &&
        ok "and of each client what it says of itself" || bad "and of each client what it says of itself" "$(grep -c agent- "$work/log") lines of $agents"
    same "also the one that nobody has taken" $tries "$(grep '"peer":"10.10.0.77"' "$work/log" | grep -c '"status":200,"body_bytes_sent":0,"bytes_sent":0,')"
    same "lines say how long it took" 0 "$(grep -vc '"request_time":[0-9]*\.[0-9]\{6\},' "$work/log")"
else
    bad "it starts with --in-kernel" "$(cat "$work/err")"
fi

# ---- several interfaces ----

[ "${2:-}" != in-kernel-cores ] || exit $((failures > 0))
ip -n "exos-$lab-a" link add side type veth peer name side netns "exos-$lab-b" || bad "another wire"
inside a -- ip link set side up; client ip link set side up
client ip addr add 10.10.1.2/24 dev side; client ethtool -K side gro on
chown -R nobody "$work"
# One limit for all, in the kernel and beside it: of eight connections, four by each, six are answered, and the others when there is room.
# At the end each that stands is ended.
limited=$(cat <<'PYTHON'
import select, socket, sys
def heard(of, wanted):
    """Those that are answered, when there are this many, and a second later."""
    answered, patience = set(), 60
    while patience:
        ready = select.select([c for c in of if c not in answered], [], [], patience)[0]
        answered.update(c for c in ready if b"200 OK" in c.recv(4096))
        patience = (1 if len(answered) >= wanted else patience) if ready else 0
    return answered
def how_it_ends(connection):
    connection.settimeout(60)
    try:
        return connection.recv(4096)
    except ConnectionError as error:
        return error
hosts = ["10.10.0.10", "10.10.1.10"]
all = [socket.create_connection((host, 80), 60) for _ in range(4) for host in hosts]
for connection in all:
    connection.sendall(b"GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n")
answered = heard(all, 6)
waiting = [c for c in all if c not in answered]
print(len(answered), flush=True)
for host in hosts:
    next(c for c in answered if c.fileno() > 0 and c.getpeername()[0] == host).close()
print(len(heard(waiting, 2)), flush=True)
sys.stdin.readline()
print({how_it_ends(c) for c in all if c.fileno() > 0})
PYTHON
)
if serve --link xdp:side --address 10.10.1.10/24 --user nobody --max-connections 6; then
    for host in 10.10.0.10 10.10.1.10; do
        answers "the kernel answers by the interface of $host" http://$host/small.txt
        gives "the same there, on a connection that stands" changed 3 http://$host/small.txt http://$host/small.txt http://$host/small.txt
        gives "and a kilobyte" "$kilobyte" 1 http://$host/kilobyte.txt
    done
    rm -f "$work/go"; mkfifo "$work/go"; exec 3<>"$work/go"
    inside b -- timeout 300 python3 -S -c "$limited" <&3 >"$work/limited" 2>&1 & peer=$!
    await eval '[ "$(wc -l <"$work/limited")" -ge 2 ]'
    same "of both as many connections are answered as there may be, and others when there is room" "6 2" "$(xargs <"$work/limited")"
    echo go >&3; sleep 1
    stop; same "it ends in order" 0 $?
    wait $peer; peer=
    same "and each connection with it" "{b''}" "$(tail -n 1 "$work/limited")"
    kernel_answered "of both "
else
    bad "it starts on two interfaces" "$(cat "$work/err")"
fi
exit $((failures > 0))
