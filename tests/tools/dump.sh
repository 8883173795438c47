#!/usr/bin/env bash
# exos dump beside programs that attach without a daemon: who sees what, and what is lost. Prints "ok NAME",
# "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/tools/dump.sh PATH/TO/exos
#
# Everything happens in namespaces of a lab of its own; what is started is ended by its id.
. "$(dirname "$0")/../common.sh"
need_root "packets of programs without a daemon"
need_programs "packets of programs without a daemon" curl python3 setpriv:util-linux nsenter:util-linux
begin
lab=dump-$$
# Where a daemon runs on this machine it is not meant.
export EXOS_XOKD=$work/no-daemon
cp "$exos" "$work/exos"
chmod 755 "$work" "$work/exos"
mkdir "$work/site"
echo hello >"$work/site/index.html"
head -c 20000000 /dev/zero >"$work/site/large"
chmod -R a+rX "$work/site"

# begin_dump NAME COMMAND...: in the background, until it listens; its process is $dump.
begin_dump() {
    local name=$1; shift
    # What one of this name said before is not this one's.
    : >"$work/$name.err"
    timeout -k 1 400 "$@" >"$work/$name" 2>"$work/$name.err" &
    dump=$!
    await grep -q 'listening\|exos:' "$work/$name.err"
}
lab_up || { bad "lab up"; exit 1; }

said=$("$exos" dump -i no-such-link -c 1 2>&1)
has "without a program and a daemon: what to do" "start a program" "$said"

launch_in_lab "$work/site" --link xdp:wire --address 10.10.0.10/24 || { bad "the server starts" "$(cat "$work/err")"; exit 1; }
# More than one visit has, of which on a late machine some are there twice.
begin_dump page "$exos" dump --pid $server -w "$work/page.pcapng" -c 20 tcp port 80
same "a page while it is watched" hello "$(client curl -s -m 60 http://10.10.0.10/)"
while is_ours $dump; do client curl -s -m 60 -o "$work/got" http://10.10.0.10/; done
wait $dump
same "it ends after this many packets" 0 $?
has "and says what was lost" "20 packets captured, 0 lost by the ring" "$(cat "$work/page.err")"
"$exos" dump -r "$work/page.pcapng" -v >"$work/page.text"
has "what came" "GET / HTTP/1.1" "$(cat "$work/page.text")"
has "what was sent" "HTTP/1.1 200 OK" "$(cat "$work/page.text")"
has "by whom, on which interface" "(wire, serve[$server])" "$(cat "$work/page.text")"
if command -v tcpdump >/dev/null; then
    same "tcpdump reads it" 20 "$(tcpdump -nr "$work/page.pcapng" 2>/dev/null | grep -c '10.10.0.10.80')"
fi

# A filter, a snap length, an interface, root in the host's namespace.
begin_dump cut "$exos" dump -i wire -s 60 -x --json -c 2 icmp
client ping -c 1 -W 20 10.10.0.10 >/dev/null
wait $dump
same "cut, by a filter, both ways" "in 98 60 out 98 60" \
    "$(python3 -S -c 'import json,sys; print(*(w for l in sys.stdin for p in [json.loads(l)] for w in (p["direction"], p["length"], p["captured"])))' <"$work/cut")"

# Who watches and does not read loses; the program neither waits nor fails, and it is said how much.
begin_dump slow "$exos" dump --pid $server -w "$work/slow.pcapng"
process=$(pgrep -P $dump)
kill -STOP "$process"
for _ in 1 2 3; do client curl -s -m 60 -o "$work/got" http://10.10.0.10/large; done
check "a program goes on whose watcher stands still" cmp "$work/got" "$work/site/large"
kill -CONT "$process"
# It says how it goes when it has put out what there was.
kill -USR1 "$process"; await grep -q 'packets captured' "$work/slow.err"
kill -INT "$process"; wait $dump
lost=$(tail -n 1 "$work/slow.err" | grep -o '[0-9]* lost' | cut -d ' ' -f 1)
check "what it lost is counted" test "${lost:-0}" -gt 0
check "and stands in the file" python3 - "$work/slow.pcapng" "$lost" <<'PYTHON'
import struct, sys
data, at, lost = open(sys.argv[1], "rb").read(), 0, None
while at < len(data):
    kind, size = struct.unpack_from("<II", data, at)
    option = at + 20
    while kind == 5 and option < at + size - 4:
        code, length = struct.unpack_from("<HH", data, option)
        if code == 7:
            lost, = struct.unpack_from("<Q", data, option + 4)
        option += 4 + (length + 3) // 4 * 4
    at += size
assert lost == int(sys.argv[2]), lost
PYTHON

has "and is said when it is read" "lacks $lost packets" "$("$exos" dump -r "$work/slow.pcapng" -c 1 2>&1 >/dev/null)
$("$exos" dump -r "$work/slow.pcapng" 2>&1 >/dev/null)"

# A watcher that was killed is noticed, and its place is another's.
for _ in 1 2 3 4 5; do
    begin_dump killed "$exos" dump --pid $server
    kill -KILL "$(pgrep -P $dump)"; wait $dump 2>/dev/null
done
begin_dump after "$exos" dump --pid $server -c 1 icmp
client ping -c 1 -W 20 10.10.0.10 >/dev/null
wait $dump
same "after watchers that were killed another one sees packets" 0 $?

# Another user's program, and another user.
other=(setpriv --reuid 65533 --regid 65533 --clear-groups --inh-caps=-all --bounding-set=-all)
said=$("${other[@]}" "$work/exos" dump --pid $server -c 1 2>&1)
has "another user sees nothing of it" "process $server shows nobody its packets" "$said"
begin_dump ended "$exos" dump --pid $server
stop; same "the server stops in order" 0 $?
wait $dump; same "with the process ends who watches it" 0 $?

if launch http "${other[@]}" "$work/exos" serve "$work/site"; then
    begin_dump own "${other[@]}" "$work/exos" dump -v -c 4 tcp
    inner=$(grep -o 'http://[0-9.]*[:0-9]*' "$work/out" | head -n 1)
    nsenter -t $server -n -- curl -s -m 60 -o "$work/got" "$inner/"
    wait $dump
    has "a user sees packets of a program without privilege" "serve[$server])" "$(cat "$work/own" "$work/own.err")"
    begin_dump root "$exos" dump -v -c 4 --pid $server tcp
    nsenter -t $server -n -- curl -s -m 60 -o "$work/got" "$inner/"
    wait $dump
    has "and root sees them" "serve[$server])" "$(cat "$work/root" "$work/root.err")"
    stop
else
    echo "SKIPPED: a program without privilege: $(tail -n 1 "$work/err")"
fi
exit $((failures > 0))
