#!/usr/bin/env bash
# Debian's own kernels in QEMU with emulated cards: serve, load, forward, the daemon and dump in the guest, against this
# machine's stack, byte for byte. Prints "ok NAME", "not ok NAME: why" and "SKIPPED: ..." lines.
#
#   tests/kernels/kernels.sh PATH/TO/exos [SUITE...]     bookworm and bookworm-backports when left out: Linux 6.1 and 6.12
#   EXOS_KERNEL_PARTS="vlan bond" tests/kernels/kernels.sh PATH/TO/exos      some parts: programs, cards, daemon, live, vlan, bond
#
# Kernels come from Debian's archive and are kept in target/kernels. The machine needs no virtualisation: where it has
# none the processor is emulated, which takes some minutes. All cards are in one guest, which has the interfaces
#
#   one     virtio-net with one queue             fixed   virtio-net whose guest offloads cannot be turned off
#   two     virtio-net with two queues            plain   e1000e, whose driver runs no XDP programs
#
# each with a TAP of the same name in a namespace of this script's at the other end. The guest has an initramfs made of
# this machine's programs and libraries, and does what it is told over a serial port. It runs the test program
# $EXOS_FILTER_TESTS of the crate exos-filter, too, if there is one: the guest's verifier judges all that we load.
. "$(dirname "$0")/../common.sh"
suites=("${@:2}")
[ ${#suites[@]} -gt 0 ] || suites=(bookworm bookworm-backports)
need_root "Debian's kernels in QEMU"
need_programs "Debian's kernels in QEMU" qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio xz:xz-utils \
    depmod:kmod apt-get:apt dpkg:dpkg ip:iproute2 ethtool tc:iproute2 curl python3 strip:binutils
. "$here/guest.sh"
. "$here/layered.sh"
parts=" ${EXOS_KERNEL_PARTS:-programs cards daemon live vlan bond} "
begin
mkdir "$work/site"
echo hello >"$work/site/index.html"
head -c 3000000 /dev/urandom >"$work/site/noise"
strip -o "$work/exos" "$exos"
[ -z "${EXOS_FILTER_TESTS:-}" ] || strip -o "$work/filter-tests" "$EXOS_FILTER_TESTS"

net=kernels-$$
cards=(one two fixed plain)
cleanup() {
    # shellcheck disable=SC2086
    end $peer $guest
    ip netns delete "$net" 2>/dev/null
    rm -rf "$work"
}
# outside COMMAND...: in the namespace at the other end of the cards.
outside() { ip netns exec "$net" timeout -k 5 300 "$@"; }

# network: TAPs named as the cards, the N-th with 10.N.0.2 and fd00:N::2.
network() {
    ip netns add "$net" && outside ip link set lo up || return 1
    local at=0 card
    for card in "${cards[@]}"; do
        at=$((at + 1))
        outside ip tuntap add dev "$card" mode tap vnet_hdr $([ "$card" != two ] || echo multi_queue) &&
            outside sysctl -qw "net.ipv6.conf.$card.accept_dad=0" &&
            outside ip link set "$card" up && outside ip address add 10.$at.0.2/24 dev "$card" &&
            outside ip address add fd00:$at::2/64 dev "$card" || return 1
    done
}
number_of() { local at=1 card; for card in "${cards[@]}"; do [ "$card" != "$1" ] || echo $at; at=$((at + 1)); done; }

# END OF SETUP

# in_guest NAME WORDS COMMAND: starts a program in the guest, whose process there is $program, and waits until a line of what
# it says, in /tmp/NAME, begins with these words.
in_guest() {
    program=$(guest_do "$3 >/tmp/$1 2>&1 & echo \$!") &&
        guest_do "until grep -q '^$2' /tmp/$1; do [ -d /proc/$program ] || break; sleep 0.1; done; grep -q '^$2' /tmp/$1 || { cat /tmp/$1; false; }" >"$work/said"
}
# stop_in_guest: ends $program in order.
stop_in_guest() { guest_do "kill $program; wait $program" >"$work/said"; }
# fetched URL: that it gives the bytes of the site's large document.
fetched() { outside curl -sS -m 120 -o "$work/got" "$1/noise" && cmp "$work/got" "$work/site/noise"; }
# twelve URL: this many connections, one after the other.
twelve() { local at; for at in $(seq 12); do [ "$(outside curl -sS -m 60 "$1/")" = hello ] || return 1; done; }
# peer_echoes PORT: a server here that sends back what comes.
peer_echoes() {
    : >"$work/echo"
    ip netns exec "$net" python3 -S "$here/../tools/tools.py" serve-echo "$1" >"$work/echo" 2>&1 &
    peer=$!
    await grep -q listening "$work/echo"
}

# peer_serves ADDRESS: a web server here, with the site.
peer_serves() {
    ip netns exec "$net" python3 -S -m http.server --directory "$work/site" 8000 >"$work/http" 2>&1 &
    peer=$!
    await outside curl -s -o /dev/null "http://$1:8000/"
}
# is_before VERSION: the guest's kernel is older.
is_before() { [ "$version" != "$1" ] && [ "$(printf '%s\n' "$version" "$1" | sort -V | head -n 1)" = "$version" ]; }

# card NAME: programs on a card of the guest, with addresses of their own.
card() {
    local at own served option
    at=$(number_of "$1")
    own="--link xdp:$1 --address 10.$at.0.9/24 --address fd00:$at::9/64"
    about="Linux $version, $1: "
    if in_guest serve http "exos serve /site $own"; then
        served=$program
        echo "# $about$(guest_do "grep -o 'interface .*' /tmp/serve")"
        check "serve, IPv4, a document byte for byte" fetched http://10.$at.0.9
        check "serve, IPv6, a document byte for byte" fetched "http://[fd00:$at::9]"
        check "serve, twelve connections" twelve http://10.$at.0.9
        if in_guest dump '.*listening' "exos dump -i $1 -c 4 tcp"; then
            outside curl -sS -m 60 http://10.$at.0.9/ >/dev/null
            check "dump sees packets of the server" guest_do "wait $program; grep -q '10.$at.0.9.80' /tmp/dump"
        else
            bad "dump starts" "$(cat "$work/said")"
        fi
        check "serve ends in order" guest_do "kill $served; wait $served"
    else
        bad "serve starts" "$(cat "$work/said")"
    fi
    # What comes to a card whose merging cannot be ended is lost before Linux 6.6, and said to be.
    if [ "$1" = fixed ] && is_before 6.6; then
        check "merged packets are said to be lost" guest_do "grep -q 'merged ones are lost' /tmp/serve"
        return
    fi
    if peer_echoes 5001; then
        check "cat, a document there and back" guest_do "exos cat 10.$at.0.2:5001 $own </site/noise >/tmp/got 2>/tmp/cat && cmp /tmp/got /site/noise"
        end $peer; peer=
    fi
    peer_serves 10.$at.0.2
    check "load, 200 requests" guest_do "exos load http://10.$at.0.2:8000/index.html -n 200 -c 4 $own --fail-if 'error-share>0%' >/tmp/load 2>&1 || { tail -n 3 /tmp/load; false; }"
    case $1 in
        fixed)
            has "forward says what is in the way, and what to do" "guest offloads" \
                "$(guest_do "exos forward --link xdp:fixed --address 10.$at.0.7/24 --listen 10.$at.0.7:80 --to 10.$at.0.2:8000")"
            ;;
        plain) forwarded plain $at "" ;;
        *) for option in "" --in-kernel; do forwarded "$1" $at "$option"; done ;;
    esac
    end $peer; peer=
}

