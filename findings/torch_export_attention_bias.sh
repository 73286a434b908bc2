#!/usr/bin/env bash
# torch 2.15.0: the default exporter fails at attention whose mask is computed from a trained parameter.
#
# scaled_dot_product_attention(q, k, v, attn_mask=bias), followed by transpose(1, 2).reshape(...), is the attention of
# T5, BEiT and other networks with relative positions, whose bias is looked up in a trained table.  With a bias that is
# a parameter itself, a buffer, or computed from frozen parameters, torch.onnx.export(dynamo=True) writes the file.  With
# a bias that is computed from a parameter with requires_grad it ends with an error: the graph was captured with the
# strides of one kernel (the reshape as a view), and is decomposed with those of another.  Frozen parameters, by
# requires_grad_(False), are exported as parameters like others, so that freezing a copy of the module is a way out.
#
# Guess before the run: whether a parameter is trained does not matter for the export.
#
# Output seen (2026-11-29, Python 3.11, Linux x86-64):
#     bias is a parameter: exported
#     bias is twice a parameter: failed, Cannot view a tensor
#     bias is twice a frozen parameter: exported
#
# What it means for dptrain: networks with such a bias are exported from a copy without requires_grad.  dptrain trains
# every parameter of the file.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet torch==2.15.0 onnx==1.23.2 onnxscript==0.7.2 || exit 2
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import sys
import torch
from torch.nn import functional as F

HEADS, WIDTH, PLACES = 2, 4, 5


class Attention(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor, self.bias = factor, torch.nn.Parameter(torch.randn(1, HEADS, PLACES, PLACES))

    def forward(self, x):
        q, k, v = x.reshape(-1, PLACES, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
        bias = self.bias if self.factor == 1 else self.bias * self.factor
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return y.transpose(1, 2).reshape(-1, PLACES, HEADS * WIDTH)


def seen(factor, trained):
    module = Attention(factor).requires_grad_(trained)
    shapes = ({0: torch.export.Dim("N", min=2, max=4096)},)
    try:
        torch.onnx.export(module, (torch.randn(2, PLACES, 3 * HEADS * WIDTH),), dynamo=True, verbose=False,
                          dynamic_shapes=shapes)
    except Exception as error:
        return "failed, " + ("Cannot view a tensor" if "Cannot view a tensor" in str(error) else "another error")
    return "exported"


cases = {"a parameter": (1, True), "twice a parameter": (2, True), "twice a frozen parameter": (2, False)}
results = {name: seen(*case) for name, case in cases.items()}
for name, result in results.items():
    print(f"bias is {name}: {result}")
sys.exit(list(results.values()) != ["exported", "failed, Cannot view a tensor", "exported"])
PYTHON
