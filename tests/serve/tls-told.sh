#!/usr/bin/env bash
# What is told of TLS and of clients' certificates: in the log, to applications of FastCGI, to upstreams; and certificates that their issuers
# have revoked. Over HTTP/1.1 and HTTP/2, TLS 1.3 and 1.2. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/serve/tls-told.sh PATH/TO/exos
. "$(dirname "$0")/../common.sh"
need_root "what is told of TLS"
need_programs "what is told of TLS" curl openssl python3
be_alone "$@"
begin
others=()
cleanup() {
    # shellcheck disable=SC2086
    end $server ${others[*]}
    rm -rf "$work"
}

ca=$work/ca
mkdir -p "$ca/db" "$work/site" && cd "$ca" || exit 1
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key" 2>/dev/null; chmod 600 "$1.key"; }
key root
openssl req -x509 -new -key root.key -subj "/O=Example, Inc./CN=root" -days 90 -out root.crt -addext basicConstraints=critical,CA:TRUE \
    -addext keyUsage=keyCertSign,cRLSign 2>/dev/null
# issue NAME SUBJECT EXTENSION
issue() {
    key "$1"
    openssl req -new -utf8 -nameopt multiline,utf8 -key "$1.key" -subj "$2" -out "$1.csr" 2>/dev/null
    openssl x509 -req -in "$1.csr" -CA root.crt -CAkey root.key -CAcreateserial -out "$1.crt" -extfile <(echo "$3") -days 30 2>/dev/null
}
issue a "/CN=a.test" subjectAltName=DNS:a.test
issue ann "/C=CH/O=Ümlaut+OU=x/CN=Ann \"quoted\" <a@b>" extendedKeyUsage=clientAuth
issue gone "/CN=gone" extendedKeyUsage=clientAuth
touch db/index
echo 01 >db/number
cat >ca.cnf <<END
[ca]
default_ca = own
[own]
database = $ca/db/index
crlnumber = $ca/db/number
certificate = $ca/root.crt
private_key = $ca/root.key
default_md = sha256
default_crl_days = 9
END
list() { openssl ca -config ca.cnf -gencrl -out "$1" "${@:2}" 2>/dev/null; }
list none.crl -crl_lastupdate "$(date -u -d '-1 hour' +%Y%m%d%H%M%SZ)" -crl_nextupdate "$(date -u -d '+9 days' +%Y%m%d%H%M%SZ)"
openssl ca -config ca.cnf -revoke gone.crt 2>/dev/null
list gone.crl
list expired.crl -crl_lastupdate 20200101000000Z -crl_nextupdate 20200201000000Z
openssl crl -in gone.crl -outform der -out gone.der
cd - >/dev/null || exit 1
# Every 10 s is looked whether files have changed; SIGHUP asks for that.
cp "$ca/none.crl" "$work/list.crl"

echo home >"$work/site/index.html"
python3 -S "$here/../proxy/upstream.py" 4001 "$work/upstream.log" >"$work/upstream.err" 2>&1 & others+=($!)
python3 -S "$here/../fastcgi/application.py" "$work/application.sock" "$work/application.log" >"$work/application.err" 2>&1 & others+=($!)
await test -S "$work/application.sock"
await bash -c '</dev/tcp/127.0.0.1/4001'
cat >"$work/serve.toml" <<END
port = 8080
[tls]
port = 8443
client_ca = "ca/root.crt"
client_certificate = "optional"
client_crl = "list.crl"
[log]
file = "$work/log"
format = "json"
[[site]]
names = ["a.test"]
root = "site"
[[site.certificate]]
file = "ca/a.crt"
key = "ca/a.key"
[[site.proxy]]
path = "/app"
to = "http://127.0.0.1:4001"
trusted = ["127.0.0.0/8"]
tls_fields = { X-Subject = "client_subject", X-Verify = "client_verify", X-TLS-Version = "tls_version", X-Name = "tls_server_name" }
[[site.fastcgi]]
path = "/cgi/*"
to = "$work/application.sock"
END

launch "http://" "$exos" serve --sockets --config "$work/serve.toml" || { bad "it starts" "$(cat "$work/err")"; exit 1; }
c() { curl -sS -m 60 --cacert "$ca/root.crt" --resolve a.test:8443:127.0.0.1 --resolve a.test:8080:127.0.0.1 "$@"; }
ann=(--cert "$ca/ann.crt" --key "$ca/ann.key")
gone=(--cert "$ca/gone.crt" --key "$ca/gone.key")
subject='CN=Ann \"quoted\" \<a@b\>,OU=x+O=\C3\9Cmlaut,C=CH'
# The parts of one level have no order that openssl keeps.
other='CN=Ann \"quoted\" \<a@b\>,O=\C3\9Cmlaut+OU=x,C=CH'
field() { tr -d '\r' <"$work/got" | grep -ai "^$1: " | cut -d ' ' -f 2-; }

