# What all tests of the forwarder share, no matter who has its interface: hosts on one switch, Linux's stack in them as client and as
# servers, what clients see, and what the forwarder says. To be sourced behind `begin`. Namespaces are $net-HOST. A script has:
#
#   run_forwarder ARGUMENTS...   runs it, as far as it does not start
#   ask_for_report               has the one that runs say how it stands, in a line of the file $reports
#
# What is started here is in `servers`, to be ended by the script's `cleanup`, which also removes the namespaces.
servers=()

# in_ HOST COMMAND...: inside a namespace; the process is the command's.
in_() { local host=$1; shift; ip netns exec "$net-$host" "$@"; }
# peer HOST ARGUMENTS...: the other ends, as Linux's sockets.
peer() { local host=$1; shift; in_ "$host" timeout -k 1 400 python3 -S "$here/forward.py" "$@"; }
# switch: what all wires lead to.
switch() {
    ip netns add "$net-switch" && ip -n "$net-switch" link add switch type bridge || return 1
    ip -n "$net-switch" link set switch up
}
# host NAME NUMBER: a namespace with a wire to the switch, 10.10.0.NUMBER and fd10::NUMBER; 0 for none.
host() {
    ip netns add "$net-$1" || return 1
    ip link add wire netns "$net-$1" type veth peer name "$1" netns "$net-switch" || return 1
    ip -n "$net-switch" link set dev "$1" master switch up
    in_ "$1" sysctl -qw net.ipv6.conf.wire.accept_dad=0
    ip -n "$net-$1" link set lo up
    ip -n "$net-$1" link set wire up
    [ "$2" = 0 ] && return
    ip -n "$net-$1" address add "10.10.0.$2/24" dev wire
    ip -n "$net-$1" address add "fd10::$2/64" dev wire
}
# serve_on HOST...: a web server on port 80 of each, and one that sends back what it gets on 7.
serve_on() {
    local host
    mkdir "$work/site"
    head -c 3000000 /dev/urandom >"$work/site/large.bin"
    for host; do
        echo "$host" >"$work/site/$host.txt"
        (cd "$work/site" && exec ip netns exec "$net-$host" python3 -S -m http.server --bind :: 80) >/dev/null 2>&1 & servers+=($!)
        (exec ip netns exec "$net-$host" python3 -S "$here/forward.py" serve 7) & servers+=($!)
        await in_ "$host" python3 -S "$here/forward.py" echo 127.0.0.1 7 1 || bad "a server starts"
        await in_ "$host" curl -sS -o /dev/null "http://127.0.0.1/$host.txt" || bad "a web server starts"
    done
}

