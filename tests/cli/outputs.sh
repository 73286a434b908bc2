#!/usr/bin/env bash
# Outputs that others read or write as well: pipes without a reader, a stdout that is gone, one file
# for two trainings.
. "$SRC/tests/cli/kit.bash"

common=(--dataset synthetic:16x16x1:4:256 --model linear --devices cpu:threads=1 --batch-size 32)
# In long epochs: of one whose last step is done and which is not evaluated there is no checkpoint.
endless=(--dataset synthetic:16x16x1:4:64000 "${common[@]:2}" --max-time 300 --checkpoint-every 1h)
rm -rf checkpoint ./*.jsonl ./*.json pipe

# run COMMAND...: its exit status in $code, its stderr in run.err, within half a minute.
run() {
    code=0
    timeout -k 5 30 "$@" 2>run.err >run.out || code=$?
}

# has_checkpoint FOLDER WORDS
has_checkpoint() {
    check "$2: a checkpoint" test -n "$(compgen -G "$1/checkpoint-*.safetensors")"
    check "$2: weights" test -s "$1/model.safetensors"
}

# ---- Readers that leave -------------------------------------------------------------------------

# A log or a trace that nobody reads any more, behind the first step, ends training, with a checkpoint.
mkfifo pipe
for kind in log trace; do
    rm -rf checkpoint
    timeout 60 grep -m 1 '"step"' pipe >/dev/null &
    run "$DPTRAIN" "${endless[@]}" --$kind pipe --checkpoint checkpoint
    check "$kind: status $code" test $code -eq 1
    check "$kind: one line: $(cat run.err)" test "$(wc -l <run.err)" -eq 1
    check "$kind: which says why" grep -q "^dptrain: cannot write the $kind pipe: Broken pipe" run.err
    has_checkpoint checkpoint "$kind"
    wait
done

# A stdout that is gone does not end a training that has something else to write.
rm -rf checkpoint
{
    timeout 60 "$DPTRAIN" "${common[@]}" --max-time 2 --checkpoint checkpoint --log gone.jsonl 2>gone.err
    echo $? >gone.code
} | head -1 >/dev/null
check "it is told at the end" test "$(cat gone.code)" -eq 1
check "in one line: $(cat gone.err)" grep -q "^dptrain: cannot write to standard output: " gone.err
check "training came to its end" grep -q '"event":"done"' gone.jsonl
has_checkpoint checkpoint "stdout is gone"
# One that has nothing else ends as others do.
{
    timeout 60 "$DPTRAIN" "${endless[@]:0:10}" 2>gone.err
    echo $? >gone.code
} | head -1 >/dev/null
check "nothing else to write: status $(cat gone.code)" test "$(cat gone.code)" -eq 141

# ---- Readers that do not come -------------------------------------------------------------------

# One signal ends the waiting, and a reader does.
for kind in log trace; do
    rm -rf checkpoint run.err
    "$DPTRAIN" "${endless[@]}" --$kind pipe --checkpoint checkpoint >run.out 2>run.err &
    for ((i = 0; i < 300; i++)); do
        if grep -qs "nobody reads the pipe pipe yet" run.err; then break; fi
        sleep 0.1
    done
    kill -TERM $!
    code=0
    wait $! || code=$?
    check "$kind: ended while it waits: status $code" test $code -eq 143
    check "$kind: it says so" grep -q "ended early by signal 15" run.err
done
"$DPTRAIN" "${common[@]}" --epochs 2 --log pipe --quiet >run.out 2>run.err &
sleep 0.5
check "read late" timeout 60 grep -q '"event":"done","steps":16' pipe
code=0
wait $! || code=$?
check "read late: status $code" test $code -eq 0

# A picture is written to whoever reads then.
"$DPTRAIN" "${common[@]}" --epochs 2 --plot pipe --quiet >run.out 2>run.err &
check "a plot" timeout 60 grep -q "</svg>" pipe
wait
run "$DPTRAIN" "${common[@]}" --epochs 2 --plot pipe --quiet
check "a plot that nobody reads: status $code" test $code -eq 1
check "a plot that nobody reads" grep -q "cannot write pipe: .*; start what reads it first" run.err

# ---- Two trainings ------------------------------------------------------------------------------

for kind in log trace; do
    "$DPTRAIN" "${endless[@]:0:10}" --$kind $kind.json --quiet 2>run.err &
    first=$!
    await $kind.json
    sleep 0.2
    refuse 1 "another training writes the $kind $kind.json: name another file" "${common[@]}" \
        --$kind $kind.json --quiet
    kill -TERM $first
    wait
    train "${common[@]}" --epochs 1 --$kind $kind.json --quiet
done
finish
