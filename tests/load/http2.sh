#!/usr/bin/env bash
# `exos load --http 2` against nginx, h2o and our own server, over packets and over sockets, in plain text and over TLS: what was asked
# for comes whole, by as many streams as both allow; and against a server that resets streams and goes away. Prints "ok NAME",
# "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/load/http2.sh PATH/TO/exos
#
# Everything happens in namespaces of a lab of its own. Nothing here judges how fast it is.
. "$(dirname "$0")/common.sh"
need_root "the load generator over HTTP/2"
need_programs "the load generator over HTTP/2" nginx python3 openssl
be_alone "$@"
begin
lab=load-http2-$$
queues=2
mkdir -p "$work/site"
head -c 100 /dev/urandom >"$work/site/small"
head -c 3000000 /dev/urandom >"$work/site/large"
sum=$(sha256sum <"$work/site/large" | cut -d ' ' -f 1)
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/key" -out "$work/pem" -days 9 -subj /CN=lab \
    -addext 'subjectAltName=IP:10.10.0.1,IP:10.10.0.10' 2>/dev/null
chmod 600 "$work/key"
configure_nginx "log_format h2 '\$server_port \$server_protocol \$status \$connection_requests \$body_bytes_sent'; access_log $work/nginx/log h2;
    keepalive_requests 1000; client_max_body_size 10m;
    server { listen 10.10.0.1:81 http2; listen 10.10.0.1:443 ssl http2; listen 10.10.0.1:444 ssl; ssl_certificate $work/pem; ssl_certificate_key $work/key;
        ssl_protocols TLSv1.3; location /post { proxy_pass http://10.10.0.1:80/small; proxy_method GET; } }" \
    "listen 10.10.0.1:80;"
lab_up || { bad "lab up"; exit 1; }
start_nginx
nginx=yes

# load CARRIER URL ARGUMENTS...: its results are in $work/load. It leaves the core to others while it waits; with idle= it does what it does when nothing is said.
load() {
    local by=(--link xdp:wire --address 10.10.0.20/24) url=$2
    [ "$1" = packets ] || by=(--sockets)
    shift 2
    [ -z "$nginx" ] || settled
    : >"$work/nginx/log"
    timeout 200 "$exos" lab exec --name "$lab" b -- "$exos" load "$url" "${by[@]}" ${idle---idle sleep} --http 2 --cacert "$work/pem" --json --timeout 60s "$@" >"$work/load" 2>"$work/load.err"
}
# plain CARRIER URL ARGUMENTS...: the same without TLS.
plain() {
    local by=(--link xdp:wire --address 10.10.0.20/24) url=$2
    [ "$1" = packets ] || by=(--sockets)
    shift 2
    [ -z "$nginx" ] || settled
    : >"$work/nginx/log"
    timeout 200 "$exos" lab exec --name "$lab" b -- "$exos" load "$url" "${by[@]}" ${idle---idle sleep} --http 2 --json --timeout 60s "$@" >"$work/load" 2>"$work/load.err"
}
got() { python3 -S -c "import json; r = json.load(open('$work/load')); h = r['http2']; print($1)" 2>&1; }
logged() { settled; grep -cE "$1" "$work/nginx/log"; }
all="r['responses'], r['content_bytes'], r['connections'], r['errors'], h['resets'], h['faults']"

for carrier in packets sockets; do
    about="$carrier: "
    for scheme in http https; do
        at=10.10.0.1:443 ask=load port=443
        [ $scheme = https ] || at=10.10.0.1:81 ask=plain port=81
        idle= $ask $carrier $scheme://$at/small -c 3 --streams 20 -n 900
        same "$scheme: streams of few connections" "900 90000 3 {} {} {}" "$(got "$all")"
        same "$scheme: nginx has seen them" 900 "$(logged "^$port HTTP/2.0 200 ")"
        same "$scheme: and says what was spoken" "2 20 20" "$(got "r['generators'][0]['parameters']['http'], r['generators'][0]['parameters']['streams'], h['streams_per_connection']")"
        $ask $carrier $scheme://$at/small -c 2 --streams 10 -n 200 --requests-per-connection 7
        same "$scheme: seven requests a connection" "200 20000 True {}" "$(got "r['responses'], r['content_bytes'], 29 <= r['connections'] <= 31, r['errors']")"
        same "$scheme: and no more" 0 "$(logged "^$port HTTP/2.0 200 ([89]|1[0-9]) ")"
        # nginx says goodbye after a thousand requests, and has not looked at those behind.
        $ask $carrier $scheme://$at/small -c 1 --streams 50 -n 3500
        same "$scheme: connections that the server ends" "3500 350000 {} {}" "$(got "r['responses'], r['content_bytes'], r['errors'], h['resets']")"
        same "$scheme: and that is told" True "$(got "h['goaways'] == {'no_error': 3}")"
        $ask $carrier $scheme://$at/large -c 2 --streams 5 -n 20 --expect-sha256 "$sum"
        same "$scheme: large documents come whole" "20 60000000 2 {} {} {}" "$(got "$all")"
        $ask $carrier $scheme://$at/small -c 4 --streams 5 -r 500 -d 1s
        # What a busy machine does not let begin in time is told, and counts.
        same "$scheme: at a rate" "500 True True {}" "$(got "r['errors'].pop('not_begun', 0) + r['responses'], r['responses'] > 0, r['connections'] <= 4, r['errors']")"
        $ask $carrier $scheme://$at/none -c 1 --streams 5 -n 50 -X HEAD -H 'X-Long: 1' --range 0-9
        same "$scheme: heads alone, with fields" "50 0 {'404': 50} {}" "$(got "r['responses'], r['content_bytes'], r['statuses'], r['errors']")"
        $ask $carrier $scheme://$at/post -c 2 --streams 4 -n 16 -X POST --body "$work/site/large"
        same "$scheme: bodies of requests" "16 1600 {'200': 16} {}" "$(got "r['responses'], r['content_bytes'], r['statuses'], r['errors']")"
    done
    load $carrier https://10.10.0.1:443/small -c 2 --streams 5 -n 100 --tls-resume 1 --requests-per-connection 5
    same "sessions are resumed" "100 True True" "$(got "r['responses'], r['tls']['handshakes_resumed'] >= 15, r['tls']['handshakes_full'] <= 4")"
    plain $carrier http://10.10.0.1:80/small -n 1
    has "a server that does not speak it" "does not speak HTTP/2" "$(cat "$work/load.err")"
    load $carrier https://10.10.0.1:444/small -n 1
    has "nor over TLS" "does not speak HTTP/2" "$(cat "$work/load.err")"
    plain $carrier http://10.10.0.1:80/small -c 1 -n 3 --no-probe
    same "and what fails is counted" "0 {'malformed': 3} {'preface': 3}" "$(got "r['responses'], r['errors'], h['faults']")"
done
plain packets http://10.10.0.1:81/small -c 4 --streams 10 -n 1000 --cores 2
same "two cores" "1000 100000 4 {} {} {}" "$(got "$all")"
for line in "--pipeline 2:no pipelining" "--early-finish:FIN" "-H Connection:x:no header field"; do
    arguments=${line%:*}
    # shellcheck disable=SC2086
    timeout 60 "$exos" load http://127.0.0.1/ --sockets --http 2 $arguments >/dev/null 2>"$work/load.err"
    has "refused: $arguments" "${line##*:}" "$(cat "$work/load.err")"
done
timeout 60 "$exos" load http://127.0.0.1/ --sockets --streams 3 >/dev/null 2>"$work/load.err"
has "refused: --streams alone" "no streams" "$(cat "$work/load.err")"
end $peer; peer= nginx=

# A server that does what is asked of it: against HOW ARGUMENTS..., with what it saw in $work/saw.
against() {
    local how=$1; shift
    mkfifo "$work/input" 2>/dev/null
    : >"$work/saw" # What the one before has said is no word of this one.
    "$exos" lab exec --name "$lab" a -- python3 "$here/http2.py" 10.10.0.1 82 "$how" <"$work/input" >"$work/saw" 2>&1 & peer=$!
    exec 9>"$work/input"
    await grep -q ready "$work/saw" || bad "$how: it starts" "$(cat "$work/saw")"
    plain "$carrier" http://10.10.0.1:82/ "$@"
    exec 9>&-
    wait "$peer"; peer=
}
saw() { python3 -S -c "import json; s = json.loads(open('$work/saw').read().splitlines()[-1]); print($1)" 2>&1; }
for carrier in packets sockets; do
    about="$carrier: "
    against limit -c 2 --streams 10 -n 500
    same "no more streams than the server allows" "500 {} 3" "$(got "r['responses'], r['errors']") $(saw "s['most']")"
    same "and that is told" "10 3" "$(got "h['streams_per_connection'], h['streams_allowed']")"
    against resets -c 1 --streams 10 -n 500
    same "streams that are reset" "400 {'stream_reset': 100} {'refused_stream': 100} 1" "$(got "r['responses'], r['errors'], h['resets'], r['connections']")"
    against goaway -c 1 --streams 20 -n 500
    same "what a server that goes away has not looked at is asked again" "500 {} True" "$(got "r['responses'], r['errors'], h['asked_again'] > 0 and h['goaways']['no_error'] >= 40")"
    same "and nothing is asked twice that it has" 500 "$(saw "s['requests']")"
    against refuses -c 1 --streams 1 -n 5
    same "one that goes away at once is asked twice" "0 {'goaway': 5} 5 10" "$(got "r['responses'], r['errors'], h['asked_again'], h['goaways']['enhance_your_calm']")"
    head -c 100000 /dev/urandom >"$work/body"
    against upload -c 1 --streams 3 -n 9 -X PUT --body "$work/body"
    same "bodies keep to small windows" "9 {}" "$(got "r['responses'], r['errors']")"
    same "and come whole" "True True" "$(saw "s['bodies'] == [100000] * 9, s['windows_kept']")"
    against push -c 1 --streams 1 -n 3
    same "a server that pushes is left" "0 {'malformed': 3} {'push': 3}" "$(got "r['responses'], r['errors'], h['faults']")"
    against pings -c 1 --streams 1 -n 2
    same "so is one that pings without end" "True" "$(got "h['faults'].get('empty_flood', 0) > 0 or r['responses'] == 2")"
done

if command -v h2o >/dev/null; then
    about="h2o: "
    cat >"$work/h2o" <<END
hosts: { default: { paths: { "/": { file.dir: $work/site } } } }
listen: { host: 10.10.0.1, port: 81 }
listen: { host: 10.10.0.1, port: 443, ssl: { certificate-file: $work/pem, key-file: $work/key } }
user: root
END
    "$exos" lab exec --name "$lab" a -- h2o -m worker -c "$work/h2o" >"$work/h2o.log" 2>&1 & peer=$!
    await client curl -sf -m 20 -o /dev/null http://10.10.0.1:81/small || bad "starts" "$(cat "$work/h2o.log")"
    for carrier in packets sockets; do
        plain $carrier http://10.10.0.1:81/small -c 2 --streams 100 -n 2000
        same "$carrier: plain" "2000 200000 2 {} {} {}" "$(got "$all")"
        load $carrier https://10.10.0.1/large -c 2 --streams 5 -n 20 --expect-sha256 "$sum"
        same "$carrier: over TLS" "20 60000000 2 {} {} {}" "$(got "$all")"
    done
    end $peer; peer=
fi
[ $failures = 0 ]
