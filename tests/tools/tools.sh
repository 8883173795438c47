#!/usr/bin/env bash
# exos echo, discard, chargen and cat against Linux's stack on the lab wire: nc, python3 and curl as
# peers. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/tools/tools.sh PATH/TO/exos
#
# Everything happens in namespaces of a lab of its own; what is started is ended by its id, also when
# this script is interrupted.
. "$(dirname "$0")/../common.sh"
need_root "echo, discard, chargen and cat over AF_XDP"
need_programs "echo, discard, chargen and cat" python3
begin
lab=tools-$$

own=(--link xdp:wire --address 10.10.0.10/24 --address fd10::10/64)
# start PROGRAM ARGUMENTS...: one of our servers, in side a.
start() { launch 10.10 "$exos" lab exec --name $lab a -- "$exos" "$@" "${own[@]}" || { bad "$1 starts" "$(cat "$work/err")"; return 1; }; }
# For two minutes at most.
inside() { timeout -k 1 120 "$exos" lab exec --name $lab "$@"; }
# ours PROGRAM ARGUMENTS...: one of our programs in side a, as the client of one in side b.
ours() { inside a -- "$exos" "$@" "${own[@]}"; }
# peer ARGUMENTS...: Linux's stack in side b.
peer() { inside b -- python3 -S "$here/tools.py" "$@"; }
# field PATH: of the last line of JSON, written as in Python.
field() { grep '^{' "$work/out" | tail -n 1 | python3 -S -c "import json, sys; v = json.load(sys.stdin); print(v$1)"; }

lab_up || { bad "lab up"; exit 1; }
head -c 3000000 /dev/urandom >"$work/noise"

if start echo --json; then
    for address in 10.10.0.10 fd10::10; do
        check "echo $address: every byte comes back" peer echo $address 7 3000000 1
        check "echo $address: 200 connections at once" peer echo $address 7 20000 200
        check "echo $address: a datagram" peer datagram $address 7 40000 answered
        check "echo $address: a datagram in fragments" peer datagram $address 7 40000 answered 4000
        check "echo $address: a datagram of a service is not answered" peer datagram $address 7 19 silent
    done
    check "echo: who does not read is not read from" peer stall 10.10.0.10 7
    check "echo: and others go on" peer echo 10.10.0.10 7 100000 1
    if command -v nc >/dev/null; then
        inside b -- nc -N 10.10.0.10 7 <"$work/noise" >"$work/got"
        check "echo: nc" cmp "$work/got" "$work/noise"
    else
        echo "SKIPPED: nc: not installed (apt-get install netcat-openbsd)"
    fi
    # It would not end by itself; the server's end is its end.
    said=; read -rt 60 said < <(inside b -- curl -sSN -m 100 telnet://10.10.0.10:7 <<<hello 2>/dev/null)
    same "echo: curl" "hello" "$said"
    kill -USR1 "$server"
    check "echo: statistics on SIGUSR1" await grep -q exos.tools.statistics "$work/out"
    stop; same "echo: it stops in order" 0 $?
    same "echo: what came was sent back" "True" "$(field '["bytes_received"] >= 14000000')"
    same "echo: datagrams" "4" "$(field '["counters"]["service_datagrams_answered"]')"
fi

if start chargen --bytes 20M --json; then
    check "chargen: the pattern, and its end" peer source 10.10.0.10 19 20971520 pattern
    check "chargen over IPv6" peer source fd10::10 19 20971520 pattern
    stop; same "chargen: it stops in order" 0 $?
    same "chargen: bytes sent" 41943040 "$(field '["bytes_sent"]')"
    same "chargen: how each ended" "done done" "$(field '["ended"][0]["end"], v["ended"][1]["end"]')"
    same "chargen: goodput is told" "True" "$(field '["sent_bits_per_sec"] > 1e6')"
fi

if start chargen --seconds 1; then
    check "chargen ends after its time" peer source 10.10.0.10 19 any pattern
    stop
fi

if start discard --json; then
    check "discard: it takes all" peer sink 10.10.0.10 9 30000000
    stop; same "discard: it stops in order" 0 $?
    same "discard: bytes received" 30000000 "$(field '["bytes_received"]')"
fi

# Our programs as clients of Linux's. Each of those writes to a file of its own: what another said before
# would be taken for what it says.
inside b -- python3 -S "$here/tools.py" serve-sink 5000 4 >"$work/peer5000" &
sink=$!
await grep -q listening "$work/peer5000"
ours chargen --connect 10.10.0.2:5000 --connections 4 --bytes 5M >/dev/null 2>"$work/err"
same "chargen --connect succeeds" 0 $?
wait $sink; has "and everything arrived" "20971520 bytes in 4 connections" "$(cat "$work/peer5000")"
inside b -- python3 -S "$here/tools.py" serve-source 5001 7000000 >"$work/peer5001" &
source=$!
await grep -q listening "$work/peer5001"
ours discard --connect '[fd10::2]:5001' --json >"$work/out" 2>"$work/err"
same "discard --connect succeeds" 0 $?
wait $source; same "and took everything" 7000000 "$(field '["bytes_received"]')"
refused=$(ours discard --connect 10.10.0.2:5999 2>&1); same "a refused connection fails" 1 $?
has "and the line says so" "was refused" "$refused"

# cat, both ways round.
inside b -- python3 -S "$here/tools.py" serve-echo 5002 >"$work/peer5002" &
echo=$!
await grep -q listening "$work/peer5002"
ours cat 10.10.0.2:5002 <"$work/noise" >"$work/got" 2>"$work/err"
same "cat to an echo server succeeds" 0 $?
wait $echo; check "and everything came back" cmp "$work/got" "$work/noise"
refused=$(ours cat 10.10.0.2:5999 </dev/null 2>&1); same "cat: a refused connection fails" 1 $?
has "cat: and the line says so" "was refused" "$refused"
ours cat --listen --port 7000 <"$work/noise" >"$work/got" 2>"$work/err" &
cat=$!
await grep -q listening "$work/err"
check "cat --listen: what it sends arrives" peer exchange 10.10.0.10 7000 "$work/noise"
wait $cat; same "cat --listen succeeds" 0 $?
check "and it took everything" cmp "$work/got" "$work/noise"
# A reader that goes away ends it, with a line that says why.
inside b -- python3 -S "$here/tools.py" serve-source 5003 50000000 >"$work/peer5003" &
source=$!
await grep -q listening "$work/peer5003"
ours cat 10.10.0.2:5003 </dev/null 2>"$work/err" | head -c 1000 >/dev/null
has "cat: a reader that goes away" "standard output" "$(cat "$work/err")"
wait $source
# Side by side with the host, on its address.
inside b -- python3 -S "$here/tools.py" serve-echo 5004 >"$work/peer5004" &
echo=$!
await grep -q listening "$work/peer5004"
inside a -- "$exos" cat 10.10.0.2:5004 --link xdp:wire --share-address <"$work/noise" >"$work/got" 2>"$work/err"
same "cat --share-address succeeds" 0 $?
wait $echo; check "cat --share-address: everything came back" cmp "$work/got" "$work/noise"
# SIGINT while it waits.
"$exos" lab exec --name $lab a -- "$exos" cat --listen --port 7000 --link xdp:wire --address 10.10.0.10/24 </dev/null >/dev/null 2>"$work/err" &
server=$!
await grep -q listening "$work/err"
kill -INT "$server"; wait "$server"; same "cat: a signal ends it with status 1" 1 $?
server=
exit $failures
