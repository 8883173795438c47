#!/usr/bin/env bash
# exos run: unmodified programs whose connections are ours, in side a of a lab; their peers are on Linux's stack in side b. Each does
# its usual job, the way that is chosen for it or by intercepted calls. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/run/run.sh PATH/TO/exos [--intercept]
. "$(dirname "$0")/common.sh"
need_programs "unmodified programs on one processor" taskset:util-linux

# check_of PROGRAM: what --check says of it, with its status.
check_of() { "$exos" run --check "$1" 2>&1; echo "status $?"; }
# The ways of programs, by their files, and of those that they start. Each client says what stands for its connection.
ways() {
    local said
    has "--check: shared sockets" "shared sockets" "$(check_of curl)"
    has "--check: the status of shared sockets" "status 0" "$(check_of curl)"
    has "--check: what is not there" "status 127" "$(check_of no-such-program)"
    has "--check: what cannot be executed" "status 126" "$(check_of "$here/../common.py")"
    cp "$(command -v curl)" "$work/curl"; chmod 4755 "$work/curl"
    has "--check: set-user-ID" "set-user-ID" "$(check_of "$work/curl")"
    run --preload -- "$work/curl" -s $at/small 2>"$work/err"; same "--preload: of one that cannot share" 1 $?
    has "--preload: and why" "cannot share its sockets: it is set-user-ID" "$(cat "$work/err")"
    has "--check: UDP of what goes by intercepted calls" "UDP: stays the kernel's" "$(check_of "$work/curl")"
    lacks_udp() { ! check_of curl | grep -q UDP; }
    check "--check: and not of shared sockets" lacks_udp
    has "it says that it goes the other way" "goes by intercepted calls" "$(run -- "$work/curl" -so /dev/null $at/small 2>&1)"
    if optional cc:gcc; then
        echo 'int io_uring_queue_init(void) { return 0; }' | cc -x c - -shared -fPIC -o "$work/libring.so"
        echo 'int io_uring_queue_init(void); int main(void) { return io_uring_queue_init(); }' | cc -x c - -o "$work/ring" -L"$work" -Wl,-rpath,"$work" -lring
        has "--check: io_uring" "io_uring: refused (ENOSYS)" "$(check_of "$work/ring")"
    fi
    if cc -fsanitize=address -o "$work/sanitized" "$here/client.c" 2>/dev/null; then
        has "--check: AddressSanitizer" "AddressSanitizer is to be loaded into it before any other" "$(check_of "$work/sanitized")"
        has "a program with AddressSanitizer" socket "$(run -- "$work/sanitized" 10.10.0.2 8000 2>&1)"
        has "and one that another starts" socket "$(run -- sh -c '"$0" 10.10.0.2 8000; true' "$work/sanitized" 2>&1)"
    else
        echo "SKIPPED: exos run with AddressSanitizer: not installed (apt-get install gcc)"
    fi
    optional musl-gcc:musl-tools || return 0
    cp "$here/client.c" "$work/client.c"
    cc -o "$work/gnu" "$work/client.c" && musl-gcc -o "$work/musl" "$work/client.c" && musl-gcc -static -o "$work/static" "$work/client.c" ||
        { bad "compiling clients"; return 0; }
    for said in static:statically "musl:not GNU's"; do
        has "--check: ${said%%:*}" "${said##*:}" "$(check_of "$work/${said%%:*}")"
        has "--check: the status of ${said%%:*}" "status 3" "$(check_of "$work/${said%%:*}")"
    done
    if [ "$(uname -m)" = x86_64 ]; then
        cc -DBY_ITSELF -o "$work/itself" "$work/client.c"
        has "--check: calls past the C library" "past the C library" "$(check_of "$work/itself")"
        has "a program that calls by itself" socket "$(run -- "$work/itself" 10.10.0.2 8000 2>/dev/null)"
        cc -DLIBRARY -shared -fPIC -o "$work/libitself.so" "$work/client.c"
        cc -DBY_LIBRARY -o "$work/library" "$work/client.c" -L"$work" -Wl,-rpath,"$work" -litself
        has "--check: calls of a library past the C library" "libitself.so makes its calls by itself" "$(check_of "$work/library")"
        has "and a program with that library that another starts" socket "$(cd "$work" && run -- sh -c './library 10.10.0.2 8000; true')"
        has "and one that another starts" socket "$(cd "$work" && run -- sh -c './itself 10.10.0.2 8000; true')"
    fi
    said=$(cd "$work" && run -- sh -c 'for p in gnu musl static gnu; do ./$p 10.10.0.2 8000; done' | sed 's/:.*//' | tr '\n' ' ')
    same "each of several programs goes its own way" "anon_inode socket socket anon_inode " "$said"
}

