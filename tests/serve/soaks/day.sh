#!/usr/bin/env bash
# A day of an operator in short: loads of all kinds at once (HTTP/1.1, TLS with full and resumed handshakes, HTTP/2, HTTP/3, requests passed on to an
# upstream and to a FastCGI application) and clients that break off, while certificates are replaced, documents change, and the configuration is
# read again, changed and spoilt at random times. No request fails that should not, memory and descriptors stay, counters fit together; what is
# done is in day.py. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/serve/soaks/day.sh PATH/TO/exos [SECONDS]
#   EXOS_SEED=7 tests/serve/soaks/day.sh PATH/TO/exos 900      other random times, and longer than a minute
#
# Everything happens in namespaces of a lab of its own.
. "$(dirname "$0")/../../common.sh"
need_root "a day of mixed load"
need_programs "a day of mixed load" python3 openssl
exec python3 -S "$here/day.py" "$exos" "${2:-60}" "${EXOS_SEED:-1}" "$here/../../fastcgi/application.py"
