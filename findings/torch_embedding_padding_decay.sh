#!/usr/bin/env bash
# torch 2.15.0: weight decay changes the padding row of an Embedding, although the documentation calls it fixed.
#
# The documentation of padding_idx says that the row gets no gradient and is therefore not updated during training. Its
# gradient is 0, but weight decay does not need one. AdamW has a weight decay of 0.01 by default. A row of zeros, which
# is what the constructor makes, stays; a row from pretrained weights shrinks towards 0.
#
# Guess before the run: the row is unchanged with AdamW, as documented.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     SGD: gradient of the padding row 0.0, its value 1.0 became 1.0
#     SGD, weight decay 0.5: gradient of the padding row 0.0, its value 1.0 became 0.5987
#     AdamW with its defaults, rate 0.1: gradient of the padding row 0.0, its value 1.0 became 0.99
#
# What it means for dptrain: ONNX files do not tell the padding row, and its row is trained like the others
# (docs/onnx.md). A frozen tensor is not decayed.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet torch==2.15.0 || exit 2
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import sys
import torch


def train(make):
    table = torch.nn.Embedding.from_pretrained(torch.ones(2, 1), freeze=False, padding_idx=0)
    optimizer = make(table.parameters())
    for _ in range(10):
        optimizer.zero_grad()
        table(torch.tensor([0, 1])).sum().backward()
        optimizer.step()
    return round(table.weight[0].item(), 4), table.weight.grad[0].item()


results = {
    "SGD": train(lambda p: torch.optim.SGD(p, 0.1)),
    "SGD, weight decay 0.5": train(lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.5)),
    "AdamW with its defaults, rate 0.1": train(lambda p: torch.optim.AdamW(p, 0.1)),
}
for title, (row, gradient) in results.items():
    print(f"{title}: gradient of the padding row {gradient}, its value 1.0 became {row}")
plain, decayed, adamw = (row for row, _ in results.values())
sys.exit(not (plain == 1.0 and decayed < 0.7 and 0.98 < adamw < 1.0))
PYTHON
