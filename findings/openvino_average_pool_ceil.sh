#!/usr/bin/env bash
# openvino 2026.4.1: average pooling with ceil mode and counted padding divides the last window by its whole size.
#
# With `ceil_mode=1` the last window of `AveragePool` may reach beyond the padded picture. What lies there is no
# padding. ONNX (since opset 19), PyTorch and ONNX Runtime divide by the number of places within the padded picture,
# here by 2 of 3. OpenVINO divides by 3, so the last row and column are too small by a third.
#
# Guess before the run (60 %): the same as ONNX Runtime.
#
# Output seen (2026-12-01, Python 3.11, Linux x86-64):
#     ONNX Runtime [0.667, 1.0, 1.0, 0.5]
#     OpenVINO     [0.667, 1.0, 1.0, 0.333]
#
# What it means for dptrain: it pools as PyTorch does. The outputs of an exported network with such a layer differ
# in OpenVINO at the border.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet openvino==2026.4.1 onnx==1.23.2 onnxruntime==1.32.0 || exit 2
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import sys
import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import helper, numpy_helper

CORE = openvino.Core()
CORE.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32"})  # some processors would compute in bfloat16


def both(node, feed, kind, constants=None, opset=19):
    """What ONNX Runtime and OpenVINO compute of a node with the output y."""
    ports = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in feed.items()]
    out = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(kind)), None)
    known = [numpy_helper.from_array(v, n) for n, v in (constants or {}).items()]
    graph = helper.make_graph([node], "one", ports, [out], known)
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9).SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    compiled = CORE.compile_model(CORE.read_model(data), "CPU")
    return session.run(None, feed)[0], compiled(feed)[compiled.output(0)]


x = np.ones((1, 1, 1, 6), np.float32)
node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[1, 3], strides=[1, 2], pads=[0, 1, 0, 1],
                        ceil_mode=1, count_include_pad=1)
theirs, ours = both(node, {"x": x}, np.float32)
print("ONNX Runtime", [round(float(v), 3) for v in theirs.ravel()])
print("OpenVINO    ", [round(float(v), 3) for v in ours.ravel()])
sys.exit(not (np.allclose(theirs, [2 / 3, 1, 1, 1 / 2]) and np.allclose(ours, [2 / 3, 1, 1, 1 / 3])))
PYTHON
