#!/usr/bin/env bash
# torch 2.15.0: MultiheadAttention gives NaN for a sample of padding under eval() and no_grad(), and finite numbers in
# training.
#
# A sample all of whose keys are padding has no softmax. With need_weights=False training mode, and evaluation mode
# with gradients, go through scaled_dot_product_attention, which gives 0 before the last projection. eval() with
# no_grad() takes a fast path of its own, which gives NaN. need_weights=True, the default, gives NaN everywhere. So a
# network trains well and validates with NaN, or validates well only while gradients are recorded.
#
# Guess before the run: the same in training and evaluation: NaN.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     train, need_weights=False: NaN of 24 numbers: 0 with gradients, 0 under no_grad
#     train, need_weights=True: NaN of 24 numbers: 24 with gradients, 24 under no_grad
#     eval, need_weights=False: NaN of 24 numbers: 0 with gradients, 24 under no_grad
#     eval, need_weights=True: NaN of 24 numbers: 24 with gradients, 24 under no_grad
#
# What it means for dptrain: training, evaluation and prediction compute attention by the same operator.
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

torch.manual_seed(0)
attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
x = torch.randn(2, 3, 8)
padding = torch.tensor([[False, False, False], [True, True, True]])


def numbers(mode, gradients, weights):
    """How many outputs of the sample that is padding altogether are NaN."""
    attention.train(mode == "train")
    with torch.set_grad_enabled(gradients):
        y, _ = attention(x, x, x, key_padding_mask=padding, need_weights=weights)
    return y[1].isnan().sum().item()


seen = {}
for mode in ("train", "eval"):
    for gradients in (True, False):
        for weights in (False, True):
            seen[mode, gradients, weights] = numbers(mode, gradients, weights)
    for weights in (False, True):
        print(f"{mode}, need_weights={weights}: NaN of 24 numbers: {seen[mode, True, weights]} with gradients,"
              f" {seen[mode, False, weights]} under no_grad")
expected = {key: 24 if key[2] or key[:2] == ("eval", False) else 0 for key in seen}
sys.exit(seen != expected)
PYTHON
