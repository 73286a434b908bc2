#!/usr/bin/env bash
# numpy 2.3.5 with ml_dtypes 0.7.0: the sum of 1000 ones in bfloat16 is 256, and their mean 0.2559.
#
# sum, mean and cumsum of an array in bfloat16 add in bfloat16, one number after the other.  256 + 1 is not a bfloat16
# number and is rounded to 256, so that the sum stops there.  dot and matmul of the same numbers give 1000, and so does
# the sum of a float16 array, for which numpy adds in pairs.  Arrays in bfloat16 are what JAX hands to numpy, and what
# safetensors reads from files of weights in bfloat16.  Means, norms and accuracies of them are wrong without a word.
#
# Guess before the run: 1000, or 996 to 1004, because numpy adds float16 in a wider type or in pairs.
#
# Output seen (2026-12-01, Python 3.11, Linux x86-64):
#     1000 ones: sum 256, mean 0.255859, last of cumsum 256
#     dot 1000, matmul 1000, sum with dtype float32 1000, sum in float16 1000
#     the mean of 10000 numbers around 5: 0.205078 in bfloat16, 4.99937 in float32
#
# What it means for dptrain: convert such arrays to float32 before anything is summed; dptrain's own sums of numbers in
# bfloat16 are in float32 or wider.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet numpy==2.3.5 ml_dtypes==0.7.0 || exit 2
"$folder/venv/bin/python" - <<'PYTHON'
import sys

import ml_dtypes
import numpy as np

ones = np.ones(1000, dtype=ml_dtypes.bfloat16)
sums = [float(ones.sum()), float(np.cumsum(ones)[-1])]
print(f"1000 ones: sum {sums[0]:g}, mean {float(ones.mean()):g}, last of cumsum {sums[1]:g}")
right = [
    float(np.dot(ones, ones)),
    float((ones[None] @ ones[:, None]).item()),
    float(ones.sum(dtype=np.float32)),
    float(ones.astype(np.float16).sum()),
]
print("dot {:g}, matmul {:g}, sum with dtype float32 {:g}, sum in float16 {:g}".format(*right))
some = (5 + np.random.default_rng(0).random(10000) - 0.5).astype(ml_dtypes.bfloat16)
mean, wide = float(some.mean()), float(some.astype(np.float32).mean())
print(f"the mean of 10000 numbers around 5: {mean:g} in bfloat16, {wide:g} in float32")
sys.exit(0 if sums == [256, 256] and right == [1000] * 4 and mean < 1 < wide else 1)
PYTHON
