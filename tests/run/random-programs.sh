#!/usr/bin/env bash
# exos run: drawn programs of socket calls (random-programs.py) with threads, forks, exec, passed descriptors, stopped and killed processes,
# against an echo server on Linux's stack: every byte is accounted for. Signals in calls that wait, and more of all than shared memory has
# room for. And drawn servers (random-servers.py), on the kernel's sockets and on ours: the answers are the same. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/run/random-programs.sh PATH/TO/exos [--intercept]
#
# Eight programs, always the same; EXOS_SEEDS=10 for ten times as many, EXOS_SEED=303 to begin with that one.
. "$(dirname "$0")/../common.sh"
need_root "drawn programs over AF_XDP"
need_programs "drawn programs" python3
begin
lab=random-$$
way=${2:-}
first=${EXOS_SEED:-1}
lab_up || { bad "lab up"; exit 1; }
"$exos" lab exec --name $lab b -- python3 "$here/random-programs.py" echo >"$work/peer" 2>&1 &
peer=$!
await grep -q listening "$work/peer"
# play ARGUMENTS...: for five minutes at most; what a program does in a second takes a busy machine more.
# shellcheck disable=SC2086
play() {
    timeout -k 1 300 "$exos" lab exec --name $lab a -- "$exos" run $way --link xdp:wire --address 10.10.0.10/24 -- \
        python3 "$here/random-programs.py" "$@"
}
for ((seed = first; seed < first + 8 * ${EXOS_SEEDS:-1}; seed++)); do
    check "seed $seed" play play 10.10.0.2 "$seed"
done
# Servers' programs, whose every answer is the kernel's; by intercepted calls some are others (docs/run.md).
servers() {
    local seed of_kernel ours kernels
    "$exos" lab exec --name $lab b -- python3 "$here/random-servers.py" peer "$work/control" >"$work/clients" 2>&1 &
    peer+=" $!"
    await test -S "$work/control"
    kernels=$(timeout -k 1 60 "$exos" lab exec --name $lab a -- ip -4 -o address show | grep -o '10\.10\.0\.[0-9]*' | head -n 1),fd10::1
    for ((seed = first; seed < first + 4 * ${EXOS_SEEDS:-1}; seed++)); do
        of_kernel=$(timeout -k 1 300 "$exos" lab exec --name $lab a -- python3 "$here/random-servers.py" program "$work/control" "$kernels" "$seed" 2>&1)
        ours=$(timeout -k 1 300 "$exos" lab exec --name $lab a -- "$exos" run $way --link xdp:wire --address 10.10.0.10/24 --address fd10::10/64 -- \
            python3 "$here/random-servers.py" program "$work/control" 10.10.0.10,fd10::10 "$seed" 2>&1)
        has "servers, seed $seed: all steps were taken" "at the end: " "$of_kernel"
        if [ "$of_kernel" = "$ours" ]; then ok "servers, seed $seed: each answer is the kernel's"; else
            bad "servers, seed $seed: each answer is the kernel's" "$(diff <(echo "$of_kernel") <(echo "$ours") | head -n 8)"
        fi
    done
}
[ "$way" ] || servers
check "a fork with 1,000 connections loses none" play forks 10.10.0.2
# By intercepted calls accept knows no time limit.
[ "$way" ] && known='accept.*limit=20' || known=none
of_kernel=$(timeout -k 1 300 "$exos" lab exec --name $lab a -- python3 "$here/random-programs.py" signals 10.10.0.2 | grep -v "$known")
has "signals: all calls were tried" "epoll_wait restarts=True limit=20: EINTR" "$of_kernel"
same "signals: calls that wait answer as the kernel's" "$of_kernel" "$(play signals 10.10.0.2 | grep -v "$known")"
check "600 epoll sets, and 300 threads that poll" play sets 10.10.0.2
check "1,100 children at once" play children 10.10.0.2
exit $((failures > 0))
