#!/usr/bin/env bash
# HTTP/3 with a client that others have written, aioquic: on sockets over loopback, and on packets over the lab wire, on one core and
# on two. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/serve/http3.sh PATH/TO/exos
#
# Debian has no package of aioquic. PYTHON names an interpreter that has it: else one is made, where the package index can be reached.
. "$(dirname "$0")/../common.sh"
need_root "HTTP/3"
need_programs "HTTP/3" python3:python3 curl:curl
python=${PYTHON:-python3}
if ! "$python" -c 'import aioquic' 2>/dev/null; then
    [ -z "${EXOS_TEST_PYTHON:-}" ] || skip "HTTP/3" "$python has no aioquic"
    EXOS_TEST_PYTHON=$(mktemp -d)
    export EXOS_TEST_PYTHON
    python=$EXOS_TEST_PYTHON/bin/python
    if ! { python3 -m venv "$EXOS_TEST_PYTHON" && timeout 120 "$python" -m pip install -q aioquic; } >/dev/null 2>&1; then
        rm -rf "$EXOS_TEST_PYTHON"
        skip "HTTP/3" "aioquic cannot be installed (python3 -m pip install aioquic)"
    fi
fi
export PYTHON=$python
be_alone "$@"
begin
lab=http3-$$
# It is made by the first of both runs, and goes with the second.
in_the_end() { cleanup; [ -z "${EXOS_TEST_PYTHON:-}" ] || rm -rf "$EXOS_TEST_PYTHON"; }
trap in_the_end EXIT

site=$work/site
mkdir "$site"
echo home >"$site/index.html"
head -c 100000 /dev/urandom >"$site/middle.bin"
head -c 4000000 /dev/urandom >"$site/wide.bin"
head -c 20000000 /dev/urandom >"$site/long.bin"
common="--port 8080 --tls-port 8443 --tls-self-signed --http3 --shutdown-timeout 60s --log $work/access.log"

# judge RUNNER IP [MORE]: what aioquic finds.
judge() {
    local run=$1 ip=$2 line has_ended=no; shift 2
    while read -r line; do
        case $line in
            "ok "*) ok "${line#ok }" ;;
            end) has_ended=yes ;;
            *) bad "${line#not ok }" ;;
        esac
    done < <($run timeout 120 "$PYTHON" "$here/http3.py" "$ip" 8443 "$site" "$@" 2>&1)
    same "the client comes to its end" yes $has_ended
}
# all RUNNER IP: of a server that has just begun; it ends.
all() {
    judge "$1" "$2"
    has "HTTPS says where HTTP/3 is" 'h3=":8443"' "$($1 curl -sSkI -m 60 "https://$2:8443/" 2>&1)"
    same "HTTP does not" "" "$($1 curl -sSI -m 60 "http://$2:8080/" 2>&1 | grep -i alt-svc)"
    judge "$1" "$2" --stop "$server"
    wait "$server"; same "it ends in order" 0 $?; server=
    has "the log says so" 'GET /middle.bin HTTP/3.0" 200 100000' "$(cat "$work/access.log")"
    rm "$work/access.log"
}

about="sockets: "
# shellcheck disable=SC2086
if launch "https://" "$exos" serve --sockets "$site" $common; then
    all "" 127.0.0.1
else
    bad "it starts" "$(cat "$work/err")"
fi

about="packets: "
lab_up
# shellcheck disable=SC2086
if launch_in_lab "$site" --link xdp:wire --address 10.10.0.10/24 $common; then
    all client 10.10.0.10
else
    bad "it starts" "$(cat "$work/err")"
fi
# shellcheck disable=SC2086
launch_in_lab "$site" --link xdp:wire --share-address $common
has "beside the host it is refused" "there are no datagrams for HTTP/3" "$(cat "$work/err")"
"$exos" lab down --name "$lab" >/dev/null 2>&1

about="two cores: "
# shellcheck disable=SC2086
if [ "$(nproc)" -lt 2 ]; then
    echo "SKIPPED: HTTP/3 on two cores: there is one"
elif lab_up --queues 2 && launch_in_lab "$site" --link xdp:wire --address 10.10.0.10/24 $common --cores 2; then
    for _ in 1 2 3; do judge client 10.10.0.10; done
    all client 10.10.0.10
else
    bad "it starts" "$(cat "$work/err")"
fi
[ $failures = 0 ]
