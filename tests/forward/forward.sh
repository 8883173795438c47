#!/usr/bin/env bash
# The release binary as a forwarder between Linux's stack as client and as servers, four namespaces on one bridge: IPv4 and
# IPv6, TCP and UDP, with checksums that the kernel leaves unfinished and without, in user space and in the kernel. Prints "ok NAME", "not ok NAME: why" or
# "SKIPPED: ..." lines.
#
#   tests/forward/forward.sh PATH/TO/exos
. "$(dirname "$0")/common.sh"

# ---- what is refused ----

link=(--link xdp:wire --address 10.10.0.20/24)
refused "a check that hears no answer" "hears no answer" "${link[@]}" --listen 10.10.0.20:80 --to 10.10.0.11 --check tcp --check-body well
refused "a listener elsewhere" "is no address of ours" "${link[@]}" --listen 10.10.0.21:80 --to 10.10.0.11:80
refused "a loop" "is an address of ours" "${link[@]}" --listen 10.10.0.20:80 --to 10.10.0.20:81
refused "two listeners at one place" "listened at twice" "${link[@]}" --listen 10.10.0.20:80 10.10.0.20:80 --to 10.10.0.11:80
refused "a server twice" "named twice" "${link[@]}" --listen 10.10.0.20:80 --to 10.10.0.11:80 10.10.0.11:80,2
refused "a server of another family" "nothing is forwarded to" "${link[@]}" --listen 10.10.0.20:80 --to 10.10.0.11:80 '[fd10::11]:80'
refused "another port where packets keep theirs" "has another port" "${link[@]}" --reach direct --listen 10.10.0.20:80 --to 10.10.0.11:81
refused "the address that servers have too" "hears nothing from there" "${link[@]}" --reach direct --listen 10.10.0.20:80 --to 10.10.0.11
refused "a link address behind a gateway" "is behind a gateway" "${link[@]}" --gateway 10.10.0.1 --reach direct --listen 10.10.0.20:80 --to 192.0.2.1
refused "a tunnel in the kernel" "leave --in-kernel out" "${link[@]}" --reach tunnel --in-kernel --listen 10.10.0.20:80 --to 10.10.0.11
refused "a server without a route" "no route leads to" "${link[@]}" --listen 10.10.0.20:80 --to 192.0.2.1:80
refused "nobody with a weight" "weight above zero" "${link[@]}" --listen 10.10.0.20:80 --to 10.10.0.11:80,0
refused "a TAP device" "give --link xdp:INTERFACE" --link tap:t0 --address 10.10.0.20/24 --listen 10.10.0.20:80 --to 10.10.0.11:80
head -c 5000 /dev/urandom >"$work/strange"
refused "a file that holds no flows" "it holds no flows" "${link[@]}" --listen 10.10.0.20:80 --to 10.10.0.11 --keep "$work/strange"

# ---- what the kernel leaves unfinished, and then what looks like a wire ----

start "${listen[@]}" "${to[@]}"
all offload

# What of all this the forwarder says.
about=
kill -USR1 "$server"
await grep -q exos.forward.statistics "$work/out"
same "no packet waited for a port, a place or a hop" "0 0 0 0" \
    "$(for name in drop_no_port drop_table_full drop_hops drop_no_server; do field "[\"counters\"][\"$name\"]"; done | xargs)"
same "both servers of each family were chosen" "True" "$(field '["servers"] and all(s["flows_begun"] > 0 for s in v["servers"] if s["protocol"] == "tcp" and s["server"].endswith(":7"))')"
same "errors of ICMP went back" "True" "$(field '["counters"]["forwarded_icmp_errors"] >= 2')"
same "fragments were forwarded" "True" "$(field '["counters"]["forwarded_fragments"] >= 4')"

stop; same "it ends in order" 0 $?

# ---- connections that stand, in the kernel ----

