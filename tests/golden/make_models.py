#!/usr/bin/env python3
"""Makes tests/golden/RUN.txt: the losses and running statistics of PyTorch's networks over 20 steps.

    make_models.py PROGRAM [RUN...]

PROGRAM is the built test-train-golden_models, which knows the runs and gives settings, initial
weights and data; without RUN all of them are made anew.  Needs torch, torchvision, numpy and
safetensors.  The golden files are made once and kept; the test reads them and needs none of these.

What is written was computed in float64.  Each run is repeated in float32, which says how much of a
difference can be rounding; the script refuses to write a run in which that is more than a tenth of
what the test tolerates, or in which the loss does not fall by a fifth.

Rounding is not always small: a value at ReLU's kink that it puts on the other side lets a gradient
through or stops one.  So each run is repeated once more, in float64, with every value that lies
within KINK of zero taken for one of the other sign: KINK is twice what Winograd's convolutions are
off by, as a root of the mean square, where values have deviation 1 (docs/numerics.md).  If that
changes a loss by more than nine tenths of what is tolerated, whoever rounds differently fails for no
fault of his own, and the run is refused.
"""

import os
import subprocess
import sys
import tempfile

import numpy
import torch
from safetensors.torch import load_file
from torch import nn

import networks

RUNS = ["resnet18-d2l-sgd", "resnet18-d2l-adamw", "resnet18-sgd", "resnet18-adamw", "resnet50-sgd",
        "resnet18-imagenet-sgd", "vgg11-sgd"]
LOSS_TOLERANCE, STATISTIC_TOLERANCE = 1e-4, 1e-3
KINK = 5e-6
# dptrain multiplies by this; x / 255 differs in the last bit.
SCALE = numpy.float32(1) / numpy.float32(255)


class MaskedReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask):
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, dy):
        return dy * ctx.saved_tensors[0], None


def undecided_relu(x, inplace=False):
    """ReLU that is wrong about every value too near to zero for rounding to tell its sign."""
    del inplace
    mask = (x > 0) ^ (x.abs() < KINK)
    return MaskedReLU.apply(x, mask.to(x.dtype))


class Run:
    def __init__(self, program, name):
        self.name = name
        lines = subprocess.run([program, "settings", name], check=True, text=True,
                               stdout=subprocess.PIPE).stdout.split()
        for key, value in (line.split("=") for line in lines):
            text = key in ("model", "optimizer")
            number = float if key in ("lr", "momentum", "weight_decay") else int
            setattr(self, key, value if text else number(value))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "initial.safetensors")
            subprocess.run([program, "initial", name, path], check=True)
            self.initial = load_file(path)
            path = os.path.join(folder, "data")
            subprocess.run([program, "data", name, path], check=True)
            data = numpy.fromfile(path, dtype=numpy.uint8)
        pixels, labels = data[:-self.count], data[-self.count:]
        images = pixels.reshape(self.count, self.side, self.side, self.channels)
        self.images = torch.from_numpy(images.transpose(0, 3, 1, 2).astype(numpy.float32) * SCALE)
        self.labels = torch.from_numpy(labels.astype(numpy.int64))

    def create_optimizer(self, parameters):
        if self.optimizer == "adamw":
            return torch.optim.AdamW(parameters, lr=self.lr, weight_decay=self.weight_decay)
        return torch.optim.SGD(parameters, lr=self.lr, momentum=self.momentum,
                               weight_decay=self.weight_decay)

    def create_model(self):
        return networks.create(self.model, self.side, self.side, self.channels, self.classes,
                               self.seed)

    def train(self, dtype):
        model = self.create_model()
        model.load_state_dict(self.initial)  # strict: the same names, no renaming
        return self.train_model(model, dtype)

    def train_model(self, model, dtype):
        """Losses, and running statistics by name."""
        model.to(dtype).train()
        optimizer = self.create_optimizer(model.parameters())
        loss_of, losses, per_epoch = nn.CrossEntropyLoss(), [], self.count // self.batch
        for step in range(self.steps):
            first = step % per_epoch * self.batch
            samples = slice(first, first + self.batch)
            for layer in model.modules():
                if isinstance(layer, networks.KeyedDropout):
                    layer.samples = range(first, first + self.batch)
                    layer.epoch = step // per_epoch + 1
            optimizer.zero_grad()
            loss = loss_of(model(self.images[samples].to(dtype)), self.labels[samples])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        statistics = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()
                      if ".running_" in name}
        return numpy.array(losses), statistics


def train_undecided(run):
    """In float64, with undecided_relu for ReLU."""
    relus = torch.relu, nn.functional.relu
    torch.relu = nn.functional.relu = undecided_relu
    try:
        return run.train(torch.float64)
    finally:
        torch.relu, nn.functional.relu = relus


def differences(run, exact, rounded):
    """The largest of losses and of the statistics that the test compares."""
    statistics = [numpy.abs(exact[1][name] - rounded[1][name]).max() for name in exact[1]
                  if not ("d2l-adamw" in run.name and "running_mean" in name)]
    return numpy.abs(exact[0] - rounded[0]).max(), max(statistics, default=0.0)


def make(program, name):
    run = Run(program, name)
    exact, rounded = run.train(torch.float64), run.train(torch.float32)
    losses, statistics = exact
    of_losses, of_statistics = differences(run, exact, rounded)
    of_kinks = max(numpy.abs(losses - train_undecided(run)[0]))
    print(f"{name}: loss {losses[0]:.4f} to {losses[-1]:.4f}, float32 differs by {of_losses:.1e}, "
          f"running statistics by {of_statistics:.1e}, kinks decide on {of_kinks:.1e}", flush=True)
    if of_kinks > 0.9 * LOSS_TOLERANCE:
        sys.exit(f"{name}: a value at ReLU's kink decides too much; take another seed")
    if of_losses > 0.1 * LOSS_TOLERANCE or of_statistics > 0.1 * STATISTIC_TOLERANCE:
        sys.exit(f"{name}: rounding grows too much; take a smaller rate or another seed")
    if losses[-1] > 0.8 * losses[0]:
        sys.exit(f"{name}: the loss does not fall by a fifth; take a greater rate or another seed")
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.txt")
    with open(path, "w", encoding="ascii") as file:
        print(f"# PyTorch {torch.__version__} in float64: {run.model}, images of {run.side}x"
              f"{run.side}x{run.channels}, batch {run.batch} of {run.count} in their order,\n"
              f"# {run.optimizer} lr {run.lr:g} momentum {run.momentum:g} weight decay "
              f"{run.weight_decay:g}; made by make_models.py.\n"
              f"# In float32 losses differ by {of_losses:.1e}, running statistics by "
              f"{of_statistics:.1e};\n"
              f"# signs of values within {KINK:g} of ReLU's kink change losses by {of_kinks:.1e}.",
              file=file)
        for loss in losses:
            print(f"loss {loss:.9g}", file=file)
        for tensor, values in statistics.items():
            sample = values[numpy.arange(run.sampled) * len(values) // run.sampled]
            print(tensor, *(f"{v:.6g}" for v in [values.mean(), *sample]), file=file)


def main():
    for name in sys.argv[2:] or RUNS:
        make(sys.argv[1], name)


if __name__ == "__main__":
    main()
