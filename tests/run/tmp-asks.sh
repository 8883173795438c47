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
core=$(taskset -pc $$ | sed 's/.*: //; s/[-,].*//')
on_one_core() ( taskset -pc "$core" "$BASHPID" >/dev/null && run -- "$@" )
[ "$way" ] || check "python3: what computes is let alone, on one processor" on_one_core python3 "$here/run.py" computes 10.10.0.2 8000
on_one_core python3 "$here/run.py" sends 10.10.0.255
kill $peer
