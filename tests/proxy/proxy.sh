#!/usr/bin/env bash
# Upstreams behind the server, on the lab wire over packets, over the kernel's sockets, on two cores and over HTTPS: one of ours that
# behaves well and badly (upstream.py, proxy.py), nginx, and Python's server; and nginx as a proxy before the same upstreams, with whose
# answers ours are compared. Prints "ok NAME", "not ok NAME: why" and "SKIPPED: ..." lines.
#
#   tests/proxy/proxy.sh PATH/TO/exos [daemon]
#
# With `daemon` the server is a program of user 65534 that has its link from the daemon, and our upstream is all there is.
#
# Everything happens in namespaces of its own; what is started is ended by its id. Nothing here judges how fast it is.
. "$(dirname "$0")/../common.sh"
need_root "proxying over AF_XDP"
need_programs "proxying" python3 curl
be_alone "$@"
others=()
if [[ ${2:-} == daemon ]]; then
    lab=proxy-xokd-$$
    . "$(dirname "$0")/../daemon/common.sh"
    # Behind a slot there is no way to the host: the server's own upstreams are outside of the lab, as it is.
    beside() { "$@" >>"$work/beside" 2>&1 </dev/null & programs+=($!); }
    listens() { bash -c "</dev/tcp/127.0.0.1/$1"; }
else
    begin
    lab=proxy-$$
    cleanup() {
        # shellcheck disable=SC2086
        end $server ${others[*]}
        "$exos" lab down --name "$lab" >/dev/null 2>&1
        rm -rf "$work"
    }
    # beside COMMAND...: runs beside the server, in its side of the wire, until the end.
    beside() { "$exos" lab exec --name "$lab" a -- "$@" >>"$work/beside" 2>&1 </dev/null & others+=($!); }
    # listens PORT
    listens() { inside a -- bash -c "</dev/tcp/127.0.0.1/$1"; }
fi

mkdir -p "$work/site/both" "$work/static/dir" && chmod 755 "$work"
echo static >"$work/site/both/there.txt"
echo index >"$work/static/index.html"
head -c 3000000 /dev/urandom >"$work/static/big.bin"
head -c 3000000 /dev/urandom >"$work/upload"
: >"$work/static/empty"
sites() {
    cat <<END
[[site]]
root = "site"
[[site.proxy]]
path = "/app"
to = ["http://127.0.0.1:9100"]
body = "16MiB"
[[site.proxy]]
path = "/hasty"
to = "http://127.0.0.1:9100/app"
timeout = "2s"
[[site.proxy]]
path = "/base"
to = ["http://127.0.0.1:9100/app/"]
host = "upstream"
[[site.proxy]]
path = "/unix"
to = "http://unix:$work/app.sock:/app"
trusted = ["10.10.0.0/24"]
[[site.proxy]]
path = "/both"
to = "http://127.0.0.1:9100/app"
files_first = true
[[site.proxy]]
path = "/some"
to = ["http://127.0.0.1:9109/app", "http://127.0.0.1:9101/app", "http://127.0.0.1:9102/app"]
fail_timeout = "200ms"
[[site.proxy]]
path = "/nobody"
to = "http://127.0.0.1:9109"
[[site.proxy]]
path = "/nginx"
to = "http://127.0.0.1:9200/"
[[site.proxy]]
path = "/python"
to = "http://127.0.0.1:9300/"
[[site.proxy]]
path = "/closed"
to = "http://127.0.0.1:9100/app"
[[site.access]]
path = "/closed/*"
rules = ["deny all"]
[[site.fields]]
path = "/app/*"
set = { X-Rule = "yes" }
END
}
{ printf '[log]\nfile = "access.log"\n'; sites; } >"$work/serve.toml"
{ sed -n '1,2p' "$work/serve.toml"; printf '[tls]\nself_signed = true\n'; sites; } >"$work/tls.toml"

# behave WHERE URL [MESSAGES]: the upstream of ours, which behaves well and badly.
behave() {
    about="$1: "
    : >"$work/upstream.log"
    if client python3 "$here/proxy.py" "$2" "$work/upstream.log" "${3:-$work/err}" "$work/access.log"; then :; else failures=$((failures + 1)); fi
    about=
}
# code URL ARGUMENTS...
code() { client curl -ksS -m 60 -o /dev/null -w '%{http_code}' "$@"; }
sum() { md5sum | cut -d' ' -f1; }
# answer URL ARGUMENTS...: some fields, whose names nginx writes in its own way, the status and the content.
answer() {
    client curl -ksS -m 60 -H "Host: a.test" -D "$work/head" -o "$work/body" "$@"
    tr -d '\r' <"$work/head" | sed 's/^[^:]*:/\L&/' | grep -E '^(content-(length|type|range)|last-modified|etag|location|accept-ranges|allow):' | sort
    sed -n '1s/^[^ ]* \([0-9]*\).*/\1/p' "$work/head"
    [[ " $* " == *" -I "* ]] || sum <"$work/body"
}

