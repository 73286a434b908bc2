#!/usr/bin/env bash
# openvino 2026.4.1: Relu, Clip and Max of two inputs turn NaN into a number on the CPU.
#
# PyTorch and ONNX Runtime keep NaN in these three. In OpenVINO `Relu(NaN)` is 0, `Clip(NaN)` is the lower limit, and
# `Max(NaN, 1)` is 1; `LeakyRelu(NaN)` and `Softmax` of a row with NaN are NaN. So a network of convolutions and `Relu`
# whose weights are NaN gives finite outputs, as if it had learnt a constant.
#
# Guess before the run (60 %): NaN stays in all three.
#
# Output seen (2026-12-01, Python 3.11, Linux x86-64):
#     Relu: ONNX Runtime nan, OpenVINO 0.0
#     Clip to [-2, 2]: ONNX Runtime nan, OpenVINO -2.0
#     Max with 1: ONNX Runtime nan, OpenVINO 1.0
#     LeakyRelu: ONNX Runtime nan, OpenVINO nan
#
# What it means for dptrain: it refuses to load weights that are not finite, and its activations keep NaN. Finite
# outputs of an exported network in OpenVINO are no proof that its weights are finite.
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


x = np.array([np.nan], np.float32)
limits = {"low": np.float32(-2), "high": np.float32(2)}
found = {
    "Relu": both(helper.make_node("Relu", ["x"], ["y"]), {"x": x}, np.float32),
    "Clip to [-2, 2]": both(helper.make_node("Clip", ["x", "low", "high"], ["y"]), {"x": x}, np.float32,
                            {n: np.array(v) for n, v in limits.items()}),
    "Max with 1": both(helper.make_node("Max", ["x", "z"], ["y"]), {"x": x, "z": np.ones(1, np.float32)}, np.float32),
    "LeakyRelu": both(helper.make_node("LeakyRelu", ["x"], ["y"]), {"x": x}, np.float32),
}
for name, (theirs, ours) in found.items():
    print(f"{name}: ONNX Runtime {float(theirs[0])}, OpenVINO {float(ours[0])}")
seen = [float(ours[0]) for _, ours in found.values()]
sys.exit(not (all(np.isnan(theirs[0]) for theirs, _ in found.values()) and seen[:3] == [0, -2, 1] and seen[3] != seen[3]))
PYTHON
