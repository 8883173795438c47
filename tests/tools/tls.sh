#!/usr/bin/env bash
# exos cat --tls against Python's and OpenSSL's servers, and exos dump's hellos against tshark's. Prints "ok NAME",
# "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/tools/tls.sh PATH/TO/exos
#
# Everything happens in namespaces of a lab of its own; what is started is ended by its id.
. "$(dirname "$0")/../common.sh"
need_root "cat and dump of TLS"
need_programs "cat and dump of TLS" python3 openssl curl tcpdump
be_alone "$@"
begin
lab=tls-$$
key() { openssl req "$@" -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes 2>/dev/null; }
key -x509 -keyout "$work/ca.key" -out "$work/ca.pem" -days 30 -subj '/CN=an authority'
key -keyout "$work/key" -out "$work/request" -subj /CN=www.lab.test -addext 'subjectAltName=DNS:www.lab.test,IP:10.10.0.2'
openssl x509 -req -in "$work/request" -CA "$work/ca.pem" -CAkey "$work/ca.key" -CAcreateserial -copy_extensions copy -days 9 -out "$work/good.pem" 2>/dev/null
head -c 3000000 /dev/urandom >"$work/noise"
{ stat -c %s "$work/noise"; cat "$work/noise"; } >"$work/asked"
lab_up || { bad "lab up"; exit 1; }

# What is ended by its process, which that of a function in the background is not.
in_b=("$exos" lab exec --name "$lab" b --)
# serve PORT ARGUMENTS...: in side b; its process is $peer.
serve() {
    "${in_b[@]}" python3 -S "$here/tls.py" serve "$1" "$2" "$work/good.pem" "$work/key" "$3" "$4" >"$work/peer$1" 2>&1 &
    peer=$!
    await grep -q listening "$work/peer$1"
}
ours() { timeout 60 "$exos" lab exec --name "$lab" a -- "$exos" cat --link xdp:wire --address 10.10.0.10/24 "$@"; }

"${in_b[@]}" tcpdump --immediate-mode -B 65536 -U -s 0 -i wire -w "$work/capture" tcp >"$work/tcpdump" 2>&1 & capturing=$!
cleanup() { end $capturing $peer $server; "$exos" lab down --name "$lab" >/dev/null 2>&1; rm -rf "$work"; }
await grep -q 'listening on' "$work/tcpdump"

for version in 1.3 1.2; do
    port=54${version#1.}3
    serve "$port" $version 4 ends
    ours --tls 10.10.0.2:$port --cacert "$work/ca.pem" <"$work/asked" >"$work/got" 2>"$work/err"
    same "TLS $version: cat succeeds" 0 $?
    check "TLS $version: everything came back" cmp "$work/got" "$work/noise"
    printf '5\nhello' | ours --tls 10.10.0.2:$port --insecure --tls-name other.lab.test >"$work/got" 2>"$work/err"
    same "TLS $version: nothing is checked" "0 hello" "$? $(cat "$work/got")"
    said=$(ours --tls 10.10.0.2:$port </dev/null 2>&1); same "TLS $version: an authority that nobody knows fails" 1 $?
    has "TLS $version: and what to do" "give the authority's certificate" "$said"
    said=$(ours --tls 10.10.0.2:$port --cacert "$work/ca.pem" --tls-name other.lab.test </dev/null 2>&1)
    has "TLS $version: a certificate of another name" "www.lab.test" "$said"
    wait $peer; peer=
done
serve 5999 1.3 1 cuts
printf '5\nhello' | ours --tls 10.10.0.2:5999 --cacert "$work/ca.pem" >"$work/got" 2>"$work/err"
same "a connection that is cut off fails" "1 hello" "$? $(cat "$work/got")"
has "and the line says so" "without ending TLS" "$(cat "$work/err")"
wait $peer; peer=
"${in_b[@]}" python3 -S -m http.server 8080 --directory "$work" >"$work/plain" 2>&1 & peer=$!
await inside b -- curl -s -o /dev/null http://10.10.0.2:8080/good.pem
said=$(ours --tls 10.10.0.2:8080 </dev/null 2>&1); same "a server without TLS fails" 1 $?
has "without TLS: what to do" "TLS is spoken" "$said"
end $peer; peer=
said=$(ours 10.10.0.2:5999 --insecure </dev/null 2>&1)
has "options of TLS without TLS are refused" "say --tls" "$said"

# Hellos of other programs.
"${in_b[@]}" openssl s_server -accept 5001 -cert "$work/good.pem" -key "$work/key" -alpn http/1.1,h2 -www >"$work/s_server" 2>&1 & peer=$!
await inside a -- curl -sk -o "$work/page" --connect-to www.lab.test:443:10.10.0.2:5001 https://www.lab.test/
inside a -- curl -sk --tls-max 1.2 --no-alpn -o "$work/page" --connect-to a.lab.test:443:10.10.0.2:5001 https://a.lab.test/
inside a -- openssl s_client -connect 10.10.0.2:5001 -alpn h2,http/1.1 -tls1_2 </dev/null >"$work/s_client" 2>&1
inside a -- openssl s_client -connect 10.10.0.2:5001 -noservername </dev/null >"$work/s_client" 2>&1
# In three segments, of which the first has not even the name.
cat >"$work/cut.py" <<'END'
import socket, ssl, time

context = ssl.create_default_context()
context.set_alpn_protocols(["h2", "http/1.1"])
into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
session = context.wrap_bio(into, out, server_hostname="cut.lab.test")
try:
    session.do_handshake()
except ssl.SSLWantReadError:
    pass
hello = out.read()
with socket.create_connection(("10.10.0.2", 5001)) as server:
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for part in hello[:50], hello[50:150], hello[150:]:
        server.sendall(part)
        time.sleep(0.2)
    server.recv(100)
END
inside a -- python3 -S "$work/cut.py"
# What came before it is in the capture when this is.
inside a -- curl -sk -o "$work/page" --connect-to last.lab.test:443:10.10.0.2:5001 https://last.lab.test/
is_captured() { "$exos" dump -r "$work/capture" 2>/dev/null | grep 'ClientHello last.lab.test' >/dev/null; }
await is_captured
end $peer; peer=
kill -INT $capturing; wait $capturing; capturing=
"$exos" dump -r "$work/capture" >"$work/text" 2>"$work/err"
check "a capture is read" test -s "$work/text"
grep -o 'TLS \(Client\|Server\)Hello.*' "$work/text" | grep -v '\.\.\.$' >"$work/ours"
has "dump: the first segment of a hello says that more is to come" "TLS ClientHello 1.2 ..." "$(cat "$work/text")"
has "dump: and the last one has all" "TLS ClientHello cut.lab.test h2,http/1.1 1.3" "$(cat "$work/ours")"
has "dump: the name, protocols and version of a client" "TLS ClientHello www.lab.test h2,http/1.1 1.3" "$(cat "$work/ours")"
check "dump: hellos of many kinds" test "$(sort -u "$work/ours" | wc -l)" -ge 8
check "dump: alerts in clear" grep -q 'TLS Alert fatal' "$work/text"
if command -v tshark >/dev/null; then
    python3 -S "$here/tls.py" hellos "$work/capture" >"$work/theirs" 2>"$work/err"
    check "dump: all hellos are tshark's" diff "$work/theirs" "$work/ours"
else
    echo "SKIPPED: hellos against tshark's: tshark is not installed (apt-get install tshark)"
fi
exit $((failures > 0))