# document_by_kernel: the packets of a large document do not come to user space, but for a few.
document_by_kernel() {
    local user kernel
    user=$(counters forwarded_to_servers forwarded_to_clients)
    kernel=$(counters kernel_forwarded_to_servers kernel_forwarded_to_clients)
    in_ client curl -gsS -m 60 -o "$work/got" http://10.10.0.20/large.bin || return
    user=$(($(counters forwarded_to_servers forwarded_to_clients) - user))
    kernel=$(($(counters kernel_forwarded_to_servers kernel_forwarded_to_clients) - kernel))
    echo "$user in user space, $kernel in the kernel"
    # 3,000,000 bytes are 2,072 segments.
    [ $user -gt 0 ] && [ $user -le 40 ] && [ $kernel -ge 2040 ]
}
# in_kernel: that only what begins and ends a connection comes to user space, and what happens when packets would not arrive.
in_kernel() {
    check "packets of a large document do not come to user space" in_time document_by_kernel
    same "they are traffic of servers" True "$(field '["servers"] and sum(s["bytes_to_clients"] for s in v["servers"] if s["server"].endswith(":80")) > 3000000')"
    slow 10.10.0.20 >"$work/slow.one" 2>&1 & local one=$!
    await test -e "$work/slow-10.10.0.20.half"
    in_ switch ethtool -K forwarder gro off
    check "it is noticed that packets do not arrive any more" await grep -q "no longer in the kernel" "$work/err"
    touch "$work/slow-10.10.0.20.go"
    check "a connection goes on in user space" wait $one
    in_ switch ethtool -K forwarder gro on
    check "and that they do again" await grep -q "in the kernel again" "$work/err"
    rm -f "$work"/slow-*
}
# killed_and_started ARGUMENTS...: with connections that go on.
killed_and_started() {
    local one two
    start "${listen[@]}" "${to[@]}" --keep "$work/flows" "$@"
    slow 10.10.0.20 >"$work/slow.one" 2>&1 & one=$!
    slow fd10::20 >"$work/slow.two" 2>&1 & two=$!
    await test -e "$work/slow-10.10.0.20.half" && await test -e "$work/slow-fd10::20.half"
    end "$server"; server=
    start "${listen[@]}" "${to[@]}" --keep "$work/flows" "$@"
    touch "$work/slow-10.10.0.20.go" "$work/slow-fd10::20.go"
    check "a connection outlives the forwarder's end by SIGKILL" wait $one
    check "and one over IPv6" wait $two
    has "it says so" "goes on with" "$(cat "$work/err")"
    rm -f "$work"/slow-*
}
# short_connections: many that begin and end; all are answered, and nothing of them is left in the kernel.
short_connections() {
    local begun
    begun=$(counters kernel_flows_begun)
    if command -v wrk >/dev/null; then
        in_ client timeout 100 wrk -t1 -c4 -d1 --timeout 30s http://10.10.0.20/one.txt >"$work/wrk" 2>&1
        has "wrk is answered" "requests in" "$(cat "$work/wrk")"
        same "and nothing else" "" "$(grep -E 'Socket errors|Non-2xx' "$work/wrk")"
    else
        echo "SKIPPED: wrk through the forwarder: not installed (apt-get install wrk)"
    fi
    in_ client timeout 300 "$exos" load http://10.10.0.20/one.txt --sockets --idle sleep -c 4 -n 500 --requests-per-connection 1 --json >"$work/load" 2>"$work/said"
    same "exos load is answered" "500 0" "$(python3 -S -c "import json; v = json.load(open('$work/load')); print(v['responses'], sum(v['errors'].values()))" 2>&1; cat "$work/said")"
    begun=$(($(counters kernel_flows_begun) - begun))
    same "their connections were in the kernel" True "$([ $begun -ge 500 ] && echo True)"
    check "and none is left there" await none_is_left
    same "all had room" 0 "$(field '["counters"]["kernel_flows_refused"]')"
}
# Of TCP; datagrams are for five minutes.
none_is_left() { counters kernel_flows_begun && [ "$(field '["flows"]["established"]')" = 0 ] && [ "$(field '["flows"]["in_kernel"] == v["flows"]["talking"]')" = True ]; }
# killed_under_load: connections that have much under way when the forwarder is killed, and another is started.
killed_under_load() {
    local load
    start "${listen[@]}" "${to[@]}" --keep "$work/flows" --in-kernel
    peer client echo 10.10.0.20 7 300000 20 "$work/enough" >"$work/loaded" 2>&1 & load=$!
    check "a load is under way" await eval '[ "$(counters kernel_forwarded_to_servers)" -ge 500 ]'
    end "$server"; server=
    check "and is when the forwarder has ended by SIGKILL" kill -0 $load
    start "${listen[@]}" "${to[@]}" --keep "$work/flows" --in-kernel
    check "its connections go on in the kernel" await eval '[ "$(counters kernel_forwarded_to_servers)" -ge 1 ]'
    touch "$work/enough"
    check "every byte" wait $load
}

refused "in the kernel, where nothing would arrive" "turn GRO on there" "${link[@]}" --listen 10.10.0.20:80 --to 10.10.0.11:80 --in-kernel
in_ switch ethtool -K forwarder gro on
start "${listen[@]}" "${to[@]}" --in-kernel
all "in the kernel, offload"
about="in the kernel: "
in_kernel
short_connections

# ---- the same on what looks like a wire ----

for host in client one two; do
    in_ $host ethtool -K wire tx off tso off gso off gro off >/dev/null 2>&1 || true
