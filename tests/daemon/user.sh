#!/usr/bin/env bash
# Programs that are started as root and go on as an ordinary user (--user): what is left of their privilege in every
# thread, and that what comes later works all the same: documents, reloads, the log, watchers, control. Prints "ok NAME",
# "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/daemon/user.sh PATH/TO/exos
#
# Everything happens in namespaces of its own; what is started is ended by its id, also when this script is interrupted.
. "$(dirname "$0")/../common.sh"
need_root "programs that give up root"
need_programs "programs that give up root" curl python3 ip:iproute2 ethtool setpriv:util-linux
server_net=user-a-$$
client_net=user-b-$$
cleanup() {
    # shellcheck disable=SC2086
    end $peer $server
    ip netns del "$server_net" 2>/dev/null
    ip netns del "$client_net" 2>/dev/null
    rm -rf "$work"
}
begin
# shellcheck disable=SC2086
# The user reads what is in it.
chmod 755 "$work"
user=nobody
uid=$(id -u $user)

wire() {
    ip netns add "$server_net" && ip netns add "$client_net" || return 1
    ip link add wire netns "$server_net" numrxqueues 2 numtxqueues 2 type veth \
        peer name wire netns "$client_net" numrxqueues 2 numtxqueues 2 || return 1
    ip -n "$server_net" link set wire up && ip -n "$client_net" link set wire up
    ip -n "$server_net" link set lo up
    ip -n "$client_net" addr add 10.0.0.2/24 dev wire
    ip -n "$client_net" addr add fd00::2/64 dev wire nodad
}
# Not a function: in the background that would be a process of its own.
inside="ip netns exec $server_net"
fetch() { ip netns exec "$client_net" curl -sS -m 60 "$@"; }
code() { fetch -o /dev/null -w '%{http_code}' "$@"; }
# given_up PID: says what of each thread is more than the user has; nothing, if all is well.
given_up() {
    python3 - "$1" "$uid" <<'P'
import glob, sys
pid, uid = sys.argv[1:]
wanted = {"Uid": [uid] * 4, "Gid": [uid] * 4, "Groups": [uid], "NoNewPrivs": ["1"]}
wanted |= {"Cap" + which: ["0" * 16] for which in ("Inh", "Prm", "Eff", "Bnd", "Amb")}
tasks = glob.glob(f"/proc/{pid}/task/*/status")
print(*[] if tasks else ["no threads"])
for task in tasks:
    found = dict(line.split(":", 1) for line in open(task) if ":" in line)
    for name, values in wanted.items():
        if found[name].split() != values:
            print(task, name, found[name].strip())
P
}
# unprivileged NAME: the server has nothing left.
unprivileged() { same "$1 has given up all" "" "$(given_up "$server")"; }
said() { grep -q "$1" "$work/err"; }
as_user() { setpriv --reuid="$uid" --regid="$uid" --clear-groups "$@"; }

mkdir "$work/site" "$work/logs" "$work/run"
chown $user "$work/logs" "$work/run"
echo '<title>home</title>' >"$work/site/index.html"
echo 'private' >"$work/site/secret.txt"
chmod 000 "$work/site/secret.txt"
head -c 3000000 /dev/urandom >"$work/site/large.bin"
chmod 644 "$work/site/index.html" "$work/site/large.bin"

