#!/usr/bin/env bash
# Installs a .deb into a bare Debian root, runs it there, and purges it. Nothing of the host is changed.
#
#   packaging/check-chroot.sh PACKAGE.deb [FOLDER] [SUITE]
#
# FOLDER keeps the unpacked root for the next run (default: target/chroot), SUITE is bookworm by default. Needs root,
# and mmdebstrap or debootstrap. Exit: 0 all held, 1 something did not, 2 it could not be tried.
# shellcheck disable=SC2016,SC2317  # texts in single quotes are for the shell inside; tidy runs by trap
set -euo pipefail

usage() {
    echo "usage: $0 PACKAGE.deb [FOLDER] [SUITE]" >&2
    exit 2
}
if (($# < 1 || $# > 3)); then usage; fi
[ -s "$1" ] || { echo "$0: no package $1" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "$0: needs root" >&2; exit 2; }

package=$(readlink -f "$1")
folder=${2:-target/chroot}
suite=${3:-bookworm}
mkdir -p "$folder"
folder=$(readlink -f "$folder")
base=$folder/$suite.tar
root=$(mktemp -d "$folder/root.XXXXXX")
failed=0

tidy() {
    for mounted in "$root/proc" "$root/dev"; do
        if mountpoint -q "$mounted"; then umount "$mounted" || umount -l "$mounted"; fi
    done
    rm -rf --one-file-system "$root"
}
trap tidy EXIT

# One bare root for all runs. systemd brings sysusers and the verifier, procps the kill of a reload; nothing is booted.
if [ ! -s "$base" ]; then
    echo "making a bare $suite in $base (once)"
    if command -v mmdebstrap >/dev/null; then
        timeout 300 mmdebstrap --quiet --format=tar --variant=minbase --include=systemd,procps "$suite" "$base.part" || exit 2
    elif command -v debootstrap >/dev/null; then
        timeout 600 debootstrap --variant=minbase --include=systemd,procps "$suite" "$folder/bootstrap" >/dev/null || exit 2
        tar -C "$folder/bootstrap" -cf "$base.part" .
        rm -rf --one-file-system "$folder/bootstrap"
    else
        echo "$0: neither mmdebstrap nor debootstrap is here" >&2
        exit 2
    fi
    mv "$base.part" "$base"
fi
tar -xf "$base" -C "$root" --exclude='./dev/*'
cp "$package" "$root/package.deb"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755,size=1m tmpfs "$root/dev"
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 666 "$root/dev/zero" c 1 5
mknod -m 666 "$root/dev/urandom" c 1 9
mknod -m 666 "$root/dev/random" c 1 8
ln -s /proc/self/fd "$root/dev/fd"

inside() {
    timeout "$1" chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive "${@:2}"
}
# step WORDS SECONDS COMMAND…: says whether the command ended well in time, and shows what it said if not.
step() {
    if inside "$2" "${@:3}" >"$root/out" 2>&1; then
        echo "ok    $1"
    else
        echo "FAIL  $1 (exit $?)"
        tail -n 30 "$root/out" | sed 's/^/      /'
        failed=1
    fi
}

step "installs" 60 dpkg -i /package.deb
step "its user exists and may use serial ports" 10 sh -c 'id -nG fieldshadow | grep -qw dialout'
step "files are as packaged" 30 sh -c 'test -z "$(dpkg -V fieldshadow)"'
step "says its version" 10 fieldshadow --version
step "lists the shipped profiles" 10 sh -c 'fieldshadow profile list | grep -q inovance/is620p'
step "shipped profiles pass their tests" 30 sh -c 'find /usr/share/fieldshadow/device-profiles -name "*.yaml" -exec fieldshadow profile test {} +'
step "the packaged configuration is sound" 10 fieldshadow check
step "the example device is sound" 10 sh -c 'cp /etc/fieldshadow/devices.d/example.yaml.example /tmp/example.yaml && fieldshadow check /tmp/example.yaml'
step "a wrong device is refused with exit 2" 10 sh -c 'echo "devcie: x" >/tmp/wrong.yaml; fieldshadow check /tmp/wrong.yaml; test $? = 2'
step "the demo runs for five seconds as the service's user" 30 setpriv --reuid=fieldshadow --regid=fieldshadow --clear-groups fieldshadow demo --for 5s
if [ -x "$root/usr/bin/systemd-analyze" ]; then
    step "the unit is sound" 30 sh -c 'out=$(systemd-analyze verify --man=no /usr/lib/systemd/system/fieldshadow.service 2>&1) && test -z "$out" || { echo "$out"; exit 1; }'
    step "the unit is closed (exposure below 1.5)" 30 systemd-analyze security --offline=true --threshold=15 /usr/lib/systemd/system/fieldshadow.service
fi
step "purges" 60 dpkg --purge fieldshadow
step "leaves nothing behind" 30 sh -c 'left=$(find /etc /usr /var/lib /run -path /var/lib/dpkg -prune -o -name "*fieldshadow*" -print); test -z "$left" || { echo "$left"; exit 1; }'

if [ "$failed" = 0 ]; then echo "all held on $suite"; fi
exit "$failed"
