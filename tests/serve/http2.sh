#!/usr/bin/env bash
# HTTP/2 with real clients: curl, nghttp, h2load and h2spec, in plain text and over TLS, on sockets over loopback and on packets over the
# lab wire, by the daemon and on two cores: what is answered over HTTP/1.1 is answered over it. Then clients that break its rules
# (http2.py), and reloads and ends that lose nothing. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/serve/http2.sh PATH/TO/exos
#
# h2spec is of the Go module github.com/summerwind/h2spec/cmd/h2spec, and is looked for in PATH, or where H2SPEC says.
. "$(dirname "$0")/../common.sh"
need_root "HTTP/2"
need_programs "HTTP/2" curl:curl openssl:openssl python3:python3 ethtool:ethtool
curl --version | grep -q HTTP2 || skip "HTTP/2" "this curl does not speak it"
be_alone "$@"
begin
lab=http2-$$
h2spec=${H2SPEC:-h2spec}

site=$work/site
mkdir -p "$site/folder" "$site/list" "$work/other"
chmod -R a+rX "$work"
echo home >"$site/index.html"
echo other >"$work/other/index.html"
echo inside >"$site/folder/index.html"
touch "$site/list/one" "$site/list/two"
head -c 100 /dev/zero | tr '\0' x >"$site/small.txt"
head -c 3000000 /dev/urandom >"$site/large.bin"
head -c 10000000 /dev/urandom >"$site/long.bin"
seq 20000 >"$site/packed.txt"
gzip -k "$site/packed.txt"
head -c 100000 /dev/urandom >"$work/body"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/key.pem" -out "$work/cert.pem" -days 9 -subj /CN=a.test \
    -addext 'subjectAltName=DNS:a.test,IP:127.0.0.1,IP:10.10.0.10' 2>/dev/null
chmod 600 "$work/key.pem"
cat >"$work/serve.toml" <<END
port = 8080
[tls]
port = 8443
[limits]
stream = "8MiB"
[log]
file = "access.log"
[status]
path = "/status"
allow = ["127.0.0.1", "10.10.0.0/24"]
[[site]]
names = ["a.test", "127.0.0.1", "10.10.0.10"]
default = true
root = "site"
listing = true
[[site.certificate]]
file = "cert.pem"
key = "key.pem"
[[site.redirect]]
from = "/old/*"
to = "/new/*"
[[site.fields]]
path = "/folder/*"
set = { X-Own = "yes" }
[[site.access]]
path = "/secret/*"
rules = ["deny all"]
[[site.fastcgi]]
path = "/app/*"
to = "$work/app.sock"
body = "4MiB"
[[site]]
names = ["b.test"]
root = "other"
END
python3 "$here/../fastcgi/application.py" "$work/app.sock" "$work/app.log" >/dev/null 2>&1 &
peer=$!
await test -S "$work/app.sock"

# fields FILE: what is the same of a response's head over all versions: names in small letters, sorted, without those of connections.
fields() { tr -d '\r' <"$1" | tail -n +2 | grep : | sed 's/^[^:]*/\L&/' | grep -vE '^(date|connection|keep-alive|transfer-encoding|alt-svc):' | sort; }
# same_as_http1 NAME ARGUMENTS...: curl's, with ^ for the server.
same_as_http1() {
    local name=$1 version arguments got=(); shift
    for version in 1 2; do
        arguments=("${@/#^/$url}")
        local how=--http1.1
        [ $version = 1 ] || how=$speak
        got[version]=$($ask $how -D "$work/head$version" -o "$work/content$version" -w '%{http_version} %{http_code} %{redirect_url}' "${arguments[@]}" 2>&1)
    done
    same "$name: the status" "2 ${got[1]#* }" "${got[2]}"
    # What curl writes of a head alone is the head.
    [[ " $* " == *" -I "* ]] || check "$name: the content" cmp "$work/content1" "$work/content2"
    same "$name: the fields" "$(fields "$work/head1")" "$(fields "$work/head2")"
}

