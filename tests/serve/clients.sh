#!/usr/bin/env bash
# Real clients against the release binary: on the lab wire, on its own interface pair, with
# --share-address, and without privilege. Prints "ok NAME", "not ok NAME" or "SKIPPED: ..." lines.
#
#   tests/serve/clients.sh PATH/TO/exos [in-kernel|in-kernel-cores]
#
# With `in-kernel` the kernel answers what it can, and what needs AF_XDP on an interface is all there is.
#
# Everything happens in namespaces of its own and on interfaces that go with the process; what is
# started is ended by its id, also when this script is interrupted. Nothing here judges how fast it is.
. "$(dirname "$0")/../common.sh"
be_alone "$@"
begin
lab=clients-$$

# start WHERE ARGUMENTS...: start the server, in side a of the lab or here.
start() {
    local where=$1; shift
    if [ "$where" = lab ]; then launch_in_lab "$@"; else launch http "$exos" serve "$@"; fi
}
# await_port PORT: wait until side a's own stack listens there.
await_port() { await inside a -- bash -c "</dev/tcp/10.10.0.1/$1"; }

# load WHERE RUNNER URL: wrk and ab, on persistent and on new connections.
load() {
    local where=$1 runner=$2 url=$3/small.txt out
    if command -v wrk >/dev/null; then
        out=$($runner wrk -t1 -c64 -d1s "$url" 2>&1)
        if grep -qE 'Non-2xx|connect [1-9]|read [1-9]|write [1-9]' <<<"$out" || ! grep -q 'requests in' <<<"$out"; then bad "$where: wrk, persistent" "$out"; else ok "$where: wrk, persistent"; fi
        out=$($runner wrk -t1 -c64 -d1s -H 'Connection: close' "$url" 2>&1)
        if grep -qE 'Non-2xx|connect [1-9]|read [1-9]|write [1-9]' <<<"$out" || ! grep -q 'requests in' <<<"$out"; then bad "$where: wrk, new connections" "$out"; else ok "$where: wrk, new connections"; fi
    else
        echo "SKIPPED: wrk: not installed (apt-get install wrk)"
    fi
    if command -v ab >/dev/null; then
        has "$where: ab, new connections" "Failed requests:        0" "$($runner ab -q -n 2000 -c 20 "$url" 2>&1)"
        has "$where: ab, keep-alive" "Failed requests:        0" "$($runner ab -q -k -n 4000 -c 20 "$url" 2>&1)"
    else
        echo "SKIPPED: ab: not installed (apt-get install apache2-utils)"
    fi
}

# h2load WHERE RUNNER URL: HTTP/1.1 by another client, pipelined too.
h2load_1() {
    local where=$1 runner=$2 url=$3/small.txt
    if ! command -v h2load >/dev/null; then
        echo "SKIPPED: h2load: not installed (apt-get install nghttp2-client)"
        return
    fi
    has "$where: h2load, HTTP/1.1" "4000 succeeded, 0 failed, 0 errored" "$($runner h2load --h1 -n 4000 -c 20 "$url" 2>&1)"
    has "$where: h2load, pipelined" "4000 succeeded, 0 failed, 0 errored" "$($runner h2load --h1 -n 4000 -c 20 -m 8 "$url" 2>&1)"
}

# mirror WHERE RUNNER URL: the whole site, followed from link to link, is the directory byte for byte.
mirror() {
    local where=$1 runner=$2 url=$3
    if ! command -v wget >/dev/null; then
        echo "SKIPPED: wget: not installed (apt-get install wget)"
        return
    fi
    rm -rf "$work/mirror"
    $runner wget -q -m -nH -np -P "$work/mirror" "$url/mirror/" >"$work/said" 2>&1
    # Listings are saved as index.html; the site has none of its own below mirror/.
    find "$work/mirror" -name 'index.html*' -delete
    check "$where: wget mirrors the site" diff -r "$site/mirror" "$work/mirror/mirror"
}

