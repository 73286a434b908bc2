#!/usr/bin/env python3
"""Compares exported networks with ONNX Runtime.

    check_export.py FOLDER        needs onnx, onnxruntime, numpy

FOLDER has what test-train-onnx_export keeps there (DPTRAIN_EXPORT_KEEP): NAME.onnx, NAME.in and NAME.out.  Every file
must pass onnx.checker with full_check.  The outputs must differ by at most 1e-5 of the largest.  Prints a line for
each network.  Exit status 1: a network failed.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime

LIMIT = 1e-5


def run(path, numbers, count):
    """The output of ONNX Runtime for `count` samples, which are channels last."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    port = session.get_inputs()[0]
    batch = port.shape.index("N")
    shape = [n for i, n in enumerate(port.shape) if i != batch]
    if len(shape) == 3 and port.type == "tensor(float)":
        x = numbers.reshape(count, shape[1], shape[2], shape[0]).transpose(0, 3, 1, 2)
    else:
        x = numbers.reshape(count, *shape)
    dtype = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}[port.type]
    x = np.ascontiguousarray(np.moveaxis(x, 0, batch).astype(dtype))
    out = session.get_outputs()[0]
    y = session.run(None, {port.name: x})[0]
    return np.moveaxis(y, out.shape.index("N"), 0)


def probabilities(y):
    """Class probabilities with the classes last, as the trainer predicts them."""
    if y.ndim >= 4:
        y = np.moveaxis(y, 1, -1)
    e = np.exp(y - y.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def difference(folder, name):
    """The largest difference of an output, divided by the largest output."""
    path = os.path.join(folder, name + ".onnx")
    onnx.checker.check_model(path, full_check=True)
    numbers = np.fromfile(os.path.join(folder, name + ".in"), np.float32)
    kept = np.fromfile(os.path.join(folder, name + ".out"), np.float32)
    expected = kept[1:]
    y = run(path, numbers, 2)
    if kept[0]:
        y = probabilities(y)
    y = y.reshape(-1)
    if y.shape != expected.shape:
        raise ValueError(f"{y.size} outputs, expected {expected.size}")
    return float(np.abs(y - expected).max() / np.abs(expected).max())


def main():
    folder = sys.argv[1]
    names = sorted(f[:-5] for f in os.listdir(folder) if f.endswith(".onnx"))
    failed = not names
    for name in names:
        try:
            worst = difference(folder, name)
            good = worst <= LIMIT
            print(f"{'ok  ' if good else 'FAIL'} {name}: {worst:.2g}")
        except Exception as error:  # one line for each network
            good = False
            print(f"FAIL {name}: {str(error).strip().splitlines()[0]}")
        failed = failed or not good
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
