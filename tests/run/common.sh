# What the tests of unmodified programs have in common; to be sourced, with the way in $2. Programs run by `exos run` in side a of a
# lab, where their stack is at $ip and fd10::10; their peers are on Linux's stack in side b. In $work/docs are files for them.
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
need_root "unmodified programs over AF_XDP"
need_programs "unmodified programs" python3 curl nginx:nginx-light
way=${2:-}
ip=10.10.0.10
# Servers are asked to end, for they have workers, and programs have a supervisor.
cleanup() {
    for pid in $server $peer; do is_ours "$pid" && kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; done
    "$exos" lab down --name $lab >/dev/null 2>&1
    rm -rf "$work"
}
# begin_runs NAME [OPTION...]: makes the lab, with these options, and the files.
begin_runs() {
    begin
    lab=$1-$$
    shift
    chmod 755 "$work"
    # For five minutes at most; asked to end, it delivers what was written for five seconds more.
    running=(timeout -k 10 300 "$exos" lab exec --name $lab a -- "$exos" run $way --link xdp:wire --address $ip/24 --address fd10::10/64)
    lab_up "$@" || { bad "lab up"; exit 1; }
    mkdir "$work/docs"
    head -c 3000000 /dev/urandom >"$work/docs/noise"
    echo hello >"$work/docs/small"
}
run() { "${running[@]}" "$@"; }
# Nothing of an earlier check is taken for this one's.
got() { rm -f "$work/got"; peer_of curl -so "$work/got" "$1"; cmp "$work/got" "$work/docs/noise"; }
# This host, on Linux's stack.
beside_of() { timeout -k 1 300 "$exos" lab exec --name $lab a -- "$@"; }
peer_of() { timeout -k 1 300 "$exos" lab exec --name $lab b -- "$@"; }
# takes ADDRESS PORT: a connection, of a client on Linux's stack in side b.
takes() { timeout -k 1 10 "$exos" lab exec --name $lab b -- bash -c ': <>"/dev/tcp/$0/$1"' "$1" "$2"; }
# serve PORT PROGRAM...: in side a, until it takes connections.
serve() {
    local port=$1; shift
    "${running[@]}" -- "$@" >"$work/server" 2>&1 </dev/null &
    server=$!
    await takes "$ip" "$port"
}
# served NAME PORT PROGRAM...: in side a, or it is told why not.
served() {
    local name=$1; shift
    serve "$@" || { bad "$name: it serves" "$(tail -n 3 "$work/server")"; kill $server 2>/dev/null; wait $server; server=; return 1; }
}
# beside PORT PROGRAM...: on Linux's stack in side b, until it takes connections; its process is $beside.
beside() {
    local port=$1; shift
    "$exos" lab exec --name $lab b -- "$@" >"$work/beside" 2>&1 </dev/null &
    beside=$!
    peer+=" $beside"
    await takes 10.10.0.2 "$port"
}
end_beside() { kill $beside 2>/dev/null; wait $beside; peer=${peer% "$beside"}; }
# Asks the supervisor to end, which asks the program.
stop_server() { kill $server; wait $server; local status=$?; server=; return $status; }
# stood NAME: the server's sockets were of the way that it was to go, and none of the other.
stood() {
    local of=shared other=intercepted counters
    [ ! "$way" ] || { of=intercepted other=shared; }
    kill -USR1 "$(pgrep -P $server)"
    has_reported() { [ "$(grep -cE '^[[:space:]]*(sockets_(shared|intercepted)|bytes_(from|to)_program)[[:space:]]' "$work/server")" = 4 ]; }
    await has_reported
    counters=$(awk '$1 ~ /^(sockets_(shared|intercepted)|bytes_.*)$/ { print $1 ($2 > 0 ? " some" : " none") }' "$work/server" | sort | tr '\n' ' ')
    same "$1: all its sockets were $of ones" "$(printf '%s\n' 'bytes_from_program some' 'bytes_to_program some' "sockets_$of some" \
        "sockets_$other none" | sort | tr '\n' ' ')" "$counters"
}
# optional PROGRAM:PACKAGE: whether it is there.
optional() { command -v "${1%%:*}" >/dev/null || { echo "SKIPPED: exos run ${1%%:*}: not installed (apt-get install ${1##*:})"; return 1; }; }
