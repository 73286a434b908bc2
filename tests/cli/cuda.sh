#!/usr/bin/env bash
# Where no NVIDIA card can be used, the CUDA backend says why; where one can, what it refuses.
. "$SRC/tests/cli/kit.bash"

if ! ls "${DPTRAIN_BACKEND_PATH%%:*}"/libdptrain-cuda.so >/dev/null 2>&1; then
    absent cuda "the CUDA backend is not built"
fi

(
    export CUDA_VISIBLE_DEVICES=
    "$DPTRAIN" devices --no-measure >devices.out 2>devices.err
    refuse 1 'cuda is absent: no NVIDIA (driver|card)' \
        --devices cuda:0 --dataset synthetic:8x8x1:3:64 --max-steps 1
    [ "$failures" -eq 0 ]
) || failures=$((failures + 1))
check "a listing without a card" grep -qE '^cuda: absent: no NVIDIA (driver|card)' devices.out
check "the processor all the same" grep -q '^cpu ' devices.out

if "$DPTRAIN" devices --no-measure | grep -q '^cuda:0 '; then
    tiny=(--dataset synthetic:8x8x1:3:64 --max-steps 1)
    refuse 2 'precision=fp64 is none of fp32, tf32 and bf16' --devices cuda:0:precision=fp64 \
        "${tiny[@]}"
fi
finish