# compressed WHERE RUNNER URL: curl gets each coding, and decodes it to the original.
compressed() {
    local where=$1 runner=$2 url=$3/page.txt coding
    for coding in br zstd gzip; do
        [ -e "$site/page.txt.$(case $coding in br) echo br ;; zstd) echo zst ;; gzip) echo gz ;; esac)" ] ||
            { echo "SKIPPED: $coding: no program to compress with (apt-get install brotli zstd gzip)"; continue; }
        has "$where: $coding is sent" "Content-Encoding: $coding" "$($runner curl -sS -m 60 -o /dev/null -D - -H "Accept-Encoding: $coding" "$url")"
        if curl -V | grep -qw "$([ $coding = br ] && echo brotli || { [ $coding = zstd ] && echo zstd || echo libz; })"; then
            $runner curl -sS -m 60 --compressed -H "Accept-Encoding: $coding" -o "$work/got" "$url"
            check "$where: curl --compressed decodes $coding" cmp "$work/got" "$site/page.txt"
        else
            echo "SKIPPED: curl cannot decode $coding"
        fi
    done
    same "$where: without Accept-Encoding it is sent as it is" 0 "$($runner curl -sS -m 60 -o "$work/got" -w '%{exitcode}' "$url")"
    check "$where: and is the original" cmp "$work/got" "$site/page.txt"
}

# browse WHERE RUNNER URL: a page with many images in a real browser; the page says itself when all have loaded.
browse() {
    local where=$1 runner=$2 url=$3
    if ! command -v chromium >/dev/null; then
        echo "SKIPPED: Chromium: not installed (apt-get install chromium)"
        return
    fi
    $runner timeout 90 chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
        --disable-component-update --disable-sync --user-data-dir="$work/profile" --virtual-time-budget=20000 \
        --window-size=1000,1400 --screenshot="${EXOS_SCREENSHOT:-$work/page}-${where// /-}.png" "$url/many.html" >/dev/null 2>&1
    $runner timeout 90 chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
        --disable-component-update --disable-sync --user-data-dir="$work/profile" --virtual-time-budget=20000 \
        --dump-dom "$url/many.html" >"$work/dom" 2>/dev/null
    has "$where: Chromium loads a page and its 60 images" "all 60 images" "$(cat "$work/dom")"
}

here() { "$@"; }

# The documents.
site=$work/site
mkdir -p "$site/dir/empty"
echo '<title>home</title>' >"$site/index.html"
echo '<title>dir</title>' >"$site/dir/index.html"
head -c 1000000 /dev/urandom >"$site/large.bin"
head -c 100 /dev/zero | tr '\0' x >"$site/small.txt"
{
    echo '<!doctype html><meta charset="utf-8"><title>many</title><p id="said">loading</p>'
    for n in $(seq 60); do
        echo "<img src=\"image$n.svg\" width=60 height=60 alt=\"$n\">"
        echo "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 9 9\"><rect width=\"9\" height=\"9\" fill=\"hsl($((n * 6)) 60% 60%)\"/></svg>" >"$site/image$n.svg"
    done
    echo '<script>onload = () => { const n = [...document.images].filter(i => i.complete && i.naturalWidth > 0).length;'
    echo 'document.getElementById("said").textContent = (n == document.images.length ? "all " : "only ") + n + " images" }</script>'
} >"$site/many.html"
seq 20000 >"$site/page.txt"
for tool in "brotli br" "zstd zst" "gzip gz"; do
    command -v "${tool% *}" >/dev/null && "${tool% *}" -c "$site/page.txt" >"$site/page.txt.${tool#* }"
done
touch -r "$site/page.txt" "$site"/page.txt.*
for n in $(seq 40); do
    mkdir -p "$site/mirror/dir $((n % 4))/deep"
    head -c $((n * n * 50)) /dev/urandom >"$site/mirror/dir $((n % 4))/file & $n.bin"
    head -c $((n * 10)) /dev/urandom >"$site/mirror/dir $((n % 4))/deep/100% $n"
done
ln -s /etc/passwd "$site/escape.txt"

