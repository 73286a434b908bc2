#!/usr/bin/env bash
# onnxruntime 1.32.0 pads dilated pooling with auto_pad SAME_UPPER as if it were not dilated.
#
# With auto_pad SAME_UPPER and a stride of 1 the output of MaxPool and AveragePool has as many places as the input.
# The shape inference of the package onnx says so with dilations too.  onnxruntime computes the padding for the window
# without its gaps: 6 places with a window of 3 and a dilation of 2 become 4.  onnxruntime's own shape inference has 6,
# so it warns while it runs the model, and returns the short output.  The reference evaluator of onnx computes MaxPool
# as the specification says.  Its AveragePool has 6 places, of which the first 4 are onnxruntime's and the rest are 0.
#
# Guess before the run: the padding grows with the dilation, and all give 6 places with equal numbers.
#
# Output seen (2026-11-28, Python 3.11, Linux x86-64):
#     MaxPool: inferred 6 places, onnxruntime [3.0, 5.0, 3.0, 4.0], onnx [5.0, 3.0, 5.0, 3.0, 4.0, 3.0]
#     AveragePool: inferred 6 places, onnxruntime [2.0, 3.667, 1.333, 3.0], onnx [2.0, 3.667, 1.333, 3.0, 0.0, 0.0]
#
# What it means for dptrain: the import computes the padding of MaxPool from the dilated window.  Outputs of such a
# network cannot be compared with onnxruntime's.  Dilated AveragePool is refused.
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
from onnx import TensorProto, helper, shape_inference
from onnx.reference import ReferenceEvaluator

X = np.array([[[5, 1, 2, 3, 4, 0]]], np.float32)


def pool(operator):
    """The inferred number of places, and the results of onnxruntime and of onnx."""
    node = helper.make_node(operator, ["X"], ["Y"], kernel_shape=[3], dilations=[2], strides=[1],
                            auto_pad="SAME_UPPER")
    graph = helper.make_graph(
        [node],
        "pool",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [1, 1, 6])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [1, 1, "places"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    inferred = shape_inference.infer_shapes(model).graph.output[0].type.tensor_type.shape.dim[2].dim_value
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    results = session.run(None, {"X": X})[0], ReferenceEvaluator(model).run(None, {"X": X})[0]
    return inferred, *([round(float(v), 3) for v in y.ravel()] for y in results)


seen = {operator: pool(operator) for operator in ("MaxPool", "AveragePool")}
for operator, (inferred, runtime, reference) in seen.items():
    print(f"{operator}: inferred {inferred} places, onnxruntime {runtime}, onnx {reference}")
expected = {
    "MaxPool": (6, [3.0, 5.0, 3.0, 4.0], [5.0, 3.0, 5.0, 3.0, 4.0, 3.0]),
    "AveragePool": (6, [2.0, 3.667, 1.333, 3.0], [2.0, 3.667, 1.333, 3.0, 0.0, 0.0]),
}
sys.exit(0 if seen == expected else 1)
PYTHON