# by RUNNER IP: what clients see, who ask this address.
by() {
    local run=$1 ip=$2 url speak ask got name outer=$about tag
    for url in "http://$ip:8080" "https://$ip:8443"; do
        about="$outer${url%%:*}: "
        speak=--http2-prior-knowledge
        [ "${url%%:*}" = http ] || speak=--http2
        ask="$run curl -sSk -m 60"
        same "a page" "home 2" "$($ask $speak -w '%{http_version}' "$url/" 2>&1 | tr '\n' ' ')"
        for name in small.txt large.bin long.bin packed.txt; do
            $ask $speak -o "$work/got" "$url/$name"
            check "$name, byte for byte" cmp "$work/got" "$site/$name"
        done
        $ask $speak --limit-rate 8M -o "$work/got" "$url/large.bin"
        check "a slow reader gets all" cmp "$work/got" "$site/large.bin"
        tag=$($ask -I "$url/small.txt" | tr -d '\r' | sed -n 's/^etag: //Ip')
        same_as_http1 "a document" "^/small.txt"
        same_as_http1 "its head" -I "^/large.bin"
        same_as_http1 "a part" -r 1000-200999 "^/large.bin"
        same_as_http1 "a part of a long file" -r 5000000-5999999 "^/long.bin"
        same_as_http1 "a part beyond its end" -r 4000000- "^/large.bin"
        same_as_http1 "nothing new" -H "If-None-Match: $tag" "^/small.txt"
        same_as_http1 "a condition that does not hold" -H "If-Match: \"other\"" "^/small.txt"
        same_as_http1 "a variant" -H "Accept-Encoding: gzip" "^/packed.txt"
        same_as_http1 "what is not there" "^/none"
        same_as_http1 "a redirect" "^/old/a?b"
        same_as_http1 "a folder without its slash" "^/folder"
        same_as_http1 "fields of a rule" "^/folder/"
        same_as_http1 "a list" "^/list/"
        same_as_http1 "what is denied" "^/secret/a"
        same_as_http1 "a method that is none of documents'" -X DELETE "^/small.txt"
        same_as_http1 "OPTIONS" -X OPTIONS "^/small.txt"
        has "an application is told the version" "SERVER_PROTOCOL=HTTP/2.0" "$($ask $speak "$url/app/a?echo")"
        same_as_http1 "an application's answer" "^/app/a?bytes=300000"
        same_as_http1 "an application's body" -H Expect: --data-binary "@$work/body" "^/app/a?body"
        same "another host" "other" "$($ask $speak -H 'Host: b.test' "$url/" 2>&1)"
        # By prior knowledge curl 7.88 breaks off what it asks beside or behind a first request, of nginx too.
        if [ "$speak" = --http2 ]; then
            got=$($ask $speak -w '%{http_code} %{num_connects}\n' -o /dev/null "$url/small.txt" -o /dev/null "$url/small.txt")
            same "a connection is kept" "200 1 200 0" "$(echo $got)"
            got=$($ask $speak --parallel --parallel-max 50 -w '%{http_code} %{http_version}\n' $(for nth in $(seq 50); do echo -o /dev/null "$url/large.bin?$nth"; done) 2>/dev/null | sort | uniq -c)
            same "fifty at once" "50 200 2" "$(echo $got)"
        fi
        if command -v nghttp >/dev/null; then
            got=$($run timeout 60 nghttp -ns -m 20 "$url/large.bin" "$url/small.txt" 2>&1)
            same "nghttp: many at once" 40 "$(grep -c ' 200 ' <<<"$got")"
        fi
        if command -v h2load >/dev/null; then
            got=$($run timeout 100 h2load -n 5000 -c 4 -m 100 "$url/small.txt" 2>&1)
            has "h2load: a hundred streams" "5000 succeeded, 0 failed, 0 errored" "$got"
            got=$($run timeout 100 h2load -n 100 -c 2 -m 20 "$url/large.bin" 2>&1)
            has "h2load: large ones" "100 succeeded, 0 failed, 0 errored" "$got"
            got=$($run timeout 100 h2load -n 100 -c 2 -m 20 -w 14 -W 15 "$url/large.bin" 2>&1)
            has "h2load: small windows" "100 succeeded, 0 failed, 0 errored" "$got"
            got=$($run timeout 100 h2load -n 40 -c 2 -m 10 -d "$work/body" "$url/app/a?body" 2>&1)
            has "h2load: bodies to an application" "40 succeeded, 0 failed, 0 errored" "$got"
        fi
    done
    about=$outer
    has "metrics count it" "exos_serve_http2" "$($run curl -sSk -m 60 "http://$ip:8080/status/metrics")"
    got=$($run openssl s_client -connect "$ip:8443" -alpn http/1.1,h2 </dev/null 2>&1)
    has "ALPN: h2 comes first" "ALPN protocol: h2" "$got"
    got=$(printf 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' | $run timeout 60 openssl s_client -quiet -connect "$ip:8443" -alpn http/1.1 2>/dev/null | head -n 1)
    has "ALPN: without h2 it is not spoken" "HTTP/1.1 505" "$got"
}
here() { "$@"; }
# spec IP: what h2spec finds.
spec() {
    command -v "$h2spec" >/dev/null || { echo "SKIPPED: ${about}h2spec is not installed (go install github.com/summerwind/h2spec/cmd/h2spec@latest)"; return; }
    local kind got wanted
    for kind in "-p 8080" "-p 8443 -t -k"; do
        got=$(timeout 300 "$h2spec" -h "$1" $kind -P /small.txt 2>&1 | tr -d '\0')
        # In plain text a port speaks HTTP/1.1, too: what is no preface is answered as that is, and h2spec wants nothing but an end.
        wanted='0 failed'
        [ "$kind" != "-p 8080" ] || wanted='1 failed      × 2: Sends invalid connection preface'
        same "h2spec $kind" "$wanted" "$(sed -n 's/^[0-9]* tests, .* \([0-9]* failed\)$/\1/p' <<<"$got")$(grep '^ *× ' <<<"$got")"
    done
}

about="sockets: "
if launch "https://" "$exos" serve --sockets --config "$work/serve.toml" --json; then
    by here 127.0.0.1
    spec 127.0.0.1
    log_has() { grep -q '"GET /app/a?echo HTTP/2.0" 200 ' "$work/access.log"; }
    check "the log says the version" await log_has
    same "and nothing but versions that there are" "" "$(grep -vE '" [0-9]{3} ' "$work/access.log" | head -3)"
    check "it ends in order" stop
else
    bad "it starts" "$(cat "$work/err")"
fi

about="packets: "
lab_up
# What is under way when it ends may take as long as a busy machine lets its client.
if launch_in_lab --config "$work/serve.toml" --link xdp:wire --address 10.10.0.10/24 --shutdown-timeout 60s --json; then
    by client 10.10.0.10
    client timeout 200 python3 -S "$here/http2.py" 10.10.0.10 8080 a.test "$server" "$work/out" closed >"$work/closed" 2>&1 &
    closed=$!
    for how in floods windows half; do
        client timeout 400 python3 -S "$here/http2.py" 10.10.0.10 8080 a.test "$server" "$work/out" $how "$site/large.bin" || failures=$((failures + 1))
    done
    wait "$closed" || failures=$((failures + 1))
    cat "$work/closed"
    # Reloads while many ask, who are told to stop when there were enough: nothing is lost.
    "$exos" lab exec --name "$lab" b -- "$exos" load https://10.10.0.10:8443/small.txt --sockets --idle sleep --insecure --http 2 -c 4 \
        --streams 50 --think 20ms -d 600s --timeout 300s --json >"$work/load" 2>"$work/load.err" &
    load=$!
    asks() { [ "$(client ss -Htn state established dport = :8443 | wc -l)" = 4 ]; }
    check "a load is under way" await asks
    said() { grep -c "reload\|serv.*again" "$work/err"; }
    more() { [ "$(said)" -gt "$was" ]; }
    for reload in 1 2 3 4 5; do
        was=$(said)
        kill -HUP "$server"
        check "reload $reload is done" await more
    done
    check "they ask still" is_ours "$load"
    kill -TERM "$load"; wait "$load"; same "and are told to stop" 0 $?
    # What was under way then was not waited for.
    same "reloads lose nothing" "True True {}" "$(python3 -S -c "import json; r = json.load(open('$work/load')); n, e = r['responses'], r['errors']; e.pop('unfinished', 0); print(n > 0, r['statuses'] == {'200': n}, e)" 2>&1)"
    client timeout 100 python3 -S "$here/http2.py" 10.10.0.10 8080 a.test "$server" "$work/out" goaway "$site/large.bin" || failures=$((failures + 1))
    wait "$server"; same "it has ended in order" 0 $?
    server=
    same "and has not complained" "" "$(grep -i 'panic\|error' "$work/err")"
else
    bad "it starts" "$(cat "$work/err")"
fi

"$exos" lab down --name "$lab" >/dev/null 2>&1
about="two cores: "
if [ "$(nproc)" -ge 2 ] && lab_up --queues 2 && launch_in_lab --config "$work/serve.toml" --link xdp:wire --address 10.10.0.10/24 --cores 2; then
    got=$(client "$exos" load http://10.10.0.10:8080/large.bin --sockets --idle sleep --http 2 -c 8 --streams 5 -n 200 --timeout 300s -d 600s --expect-sha256 "$(sha256sum <"$site/large.bin" | cut -d ' ' -f 1)" --json 2>&1)
    same "documents come whole" "200 8 {}" "$(python3 -S -c "import json, sys; r = json.load(sys.stdin); print(r['responses'], r['connections'], r['errors'])" <<<"$got" 2>&1)"
    check "it ends in order" stop
else
    bad "it starts" "$(cat "$work/err")"
fi
"$exos" lab down --name "$lab" >/dev/null 2>&1
lab=
end "$peer"; peer=

# By the daemon, which has a lab of its own.
about=
"$BASH" -c '
lab=http2-xokd-$$
. "$0"
chmod -R a+rX "'"$site"'"
lab_up || { bad "lab up"; exit 1; }
allow "ports = [\"80\"]"
start_daemon || { bad "the daemon starts" "$(cat "$work/daemon.out")"; exit 1; }
start server serve "'"$site"'" --address 10.10.0.10/24 || { bad "the server starts" "$(cat "$work/server.err")"; exit 1; }
inside b -- curl -sS -m 60 --http2-prior-knowledge -o "$work/got" http://10.10.0.10/long.bin
check "a document, byte for byte" cmp "$work/got" "'"$site"'/long.bin"
exit $((failures > 0))
' "$here/../daemon/common.sh" "$exos" || failures=$((failures + 1))
[ $failures = 0 ]