# config NAME LINES...: a file of the server's.
config() {
    local file=$work/$1.toml; shift
    printf '%s\n' "$@" '[[site]]' "root = \"$work/site\"" >"$file"
}
# served NAME BASE: documents, what is forbidden, a reload, and the log.
served() {
    local name=$1 base=$2
    same "$name: a document" "<title>home</title>" "$(fetch "$base/")"
    same "$name: what its user may not read is forbidden" 403 "$(code "$base/secret.txt")"
    fetch "$base/large.bin" | cmp -s - "$work/site/large.bin" && ok "$name: a long document" || bad "$name: a long document"
    echo '<title>new</title>' >"$work/site/later.html"
    await eval '[ "$(code "'"$base"'/later.html")" = 200 ]' && ok "$name: a document that comes later" || bad "$name: a document that comes later"
    : >"$work/err"
    kill -HUP "$server"
    await said 'read again' && ok "$name: it reloads" || bad "$name: it reloads" "$(cat "$work/err")"
    same "$name: and serves on" "<title>home</title>" "$(fetch "$base/")"
    mv "$work/logs/access" "$work/logs/access.1"
    kill -USR2 "$server"
    await eval 'code "'"$base"'/" >/dev/null; [ -s "$work/logs/access" ]' && ok "$name: the log is opened again" || bad "$name: the log is opened again"
    rm -f "$work/site/later.html" "$work/logs/access.1"
}
# watched NAME BASE: who may see its packets.
watched() {
    local name=$1 base=$2 who
    for who in as_user env; do
        $who "$exos" dump --pid "$server" -c 1 -n >"$work/seen" 2>&1 &
        peer=$!
        await eval 'fetch "'"$base"'/" >/dev/null; ! kill -0 $peer' || bad "$name: dump ends ($who)"
        has "$name: its packets can be watched ($who)" " > " "$(cat "$work/seen")"
        peer=
    done
}

wire || { bad "a wire of two queues"; exit 1; }
as_user test -x "$exos" || { cp "$exos" "$work/exos"; exos=$work/exos; }

config packets "user = \"$user\"" '[log]' "file = \"$work/logs/access\"" '[link]' 'name = "xdp:wire"' 'addresses = ["10.0.0.1/24", "fd00::1/64"]' 'cores = 2'
if [ "$(nproc)" -ge 2 ] && launch http $inside "$exos" serve --config "$work/packets.toml" --json; then
    name="packets, two cores"
    unprivileged "$name"
    served "$name" http://10.0.0.1
    served "$name, IPv6" "http://[fd00::1]"
    watched "$name" http://10.0.0.1
    unprivileged "$name, later"
    kill -USR1 "$server"; await grep -q '^{' "$work/out" && ok "$name: its numbers" || bad "$name: its numbers"
    stop && ok "$name: it ends in order" || bad "$name: it ends in order" "$(cat "$work/err")"
else
    bad "packets, two cores: it starts" "$(cat "$work/err")"
fi

if launch http $inside "$exos" serve "$work/site" --sockets --log "$work/logs/access" --user $user; then
    unprivileged sockets
    ip -n "$server_net" addr add 10.0.0.3/24 dev wire
    served sockets http://10.0.0.3
    stop && ok "sockets: it ends in order" || bad "sockets: it ends in order" "$(cat "$work/err")"
else
    bad "sockets: it starts" "$(cat "$work/err")"
fi

# With the host's own address: the host has to find a client whom it does not know.
if launch http $inside "$exos" serve "$work/site" --link xdp:wire --share-address --user $user:$(id -gn $user); then
    unprivileged "the host's address"
    ip -n "$server_net" neigh flush dev wire 2>/dev/null
    ip -n "$client_net" addr add 10.0.0.77/24 dev wire
    # It does not ask for the server either, by which it would be known.
    mac=$($inside cat /sys/class/net/wire/address)
    ip -n "$client_net" neigh replace 10.0.0.3 lladdr "$mac" dev wire nud permanent
    same "the host's address: it is not known" "" "$(ip -n "$server_net" neigh show 10.0.0.77)"
    same "the host's address: a client whom the host did not know" "<title>home</title>" "$(fetch --interface 10.0.0.77 http://10.0.0.3/)"
    stop || bad "the host's address: it ends in order" "$(cat "$work/err")"
else
    bad "the host's address: it starts" "$(cat "$work/err")"
fi
ip -n "$server_net" addr del 10.0.0.3/24 dev wire 2>/dev/null

# Where the kernel answers SYNs the program is loaded before, and taken out at the end.
if launch http $inside "$exos" serve "$work/site" --link xdp:wire --address 10.0.0.1/24 --syn-handler --user $user; then
    unprivileged "SYNs in the kernel"
    same "SYNs in the kernel: a document" "<title>home</title>" "$(fetch http://10.0.0.1/)"
    stop && ok "SYNs in the kernel: it ends in order" || bad "SYNs in the kernel: it ends in order" "$(cat "$work/err")"
else
    bad "SYNs in the kernel: it starts" "$(cat "$work/err")"
fi

