#!/usr/bin/env bash
# onnx 1.23.2 converts GroupNormalization from opset 18 to 21 without adapting its scale and bias.
#
# In opset 18, GroupNormalization has one scale and one bias for each group.  Since opset 21 it has one for each
# channel.  The version converter of the package onnx raises the opset of a model with such a node and leaves the
# node as it was.  The checker accepts the result, with full_check as well.  The converted model does not run:
# onnxruntime 1.32.0 fails when it multiplies by the scale.
#
# Guess before the run: the converter repeats every scale and bias for the channels of its group.
#
# Output seen (2026-11-28, Python 3.11, Linux x86-64):
#     opset 18: onnxruntime computes an output of shape (2, 4, 3)
#     converted to opset 21: inputs ['X', 'scale', 'bias'], scale has 2 elements for 4 channels
#     checker: accepts the converted model
#     converted: onnxruntime fails
#
# What it means for dptrain: a reader takes the meaning of scale and bias from the opset of the model, checks their
# number against the groups or the channels, and cannot rely on the checker.
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
from onnx import TensorProto, helper, version_converter

GROUPS, CHANNELS, WIDTH = 2, 4, 3


def run(model, x):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"X": x})[0]


values = {"scale": np.array([2.0, 3.0], np.float32), "bias": np.array([0.5, -1.0], np.float32)}
node = helper.make_node("GroupNormalization", ["X", "scale", "bias"], ["Y"], num_groups=GROUPS)
shape = ["N", CHANNELS, WIDTH]
graph = helper.make_graph(
    [node],
    "group_norm",
    [helper.make_tensor_value_info("X", TensorProto.FLOAT, shape)],
    [helper.make_tensor_value_info("Y", TensorProto.FLOAT, shape)],
    [onnx.numpy_helper.from_array(value, name) for name, value in values.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
x = np.random.default_rng(0).standard_normal((2, CHANNELS, WIDTH)).astype(np.float32)
print("opset 18: onnxruntime computes an output of shape", run(model, x).shape)

converted = version_converter.convert_version(model, 21)
(node,) = converted.graph.node
sizes = {t.name: t.dims[0] for t in converted.graph.initializer}
print(f"converted to opset 21: inputs {list(node.input)}, scale has {sizes[node.input[1]]} elements",
      f"for {CHANNELS} channels")
onnx.checker.check_model(converted, full_check=True)
print("checker: accepts the converted model")
try:
    run(converted, x)
except Exception:
    print("converted: onnxruntime fails")
    sys.exit(0 if sizes[node.input[1]] == GROUPS else 1)
print("converted: onnxruntime runs")
sys.exit(1)
PYTHON
