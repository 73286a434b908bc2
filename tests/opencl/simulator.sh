#!/usr/bin/env bash
# simulator.sh CONFORMANCE [CASE...]: the conformance suite on Oclgrind, which interprets kernels item
# by item: none reaches beyond what is allocated, none depends on what nobody has written, and no two
# items race.  These kernels are CUDA's too.  Calls are small, since a second of a device is an hour
# there, and kernels that multiply matrices take longer still.
. "$SRC/tests/cli/kit.bash"

command -v oclgrind >/dev/null 2>&1 || absent oclgrind "there is no oclgrind"
conformance=$1
shift
cases=()
for part in "$@"; do cases+=(--case "$part"); done

# simulate OPTIONS LOG ARGUMENT...: what is found goes to the log; OPTIONS are the compiler's, of
# which the folder of what is compiled knows nothing.  (restrict: Oclgrind 21.10 does not know what
# its compiler makes of it.)
simulate() {
    local options=$1 log=$2
    shift 2
    rm -rf compiled "$log"
    XDG_CACHE_HOME=$PWD/compiled OCL_ICD_VENDORS=/nonexistent oclgrind --data-races --uninitialized \
        --max-errors 100 --build-options "-Drestrict= $options" --log "$log" "$conformance" opencl \
        --complete --device opencl:0:path=local "$@" >simulated.out 2>&1
}

# What must be found: a reduction without its barriers.
simulate '-Dbarrier(x)=' without --work 200 --case batch_norm_partial
check "without barriers items race: $(tail -n 3 simulated.out)" grep -q 'data race' without

simulate '' found --work 300 "${cases[@]}"
code=$?
check "all cases pass: status $code, $(grep -v '^ok' simulated.out | head -n 20)" test $code -eq 0
check "it was Oclgrind" grep -q '^== .*Oclgrind' simulated.out
check "calls were compared" grep -qE '^[1-9][0-9]* calls compared' simulated.out
check "nothing is found: $(head -n 40 found)" test ! -s found
grep '^ok' simulated.out
finish
