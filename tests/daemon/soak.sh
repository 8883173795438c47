#!/usr/bin/env bash
# A soak of the daemon: three programs behind it carry mixed traffic and are killed and started again at random, as is the
# daemon; what is done and judged is in soak.py. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines, and
# what was measured on lines that begin with "#".
#
#   tests/daemon/soak.sh PATH/TO/exos                    20 seconds
#   tests/daemon/soak.sh PATH/TO/exos 3600 [SEED]        an hour; the seed of an earlier run repeats its kills
#
# Everything happens in namespaces of a lab of its own.
. "$(dirname "$0")/../common.sh"
need_root "a soak of the daemon"
need_programs "a soak of the daemon" python3 curl ip:iproute2 setpriv:util-linux
exec python3 -S "$here/soak.py" "$exos" "${2:-20}" "${3:-$RANDOM}"
