#!/usr/bin/env bash
# numpy 2.3.5 with ml_dtypes 0.7.0: an array in bfloat16 that np.save has written is read as raw bytes, without an error.
#
# np.save, and np.savez, write the type of an array as text.  For types of ml_dtypes this is that of bytes without a
# meaning: <V2 for bfloat16, and <V1 for float8_e4m3fn.  np.load gives an array of bytes, also if ml_dtypes is loaded.
# astype(float32) then fails, and view(bfloat16) is right if the reader knows the type from elsewhere.  float8_e5m2 is
# written as <f1, a type that numpy does not have, so that the file cannot be read at all.  safetensors keeps the type of
# the same array.
#
# Guess before the run: np.save refuses the type, or np.load gives bfloat16 where ml_dtypes is loaded.
#
# Output seen (2026-12-01, Python 3.11, Linux x86-64):
#     bfloat16: the file says <V2, np.load gives |V2, astype(float32): ValueError
#     float8_e4m3fn: the file says <V1, np.load gives |V1, astype(float32): ValueError
#     float8_e5m2: the file says <f1, np.load: ValueError
#     view(bfloat16) of the bytes is the array: True
#     safetensors 0.8.0 gives bfloat16
#
# What it means for dptrain: a .npy or .npz file with such an array is refused with its type, "<V2"; write float32, or
# safetensors.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet numpy==2.3.5 ml_dtypes==0.7.0 safetensors==0.8.0 || exit 2
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import re
import sys

import ml_dtypes
import numpy as np
from safetensors.numpy import load_file, save_file

seen = []


def outcome(function):
    try:
        return str(function())
    except Exception as error:
        return type(error).__name__


for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
    array = np.arange(4).astype(getattr(ml_dtypes, name))
    np.save("a.npy", array)
    with open("a.npy", "rb") as file:
        said = re.search(rb"'descr': '([^']*)'", file.read())[1].decode()
    try:
        read = np.load("a.npy")
    except Exception as error:
        print(f"{name}: the file says {said}, np.load: {type(error).__name__}")
        seen.append((said, type(error).__name__))
        continue
    cast = outcome(lambda: read.astype(np.float32).dtype)
    print(f"{name}: the file says {said}, np.load gives {read.dtype}, astype(float32): {cast}")
    seen.append((said, str(read.dtype), cast))
array = np.arange(4).astype(ml_dtypes.bfloat16)
np.save("a.npy", array)
same = bool((np.load("a.npy").view(ml_dtypes.bfloat16) == array).all())
print(f"view(bfloat16) of the bytes is the array: {same}")
save_file({"a": array}, "a.safetensors")
kept = str(load_file("a.safetensors")["a"].dtype)
print(f"safetensors 0.8.0 gives {kept}")
expected = [("<V2", "|V2", "ValueError"), ("<V1", "|V1", "ValueError"), ("<f1", "ValueError")]
as_described = seen == expected and same and kept == "bfloat16"
sys.exit(0 if as_described else 1)
PYTHON
