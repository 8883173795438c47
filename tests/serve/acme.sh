#!/usr/bin/env bash
# Certificates by themselves (ACME), from pebble, Let's Encrypt's authority for tests, to curl. On sockets over loopback and on packets over
# the lab wire. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/serve/acme.sh PATH/TO/exos
#
# pebble is the one that $PEBBLE names or that is installed, with its pebble-challtestsrv, a name server, beside it; else Go's module proxy has it, and it is built once into the user's cache.
. "$(dirname "$0")/../common.sh"
need_root "certificates by themselves"
need_programs "certificates by themselves" curl:curl openssl:openssl python3:python3 unshare:util-linux
version=v2.10.3
if [ -z "${PEBBLE:-}" ] && ! PEBBLE=$(command -v pebble); then
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/exos-tests/pebble-$version
    PEBBLE=$cache/pebble
    if [ ! -x "$PEBBLE" ] || [ ! -x "$PEBBLE-challtestsrv" ]; then
        go=$(command -v go || ls /usr/local/go/bin/go 2>/dev/null) || skip "certificates by themselves" "neither pebble nor go is installed"
        mkdir -p "$cache"
        said=$(GOBIN=$cache GOFLAGS=-mod=mod timeout -k 2 "${EXOS_PEBBLE_BUILD_SECONDS:-60}" "$go" install \
            "github.com/letsencrypt/pebble/v2/cmd/pebble@$version" "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv@$version" 2>&1) ||
            skip "certificates by themselves" "pebble could not be built in ${EXOS_PEBBLE_BUILD_SECONDS:-60} s: $(tail -n 1 <<<"$said")"
    fi
fi
export PEBBLE
be_alone "$@"
begin
lab=acme-$$
other=
cleanup() {
    # shellcheck disable=SC2086
    end $other $peer $server
    "$exos" lab down --name "$lab" >/dev/null 2>&1
    umount "$work/small" 2>/dev/null
    rm -rf "$work"
}

site=$work/site
mkdir -p "$site/.well-known/acme-challenge"
echo home >"$site/index.html"
echo own >"$site/.well-known/acme-challenge/own"
# Who signs the authority's own certificate.
cd "$work" || exit 1
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -subj /CN=ca -days 2 -out ca.pem -addext basicConstraints=critical,CA:TRUE 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout pebble.key -subj /CN=pebble -out pebble.csr 2>/dev/null
openssl x509 -req -in pebble.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out pebble.pem \
    -extfile <(echo subjectAltName=IP:127.0.0.1,IP:10.10.0.2) 2>/dev/null
cd - >/dev/null || exit 1

