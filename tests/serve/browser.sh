#!/usr/bin/env bash
# A browser before the release binary: Chromium shows a page with many images, scripts and styles, plays a film,
# jumps about in it, and loads the page again; over a plain wire, and over one that is long and loses frames; by HTTP/1.1, and over TLS by
# HTTP/2 and by HTTP/3. What it must have seen, and what the server must have sent, is checked by browser.py. Prints "ok NAME", "not ok NAME:
# why" or "SKIPPED: ..." lines.
#
#   tests/serve/browser.sh PATH/TO/exos [in-kernel]
#
# Everything happens in namespaces of a lab of its own and takes about half a minute; what is started is ended by its
# id, also when this script is interrupted. Nothing here judges how fast it is.
. "$(dirname "$0")/../common.sh"
need_root "a browser over AF_XDP"
command -v chromium >/dev/null || skip "a browser" "Chromium is not installed (apt-get install chromium)"
need_programs "a browser" python3 openssl
begin
lab=browser-$$

python3 -S "$here/browser.py" make "$work" || { bad "the site"; exit 1; }
for tool in "brotli br" "zstd zst" "gzip gz"; do
    command -v "${tool% *}" >/dev/null || { echo "SKIPPED: a browser and ${tool% *}: no program to compress with"; continue; }
    for file in "$work"/site/app/*.js "$work"/site/app/*.css; do
        "${tool% *}" -c "$file" >"$file.${tool#* }" && touch -r "$file" "$file.${tool#* }"
    done
done

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/key" -out "$work/pem" -days 9 -subj /CN=lab \
    -addext 'subjectAltName=IP:10.10.0.10,DNS:localhost' 2>/dev/null
chmod 600 "$work/key"
# By this the browser takes the certificate, which nobody has signed.
key=$(openssl x509 -in "$work/pem" -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64)

# visit NAME CARRIER HOST CODINGS LAB-SETTINGS...: what the page says of itself, twice, ends the visit. CARRIER is http/1.1, h2 or h3.
visit() {
    local name=$1 carrier=$2 host=$3 codings=$4 said scheme=https config=encrypted more=(--disable-quic); shift 4
    case $carrier in
        http/1.1) scheme=http config=serve ;;
        h3) more=(--enable-quic --origin-to-force-quic-on="$host:443") ;;
    esac
    lab_up "$@" || { bad "$name: lab up"; return; }
    rm -rf "$work"/access.log "$work"/net.json "$work"/profile
    launch_in_lab --config "$work/$config.toml" --link xdp:wire --address 10.10.0.10/24 --log "$work/access.log" \
        --log-format json || { bad "$name: the server starts" "$(cat "$work/err")"; return; }
    # A link that comes up later is a change of the network, at which Chromium gives up what it has asked for.
    await eval 'ip -n "exos-$lab-b" -6 addr show dev wire scope link | grep -q inet6' || { bad "$name: the link comes up"; return; }
    # The host's own name is on the wire too, because browsers offer br and zstd to hosts that they trust.
    "$exos" lab exec --name $lab b -- chromium --headless --no-sandbox --disable-gpu --no-first-run "${more[@]}" --ignore-certificate-errors-spki-list="$key" \
        --disable-background-networking --disable-component-update --disable-sync --user-data-dir="$work/profile" \
        --autoplay-policy=no-user-gesture-required --host-resolver-rules="MAP localhost 10.10.0.10" \
        --log-net-log="$work/net.json" --enable-logging=stderr "$scheme://$host/" >/dev/null 2>"$work/browser.err" &
    peer=$!
    said_twice() { [ "$(grep -c "GET /said.txt" "$work/access.log")" -ge 2 ]; }
    # A browser needs its time to start, on a busy machine more than a minute.
    await said_twice || await said_twice || await said_twice
    kill -TERM "$peer"; wait "$peer" 2>/dev/null; peer=
    stop; local status=$?
    [ $status = 0 ] || bad "$name: the server ends in order" "status $status: $(cat "$work/err")"
    # shellcheck disable=SC2086
    said=$(python3 -S "$here/browser.py" judge "$work" "$scheme://$host/" "$carrier" $codings) || failures=$((failures + 1))
    sed -E "s~^(not ok|ok) ~&$name: ~" <<<"${said:-not ok the visit: nothing can be said of it}"
    "$exos" lab down --name $lab >/dev/null
}

visit "Chromium" http/1.1 10.10.0.10 "gzip"
visit "Chromium, bad wire" http/1.1 localhost "br zstd gzip" --delay 5ms --loss 1% --seed 7
if [ -z "$in_kernel" ]; then
    visit "Chromium, HTTP/2" h2 10.10.0.10 "br zstd gzip"
    visit "Chromium, HTTP/3" h3 10.10.0.10 "br zstd gzip"
    visit "Chromium, HTTP/3, bad wire" h3 localhost "br zstd gzip" --delay 5ms --loss 1% --seed 7
fi
exit $((failures > 0))
