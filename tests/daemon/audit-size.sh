#!/usr/bin/env bash
# How much there is to read before trusting the privileged process: lines of code, crate by crate.
#
#   tests/daemon/audit-size.sh target/release/xokd
#
# Counts the source files that the binary has code from, as its line tables say (objdump of binutils), without comments,
# blank lines and tests. A file counts whole even where only a part of it is reached, so the numbers for the libraries
# are upper bounds; files with nothing but types and constants count only where xokd itself is concerned.
set -euo pipefail
binary=$(realpath "${1:?give a binary of xokd with line tables: cargo build --release -p exos-xokd}")
cd "$(dirname "$0")/../.."

# code FILE: the lines that are neither comment nor blank nor of an item for tests alone, which ends with its first line or
# with the brace that closes it.
code() {
    awk '/^#\[cfg\(test\)\]/ { test = 1; next }
        test == 1 { test = /[{]$/ ? 2 : /[;}]$/ ? 0 : 1; next }
        test == 2 { if (/^}/) test = 0; next }
        /^[[:space:]]*($|\/\/)/ { next }
        { n++ } END { print n + 0 }' "$1"
}

files=$({
    objdump --dwarf=decodedline "$binary" 2>/dev/null | grep -oE '^crates/[a-z0-9_/]+\.rs' || true
    find crates/xokd/src -name '*.rs'
} | grep -v '/tests\(/\|\.rs\)' | sort -u)
[ "$(grep -vc '^crates/xokd/' <<<"$files")" -gt 0 ] || { echo "$binary has no line tables" >&2; exit 1; }

printf '%-8s %6s %6s\n' crate files lines
total=0
for crate in xokd host link xok filter wire inet ring; do
    count=0 lines=0
    for file in $(grep "^crates/$crate/src/" <<<"$files" || true); do
        count=$((count + 1)) lines=$((lines + $(code "$file")))
    done
    printf '%-8s %6d %6d\n' $crate $count $lines
    total=$((total + lines))
done
printf '%-8s %6s %6d\n' all '' $total
