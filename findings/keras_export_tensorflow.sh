#!/usr/bin/env bash
# keras 3.15.1 on TensorFlow 2.21.0 writes ONNX files that no runtime takes for a GELU and for a Normalization layer,
# and reports success.
#
# model.export(path, format="onnx") goes through tf2onnx 1.17.0. The GELU of Keras, which is exact by default, becomes
# Erfc in the domain of ONNX, which has no such operator; tf2onnx prints a line, and the export returns. The mean and the
# variance of a Normalization layer become two further inputs of the network, and their numbers are not in the file.
# GELU with approximate=True, and a BatchNormalization, are written right.
#
# Guess before the run: the export of these layers succeeds, and agrees within 1e-5 in ONNX Runtime.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     gelu: exported; ONNX Runtime: InvalidGraph, nodes Erfc
#     gelu, approximate: exported; the same numbers in ONNX Runtime
#     Normalization: exported; ONNX Runtime wants 3 inputs
#     BatchNormalization: exported; the same numbers in ONNX Runtime
#
# What it means for dptrain: it refuses the first file with the name of the operator, and the second for the inputs
# without a batch (docs/behaviour/onnx.md says what to write instead).
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet keras==3.15.1 tensorflow-cpu==2.21.0 tf2onnx==1.17.0 onnx==1.23.2 \
    onnxruntime==1.32.0 || exit 2
FOLDER="$folder" KERAS_BACKEND=tensorflow "$folder/venv/bin/python" - 2>/dev/null <<'PYTHON' | grep -E '^(gelu|Norm|Batch)'
import os
import sys

import keras
import numpy as np
import onnx
import onnxruntime
from keras import layers


def attempt(title, layer):
    path = os.path.join(os.environ["FOLDER"], "net.onnx")
    model = keras.Sequential([keras.Input((5,)), layers.Dense(4), layer])
    x = np.random.default_rng(0).standard_normal((2, 5)).astype(np.float32)
    expected = model.predict(x, verbose=0)
    model.export(path, format="onnx", verbose=False)
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception as error:
        strange = [n.op_type for n in onnx.load(path).graph.node if not onnx.defs.has(n.op_type)]
        print(f"{title}: exported; ONNX Runtime: {type(error).__name__}, nodes", *strange)
        return strange
    if len(session.get_inputs()) > 1:
        print(f"{title}: exported; ONNX Runtime wants {len(session.get_inputs())} inputs")
        return len(session.get_inputs())
    (y,) = session.run(None, {session.get_inputs()[0].name: x})
    same = bool(np.abs(y - expected).max() < 1e-5)
    print(f"{title}: exported; {'the same' if same else 'other'} numbers in ONNX Runtime")
    return same


seen = [
    attempt("gelu", layers.Activation("gelu")),
    attempt("gelu, approximate", layers.Activation(lambda x: keras.activations.gelu(x, approximate=True))),
    attempt("Normalization", layers.Normalization(mean=[0.1, 0.2, 0.3, 0.4], variance=[1.0, 2.0, 3.0, 4.0])),
    attempt("BatchNormalization", layers.BatchNormalization()),
]
sys.exit(seen != [["Erfc"], True, 3, True])
PYTHON
