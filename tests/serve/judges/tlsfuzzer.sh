#!/usr/bin/env bash
# TLS of the server before tlsfuzzer, which sends what no client should and knows which alert is right: its scripts that fit, with the
# deviations that are allowed and why in tlsfuzzer.py; in the long form with nginx beside it. Prints "ok NAME", "not ok NAME: why" or
# "SKIPPED: ..." lines, and how many conversations of each script went as they should on lines that begin with "#".
#
#   tests/serve/judges/tlsfuzzer.sh PATH/TO/exos [long]
#
# tlsfuzzer is no package: TLSFUZZER names a folder with a checkout, without which this is skipped. PYTHON names an interpreter with
# tlslite-ng; else one is made, where the package index can be reached.
. "$(dirname "$0")/../../common.sh"
repository=https://github.com/tlsfuzzer/tlsfuzzer
commit=14555fe211456c46deccc4b2d94751dbd894aece
tlslite=0.9.0b2
need_programs "tlsfuzzer" python3:python3 openssl:openssl
[ -n "${TLSFUZZER:-}" ] ||
    skip "tlsfuzzer" "TLSFUZZER names no checkout of it (git clone $repository, git checkout ${commit:0:12}, TLSFUZZER=FOLDER)"
[ -z "${2:-}" ] || need_programs "tlsfuzzer beside nginx" nginx:nginx-light
# What is fetched is fetched by the first of both runs, which has the network, and goes with the second.
fetched=${EXOS_TEST_FETCHED:-$(mktemp -d)}
export EXOS_TEST_FETCHED=$fetched
trap 'rm -rf "$fetched"' EXIT
trap 'exit 130' INT TERM
leave() { skip "tlsfuzzer" "$1"; }
python=${PYTHON:-python3}
if ! "$python" -c 'from tlslite.constants import SignatureScheme; SignatureScheme.mldsa87' 2>/dev/null; then
    python=$fetched/python/bin/python
    if ! { python3 -m venv "$fetched/python" && timeout 120 "$python" -m pip install -q --pre "tlslite-ng==$tlslite"; } >/dev/null 2>&1; then
        leave "tlslite-ng cannot be installed (python3 -m pip install --pre tlslite-ng==$tlslite)"
    fi
fi
export PYTHON=$python
be_alone "$@"
begin
in_the_end() { cleanup; rm -rf "$fetched"; }
trap '[ "$BASHPID" != $$ ] || in_the_end' EXIT

mkdir "$work/site" "$work/nginx"
echo home >"$work/site/index.html"
openssl req -x509 -newkey rsa:2048 -nodes -days 9 -subj /CN=localhost -keyout "$work/key" -out "$work/pem" 2>/dev/null
chmod 600 "$work/key"
launch "https://" "$exos" serve --sockets "$work/site" --address 127.0.0.1/8 --port 4430 --tls-port 4433 --tls-cert "$work/pem" --tls-key "$work/key" --json ||
    { bad "the server starts" "$(cat "$work/err")"; exit 1; }
ports=4433
if [ -n "${2:-}" ]; then
    cat >"$work/nginx/conf" <<END
daemon off; master_process off; pid $work/nginx/pid; error_log $work/nginx/error;
events { }
http { access_log off; ssl_certificate $work/pem; ssl_certificate_key $work/key; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:s:1m;
    client_body_temp_path $work/nginx/a; proxy_temp_path $work/nginx/b; fastcgi_temp_path $work/nginx/c;
    uwsgi_temp_path $work/nginx/d; scgi_temp_path $work/nginx/e;
    server { listen 127.0.0.1:4434 ssl; root $work/site; } }
END
    nginx -c "$work/nginx/conf" >/dev/null 2>&1 & peer=$!
    await curl -sfk -o /dev/null https://127.0.0.1:4434/ || { bad "nginx starts" "$(cat "$work/nginx/error")"; exit 1; }
    ports="4433 4434"
fi
# shellcheck disable=SC2086
"$python" "$here/tlsfuzzer.py" "$TLSFUZZER" "${2:-short}" $ports || failures=1
check "a page is served as before" test "$(curl -sk https://127.0.0.1:4433/)" = home
stop; same "the server ends in order" 0 $?
exit $((failures > 0))