# A user without privilege is served over a TAP device in a user namespace. Where only root may open /dev/net/tun, another
# of its kind, which all may open, takes its place: in a mount namespace of this test's own, which goes with it.
unprivileged() {
    local as_nobody=() tun=() launched
    [ "$(id -u)" != 0 ] || as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    if [ "$(id -u)" = 0 ] && ! "${as_nobody[@]}" sh -c 'exec 3<>/dev/net/tun' 2>/dev/null; then
        mknod -m 666 "$work/tun" c 10 200 2>/dev/null
        # shellcheck disable=SC2016
        tun=(unshare --mount sh -c 'mount --bind "$0" /dev/net/tun && exec "$@"' "$work/tun")
    fi
    chmod 755 "$work"
    launched=("${tun[@]}" "${as_nobody[@]}")
    if ! "${launched[@]}" unshare -Urn true 2>/dev/null || ! "${launched[@]}" sh -c 'exec 3<>/dev/net/tun' 2>/dev/null; then
        echo "SKIPPED: without privilege: user namespaces or /dev/net/tun are not to be had here"
        return
    fi
    cp "$exos" "$work/exos" && chmod 755 "$work/exos"
    "${launched[@]}" "$work/exos" serve >"$work/user.out" 2>"$work/user.err" &
    server=$!
    await grep 'was answered\|was not answered\|exos:' "$work/user.err"
    has "without privilege a kernel socket is answered" "HTTP/1.1 200" "$(cat "$work/user.err")"
    stop; same "without privilege it stops in order" 0 $?
}

if [ "$(id -u)" != 0 ]; then
    echo "SKIPPED: real clients over AF_XDP: needs root"
    unprivileged
    exit $failures
fi

lab_up || { bad "lab up"; exit 1; }
wire=$(client ip -br link | grep -v '^lo' | cut -d' ' -f1 | cut -d@ -f1)
v4=http://10.10.0.10 v6="http://[fd10::10]"

