#!/usr/bin/env bash
# Processes that die while others go on: needs an MPI with ULFM (Open MPI 5), for which dptrain is built.
. "$SRC/tests/cli/kit.bash"

need_mpi
survive=$(dirname "$DPTRAIN")/../tests/bin/test-survive
ft=(--with-ft ulfm)
mpi 60 "${ft[@]}" -n 2 "$survive" 1000 1
if [ "$status" -ne 0 ] && ! grep -q 'process 0 of 1 is right' mpi.out; then
    absent ulfm "this MPI does not go on without a process that has died: $(head -c 200 mpi.err)"
fi

# Exchanges: one process is killed, then another one; the first process is among them.
for victims in "0 2" "3 0 1" "1 1"; do
    microseconds=$((RANDOM * 3))
    left=$((4 - $(wc -w <<<"$victims")))
    # shellcheck disable=SC2086
    mpi 60 "${ft[@]}" -n 4 "$survive" "$microseconds" $victims
    check "processes $victims die after $microseconds us each: status $status, $(cat mpi.err)" [ "$status" -eq 0 ]
    check "the others go on: $(cat mpi.out)" [ "$(grep -c " of $left is right" mpi.out)" -eq "$left" ]
done
finish
