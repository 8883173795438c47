#!/usr/bin/env bash
# Answers of upstreams that are kept (RFC 9111), upstreams by HTTPS and checks of their health, with real clients over every carrier; the upstream is
# cached.py. nginx with proxy_cache before the same upstream says what it keeps, beside ours. Prints "ok NAME", "not ok NAME: why" and "SKIPPED: ..." lines.
#
#   tests/proxy/cache.sh PATH/TO/exos
. "$(dirname "$0")/../common.sh"
need_root "answers that are kept"
need_programs "answers that are kept" python3 curl openssl
be_alone "$@"
begin
others=()
cleanup() {
    # shellcheck disable=SC2086
    end $server ${others[*]}
    rm -rf "$work"
}
beside() { "$@" >>"$work/beside" 2>&1 </dev/null & others+=($!); }
listens() { bash -c "</dev/tcp/127.0.0.1/$1"; }

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=app.test -addext subjectAltName=DNS:app.test -addext basicConstraints=critical,CA:FALSE \
    -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
: >"$work/log"; : >"$work/tls.log"; : >"$work/a.log"; : >"$work/b.log"
beside python3 "$here/cached.py" 9100 "$work/log"
beside python3 "$here/cached.py" 9443 "$work/tls.log" "$work/cert.pem" "$work/key.pem"
beside python3 "$here/cached.py" 9101 "$work/a.log"
beside python3 "$here/cached.py" 9102 "$work/b.log"
for port in 9100 9443 9101 9102; do await listens $port; done
cat >"$work/serve.toml" <<END
port = 8080
http2 = true
[tls]
port = 8443
self_signed = true
http3 = true
[cache]
size = "64MiB"
[[site]]
[[site.proxy]]
path = "/"
to = "http://127.0.0.1:9100"
cache = { answer = "2MiB", stale_if_error = "1h", purge = ["127.0.0.1"] }
[[site.proxy]]
path = "/plain"
to = "http://127.0.0.1:9100"
[[site.proxy]]
path = "/good"
to = "https://127.0.0.1:9443"
ca = "$work/cert.pem"
tls_name = "app.test"
[[site.proxy]]
path = "/name"
to = "https://127.0.0.1:9443"
ca = "$work/cert.pem"
tls_name = "other.test"
[[site.proxy]]
path = "/unknown"
to = "https://127.0.0.1:9443"
tls_name = "app.test"
[[site.proxy]]
path = "/none"
to = "https://127.0.0.1:9100"
ca = "$work/cert.pem"
[[site.proxy]]
path = "/checked"
to = ["http://127.0.0.1:9101", "http://127.0.0.1:9102"]
check = { path = "/checked/health", interval = "100ms", timeout = "5s", fails = 2, passes = 2 }
END
times() { grep -c -F -- " $1 " "$work/log"; }
# asked URL ARGUMENTS...: what Cache-Status says, without numbers, of the content's length
asked() {
    curl -ksS -m 60 -D "$work/head" -o "$work/body" "$@"
    printf '%s %s' "$(tr -d '\r' <"$work/head" | sed -nE 's/^cache-status: exos; //Ip' | sed 's/; ttl=.*//')" "$(stat -c %s "$work/body")"
}

# is WANTED URL [OPTION...]: it is answered so.
is() { [ "$(asked "${@:2}")" = "$1" ]; }
if ! launch http "$exos" serve --sockets --config "$work/serve.toml" --json; then
    bad "the server starts" "$(cat "$work/err")"; exit 1
