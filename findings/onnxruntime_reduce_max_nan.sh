#!/usr/bin/env bash
# onnxruntime 1.32.0: ReduceMax, ReduceMin, ArgMax and MaxPool ignore NaN, and Max and Min of two inputs return it.
#
# PyTorch's amax, amin, argmax and max_pool2d return NaN, or its place, as its maximum does. ONNX Runtime's operators
# over an axis skip NaN. A network whose numbers have gone wrong therefore gives finite results and a class. The
# reference evaluator of onnx 1.23.2 returns NaN over an axis, and skips it in MaxPool.
#
# Guess before the run: ReduceMax and MaxPool return NaN, and ArgMax another place than in PyTorch.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     ReduceMax: ONNX Runtime [3.0], reference [nan]
#     ReduceMin: ONNX Runtime [1.0], reference [nan]
#     ArgMax: ONNX Runtime [2], reference [1]
#     MaxPool: ONNX Runtime [3.0], reference [3.0]
#     Max of two inputs: ONNX Runtime [nan], reference [nan]
#
# What it means for dptrain: a comparison with ONNX Runtime must use inputs without NaN, and finite outputs of an
# exported network there are no proof that its weights are finite.
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

X = np.array([[1.0, np.nan, 3.0, 2.0]], np.float32)


def both(title, op, inputs, feed, shape, attributes=None, kind=TensorProto.FLOAT):
    """What ONNX Runtime and the reference evaluator compute."""
    node = helper.make_node(op, inputs, ["y"], **(attributes or {}))
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(v.shape)) for n, v in feed.items()]
    graph = helper.make_graph([node], "nan", ports, [helper.make_tensor_value_info("y", kind, shape)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    mine = session.run(None, feed)[0].ravel().tolist()
    other = np.asarray(ReferenceEvaluator(model).run(None, feed)[0]).ravel().tolist()
    print(f"{title}: ONNX Runtime {mine}, reference {other}")
    return mine[0], other[0]


over = {"axes": [1], "keepdims": 0}
largest = both("ReduceMax", "ReduceMax", ["x"], {"x": X}, [1], over)
smallest = both("ReduceMin", "ReduceMin", ["x"], {"x": X}, [1], over)
place = both("ArgMax", "ArgMax", ["x"], {"x": X}, [1], {"axis": 1, "keepdims": 0}, TensorProto.INT64)
window = both("MaxPool", "MaxPool", ["x"], {"x": X[None]}, [1, 1, 1], {"kernel_shape": [4]})
pair = both("Max of two inputs", "Max", ["x", "z"], {"x": X[:, 1:2], "z": X[:, :1]}, [1, 1])
nan = lambda v: v != v
sys.exit(not (largest[0] == 3 and nan(largest[1]) and smallest[0] == 1 and nan(smallest[1]) and place == (2, 1)
              and window[0] == 3 and nan(pair[0]) and nan(pair[1])))
PYTHON
