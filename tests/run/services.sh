#!/usr/bin/env bash
# exos run: unmodified services and their clients, both in side a of a lab against the other on Linux's stack in side b: databases, remote
# shells, copies, repositories, super-servers, what speaks FastCGI. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/run/services.sh PATH/TO/exos [--intercept]
#
# EXOS_ONLY="git rsync" has it try these alone.
. "$(dirname "$0")/common.sh"
begin_runs services
noise=$work/docs/noise
# every_byte NAME FILE: a copy is as it was.
every_byte() { check "$1: every byte" cmp "$2" "$noise"; rm -f "$2"; }

try_python() {
    check "python3: asyncio serves 100 connections" python3 "$here/run.py" asynchronous_server "$exos" $lab $ip $way
    beside 8000 python3 -m http.server 8000 --directory "$work/docs"
    check "python3: asyncio as a client, 10 connections" run -- python3 "$here/run.py" asynchronous_client 10.10.0.2 8000 "$noise"
    if python3 -c 'import requests' 2>/dev/null; then
        check "python3: requests, kept connections" run -- python3 "$here/run.py" requests http://10.10.0.2:8000/noise "$noise"
    else
        echo "SKIPPED: exos run python3 with requests: not installed (apt-get install python3-requests)"
    fi
    end_beside
}

try_openssl() {
    optional openssl || return 0
    openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=run -keyout "$work/key" -out "$work/cert" 2>/dev/null
    (cd "$work/docs" && exec "$exos" lab exec --name $lab b -- openssl s_server -quiet -accept 4433 -key "$work/key" -cert "$work/cert" -WWW) >/dev/null 2>&1 &
    peer+=" $!"
    await takes 10.10.0.2 4433
    printf 'GET /noise HTTP/1.0\r\n\r\n' | run -- openssl s_client -quiet -ign_eof -connect 10.10.0.2:4433 2>/dev/null | tail -c 3000000 >"$work/got"
    every_byte "openssl s_client" "$work/got"
}

