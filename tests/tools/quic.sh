#!/usr/bin/env bash
# exos dump decrypts QUIC by key logs: sessions of aioquic and of exos load with the web server, and of aioquic with itself (version 2, Retry), beside
# tshark with the same log, frame by frame; what everybody can decrypt, without a log; keys that come behind their packets, and live; and what
# is not all there. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/tools/quic.sh PATH/TO/exos
#
# Everything happens in a network namespace of its own; what is started is ended by its id. PYTHON names an interpreter that has aioquic.
. "$(dirname "$0")/../common.sh"
need_root "dump of QUIC"
need_programs "dump of QUIC" openssl tcpdump tshark editcap:tshark
need_aioquic "dump of QUIC"
be_alone "$@"
begin
export EXOS_XOKD=$work/no-daemon
cd "$work" || exit 1
mkdir site
echo hello >site/index.html
head -c 300000 /dev/zero >site/large
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key -out cert -days 9 -subj /CN=localhost 2>/dev/null
: >keys; chmod 600 keys
capturing=
cleanup() {
    # shellcheck disable=SC2086
    end $capturing $peer $server
    [ -z "$lab" ] || "$exos" lab down --name "$lab" >/dev/null 2>&1
    cd /; rm -rf "$work"; forget_aioquic
}
launch "https://" "$exos" serve --sockets site --port 8080 --tls-port 8443 --tls-self-signed --http3 --tls-early-data || { bad "it starts" "$(cat err)"; exit 1; }
timeout 600 tcpdump --immediate-mode -B 65536 -U -s 0 -i lo -w capture udp >/dev/null 2>tcpdump & capturing=$!
await grep -q 'listening on' tcpdump
same "aioquic's sessions" "done" "$(timeout 300 "$PYTHON" "$here/quic.py" 8443 keys cert key 2>&1 | tail -n 1)"
check "a load" env SSLKEYLOGFILE="$work/keys" timeout 300 "$exos" load --sockets --http 3 --insecure --connections 3 --requests 60 https://127.0.0.1:8443/index.html
# Clients with tickets begin half of their connections without the fixed bit (RFC 9287 §3.1).
check "a load of early data" env SSLKEYLOGFILE="$work/keys" timeout 300 "$exos" load --sockets --http 3 --insecure --tls-early 1 --connections 1 --requests-per-connection 1 --requests 30 https://127.0.0.1:8443/index.html
stop; same "the server stops in order" 0 $?
# What was sent is in the file when the ends are: of the loads' connections, which were last.
is_captured() { [ "$("$exos" dump -r capture --keys keys 2>/dev/null | grep -c 'HTTP/3 HEADERS GET /index.html')" = 90 ]; }
check "all of it is captured" await is_captured
kill -INT "$(pgrep -P $capturing)" 2>/dev/null; wait $capturing; capturing=

"$exos" dump -r capture --keys keys >ours 2>err
check "nothing fails" test ! -s err
same "nothing is left that does not fit or is not understood" 0 "$(grep -c 'do not fit\|not understood' ours)"
"$PYTHON" "$here/quic_frames.py" capture keys ours || failures=$((failures + 1))
requests() { grep -oE 'HTTP/3 HEADERS (GET|POST) [^ ,}]+' "$1" | sed 's/.* //' | grep -v index.html | sort; }
{
    printf '/%s\n' aes256 chacha large posted other-version two-datagrams long-name ticket resumed {first,second,negotiated}-version/{at-once,retried}
    for at in 0 1 2; do printf "/changed/$at/%d\n" 0 1 2 3; done
    printf '/table/%d\n' 0 1 2 3 4 5 6 7 8 9
} | sort >wanted
requests ours >got
check "all requests are there, behind changes of keys, too" diff wanted got
same "and as many answers" $((90 + $(wc -l <wanted))) "$(grep -oE 'HTTP/3 HEADERS [0-9]{3}' ours | wc -l)"
has "a hello that comes in two datagrams" "TLS ClientHello localhost h3" "$(cat ours)"
same "heads by entries of QPACK's table: each field" 10 "$("$exos" dump -v -r capture --keys keys 2>/dev/null | grep -c 'x-table: a value that is long enough')"
same "and none is left that waits" 0 "$(grep -c 'table, which is not known\|that are not understood' ours)"
same "no connection is said to have begun before the capture" 0 "$(grep -c 'begun before' ours)"
same "and all that have waited are shown later" "$(grep -o 'HEADERS that wait' ours | wc -l)" "$(grep -o 'HTTP/3 of stream' ours | wc -l)"
has "early data" "0-RTT v1 #" "$(grep 'HEADERS GET /resumed' ours)"
check "also of a client that may begin without the fixed bit" grep -q '0-RTT v1 #.*HEADERS GET /index.html' ours
has "version 2" "Initial v2 #0 {CRYPTO 0:" "$(cat ours)"
has "Retry" "QUIC Retry v1" "$(cat ours)"
has "a server that does not speak a version" "QUIC Version Negotiation" "$(cat ours)"
has "messages of a handshake" "TLS EncryptedExtensions" "$(cat ours)"
has "the end, and why" "CONNECTION_CLOSE no_error" "$(cat ours)"
has "a session without keys" "[no key for it yet]" "$(cat ours)"
has "-v: all fields of a head" ":authority: localhost" "$("$exos" dump -v -r capture --keys keys 2>/dev/null)"
has "and tokens" " token " "$("$exos" dump -v -r capture --keys keys 2>/dev/null | grep 'Initial')"

