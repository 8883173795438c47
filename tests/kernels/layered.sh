# The interfaces of tests/kernels/kernels.sh that stand on others: a VLAN, and a bond with its members. Both ends are in the guest, over
# two veth pairs: this machine's kernel may have neither. Client and server, curl and that of busybox, are in the namespace `far`.
#
#   near0 ====== far0      near0.5 (10.5.0.1) ── far0.5 (10.5.0.2), over the first pair
#   near1 ====== far1      both (10.6.0.1)    ── both (10.6.0.2), active-backup, over both pairs

far() { guest_do "/bin/ip netns exec far $1" "${2:-300}"; }
# gets URL: that a client in `far` gets the bytes of the site's large document.
gets() { far "sh -c 'curl -sS -m 60 -o /tmp/far http://$1/noise && cmp /tmp/far /site/noise'"; }
# gets_soon URL: as soon as it can.
gets_soon() { local limit=$((SECONDS + 90)); until gets "$1"; do [ $SECONDS -lt $limit ] || return 1; done; }

two_pairs() {
    guest_do "/bin/ip netns add far && for n in 0 1; do /bin/ip link add near\$n type veth peer name far\$n netns far && /bin/ip link set near\$n up && /bin/ip -n far link set far\$n up || exit 1; done" &&
        guest_do "/bin/ip address add 10.4.0.1/24 dev near0 && /bin/ip -n far address add 10.4.0.2/24 dev far0 && /bin/ip -n far link set lo up"
}
no_pairs() { guest_do "for n in 0 1; do /bin/ip link delete near\$n; done; /bin/ip netns delete far"; }

vlan_up() {
    guest_do "/bin/ip link add link near0 name near0.5 type vlan id 5 && /bin/ip link set near0.5 up && /bin/ip address add 10.5.0.1/24 dev near0.5" &&
        far "sh -c '/bin/ip link add link far0 name far0.5 type vlan id 5 && /bin/ip link set far0.5 up && /bin/ip address add 10.5.0.2/24 dev far0.5'"
}
# The module makes a `bond0` of its own, without members.
bond_up() {
    local end side address=1
    for end in near far; do
        side=$([ $end = near ] && echo sh || echo "/bin/ip netns exec far sh")
        guest_do "$side -c '/bin/ip link add both type bond mode active-backup miimon 50 && for n in 0 1; do /bin/ip link set $end\$n down && /bin/ip link set $end\$n master both || exit 1; done && /bin/ip link set both type bond primary ${end}0 && /bin/ip link set both up && /bin/ip address add 10.6.0.$address/24 dev both'" ||
            return 1
        address=2
    done
    local limit=$((SECONDS + 60))
    until far "ping -c 1 -W 2 10.6.0.1" >/dev/null; do [ $SECONDS -lt $limit ] || return 1; done
}

vlan_of_bond_up() {
    guest_do "/bin/ip link add link both name both.7 type vlan id 7 && /bin/ip link set both.7 up && /bin/ip address add 10.7.0.1/24 dev both.7" &&
        far "sh -c '/bin/ip link add link both name both.7 type vlan id 7 && /bin/ip link set both.7 up && /bin/ip address add 10.7.0.2/24 dev both.7 && httpd -p 10.7.0.2:8000 -h /site'"
}

