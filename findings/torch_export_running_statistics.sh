#!/usr/bin/env bash
# torch 2.15.0: an export in training mode by the older exporter changes the running statistics of the module.
#
# torch.onnx.export(dynamo=False, training=TrainingMode.TRAINING) runs the module once to record its operations.  This
# run is one in training mode: each batch-norm moves its running mean and variance towards those of the example and
# counts a batch.  The file has the moved statistics.  Each further export of the same module moves them again.  The
# default exporter (dynamo=True) leaves the module as it was, and its file has the statistics of the module.
#
# Guess before the run: an export does not change the module, as the exporter restores the module's mode afterwards.
#
# Output seen (2026-11-29, Python 3.11, Linux x86-64):
#     module before: mean [0.0, 0.0], batches 0
#     older exporter, training mode: mean of the module [0.3, 0.3], batches 1; mean in the file [0.3, 0.3]
#     again: mean of the module [0.57, 0.57], batches 2; mean in the file [0.57, 0.57]
#     default exporter: mean of the module [0.0, 0.0], batches 0; mean in the file [0.0, 0.0]
#
# What it means for dptrain: the first evaluation of a file of the older exporter differs from that of the module before
# the export.  docs/onnx.md says to export a copy of the module.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet torch==2.15.0 onnx==1.23.2 onnxscript==0.7.2 || exit 2
FOLDER="$folder" "$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import os
import sys
import onnx
import torch
from onnx import numpy_helper

PATH = os.path.join(os.environ["FOLDER"], "net.onnx")


def rounded(values):
    return [round(float(v), 4) for v in values]


def export(module, x, **options):
    """The running mean of the module, its count of batches, and the running mean in the file."""
    torch.onnx.export(module, (x,), PATH, **options)
    tensors = {t.name: numpy_helper.to_array(t) for t in onnx.load(PATH).graph.initializer}
    (name,) = (n for n in tensors if n.endswith("running_mean"))
    return rounded(module.running_mean), module.num_batches_tracked.item(), rounded(tensors[name])


def say(title, seen):
    print(f"{title}: mean of the module {seen[0]}, batches {seen[1]}; mean in the file {seen[2]}")


x = torch.full((4, 2, 5, 5), 3.0)
module = torch.nn.BatchNorm2d(2).train()
print(f"module before: mean {rounded(module.running_mean)}, batches {module.num_batches_tracked.item()}")
older = {"dynamo": False, "training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False}
first, second = export(module, x, **older), export(module, x, **older)
say("older exporter, training mode", first)
say("again", second)
fresh = torch.nn.BatchNorm2d(2).train()
third = export(fresh, x, dynamo=True, optimize=False, external_data=False, verbose=False)
say("default exporter", third)
expected = (([0.3] * 2, 1, [0.3] * 2), ([0.57] * 2, 2, [0.57] * 2), ([0.0] * 2, 0, [0.0] * 2))
sys.exit((first, second, third) != expected)
PYTHON
