#!/usr/bin/env bash
# onnx 1.23.2: the reference evaluator's LayerNormalization is 0 everywhere for ordinary float16 inputs.
#
# By the standard (opset 17) the attribute stash_type names the type in which mean and variance are computed, and its
# default is float32.  The evaluator computes them in float16.  The square of a deviation above 255 is infinite there,
# so that a row with one such element becomes 0.  RMSNormalization, from opset 23, honours its stash_type.
# ONNX Runtime computes both as the standard says.
#
# Guess before the run: the evaluator computes in float32, because that is the default.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64; the largest error of results of about 1):
#     LayerNormalization: reference 2.6, all zero True; ONNX Runtime 0.00047
#     RMSNormalization: reference 0.001, all zero False; ONNX Runtime 0.00093
#
# What it means for dptrain: expected values for float16 files are computed from the float32 of their numbers.
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

COUNT = 64
x = (100 * np.random.default_rng(0).standard_normal((1, COUNT))).astype(np.float16)
feed = {"X": x, "scale": np.ones(COUNT, np.float16), "bias": np.zeros(COUNT, np.float16)}


def outputs_of(operator, names):
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, feed[name].shape) for name in names]
    y = helper.make_tensor_value_info("Y", TensorProto.FLOAT16, x.shape)
    graph = helper.make_graph([helper.make_node(operator, names, ["Y"])], "g", inputs, [y])
    model = helper.make_model(graph, ir_version=11, opset_imports=[helper.make_opsetid("", 24)])
    onnx.checker.check_model(model, full_check=True)
    mine = {name: feed[name] for name in names}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return ReferenceEvaluator(model).run(None, mine)[0], session.run(None, mine)[0]


def seen(operator, names, centred):
    wide = x.astype(np.float64)
    wide -= wide.mean() if centred else 0
    wanted = wide / np.sqrt((wide ** 2).mean() + 1e-5)
    reference, other = outputs_of(operator, names)
    errors = [np.abs(y.astype(np.float64) - wanted).max() for y in (reference, other)]
    print(f"{operator}: reference {errors[0]:.2g}, all zero {not reference.any()}; ONNX Runtime {errors[1]:.2g}")
    return not reference.any(), errors[0] < 0.01, errors[1] < 0.01


layer = seen("LayerNormalization", ["X", "scale", "bias"], True)
root = seen("RMSNormalization", ["X", "scale"], False)
sys.exit(0 if layer == (True, False, True) and root == (False, True, True) else 1)
PYTHON
