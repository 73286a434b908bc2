#!/usr/bin/env bash
# bits.sh CONFORMANCE [OPTION...]: deterministic operators of the CPU have the same bits with every
# instruction set of this processor, and with one, two and three threads.  OPTIONS go to the
# conformance suite, which also compares every call of one run with the reference.
#
# bits.sh CONFORMANCE --as DEVICE [OPTION...]: deterministic operators of the device, such as
# opencl:0, have the bits of the CPU, which are compared with the reference.
. "$SRC/tests/cli/kit.bash"

conformance=$1
shift

# same FILE OTHER: whether two runs of the suite have given the same bits.
same() {
    check "$1 and $2: $(diff "$1" "$2" | grep -c '^<') of $(wc -l <"$1") outputs differ, first \
$(diff "$1" "$2" | head -n 3)" cmp -s "$1" "$2"
}

# compare_device DEVICE OPTION...
compare_device() {
    local device=$1 name code alone
    shift
    for name in "$device" cpu; do
        alone=()
        [ "$name" = cpu ] || alone=(--bits-alone)
        "$conformance" "${name%%:*}" --complete --device "$name" --deterministic --bits "$name" "${alone[@]}" "$@" \
            >"$name.out" 2>&1
        code=$?
        if [ $code -eq 77 ]; then
            echo "skipped: $(head -n 1 "$name.out")"
            exit 77
        fi
        check "$name: status $code: $(grep -v '^ok' "$name.out" | head -n 20)" test $code -eq 0
        check "$name: bits were written" test -s "$name"
    done
    same cpu "$device"
    echo "compared $(wc -l <cpu) outputs of the CPU and $device"
    finish
}

if [ "${1-}" = --as ]; then
    shift
    compare_device "$@"
fi

# bits FILE SET THREADS OPTION...: runs the suite with an instruction set; false if this processor or
# this build does not have it.  The first run is compared with the reference, and all others with it.
bits() {
    local file=$1 set=$2 threads=$3 alone=()
    shift 3
    [ ${#sets[@]} -eq 0 ] || alone=(--bits-alone)
    DPTRAIN_CPU_ISA=$set "$conformance" cpu --complete --device "cpu:threads=$threads" \
        --deterministic --bits "$file" "${alone[@]}" "$@" >"$file.out" 2>&1
    local code=$?
    grep -q 'this processor or build cannot run it' "$file.out" && return 1
    check "$set, $threads threads: status $code: $(grep -v '^ok' "$file.out" | head -n 20)" \
        test $code -eq 0
    check "$set, $threads threads: bits were written" test -s "$file"
}

# The best set with every number of threads, and the others with one thread.
sets=()
for set in avx512 avx2 neon portable; do
    threads=$((${#sets[@]} == 0 ? 2 : 1))
    bits "$set" "$set" "$threads" "$@" || continue
    [ ${#sets[@]} -eq 0 ] && best=$set best_threads=$threads
    sets+=("$set")
done
for threads in 1 2 3; do
    [ "$threads" -eq "$best_threads" ] && continue
    bits "threads$threads" "$best" "$threads" "$@"
    sets+=("threads$threads")
done
for other in "${sets[@]}"; do
    [ "$other" = "$best" ] && continue
    same "$best" "$other"
done
echo "compared $(wc -l <"$best") outputs of: ${sets[*]}"
finish