begin_runs run
# Python's programs, which are started some hundred times, are compiled once.
python3 -c 'import py_compile, sys; py_compile.compile(*sys.argv[1:], doraise=True)' "$here/run.py" "$work/run.pyc" || { bad "run.py"; exit 1; }
# nginx FILE PORT: its configuration, with two workers.
configure() {
    cat >"$1" <<END
daemon off; worker_processes 2; pid $1.pid; error_log $1.log; user root;
events { worker_connections 256; }
http { access_log off; sendfile on; client_body_temp_path $1.body; proxy_temp_path $1.proxy; fastcgi_temp_path $1.f;
    uwsgi_temp_path $1.u; scgi_temp_path $1.s;
    server { listen $2; listen [::]:$2; root $work/docs; }
    server { listen $(($2 + 2)) reuseport; location / { return 200 \$pid; } }
    server { listen $(($2 + 1)); location / { proxy_pass http://10.10.0.2:8000; } } }
END
}

# Clients.
configure "$work/peer.conf" 8000
"$exos" lab exec --name $lab b -- nginx -c "$work/peer.conf" >/dev/null 2>&1 &
peer=$!
await peer_of curl -so /dev/null http://10.10.0.2:8000/small
at=http://10.10.0.2:8000
same "curl: from our address" "200 $ip" "$(run -- curl -so "$work/got" -w '%{http_code} %{local_ip}' $at/noise)"
# Without the library all below would pass as well.
asks='import os, socket; s = socket.create_connection(("10.10.0.2", 8000)); print(os.readlink(f"/proc/self/fd/{s.fileno()}"))'
has "what stands for a connection" "$([ "$way" ] && echo socket: || echo eventfd)" "$(run -- python3 -c "$asks")"
check "curl: every byte" cmp "$work/got" "$work/docs/noise"
same "curl: IPv6" "200 fd10::10" "$(run -- curl -so "$work/got" -w '%{http_code} %{local_ip}' "http://[fd10::2]:8000/small")"
# A program, and exos run with it, on one processor.
core=$(taskset -pc $$ | sed 's/.*: //; s/[-,].*//')
on_one_core() ( taskset -pc "$core" "$BASHPID" >/dev/null && run -- "$@" )
[ "$way" ] || check "python3: what computes is let alone, on one processor" on_one_core python3 "$work/run.pyc" computes 10.10.0.2 8000
[ ! "$way" ] || check "python3: reads that wake nobody" run -- python3 "$work/run.pyc" reads $ip
[ "$way" ] || check "python3: the stack's addresses are among this host's" run -- python3 "$work/run.pyc" own_addresses $ip fd10::10
# Of an interface that has none of the kernel's, ioctl(2) tells the stack's.
alone() {
    local said
    beside_of ip -4 address flush dev wire
    said=$(run -- python3 "$work/run.pyc" own_addresses $ip fd10::10 2>&1)
    beside_of ip address add 10.10.0.1/24 dev wire
    [[ "$said" = *"the stack's alone"* ]] || { echo "$said" >&2; return 1; }
}
[ "$way" ] || check "python3: and by ioctl where the interface has no other" alone
[ "$way" ] || check "python3: and not in a network of its own" run -- unshare -n python3 "$work/run.pyc" own_addresses
# Our own address: processes behind one exos run reach each other by it.
check "python3: connections to itself" run -- python3 "$work/run.pyc" itself "$([ "$way" ] || echo datagrams)" $ip fd10::10
own='python3 -m http.server 8100 --directory "$0" >/dev/null 2>&1 & server=$!
    curl -s --retry 100 --retry-delay 0 --retry-max-time 60 --retry-all-errors -o "$1" "http://$2:8100/noise"; kill $server'
run -- sh -c "$own" "$work/docs" "$work/got" $ip
check "curl: from a server beside it, by our own address" cmp "$work/got" "$work/docs/noise"
check "python3: what is looked at, and counted alone" run -- python3 "$work/run.pyc" counted 10.10.0.2 8000
check "python3: options of a connection that comes to go by a Unix socket" run -- python3 "$work/run.pyc" options_kept 10.10.0.2 8000
check "python3: limits of time, also of a listener that was passed on" run -- python3 "$work/run.pyc" time_limits 10.10.0.2 $ip
check "python3: options that are set before connect and listen" run -- python3 "$work/run.pyc" options $ip
[ "$way" ] || check "python3: a socket for datagrams that was passed on, and is shut down" run -- python3 "$work/run.pyc" passed_and_shut 10.10.0.2 8000
[ "$way" ] || check "python3: what was done to a socket before connect, and what was not" run -- python3 "$work/run.pyc" as_made $ip 10.10.0.2 fd10::2 ::ffff:10.10.0.2
if [ ! "$way" ]; then
    said=$(run -- python3 "$work/run.pyc" connects_untouched 10.10.0.2 fd10::2 2>&1)
    same "python3: connections of sockets that are as they were made are opened without a look at these" 50 "$(awk '$1 == "sockets_shared_untouched" { print $2 }' <<<"$said")"
    if [ "$(uname -m)" = x86_64 ]; then
        check "python3: a process that claims what is another's" run -- python3 "$work/run.pyc" claims 10.10.0.2 8000
        check "python3: processes that claim anything" run -- python3 "$work/run.pyc" drawn_claims 10.10.0.2 8000 "${EXOS_SEED:-1}"
    fi
fi
[ "$way" ] || check "python3: options of a connection that nobody takes" run -- python3 "$work/run.pyc" refused_options
[ "$way" ] || check "python3: options that are refused" run -- python3 "$work/run.pyc" other_options 10.10.0.2 8000
[ "$way" ] || check "python3: as many bytes as a program wants to be told of" run -- python3 "$work/run.pyc" low_water $ip
if [ ! "$way" ]; then
    same "cat: no library but ours is loaded into it" exos-preload "$(run -- cat /proc/self/maps | grep -o 'exos-preload\|libgcc_s' | sort -u)"
    check "python3: the memory is opened by the first call that needs it" run -- python3 "$here/without-memory.py"
    check "python3: a process that locks its memory" run -- python3 "$work/run.pyc" locked 10.10.0.2 8000
    check "python3: a process that may have little address space" run -- python3 "$work/run.pyc" limited 10.10.0.2 8000
    has "and that it goes by intercepted calls is said" "may not have the address space for shared sockets (RLIMIT_AS)" "$(cat "$work/said")"
    said=$(run -- python3 "$work/run.pyc" kernels_datagrams 10.10.0.2 2>&1)
    asked=$(awk '$1 == "calls_intercepted" { print $2 }' <<<"$said")
    check "python3: 2,000 datagrams of a socket of the kernel's are no calls of ours ($asked)" test "${asked:-9999}" -lt 100
fi
check "python3: a socket that was in a set that is closed" run -- python3 "$work/run.pyc" closed_sets 10.10.0.2 8000
[ "$way" ] || check "python3: one that cannot come to go by a Unix socket" run -- python3 "$work/run.pyc" unshared_in_vain 10.10.0.2 8000
check "python3: many connections by loopback" run -- python3 "$work/run.pyc" many_by_loopback
check "python3: connections by the wire and by loopback, by turns" run -- python3 "$work/run.pyc" by_turns $ip
check "python3: options of connections by loopback" run -- python3 "$work/run.pyc" options_by_loopback
check "python3: a program in another network namespace" run -- python3 "$work/run.pyc" in_other_namespace 10.10.0.2 $ip "$([ "$way" ] || echo datagrams)"
has "and that it has no loopback is said" "port 9407 is not reached by loopback: it is in a network namespace of its own" "$(cat "$work/said")"
check "python3: a listener that was in an epoll set before" run -- python3 "$work/run.pyc" watched_before_listening
check "python3: listeners that loopback does not reach" run -- python3 "$work/run.pyc" refused_by_loopback
check "python3: two descriptors of a socket in an epoll set" run -- python3 "$work/run.pyc" copies 10.10.0.2 8000
run -- curl -s http://10.10.0.2:7999/ 2>"$work/err"; same "curl: a refused connection, and its status" 7 $?
# What it says depends on whether its time is over before the stack gives up: one that has no turn for seconds sees both.
waits_in_vain() { run -- curl -sm 1 http://10.10.0.99/; [ $? = 28 ]; }
check "curl: nobody is there" await waits_in_vain
if [ "$way" ] && optional strace; then
    many=("${running[@]:0:10}" strace -qq -c -o "$work/calls" -e trace=readlink,readlinkat,getdents64 "${running[@]:10}")
    check "python3: 300 connections of a process with 2,000 files" "${many[@]}" -- python3 "$work/run.pyc" many_files 10.10.0.2 8000
    looked=$(awk '$NF ~ /^(readlink|readlinkat|getdents64)$/ { calls += $4 } END { print calls + 0 }' "$work/calls")
    check "and each file is looked at a few times, not for each connection ($looked)" test "$looked" -gt 300 -a "$looked" -lt 10000
fi
# By going to sleep, and by nothing else: what has come is known then.
if [ ! "$way" ] && optional strace; then
    polls=$(run -- strace -qq -c -o "$work/calls" -e trace=poll,ppoll python3 "$here/run.py" polls 10.10.0.2 8000 2>&1)
    calls=$(awk '$NF ~ /^p?poll$/ { calls += $4 } END { print calls + 0 }' "$work/calls")
    check "python3: poll asks the kernel once ($calls calls for $polls)" test "$polls" -gt 100 -a "$calls" -ge "$polls" -a "$calls" -lt $((2 * ${polls//[^0-9]/}))
fi
# What --trace prints of a program: by shared sockets all calls of its sockets, else those that are intercepted. Then of its child.
traced() {
    local said line expected=(
        'bind(3, {sa_family=AF_INET, sin_port=htons(9100), sin_addr=inet_addr("0.0.0.0")}, 16) = 0' 'listen(3, '
        'connect(4, {sa_family=AF_INET, sin_port=htons(8000), sin_addr=inet_addr("10.10.0.2")}, 16) = 0'
        'setsockopt(4, SOL_TCP, TCP_NODELAY, [1], 4) = 0'
        "getsockname(4, {sa_family=AF_INET, sin_port=htons(PORT), sin_addr=inet_addr(\"$ip\")}, [16]) = 0"
        'sin_port=htons(7999), sin_addr=inet_addr("10.10.0.2")}, 16) = -1 ECONNREFUSED (Connection refused)')
    [ "$way" ] || expected+=('socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, ' 'setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0'
        'sendto(4, "GET /small HTTP/1.1\r\nHost:x\r\n\r\n", 31, 0, NULL, 0) = 31' 'poll([{fd=4, events=POLLIN}], 1, 30000) = 1 ([{fd=4, revents=POLLIN}])'
        'select(5, [4], NULL, NULL, {tv_sec=' '}) = 1 (in [4])' '...) = 501 (in [4 ' 'epoll_ctl(5, EPOLL_CTL_ADD, 4, {events=EPOLLIN, data=0x'
        'epoll_wait(5, [{events=EPOLLIN, data=0x' 'recvfrom(4, "HTTP", 4, MSG_PEEK, NULL, NULL) = 4' 'read(6, "HTTP", 4) = 4' 'close(6) = 0'
        'recvmsg(4, {msg_name=' 'msg_iov=[{iov_base="/1.", iov_len=3}], msg_iovlen=1, msg_controllen=0, msg_flags=0}, 0) = 3'
        'sendmsg(4, {msg_name=NULL, msg_namelen=0, msg_iov=[{iov_base="a", iov_len=1}, {iov_base="\0b", iov_len=2}], msg_iovlen=2' 'fcntl(4, F_DUPFD_CLOEXEC, 0) = 6'
        'SOCK_CLOEXEC) = -1 EAGAIN (Resource temporarily unavailable)' 'shutdown(4, SHUT_WR) = 0' 'getsockopt(4, SOL_SOCKET, SO_ERROR, [0], [4]) = 0'
        'sendto(5, "datagram", 8, 0, {sa_family=AF_INET, sin_port=htons(9), sin_addr=inet_addr("10.10.0.2")}, 16) = 8')
    said=$(run --trace -- python3 "$work/run.pyc" traced 10.10.0.2 8000 2>&1 | sed 's/^\[[0-9]*\] //; s/htons([0-9]\{5\})/htons(PORT)/')
    for line in "${expected[@]}"; do
        has "--trace: ${line%%(*}, with its arguments" "$line" "$said"
    done
    # Each process prints its own, and what is none of a network's is not printed.
    [ "$way" ] || same "--trace: a child's, too" 2 "$(grep -c '^shutdown(3, SHUT_RD) = 0' <<<"$said")"
    [ "$way" ] || has "--trace: of one that makes no socket" 'read(0, "given"' "$said"
    same "--trace: nothing else" "" "$(grep -v '^[a-z0-9_]*(.*) = ' <<<"$said")"
}
traced
# A reader of the trace that has stopped stops no packets. Nobody reads of the pipe that this shell keeps open.
mkfifo "$work/stopped"; exec 7<>"$work/stopped" 8<"$work/stopped"
run --trace -- python3 "$work/run.pyc" chatty 10.10.0.2 8000 "$work/chatted" 2>&7 7>&- 8<&- & server=$!
# It makes 30,000 calls, for which a busy machine needs more than a minute.
has_chatted() { await test -e "$work/chatted" || await test -e "$work/chatted" || await test -e "$work/chatted"; }
check "--trace: a program goes on while nobody reads it" has_chatted
cat <&8 7>&- >"$work/lines" & reader=$!
exec 7>&- 8<&-
wait $server; same "--trace: and ends" 0 $?; server=
wait $reader
has "--trace: what was left out is counted there" "lines are left out here, for nobody has read those before in time" "$(grep 'left out' "$work/lines")"
[ ! "$way" ] || same "this host's own connections stay the kernel's" "" "$(run --trace -- curl -sm 1 http://127.0.0.1:7999/ 2>&1)"
run -- python3 -c 'raise SystemExit(3)'; same "the status is the program's" 3 $?
run -- sh -c 'kill -SEGV $$' 2>"$work/err"; same "a signal ends it as in a shell" 139 $?
said=$(beside_of "$exos" run $way --via none -- true 2>&1); has "without a link it says where the program is" "by a pair of interfaces made for it" "$said"
run -- no-such-program 2>"$work/err"; same "a program that is not there" 127 $?
has "and why" "cannot run no-such-program" "$(cat "$work/err")"
[ "$way" ] || ways
if optional wget; then
    rm "$work/got"
    check "wget" run -- wget -qO "$work/got" $at/noise
    check "wget: every byte" cmp "$work/got" "$work/docs/noise"
fi
optional ab:apache2-utils && has "ab: 10 connections at once" "Failed requests:        0" "$(run -- ab -qn 300 -c 10 $at/small 2>&1)"
if optional wrk; then
    said=$(run -- wrk -t 2 -c 20 -d 1s --timeout 60s $at/small 2>&1)
    has "wrk: threads" "Requests/sec" "$said"
    same "wrk: without errors" "" "$(grep 'Socket errors' <<<"$said")"
fi
said=$(run -- python3 -c 'import ctypes; l = ctypes.CDLL(None, use_errno=True); print([(l.syscall(425, 8, None), ctypes.get_errno()) for _ in range(2)])' 2>&1)
has "io_uring: there is none" "[(-1, 38), (-1, 38)]" "$said"
same "io_uring: and that is said once" 1 "$(grep -c 'asks for io_uring, which is refused (ENOSYS)' <<<"$said")"
check "python3: sockets beside threads, forks, poll and epoll" run -- python3 "$work/run.pyc" client 10.10.0.2 8000
# Its streams' numbers are the socket's for a while.
same "bash: a connection in the place of standard output" hello \
    "$(run -- bash -c 'exec 3<>/dev/tcp/10.10.0.2/8000; printf "GET /small HTTP/1.0\r\n\r\n" >&3; cat <&3' | tail -n 1)"
[ "$(uname -m)" != x86_64 ] || check "python3: calls by their numbers" run -- python3 "$work/run.pyc" numbered 10.10.0.2 8000
check "python3: one thread waits while another changes what it waits for" run -- python3 "$work/run.pyc" threads 10.10.0.2 8000

# Names and datagrams. By intercepted calls these stay the kernel's.
named=(timeout -k 1 300 "$exos" lab exec --name $lab a -- unshare -m sh -c 'mount --bind "$0/resolv.conf" /etc/resolv.conf && exec "$@"' "$work"
    "$exos" run $way --link xdp:wire --address $ip/24 --address fd10::10/64 --)
echo nameserver 10.10.0.2 >"$work/resolv.conf"
# answers ADDRESS NAME: what a name server says.
answers() { peer_of python3 "$work/run.pyc" ask "$1" "$2"; }
peers=$peer
"$exos" lab exec --name $lab b -- python3 "$work/run.pyc" echo >"$work/echo" 2>&1 & peers+=" $!"
"$exos" lab exec --name $lab b -- python3 "$work/run.pyc" telling >"$work/telling" 2>&1 & peers+=" $!"
if [ ! "$way" ] && optional dnsmasq:dnsmasq-base; then
    lies=(dnsmasq -k -C /dev/null --no-resolv --no-hosts --user=root --pid-file= --log-queries --log-facility=-)
    "$exos" lab exec --name $lab b -- "${lies[@]}" --address=/name.lab/10.10.0.2 >"$work/asked" 2>&1 & peers+=" $!"
    peer=$peers
    await answers 10.10.0.2 name.lab
    same "curl: by name" 200 "$("${named[@]}" curl -so /dev/null -m 60 -w '%{http_code}' http://name.lab:8000/small)"
    has "curl: and our address asks for it" "name.lab from $ip" "$(cat "$work/asked")"
    if serve 53 "${lies[@]}" --server=10.10.0.2 --address=/ours.lab/192.0.2.55; then
        same "dnsmasq: a name server" 192.0.2.55 "$(answers $ip ours.lab)"
        same "dnsmasq: IPv6" 192.0.2.55 "$(answers fd10::10 ours.lab)"
        same "dnsmasq: it asks another" 10.10.0.2 "$(answers $ip name.lab)"
        for host in 127.0.0.1 ::1; do
            same "dnsmasq: this host asks by $host" 192.0.2.55 "$(beside_of python3 "$work/run.pyc" ask $host ours.lab)"
        done
        stop_server
    else
        bad "dnsmasq" "$(tail -n 3 "$work/server")"
    fi
    if optional unbound; then
        printf '%s\n' server: 'interface: 0.0.0.0' 'interface: ::0' 'do-daemonize: no' 'use-syslog: no' 'chroot: ""' 'username: ""' 'pidfile: ""' \
            "directory: \"$work\"" 'access-control: 0.0.0.0/0 allow' 'access-control: ::0/0 allow' 'module-config: "iterator"' \
            'local-data: "ours.lab. A 192.0.2.77"' forward-zone: 'name: "."' 'forward-addr: 10.10.0.2' >"$work/unbound.conf"
        if serve 53 unbound -d -c "$work/unbound.conf"; then
            same "unbound: a name server" 192.0.2.77 "$(answers $ip ours.lab)"
            same "unbound: IPv6" 192.0.2.77 "$(answers fd10::10 ours.lab)"
            same "unbound: it asks another" 10.10.0.2 "$(answers $ip name.lab)"
            stop_server
        else
            bad "unbound" "$(tail -n 3 "$work/server")"
        fi
    fi
    # It listens at each address that it is told this host has.
    if optional named:bind9; then
        printf '%s\n' '$ORIGIN named.lab.' '@ 60 IN SOA @ @ 1 60 60 60 60' '@ 60 IN NS @' '@ 60 IN A 192.0.2.99' >"$work/zone"
        printf '%s\n' "options { directory \"$work\"; recursion no; pid-file none; session-keyfile none; listen-on { $ip; };" \
            'listen-on-v6 { fd10::10; }; }; controls { };' "zone \"named.lab\" { type primary; file \"$work/zone\"; };" >"$work/named.conf"
        if serve 53 named -g -n 2 -c "$work/named.conf"; then
            same "named: a name server" 192.0.2.99 "$(answers $ip named.lab)"
            same "named: IPv6" 192.0.2.99 "$(answers fd10::10 named.lab)"
            stop_server; same "named: it is asked to end" 0 $?
        else
            bad "named" "$(grep -iE 'error|fail' "$work/server" | tail -n 3)"
        fi
    fi
fi
peer=$peers
await grep -q listening "$work/echo"
await grep -q listening "$work/telling"
"$exos" lab exec --name $lab b -- python3 "$work/run.pyc" fields_peer $ip >"$work/fields" 2>&1 & peers+=" $!"
peer=$peers
await grep -q listening "$work/fields"
check "python3: hops and class of connections" run -- python3 "$work/run.pyc" fields_of_connections 10.10.0.2 $ip $way
[ "$way" ] || check "python3: a socket of the kernel's that leaves its peer in another process" run -- python3 "$work/run.pyc" left_elsewhere 10.10.0.2
[ "$way" ] || check "python3: what is asked of interfaces by way of a shared socket" run -- python3 "$work/run.pyc" interfaces 10.10.0.2
[ "$way" ] || check "python3: datagrams, and forks, programs and passing on with them" run -- python3 "$work/run.pyc" datagrams 10.10.0.2 $ip
if [ ! "$way" ]; then
    check "python3: datagrams by loopback" run -- python3 "$work/run.pyc" datagrams_by_loopback 10.10.0.2
    has "and a port that this host has is said" "UDP port 9505 is not reached by 127.0.0.1: Address already in use" "$(cat "$work/said")"
fi

peer_of python3 "$work/run.pyc" sink >"$work/sink" & sink=$!
await grep -q listening "$work/sink"
check "python3: writes and ends at once" run -- python3 "$work/run.pyc" upload 10.10.0.2
wait $sink; same "and every byte arrives" 3000000 "$(tail -n 1 "$work/sink")"
# echo_connections COUNT: by the peer; what an earlier one said is not taken for this one's.
echo_connections() {
    rm -f "$work/echoing"
    peer_of python3 "$work/run.pyc" echoing "$1" >"$work/echoing" & echoing=$!
    await grep -q listening "$work/echoing"
}
if optional cc:gcc; then
    cc -D_GNU_SOURCE -pthread -o "$work/forks" "$here/forks.c"
    echo_connections 160
    # It lives on until its peer has seen all connections end.
    tail -f /dev/null --pid=$echoing | run -- "$work/forks" 10.10.0.2 9001 8 20 >"$work/forked" 2>&1
    same "eight threads that connect and fork at once" talked "$(cat "$work/forked")"
    wait $echoing; same "and all their connections end" "0 left" "$(tail -n 1 "$work/echoing")"
    echo_connections 9
    tail -f /dev/null --pid=$echoing | run -- "$work/forks" 10.10.0.2 9001 0 8 >"$work/forked" 2>&1
    same "children made by clone, also in namespaces of their own, and dprintf" talked "$(cat "$work/forked")"
    wait $echoing; same "and their connections end" "0 left" "$(tail -n 1 "$work/echoing")"
    cc -D_GNU_SOURCE -o "$work/signals" "$here/signals.c"
    echo_connections 1
    same "signals' handlers that use a connection in the middle of its calls" "all came, 0 wrong" "$(run -- "$work/signals" 10.10.0.2 9001 1000 2>&1)"
    wait $echoing
    cc -D_GNU_SOURCE -pthread -o "$work/cancelled" "$here/cancelled.c"
    echo_connections 1
    same "threads that are cancelled while they wait" "cancelled everywhere" "$(run -- "$work/cancelled" 10.10.0.2 9001 2>&1)"
    wait $echoing
fi
# What is left alone ends too, also what is the program's no more.
alone='sleep 100 & echo $! >"$0/left"; (trap "" TERM; setsid sleep 100 & echo $! >"$0/deaf"); (setsid sleep 100 & echo $! >"$0/orphan"); echo $$ >"$0/shell"; exec sleep 100'
"${running[@]}" -- sh -c "$alone" "$work" 2>/dev/null & server=$!
await test -s "$work/shell"
check "the program is one of the supervisor's" kill -0 "$(cat "$work/shell")"
parent_of() { awk '/^PPid/ {print $2}' "/proc/$1/status"; }
guard=$(parent_of "$(cat "$work/shell")")
kill -KILL "$(parent_of "$guard")"
gone() { ! kill -0 "$1" 2>/dev/null; }
for what in shell left orphan deaf; do check "a supervisor that is killed takes its program along ($what)" await gone "$(cat "$work/$what")"; done
check "and its guard" await gone "$guard"
wait $server 2>/dev/null; server=
# Where the guard is killed, the supervisor has what it had.
rm "$work/shell"
"${running[@]}" -- sh -c "$alone" "$work" 2>/dev/null & server=$!
await test -s "$work/shell"
kill -KILL "$(parent_of "$(cat "$work/shell")")"
check "a guard that is killed takes the program along" await gone "$(cat "$work/shell")"
stop_server; same "and is what has ended" 137 $?
for what in left orphan deaf; do check "and nothing is left ($what)" gone "$(cat "$work/$what")"; done
# What is left behind is the supervisor's, to the end.
orphan='(sleep 0 & echo $! >"$0/orphan"); while kill -0 "$(cat "$0/orphan")" 2>/dev/null; do sleep 0.05; done; echo taken'
same "the end of an orphan is taken" taken "$(run -- sh -c "$orphan" "$work")"
"${running[@]}" -- python3 "$work/run.pyc" leaves_behind "$work" >"$work/server" 2>&1 & server=$!
await test -s "$work/first"
first_ended() { ! kill -0 "$(cat "$work/first")" 2>/dev/null; }
await first_ended
check "what a program has left behind goes on" kill -0 "$(cat "$work/left-9412")"
stop_server; same "the supervisor of what is left behind is asked to end" 0 $?
check "and asks those" test -e "$work/asked-9411"
for port in 9411 9412; do check "and leaves nothing ($port)" eval "! kill -0 $(cat "$work/left-$port") 2>/dev/null"; done
# A process group that is asked to end has its time, too: its guard is asked by the supervisor alone.
rm "$work/first"
setsid "${running[@]:4}" -- python3 "$work/run.pyc" leaves_slow "$work" >"$work/server" 2>&1 & server=$!
await test -s "$work/first"
await first_ended
kill -TERM -- "-$server"; sleep 0.2; kill -TERM $server; wait $server; same "the group of what is left behind is asked to end, and then its first process" 0 $?; server=
check "and that has its time to do so" test -e "$work/ended-slowly"
# A program that counts how often it is asked, until it has been enough; how often it has been by now, and one that is too much has its time.
count_asked() {
    rm -f "$work/enough" "$work/asked-times"
    setsid "${running[@]:4}" -- python3 "$work/run.pyc" counts_asked "$work" >"$work/server" 2>&1 & server=$!
    asked 0
}
asked() { await eval "[ \"\$(cat '$work/asked-times')\" -ge $1 ]"; }
enough() { sleep 0.5; touch "$work/enough"; wait $server; same "$1" 0 $?; server=; }
now() { echo "${EPOCHREALTIME/./}"; }
# As timeout(1) asks, within an instant, and others again, within a second: where this shell had no turn in between, it is tried again.
for _ in {1..50}; do
    count_asked
    begun=$(now); kill -TERM $server; kill -TERM -- "-$server"; took=$(($(now) - begun))
    asked 1; kill -TERM $server
    [ $took -ge 40000 ] || [ $(($(now) - begun)) -ge 700000 ] || break
    touch "$work/enough"; wait $server
done
# A request that comes later is another.
sleep 2; kill -TERM $server; asked 2
enough "a program whose group is asked to end, too"
same "and that is asked twice, and not four times" 2 "$(cat "$work/asked-times")"
# One request by itself, one of the group, which is taken for the same, and one by itself again.
count_asked
kill -TERM $server; asked 1; kill -TERM -- "-$server"; asked 2; sleep 2; kill -TERM $server; asked 3
enough "a program whose group is asked between two requests"
same "and that has all three" 3 "$(cat "$work/asked-times")"
# What exos run does not catch, and its caller has blocked, is the program's alone.
setsid "${running[@]:4:7}" python3 "$work/run.pyc" with_blocked HUP "${running[@]:11}" -- python3 "$work/run.pyc" waits_for HUP "$work" >"$work/server" 2>&1 & server=$!
await test -s "$work/counting"
kill -HUP -- "-$server"; wait $server; same "a program that waits for a signal that its caller has blocked" 0 $?; server=
# The program starts with signals ignored and blocked as without exos run, which catches some.
for how in some none; do
    starts=(python3 "$work/run.pyc" with_signals $how)
    status=(grep -E '^Sig(Blk|Ign)' /proc/self/status)
    same "it starts with the signals that it is given ($how)" "$("${running[@]:0:11}" "${starts[@]}" "${status[@]}")" \
        "$("${running[@]:0:11}" "${starts[@]}" "${running[@]:11}" -- "${status[@]}" 2>&1)"
done

# By --intercept there is no library.
others='for how in "setpriv --reuid 65534 --clear-groups" "setpriv --bounding-set -sys_ptrace,-sys_admin" "unshare -pf --mount-proc" "unshare -U"; do
    $how true; done'
same "what may not load the library is not told to" "" "$(run -- sh -c "$others" 2>&1)"

# Servers.
if serve 8080 python3 -m http.server 8080 --directory "$work/docs"; then
    check "python3 -m http.server" got "http://$ip:8080/noise"
    same "python3 -m http.server: of this host, by loopback" "200 3000000" "$(beside_of curl -so /dev/null -w '%{http_code} %{size_download}' http://127.0.0.1:8080/noise)"
    stood "python3 -m http.server"
    stop_server; same "python3: it is asked to end" 143 $?
else
    bad "python3 -m http.server" "$(tail -n 3 "$work/server")"
fi
configure "$work/ours.conf" 8080
if serve 8080 nginx -c "$work/ours.conf"; then
    check "nginx: sendfile, from one of two workers" got "http://$ip:8080/noise"
    check "nginx: IPv6" got "http://[fd10::10]:8080/noise"
    for host in 127.0.0.1 '[::1]'; do
        rm -f "$work/got"; beside_of curl -so "$work/got" "http://$host:8080/noise"
        check "nginx: every byte for this host, at $host" cmp "$work/got" "$work/docs/noise"
    done
    peer_of curl -s http://10.10.0.1:8080/; same "nginx: no other host reaches it at this one's address" 7 $?
    check "nginx: proxy_pass" got "http://$ip:8081/noise"
    kill -HUP "$(cat "$work/ours.conf.pid")"; sleep 0.5
    check "nginx: after a reload" got "http://$ip:8080/noise"
    same "nginx: both workers take connections of a port that they share (reuseport)" 2 "$(peer_of python3 "$work/run.pyc" bodies $ip 8082)"
    optional wrk && same "nginx: 50 connections of wrk" "" "$(peer_of wrk -t 1 -c 50 -d 1s --timeout 60s http://$ip:8080/small 2>&1 | grep 'Socket errors')"
    stood nginx
    stop_server; same "nginx: it is asked to end, with its workers" 0 $?
else
    bad "nginx" "$(tail -n 3 "$work/server")"
fi
if optional iperf3; then
    # For one client; what an earlier one has said is not taken for this one's.
    measures_once() {
        rm -f "$work/server"
        "${running[@]}" -- iperf3 -s -1 --forceflush >"$work/server" 2>&1 </dev/null & server=$!
        await grep -q "listening" "$work/server"
    }
    measures_once
    check "iperf3" peer_of iperf3 -c $ip -t 1
    wait $server; same "iperf3: it ends by itself" 0 $?; server=
fi
if [ ! "$way" ] && optional iperf3; then
    measures_once
    check "iperf3: datagrams" peer_of iperf3 -u -c $ip -t 1 -b 20M
    wait $server
    measures_once
    check "iperf3: datagrams of this host, by loopback" beside_of iperf3 -u -c 127.0.0.1 -t 1 -b 20M
    wait $server; server=
    "$exos" lab exec --name $lab b -- iperf3 -s -1 --forceflush >"$work/measured" 2>&1 & measured=$!
    await grep -q "listening" "$work/measured"
    check "iperf3: datagrams to others" run -- iperf3 -u -c 10.10.0.2 -t 1 -b 20M
    kill $measured 2>/dev/null; wait $measured
fi
if optional redis-server:redis-server && serve 6379 redis-server --port 6379 --protected-mode no --dir "$work" --dbfilename saved --save ''; then
    cli() { peer_of redis-cli -h $ip "$@"; }
    cli -x set noise <"$work/docs/noise" >/dev/null
    cli get noise | head -c 3000000 >"$work/got"; check "redis: every byte of a large value" cmp "$work/got" "$work/docs/noise"
    has "redis: 50 connections" "GET" "$(peer_of redis-benchmark -h $ip -c 50 -n 5000 -t get -q 2>&1)"
    # A child that has all connections, too.
    cli bgsave >/dev/null
    saved() { [ "$(cli lastsave)" -gt 0 ] && [ "$(stat -c %s "$work/saved" 2>/dev/null || echo 0)" -gt 3000000 ]; }
    check "redis: a background save" await saved
    has "redis: and the connections live on" PONG "$(cli ping)"
    stood redis
    stop_server; same "redis: it is asked to end" 0 $?
fi
if optional memcached && serve 11211 memcached -u root -t 3 -l 0.0.0.0; then
    check "memcached: threads" peer_of python3 "$work/run.pyc" memcached $ip
    stood memcached
    stop_server
fi
if optional socat && serve 9300 socat TCP-LISTEN:9300,fork,reuseaddr EXEC:cat; then
    peer_of socat -t 60 - TCP:$ip:9300 <"$work/docs/noise" >"$work/got"
    check "socat: a child with the connection as standard input and output" cmp "$work/got" "$work/docs/noise"
    stop_server
fi
if optional openssl; then
    openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=run -keyout "$work/key" -out "$work/cert" 2>/dev/null
    if serve 4433 openssl s_server -quiet -accept 4433 -key "$work/key" -cert "$work/cert" -WWW; then
        check "openssl s_server" peer_of python3 "$work/run.pyc" https "$ip" 4433
        stop_server
    fi
fi
if optional sshd:openssh-server && optional ssh:openssh-client; then
    ssh-keygen -qt ed25519 -N '' -f "$work/host.key"; ssh-keygen -qt ed25519 -N '' -f "$work/user.key"
    mkdir -p /run/sshd
    printf '%s\n' "Port 2222" "HostKey $work/host.key" "AuthorizedKeysFile $work/user.key.pub" "PidFile none" "StrictModes no" "UsePAM no" \
        "PermitRootLogin yes" >"$work/sshd.conf"
    remote=(ssh -F none -p 2222 -i "$work/user.key" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR)
    if serve 2222 "$(command -v sshd)" -D -e -f "$work/sshd.conf"; then
        peer_of "${remote[@]}" root@$ip "cat '$work/docs/noise'" >"$work/got"
        check "sshd: a session, every byte" cmp "$work/got" "$work/docs/noise"
        stop_server
    else
        bad "sshd" "$(tail -n 3 "$work/server")"
    fi
    "$exos" lab exec --name $lab b -- "$(command -v sshd)" -D -e -f "$work/sshd.conf" >/dev/null 2>&1 & server=$!
    await takes 10.10.0.2 2222
    run -- "${remote[@]}" root@10.10.0.2 "cat '$work/docs/noise'" >"$work/got"
    check "ssh: a session, every byte" cmp "$work/got" "$work/docs/noise"
    stop_server
fi
if optional node:nodejs; then
    # Files and sockets come and go under the same numbers, closed by syscall(2).
    page='const http = require("http"), fs = require("fs"), [at, noise] = process.argv.slice(1);
        const get = () => new Promise((ok, no) => http.get(at, (r) => { let n = 0; r.on("data", (d) => n += d.length).on("end", () => ok(n)); }).on("error", no));
        (async () => { for (let i = 0; i < 20; i++) {
            const sizes = await Promise.all([...Array(10)].map(get));
            if (sizes.some((n) => n != 6) || fs.readFileSync(noise).length != 3000000) process.exit(1);
        } })()'
    check "node: a client that reads files" run -- node -e "$page" $at/small "$work/docs/noise"
    page='require("http").createServer((q, r) => require("fs").createReadStream(process.argv[1] + q.url).pipe(r)).listen(8085, "0.0.0.0")'
    if serve 8085 node -e "$page" "$work/docs"; then
        check "node: a server of files" got "http://$ip:8085/noise"
        stood node
        optional ab:apache2-utils && has "node: 50 connections at once" "Failed requests:        0" "$(peer_of ab -qn 1000 -c 50 http://$ip:8085/small 2>&1)"
        stop_server
    else
        bad "node" "$(tail -n 3 "$work/server")"
    fi
fi
if optional haproxy; then
    printf 'defaults\n mode http\n timeout connect 60s\n timeout client 60s\n timeout server 60s\nlisten a\n bind :8090\n server b 10.10.0.2:8000\n' >"$work/haproxy.cfg"
    if serve 8090 haproxy -db -f "$work/haproxy.cfg"; then
        check "haproxy: both ways" got "http://$ip:8090/noise"
        stood haproxy
        stop_server
    else
        bad "haproxy" "$(tail -n 3 "$work/server")"
    fi
fi
check "python3: a server that forks for each connection" python3 "$work/run.pyc" forking "$exos" $lab $ip $way
check "python3: two processes share a port (SO_REUSEPORT)" python3 "$work/run.pyc" sharing "$exos" $lab $ip $way
check "python3: threads that share one epoll set" python3 "$work/run.pyc" pooled "$exos" $lab $ip $way
check "python3: 400 connections at once, accepted one by one" python3 "$work/run.pyc" selecting "$exos" $lab $ip $way
exit $((failures > 0))
