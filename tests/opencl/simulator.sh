#!/usr/bin/env bash
# simulator.sh CONFORMANCE: conformance on Oclgrind, which interprets kernels item by item: none
# reaches beyond what is allocated, none depends on what nobody has written, and no two items race.
# These kernels are CUDA's too.  Calls are small, since a second of a device is an hour there;
# convolutions take longer still, and are left out.
. "$SRC/tests/cli/kit.bash"

command -v oclgrind >/dev/null 2>&1 || absent oclgrind "there is no oclgrind"
conformance=$1

# simulate LOOKS OPTIONS DEVICE CASE...: what is found goes to the file `found`.  LOOKS are what
# Oclgrind looks for, OPTIONS its compiler's, of which the folder of what is compiled knows nothing.
# (restrict: Oclgrind 21.10 does not know what its compiler makes of it.)
simulate() {
    local looks=$1 options=$2 device=$3 cases=()
    shift 3
    for part in "$@"; do cases+=(--case "$part"); done
    rm -rf compiled found
    # shellcheck disable=SC2086
    XDG_CACHE_HOME=$PWD/compiled OCL_ICD_VENDORS=/nonexistent DPTRAIN_OPENCL_CONTAIN=0 oclgrind $looks --max-errors 100 \
        --build-options "-Drestrict= $options" --log found "$conformance" opencl --complete \
        --device "$device" --work 300 "${cases[@]}" >simulated.out 2>&1
}

# clean ARGUMENT...: a simulation in which nothing is found, and all cases pass.
clean() {
    simulate "$@"
    local code=$?
    check "all cases pass: status $code, $(grep -v '^ok' simulated.out | head -n 20)" test $code -eq 0
    check "it was Oclgrind" grep -q '^== .*Oclgrind' simulated.out
    check "calls were compared" grep -qE '^[1-9][0-9]* calls compared' simulated.out
    check "nothing is found: $(head -n 40 found)" test ! -s found
    grep '^ok' simulated.out
}

# What must be found: a reduction without its barriers, which reads what nobody has written, too.
simulate --data-races '-Dbarrier(x)=' opencl:0:path=local batch_norm_partial
check "without barriers items race: $(tail -n 3 simulated.out)" grep -q 'data race' found
simulate --uninitialized '-Dbarrier(x)=' opencl:0:path=local batch_norm_partial
check "without barriers much is unwritten: $(tail -n 3 simulated.out)" grep -qi 'uninitialized' found

clean '--data-races --uninitialized' '' opencl:0:path=local add multiply affine gather activation \
    pool2d norm_forward norm_partial norm_backward softmax dropout squared clip_norm check_finite sgd \
    adamw
# (What its compiler makes of products of matrices Oclgrind cannot follow from unwritten values.)
clean --data-races '' opencl:0:path=local:algorithm=local linear
finish
