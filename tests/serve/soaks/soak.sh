#!/usr/bin/env bash
# A soak: the release binary answers requests of all kinds while its documents change and are read again, and its memory
# is constant; what is done is in soak.py. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/serve/soaks/soak.sh PATH/TO/exos [in-kernel]
#   EXOS_REQUESTS=10000000 tests/serve/soaks/soak.sh PATH/TO/exos      longer
#
# Everything happens in namespaces of a lab of its own and takes half a minute, also beside much else.
. "$(dirname "$0")/../../common.sh"
need_root "a soak"
need_programs "a soak" python3 wrk
exec python3 -S "$here/soak.py" "$exos" "${EXOS_REQUESTS:-50000}" $in_kernel