# A link that the daemon lends is asked for as the user, also when the daemon was away.
lend() {
    # What the one before has said is no word of this one.
    : >"$work/daemon"
    "$exos" daemon --namespace "$server_net" --interface wire --address 10.0.0.1/24 --user $user --socket "$work/sock" >"$work/daemon" 2>&1 </dev/null &
    peer=$!
    await grep -q 'listening at' "$work/daemon"
}
lend || bad "the daemon starts" "$(cat "$work/daemon")"
if launch http $inside "$exos" serve "$work/site" --port 8080 --xokd "$work/sock" --user $user; then
    unprivileged "the daemon's link"
    same "the daemon's link: a document" "<title>home</title>" "$(fetch http://10.0.0.1:8080/)"
    end "$peer"
    lend || bad "another daemon starts" "$(cat "$work/daemon")"
    await said 'the daemon is back' || bad "the daemon's link: it finds another daemon" "$(cat "$work/err")"
    same "the daemon's link: and another daemon's" "<title>home</title>" "$(fetch http://10.0.0.1:8080/)"
    stop && ok "the daemon's link: it ends in order" || bad "the daemon's link: it ends in order" "$(cat "$work/err")"
else
    bad "the daemon's link: it starts" "$(cat "$work/err")"
fi
kill -TERM "$peer"; wait "$peer"; peer=

# Root is kept by nothing from reading, and says so, once.
chmod 600 "$work/site/large.bin"
if launch http $inside "$exos" serve "$work/site" --link xdp:wire --address 10.0.0.1/24; then
    same "root serves what nobody else may read" 200 "$(code http://10.0.0.1/secret.txt)"
    same "and says so, once" 1 "$(grep -c 'nothing keeps root from reading it' "$work/err")"
    stop
else
    bad "as root: it starts" "$(cat "$work/err")"
fi
chmod 644 "$work/site/large.bin"

# What cannot work is said at the start.
refused=$($inside "$exos" serve "$work/site" --sockets --log "$work/none/access" --user $user 2>&1)
has "a log that its user cannot write" "cannot open the log" "$refused"
refused=$("$exos" serve --check --user root 2>&1)
has "root is no user to become" "name another user" "$refused"
refused=$("$exos" serve --check --user nobody-of-this-name 2>&1)
has "nor is one that is not there" 'there is no user "nobody-of-this-name"' "$refused"
refused=$(as_user "$exos" serve "$work/site" --sockets --port 8080 --user root:root 2>&1; as_user "$exos" metrics --listen 127.0.0.1:0 --user daemon 2>&1)
has "a user cannot become another" "start it as root" "$refused"
config unreadable "user = \"$user\"" 'port = 8080'
chmod 600 "$work/unreadable.toml"
launch http $inside "$exos" serve --sockets --config "$work/unreadable.toml" && await said "SIGHUP will change nothing" &&
    ok "a file that its user cannot read" || bad "a file that its user cannot read" "$(cat "$work/err")"
stop