# pebble_config SECONDS: certificates are valid for so long.
pebble_config() {
    cat >"$work/pebble.json" <<END
{"pebble": {"listenAddress": "0.0.0.0:14000", "managementListenAddress": "0.0.0.0:15000", "certificate": "$work/pebble.pem",
 "privateKey": "$work/pebble.key", "httpPort": 8080, "tlsPort": 8443, "retryAfter": {"authz": 1, "order": 1},
 "keyAlgorithm": "ecdsa", "domainBlocklist": ["blocked.test"],
 "profiles": {"default": {"description": "", "validityPeriod": $1}}}}
END
}
# authority [RUNNER...]: starts pebble, to which names are known by $work/hosts. Its root is in $work/root.pem.
authority() {
    # The first process becomes pebble, also where a function runs it: it ends with its number, and its port is free.
    local by=()
    [ $# = 0 ] || by=("$exos" lab exec --name "$lab" b --)
    PEBBLE_VA_NOSLEEP=1 PEBBLE_AUTHZREUSE=0 "${by[@]}" unshare --mount sh -c 'mount --bind "$1" /etc/hosts && exec "$PEBBLE" $3 -config "$2"' sh "$work/hosts" "$work/pebble.json" "${resolver:-}" >"$work/pebble.log" 2>&1 &
    peer=$!
    await_secs=180 await "$@" curl -sS -m 10 --cacert "$work/ca.pem" "https://127.0.0.1:15000/roots/0" -o "$work/root.pem"
}
# config STATE [LINES of acme]...: writes serve.toml.
config() {
    local state=$1; shift
    cat >"$work/serve.toml" <<END
port = 8080
[tls]
port = 8443
[acme]
contact = ["admin@example.org"]
directory = "https://${authority_ip:-127.0.0.1}:14000/dir"
ca = "ca.pem"
state = "$state"
$(printf '%s\n' "$@")
[status]
path = "/status"
allow = ["127.0.0.1", "10.10.0.0/24"]
[[site]]
names = [${names:-\"a.test\"}]
default = true
root = "site"
https_only = ${https_only:-false}
END
}
run=
ip=127.0.0.1
get() { $run curl -sS -m 60 --cacert "$([ -e "$work/root.pem" ] && echo "$work/root.pem" || echo "$work/ca.pem")" --resolve "a.test:8443:$ip" --resolve "a.test:8080:$ip" --resolve "b.test:8443:$ip" "$@"; }
is_served() { [ "$(get "https://${1:-a.test}:8443/")" = home ]; }
# comes NAME COMMAND...: a certificate does, by which the command succeeds. One that a busy machine has fail once is ordered again in a minute or two.
comes() {
    local name=$1; shift
    if await_secs=300 await "$@"; then ok "$name"; else bad "$name" "$(tail -n 8 "$work/err" "$work/pebble.log")"; fi
}
serial() { $run openssl s_client -connect "$ip:8443" -servername a.test </dev/null 2>/dev/null | openssl x509 -noout -serial; }
statistics() { get "http://a.test:8080/status/status.json"; }
# counter NAME: as the status page has it, which may be a second old.
counter() { statistics | python3 -S -c "import json,sys; print(json.load(sys.stdin)['counters']['$1'])"; }
# asked_by stack|host: the authority was asked in this way alone.
asked_by() {
    local other=host; [ "$1" = stack ] || other=stack
    is_asked() { [ "$(counter "acme_requests_by_$1")" -gt 4 ]; }
    await is_asked "$1" && [ "$(counter "acme_requests_by_$other")" = 0 ]
}
sockets() { launch "http" "$exos" serve --sockets --config "$work/serve.toml" "$@"; }

about="sockets: "
echo "127.0.0.1 localhost a.test blocked.test
192.0.2.9 b.test" >"$work/hosts"
pebble_config 7776000

# The authority is not there at first.
config state
if sockets; then
    same "without an authority: HTTP is served" home "$(get http://a.test:8080/)"
    has "and HTTPS is refused, for there is no certificate" "alert" "$(get -k https://a.test:8443/ 2>&1)"
    check "and why is said" await grep -q "no certificate for a.test: cannot ask https://127.0.0.1:14000/dir" "$work/err"
    is_told() { get http://a.test:8080/status | grep -q "a.test.*cannot ask"; }
    check "and is on the status page" await is_told
    authority
    comes "once it is there, a certificate comes" is_served
    comes "which is said" grep -q "a certificate of a.test has come, by http-01; it is valid for 89 days" "$work/err"
    metrics() { get http://a.test:8080/status/metrics | grep acme_; }
    in_metrics() { metrics | grep -qF "$1"; }
    check "metrics: when it ends" await in_metrics 'exos_serve_acme_certificate_expiry_timestamp_seconds{name="a.test"} '
    check "metrics: no failures any more" await in_metrics 'exos_serve_acme_failures{name="a.test"} 0'
    # Until the authority was there, which takes a busy machine its time.
    counts_orders() { [ "$(($(counter acme_orders) - $(counter acme_orders_failed)))" = 1 ] && [ "$(counter acme_orders_failed)" -ge 1 ] && in_metrics "exos_serve_acme_orders_total $(counter acme_orders)"; }
    check "metrics: how often was ordered" await counts_orders
    same "what a site has below the same path is its own" own "$(get http://a.test:8080/.well-known/acme-challenge/own)"
    before=$(serial)
    check "the authority was asked by the host's sockets" asked_by host
    stop
    same "the folder is for its owner alone" "700 700 700" "$(echo $(stat -c %a "$work/state" "$work"/state/*/ "$work"/state/*/certificates))"
    same "so are the keys" "600 600" "$(echo $(stat -c %a "$work"/state/*/account.json "$work"/state/*/certificates/a.test.pem))"
    same "nothing is left of challenges" "" "$(ls -A "$work"/state/*/challenges)"
else
    bad "it starts" "$(cat "$work/err")"
fi
https_only=true config state
if sockets; then
    check "after a restart the certificate is there" is_served
    same "and is the same" "$before" "$(serial)"
    same "and nothing was ordered" 0 "$(get https://a.test:8443/status/status.json | python3 -S -c "import json,sys; print(json.load(sys.stdin)['counters']['acme_orders'])")"
    # Names that are added, whose site is for HTTPS alone, and of which one leads elsewhere.
    names='"a.test", "b.test", "blocked.test"' https_only=true config state 'challenge = "http-01"'
    kill -HUP "$server"
    comes "a name that leads elsewhere: it is said what to do" grep -q "did not find this server at b.test by http-01: .*port 80" "$work/err"
    comes "a name that is refused: why is said" grep -q "no certificate for blocked.test: .*refuses: .*blocked" "$work/err"
    check "and the others are served" is_served
    stop
else
    bad "it starts again" "$(cat "$work/err")"
fi

# A reload that drops a name while the authority checks it, which takes 15 s where nobody answers: that check fails, and is counted.
about="a name that is dropped meanwhile: "
ip route add 192.0.2.10/32 dev lo
echo "192.0.2.10 hung.test" >>"$work/hosts"
record=$work/state/*/certificates/hung.test.failed
# Requests are more than orders: some nonces are refused on purpose, and are asked for again.
orders() { grep -c "Added order" "$work/pebble.log"; }
names='"a.test", "hung.test"' config state 'challenge = "http-01"'
if sockets; then
    check "the authority is at it" await grep -q "Attempting to validate w/ HTTP: http://hung.test:8080/" "$work/pebble.log"
    config state 'challenge = "http-01"'
    kill -HUP "$server"
    check "it is told that this is counted" await grep -q "no certificate for hung.test: a reload has dropped it while https://127.0.0.1:14000/dir checked the name; the configuration wants none any more" "$work/err"
    # shellcheck disable=SC2086
    same "the folder keeps that" "1 True" "$(python3 -S -c "import json, sys, time; r = json.load(open(sys.argv[1])); print(r['failures'], 0 < r['next_try'] - time.time() <= 75)" $record 2>&1)"
    same "nothing is left of its challenge" "" "$(ls -A "$work"/state/*/challenges)"
    names='"a.test", "hung.test"' config state 'challenge = "http-01"'
    kill -HUP "$server"
    is_known() { get http://a.test:8080/status | grep -q "hung.test.*a reload has dropped it"; }
    check "one that wants it again knows" await is_known
    check "the other name is served" is_served
    check "the server ends in order" stop
else
    bad "it starts" "$(cat "$work/err")"
fi
# Checks that nobody waits for any more are at work there still.
end "$peer"
authority

# Certificates that are lost as soon as they have come: the authority would sign five of a name, and then one in 34 hours.
about="lost certificates: "
config state-lost
came=0
before=$(orders)
for _ in 1 2 3 4 5; do
    sockets || { bad "it starts" "$(cat "$work/err")"; break; }
    await_secs=300 await is_served && came=$((came + 1))
    stop
    rm -f "$work"/state-lost/*/certificates/a.test.pem
done
same "five come" "5 5" "$came $(($(orders) - before))"
if sockets; then
    check "then it is said that the authority bounds them, and where to look" await grep -q "no certificate for a.test: https://127.0.0.1:14000/dir was asked for 5 certificates of a.test lately that are not kept in $work/state-lost/.*; when that is mended, remove $work/state-lost/.*/a.test.ask and restart, or wait; the next is ordered in 3[34] h" "$work/err"
    is_told() { get http://a.test:8080/status | grep -q "a.test.*failures in a row: 1; .*was asked for 5 certificates"; }
    check "and is on the status page" await is_told
    sleep 3
    same "and nothing is ordered" $((before + 5)) "$(orders)"
    same "and it is said once" 1 "$(grep -c "was asked for 5 certificates" "$work/err")"
    check "the server ends in order" stop
else
    bad "it starts" "$(cat "$work/err")"
fi
rm -f "$work"/state-lost/*/certificates/a.test.ask
if sockets; then
    comes "without that file one is ordered" is_served
    stop
else
    bad "it starts" "$(cat "$work/err")"
fi
# counted STATE: certificates of a.test that the folder counts.
counted() { python3 -S -c "import json, sys, time; print(round((json.load(open(sys.argv[1]))['forgotten_at'] - time.time()) / (34 * 3600)))" "$work/$1"/*/certificates/a.test.ask 2>&1; }
# A program that is killed as soon as it has asked: what it was to get is counted.
config state-killed
asked() { grep -c "POST /finalize-order/" "$work/pebble.log"; }
before=$(asked)
if sockets; then
    for _ in $(seq 3000); do
        [ "$(asked)" = "$before" ] || break
        sleep 0.02
    done
    kill -KILL "$server"; wait "$server" 2>/dev/null; server=
    same "what was asked for when the program was killed is counted" 1 "$(counted state-killed)"
else
    bad "it starts" "$(cat "$work/err")"
fi
about="sockets: "

config state2 'challenge = "tls-alpn-01"'
if sockets; then
    comes "tls-alpn-01: a certificate comes" is_served
    comes "tls-alpn-01: by that" grep -q "has come, by tls-alpn-01" "$work/err"
    has "a question that nobody has asked gets no answer" "alert" "$($run openssl s_client -connect "$ip:8443" -servername a.test -alpn acme-tls/1 </dev/null 2>&1)"
    has "ALPN of clients is as before" "ALPN protocol: http/1.1" "$($run openssl s_client -connect "$ip:8443" -servername a.test -alpn acme-tls/1,http/1.1 </dev/null 2>&1)"
    stop
else
    bad "tls-alpn-01: it starts" "$(cat "$work/err")"
fi

# A disk without room for a certificate: the authority, which counts those that it signs, is not asked for one.
about="a full disk: "
mkdir "$work/small"
if mount -t tmpfs -o size=256k exos-test "$work/small"; then
    dd if=/dev/zero of="$work/small/filling" bs=4k count=60 2>/dev/null
    before=$(orders)
    config small/state
    if sockets; then
        check "why there is no certificate is said" await grep -q "no certificate for a.test: nothing is ordered that cannot be kept: No space left" "$work/err"
        same "and nothing was ordered" "$before" "$(orders)"
        same "nor is anything left of it" "" "$(ls -A "$work"/small/state/*/certificates | grep pem)"
        rm "$work/small/filling"
        comes "when there is room, it comes" is_served
        same "by one order" $((before + 1)) "$(orders)"
        stop
    else
        bad "it starts" "$(cat "$work/err")"
    fi
    umount "$work/small"
else
    echo "SKIPPED: a full disk: no file system can be mounted"
fi

# Answers in DNS, by a program that tells a name server: for a name, and for all below it.
about="dns-01: "
if command -v "$PEBBLE-challtestsrv" >/dev/null; then
    end "$peer"
    "$PEBBLE-challtestsrv" -dnsserver 127.0.0.1:8053 -management 127.0.0.1:8055 -http01 "" -https01 "" -tlsalpn01 "" -doh "" -defaultIPv6 "" >"$work/names.log" 2>&1 & other=$!
    await curl -sS -m 10 -d '{}' http://127.0.0.1:8055/clear-request-history
    resolver="-dnsserver 127.0.0.1:8053" authority
    cat >"$work/hook" <<'END'
#!/bin/sh
# Each that was to be set, and each that was cleared.
note() { echo "$*" >>"${0%/*}/hooked"; }
[ "$1" = clear ] || note "$@"
ls -l "/proc/$$/fd" >"${0%/*}/descriptors"
[ ! -e "${0%/*}/hook-fails" ] || { echo "the zone is closed" >&2; exit 7; }
case $1$2 in set*slow.test) echo $$ >"${0%/*}/slow"; exec sleep 500 ;; esac
curl -sS -m 60 -d "{\"host\": \"$2.\", \"value\": \"$3\"}" "http://127.0.0.1:8055/$1-txt" || exit 7
[ "$1" = set ] || note "$@"
END
    chmod 755 "$work/hook"
    touch "$work/hook-fails"
    names='"a.test", "*.a.test"' config state-dns 'dns_hook = "hook"'
    if sockets; then
        check "what the program fails by is said" await grep -q "no certificate for .*a.test: .*hook set _acme-challenge.a.test: exit status: 7" "$work/err"
        check "and what it has said" grep -q "the zone is closed" "$work/err"
        # As what is refused: the first wait is a minute, and up to a quarter more.
        check "it is not tried again soon" grep -qE "the next attempt is in [67][0-9] s" "$work/err"
        stop
        # What is at work then goes on, and would not fail any more.
        are_over() { ! pgrep -f "$work/hook (set|clear)" >/dev/null; }
        await are_over
        rm "$work/hook-fails"
    fi
    if sockets; then
        comes "after a restart a certificate comes" is_served
        below() { get --resolve "b.a.test:8443:$ip" https://b.a.test:8443/; }
        is_below() { [ "$(below)" = home ]; }
        comes "and one for all names below" is_below
        comes "by that" grep -qF "a certificate of *.a.test has come, by dns-01" "$work/err"
        # Those of the last one may be at work yet.
        are_cleared() { [ "$(grep '^set' "$work/hooked" | cut -d ' ' -f 2- | sort)" = "$(grep '^clear' "$work/hooked" | cut -d ' ' -f 2- | sort)" ]; }
        await are_cleared
        same "the program has no descriptors of the server's" 0 "$(grep -c 'socket:\|anon_inode:\|/memfd:' "$work/descriptors")"
        same "records that were set are taken away, each once" "$(grep '^set' "$work/hooked" | cut -d ' ' -f 2- | sort)" "$(grep '^clear' "$work/hooked" | cut -d ' ' -f 2- | sort)"
        same "they are for the name without its star" "_acme-challenge.a.test" "$(cut -d ' ' -f 2 "$work/hooked" | sort -u)"
        stop
        slow=
        names='"slow.test", "a.test"' config state-slow 'dns_hook = "hook"'
        if sockets; then
            check "a program that hangs for one name" await test -s "$work/slow"
            is_late() { await_secs=180 await is_served; }
            check "holds no other up" is_late
            slow=$(cat "$work/slow")
            at_work() { kill -0 "$slow" 2>/dev/null; }
            check "and is at work still" at_work
            kill -HUP "$server"
            check "a reload" await grep -q "exos serve: read again" "$work/err"
            sleep 2
            check "leaves it at work, where its name is still wanted" at_work
            # So does one that fails, and names others.
            config state-slow 'dns_hook = "hook"'
            printf '[[site]]\nnames = ["c.test"]\nroot = "site"\n[[site.certificate]]\nfile = "none"\nkey = "none"\n' >>"$work/serve.toml"
            kill -HUP "$server"
            check "one that fails is told of" await grep -q "cannot read the certificate" "$work/err"
            sleep 2
            check "and leaves it at work" at_work
            config state-slow 'dns_hook = "hook"'
            kill -HUP "$server"
            is_over() { ! at_work; }
            check "one without its name ends it" await is_over
            # Its number may be another program's from then on.
            at_work || slow=
            check "and its order" await grep -q "the order of a certificate of slow.test from .* has ended, for the configuration wants none any more" "$work/err"
            is_cleared() { [ "$(grep -c '^set .*slow.test' "$work/hooked")" = "$(grep -c '^clear.*slow.test' "$work/hooked")" ]; }
            await is_cleared
            same "the record is taken away, which may have been set" "$(sed -n 's/^set \(.*slow.test .*\)/clear \1/p' "$work/hooked")" "$(grep '^clear.*slow.test' "$work/hooked")"
            same "nothing is left of its challenge" "" "$(ls -A "$work"/state-slow/*/challenges)"
            same "and the authority has taken that nobody shows it anything" 0 "$(grep -c "stays open" "$work/err")"
            check "and the other name is served" is_served
            stop
        fi
        [ -z "$slow" ] || kill "$slow" 2>/dev/null
    else
        bad "it starts" "$(cat "$work/err")"
    fi
    end "$peer" "$other"; other=
    authority
else
    echo "SKIPPED: ${about}pebble has no pebble-challtestsrv beside it"
fi

# Through a proxy, as the environment says.
about="proxy: "
cat >"$work/proxy.py" <<'END'
import socket, threading

def pipe(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass

def serve(client):
    head = b""
    while b"\r\n\r\n" not in head:
        data = client.recv(4096)
        if not data:
            return
        head += data
    print(head.decode().split("\r\n")[0], flush=True)
    host, port = head.split()[1].decode().rsplit(":", 1)
    server = socket.create_connection((host, int(port)))
    client.sendall(b"HTTP/1.1 200 It stands\r\n\r\n")
    threading.Thread(target=pipe, args=(server, client), daemon=True).start()
    pipe(client, server)

listener = socket.create_server(("127.0.0.1", 3128))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
END
python3 "$work/proxy.py" >"$work/proxied" 2>&1 &
other=$!
await bash -c "</dev/tcp/127.0.0.1/3128" 2>/dev/null
config state6
if HTTPS_PROXY=http://127.0.0.1:3128 sockets; then
    comes "a certificate comes" is_served
    has "through that" "CONNECT 127.0.0.1:14000 HTTP/1.1" "$(cat "$work/proxied")"
    stop
else
    bad "it starts" "$(cat "$work/err")"
fi
end "$other"
other=

# The authority's advice (RFC 9773): told, and followed where it says that a certificate has to go.
about="advice: "
acme() { statistics | python3 -S -c "import json,sys; it=json.load(sys.stdin)['acme'][0]; print($1)"; }
is_told() { [ "$(acme "it['expires_unix_seconds'] - 31 * 86400 < it['next_order_unix_seconds'] < it['expires_unix_seconds'] - 29 * 86400 and it['advised_from_unix_seconds'] < it['next_order_unix_seconds'] < it['advised_until_unix_seconds']" 2>/dev/null)" = True ]; }
config state5
if sockets; then
    comes "a certificate comes" is_served
    check "it is told, and the next order is within it" await is_told
    before=$(serial)
    $run openssl s_client -connect "$ip:8443" -servername a.test </dev/null 2>/dev/null | openssl x509 >"$work/old.pem"
    python3 - "$work/old.pem" >"$work/advice.json" <<'END'
import json, sys, time
stamp = lambda ago: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - ago))
window = {"suggestedWindow": {"start": stamp(7200), "end": stamp(3600)}, "explanationURL": "https://ca.test/incident"}
print(json.dumps({"Certificate": open(sys.argv[1]).read(), "ARIResponse": json.dumps(window)}))
END
    curl -sS -m 10 --cacert "$work/ca.pem" -d @"$work/advice.json" "https://127.0.0.1:15000/set-renewal-info/"
    stop
    same "an account has its contact and when its terms were agreed to" "admin@example.org True" \
        "$(python3 -S -c "import json,sys; it=json.load(open(sys.argv[1])); print(*it['mail'], it['agreed_at'] > 1)" "$work"/state5/*/contact.json)"
else
    bad "it starts" "$(cat "$work/err")"
fi
sed -i 's/admin@example.org/other@example.org/' "$work/serve.toml"
if sockets; then
    check "to renew at once is followed" await grep -q "advises to renew the certificate of a.test now, see https://ca.test/incident" "$work/err"
    is_other() { [ "$(serial)" != "$before" ]; }
    check "by another certificate" await is_other
    is_counted_once() { [ "$(counted state5)" = 1 ]; }
    check "which is not counted, for nothing was lost" await is_counted_once
    is_contact() { get http://a.test:8080/status | grep -q "other@example.org; terms of service agreed to .* ago"; }
    check "another contact is told to the authority, and is on the status page" await is_contact
    check "and one order was enough" await is_told
    same "and one order was enough, by number" 1 "$(counter acme_orders)"
    stop
else
    bad "it starts again" "$(cat "$work/err")"
fi
about="sockets: "

# Renewal, by an authority whose certificates are valid for a minute: on one connection, while others come. An order has a third of that
# until the old one has ended, which a busy machine needs.
end "$peer"
pebble_config 60
authority
config state3
if sockets; then
    comes "a short certificate comes" is_served
    check "it is renewed without a connection lost" timeout 240 python3 "$here/acme.py" 127.0.0.1 8443 "$work/root.pem" a.test
    same "the folder has one account still" 1 "$(find "$work/state3" -name 'account*.json' | wc -l)"
    # The authority has forgotten everybody.
    end "$peer"
    pebble_config 7776000
    authority
    # It is renewed in two thirds of a minute, or one that failed meanwhile a minute later.
    is_renewed() { await_secs=180 await is_served; }
    check "an authority that has forgotten the account gets another" is_renewed
    stop
else
    bad "renewal: it starts" "$(cat "$work/err")"
fi

# Two processes of one folder: the one that orders is not the one that is asked.
about="two processes: "
config state4
if sockets; then
    comes "the first has a certificate" is_served
    echo "127.0.0.1 localhost a.test b.test" >"$work/hosts"
    end "$peer"
    authority
    sed 's/^port = 8080/port = 8081/; s/^port = 8443/port = 8444/; s/^names = .*/names = ["b.test"]/' "$work/serve.toml" >"$work/second.toml"
    "$exos" serve --sockets --config "$work/second.toml" --json >"$work/out2" 2>"$work/err2" </dev/null &
    other=$!
    comes "the second orders" grep -q "a certificate of b.test has come, by http-01" "$work/err2"
    answered() { [ "$(counter acme_challenges_answered)" -ge 2 ]; }
    check "and the first has answered" await answered
    end "$other"
    other=
    stop
else
    bad "it starts" "$(cat "$work/err")"
fi
end "$peer"
peer=

about="packets: "
lab_up
run=client ip=10.10.0.10 authority_ip=10.10.0.2
echo "10.10.0.10 a.test" >"$work/hosts"
pebble_config 7776000
authority client
for kind in http-01 tls-alpn-01; do
    config "state-$kind" "challenge = \"$kind\""
    if launch_in_lab --config "$work/serve.toml" --link xdp:wire --address 10.10.0.10/24; then
        comes "$kind: a certificate comes" is_served
        comes "$kind: by that" grep -q "has come, by $kind" "$work/err"
        check "$kind: the authority was asked by the server's own stack" asked_by stack
        check "$kind: it ends in order" stop
    else
        bad "$kind: it starts" "$(cat "$work/err")"
    fi
done
ip=10.10.0.1
end "$peer"
echo "10.10.0.1 a.test" >"$work/hosts"
authority client
if launch_in_lab "$site" --link xdp:wire --share-address --port 8080 --tls-port 8443 --acme admin@example.org --acme-name a.test \
    --acme-directory https://10.10.0.2:14000/dir --acme-ca "$work/ca.pem" --acme-state "$work/state-shared"; then
    comes "a shared address, by options: a certificate comes" is_served
    has "a shared address, by options: the host's sockets ask the authority, which is said" "the address is shared with the host" "$(cat "$work/err")"
    check "a shared address, by options: it ends in order" stop
else
    bad "a shared address, by options: it starts" "$(cat "$work/err")"
fi
# A link that the daemon lends to a user who is nobody else; and a folder that root makes for it.
chmod 755 "$work"
user=65534
ip=10.10.0.10
end "$peer"
echo "10.10.0.10 a.test" >"$work/hosts"
authority client
"$exos" lab exec --name "$lab" a -- "$exos" daemon --interface wire --address 10.10.0.10/24 --user $user --socket "$work/sock" >"$work/daemon" 2>&1 </dev/null &
other=$!
if ! await grep -q 'listening at' "$work/daemon"; then
    bad "the daemon starts" "$(cat "$work/daemon")"
elif launch_in_lab "$site" --xokd "$work/sock" --user $user --status /status --status-allow 10.10.0.0/24 --port 8080 --tls-port 8443 --acme admin@example.org --acme-name a.test \
    --acme-directory https://10.10.0.2:14000/dir --acme-ca "$work/ca.pem" --acme-state "$work/state-user"; then
    comes "by the daemon, as a user: a certificate comes" is_served
    check "by the daemon, as a user: the authority was asked by the server's own stack" asked_by stack
    same "by the daemon, as a user: the folder is the user's" "$user" "$(stat -c %u "$work/state-user")"
    same "by the daemon, as a user: so is the certificate" "$user 600" "$(stat -c '%u %a' "$work"/state-user/*/certificates/a.test.pem)"
    check "by the daemon, as a user: it ends in order" stop
else
    bad "by the daemon, as a user: it starts" "$(cat "$work/err")"
fi
kill -TERM "$other"; wait "$other"; other=

about=
set -f
for wrong in "--acme a@b.test|--acme-name" "--acme admin --acme-name a.test|is no mail address" \
    "--acme a@b.test --acme-name *.a.test|takes an answer in DNS" "--acme a@b.test --acme-name 192.0.2.1|it is an address" \
    "--acme a@b.test --acme-name a.test --acme-directory http://x/|with https://" \
    "--acme a@b.test --acme-name a.test --acme-state /proc/x|cannot make the folder" \
    "--acme a@b.test --acme-name a.test --acme-state /proc/x --user 65534|for 65534 alone"; do
    # shellcheck disable=SC2086
    has "options: ${wrong%%|*}" "${wrong#*|}" "$(timeout 60 "$exos" serve --sockets "$site" --port 8080 --tls-port 8443 ${wrong%%|*} 2>&1)"
done
set +f
[ $failures = 0 ]
