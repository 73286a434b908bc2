#!/usr/bin/env bash
# torch 2.15.0: the older exporter writes the padding of nn.Fold in a wrong order if it differs between the axes.
#
# ONNX's Col2Im has one list of pads: all beginnings, then all ends.  For padding=(1, 0) that is [1, 0, 1, 0].
# torch.onnx.export(dynamo=False) writes [1, 1, 0, 0]: both pads of the first axis, then both of the second.  If the
# number of blocks happens to be the same, ONNX Runtime computes other numbers and reports nothing.  If it is not,
# ONNX Runtime refuses the node with a message about the number of blocks.  The default exporter (dynamo=True) writes
# the right order.
#
# Guess before the run: both exporters write the same attribute, as both write that of padding=(1, 1).
#
# Output seen (2026-11-29, Python 3.11, Linux x86-64):
#     nn.Fold((6, 6), (3, 2), padding=(1, 0))
#     older exporter: pads [1, 1, 0, 0]; ONNX Runtime differs from the module by 21.0 of at most 27.0
#     default exporter: pads [1, 0, 1, 0]; ONNX Runtime differs from the module by 0.0 of at most 27.0
#     nn.Fold((6, 5), (3, 2), padding=(1, 0))
#     older exporter: pads [1, 1, 0, 0]; ONNX Runtime: does not match the number of sliding blocks
#     default exporter: pads [1, 0, 1, 0]; ONNX Runtime differs from the module by 0.0 of at most 23.0
#
# What it means for dptrain: such a file of the older exporter trains another network than the module, or is refused.
# The file itself is valid, so dptrain cannot tell.  docs/onnx.md says to export with the default exporter.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet torch==2.15.0 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0 || exit 2
FOLDER="$folder" "$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import os
import sys
import numpy as np
import onnx
import onnxruntime
import torch

PATH = os.path.join(os.environ["FOLDER"], "fold.onnx")


def seen(module, x, **options):
    """The pads in the file, and what ONNX Runtime makes of it beside the module."""
    torch.onnx.export(module, (x,), PATH, **options)
    model = onnx.load(PATH)
    (node,) = (n for n in model.graph.node if n.op_type == "Col2Im")
    (pads,) = (list(a.ints) for a in node.attribute if a.name == "pads")
    try:
        session = onnxruntime.InferenceSession(PATH, providers=["CPUExecutionProvider"])
        (y,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail as error:
        words = "does not match the number of sliding blocks"
        return pads, words if words in str(error) else "another error"
    want = module(x).numpy()
    return pads, (round(float(np.abs(y - want).max()), 3), round(float(np.abs(want).max()), 3))


def say(title, result):
    pads, what = result
    text = what if isinstance(what, str) else f"differs from the module by {what[0]} of at most {what[1]}"
    print(f"{title}: pads {pads}; ONNX Runtime{':' if isinstance(what, str) else ''} {text}")


results = []
for size in ((6, 6), (6, 5)):
    module = torch.nn.Fold(size, (3, 2), padding=(1, 0))
    blocks = 6 * (size[1] - 1)
    x = (torch.arange(2 * 6 * blocks, dtype=torch.float32) % 7).reshape(2, 6, blocks)
    print(f"nn.Fold({size}, (3, 2), padding=(1, 0))")
    older = seen(module, x, dynamo=False, opset_version=18)
    default = seen(module, x, dynamo=True, external_data=False, verbose=False)
    say("older exporter", older)
    say("default exporter", default)
    results.append((older, default))
(silent, right), (refused, also_right) = results
same = silent[0] == refused[0] == [1, 1, 0, 0] and right[0] == also_right[0] == [1, 0, 1, 0]
sys.exit(not (same and silent[1][0] > 1 and isinstance(refused[1], str) and refused[1].startswith("does not match")
              and right[1][0] == 0 and also_right[1][0] == 0))
PYTHON
