#!/usr/bin/env bash
# Documents that come from the file cache that processes share, fetched from two servers on the lab wire and one on sockets: the same bytes by
# every carrier, of one copy; while files change, while everything is read again, when the share is used up, and when the service is killed.
# Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/serve/file-cache.sh PATH/TO/exos
#
# Everything happens in namespaces of a lab of its own; what is started is ended by its id.
. "$(dirname "$0")/../common.sh"
need_root "documents in the file cache"
need_programs "documents in the file cache" curl python3
begin
case $(stat -f -c %T "$work") in
    ext2/ext3 | xfs | btrfs) ;;
    *) skip "documents in the file cache" "$work is on no ext4, XFS or Btrfs, from which alone the file cache takes files" ;;
esac
export XDG_RUNTIME_DIR=$work/run
mkdir -m 700 "$work/run"
lab=file-cache-$$
service=
others=
cleanup() {
    # shellcheck disable=SC2086
    end $others $service $peer $server
    "$exos" lab down --name "$lab" >/dev/null 2>&1
    rm -rf "$work"
}

site=$work/site
mkdir "$site"
# 24 MB of long files, and some short ones; one that is never the same in two places.
for n in 1 2 3 4 5 6; do head -c 4000000 /dev/urandom >"$site/long$n.bin"; done
head -c 5000 /dev/urandom >"$site/page.bin"
head -c 1000 /dev/urandom >"$site/short.bin"
head -c 300001 /dev/urandom >"$site/odd.bin"
: >"$site/empty.bin"
yes 'some text that can be packed' | head -c 200000 >"$site/text.txt"
gzip -k "$site/text.txt"
names="long1 long2 long3 long4 long5 long6 page short odd empty"

