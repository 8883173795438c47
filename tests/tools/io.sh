#!/usr/bin/env bash
# exos io and exos file-cache: results beside GNU's, byte for byte, over inputs of all kinds and every way by which bytes come; processes that are
# killed; other users. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/tools/io.sh PATH/TO/exos
. "$(dirname "$0")/../common.sh"
need_programs "tools on shared buffers" python3 grep wc cat
begin
case $(stat -f -c %T "$work") in
    ext2/ext3 | xfs | btrfs) ;;
    *) skip "tools on shared buffers" "$work is on no ext4, XFS or Btrfs, from which alone the file cache takes files" ;;
esac
export XDG_RUNTIME_DIR=$work/run LC_ALL=C
mkdir -m 700 "$work/run"
"$exos" file-cache --memory 8m >"$work/out" 2>"$work/err" </dev/null &
server=$!
answers() { "$exos" file-cache --status; }
check "a file cache starts" await answers
has "it says where it is" "file cache of 8 MiB at $work/run/exos/file-cache.sock" "$(cat "$work/err")"
same "nobody else can connect" 600 "$(stat -c %a "$work/run/exos/file-cache.sock")"
has "a second one is refused" "runs at $work/run/exos/file-cache.sock already" "$(timeout 20 "$exos" file-cache 2>&1)"
has "too little memory is refused" "8 MiB to" "$(timeout 20 "$exos" file-cache --socket "$work/other" --memory 1m 2>&1)"

timeout -k 5 900 python3 "$here/io.py" "$exos" "$work" || bad "results beside GNU's" "the comparison has ended with $?"

number() { "$exos" file-cache --status | awk -v name="$1" '$1 == name { print $2 }'; }
check "extents were there when they were asked for" test "$(number hits)" -gt 0
same "no program has broken the rules" 0 "$(number faults)"

# Of all files no more is in memory than may be.
for n in 1 2 3 4 5; do head -c 4000000 /dev/urandom >"$work/long$n"; done
sleep 0.1
for _ in 1 2; do "$exos" io cat "$work"/long? | cmp - <(cat "$work"/long?) || bad "long files" "they differ"; done
check "some have to go" test "$(number evictions)" -gt 0
check "memory is bounded" test "$(number held_bytes)" -le 8388608

# A walk with a policy of its own, through more than its share of a memory that is not full, pushes out nothing that others use.
for n in 6 7; do head -c 1500000 /dev/urandom >"$work/used$n"; done
walks=$work/run/exos/walks.sock
"$exos" file-cache --memory 8m --policy lru --socket "$walks" 2>"$work/walks" </dev/null &
walked=$!
check "a file cache for walks starts" await grep -q "file cache of 8 MiB" "$work/walks"
missed() { "$exos" file-cache --status --socket "$walks" | awk '$1 == "misses" { print $2 }'; }
sleep 0.1
"$exos" io cat --cache "$walks" "$work"/used? | cmp - <(cat "$work"/used?) || bad "used files" "they differ"
"$exos" io cat --cache "$walks" --policy lru "$work"/long? | cmp - <(cat "$work"/long?) || bad "a walk" "it differs"
before=$(missed)
check "it walked" test "$before" -ge 90
"$exos" io cat --cache "$walks" "$work"/used? >/dev/null
same "a walk with a policy of its own pushes out nothing that others use" "$before" "$(missed)"
"$exos" io cat --cache "$walks" "$work"/long? >/dev/null
"$exos" io cat --cache "$walks" "$work"/used? >/dev/null
check "one without does" test "$(missed)" -gt $((before + 90))
kill $walked; wait $walked 2>/dev/null
has "a policy that is none is refused" "there are s3-fifo, lru and gds" "$("$exos" io cat --policy mru "$work/used6" 2>&1)"
has "a name of a share that is none is told" "no name of a share" "$("$exos" io cat --verbose --share "" "$work/used6" 2>&1 >/dev/null)"

# Killed at any moment: nothing is lost for good.
alone() { [ "$(number programs)" = 1 ]; }
for n in $(seq 20); do
    { "$exos" io cat "$work"/long? | "$exos" io wc -c >/dev/null; } 2>/dev/null &
    reader=$!
    sleep "0.0$((RANDOM % 90))"
    # The one that writes or the one that reads.
    which=$((RANDOM % 2 + 1))
    victim=$(pgrep -P $reader | sed -n "${which}p")
    [ -z "$victim" ] || kill -KILL "$victim" 2>/dev/null
    wait $reader 2>/dev/null
done
check "no program is left that was killed" await alone
check "and all buffers are back" cmp <("$exos" io cat "$work"/long?) <(cat "$work"/long?)
check "which came by reference" grep -q "^read 20000000 bytes by reference, 0 by copy" <("$exos" io cat --verbose "$work"/long? 2>&1 >/dev/null)

