#!/usr/bin/env bash
# What an idle connection of HTTPS takes of a server's memory, beside one of HTTP and beside nginx: so many connections ask for a page
# each and then rest; what the server's processes have in memory then, less what they had with a tenth of the connections, is divided by
# the others. Prints that, and "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/serve/soaks/tls-memory.sh PATH/TO/exos
#   EXOS_CONNECTIONS=10000 tests/serve/soaks/tls-memory.sh PATH/TO/exos      more than 500
#
# All begin at once, and a server gives each handshake ten seconds: a debug build on a busy machine comes to some hundreds in that time.
# What the kernel keeps for sockets is not in it: that is nginx's and --sockets', not ours on packets.
. "$(dirname "$0")/../../common.sh"
all=${EXOS_CONNECTIONS:-500}
most=8192
descriptors=$((all * 5 / 4 + 1000))
need_root "memory of idle connections"
need_programs "memory of idle connections" nginx openssl curl
be_alone "$@"
begin
lab=tls-memory-$$
ulimit -n $descriptors 2>/dev/null || skip "memory of idle connections" "no $descriptors descriptors (ulimit -n)"
mkdir "$work/site" "$work/nginx"
head -c 100 /dev/zero | tr '\0' x >"$work/site/page"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/key" -out "$work/pem" -days 9 -subj /CN=lab.test 2>/dev/null
chmod 600 "$work/key"
cat >"$work/nginx/conf" <<END
daemon off; master_process off; worker_rlimit_nofile $descriptors; pid $work/nginx/pid; error_log $work/nginx/error;
events { worker_connections $descriptors; }
http { access_log $work/log; keepalive_timeout 1h; ssl_certificate $work/pem; ssl_certificate_key $work/key; ssl_protocols TLSv1.3;
    client_body_temp_path $work/nginx/a; proxy_temp_path $work/nginx/b; fastcgi_temp_path $work/nginx/c;
    uwsgi_temp_path $work/nginx/d; scgi_temp_path $work/nginx/e;
    server { listen 10.10.0.1:80 backlog=4096; listen 10.10.0.1:443 ssl backlog=4096; root $work/site; } }
END
lab_up || { bad "lab up"; exit 1; }

loads=
cleanup() {
    # shellcheck disable=SC2086
    end $loads $server
    "$exos" lab down --name "$lab" >/dev/null 2>&1
    rm -rf "$work"
}
# rest URL COUNT NUMBER: so many connections more, each with a request, stay until they are ended.
rest() {
    local insecure=()
    [[ $1 = http:* ]] || insecure=(--insecure)
    "$exos" lab exec --name "$lab" b -- "$exos" load "$1" --link xdp:wire --address "10.10.0.2$3/24" --connections "$2" --think 1h --duration 1h --timeout 60s --idle sleep \
        "${insecure[@]}" >/dev/null 2>"$work/load.err" </dev/null &
    loads="$loads $!"
}
# leave: the connections are reset.
leave() {
    # shellcheck disable=SC2086
    { kill -INT $loads; wait $loads; } 2>/dev/null
    loads=
}
# Every answer is a line of the log.
answered() { [ "$(wc -l <"$work/log" 2>/dev/null || echo 0)" -ge "$1" ]; }
resident() { awk '/^VmRSS/ { print $2 * 1024 }' "/proc/$server/status"; }
# measure NAME URL: prints bytes of a connection, which are in $each, too.
measure() {
    local few=$((all / 10)) before
    each=
    # The link of a load is an interface's: one at a time has it, so that the few go when the many come.
    rest "$2" $few 0
    await answered $few || { bad "$1: $few are answered" "$(cat "$work/load.err")"; leave; return; }
    sleep 1
    before=$(resident)
    leave
    rest "$2" $((all + few)) 1
    await answered $((all + 2 * few)) || { bad "$1: all are answered" "$(wc -l <"$work/log") $(cat "$work/load.err")"; leave; return; }
    sleep 1
    each=$((($(resident) - before) / all))
    echo "# $1: $each bytes for each of $all"
    leave
}
exos_serves() {
    rm -f "$work/log"
    launch http "$exos" lab exec --name "$lab" a -- "$exos" serve "$work/site" --tls-cert "$work/pem" --tls-key "$work/key" --log "$work/log" "$@" ||
        { bad "exos serve starts" "$(cat "$work/err")"; return 1; }
}
for scheme in ${EXOS_SCHEMES:-http https}; do
    if exos_serves --link xdp:wire --address 10.10.0.10/24; then
        measure "exos serve, $scheme" $scheme://10.10.0.10/page
        [ $scheme = http ] || check "an idle connection takes $most bytes at most" [ "${each:-$((most + 1))}" -le $most ]
        end "$server"; server=
    fi
    if exos_serves --sockets; then
        measure "exos serve --sockets, $scheme" $scheme://10.10.0.1/page
        end "$server"; server=
    fi
    rm -f "$work/log"
    "$exos" lab exec --name "$lab" a -- nginx -c "$work/nginx/conf" >/dev/null 2>&1 & server=$!
    if await client curl -sfk -o /dev/null $scheme://10.10.0.1/page; then
        measure "nginx, $scheme" $scheme://10.10.0.1/page
    else
        bad "nginx starts" "$(cat "$work/nginx/error")"
    fi
    end "$server"; server=
done
[ $failures = 0 ]
