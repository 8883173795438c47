#!/usr/bin/env bash
# Files longer than memory is given for, fetched by curl from the release binary on the lab wire: whole, in parts,
# resumed, by many at once, while they change; the same on sockets. Prints "ok NAME", "not ok NAME" or "SKIPPED: ..." lines.
#
#   tests/serve/streaming.sh PATH/TO/exos [in-kernel|in-kernel-cores]
#
# With `in-kernel` the kernel answers what is short, and what needs AF_XDP is all there is.
#
# Everything happens in namespaces of its own; what is started is ended by its id. Nothing here judges how fast it is.
. "$(dirname "$0")/../common.sh"
need_root "long files over AF_XDP"
be_alone "$@"
begin
lab=streaming-$$

# start ARGUMENTS...: the server, in side a, by the command in `under` if there is one.
under=()
start() { launch http "$exos" lab exec --name $lab a -- "${under[@]}" "$exos" serve "$@" $in_kernel; }
sum() { sha256sum | cut -d' ' -f1; }
# part FROM LEN: that part of the long file.
part() { tail -c +$(($1 + 1)) "$site/long.bin" | head -c "$2" | sum; }

site=$work/site
mkdir -p "$site"
head -c 60000000 /dev/urandom >"$site/long.bin"
head -c 100 /dev/zero | tr '\0' x >"$site/small.txt"
truncate -s 20G "$site/sparse.bin" && printf 'the very end' | dd of="$site/sparse.bin" bs=1 seek=$((20 << 30)) conv=notrunc status=none
cp "$site/long.bin" "$site/packed.bin" && cp "$site/long.bin" "$site/torn.bin" && cp "$site/long.bin" "$site/moved.bin"
gzip -1 -k "$site/packed.bin"
whole=$(sum <"$site/long.bin")

