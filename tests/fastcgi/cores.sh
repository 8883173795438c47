#!/usr/bin/env bash
# A FastCGI application behind a server on two cores, which have one limit of what it has at once: everybody is answered by either, and
# requests of one core go on when some of the other end. Prints "ok NAME", "not ok NAME: why" and "SKIPPED: ..." lines.
#
#   tests/fastcgi/cores.sh PATH/TO/exos
#
# Everything happens in namespaces of its own; what is started is ended by its id. Nothing here judges how fast it is, nor how many requests
# the application has: that limit doubles while nothing is answered, so the unit tests of `applications/pool` show that it is one.
. "$(dirname "$0")/../common.sh"
need_root "FastCGI on two cores"
need_programs "FastCGI on two cores" python3 curl
[ "$(nproc)" -ge 2 ] || skip "FastCGI on two cores" "there is one"
be_alone "$@"
begin
lab=fastcgi-cores-$$ queues=2
application=
cleanup() {
    # shellcheck disable=SC2086
    end $server $application
    "$exos" lab down --name "$lab" >/dev/null 2>&1
    rm -rf "$work"
}
mkdir "$work/site" && chmod 755 "$work"
printf '[[site]]\nroot = "site"\n[[site.fastcgi]]\npath = "/app/*"\nto = "%s"\nconnections = 200\n' "$work/app.sock" >"$work/serve.toml"
lab_up || { bad "lab up"; exit 1; }
"$exos" lab exec --name "$lab" a -- python3 "$here/application.py" "$work/app.sock" "$work/app.log" >>"$work/beside" 2>&1 </dev/null & application=$!
await test -S "$work/app.sock"
if launch_in_lab --config "$work/serve.toml" --link xdp:wire --address 10.10.0.10/24 --cores 2 --json; then
    for what in x sleep=0.2; do
        # 80 at a time, of which a client of another host has a quarter of all connections.
        codes=$(client curl -sS -m 60 -Z --parallel-max 80 -o /dev/null -w '%{http_code}\n' "http://10.10.0.10/app/p?$what&[1-600]" 2>"$work/curl" | sort | uniq -c | tr -s ' ')
        same "600 requests for ?$what are answered" " 600 200" "$codes"
    done
    stop; same "it stops in order" 0 $?
    last=$(tail -1 "$work/out")
    if [[ $last =~ '"fastcgi_waits":'[1-9] ]]; then ok "requests waited"; else bad "requests waited" "$last"; fi
    answered=$(grep -o '"responses":[0-9]*' <<<"$last")
    if [[ $answered =~ ^[^:]*:[1-9][0-9]*[^:]*:[1-9] ]]; then ok "either core has answered"; else bad "either core has answered" "$answered"; fi
else
    bad "the server starts" "$(cat "$work/err")"
fi
exit $failures
