#!/usr/bin/env bash
# exos run over a wire that loses, reorders, duplicates and corrupts frames: drawn programs (random-programs.py), and programs at their
# jobs against Linux's stack, every byte. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/run/bad-wire.sh PATH/TO/exos [--intercept]
#
# What the wire does comes of one seed, always the same; EXOS_WIRE_SEED=7 for another. Three programs are drawn; EXOS_SEEDS=10 for ten
# times as many, EXOS_SEED=303 to begin with that one.
. "$(dirname "$0")/common.sh"
seed=${EXOS_WIRE_SEED:-1}
about="wire seed $seed: "
begin_runs bad-wire --delay 1ms --jitter 500us --loss 1% --burst-loss 0.3%:3 --reorder 1%:2ms --duplicate 1% --corrupt 0.2% --seed "$seed"

"$exos" lab exec --name $lab b -- python3 "$here/random-programs.py" echo >"$work/echo" 2>&1 & peer=$!
await grep -q listening "$work/echo"
first=${EXOS_SEED:-1}
for ((drawn = first; drawn < first + 3 * ${EXOS_SEEDS:-1}; drawn++)); do
    check "drawn program $drawn" run -- python3 "$here/random-programs.py" play 10.10.0.2 "$drawn"
done

beside 8000 python3 -m http.server 8000 --directory "$work/docs"
for n in 1 2 3; do
    rm -f "$work/got"
    run -- curl -so "$work/got" http://10.10.0.2:8000/noise
    check "curl: every byte, time $n" cmp "$work/got" "$work/docs/noise"
done
end_beside

printf '%s\n' 'daemon off; worker_processes 2; user root;' "pid $work/pid; error_log $work/log; events { worker_connections 256; }" \
    "http { access_log off; sendfile on; client_body_temp_path $work/body; server { listen 8080; root $work/docs; } }" >"$work/conf"
if served nginx 8080 nginx -c "$work/conf"; then
    for n in 1 2 3; do check "nginx: every byte, time $n" got "http://$ip:8080/noise"; done
    optional ab:apache2-utils && has "ab: 20 connections at once" "Failed requests:        0" "$(peer_of ab -qn 400 -c 20 http://$ip:8080/small 2>&1)"
    stood nginx
    stop_server; same "nginx: it is asked to end" 0 $?
fi
if optional redis-server:redis-server && served redis 6379 redis-server --port 6379 --protected-mode no --dir "$work" --save ''; then
    peer_of redis-cli -h $ip -x set noise <"$work/docs/noise" >/dev/null
    peer_of redis-cli -h $ip get noise | head -c 3000000 >"$work/got"
    check "redis: every byte of a large value" cmp "$work/got" "$work/docs/noise"
    stop_server; same "redis: it is asked to end" 0 $?
fi
exit $((failures > 0))
