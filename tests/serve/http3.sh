#!/usr/bin/env bash
# HTTP/3 with a client that others have written, aioquic: on sockets over loopback, and on packets over the lab wire, on one core and
# on two. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/serve/http3.sh PATH/TO/exos
#
# PYTHON names an interpreter that has aioquic.
. "$(dirname "$0")/../common.sh"
need_root "HTTP/3"
need_programs "HTTP/3" python3:python3 curl:curl
need_aioquic "HTTP/3"
be_alone "$@"
begin
lab=http3-$$
in_the_end() { cleanup; forget_aioquic; }
trap '[ "$BASHPID" != $$ ] || in_the_end' EXIT

site=$work/site
mkdir "$site"
echo home >"$site/index.html"
head -c 40000 /dev/urandom >"$site/middle.bin"
head -c 4000000 /dev/urandom >"$site/wide.bin"
head -c 6000000 /dev/urandom >"$site/long.bin"
common="--port 8080 --tls-port 8443 --tls-self-signed --http3 --log $work/access.log"

# judge RUNNER IP [MORE]: what aioquic finds.
judge() {
    local run=$1 ip=$2; shift 2
    # shellcheck disable=SC2086
    judged "the client comes to its end" $run timeout 900 "$PYTHON" "$here/http3.py" "$ip" 8443 "$site" "$@"
}
# all RUNNER IP: of a server that has just begun; it ends.
all() {
    judge "$1" "$2"
    has "HTTPS says where HTTP/3 is" 'h3=":8443"' "$($1 curl -sSkI -m 60 "https://$2:8443/" 2>&1)"
    same "HTTP does not" "" "$($1 curl -sSI -m 60 "http://$2:8080/" 2>&1 | grep -i alt-svc)"
    judge "$1" "$2" --stop "$server"
    wait "$server"; same "it ends in order" 0 $?; server=
    has "the log says so" 'GET /middle.bin HTTP/3.0" 200 40000' "$(cat "$work/access.log")"
    rm "$work/access.log"
}

# given_up RUNNER IP: by a server that has just begun, and does not wait for long.
given_up() {
    judge "$1" "$2" --give-up "$server"
    wait "$server"; same "it ends in order, too" 0 $?; server=
}

about="sockets: "
for more in "--http3|, and of UDP for HTTP/3" "|, without HTTP/3"; do
    # shellcheck disable=SC2086
    has "--check ${more%|*}: at which port" "port 8443 for HTTPS${more#*|}" "$("$exos" serve --check --sockets "$site" --port 8080 --tls-port 8443 --tls-self-signed ${more%|*} 2>&1)"
done
# shellcheck disable=SC2086
if launch "https://" "$exos" serve --sockets "$site" $common --shutdown-timeout 60s; then
    all "" 127.0.0.1
else
    bad "it starts" "$(cat "$work/err")"
fi
# shellcheck disable=SC2086
if launch "https://" "$exos" serve --sockets "$site" $common --shutdown-timeout 2s; then
    given_up "" 127.0.0.1
else
    bad "it starts" "$(cat "$work/err")"
fi

about="packets: "
lab_up
# shellcheck disable=SC2086
if launch_in_lab "$site" --link xdp:wire --address 10.10.0.10/24 $common --shutdown-timeout 60s; then
    all client 10.10.0.10
else
    bad "it starts" "$(cat "$work/err")"
fi
# shellcheck disable=SC2086
if launch_in_lab "$site" --link xdp:wire --address 10.10.0.10/24 $common --shutdown-timeout 2s; then
    given_up client 10.10.0.10
else
    bad "it starts" "$(cat "$work/err")"
fi
# shellcheck disable=SC2086
if launch_in_lab "$site" --link xdp:wire --share-address $common --shutdown-timeout 60s; then
    about="beside the host: "
    all client 10.10.0.1
else
    bad "it starts beside the host" "$(cat "$work/err")"
fi
"$exos" lab down --name "$lab" >/dev/null 2>&1

# as_http1 NAME PATH [FILE]: by our own client the status and the content are those that curl has by HTTP/1.1 over TLS, each of twelve
# times; of a POST, where there is a file to send.
as_http1() {
    local name=$1 path=$2 status sum more=
    shift 2
    if [ $# = 1 ]; then more="-X POST --body $1"; set -- -H Expect: --data-binary "@$1"; fi
    status=$(curl -sSk --http1.1 -m 60 -o "$work/content" -w '%{http_code}' "$@" "https://127.0.0.1:8443$path" 2>&1)
    sum=$(sha256sum <"$work/content" | cut -d ' ' -f 1)
    # shellcheck disable=SC2086
    timeout 700 "$exos" load "https://127.0.0.1:8443$path" --sockets --idle sleep --http 3 --insecure -c 2 --streams 4 -n 12 --json --timeout 300s -d 600s --expect-status "$status" \
        --expect-sha256 "$sum" $more >"$work/load" 2>"$work/load.err"
    same "$name ($status)" "12 {}" "$(python3 -S -c "import json; r = json.load(open('$work/load')); print(r['responses'], r['errors'])" 2>&1; cat "$work/load.err")"
}

about="applications and rules: "
head -c 300000 /dev/urandom >"$work/body"
mkdir -p "$site/secret" "$site/folder" && echo secret >"$site/secret/a"
cat >"$work/serve.toml" <<END
port = 8080
[tls]
port = 8443
self_signed = true
http3 = true
[[site]]
root = "site"
[[site.redirect]]
from = "/old/*"
to = "/new/*"
[[site.access]]
path = "/secret/*"
rules = ["deny all"]
[[site.fastcgi]]
path = "/app/*"
to = "$work/app.sock"
body = "4MiB"
[[site.proxy]]
path = "/up"
to = ["http://127.0.0.1:9100"]
END
python3 "$here/../fastcgi/application.py" "$work/app.sock" "$work/app.log" >/dev/null 2>&1 &
peer=$!
python3 -m http.server --bind 127.0.0.1 --directory "$site" 9100 >/dev/null 2>&1 &
upstream=$!
cleanup_upstream() { end "$upstream"; in_the_end; }
trap '[ "$BASHPID" != $$ ] || cleanup_upstream' EXIT
await test -S "$work/app.sock"
await bash -c "</dev/tcp/127.0.0.1/9100"
if launch "https://" "$exos" serve --sockets --config "$work/serve.toml"; then
    as_http1 "a document" /middle.bin
    as_http1 "what is not there" /none
    as_http1 "a redirect" "/old/a?b"
    as_http1 "a folder without its slash" /folder
    as_http1 "what is denied" /secret/a
    as_http1 "an application's answer" "/app/a?bytes=300000"
    as_http1 "an application's body" "/app/a?body" "$work/body"
    as_http1 "an upstream's answer" /up/middle.bin
    as_http1 "an upstream's refusal" /up/none
    stop; same "it ends in order" 0 $?
else
    bad "it starts" "$(cat "$work/err")"
fi

about="two cores: "
# shellcheck disable=SC2086
if [ "$(nproc)" -lt 2 ]; then
    echo "SKIPPED: HTTP/3 on two cores: there is one"
elif lab_up --queues 2 && launch_in_lab "$site" --link xdp:wire --address 10.10.0.10/24 $common --cores 2; then
    for _ in 1 2 3; do judge client 10.10.0.10; done
    all client 10.10.0.10
else
    bad "it starts" "$(cat "$work/err")"
fi
[ $failures = 0 ]