# fetch WHERE URL: everything that there is to be fetched.
fetch() {
    local where=$1 url=$2 got
    same "$where: the whole file" "$whole" "$(client curl -sS -m 120 "$url/long.bin" | sum)"
    has "$where: HEAD gives the length" "Content-Length: 60000000" "$(client curl -sS -m 60 -I "$url/long.bin")"
    for range in 0-0 65535-65536 1000000-59000000 59999999-; do
        local from=${range%-*} to=${range#*-}
        same "$where: bytes $range" "$(part "$from" $((${to:-59999999} - from + 1)))" "$(client curl -sS -m 60 -r "$range" "$url/long.bin" | sum)"
    done
    has "$where: several parts" "multipart/byteranges" "$(client curl -sS -m 60 -r 0-9,30000000-30000009 -o /dev/null -D - "$url/long.bin")"
    head -c 23456789 "$site/long.bin" >"$work/got"
    client curl -sS -m 60 -C - -o "$work/got" "$url/long.bin"
    check "$where: curl resumes" cmp "$work/got" "$site/long.bin"
    same "$where: the end of 20 GiB" "the very end" "$(client curl -sS -m 60 -r -12 "$url/sparse.bin")"
    local tag=$(client curl -sS -m 60 -I "$url/long.bin" | sed -n 's/^ETag: //p' | tr -d '\r')
    same "$where: If-None-Match" 304 "$(client curl -sS -m 60 -o /dev/null -w '%{http_code}' -H "If-None-Match: $tag" "$url/long.bin")"
    same "$where: If-Range of this version" 206 "$(client curl -sS -m 60 -o /dev/null -w '%{http_code}' -H "If-Range: $tag" -r 5-6 "$url/long.bin")"
    same "$where: a packed variant" "$whole" "$(client curl -sS -m 120 --compressed "$url/packed.bin" | sum)"
    got=$(for _ in 1 2 3 4 5 6 7 8; do client curl -sS -m 200 "$url/long.bin" | sum & done; wait)
    same "$where: eight at once" "8" "$(grep -c "$whole" <<<"$got")"
    client curl -sS -m 200 --limit-rate 20M "$url/long.bin" >"$work/slow" &
    local slow=$!
    same "$where: others beside a long response" 200 "$(client curl -sS -m 60 -o /dev/null -w '%{http_code}' "$url/small.txt")"
    wait $slow
    check "$where: and that is whole" cmp "$work/slow" "$site/long.bin"
}

# begin_slow URL: fetches it, into $work/slow, of which most comes when $work/go is there; its process, whose status is curl's, is $slow.
begin_slow() {
    rm -f "$work/go" "$work/slow"
    { client curl -sS -m 200 "$1" 2>/dev/null | hold "$work/go" >"$work/slow"; } &
    slow=$!
    await [ -s "$work/slow" ]
}
# change WHERE URL: files change while they are fetched.
change() {
    local where=$1 url=$2 slow
    cp "$site/long.bin" "$work/other" && printf 'other' | dd of="$work/other" conv=notrunc status=none
    begin_slow "$url/moved.bin"
    mv "$work/other" "$site/moved.bin"
    touch "$work/go"; wait $slow
    check "$where: another file takes the name, and the response goes on" cmp "$work/slow" "$site/long.bin"
    same "$where: the next one is the other" "other" "$(client curl -sS -m 60 -r 0-4 "$url/moved.bin")"
    begin_slow "$url/torn.bin"
    printf 'torn' | dd of="$site/torn.bin" bs=1 seek=59999990 conv=notrunc status=none
    touch "$work/go"; wait $slow; local code=$?
    if [ $code = 18 ] || [ $code = 56 ]; then ok "$where: one that is written to ends the response"; else bad "$where: one that is written to ends the response" "curl: $code"; fi
    check "$where: before a byte of the other version" cmp -n "$(stat -c %s "$work/slow")" "$work/slow" "$site/long.bin"
    cp "$site/long.bin" "$site/torn.bin" && cp "$site/long.bin" "$work/other" && mv "$work/other" "$site/moved.bin"
}

lab_up || { bad "lab up"; exit 1; }
wire=$(client ip -br link | grep -v '^lo' | cut -d' ' -f1 | cut -d@ -f1)
printf '[limits]\nstream = "1MiB"\nstream_memory = "4MiB"\n[[site]]\nroot = "site"\n' >"$work/serve.toml"
if start --config "$work/serve.toml" --link "xdp:$wire" --address 10.10.0.10/24 --json --log "$work/access.log"; then
    fetch "stack" http://10.10.0.10
    change "stack" http://10.10.0.10
    await grep -q '"GET /long.bin HTTP/1.1" 200 60000000 ' "$work/access.log"
    check "the log has the length" grep -q '"GET /long.bin HTTP/1.1" 200 60000000 ' "$work/access.log"
    pid=$(pgrep -P "$server" -x exos || echo "$server")
    are_closed() { ! ls -l "/proc/$pid/fd" | grep -q "$site/.*bin"; }
    check "no descriptor is left open" await are_closed
    rss=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status")
    if [ "$rss" -lt 150000 ]; then ok "memory is bounded"; else bad "memory is bounded" "$rss kB"; fi
    stop; same "it stops in order" 0 $?
    has "and has counted" '"stream_files_changed":' "$(tail -1 "$work/out")"
    kernel_answered ""
    if grep -q 'no io_uring' "$work/err"; then echo "SKIPPED: io_uring is not to be had here: a thread has read"; fi
else
    bad "the server starts" "$(cat "$work/err")"
fi
if [ -n "$in_kernel" ]; then
    :
elif start --config "$work/serve.toml" --sockets; then
    fetch "sockets" http://10.10.0.1
    change "sockets" http://10.10.0.1
    stop; same "on sockets it stops in order" 0 $?
else
    bad "the server starts on sockets" "$(cat "$work/err")"
fi

# Many who take hardly anything, each at another place: what they hold is the memory for such files, and a control block each.
cat >"$work/slow.py" <<'END'
import socket, sys
held = []
for n in range(int(sys.argv[1])):
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.settimeout(60)
    made.connect(("10.10.0.10", 80))
    made.sendall(b"GET /long.bin HTTP/1.1\r\nHost: h\r\nRange: bytes=%d-\r\n\r\n" % (n * 250000))
    held.append(made)
begun = sum(made.recv(1000).startswith(b"HTTP/1.1 206") for made in held)
print("begun", begun, flush=True)
sys.stdin.readline()
END
resident() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$server/status"; }
metric() { client curl -sS -m 60 http://10.10.0.10/.exos/metrics | sed -n "s/^exos_serve_$1_total \([0-9]*\)$/\1/p"; }
if ! command -v python3 >/dev/null; then
    echo "SKIPPED: slow readers of long files, and reading without io_uring: python3 is not installed (apt-get install python3)"
    exit $failures
fi
readers=200 memory=16384
sed "s/^stream_memory.*/stream_memory = \"16MiB\"/" "$work/serve.toml" >"$work/slow.toml"
if start --config "$work/slow.toml" --link "xdp:$wire" --address 10.10.0.10/24 --status /.exos --status-allow 10.10.0.0/24; then
    # What a response takes by itself is taken: chunks for one client.
    same "the whole file before slow readers" "$whole" "$(client curl -sS -m 120 http://10.10.0.10/long.bin | sum)"
    before=$(resident)
    mkfifo "$work/end"
    client python3 "$work/slow.py" $readers <"$work/end" >"$work/slow.out" & slow=$!
    exec 9>"$work/end"
    await grep -q begun "$work/slow.out"
    same "slow readers of a long file all begin" "begun $readers" "$(cat "$work/slow.out")"
    same "others get the whole file beside them" "$whole" "$(client curl -sS -m 200 http://10.10.0.10/long.bin | sum)"
    more=$(($(resident) - before)) most=$((memory + 16 * readers))
    if [ $more -le $most ]; then ok "$readers slow readers take the memory for such files, and 16 KiB each at most"; else bad "$readers slow readers take the memory for such files, and 16 KiB each at most" "$more kB, and may take $most"; fi
    echo >&9; exec 9>&-; wait $slow
    sleep 1.2 # What is shown may be a second old.
    for name in chunks bytes chunks_shared files_opened; do
        if [ "$(metric "stream_$name")" -gt 0 ]; then ok "metrics have stream_$name"; else bad "metrics have stream_$name" "$(metric "stream_$name")"; fi
    done
    for name in memory_waits failures files_changed; do
        if [[ $(metric "stream_$name") =~ ^[0-9]+$ ]]; then ok "metrics have stream_$name"; else bad "metrics have stream_$name" "none"; fi
    done
    page=$(client curl -sS -m 60 http://10.10.0.10/.exos)
    has "the status page has them too" "stream_chunks" "$page"
    stop; same "it stops in order after slow readers" 0 $?
else
    bad "the server starts with status pages" "$(cat "$work/err")"
fi

# Where the kernel refuses io_uring, as seccomp filters of containers have it do: a thread reads, and all is as before.
cat >"$work/no_ring.py" <<'END'
import ctypes, os, struct, sys
# seccomp(2), classic BPF: load the number; io_uring_setup (425 everywhere): EPERM, else allow.
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
filter = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in code))
program = struct.pack("@HP", len(code), ctypes.addressof(filter))
libc = ctypes.CDLL(None, use_errno=True)
no_new_privileges, seccomp = 38, 22
if libc.prctl(no_new_privileges, 1, 0, 0, 0) or libc.prctl(seccomp, 2, program, 0, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[1], sys.argv[1:])
END
under=(python3 "$work/no_ring.py")
if start --config "$work/serve.toml" --link "xdp:$wire" --address 10.10.0.10/24; then
    has "without io_uring it is said" "no io_uring (Operation not permitted" "$(cat "$work/err")"
    has "and what reads instead" "a thread reads long files" "$(cat "$work/err")"
    fetch "thread" http://10.10.0.10
    change "thread" http://10.10.0.10
    stop; same "with a thread it stops in order" 0 $?
else
    bad "the server starts without io_uring" "$(cat "$work/err")"
fi
doctor=$("${under[@]}" "$exos" doctor lo 2>&1)
has "the doctor says that there is no io_uring" "no io_uring: Operation not permitted" "$doctor"
has "and what to do" "leave the sandbox that forbids it" "$doctor"
exit $((failures > 0))