# A file whose version changes under one that reads it, anywhere: it is read on by copy, and no byte is lost.
for n in 1 2 3 4 5 6; do
    "$exos" io cat "$work/long1" | (head -c $((n * 500000)); touch "$work/long1"; cat) | cmp - "$work/long1" || bad "a file that changes while it is read" "bytes are lost"
    sleep 0.1
done
check "readers of a file that changes have all of it" cmp <("$exos" io cat "$work/long1") "$work/long1"
check "a file that changes costs no connection" grep -q "read .* by reference" <("$exos" io cat --verbose "$work"/long? 2>&1 >/dev/null)

# More files than a program may have open at once: each is closed when it is read.
mkdir "$work/many"
for n in $(seq 200); do echo "$n" >"$work/many/$n"; done
sleep 0.1
has "any number of files come by reference" "by reference, 0 by copy" "$("$exos" io cat --verbose "$work"/many/* 2>&1 >/dev/null)"

# The service is killed under those that read.
mkfifo "$work/go"
{ "$exos" io cat "$work"/long? "$work"/long?; echo $? >"$work/status"; } | { head -c 700000; read -r _ <"$work/go"; cat; } >"$work/read" &
reader=$!
is_under_way() { [ "$(stat -c %s "$work/read")" = 700000 ]; }
check "it is under way" await is_under_way
kill -KILL $server; wait $server 2>/dev/null; server=
echo >"$work/go"
wait $reader
same "readers go on by themselves" 0 "$(cat "$work/status")"
check "and read the same" cmp "$work/read" <(cat "$work"/long? "$work"/long?)
has "nobody serves: it is said" "no file cache runs at $work/run/exos/file-cache.sock" "$("$exos" io wc --verbose "$work/long1" 2>&1)"
has "and by --status" "exos file-cache starts one" "$("$exos" file-cache --status 2>&1)"
"$exos" file-cache --policy lru >"$work/out" 2>"$work/err" </dev/null &
server=$!
check "its socket is taken over by the next" await answers

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    cp "$exos" "$work/exos"
    chmod 755 "$work" "$work/exos"
    chmod 755 "$work/run" "$work/run/exos"
    echo secret >"$work/secret"
    chmod 600 "$work/secret"
    sleep 0.1
    "$exos" io cat "$work/secret" >/dev/null
    other() { timeout 60 setpriv --reuid 54321 --regid 54321 --clear-groups "$work/exos" "$@" 2>&1; }
    said=$(other io cat --verbose --cache "$work/run/exos/file-cache.sock" "$work/secret")
    has "another user does not read what is in memory" "ermission denied" "$said"
    check "nor anything of it" [ "${said/secret$'\n'/}" = "$said" ]
    has "nor connects" "no file cache runs" "$said"

    # Somebody else's folder in the place of the user's hides nothing.
    mkdir "$work/theirs" "$work/theirs/exos"; chown -R 54322 "$work/theirs"; chmod -R a+rx "$work/theirs"
    has "somebody else's folder is not looked into" "no file cache runs" \
        "$(timeout 60 env XDG_RUNTIME_DIR="$work/theirs" "$exos" file-cache --status 2>&1)"

    # One of root's for two users: what all may read they share, and nothing else.
    kill $server; wait $server 2>/dev/null
    mkdir "$work/host"
    cp "$work/long1" "$work/host/public"
    echo mine >"$work/host/private"
    chown -R 54321 "$work/host"
    chmod 755 "$work/host"; chmod 644 "$work/host/public"; chmod 600 "$work/host/private"
    socket=$work/run/exos/host.sock
    has "an unknown user is refused" "there is no user" "$("$exos" file-cache --users nobody-is-so 2>&1)"
    apart=
    if unshare -m true 2>/dev/null; then
        # Mounts that are tried come and go in a namespace of the service's.
        apart="unshare -m"
        has "one in a user namespace, whose root cannot lease files of others, is refused" "as the host's root" \
            "$(timeout 20 unshare -U --map-root-user "$exos" file-cache --users 0 --socket "$work/run/exos/in.sock" 2>&1)"
    fi
    $apart "$exos" file-cache --memory 8m --users 54321,54322=3m --socket "$socket" >"$work/out" 2>"$work/err" </dev/null &
    server=$!
    check "a file cache of several users starts" await grep -q "file cache of 8 MiB" "$work/err"
    same "it keeps CAP_LEASE alone" 0000000010000000 "$(awk '$1 == "CapEff:" { print $2 }' /proc/$server/status)"
    same "it is nobody" "65534 65534" "$(awk '$1 == "Uid:" || $1 == "Gid:" { printf "%s%s", separator, $3; separator = " " }' /proc/$server/status)"
    has "root asks how it is used" "memory_bytes     8388608" "$("$exos" file-cache --status --socket "$socket")"
    sleep 0.1
    "$exos" file-cache --memory 8m --users 54321 --user 54329:54329 --socket "$work/run/exos/own.sock" >/dev/null 2>"$work/own" </dev/null &
    own=$!
    check "one of a user of its own starts" await grep -q "file cache of 8 MiB" "$work/own"
    same "it is that user" "54329 54329" "$(awk '$1 == "Uid:" || $1 == "Gid:" { printf "%s%s", separator, $3; separator = " " }' /proc/$own/status)"
    kill $own; wait $own 2>/dev/null
    mkdir "$work/few"; chown 54321 "$work/few"
    few=(setpriv --reuid 54321 --regid 54321 --clear-groups "$work/exos" file-cache --memory 8m --socket "$work/few/sock")
    (ulimit -n 1024; exec "${few[@]}" 2>"$work/few/err" </dev/null) &
    few_server=$!
    check "one that may have few descriptors starts" await grep -q "file cache of 8 MiB" "$work/few/err"
    has "and serves" "read 4000000 bytes by reference" "$(other io wc --verbose --cache "$work/few/sock" "$work/host/public")"
    kill $few_server; wait $few_server 2>/dev/null
    has "one that may have hardly any says what it takes" "ulimit -Hn" "$(ulimit -n 256; timeout 20 "${few[@]}" 2>&1)"
    has "one that may have hardly any says what it takes" "ulimit -Hn" "$(ulimit -n 256; timeout 20 "${few[@]}" 2>&1)"
    has "only root serves several users" "run it as the host's root" "$(other file-cache --users 54321 --socket "$work/other.sock")"
    by() { local uid=$1; shift; timeout 60 setpriv --reuid "$uid" --regid "$uid" --clear-groups "$work/exos" "$@" 2>&1; }
    for uid in 54321 54322; do
        has "user $uid reads what all may read by reference" "read 4000000 bytes by reference, 0 by copy" \
            "$(by $uid io wc --verbose --cache "$socket" "$work/host/public")"
    done
    python3 "$(dirname "$0")/lingers.py" "$socket" >"$work/lingers" &
    lingers=$!
    check "sockets that linger are handed over" await grep -q "handed over" "$work/lingers"
    has "and hold nobody up" "read 4000000 bytes by reference" "$(by 54321 io wc --verbose --cache "$socket" "$work/host/public")"
    kill $lingers; wait $lingers 2>/dev/null
    mkdir -m 755 "$work/unanswered"
    if [ -e /dev/fuse ] && unshare -m true 2>/dev/null; then
        unshare -m python3 "$(dirname "$0")/unanswered.py" "$socket" "$work/unanswered" 54321 >"$work/flushes" &
        unanswered=$!
        check "files whose closing is not answered are handed over, each of several" await grep -q "to be closed: 4" "$work/flushes"
        has "and hold nobody up" "read 4000000 bytes by reference" "$(by 54322 io wc --verbose --cache "$socket" "$work/host/public")"
        has "nor the user's other programs" "read 4000000 bytes by reference" "$(by 54321 io wc --verbose --cache "$socket" "$work/host/public")"
        kill $unanswered; wait $unanswered 2>/dev/null
        ends_closing() { ! grep -qx ending /proc/$server/task/*/comm; }
        check "they are closed when their program has ended" await ends_closing
        # A mount point of any name, that comes while the cache runs.
        nsenter -t $server -m mkdir "$work/"$'mount\xff'
        nsenter -t $server -m mount -t tmpfs none "$work/"$'mount\xff'
        has "a mount point whose name is no UTF-8 changes nothing" "read 4000000 bytes by reference" \
            "$(by 54322 io wc --verbose --cache "$socket" "$work/host/public")"
        nsenter -t $server -m umount "$work/"$'mount\xff'
        rmdir "$work/"$'mount\xff'
    else
        echo "SKIPPED: files whose closing is not answered: needs /dev/fuse and namespaces of mounts"
    fi
    has "a third is not served" "or does not serve this user" "$(by 54323 file-cache --status --socket "$socket")"
    has "what one user may read is read by copy" "not every user may read it" \
        "$(by 54321 io wc --verbose --cache "$socket" "$work/host/private")"
    has "and by the other not at all" "ermission denied" "$(by 54322 io cat --cache "$socket" "$work/host/private")"
    status=$(by 54322 file-cache --status --socket "$socket")
    same "a user has its share" "share_bytes      2097152" "$(grep '^share_bytes' <<<"$status")"
    same "the file was read once" "read_bytes       4000000" "$(grep '^read_bytes' <<<"$status")"
else
    skip "another user" "needs root and setpriv (apt-get install util-linux)"
fi

exit $((failures > 0))
