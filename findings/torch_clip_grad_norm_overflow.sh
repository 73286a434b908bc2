#!/usr/bin/env bash
# torch 2.15.0: clip_grad_norm_ replaces large finite gradients by zeros, because it computes their norm in float32.
#
# Squares of numbers above 1.8e19 are infinite in float32. The norm is then infinite, and its reciprocal, by which all
# gradients are multiplied, is 0. The optimizer goes on with gradients of 0: weights stay, or move by momentum and
# weight decay. Only error_if_nonfinite=True tells, and the returned norm. The true norm, 2e19, is a float32 number.
#
# Guess (put into words after the first run): gradients are scaled to the norm 1, as their norm is finite.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     gradients of 1e18: norm 2e+18, clipped to 0.5
#     gradients of 1e19: norm inf, clipped to 0.0
#     gradients of 1e19 in float64: norm 2e+19, clipped to 0.5
#     the norm in double precision: 2e+19; the largest float32: 3.403e+38
#
# What it means for dptrain: `--clip-norm` sums squares in double precision or with a scale, so that such gradients
# keep their direction.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet torch==2.15.0 || exit 2
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import sys
import torch


def clip(value, dtype=torch.float32):
    parameter = torch.nn.Parameter(torch.zeros(4, dtype=dtype))
    parameter.grad = torch.full((4,), value, dtype=dtype)
    norm = torch.nn.utils.clip_grad_norm_([parameter], 1.0)
    return norm.item(), parameter.grad.tolist()


results = [clip(1e18), clip(1e19), clip(1e19, torch.float64)]
for title, (norm, gradient) in zip(("1e18", "1e19", "1e19 in float64"), results):
    print(f"gradients of {title}: norm {norm:.4g}, clipped to {round(gradient[0], 4)}")
parameter = torch.nn.Parameter(torch.zeros(4))
parameter.grad = torch.full((4,), 1e19)
true = parameter.grad.double().norm().item()
print(f"the norm in double precision: {true:.4g}; the largest float32: {torch.finfo(torch.float32).max:.4g}")
small, large, double = results
sys.exit(not (abs(small[1][0] - 0.5) < 1e-3 and large[0] == float("inf") and large[1] == [0.0] * 4
              and abs(double[1][0] - 0.5) < 1e-3))
PYTHON
