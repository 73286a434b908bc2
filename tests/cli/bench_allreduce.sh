#!/usr/bin/env bash
# dptrain bench allreduce: a row for every size, the JSON of the same figures, other collectives, what
# it refuses.
. "$SRC/tests/cli/kit.bash"
need_python

"$DPTRAIN" bench allreduce --devices cpu:threads=1,cpu:threads=1 --json one.json >one.out 2>one.err
check "exit status $?: $(cat one.err)" [ ! -s one.err ]
check "nine sizes" [ "$(grep -c '%$' one.out)" -eq 9 ]
check "the JSON is that table" python3 - <<'PYTHON'
import json
b = json.load(open("one.json"))
lines = [line.split() for line in open("one.out") if line.endswith("%\n")]
assert b["n_devices"] == 2 and b["processes"] == 1 and b["memory_bytes_per_second"] > 0
assert [row["bytes"] for row in b["table"]] == [int(line[0]) for line in lines]
for row, line in zip(b["table"], lines):
    assert abs(row["seconds"] - float(line[1])) <= 1e-6, (row, line)
    assert abs(row["bytes_per_second"] * row["seconds"] - 4 * row["bytes"]) < 1
PYTHON
# Arrays that are read and written at least, of three devices.
for case in reduce-scatter:4 all-gather:4 broadcast:3; do
    name=${case%:*}
    "$DPTRAIN" bench allreduce --collective "$name" --devices cpu:threads=1,cpu:threads=1,cpu:threads=1 \
        --json "$name.json" >"$name.out" 2>"$name.err"
    check "$name: exit status $?: $(cat "$name.err")" [ ! -s "$name.err" ]
    check "$name says so" grep -q "^$name over 3 devices: cpu" "$name.out"
    check "$name: nine sizes" [ "$(grep -c '%$' "$name.out")" -eq 9 ]
    check "the JSON of $name" python3 - "$name" "${case#*:}" <<'PYTHON'
import json, sys
b = json.load(open(sys.argv[1] + ".json"))
assert b["benchmark"] == sys.argv[1] and b["n_devices"] == 3 and len(b["table"]) == 9
for row in b["table"]:
    assert abs(row["bytes_per_second"] * row["seconds"] / (int(sys.argv[2]) * row["bytes"]) - 1) < 1e-6
PYTHON
done
refuse 2 "collective.*'gather'.*all-gather" bench allreduce --collective gather
refuse 2 "collective is for bench allreduce" bench mix --devices cpu --collective broadcast
refuse 2 "exchanges between devices, and cpu is one; name several" bench allreduce --devices cpu
for option in --model=mlp --dataset=mnist --data=. --batch-size=8 --repeat=2 --max-time=1 --best-batch --augment=flip \
    --momentum=0.9 --optimizer=sgd; do
    name=${option%%=*}
    refuse 2 "$name is for bench mix" bench allreduce --devices cpu:threads=1,cpu:threads=1 $option
done
refuse 2 "unknown device .gpu0" bench allreduce --devices gpu0
refuse 2 "unexpected argument 'x'" bench allreduce x
refuse 1 "cannot write|cannot be written|no/such" bench allreduce --devices cpu --json no/such/file

if mpi_ready; then
    bench=("$DPTRAIN" bench allreduce --devices cpu:threads=1 --json)
    # The first process alone writes.
    mpi_each 120 "${bench[@]}" two.json : "${bench[@]}" no/such/file
    check "exit status $status: $(cat mpi.err)" [ "$status" -eq 0 ]
    check "nine sizes over processes" [ "$(grep -c '%$' mpi.out)" -eq 9 ]
    check "two processes" grep -q '"processes": 2' two.json
    check "the header names the transport: $(head -1 mpi.out)" grep -q ' of 2 processes through mpi: ' mpi.out
    check "the route is told" grep -Eq '^route: direct, ([3-9]|1[0-6]) chunks in flight$' mpi.out
    check "and written" grep -q '"route": "direct"' two.json
    check "no delay" eval '! grep -q delay two.json mpi.out'
    DPTRAIN_TRANSPORT_DELAY=1ms mpi 120 -n 2 "${bench[@]}" late.json
    check "exit status $status: $(cat mpi.err)" [ "$status" -eq 0 ]
    check "the header tells the delay: $(head -1 mpi.out)" grep -q ' through mpi, delayed by 1 ms: ' mpi.out
    check "so does the JSON, and nothing is summed faster" python3 - <<'PYTHON'
import json
b = json.load(open("late.json"))
assert b["transport_delay_seconds"] == [0.001, 0.001], b
assert all(row["seconds"] >= 0.002 for row in b["table"]), b
PYTHON
    mpi_each 120 "${bench[@]}" gather.json --collective all-gather : \
        "${bench[@]}" no/such/file --collective all-gather
    check "exit status $status: $(cat mpi.err)" [ "$status" -eq 0 ]
    check "nine sizes gathered over processes" [ "$(grep -c '%$' mpi.out)" -eq 9 ]
    mpi_each 60 "${bench[@]}" no/such/file : "${bench[@]}" two.json
    check "exit status $status, not 1" [ "$status" -eq 1 ]
    check "it is told once: $(cat mpi.err)" [ "$(grep -c '^dptrain: cannot write' mpi.err)" -eq 1 ]
    check "nothing is measured" [ ! -s mpi.out ]
    mpi 120 -n 2 "$DPTRAIN" bench allreduce --json three.json \
        --devices '@0=cpu:threads=1,cpu:threads=1;@1=cpu:threads=1'
    check "unequal devices: $(cat mpi.err)" [ "$status" -eq 0 ]
    check "three devices" grep -q '"n_devices": 3' three.json
    check "the header tells of all: $(head -1 mpi.out)" \
        grep -q '^all-reduce over 3 devices .*: @0=cpu:threads=1,cpu:threads=1;@1=cpu:threads=1$' mpi.out
fi
finish
