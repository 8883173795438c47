#!/usr/bin/env bash
# Early data of TLS 1.3 by OpenSSL's client and by `exos load`: it is answered once, whoever sends it again and to which core; what is not safe
# waits or is refused; upstreams and applications hear of it. On sockets and on packets. Prints "ok NAME", "not ok NAME: why" or
# "SKIPPED: ..." lines.
#
#   tests/serve/early.sh PATH/TO/exos
. "$(dirname "$0")/../common.sh"
need_root "early data"
need_programs "early data" curl:curl openssl:openssl python3:python3
be_alone "$@"
begin
lab=early-$$
others=()
capturing=
cleanup() {
    # shellcheck disable=SC2086
    end $capturing $server ${others[*]}
    [ -z "$lab" ] || "$exos" lab down --name "$lab" >/dev/null 2>&1
    rm -rf "$work"
}
mkdir "$work/site"
echo home >"$work/site/index.html"
head -c 300000 /dev/urandom >"$work/site/large"
python3 -S "$here/../fastcgi/application.py" "$work/app.sock" "$work/app.log" >/dev/null 2>&1 & others+=($!)
python3 "$here/early.py" upstream 4001 >/dev/null 2>&1 & others+=($!)
await test -S "$work/app.sock"
await curl -sS http://127.0.0.1:4001/
cat >"$work/serve.toml" <<END
port = 8080
[tls]
port = 8443
self_signed = true
early_data = true
[status]
path = "/status"
allow = ["127.0.0.1", "10.10.0.0/24"]
[log]
file = "$work/access.log"
[[site]]
root = "site"
[[site.fastcgi]]
path = "/app/*"
to = "$work/app.sock"
[[site.proxy]]
path = "/up/*"
to = "http://127.0.0.1:4001"
END
# request NAME METHOD TARGET: into a file.
request() { printf '%s %s HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n' "$2" "$3" >"$work/$1"; }
request first GET /
request get GET /
request large GET /large
request post POST /
request app GET "/app/x?echo"
request up GET /up/x
request taken GET /taken
request lost GET /lost
python3 "$here/early.py" frames "$work/h2"

here() { "$@"; }
# visit [OPTIONS]: a first one, by which there is a session in a file.
visit() { $run timeout 60 openssl s_client -connect "$ip:8443" -sess_out "$work/session" -ign_eof "$@" <"$work/first" >/dev/null 2>&1; }
# early REQUEST [OPTIONS]: what OpenSSL's client says, with its answer.
early_bytes() {
    local request=$1; shift
    $run timeout 60 openssl s_client -connect "$ip:8443" -sess_in "$work/session" -early_data "$work/$request" "$@" </dev/null 2>&1
}
early() { early_bytes "$@" -ign_eof | tr -d '\0'; }
# One that is refused waits for no answer: OpenSSL's client does not send it again.
refused() { early_bytes "$@" | tr -d '\0'; }
# Connections of HTTP/2 stay for further requests: their clients end when the last of theirs is logged, which their input waits for.
h2_visit() { { cat "$work/h2"; await is_logged "$1"; } | $run timeout 60 openssl s_client -connect "$ip:8443" -sess_out "$work/session" -alpn h2 >/dev/null 2>&1; }
h2_early() { await is_logged "$1" | $run timeout 60 openssl s_client -connect "$ip:8443" -sess_in "$work/session" -early_data "$work/h2" -alpn h2 2>&1 | tr -d '\0'; }
counted() { $run curl -sSk -m 60 "https://$ip:8443/status/metrics" | sed -n "s/^exos_serve_$1_total \([0-9]*\)$/\1/p"; }
logged() { grep -c "$1" "$work/access.log"; }
is_logged() { grep -q "$1" "$work/access.log"; }