try_postgres() {
    local bin=/usr/lib/postgresql/*/bin data=$work/postgres got
    # shellcheck disable=SC2086
    bin=$(printf '%s\n' $bin | tail -n 1)
    [ -x "$bin/postgres" ] || { echo "SKIPPED: exos run postgres: not installed (apt-get install postgresql)"; return 0; }
    mkdir "$data"; chown postgres "$data"
    setpriv --reuid postgres --regid postgres --clear-groups "$bin/initdb" -D "$data" -N -A trust -E UTF8 --no-locale >"$work/said" 2>&1 || { bad "initdb" "$(tail -n 2 "$work/said")"; return 0; }
    echo 'host all all 0.0.0.0/0 trust' >>"$data/pg_hba.conf"
    local postgres=(setpriv --reuid postgres --regid postgres --clear-groups "$bin/postgres" -D "$data" -F -c listen_addresses=0.0.0.0 -c unix_socket_directories=)
    local query="select string_agg(md5(n::text), '' order by n) from generate_series(1, 60000) n"
    local wanted; wanted=$(python3 -c 'import hashlib; print("".join(hashlib.md5(b"%d" % n).hexdigest() for n in range(1, 60001)))' | md5sum)
    served postgres 5432 "${postgres[@]}" || return 0
    got=$(peer_of "$bin/psql" -h $ip -U postgres -Atc "$query" | md5sum)
    same "postgres: every byte of a large answer" "$wanted" "$got"
    peer_of "$bin/pgbench" -h $ip -U postgres -qi -s 1 postgres >/dev/null 2>&1
    has "postgres: pgbench, 8 connections" "number of failed transactions: 0 " "$(peer_of "$bin/pgbench" -h $ip -U postgres -c 8 -j 2 -t 20 postgres 2>&1)"
    has "postgres: a connection for each transaction" "number of failed transactions: 0 " "$(peer_of "$bin/pgbench" -h $ip -U postgres -C -S -c 4 -t 5 postgres 2>&1)"
    stop_server; same "postgres: it is asked to end" 0 $?
    beside 5432 "${postgres[@]}"
    got=$(run -- "$bin/psql" -h 10.10.0.2 -U postgres -Atc "$query" | md5sum)
    same "psql: every byte of a large answer" "$wanted" "$got"
    has "pgbench: 8 connections, 2 threads" "number of failed transactions: 0 " "$(run -- "$bin/pgbench" -h 10.10.0.2 -U postgres -c 8 -j 2 -t 20 postgres 2>&1)"
    end_beside
}

try_php() {
    local fpm; fpm=$(command -v php-fpm || printf '%s\n' /usr/sbin/php-fpm*)
    [ -x "$fpm" ] || { echo "SKIPPED: exos run php-fpm: not installed (apt-get install php-fpm)"; return 0; }
    echo '<?php header("Content-Type: application/octet-stream"); readfile(__DIR__ . "/docs/noise");' >"$work/noise.php"
    # One pool for others, one for this host.
    printf '[global]\nerror_log=%s\n' "$work/fpm.log" >"$work/fpm.conf"
    printf '[%s]\nlisten=%s\nuser=root\ngroup=root\npm=static\npm.max_children=2\n' far 0.0.0.0:9001 near 127.0.0.1:9002 >>"$work/fpm.conf"
    local params="include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME $work/noise.php;"
    local temporary="access_log off; client_body_temp_path $work/t1; proxy_temp_path $work/t2; fastcgi_temp_path $work/t3; uwsgi_temp_path $work/t4; scgi_temp_path $work/t5;"
    local common="user root; daemon off; error_log $work/nginx.log; events {} http { $temporary"
    echo "$common server { listen 8080; location / { $params fastcgi_pass 127.0.0.1:9002; } } } pid $work/1.pid;" >"$work/ours.conf"
    echo "$common server { listen 8000; location / { $params fastcgi_pass $ip:9001; } } } pid $work/2.pid;" >"$work/theirs.conf"
    served php-fpm 8080 sh -c '"$0" -F -R -y "$1/fpm.conf" & php=$!; nginx -c "$1/ours.conf" & trap "kill $php $!" TERM; wait; wait' "$fpm" "$work" || return 0
    await takes "$ip" 9001
    check "nginx and php-fpm: every byte" got "http://$ip:8080/"
    beside 8000 nginx -c "$work/theirs.conf"
    peer_of curl -so "$work/got" http://10.10.0.2:8000/; every_byte "php-fpm for nginx elsewhere" "$work/got"
    end_beside
    stop_server
}

try_dropbear() {
    optional dropbear:dropbear-bin && optional dropbearkey:dropbear-bin && optional dbclient:dropbear-bin || return 0
    dropbearkey -t ed25519 -f "$work/host" >/dev/null 2>&1
    dropbearkey -t ed25519 -f "$work/user" 2>/dev/null | grep ^ssh- >"$work/authorized"
    # It looks for the keys in the user's home.
    mkdir -m 700 "$work/home" "$work/home/.ssh"; mv "$work/authorized" "$work/home/.ssh/authorized_keys"; chmod 600 "$work/home/.ssh/authorized_keys"
    sed "s|^root:\(.*\):/root:|root:\1:$work/home:|" /etc/passwd >"$work/passwd"
    local server_of=(unshare -m sh -c 'mount --bind "$0/passwd" /etc/passwd && exec dropbear -F -E -r "$0/host" -p 2222 -P "" -s' "$work")
    local session=(dbclient -y -y -T -p 2222 -i "$work/user")
    if served dropbear 2222 "${server_of[@]}"; then
        peer_of env HOME="$work" "${session[@]}" root@$ip "cat '$noise'" >"$work/got" 2>"$work/err"; every_byte "dropbear" "$work/got"
        stop_server
    fi
    beside 2222 "${server_of[@]}"
    run -- env HOME="$work" "${session[@]}" root@10.10.0.2 "cat '$noise'" >"$work/got" 2>"$work/err"; every_byte "dbclient" "$work/got"
    end_beside
}

try_rsync() {
    optional rsync || return 0
    printf 'use chroot = no\nuid = root\ngid = root\npid file = %s\n[docs]\npath = %s\nread only = no\n' "$work/rsync.pid" "$work/docs" >"$work/rsync.conf"
    local daemon=(rsync --daemon --no-detach --config="$work/rsync.conf" --port=8730 --log-file=/dev/null)
    if served rsync 8730 "${daemon[@]}"; then
        peer_of rsync -a "rsync://$ip:8730/docs/noise" "$work/got"; every_byte "rsync: the daemon sends" "$work/got"
        peer_of rsync -a "$noise" "rsync://$ip:8730/docs/copy"; every_byte "rsync: the daemon receives" "$work/docs/copy"
        stop_server
    fi
    rm -f "$work/rsync.pid"
    beside 8730 "${daemon[@]}"
    run -- rsync -a "rsync://10.10.0.2:8730/docs/noise" "$work/got"; every_byte "rsync: a client receives" "$work/got"
    run -- rsync -a "$noise" "rsync://10.10.0.2:8730/docs/copy"; every_byte "rsync: a client sends" "$work/docs/copy"
    end_beside
}

# A process for each session, made by clone(2); files go by connections of their own, which either side opens.
try_ftp() {
    optional vsftpd || return 0
    mkdir -m 755 "$work/ftp" "$work/ftp/empty"; mkdir -m 777 "$work/ftp/up"; ln "$noise" "$work/ftp/noise"; chmod 644 "$noise"
    printf '%s\n' listen=YES listen_port=2121 anonymous_enable=YES no_anon_password=YES anon_root="$work/ftp" write_enable=YES anon_umask=022 \
        anon_upload_enable=YES connect_from_port_20=YES secure_chroot_dir="$work/ftp/empty" background=NO xferlog_enable=NO seccomp_sandbox=NO >"$work/vsftpd.conf"
    local mode
    if served vsftpd 2121 vsftpd "$work/vsftpd.conf"; then
        for mode in --ftp-pasv "--ftp-port -"; do
            # shellcheck disable=SC2086
            peer_of curl -sm 60 $mode -o "$work/got" "ftp://$ip:2121/noise"; every_byte "vsftpd sends ($mode)" "$work/got"
            # shellcheck disable=SC2086
            peer_of curl -sm 60 $mode -T "$noise" "ftp://$ip:2121/up/noise"; every_byte "vsftpd receives ($mode)" "$work/ftp/up/noise"
        done
        stop_server
    fi
    beside 2121 vsftpd "$work/vsftpd.conf"
    for mode in --ftp-pasv "--ftp-port -"; do
        # shellcheck disable=SC2086
        run -- curl -sm 60 $mode -o "$work/got" ftp://10.10.0.2:2121/noise; every_byte "curl: FTP ($mode)" "$work/got"
    done
    end_beside
}

# cloned NAME COMMAND...: a clone into $work/clone has all.
cloned() {
    local name=$1; shift
    rm -rf "$work/clone"
    "$@" "$work/clone" >"$work/said" 2>&1 || { bad "$name" "$(tail -n 3 "$work/said")"; return 0; }
    check "$name: every byte" cmp "$work/clone/noise" "$noise"
}
try_git() {
    optional git || return 0
    local git=(env HOME="$work" GIT_TERMINAL_PROMPT=0 GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' git)
    mkdir "$work/git"
    "${git[@]}" init -q "$work/git/it" && cp "$noise" "$work/git/it/" &&
        "${git[@]}" -C "$work/git/it" add noise && "${git[@]}" -C "$work/git/it" -c user.name=x -c user.email=x@y commit -qm all
    touch "$work/git/it/.git/git-daemon-export-ok"
    local web=(python3 "$here/run.py" git_over_http "$work/git") daemon=("${git[@]}" daemon --reuseaddr --base-path="$work/git" --port=9418)
    if served "git over HTTP" 8080 "${web[@]}"; then
        cloned "git: its HTTP back end" peer_of "${git[@]}" clone -q "http://$ip:8080/it/.git"
        stop_server
    fi
    if served "git daemon" 9418 "${daemon[@]}"; then
        cloned "git daemon" peer_of "${git[@]}" clone -q "git://$ip/it"
        stop_server
    fi
    beside 8080 "${web[@]}"
    cloned "git: a client over HTTP" run -- "${git[@]}" clone -q http://10.10.0.2:8080/it/.git
    end_beside
    optional sshd:openssh-server && optional ssh:openssh-client || return 0
    ssh-keygen -qt ed25519 -N '' -f "$work/host.key"; ssh-keygen -qt ed25519 -N '' -f "$work/user.key"
    mkdir -p /run/sshd
    printf '%s\n' "Port 2223" "HostKey $work/host.key" "AuthorizedKeysFile $work/user.key.pub" "PidFile none" "StrictModes no" "UsePAM no" \
        "PermitRootLogin yes" >"$work/sshd.conf"
    local ssh="ssh -F none -p 2223 -i $work/user.key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    beside 2223 "$(command -v sshd)" -D -e -f "$work/sshd.conf"
    cloned "git: a client over ssh" run -- "${git[@]}" -c core.sshCommand="$ssh" clone -q -u "git -c safe.directory=* upload-pack" "root@10.10.0.2:$work/git/it"
    end_beside
}

# talked CLIENT...: waits to be asked, answers, and is answered.
talked() {
    : >"$work/heard"
    { await grep -q say "$work/heard"; echo hello; await grep -q 'you said hello' "$work/heard"; } | "$@" >"$work/heard" 2>&1
    grep -q 'you said hello' "$work/heard" || { cat "$work/heard"; return 1; }
}
try_inetd() {
    optional inetd:openbsd-inetd || return 0
    local python; python=$(python3 -c 'import sys; print(sys.executable)')
    # Each connection as standard streams; the listener as standard input, once; a server of telnet.
    printf '%s\n' "9600 stream tcp nowait root /bin/cat cat" "9601 stream tcp wait root $python python3 $here/run.py takes_one" \
        "9602 stream tcp nowait root $(command -v telnetd) telnetd -h -E $work/shell" >"$work/inetd.conf"
    printf '#!/bin/sh\necho say\nread line\necho "you said $line"\nread line\n' >"$work/shell"; chmod 755 "$work/shell"
    served inetd 9600 inetd -i "$work/inetd.conf" || return 0
    check "inetd: nowait, cat with the connection as standard streams" peer_of python3 "$here/run.py" echoed $ip 9600 "$noise"
    same "inetd: wait, a service gets the listener" "one two " "$(for word in one two; do peer_of python3 "$here/run.py" said $ip 9601 $word; done | tr '\n' ' ')"
    if optional telnetd && optional telnet; then
        check "telnetd, for a telnet" talked peer_of telnet $ip 9602
    fi
    stop_server
    if optional telnetd && optional telnet; then
        beside 9602 inetd -i "$work/inetd.conf"
        check "telnet, with a telnetd" talked run -- telnet 10.10.0.2 9602
        end_beside
    fi
}

try_activation() {
    optional systemd-socket-activate:systemd || return 0
    local python; python=$(python3 -c 'import sys; print(sys.executable)')
    served "systemd-socket-activate" 9700 systemd-socket-activate -l 9700 "$python" "$here/run.py" activated || return 0
    check "socket activation: the listener is passed on" peer_of python3 "$here/run.py" echoed $ip 9700 "$noise"
    stop_server
    served "systemd-socket-activate --accept" 9701 systemd-socket-activate -a -l 9701 --inetd /bin/cat || return 0
    check "socket activation: a process for each connection" peer_of python3 "$here/run.py" echoed $ip 9701 "$noise"
    stop_server
}

try_socat() {
    optional socat || return 0
    beside 9300 socat TCP-LISTEN:9300,fork,reuseaddr EXEC:cat
    run -- socat -t 60 - TCP:10.10.0.2:9300 <"$noise" >"$work/got"; every_byte "socat: a client" "$work/got"
    end_beside
}

try_iperf3() {
    optional iperf3 || return 0
    beside 5201 iperf3 -s
    check "iperf3: a client sends" run -- iperf3 -c 10.10.0.2 -n 20M
    check "iperf3: a client receives, by four connections" run -- iperf3 -c 10.10.0.2 -n 20M -R -P 4
    end_beside
}

try_ping() {
    optional ping:iputils-ping || return 0
    "${running[@]}" -- sleep 100 >/dev/null 2>&1 & server=$!
    check "ping: the stack of a program answers" peer_of ping -nc 2 -W 20 $ip
    check "ping: over IPv6" peer_of ping -nc 2 -W 20 fd10::10
    stop_server
    check "ping: by the kernel's sockets, as it asks for" run -- ping -nc 1 -W 20 10.10.0.2
}

for program in ${EXOS_ONLY:-python openssl postgres php dropbear rsync ftp git inetd activation socat iperf3 ping}; do "try_$program"; done
exit $((failures > 0))
