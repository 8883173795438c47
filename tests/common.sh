# What the tests with real clients have in common; to be sourced, with the release binary in $1. Each prints "ok NAME",
# "not ok NAME: why" and "SKIPPED: ..." lines. A script says first what it needs (`need_root`, `need_programs`), then
# calls `begin`: from there on $work is a folder of its own, and at the end, also when it is interrupted, `cleanup` ends
# $server and $peer by their ids and takes the lab called $lab down. What else a script starts, it ends in a `cleanup`
# of its own.
set -uo pipefail
exos=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
failures=0
# Programs of the tests find what they have in common, and leave nothing beside them.
PYTHONPATH=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
export PYTHONPATH PYTHONDONTWRITEBYTECODE=1
lab=
server=
peer=

# skip WHAT WHY: nothing of this can be tested here.
skip() { echo "SKIPPED: $1: $2"; exit 0; }
need_root() { [ "$(id -u)" = 0 ] || skip "$1" "needs root"; }
# need_programs WHAT PROGRAM[:PACKAGE]...
need_programs() {
    local what=$1 program; shift
    for program; do
        command -v "${program%%:*}" >/dev/null || skip "$what" "${program%%:*} is not installed (apt-get install ${program##*:})"
    done
}
# need_aioquic WHAT: $PYTHON is an interpreter that has aioquic. Debian has no package of it: where none has it, one is made, if the package index
# can be reached: for all scripts of a run of ./test in the folder that it names, EXOS_TEST_AIOQUIC, or for this script alone, which goes with
# `forget_aioquic`. To be called before be_alone.
need_aioquic() {
    local python=${PYTHON:-python3} folder=${EXOS_TEST_AIOQUIC:-}
    if ! has_aioquic "$python"; then
        [ -z "${EXOS_TEST_PYTHON:-}" ] || skip "$1" "$python has no aioquic"
        [ -n "$folder" ] || { EXOS_TEST_PYTHON=$(mktemp -d); export EXOS_TEST_PYTHON; folder=$EXOS_TEST_PYTHON/python; }
        python=$folder/bin/python
        # The first that needs it makes it. Where it cannot, the next tries again.
        if ! (flock 4; has_aioquic "$python" || make_aioquic "$folder") 4>>"$folder.lock"; then
            forget_aioquic
            skip "$1" "aioquic cannot be installed (python3 -m pip install aioquic)"
        fi
    fi
    export PYTHON=$python
}
has_aioquic() { "$1" -c 'import aioquic' 2>/dev/null; }
make_aioquic() {
    { rm -rf "$1" && python3 -m venv "$1" && timeout 120 "$1/bin/python" -m pip install -q aioquic; } >/dev/null 2>&1
}
forget_aioquic() { [ -z "${EXOS_TEST_PYTHON:-}" ] || rm -rf "$EXOS_TEST_PYTHON"; }
# be_alone "$@": from here on, for root, in a network namespace of its own: what other runs make at the same time, or
# have left, is not there.
be_alone() {
    if [ "$(id -u)" = 0 ] && [ -z "${EXOS_TEST_ALONE:-}" ]; then
        EXOS_TEST_ALONE=yes exec unshare --net -- "$0" "$@"
    fi
    [ -z "${EXOS_TEST_ALONE:-}" ] || ip link set lo up
}
begin() {
    work=$(mktemp -d)
    # A process that is to become a program has these until then, and a signal to it must not clean up for all.
    trap '[ "$BASHPID" != $$ ] || cleanup' EXIT
    trap 'exit 130' INT TERM
}
# is_ours PID: this script started it and has not waited for it. The number of one that it has waited for may be another script's process
# by now: there are 32,768 of them, and a run of all tests starts more.
is_ours() {
    local stat
    read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
    # Behind the name, which may have anything in it, come the state and the parent.
    stat=${stat##*) }
    [[ $stat == ?" $$ "* ]]
}
# end PID...: without asking.
end() { local pid; for pid; do is_ours "$pid" && kill -KILL "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; done; }
cleanup() {
    # shellcheck disable=SC2086
    end $peer $server
    [ -z "$lab" ] || "$exos" lab down --name "$lab" >/dev/null 2>&1
    rm -rf "$work"
}

# What stands before each name.
about=
ok() { echo "ok $about$1"; }
bad() { echo "not ok $about$1: ${2:-}"; failures=$((failures + 1)); }
# check NAME COMMAND...: the command succeeds.
check() { local name=$1; shift; if "$@" >"$work/said" 2>&1; then ok "$name"; else bad "$name" "$(tail -n 3 "$work/said")"; fi; }
# same NAME WANTED GOT
same() { if [ "$2" = "$3" ]; then ok "$1"; else bad "$1" "wanted '$2', got '$3'"; fi; }
# has NAME WANTED TEXT
has() { if [[ $3 == *"$2"* ]]; then ok "$1"; else bad "$1" "no '$2' in: $3"; fi; }
# judged NAME COMMAND...: a program that prints such lines itself; what stands before each name is put before its names, too. NAME is that it comes
# to its end, of which its last line tells: "end".
judged() {
    local name=$1 line has_ended=no; shift
    while read -r line; do
        case $line in
            "ok "*) ok "${line#ok }" ;;
            end) has_ended=yes ;;
            *) bad "${line#not ok }" ;;
        esac
    done < <("$@" 2>&1)
    same "$name" yes $has_ended
}
# await COMMAND...: until it succeeds, for a minute ($await_secs seconds) at most. What takes longer is asked less often, for asking takes time from it.
await() {
    local limit=$((SECONDS + ${await_secs:-60})) pause=0.05
    until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $limit ] || return 1; sleep $pause; pause=0.2; done
}