lab_up || { bad "lab up"; exit 1; }
inside a -- ip link set lo up
wire=$(client ip -br link | grep -v '^lo' | cut -d' ' -f1 | cut -d@ -f1)
for where in 9100 9101 "$work/app.sock"; do beside python3 "$here/upstream.py" "$where" "$work/upstream.log"; done
beside python3 "$here/upstream.py" 9102 "$work/upstream.log"
beside python3 -m http.server --bind 127.0.0.1 --directory "$work/static" 9300
await test -S "$work/app.sock"
for port in 9100 9101 9102 9300; do await listens $port; done
if [[ ${2:-} == daemon ]]; then
    : >"$work/access.log"; chmod 666 "$work/access.log"
    allow 'ports = ["80"]'
    start_daemon || { bad "the daemon starts" "$(cat "$work/daemon.out")"; exit 1; }
    start server serve --config "$work/serve.toml" --address 10.10.0.10/24 --json || { bad "the server starts" "$(cat "$work/server.err")"; exit 1; }
    behave "by the daemon" http://10.10.0.10 "$work/server.err"
    server=$started
    stop; same "it stops in order" 0 $?
    exit $failures
fi
nginx=$(command -v nginx)
if [ -n "$nginx" ]; then
    cat >"$work/nginx.conf" <<END
