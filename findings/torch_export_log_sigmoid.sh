#!/usr/bin/env bash
# torch 2.15.0: the default exporter writes logsigmoid, binary_cross_entropy_with_logits and logaddexp in a form that
# is infinite where PyTorch's own result is finite.
#
# PyTorch computes these functions so that no part of them overflows.  torch.onnx.export(dynamo=True) writes
# logsigmoid(x) as Log(Sigmoid(x)), the loss with the same two nodes, and logaddexp(a, b) as Log(Add(Exp(a), Exp(b))).
# In float32 the sigmoid of -104 and below is 0, and exp(89) is infinite.  ONNX Runtime computes what the file says.
# logsumexp, softplus and log_softmax are exported in a form that does not overflow.
#
# Guess before the run: the exporter writes Softplus for logsigmoid, as ONNX has that operator.
#
# Output seen (2026-11-29, Python 3.11, Linux x86-64):
#     logsigmoid(-110): PyTorch -110.0, ONNX Runtime -inf, nodes Sigmoid Log
#     loss of logit -110, target 1: PyTorch 110.0, ONNX Runtime inf, nodes Sub Mul Sigmoid Log Sub
#     logaddexp(100, 99): PyTorch 100.3, ONNX Runtime inf, nodes Exp Exp Add Log
#     logsumexp of 100 and 99: PyTorch 100.3, ONNX Runtime 100.3
#
# What it means for dptrain: a network with such a loss in its file would stop with a loss that is not finite.  dptrain
# computes Log(Sigmoid(x)) as one function.
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
import onnx
import onnxruntime
import torch
from torch.nn import functional as F

PATH = os.path.join(os.environ["FOLDER"], "log.onnx")


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, a, b):
        return self.function(a, b)


def seen(function, a, b):
    """What PyTorch and ONNX Runtime compute, and the operators of the file."""
    numbers = torch.tensor([float(a)]), torch.tensor([float(b)])
    torch.onnx.export(Module(function), numbers, dynamo=True, verbose=False).save(PATH)
    session = onnxruntime.InferenceSession(PATH, providers=["CPUExecutionProvider"])
    feed = {port.name: number.numpy() for port, number in zip(session.get_inputs(), numbers)}
    (y,) = session.run(None, feed)
    nodes = " ".join(node.op_type for node in onnx.load(PATH).graph.node)
    return round(function(*numbers).item(), 1), round(float(y.item()), 1), nodes


def say(title, result, nodes=True):
    mine, other, operators = result
    print(f"{title}: PyTorch {mine}, ONNX Runtime {other}" + (f", nodes {operators}" if nodes else ""))


sigmoid = seen(lambda a, b: F.logsigmoid(a), -110, 0)
loss = seen(lambda a, b: F.binary_cross_entropy_with_logits(a, b, reduction="none"), -110, 1)
pair = seen(torch.logaddexp, 100, 99)
total = seen(lambda a, b: torch.logsumexp(torch.stack((a, b)), 0), 100, 99)
say("logsigmoid(-110)", sigmoid)
say("loss of logit -110, target 1", loss)
say("logaddexp(100, 99)", pair)
say("logsumexp of 100 and 99", total, nodes=False)
inf = float("inf")
as_described = (sigmoid == (-110.0, -inf, "Sigmoid Log") and loss[:2] == (110.0, inf)
                and pair == (100.3, inf, "Exp Exp Add Log") and total[:2] == (100.3, 100.3))
sys.exit(0 if as_described else 1)
PYTHON
