#!/usr/bin/env bash
# The reference evaluator of onnx 1.23.2 normalises as many channels in LRN as the batch has samples.
#
# LRN divides each element by a power of the sum of squares over neighbouring channels.  The evaluator's loop over the
# channels ends at the number of samples.  With fewer samples than channels the other channels are divided by
# bias ** beta alone, without a warning.  With more samples than channels it fails with an IndexError.  The node tests
# of the package have 5 samples and 5 channels, so that they do not notice.  onnxruntime 1.32.0 normalises all
# channels.
#
# Guess before the run: evaluator and onnxruntime agree for every batch.
#
# Output seen (2026-11-28, Python 3.11, Linux x86-64):
#     1 sample of 4 channels: onnx changes 1 channel, onnxruntime 4
#     2 samples of 4 channels: onnx changes 2 channels, onnxruntime 4
#     4 samples of 4 channels: onnx changes 4 channels, onnxruntime 4
#     5 samples of 4 channels: onnx fails with IndexError, onnxruntime changes 4 channels
#
# What it means for dptrain: expected values of LRN come from PyTorch or onnxruntime.  A comparison with the evaluator
# is valid only if the batch is as large as the number of channels, as in the node tests.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet onnx==1.23.2 onnxruntime==1.32.0 || exit 2
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

CHANNELS = 4


def changed(x, y):
    """The number of channels with an element that is not the input's."""
    return int(np.sum(np.any(np.abs(y - x) > 1e-3, axis=(0, 2, 3))))


def normalise(samples):
    """What onnx and onnxruntime change: a number of channels, or the name of an exception."""
    shape = [samples, CHANNELS, 2, 2]
    x = np.full(shape, 10, np.float32)
    node = helper.make_node("LRN", ["X"], ["Y"], size=3, alpha=0.1)
    graph = helper.make_graph(
        [node],
        "lrn",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    runtime = changed(x, session.run(None, {"X": x})[0])
    try:
        return changed(x, ReferenceEvaluator(model).run(None, {"X": x})[0]), runtime
    except IndexError:
        return "IndexError", runtime


def count(n, what):
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


seen = {samples: normalise(samples) for samples in (1, 2, 4, 5)}
for samples, (reference, runtime) in seen.items():
    head = f"{count(samples, 'sample')} of {CHANNELS} channels"
    if isinstance(reference, str):
        print(f"{head}: onnx fails with {reference}, onnxruntime changes {runtime} channels")
    else:
        print(f"{head}: onnx changes {count(reference, 'channel')}, onnxruntime {runtime}")
sys.exit(0 if seen == {1: (1, 4), 2: (2, 4), 4: (4, 4), 5: ("IndexError", 4)} else 1)
PYTHON
