#!/usr/bin/env bash
# exos ss: the sockets of each kind of program, in text and JSON, and whose they are. Prints "ok NAME", "not ok NAME: why" or
# "SKIPPED: ..." lines.
#
#   tests/tools/ss.sh PATH/TO/exos
. "$(dirname "$0")/../common.sh"
need_root "sockets of programs"
need_programs "sockets of programs" curl python3 setpriv:util-linux
began=()
cleanup() {
    for pid in "${began[@]}"; do is_ours "$pid" && kill "$pid" && kill -CONT "$pid"; wait "$pid" 2>/dev/null; done
    "$exos" lab down --name $lab >/dev/null 2>&1
    rm -rf "$work"
}
begin
lab=ss-$$
export EXOS_XOKD=$work/no-daemon
cp "$exos" "$work/exos"
chmod 755 "$work" "$work/exos"
mkdir "$work/site"
echo hello >"$work/site/index.html"
# of PROCESS OPTION...: what it has.
of() { local pid=$1; shift; timeout -k 1 60 "$exos" ss --pid "$pid" "$@"; }
# begin_in_a COMMAND...: its process is $last.
begin_in_a() { timeout -k 1 400 "$exos" lab exec --name $lab a -- "$@" >"$work/out" 2>"$work/err" </dev/null & began+=($!); last=$!; }
# The program, of which the one that bounds its time is the parent.
process() { pgrep -P "$1" || echo "$1"; }

lab_up || { bad "lab up"; exit 1; }
begin_in_a "$exos" serve "$work/site" --link xdp:wire --address 10.10.0.10/24
await client curl -so /dev/null http://10.10.0.10/
serve=$(process $last)
same "a server: its listener" "tcp LISTEN *:80 users:((\"serve\",pid=$serve))" "$(of "$serve" -Htlnp | awk '{ print $1, $2, $5, $7 }')"
# A connection that stands, with a request that is not whole.
"$exos" lab exec --name $lab b -- python3 -c 'import socket, time; s = socket.create_connection(("10.10.0.10", 80)); s.sendall(b"GET / HT"); time.sleep(600)' &
began+=($!)
stands() { [ "$(of "$serve" -Ht state established | wc -l)" = 1 ]; }
check "a connection that stands" await stands
has "with addresses of both sides" "10.10.0.10:80 10.10.0.2:" "$(of "$serve" -Ht)"
has "what TCP knows of it" "mss:1448 rcvmss:" "$(of "$serve" -ti)"
has "a line of headings" "Local Address:Port" "$(of "$serve")"
same "nothing of UDP" "" "$(of "$serve" -Hu)"
same "nothing in a state that none is in" "" "$(of "$serve" -H state syn-sent)"
same "JSON" "exos.ss/1 serve LISTEN ESTAB True" "$(of "$serve" -a --json | python3 -S -c '
import json, sys
report = json.load(sys.stdin)
sockets = [s for s in report["sockets"] if s["state"] != "TIME-WAIT"]
print(report["schema"], sockets[0]["program"], *(s["state"] for s in sockets), sockets[1]["tcp"]["mss_bytes"] > 1000)')"
has "a filter that is none" "this is no filter" "$(of "$serve" state open 2>&1)"
# One that no other test is at the same time.
same "another user sees nothing of it" "" "$(timeout 60 setpriv --reuid 54321 --regid 54321 --clear-groups "$work/exos" ss -Ha)"

kill -STOP "$serve"
said=$(timeout 60 "$exos" ss --pid "$serve" 2>&1); status=$?
kill -CONT "$serve"
same "a program that is stopped has not answered" 1 $status
has "and it is said" "not all sockets of serve (process $serve)" "$said"
check "and once it goes on it does" await of "$serve"
kill "${began[0]}"; wait "${began[0]}" 2>/dev/null

# Of a server that forks: parent and child have its listener. The child ends with it.
forks='import os, socket, time
s = socket.create_server(("", 8081))
parent = os.getpid()
if os.fork(): time.sleep(400)
while os.getppid() == parent: time.sleep(0.1)'
# Between exos run and its program is its guard.
program_of() { pgrep -x python3 -P "$(pgrep -d , -P "$1")"; }
holders() { echo $(program_of "$1") $(pgrep -x python3 -P "$(program_of "$1")"); }
have_both() { [ "$(holders "$(process $run)" | wc -w)" = 2 ]; }
listeners() { of "$@" -Hltp | tr -s ' '; }

# Unmodified programs go by their names and processes: in ss, and where their packets are shown.
for way in "" --intercept; do
    # shellcheck disable=SC2086
    begin_in_a "$exos" run $way --link xdp:wire --address 10.10.0.11/24 -- python3 -m http.server 8080
    run=$last
    await client curl -so /dev/null "http://10.10.0.11:8080/"
    supervisor=$(process $run)
    program=$(program_of "$supervisor")
    listener="10.10.0.11:8080 0.0.0.0:* users:((\"python3\",pid=$program))"
    has "exos run $way: its listener, by the program's name and process" "$listener" "$(listeners "$supervisor")"
    has "exos run $way: and asked of that" "$listener" "$(listeners "$program")"
    has "exos run $way: its packets" "run:python3[$supervisor]" "$(timeout 60 "$exos" dump --pid "$supervisor" -c 1 2>&1 &
        while kill -0 $! 2>/dev/null; do client curl -sm 2 -o /dev/null "http://10.10.0.11:8080/"; done)"
    kill $run; wait $run 2>/dev/null
    # shellcheck disable=SC2086
    begin_in_a "$exos" run $way --link xdp:wire --address 10.10.0.11/24 -- python3 -c "$forks"
    run=$last
    check "exos run $way: a server forks" await have_both
    supervisor=$(process $run)
    read -r parent child <<<"$(holders "$supervisor")"
    both="users:((\"python3\",pid=$parent),(\"python3\",pid=$child))"
    shows() { [[ $(listeners "$child") == *"$both"* ]]; }
    check "exos run $way: a listener of two processes" await shows
    kill $run; wait $run 2>/dev/null
done

# A load generator.
"$exos" lab exec --name $lab b -- python3 -S -m http.server 8000 --directory "$work/site" >/dev/null 2>&1 & began+=($!)
await client curl -so /dev/null http://10.10.0.2:8000/
begin_in_a "$exos" load --link xdp:wire --address 10.10.0.21/24 --idle sleep --connections 5 --duration 300s http://10.10.0.2:8000/
load=$last
sees() { of "$(process $load)" -Htap | grep -q '10.10.0.2:8000 .*"load"'; }
if await sees; then ok "a load generator: its connections"; else bad "a load generator: its connections" "$(cat "$work/err")"; fi

exit $((failures > 0))
