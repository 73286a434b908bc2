#!/usr/bin/env bash
# torch 2.15.0: the gradient of normalize at 0 is 1e12, and that of norm, of which it is made, is 0.
#
# normalize(x) divides by max(norm(x), 1e-12). At 0 the divisor is the constant 1e-12, and the gradient is its
# reciprocal. cosine_similarity with ones has the gradient 7e7. One row of zeros in a batch, such as an empty token in
# front of a contrastive loss, gives a gradient that is finite, so that no check for infinite numbers sees it, and that
# decides the step alone. layer_norm adds its epsilon to the variance and gives 0.
#
# Guess before the run: 0, as PyTorch's norm has it.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     gradient at 0 of normalize: 1e+12
#     gradient at 0 of cosine_similarity with ones: 7.071e+07
#     gradient at 0 of norm: 0
#     gradient at 0 of layer_norm: 0
#
# What it means for dptrain: a network of an ONNX file with this division has the same gradient, and so has PyTorch's
# cosine_similarity; the norm alone has 0, too.
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
from torch.nn import functional as F


def gradient(function):
    x = torch.zeros(1, 2, requires_grad=True)
    function(x).sum().backward()
    return float(f"{x.grad[0, 0].item():.4g}")


ones = torch.ones(1, 2)
seen = [
    gradient(F.normalize),
    gradient(lambda x: F.cosine_similarity(x, ones)),
    gradient(lambda x: x.norm(dim=1)),
    gradient(lambda x: F.layer_norm(x, (2,))),
]
for title, value in zip(("normalize", "cosine_similarity with ones", "norm", "layer_norm"), seen):
    print(f"gradient at 0 of {title}: {value:g}")
sys.exit(not (seen[0] > 9e11 and seen[1] > 1e7 and seen[2:] == [0.0, 0.0]))
PYTHON
