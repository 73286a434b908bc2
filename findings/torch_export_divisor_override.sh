#!/usr/bin/env bash
# torch 2.15.0: both exporters leave out the divisor_override of AvgPool2d without a word, so that sums become means.
#
# AvgPool2d(2, divisor_override=1) gives the sum of each window. ONNX's AveragePool has no such attribute.
# torch.onnx.export writes AveragePool without a factor behind it, with dynamo=True and with dynamo=False, and reports
# nothing. ONNX Runtime computes the mean.
#
# Guess before the run: the exporters refuse the argument, or write the mean with a factor.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     sums of 2x2 ones: PyTorch 4.0, file of the older exporter 1.0, of the default exporter 1.0
#     attributes of the default exporter's AveragePool: auto_pad ceil_mode count_include_pad kernel_shape pads strides
#
# What it means for dptrain: the file is valid and does not tell. docs/behaviour/onnx.md says to write the factor in
# the module: avg_pool2d(x, k) * (k * k / divisor).
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
import numpy as np
import onnx
import onnxruntime
import torch

PATH = os.path.join(os.environ["FOLDER"], "pool.onnx")


def mean(x, **options):
    """The mean of the output in ONNX Runtime, and the names of the node's attributes."""
    torch.onnx.export(module, (x,), PATH, **options)
    (node,) = (n for n in onnx.load(PATH).graph.node if n.op_type == "AveragePool")
    session = onnxruntime.InferenceSession(PATH, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    return round(float(np.mean(y)), 4), sorted(a.name for a in node.attribute)


module = torch.nn.AvgPool2d(2, divisor_override=1)
x = torch.ones(1, 1, 4, 4)
own = round(module(x).mean().item(), 4)
older, _ = mean(x, dynamo=False)
default, names = mean(x, dynamo=True, external_data=False, verbose=False)
print(f"sums of 2x2 ones: PyTorch {own}, file of the older exporter {older}, of the default exporter {default}")
print("attributes of the default exporter's AveragePool:", *names)
sys.exit((own, older, default) != (4.0, 1.0, 1.0))
PYTHON
