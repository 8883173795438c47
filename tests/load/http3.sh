#!/usr/bin/env bash
# `exos load --http 3` against our own server, h2o and aioquic, over packets and over sockets: what was asked for comes whole, by as many
# streams as both allow, and handshakes are told of; and against a server that resets streams, goes away and breaks the rules. Prints
# "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/load/http3.sh PATH/TO/exos
#
# Everything happens in namespaces of a lab of its own. Nothing here judges how fast it is. PYTHON names an interpreter that has
# aioquic.
. "$(dirname "$0")/common.sh"
need_root "the load generator over HTTP/3"
need_programs "the load generator over HTTP/3" python3 openssl curl
need_aioquic "the load generator over HTTP/3"
be_alone "$@"
begin
lab=load-http3-$$
in_the_end() { cleanup; forget_aioquic; }
trap '[ "$BASHPID" != $$ ] || in_the_end' EXIT

mkdir -p "$work/site"
head -c 100 /dev/urandom >"$work/site/small"
head -c 3000000 /dev/urandom >"$work/site/large"
chmod -R a+rX "$work"
sum=$(sha256sum <"$work/site/large" | cut -d ' ' -f 1)
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/key" -out "$work/pem" -days 9 -subj /CN=lab \
    -addext 'subjectAltName=IP:10.10.0.1,IP:10.10.0.10' 2>/dev/null
chmod 600 "$work/key"
lab_up || { bad "lab up"; exit 1; }

# load CARRIER URL ARGUMENTS...: its results are in $work/load. It leaves the core to others while it waits; with idle= it does what it does when nothing is said.
load() {
    local by=(--link xdp:wire --address 10.10.0.20/24) url=$2
    [ "$1" = packets ] || by=(--sockets)
    shift 2
    # shellcheck disable=SC2086
    timeout 700 "$exos" lab exec --name "$lab" b -- "$exos" load "$url" "${by[@]}" ${idle---idle sleep} --http 3 ${trust:---cacert $work/pem} --json --timeout "${patience:-300s}" ${span:--d 600s} "$@" >"$work/load" 2>"$work/load.err"
}
got() { python3 -S -c "import json; r = json.load(open('$work/load')); h = r['http3']; t = r['tls']; print($1)" 2>&1; }
all="r['responses'], r['content_bytes'], r['connections'], r['errors'], h['resets'], h['faults']"