for version in 1.2 1.3; do
    for protocol in http1.1 http2; do
        about="TLS $version, $protocol: "
        only=("--$protocol" "--tlsv$version" --tls-max $version)
        c "${only[@]}" "${ann[@]}" -H 'x-subject: CN=forged' -H 'X-SUBJECT: CN=forged' -H 'X_Subject: CN=forged' -o "$work/got" https://a.test:8443/app/say
        got=$(field X-Subject)
        [ "$got" != "$other" ] || got=$subject
        same "an upstream hears who asks, and nothing forged" "$subject SUCCESS TLSv$version a.test" \
            "$got $(field X-Verify) $(field X-TLS-Version) $(field X-Name)"
        check "nothing forged under another name" test "$(grep -c forged "$work/got")" = 0
        c "${only[@]}" -H 'X-Subject: CN=forged' -o "$work/got" https://a.test:8443/app/say
        same "and that there is no certificate" " NONE" "$(field X-Subject) $(field X-Verify)"
    done
done
about=
c -H 'X-Subject: CN=forged' -H 'X-Verify: SUCCESS' -o "$work/got" http://a.test:8080/app/say
same "in plain text it hears nothing, even of a proxy that is trusted" " " "$(field X-Subject) $(field X-Verify)"

c "${ann[@]}" -o "$work/got" 'https://a.test:8443/cgi/x?echo'
variable() { tr '\0' '\n' <"$work/got" | grep -a "^$1=" | head -n 1 | cut -d = -f 2-; }
same "an application hears of TLS" "on TLSv1.3 a.test SUCCESS" "$(variable HTTPS) $(variable SSL_PROTOCOL) $(variable SSL_TLS_SNI) $(variable SSL_CLIENT_VERIFY)"
has "and which suite" "TLS_" "$(variable SSL_CIPHER)"
has "and who asks" "Ann" "$(variable SSL_CLIENT_S_DN)"
has "and by whom that is known" 'CN=root,O=Example\, Inc.' "$(variable SSL_CLIENT_I_DN)"
same "and the certificate's number" "$(openssl x509 -in "$ca/ann.crt" -noout -serial | cut -d = -f 2)" "$(variable SSL_CLIENT_M_SERIAL)"

# Revoked: not in the list that is used, then in the one that comes.
same "a certificate that is not in the list" home "$(c "${gone[@]}" https://a.test:8443/ 2>&1)"
openssl s_client -connect 127.0.0.1:8443 -servername a.test -cert "$ca/gone.crt" -key "$ca/gone.key" -tls1_2 -sess_out "$work/session" </dev/null >/dev/null 2>&1
cp "$ca/gone.crl" "$work/list.crl"
kill -HUP "$server"
is_revoked() { [[ $(c "${gone[@]}" https://a.test:8443/ 2>&1) == *revoked* ]]; }
check "and one that is, once the list is another" await is_revoked
same "others are as before" home "$(c "${ann[@]}" https://a.test:8443/ 2>&1)"
got=$(openssl s_client -connect 127.0.0.1:8443 -servername a.test -cert "$ca/gone.crt" -key "$ca/gone.key" -tls1_2 -sess_in "$work/session" </dev/null 2>&1)
has "its tickets are of no use" "revoked" "$got"
cp "$ca/gone.der" "$work/list.crl"
kill -HUP "$server"
check "a list of DER" await is_revoked
# A bad list changes nothing, and is told.
cp "$ca/expired.crl" "$work/list.crl"
kill -HUP "$server"
check "an expired list is told" await grep -q "revocation list for clients expired" "$work/err"
is_refused() { [[ $(c "${ann[@]}" https://a.test:8443/ 2>&1) == *alert* ]]; }
check "and refuses all whom it concerns" await is_refused
same "but nobody else" home "$(c https://a.test:8443/ 2>&1)"
# Of two lists of an authority the newest counts, wherever it stands.
for order in "none gone" "gone none"; do
    set -- $order
    cat "$ca/$1.crl" "$ca/$2.crl" >"$work/list.crl"
    kill -HUP "$server"
    check "two lists: $order" await is_revoked
    same "and others are let in: $order" home "$(c "${ann[@]}" https://a.test:8443/ 2>&1)"
    cp "$ca/expired.crl" "$work/list.crl"
    kill -HUP "$server"
    check "expired again" await is_refused
done
stop; same "it stops in order" 0 $?
said=$("$exos" serve --sockets --check --config "$work/serve.toml" 2>&1); same "an expired list does not keep it from starting" 0 $?
has "with what to do" "get the authority's present one" "$said"
echo nothing >"$work/list.crl"
has "what is no list" "no revocation list" "$("$exos" serve --sockets --config "$work/serve.toml" 2>&1)"

python3 -S - "$work/log" >"$work/said" 2>&1 <<'PYTHON' && ok "lines of the log say it, too" || bad "lines of the log say it, too" "$(cat "$work/said")"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
secure = [line for line in lines if "tls_version" in line]
assert {line["tls_version"] for line in secure} == {"TLSv1.2", "TLSv1.3"}, secure
assert all(line["tls_cipher"] and line["tls_server_name"] == "a.test" and line["tls_handshake"] in ("full", "resumed") for line in secure)
told = [line for line in secure if line.get("client_verify") == "SUCCESS"]
assert told and all(line["client_subject"] and line["client_issuer"] and line["client_serial"] for line in told)
assert len(told) < len(secure), "some have shown none"
plain = [line for line in lines if "tls_version" not in line]
assert len(plain) == 1 and not any(name.startswith(("tls_", "client_")) for name in plain[0]), plain
PYTHON
exit $((failures > 0))