# forwarded CARD NUMBER OPTION: a document through the guest's forwarder, from a server here on another address.
forwarded() {
    if in_guest forward tcp "exos forward --link xdp:$1 --address 10.$2.0.7/24 --listen 10.$2.0.7:80 --to 10.$2.0.2:8000 $3"; then
        check "forward${3:+ $3}, a document byte for byte" fetched http://10.$2.0.7
        stop_in_guest
    else
        bad "forward${3:+ $3} starts" "$(cat "$work/said")"
    fi
}

# veth: a pair within the guest, whose other end takes nothing that is redirected to it.
veth() {
    guest_do "/bin/ip link add inner type veth peer name outer && /bin/ip link set inner up && /bin/ip link set outer up"
    has "forward --in-kernel says that packets would be lost" "the other end of this veth" \
        "$(guest_do "exos forward --link xdp:inner --address 10.99.0.7/24 --listen 10.99.0.7:80 --to 10.99.0.2:8000 --in-kernel")"
    guest_do "/bin/ip link delete inner"
}

# lent CARD: the daemon, and programs of a user without privilege.
lent() {
    local at daemon serve said nobody="/bin/setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all"
    at=$(number_of "$1")
    about="Linux $version, the daemon on $1: "
    local command="exos daemon --interface $1 --address 10.$at.0.9/24 --address fd00:$at::9/64 --user 65534"
    in_guest daemon '.*listening at' "$command" || { bad "it starts" "$(cat "$work/said")"; return; }
    daemon=$program
    ok "it starts"
    said=$(guest_do "cat /tmp/daemon")
    if is_before 6.2; then has "segments sent one by one are announced" "Linux 6.2 and later" "$said"; fi
    if [ "$1" = fixed ]; then has "what is lost is announced" "uploads to programs crawl" "$said"; fi
    if in_guest lent http "$nobody exos serve /site --port 8080 --address 10.$at.0.9/24 --address fd00:$at::9/64"; then
        serve=$program
        check "serve, IPv4, a document byte for byte" fetched http://10.$at.0.9:8080
        check "serve, IPv6, a document byte for byte" fetched "http://[fd00:$at::9]:8080"
        check "it answers pings" outside ping -c 2 -W 20 10.$at.0.9
        if in_guest dump '.*listening' "$nobody exos dump -c 4 tcp"; then
            outside curl -sS -m 60 http://10.$at.0.9:8080/ >/dev/null
            check "dump sees packets" guest_do "wait $program; grep -q '10.$at.0.9.8080' /tmp/dump"
        else
            bad "dump starts" "$(cat "$work/said")"
        fi
        if in_guest metrics metrics "$nobody exos metrics --listen 127.0.0.1:9100"; then
            check "metrics count its packets" guest_do "wget -qO- http://127.0.0.1:9100/metrics | grep -q '^exos_rx_packets_total{.*serve.* [1-9]'"
            stop_in_guest
        else
            bad "metrics starts" "$(cat "$work/said")"
        fi
        check "top shows it" guest_do "exos top --json | grep -q serve"
        guest_do "kill -9 $daemon; wait $daemon" >/dev/null
        check "killed: its program goes on" fetched http://10.$at.0.9:8080
        if in_guest daemon '.*listening at' "$command"; then
            daemon=$program
            check "started again: its program goes on" fetched http://10.$at.0.9:8080
        else
            bad "it starts again" "$(cat "$work/said")"
        fi
        guest_do "kill $serve; wait $serve" >/dev/null
    else
        bad "serve starts" "$(cat "$work/said")"
    fi
    [ "$1" = fixed ] || lent_clients $at
    check "it ends in order" guest_do "kill $daemon; wait $daemon"
    same "the interface is as before" "" "$(guest_do "tc qdisc show dev $1 | grep clsact; /bin/ip link show $1 | grep xdp; /bin/ip -br link | grep xok; ls /sys/fs/bpf/exos 2>/dev/null")"
}

