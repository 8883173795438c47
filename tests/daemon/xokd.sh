#!/usr/bin/env bash
# The daemon and programs of an ordinary user, release binary, real clients on the lab wire: programs without any
# capability serve and connect, beside each other, through deaths of programs and of the daemon. Prints "ok NAME",
# "not ok NAME" or "SKIPPED: ..." lines.
#
#   tests/daemon/xokd.sh PATH/TO/exos
#
# The daemon runs in one side of a lab of its own; programs run outside, as user 65534, and have nothing but the
# daemon's socket. What is started is ended by its id, also when this script is interrupted.
lab=xokd-$$
. "$(dirname "$0")/common.sh"

# The documents.
site=$work/site
mkdir -p "$site"
echo '<title>home</title>' >"$site/index.html"
head -c 30000000 /dev/urandom >"$site/large.bin"
head -c 100 /dev/zero | tr '\0' x >"$site/small.txt"
chmod -R a+rX "$site"

lab_up || { bad "lab up"; exit 1; }
wire=$(client ip -br link | grep -v '^lo' | cut -d' ' -f1 | cut -d@ -f1)
cat >"$work/xokd.toml" <<POLICY
[[interface]]
name = "$wire"
addresses = ["10.10.0.10/24", "fd10::10/64", "10.10.0.11/24"]

[[allow]]
user = "$user"
addresses = "any"
protocols = ["tcp", "udp"]
ports = ["80", "1024-65535"]
POLICY
v4=http://10.10.0.10 v6="http://[fd10::10]" other=http://10.10.0.11

# Nobody there: what to do is said.
said=$(nobody "$work/exos" serve --via xokd --xokd "$socket" 2>&1)
same "without a daemon a program ends" 1 $?
has "and says what to do" "exos daemon" "$said"

# What Prometheus reads, from a process of its own that needs no privilege and outlives daemons.
"${as_nobody[@]}" "$work/exos" metrics --listen 127.0.0.1:0 --xokd "$socket" >"$work/metrics.out" 2>"$work/metrics.err" &
programs+=($!)
await grep -q '^metrics at' "$work/metrics.out" || bad "exos metrics starts" "$(cat "$work/metrics.err")"
scrape() { curl -sS -m 60 "$(sed 's/^metrics at //' "$work/metrics.out")"; }
scraped() { grep -qx "$1" <<<"$(scrape)"; }
check "without a daemon there are metrics that say so" scraped 'exos_up 0'

start_daemon || { bad "the daemon starts" "$(cat "$work/daemon.out")"; exit 1; }
ok "the daemon starts"
check "metrics find the daemon" await scraped 'exos_up 1'

# One program, without a capability.
if start one serve "$site" --address 10.10.0.10/24 --address fd10::10/64; then
    one=$started
    same "it has no capability" "0000000000000000" "$(awk '/^CapEff/{print $2}' /proc/$one/status)"
    for base in "$v4" "$v6"; do
        same "curl $base/" "<title>home</title>" "$(fetch "$base/")"
        client curl -sS -m 100 -o "$work/got" "$base/large.bin"
        check "curl $base/large.bin is the file" cmp "$work/got" "$site/large.bin"
    done
    check "metrics have a program's counters" await scraped \
        "exos_rx_packets_total{interface=\"$wire\",slot=\"[0-9]*\",program=\"serve\",uid=\"$user\"} [1-9][0-9]*"
    if command -v ping >/dev/null; then
        check "the daemon answers pings" client ping -c 2 -i 0.2 -W 20 10.10.0.10
    else
        echo "SKIPPED: ping: not installed (apt-get install iputils-ping)"
    fi
    client timeout 60 bash -c '</dev/tcp/10.10.0.10/81' 2>"$work/refused"
    has "and refuses what nobody claimed" "refused" "$(cat "$work/refused")"
    if command -v wrk >/dev/null; then
        for header in 'Connection: keep-alive' 'Connection: close'; do
            out=$(client wrk -t1 -c64 -d1s -H "$header" "$v4/small.txt" 2>&1)
            if grep -qE 'Non-2xx|connect [1-9]|read [1-9]|write [1-9]' <<<"$out" || ! grep -q 'requests in' <<<"$out"; then bad "wrk, $header" "$out"; else ok "wrk, $header"; fi
        done
    else
        echo "SKIPPED: wrk: not installed (apt-get install wrk)"
    fi
