#!/usr/bin/env bash
# openvino 2026.4.1: on the CPU integers of 64 bits are computed in 32, without an error.
#
# A network with int64 inputs and outputs is compiled and run, and its output has the type int64. `Add` of 2^40 and 1
# is 1, and `Gather` of 2^40 + 7, which computes nothing, is 7. ONNX Runtime gives the numbers of numpy. 2^33 + 5
# becomes 5: a number that no check of a range finds.
#
# Guess before the run (55 %): the sums are exact.
#
# Output seen (2026-12-01, Python 3.11, Linux x86-64):
#     Add: ONNX Runtime [1099511627777, 8589934597], OpenVINO [1, 5]
#     Gather: ONNX Runtime [1099511627783], OpenVINO [7]
#
# What it means for dptrain: the ids of tokens and places in its exported files are below 2^31, so they are not
# changed. A network around them that computes with hashes or times does not have them back.
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


add = both(helper.make_node("Add", ["x", "z"], ["y"]),
           {"x": np.array([2**40, 5]), "z": np.array([1, 2**33])}, np.int64)
pick = both(helper.make_node("Gather", ["x", "z"], ["y"]),
            {"x": np.array([2**40 + 7, 2]), "z": np.array([0])}, np.int64)
for name, (theirs, ours) in ("Add", add), ("Gather", pick):
    print(f"{name}: ONNX Runtime {theirs.tolist()}, OpenVINO {ours.tolist()}")
sys.exit(not (add[1].dtype == np.int64 and add[0].tolist() == [2**40 + 1, 2**33 + 5] and add[1].tolist() == [1, 5]
              and pick[0].tolist() == [2**40 + 7] and pick[1].tolist() == [7]))
PYTHON