fi
fresh="field=Cache-Control:max-age=1000"
n=0
for carrier in "HTTP/1.1:http://127.0.0.1:8080" "HTTPS:https://127.0.0.1:8443 --http1.1" "HTTP/2:https://127.0.0.1:8443 --http2" \
    "h2c:http://127.0.0.1:8080 --http2-prior-knowledge" "HTTP/3:https://127.0.0.1:8443 --http3-only"; do
    about="${carrier%%:http*}: "
    n=$((n + 1))
    # shellcheck disable=SC2086
    set -- ${carrier#*:}
    base=$1; shift
    if [[ " $* " == *http3* ]] && ! curl -V | grep -q HTTP3; then echo "SKIPPED: ${about}curl has none"; continue; fi
    for len in 0 10 1000 100000 2000000; do
        path="/$n?len=$len&$fresh"
        same "$len bytes come from the upstream" "fwd=uri-miss; stored $len" "$(asked "$base$path" "$@")"
        cp "$work/body" "$work/first"
        await is "hit $len" "$base$path" "$@"
        same "and then from what is kept" "hit $len" "$(asked "$base$path" "$@")"
        check "byte for byte" cmp "$work/first" "$work/body"
    done
    same "a part of it" "hit 5" "$(asked "$base/$n?len=1000&$fresh" -r 5-9 "$@")"
    same "its head alone" "hit" "$(asked "$base/$n?len=1000&$fresh" -I "$@" | cut -d' ' -f1)"
    same "nobody was asked for that" 1 "$(times "/$n?len=1000&$fresh")"
    same "what is too long is passed on" "fwd=uri-miss 3000000" "$(asked "$base/$n?len=3000000&$fresh" "$@")"
    path="/$n?tag=a&field=Cache-Control:max-age=10&field=Age:20"
    asked "$base$path" "$@" >/dev/null
    await is "fwd=stale; fwd-status=304 10" "$base$path" "$@"
    same "what is stale is asked for by its tag" "fwd=stale; fwd-status=304 10" "$(asked "$base$path" "$@")"
    check "the upstream heard that" grep -qF -- "GET $path \"a\"" "$work/log"
    touch "$work/log.down"
    same "it will do while the upstream fails" "fwd=stale; fwd-status=503 10" "$(asked "$base$path" "$@")"
    rm "$work/log.down"
    same "what succeeds has it forgotten" 200 "$(curl -ksS -m 60 -o "$work/body" -w '%{http_code}' -d a=b "$base/$n?len=1000&$fresh" "$@")"
    same "and it is asked for again" "fwd=uri-miss; stored 1000" "$(asked "$base/$n?len=1000&$fresh" "$@")"
    path="/$n/s?tag=a&field=Cache-Control:max-age=10,stale-while-revalidate=1000&field=Age:20"
    asked "$base$path" "$@" >/dev/null
    check "what is stale is given out while it is asked for" await is "hit 10" "$base$path" "$@"
    check "which the server does by itself" await grep -qF -- "GET $path \"a\"" "$work/log"
    same "an operator has all of a path forgotten" 200 "$(curl -ksS -m 60 -o "$work/body" -w '%{http_code}' -X PURGE "$base/$n/*" "$@")"
    same "and it is asked for again" "fwd=uri-miss; stored 10" "$(asked "$base$path" "$@")"
    same "the upstream hears nothing of that" 0 "$(grep -c PURGE "$work/log")"
    same "without cache nothing is said" " 10" "$(asked "$base/plain?$fresh" "$@")"
done

about="many at once: "
clients=()
# The upstream answers when all others wait.
touch "$work/log.hold"
waits() {
    local before; before=$(grep -c '^{.*}$' "$work/out")
    kill -USR1 "$server"
    await eval '[ "$(grep -c "^{.*}\$" "$work/out")" -gt '"$before"' ]'
    grep '^{' "$work/out" | tail -n 1 | sed -n 's/.*"proxy_cache_waits":\([0-9]*\).*/\1/p'
}
before=$(waits)
for _ in $(seq 20); do
    curl -sS -m 200 -o /dev/null "http://127.0.0.1:8080/slow?$fresh" & clients+=($!)
done
check "all others wait" await eval '[ "$(waits)" = '$((before + 19))' ]'
rm "$work/log.hold"
for client in "${clients[@]}"; do wait "$client"; done
same "one goes to the upstream" 1 "$(times "/slow?$fresh")"

about="HTTPS: "
same "an upstream whose certificate is good" 200 "$(curl -sS -m 60 -o "$work/body" -w '%{http_code}' "http://127.0.0.1:8080/good?len=100000")"
same "all of it comes" 100000 "$(stat -c %s "$work/body")"
same "a body goes" 200 "$(curl -sS -m 60 -o /dev/null -w '%{http_code}' --data-binary "@$work/body" "http://127.0.0.1:8080/good")"
for bad in name unknown none; do
    same "$bad: no answer" 502 "$(curl -sS -m 60 -o /dev/null -w '%{http_code}' "http://127.0.0.1:8080/$bad")"