else
    bad "a program of user $user serves" "$(cat "$work/one.err")"
    exit 1
fi

# What doctor says to a user of what they would get.
said=$(nobody "$work/exos" doctor lo --xokd "$socket")
has "doctor says that programs work through it" '"through_daemon": true' "$(nobody "$work/exos" doctor lo --xokd "$socket" --json)"
has "doctor knows the daemon" "daemon at $socket, process $daemon" "$said"
has "and says what its user would get, and why" "on $wire: you get an interface of your own (shared)  $work/xokd.toml:5: user nobody may claim" "$said"

# Several at once: by port, and by address.
start two serve --port 8080 --address 10.10.0.10/24 || bad "a second program, by port" "$(cat "$work/two.err")"
start three serve --address 10.10.0.11/24 || bad "a third program, by address" "$(cat "$work/three.err")"
three=$started
same "each has its own: the first" "<title>home</title>" "$(fetch $v4/)"
has "each has its own: the second" "200" "$(fetch -o /dev/null -w '%{http_code}' $v4:8080/)"
has "each has its own: the third" "200" "$(fetch -o /dev/null -w '%{http_code}' $other/)"

# What is refused, and what is said.
said=$(nobody "$work/exos" serve --xokd "$socket" --address 10.10.0.10/24 2>&1)
same "a port that is taken is refused" 1 $?
has "and its owner is named" "pid $one" "$said"
said=$(nobody "$work/exos" serve --xokd "$socket" --address 10.10.0.11/24 --port 81 2>&1)
same "a port that policy does not allow is refused" 1 $?
has "and the line that is wanted is named" "81" "$said"
tries='import errno, socket
for port in (80, 80, 81):
    try: socket.create_server(("10.10.0.10", port))
    except OSError as e: print(errno.errorcode[e.errno], end=" ")'
for way in --intercept --preload; do
    said=$(cd /; nobody timeout 100 "$work/exos" run $way --xokd "$socket" --address 10.10.0.10/24 -- python3 -c "$tries" 2>"$work/run.err")
    same "exos run $way: a port that is taken, and one that policy does not allow" "EADDRINUSE EADDRINUSE EACCES " "$said"
    has "and the owner is named" "pid $one" "$(cat "$work/run.err")"
    has "and it says where the program is" "exos run: at 10.10.0.10, by slot" "$(cat "$work/run.err")"
    same "and each is said once" 2 "$(grep -c 'the daemon refuses' "$work/run.err")"
done
said=$(setpriv --reuid 65533 --regid 65533 --clear-groups "$work/exos" serve --xokd "$socket" 2>&1)
same "another user is refused" 1 $?
has "and told that it is policy" "allow" "$said"

# A queue of the interface itself: only where policy says so, unchecked, and given back when its program is killed.
direct=(serve "$site" --mode direct --port 9100 --address 10.10.0.11/24)
said=$(nobody "$work/exos" "${direct[@]}" --xokd "$socket" 2>&1)
same "a queue is refused where policy does not say direct" 1 $?
has "and the line that is wanted is named" 'modes = ["direct"]' "$said"
cat >>"$work/xokd.toml" <<POLICY

