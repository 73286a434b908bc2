#!/usr/bin/env bash
# What `cmake --install` and CPack make of this build: every installed file is in one component, the Debian
# packages have the files, versions and dependencies that they shall have, and the Python package takes its
# version from the project.
. "$SRC/tests/cli/kit.bash"

build=$(cd "$(dirname "$DPTRAIN")/.." && pwd)
if [ ! -e "$build/cmake_install.cmake" ]; then
    echo "skipped: this is no build folder of CMake"
    exit 77
fi
version=$("$DPTRAIN" --version | awk '{ print $NF }')

# files FOLDER: what is in it, sorted, without the build's own name for the folder of libraries.
files() {
    (cd "$1" && find . ! -type d | sed -E 's,/lib(64|/[a-z0-9_]+-linux-gnu[a-z0-9]*)?/,/lib/,' | sort)
}

# Components together are the whole, and no file is in two.
cmake --install "$build" --prefix "$PWD/whole" >install.out 2>&1
check "it is installed: $(tail -n 3 install.out)" [ -x whole/bin/dptrain ]
: >parts.txt
for component in command library cpu opencl cuda tcp mpi development documents licence; do
    cmake --install "$build" --prefix "$PWD/part-$component" --component $component >>install.out 2>&1
    mkdir -p "part-$component"
    # What only packages have.
    rm -rf "part-$component"/share/lintian
    find "part-$component" -path '*/share/doc/*' \( -name copyright -o -name changelog.gz \) -delete
    files "part-$component" >>parts.txt
done
check "no file is in two components: $(sort parts.txt | uniq -d)" [ -z "$(sort parts.txt | uniq -d)" ]
check "components are the whole: $(diff <(sort parts.txt) <(files whole))" \
    cmp -s <(sort parts.txt) <(files whole)
check "the command is a component" grep -qx './bin/dptrain' <(files part-command)
check "a component is a single plug-in" [ "$(files part-cpu)" = ./lib/dptrain/libdptrain-cpu.so ]
check "the library goes without the link of its name" \
    [ "$(files part-library)" = "$(printf './lib/libdptrain.so.%s\n' "${version%.*}" "$version")" ]
check "the link is for development" grep -qx './lib/libdptrain.so' <(files part-development)

# An installation in another place, with a space in its name, and without the path that CTest sets.
mv whole "moved here"
env -u DPTRAIN_BACKEND_PATH "moved here/bin/dptrain" devices >moved.out 2>moved.err
check "a moved installation has its plug-ins: $(cat moved.err)" grep -q '^cpu ' moved.out
check "without a warning: $(cat moved.err)" [ ! -s moved.err ]

# The Python package takes its version from CMakeLists.txt, and the components that exist.
pattern=$(sed -n "s/^regex = '\(.*\)'$/\1/p" "$SRC/pyproject.toml" | sed 's/(?P<value>/(/')
check "pyproject.toml finds the version $version" \
    [ "$(sed -nE "s/.*$pattern.*/\1/p" "$SRC/CMakeLists.txt")" = "$version" ]
for component in $(sed -n 's/^install.components = \[\(.*\)\]$/\1/p' "$SRC/pyproject.toml" | tr -d '",'); do
    check "component $component of pyproject.toml has rules" grep -rqE \
        "COMPONENT $component( |\)|\$)|add_library\(dptrain-$component |dptrain_plugin\($component " \
        "$SRC/cmake" "$SRC/backends" --include=CMakeLists.txt --include='*.cmake'
done

# Debian packages, without compression.
if ! command -v dpkg-shlibdeps >/dev/null 2>&1 || ! command -v file >/dev/null 2>&1 ||
    [ ! -e "$build/CPackConfig.cmake" ]; then
    finish
fi
cpack --config "$build/CPackConfig.cmake" -G DEB -B "$PWD/deb" -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip \
    -D CPACK_STRIP_FILES=OFF >cpack.out 2>&1
check "cpack makes packages: $(tail -n 3 cpack.out)" test -n "$(ls deb/*.deb 2>/dev/null)"
field() {
    dpkg-deb --field deb/"$1"_*.deb "$2"
}
: >deb-files.txt
for file in deb/*.deb; do
    name=${file#deb/}
    name=${name%%_*}
    case $(field "$name" Version) in
    "$version" | "$version"+*) ;;
    *) fail "$name has version $(field "$name" Version), the command $version" ;;
    esac
    dpkg-deb --contents "$file" | awk '$1 !~ /^d/ { print $6 }' >files.txt
    cat files.txt >>deb-files.txt
    check "$name has its licence and changes" [ "$(grep -cE "/share/doc/$name/(copyright|changelog.gz)$" files.txt)" = 2 ]
    check "$name is described in more than one line" [ "$(field "$name" Description | wc -l)" -gt 3 ]
    case $name in
    libdptrain0) check "the library needs no other package of these: $(field "$name" Depends)" \
        test -z "$(field "$name" Depends | grep -o '\<dptrain\>')" ;;
    *) check "$name goes with one version of the library: $(field "$name" Depends)" \
        grep -qF "libdptrain0 (= $(field libdptrain0 Version))" <(field "$name" Depends) ;;
    esac
done
check "no file is in two packages: $(sort deb-files.txt | uniq -d)" [ -z "$(sort deb-files.txt | uniq -d)" ]
check "the command and the library are packages" test -n "$(grep -x './usr/bin/dptrain' deb-files.txt)"
check "the library brings the transport through TCP" \
    test -n "$(dpkg-deb --contents deb/libdptrain0_*.deb | grep '/dptrain/transports/libdptrain-tcp.so$')"
dpkg-deb --control deb/libdptrain0_*.deb control
check "programs depend on the SONAME's version: $(cat control/shlibs)" \
    grep -qE "^libdptrain ${version%.*} libdptrain0 \(>= ${version%.*}\), libdptrain0 \(<< " control/shlibs
finish
