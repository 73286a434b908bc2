#!/usr/bin/env bash
# bits.sh CONFORMANCE [OPTION...]: deterministic operators of the CPU have the same bits with every
# instruction set of this processor, and with one, two and three threads.  OPTIONS go to the
# conformance suite, which also compares every call with the reference.
. "$SRC/tests/cli/kit.bash"

conformance=$1
shift

# bits FILE SET THREADS OPTION...: runs the suite with an instruction set; false if this processor or
# this build does not have it.
bits() {
    local file=$1 set=$2 threads=$3
    shift 3
    DPTRAIN_CPU_ISA=$set "$conformance" cpu --complete --device "cpu:threads=$threads" \
        --deterministic --bits "$file" "$@" >"$file.out" 2>&1
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
    check "$best with $best_threads threads and $other: $(diff "$best" "$other" | grep -c '^<') of \
$(wc -l <"$best") outputs differ, first $(diff "$best" "$other" | head -n 3)" cmp -s "$best" "$other"
done
echo "compared $(wc -l <"$best") outputs of: ${sets[*]}"
finish