[[allow]]
user = "$user"
interface = "$wire"
modes = ["direct"]
queues = ["0"]
ports = ["9100"]
POLICY
kill -HUP $daemon
await grep -q 'the policy was read again' "$work/daemon.out"
if start direct "${direct[@]}"; then
    lent=$started
    has "a program has a queue of the interface itself" "what is sent is not checked" "$(cat "$work/direct.out" "$work/direct.err")"
    same "and no capability" "0000000000000000" "$(awk '/^CapEff/{print $2}' /proc/$lent/status)"
    same "curl gets its page" "<title>home</title>" "$(fetch $other:9100/)"
    client curl -sS -m 100 -o "$work/got" "$other:9100/large.bin"
    check "and its large file" cmp "$work/got" "$site/large.bin"
    said=$(nobody "$work/exos" serve --mode direct:0 --port 9101 --address 10.10.0.11/24 --xokd "$socket" 2>&1)
    same "a queue has one program" 1 $?
    has "and its owner is named" "pid $lent" "$said"
    said=$(nobody "$work/exos" serve --mode direct:7 --port 9101 --address 10.10.0.11/24 --xokd "$socket" 2>&1)
    has "a queue that is not there is said to be none" "no queue 7" "$said"
    # The best of three: what other work takes from this machine meanwhile is not the daemon's.
    for _ in 1 2 3; do
        usual=$slowest
        kill -KILL "$lent"; wait "$lent" 2>/dev/null; killed=$(date +%s%N)
        await start direct "${direct[@]}"; took=$((($(date +%s%N) - killed) / 1000000))
        lent=$started
        ! is_quick 1000 $took $usual || break
    done
    same "after SIGKILL its queue serves another" "<title>home</title>" "$(fetch $other:9100/)"
    quick "within a second" 1000 $took $usual
else
    bad "a program has a queue of the interface itself" "$(cat "$work/direct.err")"
fi

# Programs that connect.
client python3 -S -c '
import socket
s = socket.create_server(("10.10.0.2", 7000))
for _ in range(2):
    c, a = s.accept()
    data = b""
    while (got := c.recv(65536)): data += got
    c.sendall(b"from port %d, %d bytes" % (a[1] > 1023, len(data))); c.close()
