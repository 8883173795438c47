# What tests/kernels/kernels.sh does with a guest; to be sourced behind common.sh. `find_kernel` gets a kernel, `make_initramfs` what
# it boots, `boot` runs it, and `guest_do` has it execute commands.
store=$here/../../target/kernels
guest=

# find_kernel SUITE: the newest kernel of a suite of Debian, unpacked, at $kernel; its modules are those of release $release.
find_kernel() {
    local suite=$1 mirror package folder=$store/$1
    local -a own
    mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
    mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep debian | head -n 1)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$folder/sources.list"
    own=(-q -o "Dir::Etc::sourcelist=$folder/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$folder/lists"
        -o "Dir::Cache=$folder/cache" -o APT::Sandbox::User=root)
    kernel=$folder/unpacked
    if ! ls "$kernel"/boot/vmlinuz-* >/dev/null 2>&1; then
        timeout 300 apt-get "${own[@]}" update >"$work/said" 2>&1 || return 1
        package=$(apt-cache "${own[@]}" depends linux-image-amd64 | awk '/Depends:/ { print $2; exit }')
        (cd "$folder" && timeout 600 apt-get "${own[@]}" download "$package") >"$work/said" 2>&1 || return 1
        rm -rf "$folder/partly"
        dpkg -x "$folder"/linux-image-*.deb "$folder/partly" && depmod -b "$folder/partly" "$(ls "$folder/partly/lib/modules")" &&
            mv "$folder/partly" "$kernel" || return 1
        rm -f "$folder"/*.deb
    fi
    release=$(ls "$kernel/lib/modules")
}

# add PATH...: programs or libraries of this machine, with the libraries that they need, to the tree of the initramfs.
add() {
    local path library
    for path; do
        path=$(command -v "$path") || return 1
        mkdir -p "$tree/bin" && cp -L "$path" "$tree/bin/" || return 1
        for library in $(ldd "$path" 2>/dev/null | grep -o '/[^ ]*'); do
            mkdir -p "$tree$(dirname "$library")" && cp -Ln "$library" "$tree$library" || return 1
        done
    done
}

# make_initramfs: at $work/initramfs.
make_initramfs() {
    local tree=$work/tree module file
    rm -rf "$tree"
    mkdir -p "$tree"/{dev,proc,sys,tmp,run,etc,bin,modules,root} "$tree"/usr/share || return 1
    echo root:x:0:0::/:/bin/sh >"$tree/etc/passwd"
    add busybox ip ethtool tc setpriv curl "$work/exos" || return 1
    cp -r "$work/site" "$tree/"
    [ ! -f "$work/filter-tests" ] || add "$work/filter-tests" || return 1
    : >"$tree/modules/order"
    for module in virtio_pci virtio_net e1000e veth tun sch_ingress cls_bpf 8021q bonding; do
        modprobe -d "$kernel" -S "$release" --show-depends "$module" | grep -o '/[^ ]*\.ko[.a-z]*' || [ $module = veth ]
    done | awk '!seen[$0]++' | while read -r file; do
        case $file in
            *.xz) xz -dc "$file" >"$tree/modules/$(basename "$file" .xz)" ;;
            *) cp "$file" "$tree/modules/" ;;
        esac
        basename "${file%.xz}" >>"$tree/modules/order"
    done
    cp "$here/init.sh" "$tree/init" && chmod 755 "$tree/init"
    (cd "$tree" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/initramfs"
}

# boot: the guest, until it does what it is told; its process is $guest.
boot() {
    local card at=0 kind options netdev
    local -a arguments=(-nodefaults -no-user-config -display none -m 1024 -smp 2 -accel tcg,thread=multi -cpu max
        -kernel "$(ls "$kernel"/boot/vmlinuz-*)" -initrd "$work/initramfs" -no-reboot
        -append "console=ttyS0 quiet panic=-1 net.ifnames=0"
        -serial "file:$work/console" -chardev "pipe,id=orders,path=$work/orders" -serial chardev:orders)
    for card in "${cards[@]}"; do
        at=$((at + 1))
        options= netdev=
        case $card in
            one) kind=virtio-net-pci ;;
            two) kind=virtio-net-pci options=,mq=on,vectors=6 netdev=,queues=2 ;;
            fixed) kind=virtio-net-pci options=,ctrl_guest_offloads=off ;;
            plain) kind=e1000e ;;
        esac
        arguments+=(-netdev "tap,id=$card,ifname=$card,script=no,downscript=no,vhost=off$netdev"
            -device "$kind,netdev=$card,mac=02:00:00:00:00:0$at,romfile=$options")
    done
    rm -f "$work"/orders.*
    mkfifo "$work/orders.in" "$work/orders.out" && : >"$work/console"
    ip netns exec "$net" qemu-system-x86_64 "${arguments[@]}" >"$work/qemu" 2>&1 </dev/null &
    guest=$!
    # Both ends of a FIFO are opened here, so that neither waits for the other.
    exec 7<>"$work/orders.in" 8<>"$work/orders.out"
    local line limit=$((SECONDS + 300))
    while kill -0 "$guest" 2>/dev/null && [ $SECONDS -lt $limit ]; do
        if read -rt 1 -u 8 line && [[ $line == *ready* ]]; then return 0; fi
    done
    return 1
}
halt() {
    printf '0 poweroff -f\n' >&7
    local limit=$((SECONDS + 60))
    while kill -0 "$guest" 2>/dev/null && [ $SECONDS -lt $limit ]; do sleep 0.1; done
    end "$guest"; guest=
    exec 7>&- 8>&-
}

# guest_do COMMAND [SECONDS]: a line of the guest's shell; prints what it says, and ends as it ends. One that takes longer than
# this many seconds, else five minutes, is the guest's end, and its status 124: as for all that follow.
guest_do() {
    local line part= orders=$((RANDOM + 1)) limit=$((SECONDS + ${2:-300}))
    kill -0 "$guest" 2>/dev/null || return 124
    printf '%s %s\n' "$orders" "$1" >&7
    while [ $SECONDS -lt $limit ] && kill -0 "$guest" 2>/dev/null; do
        if ! read -rt 1 -u 8 line; then
            part+=$line
            continue
        fi
        line=$part${line%$'\r'} part=
        if [[ $line =~ ^(.*)@([0-9]+)@$orders$ ]]; then
            [ -z "${BASH_REMATCH[1]}" ] || echo "${BASH_REMATCH[1]}"
            return "${BASH_REMATCH[2]}"
        fi
        echo "$line"
    done
    kill -KILL "$guest" 2>/dev/null
    return 124
}