if start lab "$site" --link "xdp:$wire" --address 10.10.0.10/24 --address fd10::10/64 --json --listing; then
    for base in "$v4" "$v6"; do
        same "curl $base/" "<title>home</title>" "$(client curl -sS -m 60 "$base/")"
        client curl -sS -m 60 -o "$work/got" "$base/large.bin"
        check "curl $base/large.bin is the file" cmp "$work/got" "$site/large.bin"
    done
    reused=$(client curl -sS -m 60 -o /dev/null -o /dev/null -w '%{num_connects} ' $v4/ $v4/small.txt)
    same "keep-alive" "1 0 " "$reused"
    head=$(client curl -sS -m 60 -I $v4/small.txt)
    has "HEAD gives the length" "Content-Length: 100" "$head"
    modified=$(sed -n 's/^Last-Modified: //p' <<<"$head" | tr -d '\r')
    code() { client curl -sS -m 60 -o /dev/null -w '%{http_code}' "$@"; }
    same "a part is sent" "206 10" "$(client curl -sS -m 60 -r 0-9 -o /dev/null -w '%{http_code} %{size_download}' $v4/small.txt)"
    head -c 400000 "$site/large.bin" >"$work/got"
    client curl -sS -m 60 -C - -o "$work/got" $v4/large.bin
    check "curl resumes a download" cmp "$work/got" "$site/large.bin"
    same "If-Modified-Since" 304 "$(code -H "If-Modified-Since: $modified" $v4/small.txt)"
    same "a directory is redirected" "301 $v4/dir/" "$(client curl -sS -m 60 -o /dev/null -w '%{http_code} %{redirect_url}' $v4/dir)"
    same "a directory's index" "<title>dir</title>" "$(client curl -sS -m 60 $v4/dir/)"
    has "a directory without one is listed" "/dir/empty/" "$(client curl -sS -m 60 $v4/dir/empty/)"
    same "no such document" 404 "$(code $v4/none)"
    same "POST" 405 "$(code -X POST $v4/)"
    same "a link that leaves the directory" 403 "$(code $v4/escape.txt)"
    same "dots that leave the directory" 400 "$(code --path-as-is $v4/../../etc/passwd)"
    same "encoded dots" 400 "$(code --path-as-is "$v4/%2e%2e/%2e%2e/etc/passwd")"
    same "a long target" 414 "$(code "$v4/$(head -c 9000 /dev/zero | tr '\0' a)")"
    same "large fields" 431 "$(code -H "X-Large: $(head -c 17000 /dev/zero | tr '\0' a)" $v4/)"
    raw() { printf "$1" | client curl -sS -m 60 telnet://10.10.0.10:80 2>/dev/null | head -1 | tr -d '\r'; }
    has "a bad version" " 505 " "$(raw 'GET / HTTP/9.9\r\n\r\n')"
    has "nonsense" " 400 " "$(raw 'nonsense\r\n\r\n')"
    has "HTTP/1.0" " 200 " "$(raw 'GET / HTTP/1.0\r\n\r\n')"
    pipelined=$(printf 'GET /small.txt HTTP/1.1\r\nHost: x\r\n\r\nGET /small.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' |
        client curl -sS -m 60 telnet://10.10.0.10:80 2>/dev/null | grep -o 'HTTP/1.1 200' | wc -l)
    same "pipelining" 2 "$pipelined"
    check "ping v4" client ping -c 2 -i 0.2 -W 20 10.10.0.10
    check "ping v6" client ping -6 -c 2 -i 0.2 -W 20 fd10::10
    check "a ping in fragments" client ping -c 1 -s 4000 -W 20 10.10.0.10
    check "nobody listens on other ports" bash -c "! \"$exos\" lab exec --name $lab b -- timeout 2 bash -c '</dev/tcp/10.10.0.10/81'"
    load "lab wire" client $v4
    h2load_1 "lab wire" client $v4
    mirror "lab wire" client $v4
    compressed "lab wire" client $v4
    browse "lab wire" client $v4
    # A connection that sends nothing whole does not keep others waiting.
    printf 'GET / HT' | "$exos" lab exec --name $lab b -- curl -sS -m 100 telnet://10.10.0.10:80 >/dev/null 2>&1 &
    stalled=$!
    await eval '[ -n "$(client ss -Htn state established dst 10.10.0.10)" ]'
    same "others are served beside a stalled request" 200 "$(code $v4/)"
    kill $stalled 2>/dev/null; wait $stalled 2>/dev/null
    # A second server on the same queue is refused and the first goes on.
    second=$(timeout 60 "$exos" lab exec --name $lab a -- "$exos" serve --link "xdp:$wire" --address 10.10.0.11/24 2>&1); status=$?
    same "a second server on the queue is refused" 1 $status
    has "and the line names what is in the way" "XDP" "$second"
    same "and the first goes on" 200 "$(code $v4/)"
    serve_pid=$(pgrep -P "$server" -x exos || echo "$server")
    kill -USR1 "$serve_pid"; await grep '^{.*}$' "$work/out"
    check "statistics on SIGUSR1 are JSON" bash -c "grep -m1 '^{' '$work/out' | python3 -S -m json.tool >/dev/null"
    stop; same "it stops in order" 0 $?
    kernel_answered ""
    has "the interface is as it was" "none" "none$("$exos" lab exec --name $lab a -- ip -d link show "$wire" | grep -o 'xdp')"
else
    bad "the server starts on the lab wire" "$(cat "$work/err")"
fi

# SIGHUP reads everything again without losing a connection; what cannot be served changes nothing.
cp -r "$site" "$work/next" && echo '<title>next</title>' >"$work/next/index.html"
configure() { printf '[[site]]\nnames = ["own.test"]\nroot = "next"\n[[site]]\ndefault = true\nroot = "%s"\n%s\n' "$1" "$2" >"$work/serve.toml"; }
configure site ""
check "--check takes what is served" "$exos" serve --config "$work/serve.toml" --check
if start lab --config "$work/serve.toml" --link "xdp:$wire" --address 10.10.0.10/24; then
    serve_pid=$(pgrep -P "$server" -x exos || echo "$server")
    same "a virtual host" "<title>next</title>" "$(client curl -sS -m 60 --resolve own.test:80:10.10.0.10 http://own.test/)"
    same "another host" "<title>home</title>" "$(client curl -sS -m 60 $v4/)"
    if command -v wrk >/dev/null; then
        client wrk -t1 -c32 -d4s $v4/small.txt >"$work/wrk.out" 2>&1 &
        wrk=$!
        for _ in 1 2 3; do kill -HUP "$serve_pid"; sleep 0.3; done
        wait $wrk
        check "requests go on during reloads" grep -q 'requests in' "$work/wrk.out"
        same "and none fails" "" "$(grep -E 'Non-2xx|connect [1-9]|read [1-9]|write [1-9]' "$work/wrk.out")"
    fi
    configure site 'prot = 1'
    kill -HUP "$serve_pid"; await grep 'no key `prot`' "$work/err"
    check "a configuration that cannot stand is named" await grep -q "what was served goes on" "$work/err"
    same "and changes nothing" "<title>home</title>" "$(client curl -sS -m 60 $v4/)"
    configure next ""
    kill -HUP "$serve_pid"
    await eval '[ "$(client curl -sS -m 60 $v4/)" = "<title>next</title>" ]'
    same "another root after SIGHUP" "<title>next</title>" "$(client curl -sS -m 60 $v4/)"
    stop; same "it stops in order after reloads" 0 $?
else
    bad "the server starts with a configuration" "$(cat "$work/err")"
fi

# Who may have what, by path: passwords of htpasswd and openssl, networks and rates, on packets and on sockets.
access_rules() {
    local name=$1 base=$2 code
    # get PATH ARGUMENTS...: the status.
    get() { local path=$1; shift; client curl -sS -m 60 -o /dev/null -w '%{http_code}' -H 'Host: own.test' "$@" "$base/$path"; }
    same "$name: without a password" 401 "$(get in/a.txt)"
    has "$name: which is asked for" 'WWW-Authenticate: Basic realm="Staff"' "$(client curl -sS -m 60 -I -H 'Host: own.test' "$base/in/a.txt")"
    same "$name: a wrong one" 401 "$(get in/a.txt -u ann:wrong)"
    same "$name: one of htpasswd -B" 200 "$(get in/a.txt -u 'ann:pass word')"
    same "$name: one of openssl passwd -6" 200 "$(get in/a.txt -u bob:two)"
    same "$name: a network that may" 200 "$(get client/a.txt)"
    same "$name: a network that may not" 403 "$(get others/a.txt)"
    client curl -sS -m 300 -I -H 'Host: own.test' "$base/slow/[1-40].txt" | tr -d '\r' >"$work/heads"
    same "$name: a burst passes" "200 200" "$(grep -m 2 -o '^HTTP/1.1 [0-9]*' "$work/heads" | cut -d' ' -f2 | paste -sd' ')"
    same "$name: more than the rate does not, and is told when to come again" 1 "$(grep -A 9 '^HTTP/1.1 429' "$work/heads" | grep -c -m 1 '^Retry-After: [1-9]')"
    same "$name: metrics by address, where unknown hosts are refused" 200 "$(client curl -sS -m 60 -o /dev/null -w '%{http_code}' "$base/.exos/metrics")"
    same "$name: documents by address are" 421 "$(client curl -sS -m 60 -o /dev/null -w '%{http_code}' "$base/small.txt")"
    sed -i /^bob/d "$work/users"
    await eval '[ "$(get in/a.txt -u bob:two)" = 401 ]' && ok "$name: who is taken out of the file" || bad "$name: who is taken out of the file"
    same "$name: others stay" 200 "$(get in/a.txt -u 'ann:pass word')"
    # Guesses by the dozen: documents are sent meanwhile, and nobody waits without end.
    for code in $(seq 60); do echo "url=$base/in/a.txt"; echo "user=ann:guess$code"; echo "header=\"Host: own.test\""; echo 'output=/dev/null'; echo 'write-out="%{http_code} "'; echo next; done | sed '$d' >"$work/guesses"
    client curl -sS -m 300 -Z --parallel-max 60 --no-progress-meter -K "$work/guesses" >"$work/codes" 2>&1 &
    peer=$!
    same "$name: a document beside guesses" 200 "$(get small.txt)"
    wait $peer; peer=
    same "$name: no guess is right" "60 " "$(tr ' ' '\n' <"$work/codes" | grep -c '^401$\|^503$') $(tr ' ' '\n' <"$work/codes" | grep -v '^401$\|^503$\|^$')"
}
if command -v htpasswd >/dev/null && command -v openssl >/dev/null; then
    mkdir -p "$site"/{in,client,others,slow}
    for path in in/a client/a others/a slow/{1..40}; do echo text >"$site/$path.txt"; done
    printf '%s\n' 'unknown_hosts = "refuse"' '[status]' 'path = "/.exos"' 'allow = ["10.10.0.0/24"]' '[[site]]' 'names = ["own.test"]' 'root = "site"' \
        '[[site.access]]' 'path = "/in/*"' 'users = "users"' 'realm = "Staff"' '[[site.access]]' 'path = "/client/*"' 'rules = ["allow 10.10.0.0/24", "deny all"]' \
        '[[site.access]]' 'path = "/others/*"' 'rules = ["deny 10.10.0.0/24"]' '[[site.access]]' 'path = "/slow/*"' 'rate = 1' 'burst = 1' >"$work/access.toml"
    ways=(packets sockets)
    [ -z "$in_kernel" ] || ways=(packets)
    for way in "${ways[@]}"; do
        { htpasswd -nbB ann 'pass word'; echo "bob:$(openssl passwd -6 two)"; } | grep . >"$work/users"
        case $way in packets) how="--link xdp:$wire --address 10.10.0.10/24" base=$v4 ;; *) how=--sockets base=http://10.10.0.1 ;; esac
        # shellcheck disable=SC2086
        if start lab --config "$work/access.toml" $how; then
            access_rules "access, $way" $base
            stop; same "access, $way: it stops in order" 0 $?
        else
            bad "access, $way: it starts" "$(cat "$work/err")"
        fi
    done
    # What --check finds wrong, it finds at once, with file and line.
    printf '%s\n' '[log]' 'file = "none/access.log"' '[link]' 'name = "xdp:no-such-link"' '[[site]]' 'root = "site"' '[site.error_pages]' '404 = "/no-page.html"' \
        '[[site.access]]' 'path = "*"' 'users = "no-users"' >"$work/wrong.toml"
    said=$("$exos" serve --config "$work/wrong.toml" --check 2>&1); status=$?
    for line in "2: cannot open the log" "4: " "8: " "11: cannot read"; do has "--check tells of line ${line%%:*}" "wrong.toml:$line" "$said"; done
    same "--check fails then" "1 4" "$status $(grep -c 'wrong.toml:' <<<"$said")"
    check "and has made no log" [ ! -e "$work/none" ]