# serves URL: what every server does.
serves() {
    local carrier=$1 at=$2
    idle= load "$carrier" "https://$at/small" -c 3 --streams 20 -n 900
    same "streams of few connections" "900 90000 3 {} {} {}" "$(got "$all")"
    same "what was spoken" "3 20 20" "$(got "r['generators'][0]['parameters']['http'], r['generators'][0]['parameters']['streams'], h['streams_per_connection']")"
    same "handshakes are told of" "3 0 {} 3 3" "$(got "t['handshakes_full'], t['handshakes_resumed'], t['handshakes_failed'], r['times_us']['handshake']['count'], r['times_us']['connect']['count']")"
    load "$carrier" "https://$at/small" -c 2 --streams 10 -n 200 --requests-per-connection 7
    same "seven requests a connection" "200 20000 True {}" "$(got "r['responses'], r['content_bytes'], 29 <= r['connections'] <= 31, r['errors']")"
    load "$carrier" "https://$at/small" -c 4 -n 100 --requests-per-connection 1 --tls-resume 1
    same "sessions are resumed" "100 {} True True" "$(got "r['responses'], r['errors'], t['handshakes_resumed'] >= 60, t['handshakes_full'] + t['handshakes_resumed'] == 100")"
    load "$carrier" "https://$at/large" -c 2 --streams 5 -n 20 --expect-sha256 "$sum"
    same "large documents come whole" "20 60000000 2 {} {} {}" "$(got "$all")"
    span="-d 1s" load "$carrier" "https://$at/small" -c 4 --streams 100 -r 300
    # What a busy machine does not let begin in time is told, and counts.
    same "at a rate" "300 True True {}" "$(got "r['errors'].pop('not_begun', 0) + r['responses'], r['responses'] > 0, r['connections'] <= 4, r['errors']")"
    load "$carrier" "https://$at/none" -c 1 --streams 5 -n 50 -X HEAD -H 'X-Long: 1' --range 0-9
    same "heads alone, with fields" "50 0 {'404': 50} {}" "$(got "r['responses'], r['content_bytes'], r['statuses'], r['errors']")"
}
# early CARRIER AT: requests that leave with the hello, of a server that takes them.
early() {
    load "$1" "https://$2/small" -c 4 -n 100 --requests-per-connection 1 --tls-early 1
    same "requests leave with the hello" "100 {} True 0" "$(got "r['responses'], r['errors'], t['handshakes_early'] >= 60, t['early_refused']")"
    load "$1" "https://$2/small" -c 4 --streams 5 -n 200 --requests-per-connection 10 --tls-early 0.5 --tls-resume 0.3
    same "as many as is asked for" "200 {} True" "$(got "r['responses'], r['errors'], t['handshakes_early'] + t['handshakes_resumed'] + t['handshakes_full'] == r['connections']")"
}
# certificates CARRIER AT: handshakes that fail, before the load and in it.
certificates() {
    load "$1" "https://$2/small" -n 1 --tls-name another.test
    has "a certificate of another name is told of" "certificate" "$(cat "$work/load.err")"
    load "$1" "https://$2/small" -c 1 -n 3 --tls-name another.test --no-probe
    same "and counted" "0 {'tls_handshake': 3} {'certificate_of_another_name': 3}" "$(got "r['responses'], r['errors'], t['handshakes_failed']")"
    trust=--insecure load "$1" "https://$2/small" -c 1 -n 3 --tls-name another.test
    same "nobody looks where nobody is to" "3 {}" "$(got "r['responses'], r['errors']")"
}

if launch_in_lab "$work/site" --link xdp:wire --address 10.10.0.10/24 --port 8080 --tls-port 443 --tls-cert "$work/pem" --tls-key "$work/key" --http3 --tls-early-data --json; then
    for carrier in packets sockets; do
        about="our server, $carrier: "
        serves $carrier 10.10.0.10
        early $carrier 10.10.0.10
        certificates $carrier 10.10.0.10
        load $carrier https://10.10.0.10:444/small -n 1
        has "where nobody listens" "10.10.0.10:444" "$(cat "$work/load.err")"
    done
    about=
    load sockets https://10.10.0.10/small -c 8 --streams 3 -n 1000 --cores 2
    if [ "$(nproc)" -lt 2 ]; then echo "SKIPPED: HTTP/3 from two cores: there is one"; else same "two cores" "1000 100000 8 {} {} {}" "$(got "$all")"; fi
    check "the server stops in order" stop
else
    bad "our server starts" "$(cat "$work/err")"
fi
about=
for line in "https://127.0.0.1/ --pipeline 2:no pipelining" "https://127.0.0.1/ --early-finish:FIN" "https://127.0.0.1/ -H Connection:x:no header field" \
    "http://127.0.0.1/:TLS alone"; do
    arguments=${line%:*}
    # shellcheck disable=SC2086
    timeout 60 "$exos" load $arguments --sockets --http 3 >/dev/null 2>"$work/load.err"
    has "refused: $arguments" "${line##*:}" "$(cat "$work/load.err")"
done

