#!/usr/bin/env bash
# torch 2.15.0: the gradient of clamp at a bound is 0 if the bounds are numbers, and 1/2 if they are tensors.
#
# clamp(x, 0.0, 1.0) and clamp(x, tensor(0.0), tensor(1.0)) have the same values everywhere.  Where x equals a bound
# their gradients differ: numbers give 0, as relu and hardtanh do, and tensors give one half, as maximum and minimum do
# for equal operands.  Neither is the 1 of a derivative taken from inside the interval.  An ONNX file has the
# same Clip for both, so that it cannot say which one a network was trained with.
#
# Guess before the run: 1 at both bounds in both forms, because the input lies within the interval.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64; the gradient at the lower bound, inside and at the upper bound):
#     numbers: 0.0 1.0 0.0
#     tensors: 0.5 1.0 0.5
#     maximum and minimum: 0.5 1.0 0.5
#     hardtanh: 0.0 1.0 0.0
#
# What it means for dptrain: inputs that are often equal to a bound, such as pixels of 0, train otherwise in the two
# forms.  docs/onnx.md says which gradient Clip has here.
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

low, high = torch.zeros(1), torch.ones(1)
FORMS = {
    "numbers": lambda x: x.clamp(0.0, 1.0),
    "tensors": lambda x: x.clamp(low, high),
    "maximum and minimum": lambda x: torch.minimum(torch.maximum(x, low), high),
    "hardtanh": lambda x: torch.nn.functional.hardtanh(x, 0.0, 1.0),
}


def slope(function, number):
    x = torch.tensor([number], requires_grad=True)
    function(x).sum().backward()
    return x.grad.item()


seen = {name: [slope(function, x) for x in (0.0, 0.5, 1.0)] for name, function in FORMS.items()}
for name, slopes in seen.items():
    print(f"{name}:", *slopes)
HALF, NONE = [0.5, 1.0, 0.5], [0.0, 1.0, 0.0]
sys.exit(0 if list(seen.values()) == [NONE, HALF, HALF, NONE] else 1)
PYTHON
