#!/usr/bin/env python3
"""Loads weights that dptrain has trained back into modules of PyTorch, by their names.

    check_state.py FOLDER        needs torch 2.15.0, onnx, onnxscript, numpy

FOLDER has what test-train-onnx_export keeps there (DPTRAIN_EXPORT_KEEP): NAME.onnx, NAME.safetensors, NAME.in and
NAME.out.  The modules are those of make_trained.py.  Each takes the tensors of the checkpoint, and then the
initialisers of the ONNX file.  The outputs in evaluation mode must differ by at most 1e-5 of the largest.  Keys that
the file lacks are printed.  Exit status 1: a network failed.
"""
import json
import os
import sys

import numpy as np
import onnx
import torch
from onnx import numpy_helper
import make_trained as made

LIMIT, COUNT = 1e-5, 2
MODULES = {"mlp": made.mlp, "attention": made.Attention, "joined": made.Joined, "tied": made.Tied, "bag": made.Bag,
           "bert": made.Encoder, "gpt": made.Gpt, "pixels": made.pixels, "unet": made.Unet, "norms": made.Norms,
           "capsules": made.Capsules}
SHAPES = {"mlp": (6,), "attention": (5, 4), "joined": (4, 4, 2), "tied": (6,), "bag": (6,), "bert": (6,), "gpt": (6,),
          "pixels": (3, 4, 2), "unet": (8, 8, 2), "norms": (6, 6, 2), "capsules": (4, 4, 2)}
IDS = ("bag", "bert", "gpt")


def load_file(path):
    """The tensors of a safetensors file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    types = {"F32": np.float32, "I64": np.int64}
    return {name: torch.from_numpy(np.frombuffer(data[slice(*t["data_offsets"])], types[t["dtype"]])
                                   .reshape(t["shape"]).copy())
            for name, t in header.items() if name != "__metadata__"}


def samples(folder, network, name):
    x = np.fromfile(os.path.join(folder, name + ".in"), np.float32).reshape(COUNT, *SHAPES[network])
    if x.ndim == 4:
        x = x.transpose(0, 3, 1, 2)
    x = torch.from_numpy(np.ascontiguousarray(x))
    return x.long() if network in IDS else x


def difference(folder, network, name, state):
    """The largest difference of an output, divided by the largest output, and the keys that are missing."""
    torch.manual_seed(0)
    module = MODULES[network]()
    missing, unexpected = module.load_state_dict(state, strict=False)
    if unexpected:
        raise ValueError(f"unexpected {unexpected}")
    with torch.no_grad():
        y = module.eval()(samples(folder, network, name))
    kept = np.fromfile(os.path.join(folder, name + ".out"), np.float32)
    if kept[0]:
        y = (y.movedim(1, -1) if y.dim() >= 4 else y).softmax(-1)
    expected = kept[1:]
    return float(np.abs(y.numpy().reshape(-1) - expected).max() / np.abs(expected).max()), missing


def initialisers(path, state):
    """The initialisers of an ONNX file that the checkpoint has, too: constants are left out."""
    graph = onnx.load(path).graph
    return {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in graph.initializer if t.name in state}


def main():
    folder, failed, seen = sys.argv[1], False, 0
    for network in MODULES:
        for way in ("default", "older"):
            name = f"{network}_{way}"
            path = os.path.join(folder, name)
            state = load_file(path + ".safetensors")
            for source, tensors in (("checkpoint", state), ("ONNX", initialisers(path + ".onnx", state))):
                worst, missing = difference(folder, network, name, tensors)
                good = worst <= LIMIT
                failed, seen = failed or not good, seen + 1
                print(f"{'ok  ' if good else 'FAIL'} {name} from {source}: {worst:.2g}"
                      f"{', without ' + ', '.join(missing) if missing else ''}")
    return 1 if failed or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
