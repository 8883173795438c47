#!/usr/bin/env bash
# exos run: programs of languages whose tools are large, Go and Java, each as a server and as a client. Go's go by intercepted calls
# where they are static. Prints "ok NAME", "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/run/languages/languages.sh PATH/TO/exos [--intercept]
. "$(dirname "$0")/../common.sh"
begin_runs languages

# both_ways NAME PROGRAM...: serves files to others, and gets one from them, byte for byte.
both_ways() {
    local name=$1; shift
    if served "$name" 8080 "$@" serve "$work/docs" 8080; then
        check "$name: a server" got "http://$ip:8080/noise"
        optional ab:apache2-utils && has "$name: 50 connections at once" "Failed requests:        0" "$(peer_of ab -qn 1000 -c 50 "http://$ip:8080/small" 2>&1)"
        stop_server
    fi
    check "$name: a client" run -- "$@" get http://10.10.0.2:8000/noise "$work/docs/noise"
}

beside 8000 python3 -m http.server 8000 --directory "$work/docs"
if optional go:golang-go; then
    CGO_ENABLED=0 go build -o "$work/go-static" "$here/languages.go" || bad "compiling for Go"
    both_ways "Go, static" "$work/go-static"
    if command -v cc >/dev/null; then
        CGO_ENABLED=1 go build -o "$work/go-shared" "$here/languages.go" || bad "compiling for Go"
        both_ways "Go, with the C library" "$work/go-shared"
    fi
fi
if optional javac:default-jdk-headless; then
    javac -d "$work/classes" "$here/RunLanguages.java" || bad "compiling for Java"
    both_ways "Java" java -cp "$work/classes" RunLanguages
fi
exit $((failures > 0))
