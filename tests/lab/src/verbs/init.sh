#!/bin/sh
# The first program of a guest: makes it a machine with an RDMA device, or with network cards that no interface is made of yet, runs
# the commands that it was given one after the other, says how each has ended, and ends the guest. Lines that begin with `aldis:`
# are for xtask.
/bin/busybox --install -s /bin
export PATH=/usr/bin:/bin HOME=/
say() { printf '\naldis: %s\n' "$*"; }
stop() { reboot -f; }
refuse() { say "failed $*"; dmesg | tail -n 20; stop; }

mkdir -p /proc /sys /dev /tmp
mount -t proc proc /proc && mount -t sysfs sysfs /sys && mount -t devtmpfs dev /dev || refuse "mount"
mkdir -p /dev/shm && mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs /tmp || refuse "mount"
# aldis_guest, aldis_card and aldis_limit come from the kernel's command line.
(
    sleep "$aldis_limit"
    say "watchdog"
    ps -o pid,ppid,stat,args
    rdma resource show qp
    dmesg | tail -n 30
    stop
) &

for module in $(cat /lib/modules/order); do
    insmod "/lib/modules/$module" || refuse "insmod $module"
done
ip link set lo up
if [ "$aldis_card" != pci ]; then
    ulimit -l unlimited
    # Soft RoCE works in this thread. A device has processors of its own: who polls here must not take this one from it.
    renice -n -20 -p $(pidof ksoftirqd/0) > /dev/null || refuse "renice"
    ip addr add "10.0.0.$((aldis_guest + 1))/24" dev "$aldis_card" && ip link set "$aldis_card" up || refuse "ip"
    rdma link add rxe0 type rxe netdev "$aldis_card" || refuse "rdma link add"
    until grep -q ffff /sys/class/infiniband/rxe0/ports/1/gids/1; do usleep 10000; done

    # Whoever is at the other end of the wire may run commands here.
    [ "$aldis_card" = dummy0 ] || nc -ll -p 514 -e /usr/bin/rshd &
fi

say "up"
for command in "/commands/$aldis_guest"/*; do
    [ -e "$command" ] || continue
    say "begin ${command##*/}"
    sh "$command"
    say "end ${command##*/} $?"
done
say "over"
stop
