#!/usr/bin/env bash
# The command on emulated cards: what it says of them, a card too small, one that is lost, and one
# after another of CUDA's calls that fails: words, an exit status, no hang, nothing left behind.
. "$SRC/tests/cli/kit.bash"

tiny=(--model lenet --dataset synthetic:28x28x1:10:64 --batch-size 16 --max-steps 3)

"$DPTRAIN" devices --no-measure >devices.out
check "two cards" test "$(grep -c '^cuda:[01] .*an emulated card' devices.out)" -eq 2
check "no card" test "$(CUDA_EMULATED_CARDS=0 "$DPTRAIN" devices --no-measure |
    grep -c '^cuda: absent: no NVIDIA card')" -eq 1

train --devices cuda:0,cuda:1,cpu "${tiny[@]}"
(
    export CUDA_EMULATED_MEMORY=1
    refuse 1 'no memory for a buffer of [0-9]+ bytes: of the card.s 1048576, ' \
        --devices cuda:0 --model lenet --dataset synthetic:28x28x1:10:256 --max-steps 1
    [ "$failures" -eq 0 ]
) || failures=$((failures + 1))

# A card that dies leaves the rest to the CPU.
export CUDA_EMULATED_REPORT=
CUDA_EMULATED_FAIL=kernel:30:700 train --devices cuda:0,cpu "${tiny[@]}"
check "the loss is told" grep -q 'cudaErrorIllegalAddress' train.err
CUDA_EMULATED_FAIL=cudaLaunchKernel:30:700:sticky train --devices cpu,cuda:1 "${tiny[@]}"
export CUDA_EMULATED_REPORT=1

# One that fails once comes back, and leaves nothing behind the first time either.
CUDA_EMULATED_FAIL=cudaLaunchKernel:60:701 train --devices cuda:0:algorithm=local,cpu --model mlp \
    --dataset synthetic:28x28x1:10:512 --batch-size 64 --max-steps 300 --readmit 0.05
check "the card is back" grep -q 'device cuda:0.* is readmitted' train.err

# fails N: the N-th call of all fails; false when there were fewer.
fails() {
    local got
    CUDA_EMULATED_FAIL="*:$1:701" timeout 60 "$DPTRAIN" train --devices cuda:0 "${tiny[@]}" \
        >out 2>err </dev/null
    got=$?
    checks=$((checks + 1))
    [[ $got =~ ^[013]$ ]] || fail "call $1: exit status $got: $(cat err)"
    ! grep -q 'emulated CUDA' err || fail "call $1: $(cat err)"
    [ "$got" -eq 0 ] || grep -qE '^dptrain: .*too many resources for a launch' err || fail "call $1: no words: $(cat err)"
}
for ((n = 1; n < 2000; n += 1 + n / ${DPTRAIN_TEST_EVERY:-4})); do
    fails "$n"
done
finish