' &
server=$!; programs+=($server)
await client bash -c 'ss -Hltn sport = 7000 | grep -q 7000'
# An unmodified program, without privilege.
"$exos" lab exec --name $lab b -- python3 -S -m http.server 7001 --directory "$here" >/dev/null 2>&1 &
programs+=($!)
await client curl -so /dev/null http://10.10.0.2:7001/units.sh
said=$(nobody timeout 100 "$work/exos" run --intercept --xokd "$socket" -- curl -so /dev/null -w '%{http_code} %{local_ip}' http://10.10.0.2:7001/units.sh 2>"$work/run.err" || cat "$work/run.err")
has "exos run --intercept: curl of a user without privilege" "200 10.10.0." "$said"
said=$(nobody timeout 100 "$work/exos" run --xokd "$socket" -- curl -so /dev/null -w '%{http_code} %{local_ip}' http://10.10.0.2:7001/units.sh 2>"$work/run.err" || cat "$work/run.err")
has "exos run: curl of a user without privilege" "200 10.10.0." "$said"
asks='import os, socket; s = socket.create_connection(("10.10.0.2", 7001)); print(os.readlink(f"/proc/self/fd/{s.fileno()}"))'
said=$(cd /; nobody timeout 100 "$work/exos" run --xokd "$socket" -- python3 -c "$asks" 2>"$work/run.err" || cat "$work/run.err")
has "exos run: its connections are shared in memory" eventfd "$said"
mkfifo "$work/hold"
asks='import socket, sys; s = socket.create_connection(("10.10.0.2", 7001)); sys.stdin.read()'
(cd /; nobody timeout 100 "$work/exos" run --xokd "$socket" -- python3 -c "$asks") <"$work/hold" >/dev/null 2>&1 & held=$!
exec 7>"$work/hold"
shown() { nobody timeout 60 "$work/exos" ss -Htp state established | grep -q '10.10.0.2:7001 .*("python3",pid='; }
check "exos ss: a user without privilege sees its programs' sockets" await shown
exec 7>&-
wait $held
said=$(head -c 100000 /dev/zero | nobody timeout 100 "$work/exos" cat --xokd "$socket" 10.10.0.2:7000 2>"$work/cat.err")
same "cat connects by a port of the daemon's choice" "from port 1, 100000 bytes" "$said"
said=$(head -c 1000 /dev/zero | nobody timeout 100 "$work/exos" cat --xokd "$socket" 10.10.0.2:7000 2>"$work/cat.err")
same "and again" "from port 1, 1000 bytes" "$said"
kill $server 2>/dev/null; wait $server 2>/dev/null

# A program is killed: peers are told, and what it had is free again. The best of three, as above.
cat >"$work/peer.py" <<'END'
import socket, sys, time
s = socket.create_connection(("10.10.0.11", 80))
s.sendall(b"GET / HTTP/1.1\r\n"); print("connected", flush=True)
sys.stdin.readline()
began = time.monotonic()
try:
    while time.monotonic() - began < 60:
        s.sendall(b"X-Filler: 1\r\n"); time.sleep(0.05)
    print("nothing")
except OSError as e:
    print("reset\n%d" % ((time.monotonic() - began) * 1000))
END
mkfifo "$work/go"
for _ in 1 2 3; do
    : >"$work/peer"
    client python3 -S "$work/peer.py" <"$work/go" >"$work/peer" &
    peer=$!; programs+=($peer)
    exec 9>"$work/go"
    await grep -q connected "$work/peer"
    usual=$slowest
    kill -KILL "$three"; wait "$three" 2>/dev/null; killed=$(date +%s%N)
    echo >&9; exec 9>&-
    await start again serve --address 10.10.0.11/24; took=$((($(date +%s%N) - killed) / 1000000))
    three=$started
    wait $peer
    reset_in=$(sed -n '3{p;q}' "$work/peer" | grep . || echo 60000)
    ! is_quick 1000 $took $usual || ! is_quick 2000 "$reset_in" $usual || break
done
has "after SIGKILL its address is free" "200" "$(fetch -o /dev/null -w '%{http_code}' $other/)"
quick "within a second" 1000 $took $usual
same "and its peer was reset" "reset" "$(sed -n 2p "$work/peer")"
quick "before long" 2000 "$reset_in" $usual

# The daemon is killed while a download runs, and comes back.
rm -f "$work/got"
client curl -sS -m 200 --limit-rate 6M -o "$work/got" $v4/large.bin 2>"$work/download" &
download=$!; programs+=($download)
await test -s "$work/got"
kill -KILL $daemon; wait $daemon 2>/dev/null
await grep -q 'the daemon has gone' "$work/one.err"
has "a program notices that the daemon is gone" "packets still flow" "$(cat "$work/one.err")"
check "metrics say that it is gone" await scraped 'exos_up 0'
same "and serves on" "<title>home</title>" "$(fetch $v4/)"
start_daemon || bad "the daemon starts again" "$(cat "$work/daemon.out")"
await grep -q 'the daemon is back' "$work/one.err"
check "metrics are back with it" await scraped 'exos_up 1'
has "it notices that the daemon is back" "the daemon is back" "$(cat "$work/one.err")"
wait $download; same "the download went through it" 0 $?
check "and is the file" cmp "$work/got" "$site/large.bin"
same "new connections are served" "<title>home</title>" "$(fetch $v4/)"
has "the others were taken over too" "200" "$(fetch -o /dev/null -w '%{http_code}' $v4:8080/)"
await grep -q 'the daemon is back' "$work/direct.err"
same "so was the one on a queue of the interface" "<title>home</title>" "$(fetch $other:9100/)"
has "which knows it" "the daemon is back" "$(cat "$work/direct.err")"
said=$(nobody "$work/exos" serve --mode direct --port 9100 --xokd "$socket" 2>&1)
has "and has its queue" "queue 0 is held by" "$said"
said=$(nobody "$work/exos" serve --xokd "$socket" --address 10.10.0.10/24 2>&1)
has "and what is owned is still known" "pid $one" "$said"
start more serve --port 9000 --address 10.10.0.11/24 || bad "a new program attaches" "$(cat "$work/more.err")"
has "a new program is served by it" "200" "$(fetch -o /dev/null -w '%{http_code}' $other:9000/)"

# Several programs on one port: each serves a page of its own, so that a client sees whose it is.
for page in one two three; do
    mkdir -p "$work/$page"; echo "<title>$page</title>" >"$work/$page/index.html"
done
chmod -R a+rX "$work/one" "$work/two" "$work/three"
share() { local page=$1; shift; start "share-$page" serve "$work/$page" --reuse-port --port 9200 --address 10.10.0.10/24 --address fd10::10/64 "$@"; }
share one && one_of=$started || bad "a program shares its port" "$(cat "$work/share-one.err")"
mkfifo "$work/commands"
client python3 -S "$here/shared-port.py" 10.10.0.10 9200 <"$work/commands" >"$work/tallies" &
clients=$!; programs+=($clients)
exec 9>"$work/commands"
tallies=0
# tell COMMAND: have the client do it; what came of it is $tally.
tell() { echo "$*" >&9; tallies=$((tallies + 1)); hear_tally; }
hear_tally() { await has_tally; tally=$(sed -n "${tallies}p" "$work/tallies"); }
has_tally() { [ "$(wc -l <"$work/tallies")" -ge $tallies ]; }
# only PAGES: all answers are of these.
only() { ! grep -qvE "^($1)=" <<<"${tally// /$'\n'}"; }
tell open 40; same "one of them alone answers all" "one=40" "$tally"
share two && two_of=$started || bad "a second program joins it" "$(cat "$work/share-two.err")"
tell again; same "what stood before stays with the first" "one=40" "$tally"
tell new 40; check "new connections are divided ($tally)" only "one|two"
has "among both" "two=" "$tally"; has "of them" "one=" "$tally"
declare -A pages
for base in "http://[fd10::10]:9200" "$v4:9200"; do
    # Each has half of them: of sixty none is hardly ever all.
    pages=()
    for _ in $(seq 60); do
        pages["$(fetch "$base/"):"]=got
        [ ${#pages[@]} = 1 ] || break
    done
    same "curl $base/ gets both" "<title>one</title>: <title>two</title>:" "$(printf '%s\n' "${!pages[@]}" | sort | xargs -d '\n')"
done
said=$(nobody "$work/exos" serve --port 9200 --address 10.10.0.10/24 --xokd "$socket" 2>&1)
same "who does not share is refused" 1 $?
has "and told by whom it is held" "is held by" "$said"
printf '\n[[allow]]\nuser = "65533"\nports = ["9200"]\n' >>"$work/xokd.toml"
read_again() { [ "$(grep -c 'the policy was read again' "$work/daemon.out")" -ge "$1" ]; }
kill -HUP $daemon; await read_again 1
said=$(setpriv --reuid 65533 --regid 65533 --clear-groups "$work/exos" serve --reuse-port --port 9200 --address 10.10.0.10/24 --xokd "$socket" 2>&1)
same "another user is refused" 1 $?
has "and told why" "shared by programs of that user only" "$said"
unset pages
# The first is replaced while clients come: nobody is turned away, and what stands goes on until it has ended.
rm -f "$work/stop"
echo "until $work/stop" >&9; tallies=$((tallies + 1))
share three && three_of=$started || bad "a third program joins" "$(cat "$work/share-three.err")"
kill -TERM $one_of; wait $one_of; same "one of them ends in order" 0 $?
touch "$work/stop"; hear_tally
check "no client was turned away ($tally)" only "one|two|three"
# One is killed: its connections are reset, and all else goes on.
kill -KILL $two_of; wait $two_of 2>/dev/null
tell new 20; same "the one that is left answers all" "three=20" "$tally"
exec 9>&-; end $clients

# The daemon stops: programs end in order, and nothing is left.
kill -TERM $daemon; wait $daemon; same "the daemon stops in order" 0 $?; daemon=
wait $one; same "a program that loses its link ends with an error" 1 $?
has "and says why" "the daemon takes the link back" "$(cat "$work/one.err")"
# The kernel takes them away at leisure.
await eval '[ -z "$(ip netns exec exos-$lab-a ip -br link | grep -o "^xok[^ ]*")" ]'
same "no interface is left" "" "$(ip netns exec exos-$lab-a ip -br link | grep -o '^xok[^ ]*')"
same "no program is left on the interface" "" "$(ip netns exec exos-$lab-a ip -d link show "$wire" | grep -o 'prog/xdp')"
exit $failures
