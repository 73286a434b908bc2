#!/usr/bin/env bash
# Runs both commands of the README in a bare Debian of another release, one after the other, from a fresh
# clone of HEAD: the quick start for one epoch, and `scripts/test.sh --quick`.  Or makes Debian packages there,
# installs them in a second bare Debian, and trains one epoch, also with a wheel (scripts/wheel.sh).
#
#     scripts/test_debian.sh RELEASE FOLDER      for example: scripts/test_debian.sh trixie build-trixie
#     scripts/test_debian.sh RELEASE FOLDER packages [WHEEL]
#
# The script deletes FOLDER (and FOLDER-user) and makes it again with debootstrap.  That needs root, the right to mount, and a
# Debian mirror.  Where one of them is missing, the exit status is 77 and the last line says which.
# The script mounts in a mount namespace of its own, so no mount is left when the script ends or is killed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

if [ $# -lt 2 ]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
release=$1 root=$2 what=${3:-commands} wheel=${4:-}
case $what in
commands | packages) ;;
*) echo "test_debian.sh: unknown word $what" >&2; exit 2 ;;
esac
if [ -n "$wheel" ] && [ ! -x build-wheel-tools/tools/bin/pip ]; then
    echo "test_debian.sh: run scripts/wheel.sh in this folder first: its pip fetches what the wheel needs" >&2
    exit 2
fi

skip() {
    echo "$*"
    exit 77
}

# The mirror that this system's apt uses, if this system is Debian; else Debian's own.
mirror() {
    local url
    url=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
        sed -nE 's,^(URIs:|deb( \[[^]]*\])?) +(https?://[^ ]*/debian)/?( .*)?$,\3,p' | head -n 1)
    echo "${url:-http://deb.debian.org/debian}"
}

# Deletes nothing but a folder that an earlier run has marked as its own.
clear_root() {
    if [ -e "$root" ] && [ ! -e "$root.mark" ]; then
        echo "$root exists and is not of this script" >&2
        return 1
    fi
    rm -rf --one-file-system "$root" && mkdir -p "$root" && touch "$root.mark"
}

# What this system's apt knows of proxies holds in the new system, too.
configure_root() {
    cp /etc/resolv.conf /etc/hosts "$root/etc/" &&
        apt-config dump --no-empty Acquire >"$root/etc/apt/apt.conf.d/90host"
}

# The root becomes a mount point, because programs that make mount namespaces refuse any other root.
mount_root() {
    mount --bind "$root" "$root" && mount -t proc proc "$root/proc" && mount --bind /sys "$root/sys" &&
        mount --bind /dev "$root/dev" && mount --bind /dev/pts "$root/dev/pts" &&
        mkdir -p "$root/dev/shm" && mount -t tmpfs tmpfs "$root/dev/shm"
}

fresh_clone() {
    rm -rf "$root/src" && git clone --quiet . "$root/src"
}

# inside COMMAND...: runs it in the new system, with nothing of this environment.
inside() {
    chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb LANG=C.UTF-8 \
        sh -c 'cd /src && exec "$@"' sh "$@"
}

commands() {
    fresh_clone && inside scripts/quickstart.sh --epochs 1 && fresh_clone && inside scripts/test.sh --quick
}

# What a user does who has no compiler.  The second root is made before the first has any more packages.
packages() {
    local made=$root/src/build-deb/packages
    fresh_clone && inside scripts/deb.sh || return
    root=$root-user
    mount_root && mkdir -p "$root/src/packages" && cp "$made"/*.deb "$root/src/packages/" || return
    inside sh -c 'apt-get -q update && apt-get install -y ./packages/*.deb' || return
    ! inside sh -c 'command -v cc' || return
    inside dptrain devices && inside dptrain --dataset fashion-mnist --epochs 1 || return
    [ -z "$wheel" ] || try_wheel
}

# The packages of Python that a wheel needs are fetched out here, where pip is set up.
try_wheel() {
    local version
    inside apt-get install -y --no-install-recommends python3-venv || return
    version=$(inside python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    mkdir -p "$root/src/wheels" || return
    build-wheel-tools/tools/bin/pip download --quiet --python-version "$version" --only-binary :all: \
        --dest "$root/src/wheels" "$wheel" || return
    inside apt-get purge -y dptrain libdptrain0 || return
    inside python3 -m venv "an environment" &&
        inside "an environment/bin/pip" install --no-index --find-links wheels dptrain &&
        inside "an environment/bin/dptrain" --dataset fashion-mnist --epochs 1 &&
        inside "an environment/bin/python" -c \
            'import dptrain; print(dptrain.fit("lenet", "fashion-mnist", devices="cpu", epochs=1))'
}

if [ "${5:-}" != in-namespace ]; then
    [ "$(id -u)" -eq 0 ] || skip "only root can make a bare Debian"
    command -v debootstrap >/dev/null || skip "debootstrap is not installed"
    [ -e .git ] || skip "this folder is no clone, and a clone is what is tested"
    namespace=(unshare --mount --pid --fork --kill-child)
    "${namespace[@]}" true 2>/dev/null || skip "this system allows no mount namespace"
    # In the background, because unshare ignores SIGINT and SIGTERM.  If it is killed, all in the namespace is.
    "${namespace[@]}" "$0" "$release" "$root" "$what" "$wheel" in-namespace &
    child=$!
    trap 'kill -KILL $child; exit 1' INT TERM
    wait $child
    exit
fi

clear_root || exit 1
root=$(cd "$root" && pwd)
if ! debootstrap --variant=minbase "$release" "$root" "$(mirror)" >"$root.log" 2>&1; then
    tail -n 3 "$root.log"
    skip "debootstrap could not make a Debian $release from $(mirror)"
fi
configure_root || exit 1
if [ "$what" = packages ]; then
    (root=$root-user && clear_root) && cp -a "$root/." "$root-user/" || exit 1
fi
mount_root || skip "this system allows no mounts"
"$what"
