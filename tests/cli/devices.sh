#!/usr/bin/env bash
# dptrain devices: the table, what is measured, and devices that cannot be.
. "$SRC/tests/cli/kit.bash"

# devices ARGUMENT...: a listing that must succeed; output in devices.out and devices.err.
devices() {
    checks=$((checks + 1))
    "$DPTRAIN" devices "$@" >devices.out 2>devices.err </dev/null && return
    fail "dptrain devices $*: exit status $?: $(cat devices.err)"
}
# cell ROW COLUMN: a cell, by the first word of the row and a column's heading; right-aligned ones.
cell() {
    awk -v row="$1" -v column="$2" 'NR == 1 { end = index($0, column) + length(column) - 1 }
        $1 == row { text = substr($0, 1, end); sub(/.*  /, "", text); print text; exit }' devices.out
}
above_zero() { awk -v x="${1%\*}" 'BEGIN { exit !(x ~ /^[0-9.]+$/ && x > 0) }'; }

devices
check "a heading" grep -qE '^DEVICE .*NAME .*UNITS .*MEMORY .*GFLOP/s .*UP GB/s .*COPY GB/s .*DETAIL$' \
    devices.out
for column in UNITS GFLOP/s "UP GB/s" "DOWN GB/s" "COPY GB/s"; do
    check "the processor's $column: $(cell cpu "$column")" above_zero "$(cell cpu "$column")"
done
check "copies in host memory are marked" grep -q '\*$' <<<"$(cell cpu 'UP GB/s')"
check "and the mark explained" grep -q "^\* a copy within host memory" devices.out
check "nothing on stderr that is no terminal" test ! -s devices.err

devices --no-measure
check "no rates" test "$(grep -c 'GB/s' devices.out)" -eq 0
check "no mark either" test "$(grep -c '^\*' devices.out)" -eq 0
check "the processor" grep -q '^cpu ' devices.out
check "units without measuring" above_zero "$(cell cpu UNITS)"

devices --devices cpu:threads=1,cpu:threads=1 --no-measure
check "what a list comes to" test "$(grep -c '^cpu:threads=1 ' devices.out)" -eq 2
check "and no more" test "$(wc -l <devices.out)" -eq 3
devices --devices cpu:threads=1:memory=8M
check "measured within a limit" above_zero "$(cell cpu:threads=1:memory=8M GFLOP/s)"

refuse 2 "cpu has no groups, so no .pocl" devices --devices cpu:pocl
refuse 2 "has 1 device, numbered from 0" devices --devices cpu:1
refuse 2 "takes no value" devices --no-measure=1
refuse 2 "does not go with 'dptrain train'" train --no-measure

# A device that is there and cannot be opened.
if DPTRAIN_CPU_ISA=nosuch "$DPTRAIN" devices >devices.out 2>devices.err; then
    check "a reason in the table" grep -q '^cpu .*  cannot be opened: .*nosuch' devices.out
    check "not the device's name again" test "$(grep -c 'device cpu:' devices.out)" -eq 0
else
    fail "a device that cannot be opened: exit status $?: $(cat devices.err)"
fi

# A device that fails while it is measured; the next is measured all the same.
if [ -n "${DPTRAIN_FAULT_INNER:-}" ]; then
    export DPTRAIN_BACKEND_PATH="$DPTRAIN_BACKEND_PATH:$DPTRAIN_TEST_FAULT_PATH"
    for plan in fail=20 lost=20 entry=run:fail=1 entry=download:fail=1 entry=copy:lost=1; do
        devices --devices "faultstaged:threads=1:$plan,cpu:threads=1"
        check "$plan: a reason in the table" grep -q "^faultstaged:threads=1:$plan .*  not measured: " \
            devices.out
        check "$plan: the other device" above_zero "$(cell cpu:threads=1 GFLOP/s)"
    done
fi
finish
