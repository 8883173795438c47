#!/usr/bin/env bash
# What HTTP/2 and HTTP/3 carry to upstreams of HTTP/1.1 beside requests and answers: trailers, and WebSockets (RFC 8441, RFC 9220): by frames (streams.py), by
# aioquic, where there is one, and by Chromium, which opens them beside its page. Prints "ok NAME", "not ok NAME: why" and "SKIPPED: ..." lines.
#
#   tests/proxy/streams.sh PATH/TO/exos
#
# Everything happens in a network namespace of its own; what is started is ended by its id. PYTHON names an interpreter that has aioquic.
. "$(dirname "$0")/../common.sh"
need_root "streams to upstreams"
need_programs "streams to upstreams" python3 openssl curl
be_alone "$@"
begin
others=
cleanup() {
    # shellcheck disable=SC2086
    end $peer $others $server
    rm -rf "$work"
}

mkdir "$work/site"
echo page >"$work/site/index.html"
: >"$work/site/favicon.ico"
echo heard >"$work/site/said.txt"
cat >"$work/site/talk.html" <<'END'
<!doctype html>
<title>talk</title>
<script>
// Twenty messages each way on each of three sockets, and the end.
const talk = name => new Promise((done, fail) => {
    const socket = new WebSocket(`wss://${location.host}/app/websocket?${name}`, ["chat", "other"]);
    let heard = 0;
    socket.onopen = () => { for (let nth = 0; nth < 20; nth++) socket.send(name + nth + "x".repeat(nth * 5000)); };
    socket.onmessage = event => {
        if (event.data !== name + heard + "x".repeat(heard * 5000)) fail(`${name}: ${event.data.slice(0, 20)} at ${heard}`);
        if (++heard === 20) socket.close(1000);
    };
    socket.onclose = event => done(`${name} ${heard} ${socket.protocol} ${event.code} ${event.wasClean}`);
});
const tell = what => fetch("/said.txt?" + encodeURIComponent(what));
Promise.all(["a", "b", "c"].map(talk)).then(all => tell(all.join(", ")), tell);
</script>
END
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/key" -out "$work/pem" -days 9 -subj /CN=lab \
    -addext 'subjectAltName=IP:127.0.0.1,DNS:localhost' 2>/dev/null
chmod 600 "$work/key"
cat >"$work/serve.toml" <<END
port = 8080
[tls]
port = 8443
http3 = true
[log]
file = "access.log"
format = "json"
[[site]]
root = "site"
[[site.certificate]]
file = "pem"
key = "key"
[[site.proxy]]
path = "/app"
to = "http://127.0.0.1:9100"
[[site.proxy]]
path = "/brief"
to = "http://127.0.0.1:9100/app"
tunnel_timeout = "1s"
[[site.proxy]]
path = "/fixed"
to = "http://127.0.0.1:9100/app"
upgrades = false
[[site.access]]
path = "/denied/*"
rules = ["deny all"]
END
: >"$work/upstream.log"
python3 "$here/upstream.py" 9100 "$work/upstream.log" >"$work/upstream" 2>&1 & others=$!
listens() { bash -c "</dev/tcp/127.0.0.1/$1"; }
await listens 9100

launch https:// "$exos" serve --sockets --config "$work/serve.toml" --shutdown-timeout 2s --json || { bad "it starts" "$(cat "$work/err")"; exit 1; }
about="HTTP/2: "
timeout -k 2 300 python3 -S "$here/streams.py" 127.0.0.1 8080 "$server" "$work/out" "$work/upstream.log" || failures=$((failures + 1))

