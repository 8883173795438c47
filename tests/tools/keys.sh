#!/usr/bin/env bash
# exos dump decrypts TLS by key logs that others write: curl's and OpenSSL's sessions with nginx, of TLS 1.3 and 1.2, full and resumed, by HTTP/1.1
# and HTTP/2, beside tshark with the same log; a capture that brings its keys along, read by tshark and editcap's by us; live packets of the web
# server; and what cannot be decrypted. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/tools/keys.sh PATH/TO/exos
#
# Everything happens in a network namespace of its own; what is started is ended by its id.
. "$(dirname "$0")/../common.sh"
need_root "dump with keys"
need_programs "dump with keys" openssl curl tcpdump nginx tshark editcap:tshark
be_alone "$@"
begin
export EXOS_XOKD=$work/no-daemon
cd "$work" || exit 1
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key -out cert -days 9 -subj /CN=www.lab.test 2>/dev/null
mkdir site
echo hello >site/index.html
head -c 300000 /dev/zero >site/large
chmod -R a+rX "$work"

cat >nginx.conf <<NGINX
daemon off; master_process off; pid $work/nginx.pid; error_log $work/nginx.log; worker_processes 1; user root;
events {}
http {
    access_log off;
    server {
        listen 127.0.0.1:5001 ssl http2; root $work/site;
        ssl_certificate $work/cert; ssl_certificate_key $work/key; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:s:1m;
    }
}
NGINX
nginx -c "$work/nginx.conf" & peer=$!
tcpdump --immediate-mode -B 65536 -U -s 0 -i lo -w capture tcp port 5001 >/dev/null 2>tcpdump & capturing=$!
cleanup() { end $capturing $peer $server; [ -z "$lab" ] || "$exos" lab down --name "$lab" >/dev/null 2>&1; cd /; rm -rf "$work"; }
await grep -q 'listening on' tcpdump
await curl -sk -o got https://127.0.0.1:5001/untold

export SSLKEYLOGFILE=$work/keys
ask() { curl -sk -m 60 -o got -o got "$@"; }
for version in 1.3 1.2; do
    ask --http1.1 --tls-max $version https://127.0.0.1:5001/index.html https://127.0.0.1:5001/large
    ask --http2 --tls-max $version https://127.0.0.1:5001/index.html https://127.0.0.1:5001/large
done
for suite in ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-ECDSA-CHACHA20-POLY1305 ECDHE-ECDSA-AES128-SHA256; do
    ask --http1.1 --tls-max 1.2 --ciphers $suite "https://127.0.0.1:5001/$suite"
done
for suite in TLS_AES_128_GCM_SHA256 TLS_CHACHA20_POLY1305_SHA256; do
    ask --http1.1 --tls13-ciphers $suite "https://127.0.0.1:5001/$suite"
done
# Two sessions, of which the second resumes the first; the server ends each. A client that left at the end of its input could miss the ticket.
printf 'GET /full HTTP/1.0\r\n\r\n' | openssl s_client -connect 127.0.0.1:5001 -ign_eof -keylogfile keys -sess_out session >said 2>&1
printf 'GET /resumed HTTP/1.0\r\n\r\n' | openssl s_client -connect 127.0.0.1:5001 -ign_eof -keylogfile keys -sess_in session >said 2>&1
has "a session is resumed" "Reused, TLSv1.3" "$(cat said)"
is_captured() { "$exos" dump -r capture --keys keys 2>/dev/null | grep -q 'HTTP: GET /resumed'; }
await is_captured
kill -INT $capturing; wait $capturing; capturing=

"$exos" dump -r capture --keys keys >ours 2>err
check "nothing fails" test ! -s err
# What tshark finds in the decrypted streams: requests and responses, by HTTP/1 and HTTP/2.
theirs() { tshark -r "$1" "${@:2}" -d tcp.port==5001,tls -Y 'http.request or http2.headers.method' -T fields -e http.request.method -e http.request.uri -e http2.headers.method -e http2.headers.path 2>/dev/null | tr '\t' ' ' | tr -s ' ' | sed 's/^ //; s/ $//'; }
asked() { grep -oE '(HTTP: |HTTP/2 HEADERS [0-9]+ )(GET) [^ ]+' | sed -E 's/.*(GET .*)/\1/'; }
theirs capture -o tls.keylog_file:"$work/keys" | tr ' ' '\n' | grep '^/' | sort >wanted
asked <ours | sed 's/GET //' | sort >got
# The suite of CBC is tshark's alone.
grep -v AES128-SHA256 wanted >wanted.aead
check "requests are those that tshark decrypts" diff wanted.aead got
same "there are all of them" 14 "$(wc -l <got)"
same "as many responses as tshark's" "$(tshark -r capture -o tls.keylog_file:"$work/keys" -d tcp.port==5001,tls -Y 'http.response or http2.headers.status' 2>/dev/null | wc -l)" \
    "$(($(grep -cE 'HTTP: HTTP/1.1 (200|404)|HTTP/2 HEADERS [0-9]+ (200|404)' ours) + 1))"