else
    echo "SKIPPED: access by password: htpasswd or openssl is not installed (apt-get install apache2-utils openssl)"
fi
"$exos" serve --check >/dev/full 2>&1; same "--check on a full disk fails" 1 $?

# SIGKILL leaves nothing: the next start works at once.
if start lab "$site" --link "xdp:$wire" --address 10.10.0.10/24; then
    kill -KILL "$(pgrep -P "$server" -x exos || echo "$server")"; wait "$server" 2>/dev/null
    if start lab "$site" --link "xdp:$wire" --address 10.10.0.10/24; then
        same "after SIGKILL the next start works" "<title>home</title>" "$(client curl -sS -m 60 $v4/)"
        stop
    else
        bad "after SIGKILL the next start works" "$(cat "$work/err")"
    fi
else
    bad "the server starts again" "$(cat "$work/err")"
fi

# Beside the host on its own address.
if start lab "$site" --link "xdp:$wire" --share-address --port 8080; then
    same "--share-address v4" "<title>home</title>" "$(client curl -sS -m 60 http://10.10.0.1:8080/)"
    same "--share-address v6" "<title>home</title>" "$(client curl -sS -m 60 "http://[fd10::1]:8080/")"
    client curl -sS -m 60 -o "$work/got" http://10.10.0.1:8080/large.bin
    check "--share-address, a large document" cmp "$work/got" "$site/large.bin"
    load "shared address" client http://10.10.0.1:8080
    browse "shared address" client http://10.10.0.1:8080
    "$exos" lab exec --name $lab a -- python3 -S -m http.server 8081 --directory "$site" >/dev/null 2>&1 &
    other=$!; await_port 8081
    same "the host's own ports go on" 200 "$(client curl -sS -m 60 -o /dev/null -w '%{http_code}' http://10.10.0.1:8081/small.txt)"
    kill $(pgrep -P $other) $other 2>/dev/null; wait $other 2>/dev/null
    check "the host's ping goes on" client ping -c 1 -W 20 10.10.0.1
    stop