about="trailers: "
# behind ARGUMENTS...: curl's answer, and what came behind it: curl writes that with the head.
behind() { curl -sSk -m 60 -D "$work/head" -o "$work/body" "$@" >"$work/said" 2>&1; tr -d '\r' <"$work/head" | sed -n 's/^\(x-sum\|grpc-status\|content-length\|set-cookie\):/\L&/Ip' | sort | tr '\n' ' '; cat "$work/body"; }
wanted="grpc-status: 0 x-sum: 900150983c abc"
same "curl gets them by HTTP/2" "$wanted" "$(behind --http2 https://127.0.0.1:8443/app/trailers)"
same "and by HTTP/1.1, if it says so" "$wanted" "$(behind --http1.1 -H 'TE: trailers' -H 'Connection: TE' https://127.0.0.1:8443/app/trailers)"
same "but not if it does not" "abc" "$(behind --http1.1 https://127.0.0.1:8443/app/trailers)"
same "nor by HTTP/1.0" "abc" "$(behind --http1.0 -H 'TE: trailers' https://127.0.0.1:8443/app/trailers)"
has "the upstream hears that they are taken" "TE: trailers" "$(curl -sSk -m 60 -H 'TE: trailers' http://127.0.0.1:8080/app/say)"
if command -v nghttp >/dev/null; then
    has "nghttp gets them" "grpc-status: 0" "$(timeout 60 nghttp -nv https://127.0.0.1:8443/app/trailers 2>&1)"
    got=$(timeout 60 nghttp -v --no-content-length --trailer "x-sum: 5" -H ":method: POST" -d "$work/site/said.txt" https://127.0.0.1:8443/app/say 2>&1)
    has "nghttp's go to the upstream" "behind x-sum: 5" "$got"
    has "with the body" "body 6 " "$got"
else
    echo "SKIPPED: ${about}nghttp is not installed (apt-get install nghttp2-client)"
fi
said=$(printf 'POST /app/say HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 7\r\nHost: b\r\n\r\n' | timeout 60 bash -c 'exec 3<>/dev/tcp/127.0.0.1/8080; cat >&3; cat <&3')
has "those of chunks of HTTP/1.1, too" "behind X-Sum: 7" "$said"
same "but what is a head's" "" "$(grep 'behind Host' <<<"$said")"

about="HTTP/3: "
python=${PYTHON:-python3}
if "$python" -c "import aioquic" 2>/dev/null; then
    timeout -k 2 300 "$python" "$here/streams3.py" 127.0.0.1 8443 || failures=$((failures + 1))
else
    echo "SKIPPED: ${about}aioquic is not installed"
fi

about=
same "what is in a refused tunnel is no request" 0 "$(grep -c /other "$work/upstream.log")"

about="Chromium: "
if command -v chromium >/dev/null; then
    key=$(openssl x509 -in "$work/pem" -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64)
    chromium --headless --no-sandbox --disable-gpu --no-first-run --disable-quic --ignore-certificate-errors-spki-list="$key" \
        --disable-background-networking --disable-component-update --disable-sync --user-data-dir="$work/profile" \
        https://localhost:8443/talk.html >"$work/browser.out" 2>"$work/browser.err" &
    peer=$!
    said() { grep -o 'GET /said.txt?[^ ]*' "$work/access.log"; }
    # A browser needs its time to start, on a busy machine more than a minute.
    await said || await said || await said
    kill -TERM "$peer"; wait "$peer" 2>/dev/null; peer=
    same "a page talks over three WebSockets" "a 20 chat 1000 true, b 20 chat 1000 true, c 20 chat 1000 true" \
        "$(python3 -S -c 'import sys, urllib.parse; print(urllib.parse.unquote(sys.argv[1].partition("?")[2]))' "$(said)")"
    same "they come by HTTP/2" 3 "$(grep -c '"CONNECT /app/websocket?[abc] HTTP/2.0".*"status":200' "$work/access.log")"
else
    echo "SKIPPED: ${about}not installed (apt-get install chromium)"
fi

about="stop: "
logged() { grep -c "\"$1 /app/websocket HTTP/$2\".*\"status\":$3" "$work/access.log"; }
timeout -k 2 300 python3 -S "$here/streams.py" 127.0.0.1 8080 "$server" "$work/out" "$work/upstream.log" hold >"$work/held" 2>&1 & others="$others $!"; holding=$!
holding3=
await grep -q '^open' "$work/held"
if "$python" -c "import aioquic" 2>/dev/null; then
    timeout -k 2 300 "$python" "$here/streams3.py" 127.0.0.1 8443 hold >"$work/held3" 2>&1 & others="$others $!"; holding3=$!
    await grep -q '^open' "$work/held3"
fi
begun=$SECONDS
tunnels=$(logged CONNECT 2.0 200) tunnels3=$(logged CONNECT 3.0 200)
check "with open tunnels it stops in order" stop
# Two seconds for what is under way; a loaded machine takes its time, but not that of a tunnel.
check "and does not wait for them" test $((SECONDS - begun)) -lt 60
wait $holding; held=$?
cat "$work/held" "${holding3:+$work/held3}" 2>/dev/null | grep -E '^(ok|not ok) ' | sed "s/^\(ok\|not ok\) /&$about/"
same "clients over TCP hear of it" 0 $held
if [ -n "$holding3" ]; then wait "$holding3"; same "and those over HTTP/3" 0 $?; fi
same "the log has what was cut: a change of protocol" 1 "$(logged GET 1.1 101)"
check "and tunnels on streams, as what was asked" test "$(logged CONNECT 2.0 200)" = $((tunnels + 1))
[ -z "$holding3" ] || same "by HTTP/3, too" $((tunnels3 + 1)) "$(logged CONNECT 3.0 200)"

about=
same "and has not complained" "" "$(grep -i panic "$work/err")"
exit $((failures > 0))
