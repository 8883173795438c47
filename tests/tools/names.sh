#!/usr/bin/env bash
# Programs that are told names instead of addresses, with dnsmasq as the name server on the other side of a wire: who asks, whom
# they reach, what is said where there is no answer, and a forwarder whose servers' addresses change. Prints "ok NAME",
# "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/tools/names.sh PATH/TO/exos
#
# Everything happens in namespaces of a lab of its own; what is started is ended by its id.
. "$(dirname "$0")/../common.sh"
need_root "names in place of addresses"
need_programs "names in place of addresses" python3 dnsmasq:dnsmasq-base unshare:util-linux
begin
lab=names-$$
dns=
others=()
cleanup() {
    # shellcheck disable=SC2086
    end $server $dns "${others[@]}"
    "$exos" lab down --name "$lab" >/dev/null 2>&1
    rm -rf "$work"
}

own=(--link xdp:wire --address 10.10.0.10/24 --address fd10::10/64)
# "${in_a[@]}" COMMAND...: in side a, where $work/resolv.conf and $work/hosts stand for those of /etc. The process is the command's.
in_a=("$exos" lab exec --name "$lab" a -- unshare --mount --propagation private sh -c
    'mount --bind "$0/resolv.conf" /etc/resolv.conf && mount --bind "$0/hosts" /etc/hosts && exec "$@"' "$work")
ours() { "${in_a[@]}" timeout -k 1 120 "$exos" "$@"; }
# asks SERVER ATTEMPTS: whom they ask from here on, and how often.
asks() { printf 'nameserver %s\nsearch test\noptions timeout:3 attempts:%d\n' "$1" "$2" >"$work/resolv.conf"; }
# stand_for LINE...: what the name server says from here on, in lines of a file of hosts.
stand_for() { printf '%s\n' "$@" >"$work/zone"; [ -z "$dns" ] || kill -HUP "$dns"; }
# begin_dns: the name server, in side b; it says that its answers hold for two seconds.
begin_dns() {
    (exec "$exos" lab exec --name "$lab" b -- dnsmasq --keep-in-foreground --conf-file=/dev/null --pid-file= --user=root --no-resolv --no-hosts --local=/test/ \
        --listen-address=10.10.0.2 --bind-interfaces --addn-hosts="$work/zone" --local-ttl=2 --log-queries --log-facility=- \
        2>>"$work/dns.log") & dns=$!
    await grep -q "started" "$work/dns.log"
}
# asked NAME WHO: the name server was asked for it from there, in whatever letters.
asked() { grep -qi "query\[A\] $1 from $2" "$work/dns.log"; }

lab_up || { bad "lab up"; exit 1; }
echo '127.0.0.1 localhost' >"$work/hosts"
# One that has no turn for seconds is asked again.
asks 10.10.0.2 5
# Nobody is at fd10::99.
stand_for '10.10.0.2 web.test' 'fd10::99 web.test' '10.10.0.2 four.test'
: >"$work/dns.log"
begin_dns || { bad "dnsmasq starts" "$(cat "$work/dns.log")"; exit 1; }
mkdir "$work/site"
head -c 300000 /dev/urandom >"$work/site/noise"
(cd "$work/site" && exec "$exos" lab exec --name "$lab" b -- python3 -S -m http.server --bind 10.10.0.2 80) >/dev/null 2>&1 & others+=($!)
(exec "$exos" lab exec --name "$lab" b -- python3 -S "$here/../forward/forward.py" serve 7) & others+=($!)
await inside b -- python3 -S "$here/../forward/forward.py" echo 10.10.0.2 7 1 || bad "a server starts"
await inside b -- python3 -S -c 'import socket; socket.create_connection(("10.10.0.2", 80), 5)' || bad "a server starts"

# ---- over the program's own stack ----

ours cat web.test:7 "${own[@]}" <"$work/site/noise" >"$work/got" 2>"$work/err"
same "cat reaches a name whose first address nobody has" 0 $?
check "cat: every byte comes back" cmp "$work/got" "$work/site/noise"
check "cat asks over its own stack" asked web.test 10.10.0.10
ours cat four:7 --link xdp:wire --share-address <"$work/site/noise" >"$work/got" 2>"$work/err"
same "cat beside the host, by the search list" 0 $?
check "cat then asks as the host does" asked four.test 10.10.0.1
said=$(ours cat none.test:7 "${own[@]}" 2>&1 </dev/null); same "cat: no such host fails" 1 $?
has "and is said" "there is no host none.test; check how it is written" "$said"
said=$(ours cat fd10::2:7 "${own[@]}" 2>&1 </dev/null)
has "an address without brackets" "[ADDRESS]:PORT" "$said"
echo '10.10.0.2 written' >>"$work/hosts"
(exec "$exos" lab exec --name "$lab" b -- python3 -S "$here/tools.py" serve-sink 9 1) >/dev/null 2>&1 & others+=($!)
check "chargen by the file of hosts" await ours chargen --connect written:9 --bytes 100k "${own[@]}"

# ---- over the kernel's sockets, where the address decides the link, or there is no stack ----