# A server that does what is asked of it: against HOW ARGUMENTS..., with what it saw in $work/saw.
against() {
    local how=$1; shift
    mkfifo "$work/input" 2>/dev/null
    : >"$work/saw" # What the one before has said is no word of this one.
    "$exos" lab exec --name "$lab" a -- "$PYTHON" "$here/http3.py" 10.10.0.1 443 "$work/pem" "$work/key" "$how" <"$work/input" >"$work/saw" 2>&1 & peer=$!
    exec 9>"$work/input"
    await grep -q ready "$work/saw" || bad "$how: it starts" "$(cat "$work/saw")"
    load "$carrier" https://10.10.0.1/ "$@"
    exec 9>&-
    wait "$peer"; peer=
}
saw() { python3 -S -c "import json; s = json.loads(open('$work/saw').read().splitlines()[-1]); print($1)" 2>&1; }
for carrier in packets sockets; do
    about="$carrier: "
    against answers -c 2 --streams 10 -n 100
    same "an interim response is none" "100 500 {'200': 100} {}" "$(got "r['responses'], r['content_bytes'], r['statuses'], r['errors']")"
    against resets -c 1 --streams 10 -n 50
    same "streams that are reset" "40 {'stream_reset': 10} {'internal_error': 10} 1" "$(got "r['responses'], r['errors'], h['resets'], r['connections']")"
    against goaway -c 1 --streams 4 -n 50
    same "what a server that goes away has not looked at is asked again" "50 {} True" "$(got "r['responses'], r['errors'], h['goaways'].get('no_error', 0) >= 4")"
    against refuses -c 1 --streams 1 -n 3
    same "one that goes away at once is asked twice" "0 {'goaway': 3} 3" "$(got "r['responses'], r['errors'], h['asked_again']")"
    against closes -c 1 --streams 1 -n 12
    same "one that ends connections with an error" "10 {'goaway': 2} {'excessive_load': 2}" "$(got "r['responses'], r['errors'], h['goaways']")"
    against short -c 1 --streams 1 -n 3
    same "a body that is too short is malformed" "0 {'malformed': 3} {} 1" "$(got "r['responses'], r['errors'], h['faults'], r['connections']")"
    against push -c 1 --streams 1 -n 3
    same "a server that pushes is left" "0 {'malformed': 3} {'frame_unexpected': 3}" "$(got "r['responses'], r['errors'], h['faults']")"
    against settings -c 1 --streams 1 -n 3
    same "so is one that says its settings twice" "True" "$(got "h['faults'].get('frame_unexpected', 0) > 0 and r['errors'].get('malformed', 0) > 0")"
    patience=5s against drops -c 1 --streams 2 -n 2
    same "one that does not answer" "0 {'timeout': 2}" "$(got "r['responses'], r['errors']")"
    head -c 300000 /dev/urandom >"$work/body"
    against upload -c 1 --streams 3 -n 9 -X PUT --body "$work/body"
    same "bodies come whole" "9 {} True" "$(got "r['responses'], r['errors']") $(saw "s['bodies'] == ['$(sha256sum <"$work/body" | cut -d ' ' -f 1)'] * 9")"
done

if command -v h2o >/dev/null && h2o --version 2>&1 | grep -q "^h2o version 2\.[3-9]"; then
    cat >"$work/h2o" <<END
hosts: { default: { paths: { "/": { file.dir: $work/site } } } }
listen: &tls { host: 10.10.0.1, port: 443, ssl: &ssl { certificate-file: $work/pem, key-file: $work/key, minimum-version: TLSv1.3 } }
listen: { host: 10.10.0.1, port: 443, type: quic, ssl: { certificate-file: $work/pem, key-file: $work/key, minimum-version: TLSv1.3 } }
user: root
END
    "$exos" lab exec --name "$lab" a -- h2o -m worker -c "$work/h2o" >"$work/h2o.log" 2>&1 & peer=$!
    await client curl -skf -m 20 -o /dev/null https://10.10.0.1/small || bad "h2o starts" "$(cat "$work/h2o.log")"
    for carrier in packets sockets; do
        about="h2o, $carrier: "
        serves $carrier 10.10.0.1
    done
    end $peer; peer=
else
    echo "SKIPPED: HTTP/3 against h2o: there is none with QUIC (2.3 or later)"
fi
[ $failures = 0 ]
