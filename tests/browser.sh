#!/usr/bin/env bash
# A browser before the release binary: Chromium shows a page with many images, scripts and styles, plays a film,
# jumps about in it, and loads the page again; over a plain wire, and over one that is long and loses frames. What
# it must have seen, and what the server must have sent, is checked by browser.py. Prints "ok NAME", "not ok NAME:
# why" or "SKIPPED: ..." lines.
#
#   tests/browser.sh PATH/TO/exos
#
# Everything happens in namespaces of a lab of its own and takes about half a minute; what is started is ended by its
# id, also when this script is interrupted. Nothing here judges how fast it is.
set -uo pipefail
exos=$(realpath "$1")
judge=$(dirname "$(realpath "$0")")/browser.py
lab=browser-$$
work=$(mktemp -d)
failures=0
server=
browser=

cleanup() {
    for pid in $browser $server; do kill -KILL "$pid" 2>/dev/null; done
    "$exos" lab down --name $lab >/dev/null 2>&1
    rm -rf "$work"
}
ok() { echo "ok $1"; }
bad() { echo "not ok $1: ${2:-}"; failures=$((failures + 1)); }
# await COMMAND...: until it succeeds, for a minute at most.
await() { local end=$((SECONDS + 60)); until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $end ] || return 1; sleep 0.05; done; }

[ "$(id -u)" = 0 ] || { echo "SKIPPED: a browser over AF_XDP: needs root"; exit 0; }
command -v chromium >/dev/null || { echo "SKIPPED: a browser: Chromium is not installed (apt-get install chromium)"; exit 0; }
command -v python3 >/dev/null || { echo "SKIPPED: a browser: python3 is not installed (apt-get install python3)"; exit 0; }
trap cleanup EXIT
trap 'exit 130' INT TERM

python3 "$judge" make "$work" || { bad "the site"; exit 1; }
for tool in "brotli br" "zstd zst" "gzip gz"; do
    command -v "${tool% *}" >/dev/null || { echo "SKIPPED: a browser and ${tool% *}: no program to compress with"; continue; }
    for file in "$work"/site/app/*.js "$work"/site/app/*.css; do
        "${tool% *}" -c "$file" >"$file.${tool#* }" && touch -r "$file" "$file.${tool#* }"
    done
done

# visit NAME HOST CODINGS LAB-SETTINGS...: what the page says of itself, twice, ends the visit.
visit() {
    local name=$1 host=$2 codings=$3 said; shift 3
    "$exos" lab up --name $lab --wire plain "$@" >/dev/null || { bad "$name: lab up"; return; }
    rm -rf "$work"/access.log "$work"/net.json "$work"/profile
    : >"$work/serve.out"
    "$exos" lab exec --name $lab a -- "$exos" serve --config "$work/serve.toml" --link xdp:wire --address 10.10.0.10/24 \
        --log "$work/access.log" --log-format json >"$work/serve.out" 2>"$work/serve.err" &
    server=$!
    await grep -q '^http' "$work/serve.out" || { bad "$name: the server starts" "$(cat "$work/serve.err")"; return; }
    # The host's own name is on the wire too, because browsers offer br and zstd to hosts that they trust.
    "$exos" lab exec --name $lab b -- chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
        --disable-background-networking --disable-component-update --disable-sync --user-data-dir="$work/profile" \
        --autoplay-policy=no-user-gesture-required --host-resolver-rules="MAP localhost 10.10.0.10" \
        --log-net-log="$work/net.json" --enable-logging=stderr "http://$host/" >/dev/null 2>"$work/browser.err" &
    browser=$!
    await eval '[ "$(grep -c "GET /said.txt" "$work/access.log")" -ge 2 ]'
    kill -TERM "$browser"; wait "$browser" 2>/dev/null; browser=
    kill -TERM "$server"; wait "$server"; local status=$?; server=
    [ $status = 0 ] || bad "$name: the server ends in order" "status $status: $(cat "$work/serve.err")"
    # shellcheck disable=SC2086
    said=$(python3 "$judge" judge "$work" "http://$host/" $codings) || failures=$((failures + 1))
    sed -E "s/^(not ok|ok) /&$name: /" <<<"${said:-not ok the visit: nothing can be said of it}"
    "$exos" lab down --name $lab >/dev/null
}

visit "Chromium" 10.10.0.10 "gzip"
visit "Chromium, bad wire" localhost "br zstd gzip" --delay 5ms --loss 1% --seed 7
exit $((failures > 0))