done
check "another name is said" await grep -q "name what its certificate names" "$work/err"
check "an authority that is not known is said" await grep -q "no authority that is trusted here" "$work/err"
check "no TLS is said" await grep -q "write http:// if it speaks no TLS there" "$work/err"

about="checks: "
touch "$work/a.log.down"
await grep -q "9101 fails its checks, and is out" "$work/err"
: >"$work/a.log"
for _ in $(seq 20); do curl -sS -m 60 -o /dev/null -w '%{http_code}\n' "http://127.0.0.1:8080/checked/x"; done >"$work/codes"
same "one that is out is not asked" "20 0" "$(grep -c 200 "$work/codes") $(grep -c /checked/x "$work/a.log")"
rm "$work/a.log.down"
await grep -q "9101 passes its checks, and is in again" "$work/err"
for _ in $(seq 20); do curl -sS -m 60 -o /dev/null "http://127.0.0.1:8080/checked/x"; done
check "one that is in again is asked" grep -q /checked/x "$work/a.log"

about="a reload: "
path="/reload?$fresh"
asked "http://127.0.0.1:8080$path" >/dev/null
await is "hit 10" "http://127.0.0.1:8080$path"
kill -HUP "$server"
await grep -q "read again" "$work/err"
same "forgets what was kept" "fwd=uri-miss; stored 10" "$(asked "http://127.0.0.1:8080$path")"
await is "hit 10" "http://127.0.0.1:8080$path"
same "and keeps again" "hit 10" "$(asked "http://127.0.0.1:8080$path")"

# nginx keeps what it keeps, and so does ours. Where it heeds Expires though there is a max-age (RFC 9111 §5.3), it is not asked.
about="as nginx: "
if command -v nginx >/dev/null; then
    cat >"$work/nginx.conf" <<END
user root; daemon off; master_process off; error_log $work/nginx.log; pid $work/nginx.pid; events {}
http {
    access_log off; client_body_temp_path $work/t1; proxy_temp_path $work/t2; fastcgi_temp_path $work/t3; uwsgi_temp_path $work/t4; scgi_temp_path $work/t5;
    proxy_cache_path $work/t6 keys_zone=all:1m;
    server {
        listen 127.0.0.1:8000; proxy_cache all; proxy_cache_revalidate on; add_header X-Status \$upstream_cache_status always;
        location / { proxy_pass http://127.0.0.1:9100; }
    }
}
END
    beside nginx -c "$work/nginx.conf"
    await listens 8000
    case=0
    for fields in "" "$fresh" "field=Cache-Control:no-store" "field=Cache-Control:no-cache" "field=Cache-Control:private,max-age=9" "field=Cache-Control:max-age=0" \
        "field=Cache-Control:s-maxage=1000,max-age=0" "field=Expires:Fri,%2001%20Jan%202100%2000:00:00%20GMT" "field=Expires:0" \
        "$fresh&field=Set-Cookie:a=b" "$fresh&field=Vary:*" "$fresh&field=Vary:Accept" "$fresh&status=404" "$fresh&status=301" "$fresh&status=500" \
        "$fresh&field=Pragma:no-cache"; do
        case=$((case + 1))
        verdict=()
        for to in 8000/theirs 8080/ours; do
            path="${to#*/}$case?$fields"
            curl -sS -m 60 -o /dev/null "http://127.0.0.1:${to%%/*}/$path"
            # Ours is kept by a thread, one answer after the other: it is when one that came later is.
            await is "hit 10" "http://127.0.0.1:8080/behind-${path%%\?*}?$fresh"
            curl -sS -m 60 -o /dev/null "http://127.0.0.1:${to%%/*}/$path"
            verdict+=("$(times "/$path")")
        done
        same "'$fields' goes to the upstream as often" "${verdict[0]}" "${verdict[1]}"
    done
else
    echo "SKIPPED: answers that are kept beside nginx: not installed (apt-get install nginx)"
fi
about=
stop; same "it stops in order" 0 $?
for counter in proxy_cache_hits proxy_cache_revalidated proxy_cache_stale proxy_cache_waits proxy_cache_forgotten proxy_check_failures; do
    check "$counter has counted" grep -q "\"$counter\":[1-9]" "$work/out"
done
exit $failures
