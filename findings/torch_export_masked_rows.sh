#!/usr/bin/env bash
# torch 2.15.0: attention of a query whose keys are all masked is 0 in PyTorch, and the mean of all values or NaN in
# the file of the default exporter.
#
# scaled_dot_product_attention gives 0 for such a query, with a mask of bools and with one of numbers. Padded queries
# of a causal language model are of this kind. torch.onnx.export(dynamo=True) writes opset 20 by default. There a mask
# of bools becomes the smallest finite number, so that the softmax of a masked row is uniform, and the test for NaN
# behind it finds none. A mask of numbers with minus infinity has no such test, and the row is NaN. With
# opset_version=23 the exporter writes one operator Attention, and with dynamo=False it writes the test and minus
# infinity: both give 0.
#
# Guess before the run: 0 in the default file, as in PyTorch, and NaN in the older one.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     PyTorch: bool mask [0.0, 0.0] mask of numbers [0.0, 0.0]
#     default exporter: bool mask [3.0, 2.0] mask of numbers [nan, nan]
#     default exporter, opset 23: bool mask [0.0, 0.0] mask of numbers [0.0, 0.0]
#     older exporter: bool mask [0.0, 0.0]
#
# What it means for dptrain: dptrain computes what the file says, the mean and NaN too. docs/behaviour/onnx.md says to
# export attention with opset_version=23.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet torch==2.15.0 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0 || exit 2
FOLDER="$folder" "$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import os
import sys
import onnxruntime
import torch
from torch.nn import functional as F

PATH = os.path.join(os.environ["FOLDER"], "attention.onnx")


class Attention(torch.nn.Module):
    def forward(self, x, mask):
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


def row(mask, **options):
    """The output of the query whose keys are all masked."""
    torch.onnx.export(Attention(), (x, mask), PATH, external_data=False, verbose=False, **options)
    session = onnxruntime.InferenceSession(PATH, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {port.name: t.numpy() for port, t in zip(session.get_inputs(), (x, mask))})
    return [round(float(v), 4) for v in y[0, 0, 1]]


x = torch.tensor([[[[1.0, 2.0], [3.0, 0.0], [5.0, 4.0]]]])
keep = torch.tensor([[True, True, False], [False, False, False], [True, True, True]])[None, None]
numbers = torch.zeros(1, 1, 3, 3).masked_fill(~keep, float("-inf"))
own = [[round(v.item(), 4) for v in Attention()(x, mask)[0, 0, 1]] for mask in (keep, numbers)]
default = [row(mask, dynamo=True) for mask in (keep, numbers)]
newer = [row(mask, dynamo=True, opset_version=23) for mask in (keep, numbers)]
older = row(keep, dynamo=False)
print("PyTorch: bool mask", own[0], "mask of numbers", own[1])
print("default exporter: bool mask", default[0], "mask of numbers", default[1])
print("default exporter, opset 23: bool mask", newer[0], "mask of numbers", newer[1])
print("older exporter: bool mask", older)
zeros, mean = [0.0, 0.0], [3.0, 2.0]
nan = all(v != v for v in default[1])
sys.exit(not (own == newer == [zeros, zeros] and older == zeros and default[0] == mean and nan))
PYTHON
