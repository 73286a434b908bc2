#!/usr/bin/env bash
# safetensors 0.8.0: safetensors.numpy writes a transposed array in the order of its memory, and so with wrong numbers.
#
# save and save_file take the bytes of the array as they lie in memory and note the shape of the view. A transposed
# array, or one in Fortran's order, is read back as another array of the same shape, without an error.
# safetensors.torch refuses tensors that are not contiguous. numpy.ascontiguousarray in front helps.
#
# Guess before the run: the right numbers, by a copy, as numpy.save makes one.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     as it is: saved [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], loaded [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
#     transposed: saved [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]], loaded [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
#     Fortran's order: saved [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], loaded [[0.0, 3.0, 1.0], [4.0, 2.0, 5.0]]
#     transposed and copied by ascontiguousarray: saved [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]], loaded [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
#
# What it means for dptrain: the file is valid and does not tell. docs/models.md says how to write weights with NumPy.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet safetensors==0.8.0 numpy==2.4.6 || exit 2
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import sys
import numpy as np
from safetensors.numpy import load, save

a = np.arange(6, dtype=np.float32).reshape(2, 3)


def trip(title, array):
    (back,) = load(save({"a": array})).values()
    right = back.shape == array.shape and np.array_equal(back, array)
    print(f"{title}: saved {array.tolist()}, loaded {back.tolist()}")
    return right


seen = [
    trip("as it is", a),
    trip("transposed", a.T),
    trip("Fortran's order", np.asfortranarray(a)),
    trip("transposed and copied by ascontiguousarray", np.ascontiguousarray(a.T)),
]
sys.exit(seen != [True, False, False, True])
PYTHON