# hold FILE: passes its input on, of which the first 100,000 bytes at once and the rest when there is such a file: who sends it has not sent it
# all before that, if it is longer than what is kept on the way.
hold() { head -c 100000; until [ -e "$1" ] || [ ! -e "$work" ]; do sleep 0.05; done; cat; }

# What is said as a mode: the web server has the kernel answer what it can, also on two cores. A veth's other end has to hear that.
in_kernel=
queues=1
case "${2:-}" in
    in-kernel | daemon-in-kernel) in_kernel=--in-kernel ;;
    in-kernel-cores) in_kernel="--in-kernel --cores 2" queues=2 ;;
esac

lab_up() {
    [ $queues = 1 ] || set -- --queues $queues "$@"
    "$exos" lab up --name "$lab" --wire plain "$@" >/dev/null || return
    [ -z "$in_kernel" ] || client ethtool -K wire gro on
}
# inside SIDE -- COMMAND...: `lab exec` becomes what it runs, so that in the background its process is the command's; this
# function, in its place there, would be another.
inside() { "$exos" lab exec --name "$lab" "$@"; }
client() { inside b -- "$@"; }
# launch WORDS COMMAND...: starts a server, whose process is $server, and waits until a line of what it says, which is in
# $work/out and $work/err, begins with these words; fails when none does, or it ends.
launch() {
    local words=$1; shift
    : >"$work/out"
    "$@" >"$work/out" 2>"$work/err" </dev/null &
    server=$!
    for _ in $(seq 1200); do
        grep -q "^$words" "$work/out" && return 0
        kill -0 "$server" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}
# launch_in_lab ARGUMENTS...: our web server, in side a.
# shellcheck disable=SC2086
launch_in_lab() { launch http "$exos" lab exec --name "$lab" a -- "$exos" serve "$@" $in_kernel; }
# stop: asks the server to end; fails as it does.
stop() { kill -TERM "$server" 2>/dev/null; wait "$server"; local status=$?; server=; return $status; }
# kernel_answered BEFORE: of a server that was started with --json and has ended, in that mode. BEFORE begins what is said.
kernel_answered() { [ -z "$in_kernel" ] || check "$1the kernel has answered requests" grep -q '"link_xdp_answered":[1-9]' "$work/out"; }
