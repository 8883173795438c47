# What the tests of the forwarder have in common; to be sourced, with the release binary in $1: four namespaces on one bridge,
# Linux's stack as client and as servers, and what clients see. What is started is ended by its id, and the namespaces go, also
# when the script is interrupted.
. "$(dirname "$0")/../common.sh"
need_root "exos forward over AF_XDP"
need_programs "exos forward" ip ethtool ping python3 curl
begin
. "$here/hosts.sh"
net=forward-$$
reports=$work/out
hosts=(client forwarder one two)
started=()

cleanup() {
    local host
    # shellcheck disable=SC2086
    end $server ${started[@]+"${started[@]}"} "${servers[@]}"
    for host in "${hosts[@]}" switch; do ip netns delete "$net-$host" 2>/dev/null; done
    rm -rf "$work" "/etc/netns/$net-forwarder"
}
network() {
    switch && host client 1 && host forwarder 0 && host one 11 && host two 12
}
# start ARGUMENTS...: the forwarder, on a link of $link_kind.
link_kind=xdp
start() {
    launch tcp ip netns exec "$net-forwarder" "$exos" forward --link "$link_kind:wire" --address 10.10.0.20/24 \
        --address fd10::20/64 --json "$@" || { bad "it starts" "$(cat "$work/err")"; exit 1; }
}
run_forwarder() { in_ forwarder timeout 60 "$exos" forward "$@"; }
ask_for_report() { kill -USR1 "$server"; }

network || { bad "a bridge and four namespaces" "$(ip netns list)"; exit 1; }

serve_on one two

# all WIRE: what clients see.
all() { about="$1 wire: "; clients_see; about=; }
# slow ADDRESS: bytes both ways for some seconds.
slow() { peer client slow "$1" 7 300000 "$work/slow-$1"; }

listen=(--listen)
for port in 80 7 9 6; do listen+=("10.10.0.20:$port" "[fd10::20]:$port"); done
for port in 7 9; do listen+=("udp:10.10.0.20:$port" "udp:[fd10::20]:$port"); done
to=(--to 10.10.0.11 10.10.0.12 fd10::11 fd10::12)
