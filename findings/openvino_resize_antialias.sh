#!/usr/bin/env bash
# openvino 2026.4.1: Resize of ONNX with antialias=1 is computed without antialiasing, and says nothing.
#
# Since opset 18 `Resize` has `antialias`, which PyTorch writes for `interpolate(antialias=True)`: a picture that is made
# smaller is averaged over all pixels. OpenVINO gives what it gives without it: of a row of 64 pixels that becomes one
# of 4, two in sixteen pixels are looked at. Stripes of 0 and 1, whose mean is 0.5, become 0.
#
# Guess before the run: the same numbers as ONNX Runtime.
#
# Output seen (2026-12-01, Python 3.11, Linux x86-64):
#     with antialias: ONNX Runtime 0.438 to 0.500, OpenVINO 0.000 to 0.000
#     OpenVINO with and without it: equal
#
# What it means for dptrain: it scales pictures before training, with antialiasing, outside the network. A file that it
# read with such a `Resize` and wrote again gives other numbers in OpenVINO than in dptrain.
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


stripes = (np.arange(64) + 2) // 4 % 2  # four columns of 0, four of 1
x = np.tile(stripes.astype(np.float32), (1, 1, 8, 1))
size = {"size": np.array([1, 1, 8, 4], np.int64)}


def scaled(antialias):
    node = helper.make_node("Resize", ["x", "", "", "size"], ["y"], mode="linear", antialias=antialias)
    return both(node, {"x": x}, np.float32, size)


theirs, ours = scaled(1)
plain = scaled(0)[1]
print(f"with antialias: ONNX Runtime {theirs.min():.3f} to {theirs.max():.3f}, "
      f"OpenVINO {ours.min():.3f} to {ours.max():.3f}")
print("OpenVINO with and without it:", "equal" if np.array_equal(ours, plain) else "not equal")
sys.exit(not (np.array_equal(ours, plain) and abs(theirs - ours).max() > 0.2))
PYTHON
