#!/usr/bin/env bash
# The release binary with `serve --syn-handler`, which has the kernel answer SYNs, and curl: over a veth whose other end takes
# what is answered and over one that drops it, through reloads and at its end, and where it cannot be had. Prints
# "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/daemon/handlers.sh PATH/TO/exos
#
# Everything happens in namespaces of its own; what is started is ended by its id. Nothing here judges how fast it is.
. "$(dirname "$0")/../common.sh"
need_root "SYNs answered in the kernel"
[ "$(nproc)" -ge 2 ] || skip "SYNs answered in the kernel" "there is one core"
be_alone "$@"
begin
lab=handlers-$$

# least NAME LEAST GOT
least() { if [ "${3:-0}" -ge "$2" ]; then ok "$1"; else bad "$1" "$3, which is less than $2"; fi; }
# start ARGUMENTS...: the server, in side a.
start() {
    launch_in_lab "$work/site" --link xdp:wire --address 10.10.0.10/24 --address fd10::10/64 \
        --status /.exos --status-allow 10.10.0.0/24 --json "$@"
}
# fetches COUNT [HOST]: this many, each over a connection of its own; which codes came.
fetches() { local n; for n in $(seq "$1"); do client curl -sS -m 60 -o /dev/null -w '%{http_code}\n' "http://${2:-10.10.0.10}/small.txt"; done | sort -u; }
# grows NAME COUNTER LEAST: it comes to be at least this; what is shown may be a second old.
grows() { await eval "[ \"\$(count $2)\" -ge $3 ]" && ok "$1" || bad "$1" "$2 is $(count $2), which is less than $3"; }
# count NAME: a counter, as Prometheus sees it.
count() { client curl -sS -m 60 http://10.10.0.10/.exos/metrics | sed -n "s/^exos_serve_$1_total \([0-9]*\)$/\1/p"; }
# report: has the server say how it stands; what its status page shows may be a second old, or older where it had no turn.
report() {
    local before; before=$(grep -c '^{.*}$' "$work/out")
    kill -USR1 "$server"
    await eval '[ "$(grep -c "^{.*}\$" "$work/out")" -gt '"$before"' ]'
}
# reported NAME: a counter of the last report.
reported() { grep '^{' "$work/out" | tail -n 1 | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }
# refused NAME WANTED ARGUMENTS...: it does not start, and says why.
refused() {
    local name=$1 wanted=$2 text status; shift 2
    text=$(timeout 60 "$exos" lab exec --name $lab a -- "$exos" serve "$work/site" --syn-handler "$@" 2>&1); status=$?
    if [ $status != 0 ] && [ $status != 124 ]; then has "$name" "$wanted" "$text"; else bad "$name" "status $status: $text"; fi
}

mkdir "$work/site"
echo small >"$work/site/small.txt"
head -c 6000000 /dev/urandom >"$work/site/large.bin"

lab_up --queues 2 || { bad "lab up"; exit 1; }

refused "a TAP device has no handlers" "AF_XDP only" --link tap:t0 --address 10.10.9.1/24
refused "nor sockets" "cannot be used with" --sockets
refused "nor a listener without all options" "leave --no-sack out" --link xdp:wire --address 10.10.0.10/24 --no-sack

# ---- where answers arrive: the other end has an XDP program ----

"$exos" lab exec --name $lab b -- "$exos" discard --link xdp:wire --address 10.10.0.99/24 >/dev/null 2>&1 & peer=$!
if await eval 'client ip -d link show wire | grep -q prog/xdp' && start --syn-handler --shutdown-timeout 100s; then
    same "every connection is served" 200 "$(fetches 30)"
    grows "by answers of the kernel" link_xdp_answered 30
    grows "whose cookies came back" tcp_syn_cookies_accepted 30
    client curl -sS -m 60 -o "$work/got" http://10.10.0.10/large.bin
    cmp -s "$work/got" "$work/site/large.bin" && ok "a large document is whole" || bad "a large document is whole"
    before=$(count link_xdp_answered); accepted=$(count tcp_syn_cookies_accepted)
    same "every connection over IPv6 is served" 200 "$(fetches 30 '[fd10::10]')"
    # Each look is a connection, too.
    grows "by answers of the kernel, too" link_xdp_answered $((before + 30))
    grows "whose cookies came back, too" tcp_syn_cookies_accepted $((accepted + 30))
    client curl -sS -m 60 -o "$work/got" "http://[fd10::10]/large.bin"
    cmp -s "$work/got" "$work/site/large.bin" && ok "and a large document is whole over IPv6" || bad "and a large document is whole over IPv6"
    before=$(count link_xdp_answered)
    kill -HUP "$server"; await grep -q 'read again' "$work/err"
    same "a reload changes nothing for clients" 200 "$(fetches 10)"
    grows "nor for the handler" link_xdp_answered $((before + 10))
    # It looks twice, a second apart, after the first answers.
    sleep 3
    same "it is not said that answers do not arrive" 0 "$(grep -c 'nobody came back' "$work/err")"
    { client curl -sS -m 200 http://10.10.0.10/large.bin | hold "$work/go" >"$work/slow"; } & slow=$!
    await [ -s "$work/slow" ]
    kill -TERM "$server"
    # Before it has gone for good, when nobody answers any more: the one download keeps it.
    said=
    while kill -0 "$server" 2>/dev/null && [[ $said != *refused* ]]; do
        said=$(client curl -v -m 60 -o /dev/null http://10.10.0.10/ 2>&1)
    done
    has "after a signal to end, who is new is refused" "refused" "$said"
    touch "$work/go"; wait $slow
    cmp -s "$work/slow" "$work/site/large.bin" && ok "and a response under way is whole" || bad "and a response under way is whole"
    wait "$server"; same "it ends in order" 0 $?; server=
    same "and takes its program along" "" "$(inside a -- ip -d link show wire | grep -o 'prog/xdp')"
else
    bad "it starts with --syn-handler" "$(cat "$work/err")"
fi
# Each core takes on what comes by its queues; that clients come back to either shows that answers arrive.
if start --syn-handler --cores 2; then
    same "every connection is served on two cores" 200 "$(fetches 40)"
    grows "by answers of the kernel on two cores" link_xdp_answered 40
    grows "whose cookies came back to both" tcp_syn_cookies_accepted 40
    sleep 3
    same "where it is not said either that answers do not arrive" 0 "$(grep -c 'nobody came back' "$work/err")"
    stop; same "it ends in order on two cores" 0 $?
    fewest=$(tail -n 1 "$work/out" | python3 -S -c 'import json, sys; print(min(core["responses"] for core in json.load(sys.stdin)["cores"]))')
    least "of which each has answered" 1 "$fewest"
else
    bad "it starts with --syn-handler on two cores" "$(cat "$work/err")"
fi
kill "$peer"; wait "$peer" 2>/dev/null; peer=

# ---- where they do not ----

for cores in 1 2; do
    if start --syn-handler --cores $cores; then
        # The first client waits until the handler has gone: it asks again after one second, and after two more.
        same "who is not reached is served all the same" 200 "$(fetches 1)"
        await grep -q 'nobody came back' "$work/err"
        has "it is said that answers do not arrive" "nobody came back whose SYN was answered in the kernel by wire" "$(cat "$work/err")"
        has "and what to do" "leave --syn-handler out" "$(cat "$work/err")"
        report; answered=$(reported link_xdp_answered)
        same "everybody else is served by the stack" 200 "$(fetches 10)"
        report; same "and not by the handler" "$answered" "$(reported link_xdp_answered)"
        same "it is said once" 1 "$(grep -c 'nobody came back' "$work/err")"
        stop; same "it ends in order there too" 0 $?
        least "the last report has the answers" 1 "$(reported link_xdp_answered)"
    else
        bad "it starts where answers do not arrive" "$(cat "$work/err")"
    fi
done

# ---- as a configuration file says it ----

"$exos" lab exec --name $lab b -- "$exos" discard --link xdp:wire --address 10.10.0.99/24 >/dev/null 2>&1 & peer=$!
await eval 'client ip -d link show wire | grep -q prog/xdp'
printf 'syn_handler = true\n[[site]]\nroot = "site"\n' >"$work/serve.toml"
if launch_in_lab --config "$work/serve.toml" --link xdp:wire --address 10.10.0.10/24 --json; then
    same "served as a file says it" 200 "$(fetches 5)"
    stop
    least "with answers of the kernel" 5 "$(reported link_xdp_answered)"
else
    bad "it starts as a file says it" "$(cat "$work/err")"
fi
exit $((failures > 0))