user root; daemon off; master_process off; error_log $work/nginx.log; pid $work/nginx.pid; events {}
http {
    access_log off; client_body_temp_path $work/t1; proxy_temp_path $work/t2; fastcgi_temp_path $work/t3; uwsgi_temp_path $work/t4; scgi_temp_path $work/t5;
    client_max_body_size 16m; types { text/html html; }
    server { listen 127.0.0.1:9200; root $work/static; location /moved { return 302 /elsewhere; } }
    server {
        listen 8000; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host \$http_host;
        location /app { proxy_pass http://127.0.0.1:9100; }
        location /nginx/ { proxy_pass http://127.0.0.1:9200/; }
        location /python/ { proxy_pass http://127.0.0.1:9300/; }
    }
}
END
    beside "$nginx" -c "$work/nginx.conf"
    await listens 9200
else
    echo "SKIPPED: proxying beside nginx: not installed (apt-get install nginx)"
fi

# compare WHERE URL: answers as of nginx before the same upstreams.
compare() {
    about="$1: as nginx: "
    local theirs=http://10.10.0.1:8000 path
    for path in /nginx/ /nginx/big.bin /nginx/empty /nginx/none /nginx/dir /nginx/moved /python/ /python/big.bin /python/none /app/length/100000 \
        /app/chunked/100000 /app/close/100000 /app/status/302 /app/status/204 /app/status/418 /app/none; do
        same "$path" "$(answer "$theirs$path")" "$(answer "$2$path")"
    done
    for path in /nginx/big.bin /app/length/1000; do
        same "HEAD $path" "$(answer "$theirs$path" -I)" "$(answer "$2$path" -I)"
    done
    same "a part" "$(answer "$theirs/nginx/big.bin" -r 1000-2000)" "$(answer "$2/nginx/big.bin" -r 1000-2000)"
    same "several parts" "$(code "$theirs/nginx/big.bin" -r 0-1,5-6)" "$(code "$2/nginx/big.bin" -r 0-1,5-6)"
    local tag; tag=$(client curl -sSI -m 60 "$theirs/nginx/big.bin" | tr -d '\r' | sed -n 's/^ETag: //p')
    same "what the client has already" "304 304" "$(code "$theirs/nginx/big.bin" -H "If-None-Match: $tag") $(code "$2/nginx/big.bin" -H "If-None-Match: $tag")"
    for way in "-X DELETE" "-d a=1" "--data-binary @$work/upload" "-T $work/upload" "-H Transfer-Encoding:chunked -d abc" "-H Expect:100-continue --data-binary @$work/upload" "-0"; do
        # By HTTPS curl offers HTTP/1.0 alone then, which is no protocol that servers name.
        [ "$way" = -0 ] && [ "$1" = HTTPS ] && continue
        # Lines that differ are about the connection and the client; names of fields that came by HTTP/2 are in lower case.
        # shellcheck disable=SC2086
        said() { client curl -ksS -m 60 $way "$1/app/say?a=%20b" | grep -viE '^(connection|via|forwarded|x-forwarded-[a-z]*|host|content-length|transfer-encoding|expect):' | sed -E 's,HTTP/1.0,HTTP/1.1,; s,^[A-Za-z-]+:,\L&,'; }
        same "a request with $way" "$(said "$theirs")" "$(said "$2")"
    done
    about=
}

if launch_in_lab --config "$work/serve.toml" --link "xdp:$wire" --address 10.10.0.10/24 --json; then
    behave packets http://10.10.0.10
    [ -z "$nginx" ] || compare packets http://10.10.0.10
    stop; same "packets: it stops in order" 0 $?
    has "packets: and has counted" '"proxy_connections_reused":' "$(tail -1 "$work/out")"
else
    bad "the server starts" "$(cat "$work/err")"
fi
if launch_in_lab --config "$work/serve.toml" --sockets --json; then
    behave sockets http://10.10.0.1
    # An upstream that ends and comes back.
    same "sockets: an upstream answers" 200 "$(code http://10.10.0.1/some/say)"
    if command -v ab >/dev/null; then
        head -c 2000 /dev/urandom >"$work/post"
        client ab -q -k -n 1000 -c 20 -p "$work/post" -T text/plain http://10.10.0.1/app/say >"$work/ab" 2>&1
        same "sockets: 1,000 requests with bodies" "1000 0 0" "$(sed -nE 's/^(Complete|Failed) requests: *([0-9]+)/\2/p' "$work/ab" | tr '\n' ' ')$(grep -c Non-2xx "$work/ab")"
    else
        echo "SKIPPED: 1,000 requests with bodies: ab is not installed (apt-get install apache2-utils)"
    fi
    if command -v wrk >/dev/null; then
        "$exos" lab exec --name "$lab" b -- wrk -t 1 -c 50 -d 4 http://10.10.0.1/some/length/100 >"$work/wrk" 2>&1 &
        load=$!
        for _ in 1 2 3; do
            end "${others[3]}"
            sleep 0.3
            "$exos" lab exec --name "$lab" a -- python3 "$here/upstream.py" 9102 "$work/upstream.log" >>"$work/beside" 2>&1 </dev/null &
            others[3]=$!
            await listens 9102
            sleep 0.3
        done
        wait $load
        # What had begun when it ended is lost, and nothing else.
        lost=$(sed -n 's/.*Non-2xx or 3xx responses: //p' "$work/wrk"); all=$(sed -n 's/^ *\([0-9]*\) requests in.*/\1/p' "$work/wrk")
        if [ "${all:-0}" -gt 0 ] && [ "${lost:-0}" -le 150 ]; then ok "sockets: under load an upstream ends and comes back"; else bad "sockets: under load an upstream ends and comes back" "$(cat "$work/wrk")"; fi
        same "sockets: and all goes on" "200 200 200" "$(code http://10.10.0.1/some/say) $(code http://10.10.0.1/some/say) $(code http://10.10.0.1/some/say)"
    fi
    stop; same "sockets: it stops in order" 0 $?
else
    bad "the server starts on sockets" "$(cat "$work/err")"
fi
if launch_in_lab --config "$work/tls.toml" --link "xdp:$wire" --address 10.10.0.10/24 --json; then
    behave "HTTPS" https://10.10.0.10
    [ -z "$nginx" ] || compare "HTTPS" https://10.10.0.10
    stop; same "HTTPS: it stops in order" 0 $?
else
    bad "the server starts with HTTPS" "$(cat "$work/err")"
fi
# Two cores, each with a pool of its own.
cores=$(nproc)
if [ "$cores" -ge 2 ] && "$exos" lab down --name "$lab" >/dev/null 2>&1 && "$exos" lab up --name "$lab" --wire plain --queues 2 >/dev/null; then
    end ${others[*]}; others=()
    inside a -- ip link set lo up
    for where in 9100 9101 9102; do beside python3 "$here/upstream.py" "$where" "$work/upstream.log"; await listens "$where"; done
    rm -f "$work/app.sock"; beside python3 "$here/upstream.py" "$work/app.sock" "$work/upstream.log"; await test -S "$work/app.sock"
    sed 's/^path = "\/unix"/connections = 400\nkeep = 1\n&/' "$work/serve.toml" >"$work/cores.toml"
    if launch_in_lab --config "$work/cores.toml" --link "xdp:$wire" --address 10.10.0.10/24 --cores 2 --json; then
        url=http://10.10.0.10
        got=$(for _ in $(seq 40); do code "$url/app/length/1000"; echo; done | sort | uniq -c | tr -s ' ')
        same "two cores: all are answered" " 40 200" "$got"
        same "two cores: a long answer" "$(head -c 1000000 < <(python3 -c 'import sys; sys.stdout.buffer.write((bytes(range(256))*4000)[:1000000])') | sum)" "$(client curl -sS -m 60 "$url/app/chunked/1000000" | sum)"
        stop; same "two cores: it stops in order" 0 $?
    else
        bad "the server starts on two cores" "$(cat "$work/err")"
    fi
fi
# Behind haproxy, which says for whom it connects: in plain text, and before HTTPS that it passes on.
if command -v haproxy >/dev/null; then
    sed 's/^\[tls\]/[clients]\nproxy_protocol = ["10.10.0.0\/24"]\n&/' "$work/tls.toml" >"$work/behind.toml"
    cat >"$work/haproxy.cfg" <<END
defaults
    mode tcp
    timeout connect 10s
    timeout client 60s
    timeout server 60s
listen one
    bind 127.0.0.1:7001
    server s @ADDRESS@:80 send-proxy
listen two
    bind 127.0.0.1:7002
    server s @ADDRESS@:80 send-proxy-v2
listen encrypted
    bind 127.0.0.1:7003
    server s @ADDRESS@:443 send-proxy-v2
END
    client ip link set lo up
    behind() {
        about="behind haproxy over $1: "
        sed "s/@ADDRESS@/$2/" "$work/haproxy.cfg" >"$work/haproxy.now"
        "$exos" lab exec --name "$lab" b -- haproxy -db -f "$work/haproxy.now" >"$work/haproxy.log" 2>&1 </dev/null &
        local balancer=$! said
        await client bash -c '</dev/tcp/127.0.0.1/7003'
        : >"$work/access.log"
        for url in http://127.0.0.1:7001 http://127.0.0.1:7002 https://127.0.0.1:7003; do
            said=$(client curl -ksS -m 60 "$url/app/say")
            has "$url: the upstream hears of the client" "X-Forwarded-For: 127.0.0.1" "$said"
        done
        await eval '[ "$(grep -c "^127.0.0.1 .*GET /app/say" "$work/access.log")" = 3 ]'
        same "so does the log" 3 "$(grep -c '^127.0.0.1 .*GET /app/say' "$work/access.log")"
        if client curl -sS -m 10 "http://$2/app/say" >/dev/null 2>&1; then bad "who says nothing is sent away" "it is answered"; else ok "who says nothing is sent away"; fi
        end $balancer
        about=
    }
    if launch_in_lab --config "$work/behind.toml" --link "xdp:$wire" --address 10.10.0.10/24 --json; then
        behind packets 10.10.0.10
        stop; same "behind haproxy over packets: it stops in order" 0 $?
    else
        bad "the server starts behind haproxy" "$(cat "$work/err")"
    fi
    if launch_in_lab --config "$work/behind.toml" --sockets --json; then
        behind sockets 10.10.0.1
        stop; same "behind haproxy over sockets: it stops in order" 0 $?
        has "behind haproxy over sockets: and has counted" '"proxy_protocol_refusals":1' "$(tail -1 "$work/out")"
    else
        bad "the server starts on sockets behind haproxy" "$(cat "$work/err")"
    fi
else
    echo "SKIPPED: behind haproxy: not installed (apt-get install haproxy)"
fi
# By the command line, to several, on the loopback interface.
if launch_in_lab --sockets --port 8080 --proxy "/app=http://127.0.0.1:9101,http://127.0.0.1:9102" --proxy "/nginx=http://127.0.0.1:9200/"; then
    for _ in 1 2 3 4; do inside a -- curl -sS -m 60 -o /dev/null http://127.0.0.1:8080/app/say; done
    same "by the command line both are asked" 200 "$(inside a -- curl -sS -m 60 -o /dev/null -w '%{http_code}' http://127.0.0.1:8080/app/say)"
    stop
else
    bad "the server starts by the command line" "$(cat "$work/err")"
fi
exit $failures