# by RUNNER IP: what clients see, who ask this address.
by() {
    local got len whole
    run=$1 ip=$2
    visit
    got=$(early get)
    has "a request is accepted" "Early data was accepted" "$got"
    has "and answered" "home" "$got"
    has "its ticket is good once" "Early data was rejected" "$(refused get)"
    # A server that lost the client's Finished would leave it waiting for the end.
    visit
    check "the connection of an early request that is the last ends in order" early_bytes get -ign_eof
    visit
    early_bytes large -ign_eof >"$work/got"
    check "a long answer comes whole" python3 -S -c 'import sys; got, want = (open(it, "rb").read() for it in sys.argv[1:]); assert want in got, len(got)' "$work/got" "$work/site/large"
    visit
    got=$(early post)
    has "what is not safe is taken, too" "Early data was accepted" "$got"
    has "and answered behind the handshake" "405 Method" "$got"
    visit
    has "an application hears of it" "HTTP_EARLY_DATA=1" "$(early app)"
    same "and of nothing else" "" "$($run curl -sSk -m 60 "https://$ip:8443/app/x?echo" | grep EARLY)"
    visit
    got=$(early up)
    has "an upstream hears of it, and its 425 is passed on" "HTTP/1.1 425" "$got"
    has "once" "early 1" "$got"
    same "and of nothing else" "early " "$($run curl -sSk -m 60 "https://$ip:8443/up/x")"
    # Over HTTP/2, where streams do not wait for each other.
    : >"$work/access.log"
    h2_visit '"POST /h2-post HTTP/2.0" 405'
    check "HTTP/2: a first visit is answered" is_logged '"POST /h2-post HTTP/2.0" 405'
    : >"$work/access.log"
    has "HTTP/2: requests are accepted" "Early data was accepted" "$(h2_early '"POST /h2-post HTTP/2.0" 425')"
    check "HTTP/2: what is safe is answered" await is_logged '"GET /h2-get HTTP/2.0" 404'
    check "HTTP/2: and else 425" await is_logged '"POST /h2-post HTTP/2.0" 425'
    visit
    has "a session of HTTP/1.1 has none for HTTP/2" "Early data was rejected" "$(refused h2 -alpn h2)"

    # Who has seen a flight sends it again: it is answered once, whether the client's own came or not.
    visit
    $run python3 "$here/early.py" record "$ip" 8443 "$work/flight" -sess_in "$work/session" -early_data "$work/taken"
    check "a flight is sent sixteen times" $run python3 "$here/early.py" send "$ip" 8443 "$work/flight" 16
    check "it is answered" await is_logged '"GET /taken '
    visit
    has "and others after it" "Early data was accepted" "$(early get)"
    same "one of them was answered" 1 "$(logged '"GET /taken ')"
    visit
    $run python3 "$here/early.py" record "$ip" 8443 "$work/flight" -sess_in "$work/session" -early_data "$work/lost"
    whole=$(stat -c %s "$work/flight")
    for len in 1 100 $((whole - 30)) $((whole - 1)); do $run python3 "$here/early.py" send "$ip" 8443 "$work/flight" 2 $len; done
    same "flights that are cut are not answered" 0 "$(logged '"GET /lost ')"
    visit
    has "and harm nobody" "Early data was accepted" "$(early get)"
}
# load LINK...: ours as a client, over each version, which says how many were taken: as many as the server counts. Nothing came before.
load() {
    local version taken=0
    got() { python3 -S -c "import json; r = json.load(open('$work/load')); t = r['tls']; print($1)" 2>&1; }
    has_taken() { [ "$(counted tls_early_accepted)" = "$taken" ]; }
    for version in 1.1 2; do
        $run timeout 200 "$exos" load "https://$ip:8443/" "$@" --idle sleep --insecure --http $version -c 4 -n 100 --requests-per-connection 1 --tls-early 0.7 --tls-resume 0.1 --json >"$work/load" 2>"$work/load.err"
        same "exos load, HTTP/$version: all are answered" "100 {} 100 True 0" \
            "$(got "r['responses'], r['errors'], t['handshakes_full'] + t['handshakes_resumed'] + t['handshakes_early'], t['handshakes_early'] >= 40, t['early_refused']")"
        taken=$((taken + $(got "t['handshakes_early']")))
        check "exos load, HTTP/$version: the server has taken as many" await has_taken
    done
}
about="sockets: "
if launch "https://" "$exos" serve --sockets --config "$work/serve.toml"; then
    run=here ip=127.0.0.1
    load --sockets
    by here 127.0.0.1
    visit
    kill -HUP "$server"
    await grep -q "again" "$work/err"
    has "a reload keeps tickets" "Early data was accepted" "$(early get)"
    visit
    sed -i 's/^early_data = true/early_data = false/' "$work/serve.toml"
    kill -HUP "$server"
    is_refused() { refused get | grep -q "Early data was rejected"; }
    check "a reload turns it off" await is_refused
    sed -i 's/^early_data = false/early_data = true/' "$work/serve.toml"
    check "it ends in order" stop
