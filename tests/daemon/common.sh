# What the tests of the daemon with real clients have in common; to be sourced, with the lab's name in $lab and the
# release binary in $1. The daemon runs in one side of a lab of its own; programs run outside, as user 65534, and have
# nothing but the daemon's socket. What is started is ended by its id, also when the script is interrupted.
name=$lab
. "$(dirname "$0")/../common.sh"
lab=$name
about="${lab%-*}: "
daemon=
programs=()
need_root "the daemon with real clients"
cleanup() {
    # shellcheck disable=SC2086
    end "${programs[@]}" $daemon
    "$exos" daemon --namespace exos-$lab-a --clean >/dev/null 2>&1
    "$exos" lab down --name $lab >/dev/null 2>&1
    rm -rf "$work"
}
begin

# is_quick LIMIT MILLISECONDS USUAL: no more than the limit beyond what starting a program takes here, three times.
is_quick() { [ "$2" -lt $(($1 + 3 * $3)) ]; }
# quick NAME LIMIT MILLISECONDS USUAL
quick() { if is_quick "$2" "$3" "$4"; then ok "$1"; else bad "$1" "$3 ms, where starting a program takes $4"; fi; }

# Programs and the daemon must find what they need as another user.
chmod 755 "$work"
cp "$exos" "$work/exos"; chmod 755 "$work/exos"
socket=$work/xokd.sock
user=65534
as_nobody=(setpriv --reuid $user --regid $user --clear-groups --inh-caps=-all --bounding-set=-all)
# What root has in the systemd unit.
unit=$here/../../dist/exos-daemon.service
unit_caps=$(sed -n 's/^CapabilityBoundingSet=//p' "$unit" | tr 'A-Z ' 'a-z,' | sed 's/cap_/+/g')
as_unit=(setpriv --bounding-set="-all,$unit_caps" --inh-caps=-all --no-new-privs)
nobody() { "${as_nobody[@]}" "$@"; }

# allow LINES...: the policy that the user may claim on the lab's wire, with these lines for it.
allow() {
    cat >"$work/xokd.toml" <<POLICY
[[interface]]
name = "wire"
addresses = ["10.10.0.10/24", "fd10::10/64"]

[[allow]]
user = "$user"
$(printf '%s\n' "$@")
POLICY
}
# start_daemon: run it in side a, and wait until it listens.
start_daemon() {
    : >"$work/daemon.out"
    # Not by "ip netns exec", which mounts a /sys of its own: what is pinned there would end with the daemon.
    "${as_unit[@]}" "$work/exos" daemon --namespace exos-$lab-a --policy "$work/xokd.toml" --socket "$socket" >"$work/daemon.out" 2>&1 &
    daemon=$!
    await grep -q 'listening at' "$work/daemon.out"
}
# start NAME ARGUMENTS...: start a program of the user, and wait until it says where it is. Its process is $started; the
# longest that any has taken is $slowest, in milliseconds.
slowest=0
start() {
    local name=$1 began; shift
    began=$(date +%s%N)
    : >"$work/$name.out"
    # Not by a function, so that the process is the program's.
    "${as_nobody[@]}" "$work/exos" "$@" --xokd "$socket" >"$work/$name.out" 2>"$work/$name.err" &
    started=$!
    programs+=("$started")
    for _ in $(seq 1200); do
        if [ -s "$work/$name.out" ]; then
            local took=$((($(date +%s%N) - began) / 1000000))
            if [ $took -gt $slowest ]; then slowest=$took; fi
            return 0
        fi
        kill -0 "$started" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}
# report: what the daemon says to the user, made after this was called, in $work/top: one is lent for a while, the longer the longer it took to make.
report() {
    local called made
    read -r called _ </proc/uptime
    # In hundredths of a second, which are cut off.
    called=$((${called/./} + 1))
    for _ in $(seq 100); do
        # It waits a second for an answer.
        nobody "$work/exos" top --xokd "$socket" --json -d 0.1 >"$work/top" 2>&1 || continue
        made=$(grep -o '"time_ns": *[0-9]*' "$work/top" | head -n 1)
        [ $((${made##*[!0-9]} / 10000000)) -lt $called ] || return 0
    done
    return 1
}
# fetch URL ARGUMENTS...: what a client gets.
fetch() { client curl -sS -m 60 "$@"; }
