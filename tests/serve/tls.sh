#!/usr/bin/env bash
# HTTPS with real clients: curl and openssl, and nginx beside it where what it does says something. On sockets over
# loopback and on packets over the lab wire. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/serve/tls.sh PATH/TO/exos
. "$(dirname "$0")/../common.sh"
need_root "HTTPS"
need_programs "HTTPS" curl:curl openssl:openssl python3:python3 ethtool:ethtool
be_alone "$@"
begin
lab=tls-$$

# Certificates: an authority, an intermediate one, and what they have signed.
ca=$work/ca
mkdir "$ca" && cd "$ca" || exit 1
key() { case $2 in rsa) openssl genrsa -out "$1.key" 2048 ;; *) openssl ecparam -name prime256v1 -genkey -noout -out "$1.key" ;; esac 2>/dev/null; chmod 600 "$1.key"; }
# issue NAME KIND ISSUER SAN [MORE OF openssl x509]...
issue() {
    local name=$1 kind=$2 issuer=$3 san=$4; shift 4
    key "$name" "$kind"
    openssl req -new -key "$name.key" -subj "/CN=$name" -out "$name.csr" 2>/dev/null
    openssl x509 -req -in "$name.csr" -CA "$issuer.crt" -CAkey "$issuer.key" -CAcreateserial -out "$name.crt" -sha256 \
        -extfile <(printf '%s\n' "$san") -days 90 "$@" 2>/dev/null
}
key root ec
openssl req -x509 -new -key root.key -subj /CN=root -days 90 -out root.crt -addext basicConstraints=critical,CA:TRUE 2>/dev/null
issue middle ec root "basicConstraints=critical,CA:TRUE"
issue a ec middle "subjectAltName=DNS:a.test"
issue a-rsa rsa middle "subjectAltName=DNS:a.test"
issue wild ec middle "subjectAltName=DNS:*.w.test"
issue new ec middle "subjectAltName=DNS:a.test"
issue near ec middle "subjectAltName=DNS:a.test" -days 5
issue client ec root "extendedKeyUsage=clientAuth"
for name in a a-rsa wild new near; do cat $name.crt middle.crt >$name.pem; done
# What the issuer says of a certificate.
printf 'V\t%s\t\t%s\tunknown\t/CN=new\n' "$(date -u -d '+90 days' +%y%m%d%H%M%SZ)" "$(openssl x509 -in new.crt -noout -serial | cut -d= -f2)" >index.txt
openssl ocsp -issuer middle.crt -cert new.crt -no_nonce -reqout new.req >/dev/null 2>&1
openssl ocsp -index index.txt -rsigner middle.crt -rkey middle.key -CA middle.crt -reqin new.req -respout new.ocsp -ndays 7 >/dev/null 2>&1
cat middle.crt a.crt >turned.pem
openssl pkey -in a.key -aes256 -passout pass:x -out a-encrypted.key 2>/dev/null
cp a.key a-open.key && chmod 644 a-open.key
echo nothing >empty.pem
sed '3s/./!/' a.crt >broken.pem
cd - >/dev/null || exit 1

site=$work/site
mkdir -p "$site" "$work/wild"
echo home >"$site/index.html"
echo wild >"$work/wild/index.html"
head -c 3000000 /dev/urandom >"$site/large.bin"
head -c 20000000 /dev/urandom >"$site/long.bin"
head -c 100 /dev/zero | tr '\0' x >"$site/small.txt"
cat >"$work/serve.toml" <<END
port = 8080
[tls]
port = 8443
[limits]
stream = "8MiB"
[status]
path = "/status"
allow = ["127.0.0.1", "10.10.0.0/24"]
[[site]]
names = ["a.test"]
default = true
root = "site"
[[site.certificate]]
file = "ca/a.pem"
key = "ca/a.key"
[[site.certificate]]
file = "ca/a-rsa.pem"
key = "ca/a-rsa.key"
[[site]]
names = ["*.w.test"]
root = "wild"
https_only = true
hsts_days = 1
[[site.certificate]]
file = "ca/wild.pem"
key = "ca/wild.key"
[[site]]
names = ["b.test", "www.b.test"]
root = "wild"
https_only = true
[[site.certificate]]
file = "ca/wild.pem"
key = "ca/wild.key"
END