# refused NAME WANTED ARGUMENTS...: the forwarder does not start, and says why.
refused() {
    local name=$1 wanted=$2 text status; shift 2
    text=$(run_forwarder "$@" 2>&1); status=$?
    if [ $status != 0 ] && [ $status != 124 ]; then has "$name" "$wanted" "$text"; else bad "$name" "status $status: $text"; fi
}
# field PATH: of the last line of JSON, written as in Python.
field() { grep '^{' "$reports" | tail -n 1 | python3 -S -c "import json, sys; v = json.load(sys.stdin); print(v$1)"; }
# counts NAME...: each of these counters, as the forwarder counts now.
counts() {
    local before name said
    before=$(reported)
    ask_for_report
    await more_reports "$before" || return 1
    # The last of a line are those of all links and cores together.
    said=$(grep '^{' "$reports" | tail -n 1 | grep -o '"counters":{[^}]*}' | tail -n 1)
    for name; do [[ $said =~ \"$name\":([0-9]+) ]] && echo "${BASH_REMATCH[1]}" || return 1; done
}
# counters NAME...: their sum.
counters() { local all; all=$(counts "$@") && echo $((${all//$'\n'/ + })); }
# reported: how many there are that are whole.
reported() { grep -ac '^{.*}$' "$reports"; }
more_reports() { [ "$(reported)" -gt "$1" ]; }
# in_time COMMAND...: it succeeds, at the third time at the latest: who forwards may be late for what it has to see in its time. What it says is the
# last one's.
in_time() {
    local said
    for _ in 1 2 3; do said=$("$@" 2>&1) && { echo "$said"; return; }; done
    echo "$said"
    return 1
}
# wrong_sums HOST: segments and datagrams that the kernel there found damaged.
wrong_sums() {
    in_ "$1" cat /proc/net/snmp /proc/net/snmp6 |
        awk '/^Tcp:|^Udp:/ { if (!($1 in names)) { names[$1] = $0; next } split(names[$1], n); for (i in n) if (n[i] == "InCsumErrors") sum += $i }
             /InCsumErrors/ && !/:/ { sum += $2 } END { print sum + 0 }'
}

# echoes HOST: one more server there, on port 91, whose process is $echoes.
echoes() {
    (exec ip netns exec "$net-$1" python3 -S "$here/forward.py" serve 91) & echoes=$!
    servers+=($echoes)
    await in_ "$1" python3 -S "$here/forward.py" echo 127.0.0.1 91 1
}
# clients_outlive SERVER: with two servers on port 91, that process of one is killed while clients come, and none of them is refused.
clients_outlive() {
    local clients
    rm -f "$work"/knock*
    peer client knock 10.10.0.20 91 60 "$work/knock" >"$work/knocked" 2>&1 & clients=$!
    await test -e "$work/knock.some"
    end "$1"
    rm -f "$work/knock.some"; await test -e "$work/knock.some"
    await some_are_withheld
    touch "$work/knock.enough"
    local name="clients that come while a server is killed are served"
    if wait $clients; then ok "$name"; else
        # Who has refused: the forwarder itself, or a server whose word it has passed on.
        local refusals="" counter
        for counter in flows_moved refusals_withheld refused_no_server drop_no_port; do refusals+=" $counter $(counters $counter)"; done
        bad "$name" "$(tail -n 1 "$work/knocked");$refusals; $(grep -o '"protocol":"tcp".\{0,400\}' "$work/out" | tail -n 2 | tr '\n' ' ')"
    fi
    echo "# $(head -n 1 "$work/knocked")"
}
some_are_withheld() { [ "$(counters refusals_withheld)" -ge 1 ]; }

# clients_see: all that clients see of a forwarder.
clients_see() {
    local address url host
    for address in 10.10.0.20 fd10::20; do
        url=http://$address; [ $address = fd10::20 ] && url='http://[fd10::20]'
        if command -v ping >/dev/null; then check "$address answers echo requests" in_ client ping -c 3 -W 20 $address
        else echo "SKIPPED: ping: not installed (apt-get install iputils-ping)"; fi
        check "$address: a large document" in_ client curl -gsS -m 60 -o "$work/got" "$url/large.bin"
        check "$address: every byte" cmp "$work/got" "$work/site/large.bin"
        check "$address: bytes both ways" peer client echo $address 7 2000000
        check "$address: 200 connections at once" peer client echo $address 7 20000 200
        check "$address: a half that is closed" peer client half $address 7
        check "$address: a datagram" peer client datagram $address 7 100
        check "$address: a datagram in fragments" peer client datagram $address 7 20000
        [ $address = fd10::20 ] || check "$address: the last fragment first" peer client backwards $address 7 20000
        check "$address: a refusal of a server's is passed on" peer client refused $address 9
        check "$address: and that of a datagram" peer client unreachable $address 9
        check "$address: who has sent what goes too far is told" peer client expired $address 7
        check "$address: a port that is not forwarded is refused" peer client refused $address 10
        check "$address: nobody acknowledges what the server has not heard" proof $address
    done
    for host in client one two; do
        same "$host has seen no damaged checksum" 0 "$(wrong_sums $host)"
    done
}
# proof ADDRESS [HOW]: with the servers cut off, what a client sends is not acknowledged (or HOW); with them back, it arrives.
proof() {
    peer client "${2:-unacknowledged}" "$1" 7 "$work/cut" & local client=$! status
    await test -e "$work/cut.stands"
    for host in one two; do ip -n "$net-switch" link set "$host" down; done
    touch "$work/cut.cut"
    await test -e "$work/cut.seen" && status=0 || status=1
    for host in one two; do ip -n "$net-switch" link set "$host" up; done
    wait $client || status=1
    rm -f "$work"/cut.*
    return $status
}
