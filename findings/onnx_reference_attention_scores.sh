#!/usr/bin/env bash
# onnx 1.23.2: the reference evaluator's Attention gives capped scores where the standard asks for the product.
#
# The fourth output of Attention (opset 23 and 24) has the scores of the stage that qk_matmul_output_mode names.  Mode 0
# is the output of the product of queries and keys, and mode 1 what comes behind the soft cap.  With a soft cap the
# evaluator returns the capped scores in both modes.  ONNX Runtime returns the product in mode 0.  The first output is
# the same in both, and without a soft cap so is the fourth.
#
# Guess before the run: both agree with the standard's text in all four modes.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     reference, mode 0: the capped scores
#     reference, mode 1: the capped scores
#     ONNX Runtime, mode 0: the product
#     ONNX Runtime, mode 1: the capped scores
#
# What it means for dptrain: expected values for this output are not taken from the evaluator.
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

CAP, SHAPE = 1.5, (1, 1, 3, 4)
rng = np.random.default_rng(0)
feed = {name: rng.standard_normal(SHAPE).astype(np.float32) for name in "QKV"}
product = feed["Q"] @ feed["K"].transpose(0, 1, 3, 2) / np.sqrt(SHAPE[-1])
STAGES = {"the product": product, "the capped scores": CAP * np.tanh(product / CAP)}


def stage_of(scores):
    names = [name for name, wanted in STAGES.items() if np.abs(scores - wanted).max() < 1e-5]
    return names[0] if names else "neither"


def scores_of(mode):
    node = helper.make_node("Attention", ["Q", "K", "V"], ["Y", "", "", "scores"], softcap=CAP, qk_matmul_output_mode=mode)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in "QKV"]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, (1, 1, 3, 3))]
    model = helper.make_model(helper.make_graph([node], "g", inputs, outputs), ir_version=11,
                              opset_imports=[helper.make_opsetid("", 24)])
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return {"reference": ReferenceEvaluator(model).run(None, feed)[0], "ONNX Runtime": session.run(None, feed)[0]}


seen = {(who, mode): stage_of(scores) for mode in (0, 1) for who, scores in scores_of(mode).items()}
for who in ("reference", "ONNX Runtime"):
    for mode in (0, 1):
        print(f"{who}, mode {mode}: {seen[who, mode]}")
capped = "the capped scores"
sys.exit(0 if seen == {("reference", 0): capped, ("reference", 1): capped, ("ONNX Runtime", 0): "the product",
                       ("ONNX Runtime", 1): capped} else 1)
PYTHON
