#!/usr/bin/env bash
# exos run: unmodified programs whose connections are ours, in side a of a lab; their peers are on Linux's stack in side b. Each does
# its usual job. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/run.sh PATH/TO/exos [--no-preload]
. "$(dirname "$0")/common.sh"
need_root "unmodified programs over AF_XDP"
need_programs "unmodified programs" python3 curl nginx:nginx-light
# Servers are asked to end, for they have workers, and programs have a supervisor.
cleanup() {
    for pid in $server $peer; do kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; done
    "$exos" lab down --name $lab >/dev/null 2>&1
    rm -rf "$work"
}
begin
lab=run-$$
way=${2:-}
chmod 755 "$work"

ip=10.10.0.10
# For two minutes at most.
running=(timeout -k 1 120 "$exos" lab exec --name $lab a -- "$exos" run $way --link xdp:wire --address $ip/24 --address fd10::10/64)
run() { "${running[@]}" "$@"; }
# Nothing of an earlier check is taken for this one's.
got() { rm -f "$work/got"; peer_of curl -so "$work/got" "$1"; cmp "$work/got" "$work/docs/noise"; }
peer_of() { timeout -k 1 120 "$exos" lab exec --name $lab b -- "$@"; }
# serve PORT PROGRAM...: in side a, until it takes connections.
serve() {
    local port=$1; shift
    "${running[@]}" -- "$@" >"$work/server" 2>&1 </dev/null &
    server=$!
    await peer_of python3 -c "import socket; socket.create_connection(('$ip', $port), 2)"
}
# Asks the supervisor to end, which asks the program.
stop_server() { kill $server; wait $server; local status=$?; server=; return $status; }
# optional PROGRAM:PACKAGE: whether it is there.
optional() { command -v "${1%%:*}" >/dev/null || { echo "SKIPPED: exos run ${1%%:*}: not installed (apt-get install ${1##*:})"; return 1; }; }

lab_up || { bad "lab up"; exit 1; }
mkdir "$work/docs"
head -c 3000000 /dev/urandom >"$work/docs/noise"
echo hello >"$work/docs/small"
# nginx FILE PORT: its configuration, with two workers.
configure() {
    cat >"$1" <<END
daemon off; worker_processes 2; pid $1.pid; error_log $1.log; user root;
events { worker_connections 256; }
http { access_log off; sendfile on; client_body_temp_path $1.body; proxy_temp_path $1.proxy; fastcgi_temp_path $1.f;
    uwsgi_temp_path $1.u; scgi_temp_path $1.s;
    server { listen $2; listen [::]:$2; root $work/docs; }
    server { listen $(($2 + 1)); location / { proxy_pass http://10.10.0.2:8000; } } }
END
}

# Clients.
configure "$work/peer.conf" 8000
"$exos" lab exec --name $lab b -- nginx -c "$work/peer.conf" >/dev/null 2>&1 &
peer=$!
await peer_of curl -so /dev/null http://10.10.0.2:8000/small
at=http://10.10.0.2:8000
same "curl: from our address" "200 $ip" "$(run -- curl -so "$work/got" -w '%{http_code} %{local_ip}' $at/noise)"
check "curl: every byte" cmp "$work/got" "$work/docs/noise"
same "curl: IPv6" "200 fd10::10" "$(run -- curl -so "$work/got" -w '%{http_code} %{local_ip}' "http://[fd10::2]:8000/small")"
run -- curl -s http://10.10.0.2:7999/ 2>"$work/err"; same "curl: a refused connection, and its status" 7 $?
run -- curl -sm 1 http://10.10.0.99/ 2>"$work/err"; same "curl: nobody is there" 28 $?
[ "$way" ] && has "--trace shows calls" "connect(" "$(run --trace -- curl -so /dev/null $at/small 2>&1)"
same "this host's own connections stay the kernel's" "" "$(run --trace -- curl -sm 1 http://127.0.0.1:7999/ 2>&1)"
run -- python3 -c 'raise SystemExit(3)'; same "the status is the program's" 3 $?
run -- sh -c 'kill -SEGV $$' 2>"$work/err"; same "a signal ends it as in a shell" 139 $?
run -- no-such-program 2>"$work/err"; has "a program that is not there" "cannot run no-such-program" "$(cat "$work/err")"
if optional wget; then
    rm "$work/got"
    check "wget" run -- wget -qO "$work/got" $at/noise
    check "wget: every byte" cmp "$work/got" "$work/docs/noise"
fi
optional ab:apache2-utils && has "ab: 10 connections at once" "Failed requests:        0" "$(run -- ab -qn 300 -c 10 $at/small 2>&1)"
if optional wrk; then
    said=$(run -- wrk -t 2 -c 20 -d 1s $at/small 2>&1)
    has "wrk: threads" "Requests/sec" "$said"
    same "wrk: without errors" "" "$(grep 'Socket errors' <<<"$said")"
fi
check "python3: sockets beside threads, forks, poll and epoll" run -- python3 "$here/run.py" client 10.10.0.2 8000

peer_of python3 "$here/run.py" sink >"$work/sink" & sink=$!
await grep -q listening "$work/sink"
check "python3: writes and ends at once" run -- python3 "$here/run.py" upload 10.10.0.2
wait $sink; same "and every byte arrives" 3000000 "$(tail -n 1 "$work/sink")"
# What is left alone ends too.
"${running[@]}" -- sh -c 'echo $$ >"$0/shell"; exec sleep 100' "$work" 2>/dev/null & server=$!
await test -s "$work/shell"
check "the program is one of the supervisor's" kill -0 "$(cat "$work/shell")"
kill -KILL "$(awk '/^PPid/ {print $2}' "/proc/$(cat "$work/shell")/status")"
gone() { ! kill -0 "$(cat "$work/shell")" 2>/dev/null; }
check "a supervisor that is killed takes its program along" await gone
wait $server 2>/dev/null; server=

# Servers.
if serve 8080 python3 -m http.server 8080 --directory "$work/docs"; then
    check "python3 -m http.server" got "http://$ip:8080/noise"
    stop_server; same "python3: it is asked to end" 143 $?
else
    bad "python3 -m http.server" "$(tail -n 3 "$work/server")"
fi
configure "$work/ours.conf" 8080
if serve 8080 nginx -c "$work/ours.conf"; then
    check "nginx: sendfile, from one of two workers" got "http://$ip:8080/noise"
    check "nginx: IPv6" got "http://[fd10::10]:8080/noise"
    check "nginx: proxy_pass" got "http://$ip:8081/noise"
    kill -HUP "$(cat "$work/ours.conf.pid")"; sleep 0.5
    check "nginx: after a reload" got "http://$ip:8080/noise"
    optional wrk && same "nginx: 50 connections of wrk" "" "$(peer_of wrk -t 1 -c 50 -d 1s http://$ip:8080/small 2>&1 | grep 'Socket errors')"
    stop_server; same "nginx: it is asked to end, with its workers" 0 $?
else
    bad "nginx" "$(tail -n 3 "$work/server")"
fi
if optional iperf3; then
    "${running[@]}" -- iperf3 -s -1 >"$work/server" 2>&1 </dev/null & server=$!
    await grep -q "listening" "$work/server"
    check "iperf3" peer_of iperf3 -c $ip -t 1
    wait $server; same "iperf3: it ends by itself" 0 $?; server=
fi
check "python3: a server that forks for each connection" python3 "$here/run.py" forking "$exos" $lab $ip $way
check "python3: 400 connections at once, accepted one by one" python3 "$here/run.py" selecting "$exos" $lab $ip $way
exit $((failures > 0))
