#!/usr/bin/env bash
# What is linked into the binary is under licences that docs/licences.md has, and those that are not MIT or Apache-2.0 are named there. Prints "ok NAME",
# "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/licences.sh
cd "$(dirname "$0")/.." || exit 1
command -v cargo >/dev/null || { echo "SKIPPED: licences: there is no cargo"; exit; }
# A line of each library: its licence, and its name.
linked=$(cargo tree --locked --offline -e normal -p exos-cli --prefix none --format '{l}|{p}') || { echo "not ok licences: cargo tree has failed"; exit 1; }
# bad LINE WHY
bad() { echo "not ok licences: ${1#*|} is under ${1%%|*}, $2"; failures=$((failures + 1)); }
failures=0
while IFS= read -r line; do
    name=${line#*|}; name=${name%% *}
    case $name in exos | exos-*) continue ;; esac
    # Where MIT or Apache-2.0 is a choice, it is taken.
    case " ${line%%|*} " in
        *" AND "*) choice=no ;;
        *[" /("]MIT[" /)"]* | *[" /("]Apache-2.0[" /)"]*) choice=yes ;;
        *) choice=no ;;
    esac
    case ${line%%|*} in "Apache-2.0 WITH LLVM-exception") choice=no ;; esac
    [ $choice = yes ] && continue
    # Families are written with a star.
    family=${name%%-*}
    grep -qE "\`$name\`|\`$family-\*\`" docs/licences.md || bad "$line" "and docs/licences.md does not name it"
    for licence in $(tr -d '()' <<<"${line%%|*}" | sed 's/ WITH LLVM-exception//; s/ AND / /g; s/ OR / /g'); do
        grep -qF "$licence" docs/licences.md || bad "$line" "and docs/licences.md does not have $licence"
    done
done < <(sed 's/ (\*)$//' <<<"$linked" | sort -u)
[ $failures = 0 ] && echo "ok licences: $(grep -c . <<<"$linked") lines of cargo tree"
[ $failures = 0 ]