# served LINK NETWORK: documents from our server on it, to `far`.
served() {
    if in_guest layered http "exos serve /site --link $1 --address $2.9/24"; then
        echo "# $about$(guest_do "grep -o 'interface .*' /tmp/layered")"
        check "serve --link $1, a document byte for byte" gets_soon $2.9
        [ -z "${3:-}" ] || "$3" "$1" $2.9
        check "serve --link $1 ends in order" stop_in_guest
    elif [[ $1 = packet:* ]] && is_before 6.6; then
        has "serve --link $1 is refused with the reason" "6.6" "$(cat "$work/said")"
    else
        bad "serve --link $1 starts" "$(cat "$work/said")"
    fi
}
# loaded LINK NETWORK
loaded() {
    check "load --link $1" guest_do "exos load http://$2.2:8000/index.html -n 50 -c 2 --link $1 --address $2.8/24 --fail-if 'error-share>0%' >/tmp/load 2>&1 || { tail -n 3 /tmp/load; false; }"
}
# sent_on LINK NETWORK [OPTION]
sent_on() {
    if in_guest forward tcp "exos forward --link $1 --address $2.7/24 --listen $2.7:80 --to $2.2:8000 ${3:-}"; then
        check "forward --link $1${3:+ $3}, a document byte for byte" gets_soon $2.7
        stop_in_guest
    else
        echo "# ${about}forward --link $1${3:+ $3}: $(tail -n 1 "$work/said")"
        [ -n "${3:-}" ] && ok "forward --link $1 $3 is refused with a reason" || bad "forward --link $1 starts" "$(cat "$work/said")"
    fi
}
sent_by_kernel="grep -q 'kernel_forwarded_to_clients[^0-9]*[1-9]' /tmp/forward"
# sent_between LINK NETWORK LINK NETWORK [OPTION]: clients on the first, servers on the second.
sent_between() {
    local name="forward from $1 to $3${5:+ $5}"
    if in_guest forward tcp "exos forward --link $1 --address $2.7/24 --link $3 --address $4.7/24 --listen $2.7:80 --to $4.2:8000 ${5:-}"; then
        check "$name, a document byte for byte" gets_soon $2.7
        [ -z "${5:-}" ] || check "$name: the kernel sent it on" guest_do "kill -USR1 $program; n=0; until $sent_by_kernel || [ \$n = 100 ]; do n=\$((n + 1)); sleep 0.1; done; $sent_by_kernel"
        check "$name ends in order" stop_in_guest
    else
        bad "$name starts" "$(cat "$work/said")"
    fi
}
# lent_on INTERFACE NETWORK: a server behind a daemon on it.
lent_on() {
    local daemon
    in_guest daemon '.*listening at' "exos daemon --interface $1 --address $2.6/24 --user 65534" || { bad "the daemon on $1 starts" "$(cat "$work/said")"; return; }
    daemon=$program
    if in_guest lent http "/bin/setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all exos serve /site --port 8080 --address $2.6/24"; then
        check "serve by a daemon on $1, a document byte for byte" gets_soon $2.6:8080
        stop_in_guest
    else
        bad "serve by a daemon on $1 starts" "$(cat "$work/said")"
    fi
    check "the daemon on $1 ends in order" guest_do "kill $daemon; wait $daemon"
}
# everything INTERFACE NETWORK [AND]: what runs on it.
everything() {
    guest_do "exos doctor $1" | sed -n "/$1/,/^\$/s/^/# /p"
    served "xdp:$1" $2 "${3:-}"
    served "packet:$1" $2
    guest_do "/bin/ip netns exec far httpd -p $2.2:8000 -h /site" >/dev/null
    loaded "xdp:$1" $2
    sent_on "xdp:$1" $2
    sent_on "xdp:$1" $2 --in-kernel
    is_before 6.6 || sent_on "packet:$1" $2
    lent_on "$1" $2
}

# fails_over LINK ADDRESS: one member goes, and the other carries what comes.
fails_over() {
    guest_do "/bin/ip link set near0 down" >/dev/null
    check "serve --link $1, after its active member has gone" gets_soon $2
    guest_do "/bin/ip link set near0 up" >/dev/null
    guest_do "sleep 1" >/dev/null
}

on_a_vlan() {
    about="Linux $version, a VLAN: "
    if vlan_up >"$work/said" 2>&1; then
        everything near0.5 10.5.0
        about="Linux $version, a VLAN beside what has no tag: "
        sent_between xdp:near0 10.4.0 xdp:near0.5 10.5.0
        if ! is_before 6.6; then
            guest_do "/bin/ip netns exec far httpd -p 10.4.0.2:8000 -h /site" >/dev/null
            for option in "" --in-kernel; do
                sent_between packet:near0 10.4.0 packet:near0.5 10.5.0 $option
                sent_between packet:near0.5 10.5.0 packet:near0 10.4.0 $option
            done
        fi
        guest_do "/bin/ip link delete near0.5"
    else
        bad "it is made" "$(cat "$work/said")"
    fi
}
on_a_bond() {
    about="Linux $version, a bond: "
    if bond_up >"$work/said" 2>&1; then
        everything both 10.6.0 fails_over
        if ! is_before 6.6 && vlan_of_bond_up >"$work/said" 2>&1; then
            about="Linux $version, a bond and a VLAN of it: "
            for option in "" --in-kernel; do
                sent_between packet:both.7 10.7.0 packet:both 10.6.0 $option
                sent_between packet:both 10.6.0 packet:both.7 10.7.0 $option
            done
        fi
        about="Linux $version, a bond's member: "
        served xdp:near0 10.6.0
        guest_do "/bin/ip link delete both"
    else
        bad "it is made" "$(cat "$work/said")"
    fi
}
# layered vlan|bond...
layered() {
    local part
    two_pairs >"$work/said" 2>&1 || { bad "two veth pairs" "$(cat "$work/said")"; return; }
    for part; do "on_a_$part"; done
    no_pairs >/dev/null
}
