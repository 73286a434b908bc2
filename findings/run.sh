#!/usr/bin/env bash
# run.sh [--list] [NAME...]: runs the findings, or those named, one after the other, and tells which hold.
#
#   findings/run.sh                              all
#   findings/run.sh torch_topk_ties mpich_sigusr2.sh
#   findings/run.sh --list                       names, and the first line of each
#
# A finding runs in a temporary folder of its own and installs its packages there.  Its words are printed only if it
# does not hold.  Exit status: 0 if every finding holds; 1 if one no longer holds; 2 if none has changed and one could
# not be run, or a name is wrong.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# The first sentence of a finding, which may have several lines.
sentence() {
    sed -n '2,/^#$/p' "$1" | sed 's/^# \{0,1\}//' | tr '\n' ' ' | sed 's/ *$//'
}

files=()
if [ "${1:-}" = --list ]; then
    for file in "$here"/*.sh; do
        name=$(basename "$file" .sh)
        [ "$name" = run ] || printf '%s: %s\n' "$name" "$(sentence "$file")"
    done
    exit 0
fi
for name in "$@"; do
    file=$here/$(basename "$name" .sh).sh
    [ -f "$file" ] && [ "$file" != "$here/run.sh" ] || { echo "there is no finding $name; see $0 --list" >&2; exit 2; }
    files+=("$file")
done
if [ $# -eq 0 ]; then
    for file in "$here"/*.sh; do
        [ "$file" = "$here/run.sh" ] || files+=("$file")
    done
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
n_hold=0 n_changed=0 n_not_run=0
for file in "${files[@]}"; do
    name=$(basename "$file" .sh)
    mkdir "$scratch/$name"
    status=0
    (cd "$scratch/$name" && TMPDIR=$scratch/$name bash "$file") >"$scratch/said" 2>&1 </dev/null || status=$?
    rm -rf "${scratch:?}/$name"
    case $status in
        0) echo "$name: holds"; n_hold=$((n_hold + 1)); continue ;;
        2) echo "$name: could not be run"; n_not_run=$((n_not_run + 1)) ;;
        *) echo "$name: no longer holds (exit status $status)"; n_changed=$((n_changed + 1)) ;;
    esac
    tail -n 15 "$scratch/said" | sed 's/^/    /'
done
echo "$n_hold hold, $n_changed no longer hold, $n_not_run could not be run"
[ $n_changed -eq 0 ] || exit 1
[ $n_not_run -eq 0 ] || exit 2