else
    bad "--share-address starts" "$(cat "$work/err")"
fi

# A port of the host that is taken.
"$exos" lab exec --name $lab a -- python3 -S -m http.server 8082 --directory "$site" >/dev/null 2>&1 &
other=$!; await_port 8082
taken=$(timeout 60 "$exos" lab exec --name $lab a -- "$exos" serve "$site" --link "xdp:$wire" --share-address --port 8082 2>&1); status=$?
same "a taken port is refused" 1 $status
has "and the line says so" "8082" "$taken"
kill $(pgrep -P $other) $other 2>/dev/null; wait $other 2>/dev/null

# What it says of its work, and the limits of clients.
if start lab "$site" --link "xdp:$wire" --address 10.10.0.10/24 --log "$work/access.log" --status /.exos --status-allow 10.10.0.2 --max-peer-connections 8; then
    client curl -sS -m 60 -A 'cur"l' -o /dev/null $v4/small.txt
    await grep -q ' "GET /small.txt HTTP/1.1" 200 100 "-" "cur\\x22l"$' "$work/access.log"
    has "a line in the access log" '10.10.0.2 - - [' "$(tail -1 "$work/access.log")"
    mv "$work/access.log" "$work/access.log.1"
    kill -USR2 "$(pgrep -P "$server" -x exos || echo "$server")"
    await eval '[ -e "$work/access.log" ]'
    client curl -sS -m 60 -o /dev/null $v4/none
    check "after a rotation, in the new file" await grep -q ' "GET /none HTTP/1.1" 404 ' "$work/access.log"
    if command -v goaccess >/dev/null; then
        cat "$work/access.log.1" "$work/access.log" >"$work/both.log"
        has "GoAccess reads the log" '"valid_requests": 2' "$(goaccess "$work/both.log" --log-format=COMBINED --no-global-config -o json 2>/dev/null)"
    else
        echo "SKIPPED: GoAccess: not installed (apt-get install goaccess)"
    fi
    has "the status page" "<h1>exos serve</h1>" "$(client curl -sS -m 60 $v4/.exos)"
    # Of several cores each tells of itself once a second.
    missed() { client curl -sS -m 60 $v4/.exos/metrics | grep '^exos_serve_http_responses_total{status="404"} '; }
    await eval '[ "$(missed)" = "exos_serve_http_responses_total{status=\"404\"} 1" ]' && ok "metrics" || bad "metrics" "$(missed)"
    many='import socket, sys, time