# lent_clients NUMBER: programs of a user without privilege that connect, from an address of the daemon's.
lent_clients() {
    local command
    if peer_echoes 5001; then
        check "cat, a document there and back" guest_do "$nobody exos cat 10.$1.0.2:5001 </site/noise >/tmp/got 2>/tmp/cat && cmp /tmp/got /site/noise"
        end $peer; peer=
    fi
    peer_serves 10.$1.0.2
    check "load, 200 requests" guest_do "$nobody exos load http://10.$1.0.2:8000/index.html -n 200 -c 4 --fail-if 'error-share>0%' >/tmp/load 2>&1 || { tail -n 3 /tmp/load; false; }"
    end $peer; peer=
    command="exos serve /site --via xokd --mode direct --port 8081"
    if is_before 6.5; then
        has "a queue of the interface is refused with the reason" "use Linux 6.5 or newer" "$(guest_do "$command" 2>&1)"
    elif in_guest direct http "$command"; then
        check "serve on a queue of the interface, a document byte for byte" fetched http://10.$1.0.9:8081
        check "it ends in order" guest_do "kill $program; wait $program"
    else
        bad "serve on a queue of the interface starts" "$(cat "$work/said")"
    fi
}

# live CARD: whether many frames at once leave in live frame mode, and whether doctor says so.
live() {
    local at said frames
    at=$(number_of "$1")
    about="Linux $version, $1: "
    said=$(guest_do "exos doctor $1" | sed -n 's/.*\(takes .*redirected frames.*\)/\1/p')
    is_before 6.3 && said="takes no redirected frames: Linux before 6.3 does not say"
    echo "# ${about}doctor: ${said:-nothing of live frames}"
    in_guest serve http "exos serve /site --link xdp:$1 --address 10.$at.0.9/24 --json" || { bad "serve starts" "$(cat "$work/said")"; return; }
    outside "$exos" load --sockets --quiet "http://10.$at.0.9/" -c 256 -d 10s >"$work/said" 2>&1
    guest_do "kill -USR1 $program; sleep 2" >/dev/null
    frames=$(guest_do "tail -n 1 /tmp/serve | grep -o 'link_tx_live_frames\":[0-9]*\|link_tx_frames\":[0-9]*'" | tr '\n' ' ')
    echo "# $about$frames"
    if [[ $1 = two ]]; then
        # A frame leaves so where it arrives by the queue of the processor that sends it: by chance.
        :
    elif [[ $said = "takes redirected"* || $said = *"frames yet"* ]]; then
        check "frames leave in live frame mode" test "$(sed 's/.*live_frames":\([0-9]*\).*/\1/' <<<"$frames")" -gt 0
    else
        has "no frame leaves in live frame mode" 'live_frames":0' "$frames"
    fi
    stop_in_guest
}

