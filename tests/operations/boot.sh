#!/bin/sh
# The first process in the namespaces of a throwaway machine: mounts a copy-on-write view of this machine and
# becomes systemd in it. $1: a scratch folder; $2: the tree under test; $3, $4: Python's prefix and packages.
set -eu
scratch=$1 tree=$2 prefix=$3 packages=$4 wheels=$5
mount --make-rprivate /
mount -t tmpfs tmpfs "$scratch"
root=$scratch/root
mkdir "$scratch/upper" "$scratch/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$scratch/upper,workdir=$scratch/work" "$root"
# Under paths that a service with ProtectHome= can reach.
for pair in "$prefix:/opt/python" "$packages:/opt/packages" "$tree:/usr/src/dpxplain" "$wheels:/opt/wheels"; do
    mkdir -p "$root${pair#*:}"
    mount --bind -o ro "${pair%%:*}" "$root${pair#*:}"
done
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
# Of all hierarchies only systemd's own, and of that only our part: this machine's are not touched.
mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
mkdir "$root/sys/fs/cgroup/systemd"
mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/pts"
mkdir -m 1777 "$root/dev/shm"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
# Nothing starts but the journal: no mounts, clocks, consoles or services of this machine.
rm -f "$root"/lib/systemd/system/*.wants/* "$root"/etc/systemd/system/*.wants/* "$root/etc/machine-id"
touch "$root/etc/machine-id"
for unit in systemd-journald.service systemd-journald.socket systemd-journald-dev-log.socket; do
    ln -s "../$unit" "$root/lib/systemd/system/sysinit.target.wants/"
done
for unit in systemd-journald-audit.socket network-online.target systemd-remount-fs.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
ln -sf /lib/systemd/system/multi-user.target "$root/etc/systemd/system/default.target"
printf '127.0.0.1 localhost data.example.org\n::1 localhost\n' >"$root/etc/hosts"
hostname throwaway
cd "$root"
pivot_root . mnt
umount --lazy mnt
exec env -i container=throwaway PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    setpriv --bounding-set=-sys_module,-sys_time,-sys_rawio,-sys_boot,-syslog,-mac_admin,-mac_override \
    chroot . /lib/systemd/systemd --show-status=0
