#!/usr/bin/env bash
# An application that shares its buffers with the server, on the lab wire over packets and over the kernel's sockets: pages of all kinds
# byte for byte, bodies, clients that are slow or go, the application stopped in order, and killed at random moments. It is the one in Rust
# (crates/application/examples/pages.rs), with `c` the same in C (crates/application-c/examples/pages.c), with `python` that in Python
# (crates/application/python), whose module is built here. Prints "ok NAME", "not ok NAME: why" and "SKIPPED: ..." lines.
#
#   tests/fastcgi/shared.sh PATH/TO/exos [c|python]
#
# Everything happens in namespaces of its own; what is started is ended by its id. Nothing here judges how fast it is.
. "$(dirname "$0")/../common.sh"
need_root "applications over AF_XDP"
need_programs "applications that share their buffers" python3 curl
language=${2:-rust}
built=$(dirname "$exos")
case $language in
    c) there=$built/libexos_application_c.so wants="cargo build -p exos-application-c" ;;
    python) there=$here/../../crates/application/python wants="it is part of the sources" ;;
    *) there=$built/examples/pages wants="cargo build -p exos-application --example pages" ;;
esac
[ -e "$there" ] || skip "applications that share their buffers" "there is no $there ($wants)"
case $language in
    c) need_programs "applications in C" cc:gcc ;;
    python)
        # Outside of the namespace, in which there is no network: some of what it needs may have to be fetched.
        module=$built/../python/debug/libexos_application_python.so
        said=$(timeout -k 2 1500 cargo build --quiet --manifest-path "$there/Cargo.toml" --target-dir "$built/../python" 2>&1) ||
            skip "applications in Python" "their module does not build here: $(tail -n 1 <<<"$said")"
        ;;
esac
be_alone "$@"
begin
lab=shared-$$
pages=$there
case $language in
    c)
        pages=$work/pages crate=$here/../../crates/application-c
        check "the application in C compiles" cc -std=c11 -O1 -Wall -Wextra -Werror "$crate/examples/pages.c" -I "$crate/include" -o "$pages" \
            -L "$built" -lexos_application_c "-Wl,-rpath,$built"
        [ -x "$pages" ] || exit 1
        ;;
    python)
        pages=$work/pages
        cp "$module" "$work/exos_application_python.so"
        printf '#!/bin/sh\nexec python3 "%s" "%s" "$1"\n' "$there/pages.py" "$work" >"$pages"
        chmod 755 "$pages"
        ;;
esac

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
body = "4MiB"
[[site.application]]
path = "/hasty/*"
to = "$work/pages.sock"
timeout = "5s"
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
    if client python3 "$here/shared.py" "$2" 80 "$pages" "$work/pages.sock" "$server" "$work/err" "$work/access.log" "$language"; then :; else failures=$((failures + 1)); fi
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