# by RUNNER IP: what clients see, who ask this address.
by() {
    local run=$1 ip=$2 version got name
    # Says nothing, until the server has enough of it.
    $run timeout 120 bash -c "exec 3<>/dev/tcp/$ip/8443; cat <&3" >/dev/null 2>&1 &
    local silent=$!
    local curl="$run curl -sS -m 60 --cacert $ca/root.crt"
    local at="--resolve a.test:8443:$ip --resolve x.w.test:8443:$ip --resolve x.w.test:8080:$ip --resolve www.b.test:8080:$ip --resolve other.test:8443:$ip"
    for version in 1.2 1.3; do
        local only="--tlsv$version --tls-max $version"
        same "TLS $version: a page" home "$($curl $at $only https://a.test:8443/ 2>&1)"
        for name in large.bin long.bin; do
            $curl $at $only -o "$work/got" "https://a.test:8443/$name"
            check "TLS $version: $name, byte for byte" cmp "$work/got" "$site/$name"
        done
        $curl $at $only --limit-rate 8M -o "$work/got" "https://a.test:8443/large.bin"
        check "TLS $version: a slow reader gets all" cmp "$work/got" "$site/large.bin"
        $curl $at $only -r 1000-200999 -o "$work/got" "https://a.test:8443/large.bin"
        check "TLS $version: a part" cmp "$work/got" <(tail -c +1001 "$site/large.bin" | head -c 200000)
        got=$($curl $at $only -w '%{num_connects}\n' -o /dev/null https://a.test:8443/small.txt -o /dev/null https://a.test:8443/small.txt)
        same "TLS $version: a connection is kept" "1 0" "$(echo $got)"
    done
    for name in TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256; do
        same "$name" home "$($curl $at --tlsv1.3 --tls13-ciphers $name https://a.test:8443/ 2>&1)"
    done
    for name in ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-ECDSA-CHACHA20-POLY1305 ECDHE-RSA-AES256-GCM-SHA384 ECDHE-RSA-CHACHA20-POLY1305; do
        same "$name" home "$($curl $at --tls-max 1.2 --ciphers $name https://a.test:8443/ 2>&1)"
    done
    same "the certificate for names below another" wild "$($curl $at https://x.w.test:8443/ 2>&1)"
    has "an unknown name gets the default site's certificate" "no alternative certificate subject name matches" "$($curl $at https://other.test:8443/ 2>&1)"
    has "plain HTTP at the port of HTTPS is told so" "400" "$($run curl -sS -m 60 -o /dev/null -w '%{http_code}' "http://$ip:8443/" 2>&1)"
    has "a site for HTTPS alone redirects" "301 https://x.w.test:8443/p?q" "$($curl $at -o /dev/null -w '%{http_code} %{redirect_url}' "http://x.w.test:8080/p?q" 2>&1)"
    has "and keeps the host, if that is the site's" "301 https://www.b.test:8443/p" "$($curl $at -o /dev/null -w '%{http_code} %{redirect_url}' "http://www.b.test:8080/p" 2>&1)"
    has "and repeats other methods" "308" "$($curl $at -d x -o /dev/null -w '%{http_code}' "http://x.w.test:8080/p" 2>&1)"
    has "and has browsers remember that" "strict-transport-security: max-age=86400" "$($curl $at -I https://x.w.test:8443/ 2>&1)"
    same "but not by plain HTTP" "" "$($curl $at -I http://x.w.test:8080/ | grep -i strict)"
    got=$($run openssl s_client -connect "$ip:8443" -servername a.test -tls1_2 -reconnect </dev/null 2>&1)
    same "TLS 1.2: sessions are resumed" 5 "$(grep -c ^Reused <<<"$got")"
    $run openssl s_client -connect "$ip:8443" -servername a.test -tls1_3 -sess_out "$work/session" -ign_eof >/dev/null 2>&1 <<<$'GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r'
    got=$($run openssl s_client -connect "$ip:8443" -servername a.test -tls1_3 -sess_in "$work/session" </dev/null 2>&1)
    has "TLS 1.3: a session is resumed" "Reused" "$got"
    got=$($run openssl s_client -connect "$ip:8443" -servername a.test -alpn h9,http/1.1 </dev/null 2>&1)
    has "ALPN: http/1.1" "ALPN protocol: http/1.1" "$got"
    got=$($run openssl s_client -connect "$ip:8443" -servername a.test -sigalgs RSA-PSS+SHA256 </dev/null 2>&1)
    has "a client of RSA alone gets the certificate of RSA" "rsa" "$(grep -i 'signature type' <<<"$got" | tr A-Z a-z)"
    got=$($run openssl s_client -connect "$ip:8443" -tls1_1 -cipher DEFAULT@SECLEVEL=0 </dev/null 2>&1)
    has "TLS 1.1 is refused" "alert" "$got"
    got=$($curl $at https://a.test:8443/status/metrics)
    has "metrics say when a certificate ends" "exos_serve_certificate_expiry_timestamp_seconds" "$got"
    has "metrics count handshakes" "exos_serve_tls_handshakes_resumed_total" "$got"
    wait "$silent"
    # The page may be a second old.
    timed_out() { $curl $at https://a.test:8443/status/metrics | grep -q 'tls_handshake_timeouts_total [1-9]'; }
    check "a client that says nothing has ten seconds" await timed_out
    check "many connections at once" $run python3 "$here/tls.py" "$ip" 8443 "$ca/root.crt" "$site"
}
here() { "$@"; }

about="sockets: "
if launch "https://" "$exos" serve --sockets --config "$work/serve.toml" --log "$work/access.log"; then
    by here 127.0.0.1
    cp "$site/long.bin" "$site/failing.bin"
    check "a session that fails is not logged as delivered" python3 "$here/tls-failed.py" 127.0.0.1 8443 "$ca/root.crt" failing.bin 20000000 "$work/access.log"
    cp "$ca/new.pem" "$ca/a.pem" && cp "$ca/new.key" "$ca/a.key"
    serial() { here openssl s_client -connect 127.0.0.1:8443 -servername a.test </dev/null 2>/dev/null | openssl x509 -noout -serial; }
    new=$(openssl x509 -in "$ca/new.crt" -noout -serial)
    is_new() { [ "$(serial)" = "$new" ]; }
    kill -HUP "$server"
    check "SIGHUP takes a new certificate" await is_new
    cp "$ca/near.pem" "$ca/a.pem" && cp "$ca/near.key" "$ca/a.key"
    new=$(openssl x509 -in "$ca/near.crt" -noout -serial)
    check "a changed file is noticed" await is_new
    check "and that it is about to end is said" await grep -q "expires in" "$work/err"
    cp "$ca/wild.key" "$ca/a.key"
    kill -HUP "$server"
    check "a key of another certificate is not taken" await grep -q "does not belong" "$work/err"
    check "and what there was stays in use" is_new
    cp "$ca/near.key" "$ca/a.key"
    cp "$work/serve.toml" "$work/kept.toml"
    sed -i 's/^port = 8443/port = 8444/; s/^default = true/&\nhttps_only = true/' "$work/serve.toml"
    kill -HUP "$server"
    check "another port takes a restart" await grep -q "another port takes a restart" "$work/err"
    at_w="curl -sS -m 60 --resolve x.w.test:8080:127.0.0.1 http://x.w.test:8080/"
    status_of() { curl -sS -m 60 -o /dev/null -w '%{http_code}' "http://127.0.0.1:8080/$1"; }
    is_https_only() { [ "$(status_of small.txt)" = 301 ]; }
    check "a default site for HTTPS alone redirects" await is_https_only
    same "but a status page that an address is asked for" 200 "$(status_of status)"
    has "and redirects go to the one that there is" "https://x.w.test:8443/" "$($at_w -o /dev/null -w '%{redirect_url}' 2>&1)"
    printf 'port = 8080\n[[site]]\nroot = "site"\n' >"$work/serve.toml"
    kill -HUP "$server"
    check "so does an end of HTTPS" await grep -q "no HTTPS any more takes a restart" "$work/err"
    check "and HTTPS stays" is_new
    cp "$work/kept.toml" "$work/serve.toml"
    check "it ends in order" stop
else
    bad "it starts" "$(cat "$work/err")"
fi

about="packets: "
lab_up
cp "$ca/new.pem" "$ca/a.pem" && cp "$ca/new.key" "$ca/a.key"
if launch_in_lab --config "$work/serve.toml" --link xdp:wire --address 10.10.0.10/24; then
    by client 10.10.0.10
    check "it ends in order" stop
else
    bad "it starts" "$(cat "$work/err")"
fi
if launch_in_lab "$site" --link xdp:wire --share-address --port 8080 --tls-port 8443 --tls-self-signed; then
    same "a shared address: HTTPS" home "$(client curl -sSk -m 60 https://10.10.0.1:8443/ 2>&1)"
    same "a shared address: HTTP beside it" home "$(client curl -sS -m 60 http://10.10.0.1:8080/ 2>&1)"
    check "a shared address: it ends in order" stop
else
    bad "a shared address: it starts" "$(cat "$work/err")"
fi

client ethtool -K wire gro on
if launch_in_lab "$site" --link xdp:wire --address 10.10.0.10/24 --port 8080 --tls-port 8443 --tls-self-signed --in-kernel --json; then
    plain() { client curl -sS -m 60 http://10.10.0.10:8080/small.txt -o /dev/null http://10.10.0.10:8080/small.txt -o /dev/null; }
    in_kernel() { plain; kill -USR1 "$server"; grep -q '"link_xdp_answered":[1-9]' "$work/out"; }
    check "in the kernel: it answers HTTP" await in_kernel
    same "in the kernel: HTTPS beside it" home "$(client curl -sSk -m 60 https://10.10.0.10:8443/ 2>&1)"
    check "in the kernel: it ends in order" stop
else
    bad "in the kernel: it starts" "$(cat "$work/err")"
fi
"$exos" lab down --name "$lab" >/dev/null 2>&1
if [ "$(nproc)" -ge 2 ] && lab_up --queues 2 && launch_in_lab "$site" --link xdp:wire --address 10.10.0.10/24 --port 8080 --tls-port 8443 --tls-self-signed --cores 2; then
    s_client() { client openssl s_client -connect 10.10.0.10:8443 "$@" 2>&1; }
    s_client -sess_out "$work/session" -ign_eof >/dev/null <<<$'GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r'
    got=$(for _ in $(seq 16); do s_client -sess_in "$work/session" </dev/null | grep -c ^Reused; done | sort | uniq -c)
    same "two cores: a session is resumed on either" "16 1" "$(echo $got)"
    check "two cores: it ends in order" stop
else
    bad "two cores: it starts" "$(cat "$work/err")"
fi

about=
# FastCGI is told that it is HTTPS.
python3 "$here/../fastcgi/application.py" "$work/app.sock" "$work/app.log" >/dev/null 2>&1 &
peer=$!
await test -S "$work/app.sock"
if launch "https://" "$exos" serve --sockets "$site" --port 8080 --tls-port 8443 --tls-self-signed --fastcgi "/app/*=$work/app.sock"; then
    got=$(curl -sSk -m 60 "https://127.0.0.1:8443/app/x?echo" 2>&1)
    for says in HTTPS=on REQUEST_SCHEME=https SERVER_PORT=8443; do has "FastCGI by HTTPS: $says" "$says" "$got"; done
    got=$(curl -sS -m 60 "http://127.0.0.1:8080/app/x?echo" 2>&1)
    same "FastCGI by HTTP is not told so" "REQUEST_SCHEME=http" "$(grep -e ^HTTPS= -e ^REQUEST_SCHEME= <<<"$got")"
    key_now() { openssl s_client -connect 127.0.0.1:8443 </dev/null 2>/dev/null | openssl x509 -noout -fingerprint; }
    before=$(key_now)
    kill -HUP "$server"
    check "a reload is done" await grep -q "reload\|serv.*again" "$work/err"
    same "a certificate for trying outlives a reload" "$before" "$(key_now)"
    stop
else
    bad "FastCGI" "$(cat "$work/err")"
fi
end "$peer"; peer=

# A user that cannot read the keys.
chmod 755 "$work"
cp "$work/serve.toml" "$work/kept.toml"
if id nobody >/dev/null 2>&1 && launch "https://" "$exos" serve --sockets --config "$work/serve.toml" --user nobody; then
    has "a key that the user cannot read is told of" "nobody cannot read" "$(cat "$work/err")"
    printf '[[site]]\nnames = ["n.test"]\nroot = "wild"\n' >>"$work/serve.toml"
    kill -HUP "$server"
    check "SIGHUP says what stays" await grep -q "have nobody read it.*stays in use" "$work/err"
    is_there() { [ "$(curl -sS -m 60 -H 'Host: n.test' http://127.0.0.1:8080/)" = wild ]; }
    check "and takes the rest" await is_there
    has "and HTTPS goes on" "home" "$(curl -sS -m 60 --cacert "$ca/root.crt" --resolve a.test:8443:127.0.0.1 https://a.test:8443/ 2>&1)"
    stop
else
    bad "a user" "$(cat "$work/err")"
fi
cp "$work/kept.toml" "$work/serve.toml"

# A client's certificate. Tickets from before it was asked for are of no use.
if launch "https://" "$exos" serve --sockets --config "$work/serve.toml"; then
    for version in 1_2 1_3; do
        openssl s_client -connect 127.0.0.1:8443 -servername a.test -tls$version -sess_out "$work/session$version" -ign_eof >/dev/null 2>&1 <<<$'GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r'
    done
    sed -i 's,^\[tls\],[tls]\nclient_ca = "ca/root.crt",' "$work/serve.toml"
    kill -HUP "$server"
    is_shut() { ! curl -sS -m 60 --cacert "$ca/root.crt" --resolve a.test:8443:127.0.0.1 https://a.test:8443/; }
    check "client_ca comes by a reload" await is_shut
    for version in 1_2 1_3; do
        got=$(openssl s_client -connect 127.0.0.1:8443 -servername a.test -tls$version -sess_in "$work/session$version" -ign_eof 2>&1 <<<$'GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r')
        check "and tickets from before are refused ($version)" [ "${got/200 OK/}" = "$got" ]
    done
    stop
else
    bad "client_ca by a reload" "$(cat "$work/err")"
fi
cp "$work/kept.toml" "$work/serve.toml"
sed -i 's,^\[tls\],[tls]\nclient_ca = "ca/root.crt",; s,^key = "ca/a.key",&\nocsp = "ca/new.ocsp",' "$work/serve.toml"
if launch "https://" "$exos" serve --sockets --config "$work/serve.toml"; then
    c="curl -sS -m 60 --cacert $ca/root.crt --resolve a.test:8443:127.0.0.1 https://a.test:8443/"
    same "a client with a certificate" home "$($c --cert "$ca/client.crt" --key "$ca/client.key" 2>&1)"
    has "one without" "alert" "$($c 2>&1)"
    got=$(openssl s_client -connect 127.0.0.1:8443 -servername a.test -status -cert "$ca/client.crt" -key "$ca/client.key" </dev/null 2>&1)
    has "what the issuer says of a certificate is stapled" "OCSP Response Status: successful" "$got"
    has "one with another's" "alert" "$($c --cert "$ca/new.crt" --key "$ca/new.key" 2>&1)"
    stop
else
    bad "client_ca" "$(cat "$work/err")"
fi

# What is wrong with files is said, and what to do.
refused() {
    local name=$1 says=$2; shift 2
    has "$name" "$says" "$("$exos" serve --sockets --check "$site" --port 8080 "$@" 2>&1)"
}
refused "a key of another certificate" "does not belong to the certificate" --tls-cert "$ca/a.pem" --tls-key "$ca/wild.key"
refused "an encrypted key" "is encrypted" --tls-cert "$ca/new.pem" --tls-key "$ca/a-encrypted.key"
refused "a key that is not there" "cannot read the key" --tls-cert "$ca/new.pem" --tls-key "$ca/none.key"
refused "a certificate that is none" "there is no certificate in" --tls-cert "$ca/empty.pem" --tls-key "$ca/new.key"
refused "a broken certificate" "is broken" --tls-cert "$ca/broken.pem" --tls-key "$ca/new.key"
refused "a key in place of a certificate" "there is no certificate in" --tls-cert "$ca/new.key" --tls-key "$ca/new.key"
refused "a certificate in place of a key" "there is no key in" --tls-cert "$ca/new.pem" --tls-key "$ca/new.pem"
cp "$ca/a-open.key" "$ca/old.key" && cat "$ca/a.crt" "$ca/middle.crt" >"$ca/old.pem"
refused "a chain in the wrong order" "in the wrong order" --tls-cert "$ca/turned.pem" --tls-key "$ca/old.key"
refused "a key that others can read" "chmod 600" --tls-cert "$ca/old.pem" --tls-key "$ca/a-open.key"
refused "a port of HTTPS alone" "--tls-port is given, and no certificate" --tls-port 8443
refused "fewer keys than certificates" "--tls-cert is given 2 times, --tls-key 1 times" --tls-cert "$ca/new.pem" --tls-cert "$ca/a.pem" --tls-key "$ca/new.key"
refused "one port for both" "cannot both have port 8080" --tls-self-signed --tls-port 8080
printf '[[site]]\nnames = ["a.test"]\nroot = "site"\ndefault = true\nhttps_only = true\n[[site]]\nnames = ["b.test"]\nroot = "wild"\n[[site.certificate]]\nfile = "ca/new.pem"\nkey = "ca/new.key"\n' >"$work/none.toml"
has "a site for HTTPS alone without a certificate" "a.test is https_only, and there is no certificate" "$("$exos" serve --check --config "$work/none.toml" 2>&1)"
cat >"$work/bad.toml" <<END
[tls]
minimum_version = "1.1"
suites = ["TLS_NULL"]
client_certificate = "maybe"
[[site]]
root = "site"
hsts_days = 1
[[site.certificate]]
file = "ca/a.pem"
END
got=$("$exos" serve --check --config "$work/bad.toml" 2>&1)
for says in "TLS 1.1 is broken" "is no suite that is known" "\"maybe\" is not understood" "write https_only = true" "a certificate is two files"; do
    has "a file: $says" "$says" "$got"
done
[ $failures = 0 ]
