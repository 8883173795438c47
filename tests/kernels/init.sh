#!/bin/busybox sh
# The first process of a guest of tests/kernels/kernels.sh: loads the modules, names the cards, and does what comes over the
# second serial port.
/bin/busybox mkdir -p /applets && /bin/busybox --install -s /applets
export PATH=/bin:/applets
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /tmp
mount -t tmpfs none /run
mount -t bpf bpf /sys/fs/bpf
while read -r module; do insmod "/modules/$module" || echo "no $module"; done </modules/order
ip link set lo up
at=0
for name in one two fixed plain; do
    at=$((at + 1))
    for card in /sys/class/net/*; do
        if [ "$(cat "$card/address")" = "02:00:00:00:00:0$at" ]; then
            card=${card##*/}
            ip link set "$card" name "$name"
            echo 0 >/proc/sys/net/ipv6/conf/$name/accept_dad
            ip link set "$name" up
            ip address add 10.$at.0.1/24 dev "$name"
            ip address add fd00:$at::1/64 dev "$name"
        fi
    done
done
stty -F /dev/ttyS1 raw -echo 115200
exec </dev/ttyS1 >/dev/ttyS1 2>&1
echo ready
while read -r number order; do
    eval "$order" 2>&1
    echo "@$?@$number"
done
