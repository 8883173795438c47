#!/usr/bin/env bash
# A browser before the release binary: Chromium shows a page with many images, scripts and styles, plays a film,
# jumps about in it, and loads the page again; over a plain wire, and over one that is long and loses frames. What
# it must have seen, and what the server must have sent, is checked by browser.py. Prints "ok NAME", "not ok NAME:
# why" or "SKIPPED: ..." lines.
#
#   tests/serve/browser.sh PATH/TO/exos [in-kernel]
#
# Everything happens in namespaces of a lab of its own and takes about half a minute; what is started is ended by its
# id, also when this script is interrupted. Nothing here judges how fast it is.
. "$(dirname "$0")/../common.sh"
need_root "a browser over AF_XDP"
command -v chromium >/dev/null || skip "a browser" "Chromium is not installed (apt-get install chromium)"
need_programs "a browser" python3
begin
lab=browser-$$

python3 -S "$here/browser.py" make "$work" || { bad "the site"; exit 1; }
for tool in "brotli br" "zstd zst" "gzip gz"; do
    command -v "${tool% *}" >/dev/null || { echo "SKIPPED: a browser and ${tool% *}: no program to compress with"; continue; }
    for file in "$work"/site/app/*.js "$work"/site/app/*.css; do
        "${tool% *}" -c "$file" >"$file.${tool#* }" && touch -r "$file" "$file.${tool#* }"
    done
done

# visit NAME HOST CODINGS LAB-SETTINGS...: what the page says of itself, twice, ends the visit.
visit() {
    local name=$1 host=$2 codings=$3 said; shift 3
    lab_up "$@" || { bad "$name: lab up"; return; }
    rm -rf "$work"/access.log "$work"/net.json "$work"/profile
    launch_in_lab --config "$work/serve.toml" --link xdp:wire --address 10.10.0.10/24 --log "$work/access.log" \
        --log-format json || { bad "$name: the server starts" "$(cat "$work/err")"; return; }
    # A link that comes up later is a change of the network, at which Chromium gives up what it has asked for.
    await eval 'ip -n "exos-$lab-b" -6 addr show dev wire scope link | grep -q inet6' || { bad "$name: the link comes up"; return; }
    # The host's own name is on the wire too, because browsers offer br and zstd to hosts that they trust.
    "$exos" lab exec --name $lab b -- chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
        --disable-background-networking --disable-component-update --disable-sync --user-data-dir="$work/profile" \
        --autoplay-policy=no-user-gesture-required --host-resolver-rules="MAP localhost 10.10.0.10" \
        --log-net-log="$work/net.json" --enable-logging=stderr "http://$host/" >/dev/null 2>"$work/browser.err" &
    peer=$!
    await eval '[ "$(grep -c "GET /said.txt" "$work/access.log")" -ge 2 ]'
    kill -TERM "$peer"; wait "$peer" 2>/dev/null; peer=
    stop; local status=$?
    [ $status = 0 ] || bad "$name: the server ends in order" "status $status: $(cat "$work/err")"
    # shellcheck disable=SC2086
    said=$(python3 -S "$here/browser.py" judge "$work" "http://$host/" $codings) || failures=$((failures + 1))
    sed -E "s/^(not ok|ok) /&$name: /" <<<"${said:-not ok the visit: nothing can be said of it}"
    "$exos" lab down --name $lab >/dev/null
}

visit "Chromium" 10.10.0.10 "gzip"
visit "Chromium, bad wire" localhost "br zstd gzip" --delay 5ms --loss 1% --seed 7
exit $((failures > 0))
