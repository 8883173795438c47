#!/usr/bin/env bash
# An application that shares its buffers with the server (crates/application/examples/pages.rs), on the lab wire over packets and over the
# kernel's sockets: pages of all kinds byte for byte, bodies, clients that are slow or go, and the application killed at random moments. Prints
# "ok NAME", "not ok NAME: why" and "SKIPPED: ..." lines.
#
#   tests/fastcgi/shared.sh PATH/TO/exos
#
# Everything happens in namespaces of its own; what is started is ended by its id. Nothing here judges how fast it is.
. "$(dirname "$0")/../common.sh"
need_root "applications over AF_XDP"
need_programs "applications that share their buffers" python3 curl
pages=$(dirname "$exos")/examples/pages
[ -x "$pages" ] || skip "applications that share their buffers" "there is no $pages (cargo build -p exos-application --example pages)"
be_alone "$@"
begin
lab=shared-$$

mkdir "$work/site" && chmod 755 "$work"
echo static >"$work/site/static.txt"
echo 'name:$5$salt$h/7Zr.6Jk/Yek5pgiWNJ/ymZJAZLBbwl.Q90ZedYE67' >"$work/users"
cat >"$work/serve.toml" <<END
[log]
file = "access.log"
[[site]]
root = "site"
[[site.application]]
path = "/app/*"
to = "$work/pages.sock"
timeout = "5s"
body = "4MiB"
[[site.application]]
path = "/few/*"
to = "$work/pages.sock"
requests = 4
[[site.application]]
path = "/nobody/*"
to = "$work/nobody.sock"
[[site.access]]
path = "/app/variables/secret/*"
rules = ["deny all"]
[[site.access]]
path = "/app/variables/users/*"
users = "$work/users"
[[site.fields]]
path = "/app/*"
set = { X-Rule = "yes" }
END

# behave WHERE ADDRESS
behave() {
    about="$1: "
    if client python3 "$here/shared.py" "$2" 80 "$pages" "$work/pages.sock" "$server" "$work/err" "$work/access.log"; then :; else failures=$((failures + 1)); fi
    about=
}

lab_up || { bad "lab up"; exit 1; }
wire=$(client ip -br link | grep -v '^lo' | cut -d' ' -f1 | cut -d@ -f1)
if launch_in_lab --config "$work/serve.toml" --link "xdp:$wire" --address 10.10.0.10/24 --json; then
    behave packets 10.10.0.10
    stop; same "packets: it stops in order" 0 $?
else
    bad "the server starts" "$(cat "$work/err")"
fi
if launch_in_lab --config "$work/serve.toml" --sockets --json; then
    behave sockets 10.10.0.1
    stop; same "sockets: it stops in order" 0 $?
else
    bad "the server starts on sockets" "$(cat "$work/err")"
fi
exit $failures