# in_the_kernel: the tests of crate exos-filter that run programs in this kernel, with fewer random filters than elsewhere.
in_the_kernel() {
    local modules="kernel_agreement gate_agreement gate_wire guard interpreter syn_handler"
    [ -f "$work/filter-tests" ] || { echo "SKIPPED: ${about}our programs in this kernel: \$EXOS_FILTER_TESTS is not set"; return; }
    if guest_do "EXOS_FILTER_CASES=50 timeout 900 filter-tests --test-threads 2 --skip time $modules >/tmp/tests 2>&1" 960; then
        ok "it takes our programs, and runs them as they are meant: $(guest_do "grep -o '[0-9]* passed' /tmp/tests")"
    else
        bad "it takes our programs, and runs them as they are meant" "$(guest_do "grep -e FAILED /tmp/tests; grep -A 6 panicked /tmp/tests | head -n 60")"
    fi
}

network || { bad "a namespace with TAPs" "$(ip netns list)"; exit 1; }
for suite in "${suites[@]}"; do
    if ! find_kernel "$suite"; then
        echo "SKIPPED: the kernel of $suite: $(tail -n 1 "$work/said")"
        continue
    fi
    make_initramfs && boot || { bad "Linux $release boots" "$(tail -n 5 "$work/qemu" "$work/console")"; continue; }
    # "... Debian 6.1.192-1 (DATE)"
    version=$(guest_do "uname -v" | sed -E 's/.* Debian ([0-9.]+).*/\1/')
    about=; ok "Linux $version boots"
    about="Linux $version: "
    if [[ $parts = *" programs "* ]]; then in_the_kernel; fi
    if [[ $parts = *" cards "* ]]; then
        for card in "${cards[@]}"; do card "$card"; done
        about="Linux $version, a veth: "; veth
    fi
    if [[ $parts = *" daemon "* ]]; then for card in "${cards[@]}"; do lent "$card"; done; fi
    if [[ $parts = *" live "* ]]; then for card in one two plain; do live "$card"; done; fi
    # shellcheck disable=SC2046
    layered $(grep -owE 'vlan|bond' <<<"$parts")
    about="Linux $version: "
    same "doctor: no native XDP on a card that cannot stop merging" 0 "$(guest_do "exos doctor fixed | grep -c ', native XDP'")"
    if is_before 6.5; then has "doctor: what a daemon lends less" "a daemon lends less" "$(guest_do "exos doctor one")"; fi
    halt
done
exit $((failures > 0))