refused=$($inside "$exos" load http://10.0.0.2/ --link xdp:wire --address 10.0.0.1/24 --find-peak 'p99<1ms' --user $user 2>&1)
has "loads that open the link again and again" "--find-peak opens the link for each of its steps" "$refused"

# The forwarder: its control socket, kept flows, a reload, its end.
cat >"$work/forward.toml" <<T
user = "$user"
control = "$work/run/control"
keep = "$work/run/flows"
[link]
name = "xdp:wire"
addresses = ["10.0.0.1/24"]
[[service]]
listen = ["10.0.0.1:80"]
to = ["10.0.0.2:8080"]
T
# Else what the kernel forwards would not arrive.
ip netns exec "$client_net" ethtool -K wire gro on >/dev/null
mkdir "$work/behind"; echo behind >"$work/behind/index.html"
ip netns exec "$client_net" "$exos" serve "$work/behind" --sockets --port 8080 >"$work/behind.out" 2>&1 </dev/null &
peer=$!
for in_kernel in "" --in-kernel; do
    name="forward $in_kernel"
    if launch tcp: $inside "$exos" forward --config "$work/forward.toml" $in_kernel; then
        unprivileged "$name"
        await eval '[ "$(fetch http://10.0.0.1/)" = behind ]' && ok "$name: it forwards" || bad "$name: it forwards" "$(cat "$work/err")"
        has "$name: control, by its user" 10.0.0.2:8080 "$(as_user "$exos" forward ctl --control "$work/run/control" status 2>&1)"
        has "$name: control, by root" 10.0.0.2:8080 "$("$exos" forward ctl --control "$work/run/control" status 2>&1)"
        sed -i 's/10.0.0.2:8080"\]/10.0.0.2:8080,3"]/' "$work/forward.toml"
        : >"$work/err"
        kill -HUP "$server"
        await said 'exos forward: ' && ! said 'goes on as before' && ok "$name: it reloads" || bad "$name: it reloads" "$(cat "$work/err")"
        same "$name: and forwards on" behind "$(fetch http://10.0.0.1/)"
        stop && ok "$name: it ends in order" || bad "$name: it ends in order" "$(cat "$work/err")"
        [ ! -e "$work/run/control" ] && ok "$name: its socket goes" || bad "$name: its socket goes"
    else
        bad "$name: it starts" "$(cat "$work/err")"
    fi
done
# The one before has no privilege any more when it gives up its place.
for in_kernel in "" --in-kernel; do
    name="forward $in_kernel, taken over"
    if launch tcp: $inside "$exos" forward --config "$work/forward.toml" $in_kernel; then
        first=$server
        await eval '[ "$(fetch http://10.0.0.1/)" = behind ]' || bad "$name: it forwards" "$(cat "$work/err")"
        launch tcp: $inside "$exos" forward --config "$work/forward.toml" $in_kernel --take-over || bad "$name: another starts" "$(cat "$work/err")"
        wait "$first"; same "$name: the one before ends in order" 0 $?
        unprivileged "$name"
        same "$name: the other forwards" behind "$(fetch http://10.0.0.1/)"
        stop && ok "$name: it ends in order" || bad "$name: it ends in order" "$(cat "$work/err")"
    else
        bad "$name: it starts" "$(cat "$work/err")"
    fi
done
if launch tcp: $inside "$exos" forward --splice --listen 127.0.0.1:80 --to 127.0.0.1:8080 --user $user; then
    unprivileged "forward --splice"
    stop && ok "forward --splice: it ends in order" || bad "forward --splice: it ends in order" "$(cat "$work/err")"
else
    bad "forward --splice: it starts" "$(cat "$work/err")"
fi
end "$peer"; peer=

# The load generator on two cores, and the metrics.
ip netns exec "$client_net" "$exos" serve "$work/behind" --sockets --port 8080 >"$work/behind.out" 2>&1 </dev/null &
peer=$!
await grep -q http "$work/behind.out"
$inside "$exos" load http://10.0.0.2:8080/ --link xdp:wire --address 10.0.0.1/24 --cores 2 --duration 300s --connections 4 --quiet --yes-i-own-this-target --user $user --html "$work/run/page.html" --json >"$work/out" 2>"$work/err" </dev/null &
server=$!
name="load, two cores"
await eval '[ -z "$(given_up '"$server"')" ]' && ok "$name has given up all" || bad "$name has given up all" "$(given_up "$server") $(cat "$work/err")"
# What comes before its connections stand is another end.
await eval '[ "$(ip netns exec "$client_net" ss -Htn state established sport = :8080 | wc -l)" -ge 4 ]'
kill -INT "$server"; wait "$server" && ok "$name: it ends in order" || bad "$name: it ends in order" "$(cat "$work/err")"
server=
has "$name: it has loaded" '"responses":' "$(tr -d ' \n' <"$work/out")"
same "$name: its page is its user's" $user "$(stat -c %U "$work/run/page.html")"
end "$peer"; peer=
if launch metrics "$exos" metrics --listen 127.0.0.1:0 --user $user; then
    unprivileged metrics
    at=$(sed -n 's/^metrics at //p' "$work/out")
    has "metrics: they are served" exos_up "$(curl -sS -m 60 "$at")"
    stop || bad "metrics: it ends in order" "$(cat "$work/err")"
else
    bad "metrics: it starts" "$(cat "$work/err")"
fi
exit $((failures > 0))