held = []
for _ in range(20):
    # One too many is reset as soon as it stands, which may be before connect() returns.
    try:
        held.append(socket.create_connection(("10.10.0.10", 80)))
        held[-1].sendall(b"GET ")
    except OSError: pass
def is_open(one):
    one.settimeout(0.1)
    try: return one.recv(1) != b""
    except TimeoutError: return True
    except OSError: return False
for _ in range(100):
    open = sum(map(is_open, held))
    if open <= int(sys.argv[1]): break
print(open)'
    same "of 20 connections of one peer 8 stand" 8 "$(client timeout 60 python3 -S -c "$many" 8)"
    stop; same "it stops in order after that" 0 $?
else
    bad "it starts with a log and limits" "$(cat "$work/err")"
fi

[ -z "$in_kernel" ] || exit $failures

# The same on the kernel's sockets.
if start lab "$site" --sockets --port 8090 --log "$work/sockets.log"; then
    for url in http://10.10.0.1:8090 "http://[fd10::1]:8090"; do
        same "on sockets, $url" "<title>home</title>" "$(client curl -sS -m 60 "$url/")"
    done
    client curl -sS -m 60 -o "$work/got" http://10.10.0.1:8090/large.bin
    check "on sockets, a large document" cmp "$work/got" "$site/large.bin"
    load "on sockets" client http://10.10.0.1:8090
    kill -USR1 "$(pgrep -P "$server" -x exos || echo "$server")"
    check "on sockets, statistics" await grep -q http_responses_200 "$work/err"
    # Who keeps its side open is given a second, not the half minute of a connection that ends.
    "$exos" lab exec --name $lab b -- bash -c 'exec 3<>/dev/tcp/10.10.0.1/8090 && touch "$0" && exec sleep 60' "$work/open" &
    stays=$!
    await [ -e "$work/open" ]
    begun=$SECONDS
    stop; same "on sockets it stops in order" 0 $?
    check "whoever keeps its side open" [ $((SECONDS - begun)) -lt 20 ]
    kill $stays
    check "and has logged" grep -q '"GET /large.bin HTTP/1.1" 200 1000000 ' "$work/sockets.log"
else
    bad "it starts on sockets" "$(cat "$work/err")"
