#!/usr/bin/env bash
# The systemd units as systemd reads them, without running it: no mistakes (`systemd-analyze verify`), and no more
# exposure than is known (`systemd-analyze security`); and what their commands call (strace) is what they allow. Prints
# "ok NAME", "not ok NAME" or "SKIPPED: ..." lines.
#
#   tests/daemon/units.sh PATH/TO/exos
. "$(dirname "$0")/../common.sh"
cd "$here/../../dist"
about="units: "

if ! systemd-analyze security --help 2>/dev/null | grep -q -- --offline; then
    skip "the systemd units" "systemd-analyze of systemd 250 or newer is not installed (apt-get install systemd)"
fi
begin
for unit in *.service; do
    # The command is where this build has it, and its user one that there is.
    sed "s,/usr/bin/exos,$exos,; s,--user [a-z-]*,--user nobody," "$unit" >"$work/$unit"
done

# verify UNIT: whatever is said about it is a mistake; "Unknown key" ends with success, too.
verify() { systemd-analyze verify --man=no "$1" 2>&1 | grep -F "$(basename "$1")"; }
for unit in "$work"/*.service; do
    said=$(verify "$unit")
    if [ -z "$said" ]; then ok "$(basename "$unit") is understood"; else bad "$(basename "$unit")" "$said"; fi
    # As the unit calls it, as far as the command line goes: nothing is started by --help.
    command=$(sed -n 's/^ExecStart=//p' "$unit")
    if $command --help >"$work/said" 2>&1; then ok "$(basename "$unit") has a sound command"; else bad "$command" "$(tail -n 2 "$work/said")"; fi
done
# The users whom units name are such as a policy can name: with a line in /etc/passwd.
mkdir -p "$work/root/etc"
for unit in exos-metrics exos-serve exos-forward; do
    user=$(sed -n 's/^User=//p' $unit.service)
    if [ "$(id -u)" != 0 ] || ! command -v systemd-sysusers >/dev/null; then
        echo "SKIPPED: the user of $unit: needs root and systemd-sysusers"
    elif said=$(systemd-sysusers --root="$work/root" "$PWD/$unit.sysusers" 2>&1) && grep -q "^$user:" "$work/root/etc/passwd"; then
        ok "the user of $unit is made"
    else
        bad "the user of $unit" "$said"
    fi
done
if command -v logrotate >/dev/null; then
    sed 's/exos-serve exos-serve/nobody nogroup/' exos-serve.logrotate >"$work/logrotate"
    said=$(logrotate --debug --state "$work/state" "$work/logrotate" 2>&1 | grep '^error')
    same "the rotation of the log is understood" "" "$said"
else
    echo "SKIPPED: the rotation of the log: logrotate is not installed (apt-get install logrotate)"
fi
sed 's/^ProtectClock=/ProtectClocks=/' "$work/exos-daemon.service" >"$work/wrong.service"
if [ -n "$(verify "$work/wrong.service")" ]; then ok "a mistake is found"; else bad "a mistake is found"; fi

# exposed UNIT MAX: the exposure that is reckoned, in tenths; what is left is needed, as the unit says.
exposed() {
    local said
    if said=$(systemd-analyze security --offline=true --no-pager --threshold="$2" "$work/$1" 2>&1); then
        ok "$1 is exposed by at most $2 of 100"
    else
        bad "$1 is exposed by at most $2 of 100" "$(tail -n 1 <<<"$said")"
    fi
}
# What the programs of the units call, in namespaces of the daemon's own, lies in what the units allow.
# calls GROUP: the system calls of a group of systemd's.
calls() {
    local name
    systemd-analyze syscall-filter "$1" | sed -n 's/^    \([@a-z]\)/\1/p' | while read -r name; do
        case $name in @*) calls "$name" ;; *) echo "$name" ;; esac
    done
}
# allowed UNIT: what its SystemCallFilter lines leave, one after the other: each adds its calls or (~) takes them away.
allowed() {
    local line name
    calls @default | sort -u >"$work/set"
    sed -n 's/^SystemCallFilter=//p' "$1" | while read -r line; do
        for name in ${line#\~}; do
            case $name in @*) calls "$name" ;; *) echo "$name" ;; esac
        done | sort -u >"$work/named"
        case $line in
            \~*) comm -23 "$work/set" "$work/named" >"$work/next" ;;
            *) sort -u "$work/set" "$work/named" >"$work/next" ;;
        esac
        mv "$work/next" "$work/set"
    done
    cat "$work/set"
}
# within UNIT: what was called and the unit does not allow.
within() { allowed "$1" | comm -23 "$work/used" - | xargs; }
# trace OUT COMMAND...: counts a command's system calls; what it says is in OUT. Where $inside says so, in a namespace.
inside=
trace() {
    local out=$1
    shift
    # shellcheck disable=SC2086
    $inside strace -f -qq -c -o "$out.calls" "$@" >"$out" 2>&1 &
    tracer=$!
}
# said OUT WORDS: waits for a traced command to say something.
said() {
    for _ in $(seq 1200); do grep -q "$2" "$1" && return; sleep 0.05; done
    return 1
}
# ended OUT: stops the command that TRACER traces and leaves what it called in "used".
ended() {
    kill -TERM "$(pgrep -P "$1")"
    wait "$1" || return 1
    awk '$NF ~ /^[a-z]/ && $NF !~ /^(syscall|total)$/ { print $NF }' "$2.calls" | sort -u >"$work/used"
    [ -s "$work/used" ]
}
# scraped: runs the metrics beside the daemon, with one scrape, and stops them.
scraped() {
    local port status=1 answer
    trace "$work/metrics" "$exos" metrics --listen 127.0.0.1:0 --xokd "$work/sock"
    if said "$work/metrics" 'metrics at'; then
        port=$(sed -n 's,^metrics at http://127.0.0.1:\([0-9]*\)/.*,\1,p' "$work/metrics")
        exec 3<>"/dev/tcp/127.0.0.1/$port" && printf 'GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&3
        answer=$(timeout 60 cat <&3)
        exec 3>&-
        grep -q '^exos_up 1' <<<"$answer" && status=0
    fi
    ended "$tracer" "$work/metrics" && return $status
}
# alone NAME WORDS COMMAND...: runs a program on the wire as its unit does, with a user and capabilities, has it read its file
# again, and stops it. What it called is in NAME.used.
alone() {
    local name=$1 words=$2 status=0 caps; shift 2
    caps=$(sed -n 's/^AmbientCapabilities=//p' "$work/exos-$name.service" | sed 's/CAP_/+/g; s/ /,/g' | tr '[:upper:]' '[:lower:]')
    # In place of LimitMEMLOCK.
    caps=$caps,+ipc_lock
    trace "$work/$name" setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups --no-new-privs \
        --inh-caps="$caps" --ambient-caps="$caps" "$work/exos" "$@" --user nobody
    said "$work/$name" "$words" || status=1
    kill -HUP "$(pgrep -P "$tracer")"
    said "$work/$name" "exos $name: [0-9r]" || status=1
    ended "$tracer" "$work/$name" && mv "$work/used" "$work/$name.used" && return $status
}
# programs SPACE: the server and the forwarder.
programs() {
    local inside="ip netns exec $1" link='name = "wire"
addresses = ["10.99.0.8/24"]'
    link=${link/wire/xdp:wire}
    mkdir -p "$work/site" "$work/run"
    chmod 777 "$work/run"
    chmod 755 "$work"
    cp "$exos" "$work/exos"
    echo home >"$work/site/index.html"
    head -c 3000000 /dev/zero >"$work/site/large.bin"
    printf '%s\n' 'in_kernel = true' '[log]' "file = \"$work/run/log\"" '[status]' 'path = "/.exos"' '[link]' "$link" '[[site]]' "root = \"$work/site\"" >"$work/serve.toml"
    printf '%s\n' 'in_kernel = true' "keep = \"$work/run/flows\"" "control = \"$work/run/control\"" '[link]' "$link" '[check]' 'how = "tcp"' \
        '[[service]]' 'listen = ["10.99.0.8:80"]' 'to = ["10.99.0.9"]' >"$work/forward.toml"
    alone serve http serve --config "$work/serve.toml" && alone forward tcp: forward --config "$work/forward.toml"
}
# traced: runs the daemon on a wire of a namespace, until it has started, the metrics beside it, and stops both; then the
# programs that have units. What they called is in daemon.used, metrics.used, serve.used and forward.used.
traced() {
    local daemon space=units-$$ status=0
    ip netns add $space && ip -n $space link add wire type veth peer name far || return 1
    ip -n $space link set wire up && ip -n $space link set far up && ip netns exec $space ethtool -K far gro on
    trace "$work/daemon" "$exos" daemon --namespace $space --interface wire --address 10.99.0.7/24 \
        --user 0 --socket "$work/sock"
    daemon=$tracer
    if said "$work/daemon" listening && scraped; then mv "$work/used" "$work/metrics.used"; else status=1; fi
    ended "$daemon" "$work/daemon" && mv "$work/used" "$work/daemon.used" || status=1
    programs $space || status=1
    ip netns del $space
    grep -q stopping "$work/daemon" && return $status
}
# allows UNIT USED CALL: the unit allows what was called; without CALL, which is one of them, that would be found.
allows() {
    local said
    cp "$work/$2" "$work/used"
    said=$(within "$work/$1")
    if [ -z "$said" ]; then ok "$1 allows what is called"; else bad "not in SystemCallFilter of $1" "$said"; fi
    said=$(allowed "$work/$1" | grep -vx "$3" | comm -23 "$work/used" - | xargs)
    if [ "$said" = "$3" ]; then ok "one that $1 lacks would be found"; else bad "one that is missing would be found" "$said"; fi
}
# What the daemon allows itself once it is up lies in what its unit allows, too.
sed -n 's/^ *libc::SYS_\([a-z0-9_]*\),$/\1/p' ../crates/xokd/src/command/confinement.rs | sort -u >"$work/used"
said=$(within "$work/exos-daemon.service")
if [ -s "$work/used" ] && [ -z "$said" ]; then ok "it allows what the daemon allows itself"; else bad "not in SystemCallFilter" "$said"; fi
if [ "$(id -u)" != 0 ] || ! command -v strace >/dev/null; then
    echo "SKIPPED: system calls beside the units': needs root and strace (apt-get install strace)"
elif ! traced; then
    bad "the units' programs under strace" "$(tail -qn 2 "$work/daemon" "$work/metrics" "$work/serve" "$work/forward")"
else
    allows exos-daemon.service daemon.used seccomp
    allows exos-metrics.service metrics.used capset
    allows exos-serve.service serve.used setresuid
    allows exos-forward.service forward.used setresuid
fi

exposed exos-daemon.service 50
exposed exos-metrics.service 12
exposed exos-serve.service 25
exposed exos-forward.service 25
exit $failures
