#!/usr/bin/env bash
# Unmodified servers of an ordinary user, by the daemon: nginx with two workers, and python3's http.server, by shared sockets and by
# intercepted calls, with clients on the lab's wire. The user has no capability, and what it had is free again afterwards. Prints "ok NAME",
# "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/daemon/unmodified.sh PATH/TO/exos
lab=unmodified-$$
. "$(dirname "$0")/common.sh"
need_programs "unmodified servers of a user" curl nginx:nginx-light python3
mkdir "$work/docs" "$work/nginx"
head -c 3000000 /dev/urandom >"$work/docs/noise"
echo hello >"$work/docs/small"
chmod -R a+rX "$work/docs"
chown $user "$work/nginx"

lab_up || { bad "lab up"; exit 1; }
allow 'addresses = "any"' 'protocols = ["tcp", "udp"]' 'ports = ["1024-65535"]'
start_daemon || { bad "the daemon starts" "$(cat "$work/daemon.out")"; exit 1; }
at=10.10.0.10
cat >"$work/nginx.conf" <<END
daemon off; worker_processes 2; pid $work/nginx/pid; error_log $work/nginx/log;
events { worker_connections 256; }
http { access_log off; sendfile on; client_body_temp_path $work/nginx/body; proxy_temp_path $work/nginx/proxy;
    fastcgi_temp_path $work/nginx/f; uwsgi_temp_path $work/nginx/u; scgi_temp_path $work/nginx/s;
    server { listen 8080; listen [::]:8080; root $work/docs; } }
END

# as_user WAY PROGRAM...: in that way, as the user, in place of this shell.
as_user() {
    local way=$1; shift
    cd / && exec "${as_nobody[@]}" "$work/exos" run "$way" --xokd "$socket" --address $at/24 --address fd10::10/64 -- "$@"
}
# unmodified WAY PROGRAM...: until it answers on port 8080.
unmodified() {
    as_user "$@" >"$work/server.out" 2>&1 </dev/null &
    server=$!
    await fetch -fo /dev/null "http://$at:8080/small"
}
# gets NAME URL: every byte.
gets() { rm -f "$work/got"; client curl -sS -m 60 -o "$work/got" "$2"; check "$1" cmp "$work/got" "$work/docs/noise"; }
descendants_of() { local child; for child in $(pgrep -P "$1"); do echo "$child"; descendants_of "$child"; done; }
# serves NAME: documents to several clients, by both families; it has no privilege, and its sockets are of that way.
serves() {
    gets "$1: every byte" "http://$at:8080/noise"
    gets "$1: every byte by IPv6" "http://[fd10::10]:8080/noise"
    local child descendants left=0 pids=()
    for child in 1 2 3 4 5 6 7 8; do
        client curl -sS -m 60 -o "$work/got-$child" "http://$at:8080/noise" &
        pids+=($!)
    done
    for child in "${pids[@]}"; do wait "$child" || left=$((left + 1)); done
    for child in 1 2 3 4 5 6 7 8; do cmp -s "$work/got-$child" "$work/docs/noise" || left=$((left + 1)); done
    same "$1: eight clients at once" 0 $left
    # The guard, and behind it the program and its workers.
    descendants=$(descendants_of $server)
    check "$1: its processes are found" test "$(wc -w <<<"$descendants")" -ge 2
    for child in $descendants; do
        same "$1: a process without privilege" "$user 0000000000000000" "$(awk '/^Uid/ { uid = $2 } /^CapEff/ { print uid, $2 }' "/proc/$child/status")"
    done
}
# is_free NAME: nobody answers on its port, and another program binds it.
is_free() {
    await client bash -c "! timeout 5 bash -c '</dev/tcp/$at/8080'" && ok "$1: nothing is left on its port" || bad "$1: nothing is left on its port"
    has "$1: its port is another program's at once" bound "$(as_user "$way" timeout 60 python3 -c 'import socket; socket.create_server(("", 8080)); print("bound")' 2>&1 </dev/null)"
}
# ends NAME: asked to end, it does.
ends() {
    stop && ok "$1: it ends in order" || bad "$1: it ends in order" "$(tail -n 3 "$work/server.out")"
    is_free "$1"
}

for way in --preload --intercept; do
    name="nginx $way"
    if unmodified $way nginx -c "$work/nginx.conf"; then
        serves "$name"
        workers() { pgrep -P "$(cat "$work/nginx/pid")" | sort; }
        before=$(workers)
        same "$name: two workers" 2 "$(wc -w <<<"$before")"
        kill -HUP "$(cat "$work/nginx/pid")"
        changed() { [ "$(workers | wc -w)" = 2 ] && [ -z "$(comm -12 <(echo "$before") <(workers))" ]; }
        check "$name: it reloads" await changed
        gets "$name: and serves on" "http://$at:8080/noise"
        ends "$name"
    else
        bad "$name: it serves" "$(tail -n 3 "$work/server.out")"
        kill "$server" 2>/dev/null; wait "$server"; server=
    fi
    name="python3 http.server $way"
    # At all addresses of both families.
    if unmodified $way python3 -m http.server 8080 --bind :: --directory "$work/docs"; then
        serves "$name"
        # It ends by the signal.
        kill -TERM "$server"; wait "$server"; same "$name: its status is the program's" 143 $?
        server=
        is_free "$name"
    else
        bad "$name: it serves" "$(tail -n 3 "$work/server.out")"
        kill "$server" 2>/dev/null; wait "$server"; server=
    fi
done
exit $((failures > 0))