fi
# Documents and the configuration change under it as on the other way.
configure_8090() { configure "$1" ""; sed -i '1i port = 8090' "$work/serve.toml"; }
configure_8090 site
if start lab --config "$work/serve.toml" --sockets; then
    serve_pid=$(pgrep -P "$server" -x exos || echo "$server")
    await_port 8090
    on_sockets() { client curl -sS -m 60 "http://10.10.0.1:8090/${1:-}"; }
    same "on sockets, a document" "<title>home</title>" "$(on_sockets)"
    echo changed >"$site/changing.txt"
    await eval '[ "$(on_sockets changing.txt)" = changed ]'
    echo "changed again" >"$site/changing.txt"
    await eval '[ "$(on_sockets changing.txt)" = "changed again" ]'
    same "on sockets, files are followed" "changed again" "$(on_sockets changing.txt)"
    rm "$site/changing.txt"
    if command -v wrk >/dev/null; then
        client wrk -t1 -c32 -d4s http://10.10.0.1:8090/small.txt >"$work/wrk.out" 2>&1 &
        wrk=$!
        for _ in 1 2 3; do kill -HUP "$serve_pid"; sleep 0.3; done
        wait $wrk
        check "on sockets, requests go on during reloads" grep -q 'requests in' "$work/wrk.out"
        same "on sockets, none fails" "" "$(grep -E 'Non-2xx|connect [1-9]|read [1-9]|write [1-9]' "$work/wrk.out")"
    fi
    configure_8090 next
    kill -HUP "$serve_pid"
    await eval '[ "$(on_sockets)" = "<title>next</title>" ]'
    same "on sockets, another root after SIGHUP" "<title>next</title>" "$(on_sockets)"
    echo "<title>after</title>" >"$work/next/after.html"
    await eval '[ "$(on_sockets after.html)" = "<title>after</title>" ]'
    same "on sockets, files are followed after SIGHUP" "<title>after</title>" "$(on_sockets after.html)"
    before=$(awk '{print $14 + $15}' "/proc/$serve_pid/stat"); sleep 2
    after=$(awk '{print $14 + $15}' "/proc/$serve_pid/stat")
    check "on sockets, it sleeps when there is nothing to do" [ $((after - before)) -lt 50 ]
    stop; same "on sockets it stops in order after reloads" 0 $?
else
    bad "it starts on sockets with a configuration" "$(cat "$work/err")"
fi

# On its own interface pair.
if start here "$site"; then
    for url in $(cat "$work/out"); do
        same "own interface pair, $url" "<title>home</title>" "$(curl -sS -m 60 "$url")"
    done
    url=$(head -1 "$work/out")
    curl -sS -m 60 -o "$work/got" "${url}large.bin"; check "own interface pair, a large document" cmp "$work/got" "$site/large.bin"
    load "own pair" here "${url%/}"
    browse "own pair" here "${url%/}"
    name=$(ip -br link | grep -o '^exos[0-9]*' | head -1)
    has "it has interfaces" exos "$name"
    kill -KILL "$server"; wait "$server" 2>/dev/null; server=
    # The kernel takes them away at leisure.
    await eval '[ -z "$(ip -br link show "$name" 2>/dev/null)" ]'
    same "its interfaces go with it, also by SIGKILL" "" "$(ip -br link show "$name" 2>/dev/null)"
else
    bad "the server starts on its own interface pair" "$(cat "$work/err")"
fi

# A TAP device.
if start lab "$site" --link tap:exostap --address 10.99.0.2/24; then
    "$exos" lab exec --name $lab a -- sh -c 'ip address add 10.99.0.1/24 dev exostap; ip link set exostap up'
    "$exos" lab exec --name $lab a -- curl -sS -m 60 -o "$work/got" http://10.99.0.2/large.bin
    check "TAP with offload, a large document" cmp "$work/got" "$site/large.bin"
    stop
else
    bad "the server starts on a TAP device" "$(cat "$work/err")"
fi

# What cannot work says so.
refused() { local name=$1 wanted=$2 out; shift 2; out=$(timeout 60 "$exos" serve "$@" 2>&1); [ $? != 0 ] && has "$name" "$wanted" "$out" || bad "$name" "$out"; }
refused "no such directory" "/no/such" /no/such
refused "no such interface" "nope0" --link xdp:nope0 --address 10.0.0.1/24
refused "no address" "--address" --link xdp:lo
refused "no prefix" "prefix" --link xdp:lo --address 10.0.0.1

unprivileged
exit $failures