else
    bad "it starts" "$(cat "$work/err")"
fi
# What was seen before a restart is of no use behind it.
if launch "https://" "$exos" serve --sockets --config "$work/serve.toml"; then
    run=here ip=127.0.0.1
    visit
    python3 "$here/early.py" record "$ip" 8443 "$work/flight" -sess_in "$work/session" -early_data "$work/taken"
    stop
    : >"$work/access.log"
    launch "https://" "$exos" serve --sockets --config "$work/serve.toml"
    python3 "$here/early.py" send "$ip" 8443 "$work/flight" 2
    has "a session of before a restart" "Early data was rejected" "$(refused get)"
    visit
    check "a restart: others are answered" await is_logged '"GET / '
    same "a restart: flights of before are not answered" 0 "$(logged '"GET /taken ')"
    check "a restart: it ends in order" stop
else
    bad "a restart: it starts" "$(cat "$work/err")"
fi

about="packets: "
if [ "$(nproc)" -ge 2 ]; then cores=(--cores 2) queues=2; else cores=(); fi
sed -i '/^\[\[site.proxy/,$d; /^\[\[site.fastcgi/,$d' "$work/serve.toml"
: >"$work/access.log"
lab_up
# Applications and upstreams are asked over the host's sockets, in side a.
cat >>"$work/serve.toml" <<END
[[site.fastcgi]]
path = "/app/*"
to = "$work/app.sock"
END
if launch_in_lab --config "$work/serve.toml" --link xdp:wire --address 10.10.0.10/24 "${cores[@]}"; then
    run=client ip=10.10.0.10
    load --link xdp:wire --address 10.10.0.20/24
    visit
    got=$(early get)
    has "a request is accepted" "Early data was accepted" "$got"
    has "and answered" "home" "$got"
    visit
    has "an application hears of it" "HTTP_EARLY_DATA=1" "$(early app)"
    visit
    $run python3 "$here/early.py" record "$ip" 8443 "$work/flight" -sess_in "$work/session" -early_data "$work/taken"
    check "a flight is sent sixteen times, to all cores" $run python3 "$here/early.py" send "$ip" 8443 "$work/flight" 16
    check "it is answered" await is_logged '"GET /taken '
    visit
    has "and others after it" "Early data was accepted" "$(early get)"
    same "one of them was answered" 1 "$(logged '"GET /taken ')"
    check "it ends in order" stop
else
    bad "it starts" "$(cat "$work/err")"
fi

# A capture with the server's keys says what was early.
about="keys: "
if command -v tcpdump >/dev/null; then
    export SSLKEYLOGFILE=$work/keys
    if launch "https://" "$exos" serve --sockets "$work/site" --port 8080 --tls-port 8443 --tls-self-signed --tls-early-data --tls-log-keys; then
        unset SSLKEYLOGFILE
        tcpdump --immediate-mode -B 65536 -U -s 0 -i lo -w "$work/capture" tcp port 8443 >/dev/null 2>"$work/tcpdump" & capturing=$!
        await grep -q 'listening on' "$work/tcpdump"
        run=here ip=127.0.0.1
        visit
        early taken >/dev/null
        is_captured() { "$exos" dump -r "$work/capture" --keys "$work/keys" 2>/dev/null | grep -q 'HTTP: GET /taken'; }
        check "early data is decrypted" await is_captured
        is_answered() { "$exos" dump -r "$work/capture" --keys "$work/keys" 2>/dev/null | grep -q 'HTTP: HTTP/1.1 404'; }
        check "and its answer" await is_answered
        stop
    else
        bad "it starts" "$(cat "$work/err")"
    fi
fi
about=
sed -i 's/^early_data = true/early_data = true\nclient_ca = "ca.pem"/' "$work/serve.toml"
has "clients with certificates have none" "leave early_data or client_ca out" "$("$exos" serve --check --config "$work/serve.toml" 2>&1)"
has "nor does plain HTTP" "--tls-early-data is given, and no certificate" "$("$exos" serve --sockets --check "$work/site" --tls-early-data 2>&1)"
[ $failures = 0 ]