check "load" ours load http://web.test/noise "${own[@]}" -n 20 -c 2
check "load asks as the host does" asked web.test 10.10.0.1
check "load by the kernel's sockets" ours load --sockets http://four.test/noise -n 20 -c 2
said=$(ours load http://none.test/ "${own[@]}" -n 1 2>&1); same "load: no such host fails" 1 $?
has "and is said" "there is no host none.test" "$said"
python3 -S - >"$work/two.pcap" <<'P'
import struct, sys
def packet(last):
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28, 1, 0, 64, 17, 0, bytes([10, 10, 0, last]), bytes([10, 10, 0, 9]))
    return bytes(12) + b"\x08\0" + ip + struct.pack("!HHHH", 4000, 4001, 8, 0)
out = struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1)
for last in (2, 3):
    data = packet(last)
    out += struct.pack("<IIII", 1, 0, len(data), len(data)) + data
sys.stdout.buffer.write(out)
P
same "dump: packets of a host that is named" 1 "$(ours dump -r "$work/two.pcap" src host web.test | grep -c 10.10.0.2)"
same "dump: and of no other" 0 "$(ours dump -r "$work/two.pcap" src host web.test | grep -c 10.10.0.3)"
said=$(ours dump -r "$work/two.pcap" src host none.test 2>&1)
has "dump: no such host" "there is no host none.test" "$said"

# ---- a forwarder, whose servers come and go with what the name server says ----

inside b -- ip address add 10.10.0.3/24 dev wire
ctl() { inside a -- "$exos" forward ctl --control "$work/control" "$@"; }
named() { ctl status --json | python3 -S -c "import json, sys; print(*sorted(s['server'] for s in json.load(sys.stdin)['status']['servers'] if s['name'] == 'pool.test' and not s['leaving']))"; }
stands_for() { [ "$(named)" = "$1" ]; }
stand_for '10.10.0.2 pool.test'
if launch tcp "${in_a[@]}" "$exos" forward "${own[@]}" --listen 10.10.0.10:7 --to pool.test --resolve 1h --control "$work/control"; then
    same "a forwarder's server, by its name" "10.10.0.2:7" "$(named)"
    mkfifo "$work/talk"
    (exec "$exos" lab exec --name "$lab" b -- python3 -S -c '
import socket, sys
s = socket.create_connection(("10.10.0.10", 7), 60)
s.settimeout(60)
for line in sys.stdin:
    s.sendall(line.encode())
    while line: line = line[len(s.recv(len(line))):]
    print("back", flush=True)' <"$work/talk" >"$work/talked") & talk=$!; others+=("$talk")
    exec 9>"$work/talk"
    echo one >&9; await grep -q back "$work/talked" || bad "a connection stands"
    stand_for '10.10.0.3 pool.test' '10.10.0.2 pool.test'
    check "a server comes when the answer has run out" await stands_for "10.10.0.2:7 10.10.0.3:7"
    stand_for '10.10.0.3 pool.test'
    check "and another goes" await stands_for "10.10.0.3:7"
    : >"$work/talked"; echo two >&9
    check "its connection goes on" await grep -q back "$work/talked"
    stand_for
    unresolved() { ctl status | grep -q "pool.test is not followed wholly: $1"; }
    check "a name that is gone is said in the status" await unresolved "there is no host"
    same "and keeps its servers" "10.10.0.3:7" "$(named)"
    stand_for '10.10.0.2 pool.test'
    check "until it is back" await stands_for "10.10.0.2:7"
    stand_for '10.10.0.10 pool.test' '10.10.0.3 pool.test'
    check "an address of the forwarder's own is left out, and another comes" await stands_for "10.10.0.3:7"
    check "which the status says" await unresolved "left out: 10.10.0.10 is an address of ours"
    stand_for '10.10.0.10 pool.test'
    check "a name that has no other is said too" await unresolved "10.10.0.10 is an address of ours"
    same "and keeps its servers" "10.10.0.3:7" "$(named)"
    # shellcheck disable=SC2046
    stand_for $(printf '10.10.0.%d,pool.test ' {101..220})
    sed -i 's/,/ /' "$work/zone"; kill -HUP "$dns"
    check "a name may have very many addresses" await stands_for "$(printf '10.10.0.%d:7\n' {101..220} | sort | xargs)"
    stand_for '10.10.0.2 pool.test'
    check "and one again" await stands_for "10.10.0.2:7"
    end "$dns"; dns=
    check "a name server that is gone is said" await unresolved "no name server answered for pool.test (asked 10.10.0.2)"
    same "and changes nothing" "10.10.0.2:7" "$(named)"
    : >"$work/talked"; echo three >&9
    check "the connection goes on" await grep -q back "$work/talked"
    exec 9>&-
    stop; same "it ends in order" 0 $?
else
    bad "a forwarder starts" "$(cat "$work/err")"
fi

# ---- nobody answers ----

asks 10.10.0.99 1
said=$(ours cat web.test:7 "${own[@]}" 2>&1 </dev/null); same "cat: nobody answers" 1 $?
has "who is waited for" "exos cat: waits for what name servers say (10.10.0.99)" "$said"
has "and who was asked" "no name server answered for web.test (asked 10.10.0.99)" "$said"
said=$(ours load http://web.test/ "${own[@]}" -n 1 2>&1)
has "load: who was asked" "no name server answered for web.test (asked 10.10.0.99)" "$said"
: >"$work/resolv.conf"
said=$(ours load http://web.test/ "${own[@]}" -n 1 2>&1)
has "load: there is none to ask" "no name server is configured" "$said"
exit $failures