has "messages of a handshake" "TLS EncryptedExtensions: TLS Certificate: TLS CertificateVerify: TLS Finished" "$(cat ours)"
has "alerts that are encrypted" "TLS Alert warning close_notify" "$(cat ours)"
has "a suite that is not decrypted" "[not decrypted: suite 0xc023 is not decrypted]" "$(cat ours)"
has "a session without keys" "[no key for it yet]" "$(cat ours)"
has "-v: all lines of a head" "Accept: */*" "$("$exos" dump -v -r capture --keys keys 2>/dev/null)"

# Keys that a capture brings along: ours for tshark, editcap's for us.
"$exos" dump -r capture --keys keys -w ours.pcapng 2>err
theirs ours.pcapng | tr ' ' '\n' | grep '^/' | sort >got
check "tshark decrypts a capture of ours without a log" diff wanted got
"$exos" dump -r ours.pcapng >again 2>err
check "and so do we" diff ours again
"$exos" dump -r ours.pcapng -w copy.pcapng 2>err
check "a copy keeps them" test "$("$exos" dump -r copy.pcapng 2>/dev/null | cksum)" = "$(cksum <ours)"
editcap --inject-secrets tls,keys capture theirs.pcapng
check "editcap's secrets are read" test "$("$exos" dump -r theirs.pcapng 2>/dev/null | cksum)" = "$(cksum <ours)"

# What is not all there.
"$exos" dump -r capture --keys keys -s 100 >cut 2>/dev/null
has "cut packets" "[not decrypted: the capture has cut packets]" "$(cat cut)"
editcap -F pcap capture middle.pcap 1-12 2>/dev/null
has "a connection that began before" "[not decrypted: begun before the capture]" "$("$exos" dump -r middle.pcap --keys keys 2>/dev/null)"
tshark -r capture -Y 'tcp.stream == 2 and tcp.len > 0' -w one.pcap -F pcap 2>/dev/null
has "without its SYN it is decrypted" "HTTP/2 HEADERS 1 GET /index.html" "$("$exos" dump -r one.pcap --keys keys 2>/dev/null)"
said=$("$exos" dump -r capture --keys no-such-file 2>&1); same "a log that is not there" 1 $?
has "is told" "cannot read the keys in no-such-file" "$said"
unset SSLKEYLOGFILE

# Live: the web server over packets, which logs its keys itself, and curl, which logs its own.
lab=keys-$$
if lab_up; then
    SSLKEYLOGFILE=$work/served launch_in_lab site --link xdp:wire --address 10.10.0.10/24 --tls-self-signed --tls-log-keys
    has "a server that logs keys says so" "the keys of all sessions are written to" "$(cat err)"
    same "its log is for its owner alone" 600 "$(stat -c %a served)"
    for by in served asked; do
        : >live.err
        timeout -k 1 400 "$exos" dump --pid "$server" --keys $by >live 2>live.err &
        dump=$!
        await grep -q listening live.err
        SSLKEYLOGFILE=$work/asked client curl -sk -m 60 -o got --http1.1 https://10.10.0.10/index.html
        SSLKEYLOGFILE=$work/asked client curl -sk -m 60 -o got -o got --http2 https://10.10.0.10/index.html https://10.10.0.10/second
        is_shown() {
            grep -q 'HTTP: GET /index.html' live && grep -q 'HTTP: HTTP/1.1 200 OK' live && grep -q 'HTTP/2 HEADERS 1 GET /index.html' live &&
                grep -q 'HTTP/2 HEADERS 1 200' live && grep -q 'HTTP/2 HEADERS 3 GET /second' live && grep -q 'HTTP/2 HEADERS 3 404' live
        }
        check "live, by the keys of who has $by" await is_shown
        kill -INT "$(pgrep -P $dump)"; wait $dump
    done
    # Into a file, with the client's keys: read again by us and by tshark.
    : >live.err
    timeout -k 1 400 "$exos" dump --pid "$server" --keys asked -w live.pcapng 2>live.err &
    dump=$!
    await grep -q listening live.err
    SSLKEYLOGFILE=$work/asked client curl -sk -m 60 -o got -o got --http2 https://10.10.0.10/index.html https://10.10.0.10/written
    is_written() { "$exos" dump -r live.pcapng 2>/dev/null | grep -q 'HTTP/2 HEADERS 3 404'; }
    check "written live" await is_written
    kill -INT "$(pgrep -P $dump)"; wait $dump
    has "and read again" "HTTP/2 HEADERS 3 GET /written" "$("$exos" dump -r live.pcapng 2>/dev/null)"
    # A client logs a key when the packet that needs it has come: there a key may stand behind its packet, where tshark does not look.
    "$exos" dump -r live.pcapng --keys asked -w copied.pcapng 2>/dev/null
    has "a copy has the keys first, for tshark" "/written" "$(tshark -r copied.pcapng -2 -R http2 -T fields -e http2.headers.path 2>/dev/null)"
    same "for its owner alone" 600 "$(stat -c %a live.pcapng)"
    stop; same "the server stops in order" 0 $?
else
    echo "SKIPPED: live packets: lab up"
fi
said=$("$exos" serve --sockets --check site --tls-self-signed --tls-log-keys 2>&1)
has "a log of keys that is not named" "SSLKEYLOGFILE names no file" "$said"
exit $((failures > 0))
