#!/usr/bin/env bash
# safetensors 0.8.0: the same tensors with the same metadata make another file in each run.
#
# The header has the metadata in the order of a hash table that is seeded at random. With five entries most runs of one
# program differ, and so do two calls in one process; with one entry or none files are the same. Tensors are always in
# the same order. Checksums of checkpoints, stores that keep equal files once, and builds that are to be reproducible
# see a new file each time, although every reader gets the same content.
#
# Guess before the run: entries keep their order, so that the same call writes the same bytes.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64; different files in 20 calls):
#     no metadata: 1
#     1 entry: 1
#     5 entries: 18
#     5 entries in the file that was read back: the same in all
#
# What it means for dptrain: it writes entries in one order, so that the same training writes the same bytes.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet safetensors==0.8.0 numpy==2.4.6 || exit 2
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import json
import sys

import numpy as np
from safetensors.numpy import save

tensors = {"a": np.ones(2, np.float32), "b": np.zeros(3, np.float32)}
entries = {"format": "pt", "step": "100", "epoch": "3", "seed": "0", "rate": "0.1"}


def files(metadata):
    return {save(tensors, metadata) for _ in range(20)}


def header(data):
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


none, one, five = files(None), files({"format": "pt"}), files(entries)
same = all(header(data)["__metadata__"] == entries for data in five)
print(f"no metadata: {len(none)}")
print(f"1 entry: {len(one)}")
print(f"5 entries: {len(five)}")
print("5 entries in the file that was read back:", "the same in all" if same else "others")
sys.exit(0 if len(none) == len(one) == 1 and len(five) > 1 and same else 1)
PYTHON
