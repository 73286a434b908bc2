#!/usr/bin/env bash
# torch 2.15.0: the older exporter writes BatchNorm with momentum=None as a batch-norm that remembers the last batch
# alone.
#
# With momentum=None the running statistics of a module are the plain means over all batches. ONNX has no such form.
# torch.onnx.export(dynamo=False, training=TrainingMode.TRAINING) writes momentum 0, and reports nothing. In ONNX the
# momentum is the part of the old statistics that is kept, so that the running mean and variance are those of the last
# batch. The default exporter (dynamo=True) refuses such a module in training mode.
#
# Guess before the run: the exporter refuses it.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     momentum of the file's BatchNormalization: 0.0
#     running mean after batches of mean 2 and 12: PyTorch 7.0, the file in ONNX Runtime 12.0
#
# What it means for dptrain: a training of the file evaluates with the statistics of its last batch. `dptrain train`
# warns of a batch-norm with momentum 0.
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

PATH = os.path.join(os.environ["FOLDER"], "norm.onnx")
BATCHES = [torch.tensor([[1.0], [3.0]]), torch.tensor([[11.0], [13.0]])]

module = torch.nn.BatchNorm1d(1, momentum=None).train()
torch.onnx.export(module, (BATCHES[0],), PATH, dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                  do_constant_folding=False)
model = onnx.load(PATH)
(node,) = (n for n in model.graph.node if n.op_type == "BatchNormalization")
momentum = next(onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == "momentum")
print("momentum of the file's BatchNormalization:", momentum)

torch_module = torch.nn.BatchNorm1d(1, momentum=None).train()
for batch in BATCHES:
    torch_module(batch)
# Carries the statistics from batch to batch as a trainer of the file does.
model.graph.output.append(onnx.helper.make_tensor_value_info(node.output[1], onnx.TensorProto.FLOAT, [1]))
mean = 0.0
for batch in BATCHES:
    for tensor in model.graph.initializer:
        if tensor.name == node.input[3]:
            tensor.CopyFrom(onnx.numpy_helper.from_array(torch.tensor([mean]).numpy(), tensor.name))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    mean = float(session.run([node.output[1]], {session.get_inputs()[0].name: batch.numpy()})[0].item())
own = torch_module.running_mean.item()
print(f"running mean after batches of mean 2 and 12: PyTorch {own}, the file in ONNX Runtime {mean}")
sys.exit((momentum, own, mean) != (0.0, 7.0, 12.0))
PYTHON
