#!/usr/bin/env bash
# onnx 1.23.2 and onnxruntime 1.32.0 disagree on Resize with align_corners when a scale gives no whole extent.
#
# Resize scales 4 numbers by 0.6, which gives 2 numbers.  With align_corners the first and the last number of the
# output are the first and the last number of the input.  The reference evaluator of the package onnx divides by the
# scaled extent before rounding, 2.4, and so its last number is not the last number of the input.  onnxruntime divides
# by the extent of the output, 2.  With the extent of the output given as `sizes` both agree.
#
# Guess before the run: both give the last number of the input, as the name align_corners says.
#
# Output seen (2026-11-28, Python 3.11, Linux x86-64):
#     scales 0.6: onnx [1.0, 3.142857], onnxruntime [1.0, 4.0]
#     sizes 2: onnx [1.0, 4.0], onnxruntime [1.0, 4.0]
#
# What it means for dptrain: Resize with align_corners follows the extent of the output, as PyTorch and onnxruntime do.
# The node test of the package onnx with such a scale is left out (docs/onnx-nodes.md).
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
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator


def resize(name, value):
    """The results of both for the numbers 1 to 4 and one more input, scales or sizes."""
    inputs = ["X", "", "scales"] if name == "scales" else ["X", "", "", "sizes"]
    node = helper.make_node("Resize", inputs, ["Y"], mode="linear", coordinate_transformation_mode="align_corners")
    graph = helper.make_graph(
        [node],
        "resize",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [1, 1, 4])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [1, 1, 2])],
        [onnx.numpy_helper.from_array(value, name)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    feed = {"X": np.arange(1, 5, dtype=np.float32).reshape(1, 1, 4)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    results = ReferenceEvaluator(model).run(None, feed)[0], session.run(None, feed)[0]
    return [[round(float(v), 6) for v in y.ravel()] for y in results]


by_scale = resize("scales", np.array([1, 1, 0.6], np.float32))
by_size = resize("sizes", np.array([1, 1, 2], np.int64))
print(f"scales 0.6: onnx {by_scale[0]}, onnxruntime {by_scale[1]}")
print(f"sizes 2: onnx {by_size[0]}, onnxruntime {by_size[1]}")
expected = by_scale == [[1.0, 3.142857], [1.0, 4.0]] and by_size == [[1.0, 4.0], [1.0, 4.0]]
sys.exit(0 if expected else 1)
PYTHON