# start_service MEMORY
start_service() {
    "$exos" file-cache --memory "$1" >"$work/service-out" 2>"$work/service" </dev/null &
    service=$!
    await "$exos" file-cache --status
}
number() { "$exos" file-cache --status | awk -v name="$1" '$1 == name { print $2 }'; }
# counter URL NAME: what a server's metrics say; what is shown may be a second old.
counter() { sleep 1.2; client curl -sS -m 60 "$1/.exos/metrics" | sed -n "s/^exos_serve_$2 \([0-9]*\).*/\1/p"; }
# memory PID: kB of its own, beside what it shares.
memory() { awk '$1 == "RssAnon:" { print $2 }' "/proc/$1/status"; }
status="--status /.exos --status-allow 10.10.0.0/24"
tls="--tls-port 443 --tls-self-signed"
# fetched NAME COMMAND...: every file is what it is, and so are parts.
fetched() {
    local name=$1 file url; shift
    url=${!#}; set -- "${@:1:$#-1}"
    for file in $names; do
        "$@" "$url/$file.bin" -o "$work/got" 2>"$work/said"
        cmp -s "$work/got" "$site/$file.bin" || { bad "$name" "$file differs: $(head -c 200 "$work/said")"; return; }
    done
    for range in 0-0 1-5000 65535-131073 299999-300000 17-; do
        "$@" -r "$range" "$url/odd.bin" -o "$work/got" 2>"$work/said"
        local from=${range%-*} to=${range#*-}
        cmp -s "$work/got" <(tail -c +$((from + 1)) "$site/odd.bin" | head -c $((${to:-300000} - from + 1))) || { bad "$name" "bytes $range differ"; return; }
    done
    ok "$name"
}

lab_up || { bad "lab up"; exit 1; }
check "a file cache starts" start_service 256m
# Two servers: one on packets, on two cores where it can; one on sockets.
if launch http "$exos" lab exec --name "$lab" a -- "$exos" serve "$site" --file-cache --sockets --port 8080 --tls-port 8443 --tls-self-signed \
    --address 10.10.0.1/24 --status /.exos --status-allow 10.10.0.0/24; then
    others=$server
    mv "$work/err" "$work/err-sockets"
else
    bad "a server on sockets starts" "$(cat "$work/err")"
fi
sockets=$server
# shellcheck disable=SC2086
if launch_in_lab "$site" --file-cache --link xdp:wire --address 10.10.0.10/24 $tls $status; then
    packets=$server
    before="$(memory $sockets) $(memory "$packets")"
    here=http://10.10.0.10 there=http://10.10.0.1:8080
    fetched "packets, HTTP/1.1" client curl -sS -m 60 "$here"
    fetched "packets, TLS" client curl -sSk -m 60 --http1.1 https://10.10.0.10
    fetched "packets, HTTP/2" client curl -sSk -m 60 --http2 https://10.10.0.10
    fetched "sockets, HTTP/1.1" client curl -sS -m 60 "$there"
    fetched "sockets, TLS" client curl -sSk -m 60 --http1.1 https://10.10.0.1:8443
    fetched "sockets, HTTP/2" client curl -sSk -m 60 --http2 https://10.10.0.1:8443
    for url in "$here" "$there"; do
        client curl -sS -m 60 --compressed "$url/text.txt" | cmp -s - "$site/text.txt" && ok "a packed variant of $url" || bad "a packed variant of $url" "it differs"
        client curl -sS -m 60 -r 5-9,70000-200000 "$url/odd.bin" -o "$work/got"
        check "several parts of $url" grep -aqF "Content-Range: bytes 70000-200000/300001" "$work/got"
    done
    tag() { client curl -sS -m 60 -I "$1/odd.bin" | sed -n 's/^ETag: //p'; }
    same "both have one tag" "$(tag "$here")" "$(tag "$there")"
    has "it is said where documents come from" "documents come from the file cache" "$(cat "$work/err")"
    # Each was read once, by whichever server was first. The packed text is too short.
    shared=$(cat "$site"/long?.bin "$site"/{page,odd}.bin "$site/text.txt" | wc -c)
    same "each byte was read once" "$shared" "$(number read_bytes)"
    same "every file came by reference" "0 0" "$(counter "$here" cache_copied_total) $(counter "$there" cache_copied_total)"
    check "which counters say" test "$(counter "$here" cache_lent_total)" -ge 9
    check "and how much that is" test "$(counter "$here" cache_lent_bytes)" -ge 24000000
    # 25 MB of documents each, which would be in both.
    set -- $before
    for pid in $sockets $packets; do
        grown=$(($(memory "$pid") - $1)); shift
        if [ $grown -lt 12000 ]; then ok "a server has no copies ($pid)"; else bad "a server has no copies" "$grown kB more than before"; fi
    done
    check "and tools have the same" grep -q "^read 24000000 bytes by reference, 0 by copy" <("$exos" io cat --verbose "$site"/long?.bin 2>&1 >/dev/null)
    same "of which nothing was read again" "$shared" "$(number read_bytes)"

    # A file that changes again and again, each version of one byte only: no response is of two.
    head -c 400000 /dev/zero | tr '\0' a >"$site/turns.bin"
    (
        for round in $(seq 40); do
            for byte in a b c d; do
                head -c 400000 /dev/zero | tr '\0' $byte >"$work/turn"
                if [ $((round % 2)) = 0 ]; then mv "$work/turn" "$site/turns.bin"; else cat "$work/turn" >"$site/turns.bin"; fi
                sleep 0.03
            done
        done
    ) &
    turning=$!
    torn=0 seen=0
    while kill -0 $turning 2>/dev/null; do
        for url in "$here" "$there" https://10.10.0.10; do
            kinds=$(client curl -sSk -m 60 "$url/turns.bin" | fold -w 1000 | sort -u | tr -d '\n' | fold -w 1 | sort -u | wc -l)
            [ "$kinds" = 1 ] || [ "$kinds" = 0 ] || torn=$((torn + 1))
            seen=$((seen + kinds))
        done
    done
    wait $turning
    same "a file that changes is never torn" 0 $torn
    check "though it was served" test $seen -gt 3
    is_last() { [ "$(client curl -sS -m 60 "$1/turns.bin" | sha256sum)" = "$(sha256sum <"$site/turns.bin")" ]; }
    for url in "$here" "$there"; do check "the last version is served by $url" await is_last "$url"; done

    # Everything read again, while some is fetched.
    client curl -sS -m 60 --limit-rate 3M "$here/long1.bin" -o "$work/slow" &
    slow=$!
    await [ -s "$work/slow" ]
    kill -HUP "$packets"
    check "everything is read again" await grep -q 'read again' "$work/err"
    wait $slow
    check "a response under way is whole" cmp "$work/slow" "$site/long1.bin"
    read_before=$(number read_bytes)
    fetched "after a reload" client curl -sS -m 60 "$here"
    same "what is in the file cache is not read again for that" "$read_before" "$(number read_bytes)"

    # The service is killed.
    client curl -sS -m 60 --limit-rate 3M "$here/long2.bin" -o "$work/slow" &
    slow=$!
    await [ -s "$work/slow" ]
    kill -KILL $service; wait $service 2>/dev/null
    wait $slow
    check "a response under way goes on without the service" cmp "$work/slow" "$site/long2.bin"
    fetched "documents in memory stay" client curl -sS -m 60 "$here"
    head -c 100000 /dev/urandom >"$site/page.bin"
    is_page() { client curl -sS -m 60 "$1/page.bin" | cmp -s - "$site/page.bin"; }
    for url in "$here" "$there"; do check "others are copied by $url" await is_page "$url"; done
    has "it is said" "no file cache runs" "$(cat "$work/err")"
    has "it is said by both" "no file cache runs" "$(cat "$work/err-sockets")"
    check "and counted" test "$(counter "$here" cache_copied_total)" -ge 1
    # And taken up again: a small one, of which a program may keep 4 MiB of 16, half of that for good.
    check "another starts" start_service 16m
    sleep 5 # After there was none it is not looked for at once.
    kill -HUP "$packets"
    read_again() { [ "$(grep -c 'read again' "$work/err")" = 2 ]; }
    check "everything is read again" await read_again
    mkdir "$site/small"
    for n in $(seq 30); do head -c 300000 /dev/urandom >"$site/small/$n.bin"; done
    sleep 0.2
    wrong=0
    for _ in 1 2 3; do
        for n in $(seq 30); do client curl -sS -m 60 "$here/small/$n.bin" | cmp -s - "$site/small/$n.bin" || wrong=$((wrong + 1)); done
    done
    same "more than the share is served" 0 $wrong
    check "what is kept is half of the share at most" test "$(counter "$here" cache_lent_bytes)" -le 2097152
    check "and some is" test "$(counter "$here" cache_lent_bytes)" -ge 600000
    check "others go for that" test "$(counter "$here" cache_evictions_total)" -ge 20
    same "the service had nothing to refuse" "0 0" "$(number over_share) $(number faults)"
    # Clients that take nothing keep documents from the cache, but no more than the share.
    for n in $(seq 20); do client curl -sS -m 100 --limit-rate 30k "$here/small/$n.bin" -o "$work/slow$n" & slows[n]=$!; done
    sleep 2
    wrong=0
    for n in $(seq 30); do client curl -sS -m 60 "$here/small/$n.bin" | cmp -s - "$site/small/$n.bin" || wrong=$((wrong + 1)); done
    same "others are served beside clients that take little" 0 $wrong
    for n in $(seq 20); do wait ${slows[n]}; cmp -s "$work/slow$n" "$site/small/$n.bin" || wrong=$((wrong + 1)); done
    same "and these in the end" 0 $wrong
    stop; same "it stops in order" 0 $?
    server=$sockets
    others=
    stop; same "and the one on sockets" 0 $?
else
    bad "the server starts" "$(cat "$work/err")"
fi

# Two cores of one server are one program of the service.
"$exos" lab down --name "$lab" >/dev/null 2>&1
queues=2
lab_up || { bad "lab up"; exit 1; }
sed 's/^    //' >"$work/site.toml" <<TOML
    [cache]
    file_cache = true
    [status]
    path = "/.exos"
    allow = ["10.10.0.0/24"]
    [[site]]
    root = "$site"
TOML
if launch_in_lab --config "$work/site.toml" --cores 2 --link xdp:wire --address 10.10.0.10/24; then
    for n in 1 2 3 4 5 6 7 8; do
        client curl -sS -m 60 http://10.10.0.10/odd.bin | cmp -s - "$site/odd.bin" && echo yes
    done >"$work/whole"
    same "two cores serve it" 8 "$(grep -c yes "$work/whole")"
    same "once for both" 1 "$(counter http://10.10.0.10 cache_lent_total)"
    # This is one itself.
    same "they are one program" 2 "$(number programs)"
    stop; same "two cores stop in order" 0 $?
else
    bad "a server on two cores starts" "$(cat "$work/err")"
fi
exit $((failures > 0))