done
all "in the kernel, plain"
stop; same "it ends in order" 0 $?
about="in the kernel: "
killed_and_started --in-kernel
same "what was taken over is in the kernel" True "$(test "$(counters kernel_flows_begun)" -ge 2 && echo True)"
stop; same "it ends in order" 0 $?
killed_under_load
stop; same "it ends in order" 0 $?
in_ switch ethtool -K forwarder gro off
about=
start "${listen[@]}" "${to[@]}"
all plain
stop; same "it ends in order" 0 $?
killed_and_started --control "$work/control"

# ---- servers change while it runs; its control socket is one that the killed forwarder had left ----

ctl() { "$exos" forward ctl --control "$work/control" "$@"; }
# rows: what the forwarder says of each server, in a line. Not by Python, which takes longer to start than most things take to happen.
rows() { ctl status --json | grep -o '{[^{}]*"leaving":[^{}]*}'; }
# of SERVER FIELD: of one of TCP; "nothing" where there is none.
of() {
    local said
    said=$(rows | grep '"protocol":"tcp"' | grep -F "\"server\":\"$1\"" | grep -oE "\"$2\":(\"[^\"]*\"|[^,}]*)" | head -n 1)
    said=${said#*:} said=${said#\"} said=${said%\"}
    echo "${said:-nothing}"
}
# visit N: this many connections, each with a document.
visit() { local n; for n in $(seq "$1"); do in_ client curl -gsS -m 60 -o /dev/null http://10.10.0.20/one.txt || return 1; done; }
unanswered() { ! in_ client curl -gsS -m 2 -o /dev/null http://10.10.0.20/one.txt; }
has "the status names listeners" "tcp:10.10.0.20:80: " "$(ctl status)"
has "and servers" "  10.10.0.11:80, weight 1: " "$(ctl status)"
# It waits a second for an answer.
is_in_top() { "$exos" top --forward "$work/control" --json -d 0.1 | grep -qF '"name": "tcp:10.10.0.20:80"'; }
check "exos top reads it" await is_in_top
has "Prometheus can read it" 'exos_forward_server_well{protocol="tcp",server="10.10.0.11:80"} 1' "$(ctl metrics)"
same "the socket is its owner's alone" 600 "$(stat -c %a "$work/control")"
refused "another forwarder at the same socket" "somebody listens" "${link[@]}" --listen 10.10.0.20:80 --to 10.10.0.11 --control "$work/control"
rm -f "$work"/slow-*
slow 10.10.0.20 >"$work/slow.one" 2>&1 & one=$!
slow fd10::20 >"$work/slow.two" 2>&1 & two=$!
await test -e "$work/slow-10.10.0.20.half" && await test -e "$work/slow-fd10::20.half"
for server_of in 10.10.0.11 10.10.0.12 fd10::11 fd10::12; do check "$server_of is drained" ctl drain "$server_of"; done
check "with all of them drained nobody new is answered" unanswered
for server_of in 10.10.0.12 fd10::12; do check "$server_of resumes" ctl resume "$server_of"; done
before=$(of 10.10.0.11:80 flows_begun)
check "connections go to the others" visit 20
same "and none to a drained server" "$before" "$(of 10.10.0.11:80 flows_begun)"
touch "$work/slow-10.10.0.20.go" "$work/slow-fd10::20.go"
check "connections of drained servers go on" wait $one
check "over IPv6 too" wait $two
ip -n "$net-two" address add 10.10.0.13/24 dev wire
check "a server is added" ctl add 10.10.0.13,2
has "once" "named twice" "$(ctl add 10.10.0.13 2>&1)"
has "not one that would be a loop" "address of ours" "$(ctl add 10.10.0.20:81 2>&1)"
check "which changes its weight" ctl weigh 10.10.0.13:80 5
check "connections find it" visit 30
same "it has got some" yes "$([ "$(of 10.10.0.13:80 flows_begun)" -gt 0 ] && echo yes)"
check "it is removed behind one listener" ctl remove 10.10.0.13 --listener udp:10.10.0.20:7
check "and behind the others" ctl remove 10.10.0.13
has "no more than that" "is no server of" "$(ctl remove 10.10.0.13 2>&1)"
check "an address that nobody has is added" ctl add 10.10.0.99 --listener udp:10.10.0.20:7
check "which is told" await grep -q "nobody has the address 10.10.0.99 on this link" "$work/err"
check "and removed" ctl remove 10.10.0.99
rm -f "$work"/slow-*
for server_of in 10.10.0.11 fd10::11; do ctl resume "$server_of" >/dev/null; done
slow 10.10.0.20 >"$work/slow.one" 2>&1 & one=$!
await test -e "$work/slow-10.10.0.20.half"
for server_of in 10.10.0.11 10.10.0.12; do check "$server_of is removed at once" ctl remove "$server_of" --now; done
touch "$work/slow-10.10.0.20.go"
wait $one
has "its connections are reset" "reset" "$(cat "$work/slow.one")"
for server_of in 10.10.0.11 10.10.0.12; do check "$server_of is added again" ctl add "$server_of"; done

# Servers come and go under load, and every request is answered.
if command -v wrk >/dev/null; then
    before=$(counters forwarded_to_servers)
    ip netns exec "$net-client" wrk -t1 -c4 -d300 --timeout 30s http://10.10.0.20/one.txt >"$work/wrk" 2>&1 & wrk=$!; started+=($wrk)
    asks() { [ "$(counters forwarded_to_servers)" -ge $((before + 100)) ]; }
    check "a load is under way while servers come and go" await asks
    come_and_go() {
        ctl drain 10.10.0.11 && ctl weigh 10.10.0.12 9 && ctl add 10.10.0.13 && ctl resume 10.10.0.11 &&
            ctl remove 10.10.0.12 && ctl add 10.10.0.12 && ctl remove 10.10.0.13
    }
    for round in 1 2 3 4 5 6 7 8; do check "round $round of changes" come_and_go; done
    kill -INT $wrk; wait $wrk
    has "wrk is answered while servers come and go" "requests in" "$(cat "$work/wrk")"
    same "and nothing else" "" "$(grep -E 'Socket errors|Non-2xx' "$work/wrk")"
else
    echo "SKIPPED: wrk through the forwarder: not installed (apt-get install wrk)"
fi
stop; same "it ends in order" 0 $?

# ---- clients that keep their servers, and what is counted, live ----

refused "clients that keep their servers while these are chosen by load" "leave --balance out" "${link[@]}" --listen 10.10.0.20:80 --to 10.10.0.11 --affinity client --balance least
refused "what is counted, for everybody" "is not a loopback address" "${link[@]}" --listen 10.10.0.20:80 --to 10.10.0.11 --metrics 0.0.0.0:9102
in_ forwarder ip link set lo up
start --listen 10.10.0.20:80 --to 10.10.0.11 10.10.0.12 --control "$work/control" --affinity client --metrics 127.0.0.1:9102
scrape() { in_ forwarder curl -sS -m 60 http://127.0.0.1:9102/metrics; }
check "connections of a client" visit 10
has "all of them went to one server" " 0 flows, 0 begun" "$(ctl status | grep -E 'weight 1: .* 0 begun')"
has "the status says why" "affinity client" "$(ctl status)"
has "Prometheus is answered" 'exos_forward_listener_flows_begun_total{protocol="tcp",listener="10.10.0.20:80"} 10' "$(scrape)"
visit 5
check "and again, later" await eval 'scrape | grep -q "listener_flows_begun_total{.*} 15"'
stop; same "it ends in order" 0 $?

# ---- servers by their names, which stand for other addresses under load ----

# The forwarder's namespace has a table of hosts of its own, which `ip netns exec` puts in the place of the host's. It is always as long, and
# written over in one go: who reads it at any moment finds no part of it.
mkdir -p "/etc/netns/$net-forwarder"
hosts_are() {
    local table
    printf -v table '%s\n' '127.0.0.1 localhost' "$@"
    printf '%-100s\n' "$table" 1<>"/etc/netns/$net-forwarder/hosts"
}
# There is no name server to ask beside.
: >"/etc/netns/$net-forwarder/resolv.conf"
named() { rows | grep '"name":"web.test"' | grep '"leaving":false' | grep -o '"server":"[^"]*"' | cut -d '"' -f 4 | sort | xargs; }
stands_for() { [ "$(named)" = "$1" ]; }
echoes one; echoes two
hosts_are
refused "a name that nobody knows" "--to: the name web.test cannot be resolved" "${link[@]}" --listen 10.10.0.20:80 --to web.test
hosts_are '10.10.0.11 web.test'
start --listen 10.10.0.20:80 10.10.0.20:91 --to web.test,2 --resolve 1s --control "$work/control"
has "the status has the name" "  10.10.0.11:80 (web.test), weight 2: " "$(ctl status)"
rm -f "$work"/knock*
peer client knock 10.10.0.20 91 60 "$work/knock" >"$work/knocked" 2>&1 & clients=$!
peer client talk 10.10.0.20 91 10 "$work/knock" >"$work/talked" 2>&1 & talk=$!
await test -e "$work/knock.some" && await test -e "$work/knock.stand"
hosts_are '10.10.0.12 web.test' '10.10.0.11 web.test'
check "a server comes with an address" await stands_for "10.10.0.11:80 10.10.0.11:91 10.10.0.12:80 10.10.0.12:91"
hosts_are '10.10.0.12 web.test'
check "and goes with one" await stands_for "10.10.0.12:80 10.10.0.12:91"
hosts_are
check "a name that is gone for a while is told" await grep -q "the name web.test cannot be resolved" "$work/err"
same "and keeps its servers" "10.10.0.12:80 10.10.0.12:91" "$(named)"
hosts_are '10.10.0.12 web.test' '10.10.0.11 web.test'
check "until it is back" await stands_for "10.10.0.11:80 10.10.0.11:91 10.10.0.12:80 10.10.0.12:91"
rm -f "$work/knock.some"; await test -e "$work/knock.some"
touch "$work/knock.enough"
check "all clients who came meanwhile were served" wait $clients
check "and connections went on, also of servers that went" wait $talk
same "that it was gone is told once" 1 "$(grep -c "the name web.test cannot be resolved" "$work/err")"
stop; same "it ends in order" 0 $?

# A file whose new names are not known yet, read again by a forwarder that has no privilege any more.
names_file() {
    printf '%s\n' 'resolve = "0"' '[link]' 'name = "xdp:wire"' 'addresses = ["10.10.0.20/24"]' \
        '[[service]]' 'listen = ["10.10.0.20:80"]' "to = [\"$1\"]" >"$work/names.toml"
}
hosts_are '10.10.0.11 web.test' '10.10.0.12 other.test'
chmod 711 "$work"
names_file web.test
launch tcp ip netns exec "$net-forwarder" "$exos" forward --config "$work/names.toml" --user 65534:65534 || bad "it starts from a file" "$(cat "$work/err")"
names_file none.test
kill -HUP "$server"
check "a file with a name that nobody knows changes nothing" await grep -q "goes on as before: .*the name none.test cannot be resolved" "$work/err"
names_file other.test
kill -HUP "$server"
check "one with a name that is known is followed" await grep -q "read its file again: 1 added, 1 removed" "$work/err"
check "a document comes from there" in_ client curl -gsS -m 60 -o /dev/null http://10.10.0.20/one.txt
hosts_are '10.10.0.11 other.test'
kill -HUP "$server"
check "SIGHUP has names resolved" await grep -q "servers by their names: 1 added, 1 removed" "$work/err"
stop; same "it ends in order" 0 $?
rm -r "/etc/netns/$net-forwarder"

# ---- another takes its place ----

# count_syns HOST...: those to port 91 at each of them; what was counted is in $work/syns-HOST when `counted` returns.
count_syns() {
    local host
    rm -f "$work"/syns-*; counting=()
    for host; do peer "$host" syns wire 91 "$work/syns-$host" >"$work/syns-$host" & counting+=($!); done
    for host; do await test -e "$work/syns-$host.counts"; done
}
counted() { local name; for name in "$work"/syns-*.counts; do touch "${name%s}ed"; done; wait "${counting[@]}"; }
# takes_over HOW ARGUMENTS...: with clients that come, and connections that stand.
takes_over() {
    local how=$1 first clients talk status; shift
    set -- --listen 10.10.0.20:91 --to 10.10.0.11 10.10.0.12 --control "$work/control" --keep "$work/flows" --metrics 127.0.0.1:9102 "$@"
    rm -f "$work"/knock*
    start "$@"
    count_syns client one two
    peer client knock 10.10.0.20 91 60 "$work/knock" >"$work/knocked" 2>&1 & clients=$!
    peer client talk 10.10.0.20 91 10 "$work/knock" >"$work/talked" 2>&1 & talk=$!
    await test -e "$work/knock.some" && await test -e "$work/knock.stand"
    first=$server
    # Without waiting until it has ended.
    [ "$how" = killed ] && kill -KILL "$first"
    [ "$how" = asked ] && set -- "$@" --take-over
    start "$@"
    wait "$first"; status=$?
    same "the one before ends" "$([ "$how" = killed ] && echo 137 || echo 0)" $status
    rm -f "$work/knock.some"; await test -e "$work/knock.some"
    touch "$work/knock.enough"
    check "all who come are served" wait $clients
    check "connections go on" wait $talk
    counted
    # Each that a client sent came to a server: also one that it sends again because the change took a second is no loss.
    [ "$how" = asked ] && same "no SYN is lost" "$(cat "$work/syns-client")" "$(($(cat "$work/syns-one") + $(cat "$work/syns-two")))"
    echo "# $about$(head -n 1 "$work/knocked"); of $(cat "$work/syns-client") SYNs $(($(cat "$work/syns-one") + $(cat "$work/syns-two"))) came to servers"
    has "the status is the new one's" "\"pid\":$server," "$(ctl status --json)"
    stop
    same "nothing is left of the socket" "" "$(ls "$work/control" 2>/dev/null)"
}
refused "to take over from nowhere" "give both --control" "${link[@]}" --listen 10.10.0.20:80 --to 10.10.0.11 --take-over
in_ switch ethtool -K forwarder gro on
for how in asked killed; do
    about="$how: " takes_over $how
    about="$how, in the kernel: " takes_over $how --in-kernel
done
in_ switch ethtool -K forwarder gro off
about=

# A successor that could not go on is refused while the one before still forwards.
start --listen 10.10.0.20:91 --to 10.10.0.11 --control "$work/control" --keep "$work/flows"
take=("${link[@]}" --take-over --control "$work/control" --listen 10.10.0.20:91)
refused_beside() { refused "a successor with $1" "${@:2}"; check "leaves the one before" peer client echo 10.10.0.20 91 1000; }
refused_beside "a server without a route" "no route leads to" "${take[@]}" --to 203.0.113.9
refused_beside "a server twice" "named twice" "${take[@]}" --to 10.10.0.11 10.10.0.11
refused_beside "a loop" "is an address of ours" "${take[@]}" --to 10.10.0.20:81
refused_beside "a server of another family" "nothing is forwarded to" "${take[@]}" --to 10.10.0.11 fd10::11
refused_beside "what is counted, for everybody" "is not a loopback address" "${take[@]}" --to 10.10.0.11 --metrics 0.0.0.0:9102
refused_beside "a file that holds no flows" "it holds no flows" "${take[@]}" --to 10.10.0.11 --keep "$work/strange"
refused_beside "a file that its user may not read" "cannot read $work/flows" "${take[@]}" --to 10.10.0.11 --keep "$work/flows" --user nobody
refused_beside "a file that cannot be made" "cannot make /proc/flows" "${take[@]}" --to 10.10.0.11 --keep /proc/flows
refused_beside "an interface that is not there" "nothere" --take-over --control "$work/control" --link xdp:nothere --address 10.10.0.20/24 --listen 10.10.0.20:91 --to 10.10.0.11
in_ forwarder ip address add 10.10.0.30/24 dev wire
refused_beside "an address of the host" "is an address of this host" "${take[@]}" --to 10.10.0.11 --address 10.10.0.30/24
in_ forwarder ip address delete 10.10.0.30/24 dev wire
refused_beside "the kernel, where nothing would arrive" "turn GRO on there" "${take[@]}" --to 10.10.0.11 --in-kernel
stop; same "which ends in order" 0 $?

# One whose last report nobody reads has given up all the same, also the socket for Prometheus.
mkfifo "$work/pipe"
peer client unread "$work/pipe" & reader=$!
set -- forward "${link[@]}" --json --listen 10.10.0.20:91 --to 10.10.0.11 --control "$work/control" --metrics 127.0.0.1:9102
ip netns exec "$net-forwarder" "$exos" "$@" >"$work/pipe" 2>"$work/err" </dev/null & first=$!
started+=("$first")
await test -e "$work/pipe.read"
if launch tcp ip netns exec "$net-forwarder" "$exos" "$@" --take-over; then ok "one whose report nobody reads is followed"
else bad "one whose report nobody reads is followed" "$(cat "$work/err")"; fi
wait "$first"; same "and ends" 0 $?
touch "$work/pipe.done"; wait $reader
stop

# ---- a file says what to do, and says it again ----

file() { cat >"$work/forward.toml"; }
from_file() {
    launch tcp ip netns exec "$net-forwarder" "$exos" forward --config "$work/forward.toml" "$@" ||
        { bad "it starts from a file" "$(cat "$work/err")"; exit 1; }
}
said_so() { grep -q "$1" "$work/err"; }
head='control = "'$work/control'"
[link]
name = "xdp:wire"
addresses = ["10.10.0.20/24"]
'
echo 'colour = 1
[[service]]
listen = ["10.10.0.20:80"]' | file
refused "a file that is wrong" "forward.toml:1: there is no key \`colour\` here" --config "$work/forward.toml"
refused "a file that is looked at and not used" "forward.toml:1: there is no key" --config "$work/forward.toml" --check
refused "a file that is not there" "cannot be read" --config "$work/none.toml"
echo "$head"'[[service]]
listen = ["10.10.0.20:7", "10.10.0.20:80"]
to = ["10.10.0.11"]' | file
same "a good file is called so" "$work/forward.toml: good" "$(run_forwarder --config "$work/forward.toml" --check 2>&1)"
from_file
rm -f "$work"/slow-*
slow 10.10.0.20 >"$work/slow.one" 2>&1 & one=$!
await test -e "$work/slow-10.10.0.20.half"
echo "$head"'[[service]]
listen = ["10.10.0.20:80"]
to = ["10.10.0.12,3"]' | file
kill -HUP "$server"
check "SIGHUP has it read the file again" await said_so "read its file again: 1 added, 2 removed"
has "what is gone has its flows yet" "tcp:10.10.0.20:7 (leaving): 1 flows" "$(ctl status)"
check "new connections go to the new server" in_ client curl -gsS -m 60 -o /dev/null http://10.10.0.20/one.txt
same "and none to the old one" 0 "$(of 10.10.0.11:80 flows_begun | sed s/nothing/0/)"
echo 'flows = "many"' | file
kill -HUP "$server"
check "a file that is wrong leaves what is there" await said_so "goes on as before: .*forward.toml:1: "
has "and anyone who asks is told" "write a whole number" "$(ctl reload 2>&1)"
check "which works as before" in_ client curl -gsS -m 60 -o /dev/null http://10.10.0.20/one.txt
touch "$work/slow-10.10.0.20.go"
check "a connection of a listener and a server that are gone goes on" wait $one
stop; same "it ends in order after that" 0 $?

# The same in the kernel: listeners come of whose packets the program knew nothing.
in_ switch ethtool -K forwarder gro on
about="in the kernel, by a file: "
head='in_kernel = true
[link]
name = "xdp:wire"
addresses = ["10.10.0.20/24", "fd10::20/64"]
'
echo "$head"'[[service]]
listen = ["10.10.0.20:7"]
to = ["10.10.0.11"]' | file
from_file --json
rm -f "$work"/slow-*
slow 10.10.0.20 >"$work/slow.one" 2>&1 & one=$!
await test -e "$work/slow-10.10.0.20.half"
same "a connection" 1 "$(counters kernel_flows_begun)"
echo "$head"'[[service]]
listen = ["10.10.0.20:7", "[fd10::20]:7", "udp:10.10.0.20:7"]
to = ["10.10.0.11", "fd10::11"]' | file
kill -HUP "$server"
check "it reads the file again" await said_so "read its file again: 2 added"
# forwards_there WORDS...: with that, the kernel forwards much more.
forwards_there() {
    local before
    before=$(counters kernel_forwarded_to_servers) && peer client "$@" && [ $(($(counters kernel_forwarded_to_servers) - before)) -ge 50 ]
}
check "connections over IPv6" await forwards_there echo fd10::20 7 400000
touch "$work/slow-10.10.0.20.go"
check "the first one goes on" wait $one
same "and is counted once" True "$([ "$(counters kernel_flows_begun)" -le $(($(field '["counters"]["flows_begun"]'))) ] && echo True)"
stop; same "it ends in order" 0 $?
in_ switch ethtool -K forwarder gro off
about=

# ---- servers that stop and come back are found out, by asking them and by what becomes of connections ----

# web HOST: a web server there, whose process is $web.
web() { (cd "$work/site" && exec ip netns exec "$net-$1" python3 -S -m http.server --bind :: 81) >/dev/null 2>&1 & web=$!; await in_ "$1" curl -sS -o /dev/null http://127.0.0.1:81/; }
# is SERVER FIELD VALUE: the forwarder says so of a server.
is() { [ "$(of "$1" "$2")" = "$3" ]; }
passes() { [ "$(of "$1" checks_passed)" -ge "$2" ]; }
web two; other=$web
web one; started+=("$other" "$web")
start --listen 10.10.0.20:81 --to 10.10.0.11 10.10.0.12 --control "$work/control" \
    --check http:/one.txt --check-body one --check-interval 1s --check-timeout 1s --check-rise 2 --check-fall 4
check "checks are passed" await passes 10.10.0.11:81 3
end "$web"
check "a server that has stopped is found out" await is 10.10.0.11:81 well false
check "and why" await is 10.10.0.11:81 last_failure "refuses connections"
check "a person is told" await grep -q "10.10.0.11:81 gets no new connections: it refuses connections" "$work/err"
check "its clients go to the other" eval 'for n in $(seq 20); do in_ client curl -gsS -m 60 -o /dev/null http://10.10.0.20:81/ || exit 1; done'
end "$other"
check "so is the other" await is 10.10.0.12:81 well false
check "with nobody there clients are refused at once" peer client refused 10.10.0.20 81
web one; started+=("$web")
check "one that is back is found out too" await is 10.10.0.11:81 well true
check "and has connections again" in_ client curl -gsS -m 60 -o /dev/null http://10.10.0.20:81/
mv "$work/site/one.txt" "$work/site/gone.txt"
check "one that answers otherwise is not well" await is 10.10.0.11:81 well false
check "and says how" await is 10.10.0.11:81 last_failure "answers with status 404"
mv "$work/site/gone.txt" "$work/site/one.txt"
stop

for mode in "" "--passive 0" "--in-kernel"; do
    about="${mode:+$mode: }"
    [ "$mode" = --in-kernel ] && in_ switch ethtool -K forwarder gro on
    # shellcheck disable=SC2086
    start --listen 10.10.0.20:91 --to 10.10.0.11 10.10.0.12 $mode
    clients_outlive "$echoes"
    stop
    echoes two
done
in_ switch ethtool -K forwarder gro off
about=

start --listen 10.10.0.20:81 --to 10.10.0.11 10.10.0.12 --control "$work/control" --passive 3 --passive-rest 1h --no-server hold
for n in $(seq 60); do
    is 10.10.0.12:81 resting true && break
    in_ client curl -gsS -m 60 -o /dev/null http://10.10.0.20:81/ 2>/dev/null
done
check "one that refuses connections rests" is 10.10.0.12:81 resting true
check "and the other has them all" eval 'for n in $(seq 10); do in_ client curl -gsS -m 60 -o /dev/null http://10.10.0.20:81/ || exit 1; done'
ctl drain 10.10.0.11 >/dev/null
check "who rests and has become the last is asked again" await is 10.10.0.12:81 resting false
ctl drain 10.10.0.12 >/dev/null
check "with nobody there clients wait" eval '! in_ client curl -gsS -m 1 -o /dev/null http://10.10.0.20:81/ 2>"$work/waited"; grep -q "timed out" "$work/waited"'
stop; same "it ends in order once more" 0 $?
same "and takes its socket along" "" "$(ls "$work/control" 2>/dev/null)"
same "and takes its program along" "" "$(in_ forwarder ip -d link show wire | grep -o 'prog/xdp')"

# ---- sockets, joined ----

for address in 10.10.0.20/24 fd10::20/64; do ip -n "$net-forwarder" address add $address dev wire; done
await in_ forwarder ping -c 1 -W 1 fd10::11 || bad "the forwarder's own stack has addresses"
# splice ARGUMENTS...: the forwarder on sockets.
splice() {
    launch tcp ip netns exec "$net-forwarder" "$exos" forward --splice --json "$@" || { bad "it starts" "$(cat "$work/err")"; exit 1; }
}
refused "splicing on a link" "leave --link" --splice --link xdp:wire --listen 10.10.0.20:80 --to 10.10.0.11
refused "splicing what is kept" "leave --keep out" --splice --keep "$work/flows" --listen 10.10.0.20:80 --to 10.10.0.11
refused "splicing to a name that nobody has" "there is no host web.invalid" --splice --listen 10.10.0.20:80 --to web.invalid
refused "splicing datagrams" "splice TCP alone" --splice --listen udp:10.10.0.20:80 --to 10.10.0.11
refused "an address of another host" "cannot listen" --splice --listen 10.10.0.99:80 --to 10.10.0.11
refused "a header where nobody writes it" "--splice" "${link[@]}" --listen 10.10.0.20:80 --to 10.10.0.11 --proxy-protocol v1
about="spliced: "
ends=(10.10.0.20 fd10::20)
splice --listen 10.10.0.20:{80,7,9} '[fd10::20]':{80,7,9} "${to[@]}"
for address in "${ends[@]}"; do
    url=http://$address; [ $address = fd10::20 ] && url='http://[fd10::20]'
    check "$address: a large document" in_ client curl -gsS -m 60 -o "$work/got" "$url/large.bin"
    check "$address: every byte" cmp "$work/got" "$work/site/large.bin"
    check "$address: bytes both ways" peer client echo $address 7 2000000
    check "$address: 200 connections at once" peer client echo $address 7 20000 200
    check "$address: a half that is closed" peer client half $address 7
    check "$address: a server that refuses" peer client reset $address 9
    check "$address: what no server has heard is acknowledged" proof $address acknowledged
done
# The last one's end may be under way.
none_is_open() { kill -USR1 "$server"; sleep 0.2; [ "$(field '["connections"]["open"]')" = 0 ]; }
check "none is left open" await none_is_open
same "all servers were chosen" "True" "$(field '["servers"] and all(s["connections_begun"] > 0 for s in v["servers"] if s["listener"].endswith(":7"))')"
same "refusals are counted" 2 "$(field '["counters"]["connect_refused"]')"
for version in v1 v2; do
    stop; same "it ends in order" 0 $?
    splice --listen 10.10.0.20:7 '[fd10::20]:7' "${to[@]}" --proxy-protocol $version
    for address in "${ends[@]}"; do
        check "$address: the server is told of its client ($version)" peer client proxied $address 7 $version
    done
done
stop; same "it ends in order" 0 $?
about=
exit $((failures > 0))
