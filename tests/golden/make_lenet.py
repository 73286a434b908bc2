#!/usr/bin/env python3
"""Makes tests/golden/lenet.txt: the losses of PyTorch's LeNet over 50 steps.

    make_lenet.py PROGRAM DATA > tests/golden/lenet.txt

PROGRAM is the built test-train-golden, which writes the initial weights; DATA is the folder with
Fashion-MNIST's gzipped IDX files.  Needs torch, numpy and safetensors.  The golden file is made once
and kept; the test reads it and needs none of these.
"""

import gzip
import os
import subprocess
import sys
import tempfile

import numpy
import torch
from safetensors.torch import load_file
from torch import nn

STEPS, BATCH, RATE, MOMENTUM = 50, 256, 0.005, 0.9
# dptrain multiplies by this; x / 255 differs in the last bit.
SCALE = numpy.float32(1) / numpy.float32(255)


def read_idx(path, header, shape):
    with gzip.open(path) as file:
        return numpy.frombuffer(file.read(), dtype=numpy.uint8, offset=header).reshape(shape)


def lenet():
    model = nn.Sequential()
    for name, layer in [
        ("conv1", nn.Conv2d(1, 20, 3)),
        ("relu1", nn.ReLU()),
        ("pool1", nn.AvgPool2d(2, 2)),
        ("conv2", nn.Conv2d(20, 50, 5)),
        ("relu2", nn.ReLU()),
        ("pool2", nn.AvgPool2d(2, 2)),
        ("flatten", nn.Flatten()),
        ("fc1", nn.Linear(800, 128)),
        ("relu3", nn.ReLU()),
        ("fc2", nn.Linear(128, 10)),
    ]:
        model.add_module(name, layer)
    return model


def main():
    program, data = sys.argv[1:]
    images = read_idx(os.path.join(data, "train-images-idx3-ubyte.gz"), 16, (-1, 1, 28, 28))
    labels = read_idx(os.path.join(data, "train-labels-idx1-ubyte.gz"), 8, (-1,))
    model = lenet()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "initial.safetensors")
        subprocess.run([program, "initial", path], check=True)
        # Strict: the same names, no renaming.
        model.load_state_dict(load_file(path))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    loss_of = nn.CrossEntropyLoss()
    print(f"# PyTorch {torch.__version__}: LeNet, Fashion-MNIST in its order, batch {BATCH},")
    print(f"# SGD lr {RATE} momentum {MOMENTUM}; made by make_lenet.py")
    for step in range(STEPS):
        part = slice(step * BATCH, (step + 1) * BATCH)
        x = torch.from_numpy(images[part].astype(numpy.float32) * SCALE)
        y = torch.from_numpy(labels[part].astype(numpy.int64))
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.9g}")


if __name__ == "__main__":
    main()