# Without keys: what is as good as in clear.
"$exos" dump -r capture >clear 2>err
same "hellos show without keys" "$(grep -c 'TLS ClientHello' ours)" "$(grep -cE 'TLS ClientHello (localhost )?h3.* 1.3' clear)"
hellos() { tshark -r capture -d udp.port==8443-8445,quic -Y 'tls.handshake.type == 1' -T fields -e tls.handshake.extensions_server_name 2>/dev/null | grep -c localhost; }
check "no fewer than tshark's" test "$(grep -c 'TLS ClientHello localhost' clear)" -ge "$(hellos)"
same "but nothing that is encrypted" 0 "$(grep -c HTTP/3 clear)"
has "packets of the connections that are known" "QUIC 1-RTT" "$(cat clear)"

# Keys within captures.
"$exos" dump -r capture --keys keys -w ours.pcapng 2>err
"$exos" dump -r ours.pcapng >again 2>err
check "a capture of ours brings its keys" diff ours again
tshark -r capture -o tls.keylog_file:"$work/keys" -d udp.port==8443-8445,quic -T fields -e quic.frame_type >theirs 2>/dev/null
check "tshark decrypts it as with the log" diff theirs <(tshark -r ours.pcapng -d udp.port==8443-8445,quic -T fields -e quic.frame_type 2>/dev/null)
# Behind what they decrypt: a capture without them, and behind it the same packets with them. What waited is shown with what comes then.
editcap -F pcapng capture first.pcapng 2>/dev/null
cat first.pcapng ours.pcapng >both.pcapng
: >none
"$exos" dump -r both.pcapng --keys none >late 2>err
has "handshakes that were before their keys" "late from the server Handshake v1 #0 {" "$(cat late)"
check "and requests" grep -q 'late from the client 1-RTT #[0-9]* {.*HTTP/3 HEADERS GET /aes256' late

# What is not all there.
"$exos" dump -r capture --keys keys -s 100 >cut 2>/dev/null
check "cut packets show what is in clear" test "$(grep -c 'QUIC Initial v1' cut)" -gt 20
same "and no frames" 0 "$(grep -c 'QUIC.*{' cut)"
editcap -F pcap capture middle.pcap 1-2 2>/dev/null
"$exos" dump -r middle.pcap --keys keys >middle 2>/dev/null
has "a connection that began before is told" "[not decrypted: begun before the capture]" "$(cat middle)"
same "and says nothing else" 0 "$(head -n 8 middle | grep -c STREAM)"

# Live: the web server over packets, by its own keys and by those of a load.
lab=quic-$$
if lab_up; then
    SSLKEYLOGFILE=$work/served launch_in_lab site --link xdp:wire --address 10.10.0.10/24 --port 8080 --tls-port 8443 --tls-self-signed --http3 --tls-log-keys
    for by in served asked; do
        : >live.err
        timeout -k 1 400 "$exos" dump --pid "$server" --keys $by >live 2>live.err &
        dump=$!
        await grep -q listening live.err
        client env SSLKEYLOGFILE="$work/asked" timeout 60 "$exos" load --sockets --http 3 --insecure --connections 1 --requests 5 https://10.10.0.10:8443/index.html >said 2>&1
        is_shown() { grep -q 'HTTP/3 HEADERS GET /index.html' live && grep -q 'HTTP/3 HEADERS 200' live && grep -q 'CONNECTION_CLOSE' live; }
        check "live, by the keys of who has $by" await is_shown
        kill -INT "$(pgrep -P $dump)"; wait $dump
    done
    stop; same "the server over packets stops in order" 0 $?
else
    echo "SKIPPED: live packets: lab up"
fi
exit $((failures > 0))
