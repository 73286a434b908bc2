#!/usr/bin/env bash
# keras 3.15.1 on PyTorch 2.15.0 cannot export a model with LayerNormalization, or pooling with padding='same', as
# ONNX.
#
# model.export(path, format="onnx") goes through PyTorch's older exporter with a free batch. Keras computes the shape
# of the norm, and the padding of the pooling, from the size of the input at run time. The older exporter needs numbers
# there, and ends with a SymbolicValueError, although height, width and channels of the model are fixed. Other layers
# export and compute the same.
#
# Guess before the run: convolutions, batch-norm, LSTM and GRU export and agree; of layer-norm and pooling nothing was
# guessed.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     LayerNormalization: SymbolicValueError, Failed to export a node '%20
#     AveragePooling2D, padding='same': SymbolicValueError, Failed to export a node '%39
#     MaxPooling2D, padding='same': SymbolicValueError, Failed to export a node '%39
#     BatchNormalization: exported, the same numbers in ONNX Runtime
#     GroupNormalization: exported, the same numbers in ONNX Runtime
#     LSTM: exported, the same numbers in ONNX Runtime
#
# What it means for dptrain: vision transformers of Keras do not come as ONNX files of this exporter.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet keras==3.15.1 torch==2.15.0 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0 || exit 2
FOLDER="$folder" "$folder/venv/bin/python" - 2>/dev/null <<'PYTHON' | grep -E "^(Layer|Average|Max|Batch|Group|LSTM)"
import os
import sys

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
import onnxruntime
from keras import layers


def attempt(title, shape, layer):
    path = os.path.join(os.environ["FOLDER"], "net.onnx")
    model = keras.Sequential([keras.Input(shape), layer])
    x = np.random.default_rng(0).standard_normal((2,) + shape).astype(np.float32)
    expected = model.predict(x, verbose=0)
    try:
        model.export(path, format="onnx", verbose=False)
    except Exception as error:
        words = str(error).split(",")[0].split(":")[0]
        print(f"{title}: {type(error).__name__}, {words}")
        return type(error).__name__
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {session.get_inputs()[0].name: x})
    right = np.abs(y - expected).max() < 1e-5
    print(f"{title}: exported, {'the same' if right else 'other'} numbers in ONNX Runtime")
    return right


seen = [
    attempt("LayerNormalization", (5,), layers.LayerNormalization()),
    attempt("AveragePooling2D, padding='same'", (7, 7, 3), layers.AveragePooling2D(3, 2, padding="same")),
    attempt("MaxPooling2D, padding='same'", (7, 7, 3), layers.MaxPooling2D(3, 2, padding="same")),
    attempt("BatchNormalization", (5, 5, 3), layers.BatchNormalization()),
    attempt("GroupNormalization", (5, 5, 4), layers.GroupNormalization(2)),
    attempt("LSTM", (5, 3), layers.LSTM(4)),
]
sys.exit(seen != ["SymbolicValueError"] * 3 + [True] * 3)
PYTHON
