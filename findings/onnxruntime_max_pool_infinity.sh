#!/usr/bin/env bash
# onnxruntime 1.32.0 turns negative infinity into the smallest finite number in MaxPool over one axis.
#
# The largest of several values that are all negative infinity is negative infinity.  onnxruntime computes this with
# windows over two axes, and with dilated windows over one axis.  With plain windows over one axis, and with
# GlobalMaxPool, it returns -3.4028235e+38, the smallest finite float.  The reference evaluator of the package onnx and
# PyTorch return negative infinity.  Networks meet this where a mask fills places with negative infinity in front of a
# maximum over time: what follows, such as exp(x - max), is then no longer NaN but a number.
#
# Guess before the run: all give negative infinity.
#
# Output seen (2026-11-28, Python 3.11, Linux x86-64):
#     MaxPool over one axis: onnxruntime -3.4028234663852886e+38, onnx -inf
#     MaxPool over one axis, dilated: onnxruntime -inf, onnx -inf
#     MaxPool over two axes: onnxruntime -inf, onnx -inf
#     GlobalMaxPool: onnxruntime -3.4028234663852886e+38, onnx -inf
#
# What it means for dptrain: its reference and its kernels begin with negative infinity or with a value of the window.
# A comparison with onnxruntime must use finite inputs.
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

LOWEST = float(np.finfo(np.float32).min)


def pool(operator, n_axes, **attributes):
    """The only distinct value of the results of onnxruntime and of onnx."""
    x = np.full((1, 1) + (4,) * n_axes, -np.inf, np.float32)
    node = helper.make_node(operator, ["X"], ["Y"], **attributes)
    graph = helper.make_graph(
        [node],
        "pool",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, x.shape)],
        [onnx.ValueInfoProto(name="Y")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    results = session.run(None, {"X": x})[0], ReferenceEvaluator(model).run(None, {"X": x})[0]
    (runtime,), (reference,) = (np.unique(y).tolist() for y in results)
    return runtime, reference


seen = {
    "MaxPool over one axis": pool("MaxPool", 1, kernel_shape=[2]),
    "MaxPool over one axis, dilated": pool("MaxPool", 1, kernel_shape=[2], dilations=[2]),
    "MaxPool over two axes": pool("MaxPool", 2, kernel_shape=[2, 2]),
    "GlobalMaxPool": pool("GlobalMaxPool", 1),
}
for name, (runtime, reference) in seen.items():
    print(f"{name}: onnxruntime {runtime}, onnx {reference}")
expected = [(LOWEST, -np.inf), (-np.inf, -np.inf), (-np.inf, -np.inf), (LOWEST, -np.inf)]
sys.exit(0 if list(seen.values()) == expected else 1)
PYTHON
