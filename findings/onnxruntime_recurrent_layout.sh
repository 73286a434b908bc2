#!/usr/bin/env bash
# onnxruntime 1.32.0 does not run a recurrent operator with layout 1.
#
# Since opset 14, the ONNX standard gives LSTM, GRU and RNN the attribute `layout`.  With layout 1 the batch
# is the first axis of the input and of the outputs, as in PyTorch with batch_first.  The checker of the
# package onnx 1.23.2 accepts such a model, and onnx's own reference evaluator computes it.  onnxruntime's CPU
# provider refuses to create a session.
#
# Guess before the run: onnxruntime transposes internally and computes the same as the reference evaluator.
#
# Output seen (2026-11-28, Python 3.11, Linux x86-64):
#     checker: accepts
#     reference evaluator: output of shape (2, 3, 1, 4)
#     onnxruntime: Fail, ... Batchwise recurrent operations (layout == 1) are not supported. ...
#
# What it means for dptrain: an exporter must write layout 0 and transpose, also where its own memory has the
# batch first; a reader must accept both.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet onnx==1.23.2 onnxruntime==1.32.0 || exit 2
"$folder/venv/bin/python" - <<'PYTHON'
import sys
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

BATCH, STEPS, INPUTS, HIDDEN = 2, 3, 5, 4
rng = np.random.default_rng(0)
weights = {
    "W": rng.standard_normal((1, 3 * HIDDEN, INPUTS)).astype(np.float32),
    "R": rng.standard_normal((1, 3 * HIDDEN, HIDDEN)).astype(np.float32),
}
node = helper.make_node("GRU", ["X", "W", "R"], ["Y"], hidden_size=HIDDEN, layout=1)
graph = helper.make_graph(
    [node],
    "gru",
    [helper.make_tensor_value_info("X", TensorProto.FLOAT, [BATCH, STEPS, INPUTS])],
    [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [BATCH, STEPS, 1, HIDDEN])],
    [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
onnx.checker.check_model(model, full_check=True)
print("checker: accepts")
x = rng.standard_normal((BATCH, STEPS, INPUTS)).astype(np.float32)
(y,) = ReferenceEvaluator(model).run(None, {"X": x})
print("reference evaluator: output of shape", y.shape)
try:
    onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
except Exception as error:
    words = str(error)
    print("onnxruntime:", type(error).__name__ + ",", words.strip().splitlines()[-1][-200:])
    sys.exit(0 if "layout == 1" in words else 1)
print("onnxruntime: accepts")
sys.exit(1)
PYTHON
