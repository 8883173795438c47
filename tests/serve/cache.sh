#!/usr/bin/env bash
# A set of documents that is larger than its cache, fetched by curl from the release binary on the lab wire, once more while
# everything is read again; memory keeps to what it was given. Many small documents read again again and again: memory stays what
# it was. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/serve/cache.sh PATH/TO/exos [in-kernel]
#
# Everything happens in namespaces of a lab of its own; what is started is ended by its id.
. "$(dirname "$0")/../common.sh"
need_root "more documents than fit in the cache"
need_programs "more documents than fit in the cache" curl
begin
lab=cache-$$
documents=400
# Twice the cache while one takes the place of the other, each with up to half as much that responses still need: 12 MiB;
# and what else a load takes. Everything at once would be 40 MB, and 80 with a reload.
growth_max=20000

site=$work/site
mkdir "$site"
for n in $(seq 0 $((documents - 1))); do head -c 100000 /dev/urandom >"$site/$n.bin"; done

# most WHAT: kB that the server has, or has had at most.
most() { sed -n "s/^$1:[^0-9]*\([0-9]*\) kB/\1/p" "/proc/$server/status"; }
# fetch CURL-OPTIONS...: all documents, one after the other.
fetch() { client curl -sS -m 300 "$@" "http://10.10.0.10/[0-$((documents - 1))].bin" -o "$work/got-#1"; }
# whole: how many were fetched as they are.
whole() { local n; for n in $(seq 0 $((documents - 1))); do cmp -s "$work/got-$n" "$site/$n.bin" && echo yes; done | wc -l; }

lab_up || { bad "lab up"; exit 1; }
if launch_in_lab "$site" --link xdp:wire --address 10.10.0.10/24 --cache 4MiB --status /.exos --status-allow 10.10.0.0/24; then
    before=$(most VmRSS)
    fetch
    same "documents that do not fit in the cache are whole" $documents "$(whole)"
    rm -f "$work"/got-*
    fetch --limit-rate 20M &
    fetching=$!
    await [ -s "$work/got-50" ]
    kill -HUP "$server"
    check "everything is read again while they are fetched" await grep -q 'read again' "$work/err"
    wait $fetching
    same "each of them is whole" $documents "$(whole)"
    grown=$(($(most VmHWM) - before))
    if [ $grown -lt $growth_max ]; then ok "memory is bounded"; else bad "memory is bounded" "$grown kB more than at the start"; fi
    sleep 1.2 # What is shown may be a second old.
    held=$(client curl -sS -m 60 http://10.10.0.10/.exos/metrics | sed -n 's/^exos_serve_cache_bytes \([0-9]*\)$/\1/p')
    if [ "${held:-0}" -gt 2000000 ] && [ "$held" -le 4194304 ]; then ok "the cache keeps to its bound"; else bad "the cache keeps to its bound" "$held bytes"; fi
    stop; same "it stops in order" 0 $?
else
    bad "the server starts" "$(cat "$work/err")"
fi

# Freed blocks between those in use are not given back by themselves: without more, one and a half times as much after two.
mkdir "$work/many"
(cd "$work/many" && seq 20000 | split --lines=1 --suffix-length=5 --additional-suffix=.html -)
is_flat() { [ "$(most VmRSS)" -le $((started + started / 4)) ]; }
read_again() { [ "$(grep -c 'read again' "$work/err")" = "$1" ]; }
if launch http "$exos" lab exec --name "$lab" a -- "$exos" serve --sockets "$work/many"; then
    started=$(most VmRSS)
    for n in 1 2 3 4; do kill -HUP "$server"; await read_again $n || bad "many documents are read again"; done
    check "memory does not grow with reloads" await is_flat || echo "# $started kB, then $(most VmRSS)"
    stop; same "after reloads it stops in order" 0 $?
else
    bad "the server starts with many documents" "$(cat "$work/err")"
fi
exit $((failures > 0))
