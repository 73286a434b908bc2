#!/usr/bin/env python3
"""Checkpoints between dptrain and PyTorch, in both directions, for every kind of network.

    check_checkpoints.py PROGRAM

PROGRAM is the built test-train-golden_models.  Needs torch, torchvision, numpy and safetensors.
"""

import os
import subprocess
import sys
import tempfile

import numpy
import torch
from safetensors.torch import load_file, save_file

from make_models import Run

RUNS = ["resnet18-d2l-sgd", "resnet18-adamw", "resnet50-sgd", "vgg11-sgd"]
STEPS = 3


def last_linear(state):
    """The names of the layer that gives the logits."""
    weight = [name for name, tensor in state.items() if tensor.dim() == 2][-1]
    return weight, weight.replace("weight", "bias")


def logits_of_dptrain(program, run, state, folder):
    """dptrain gives probabilities.  With the last class's weights and bias at zero, its logit is
    zero, and the others' are log(p / p of the last)."""
    path, out = os.path.join(folder, "state.safetensors"), os.path.join(folder, "probabilities")
    save_file(state, path)
    subprocess.run([program, "predict", run.name, path, out], check=True)
    p = numpy.fromfile(out, dtype=numpy.float32).astype(numpy.float64)
    p = p.reshape(run.count, run.classes)
    return numpy.log(p / p[:, -1:])


def check_logits(program, run, path, folder):
    """What dptrain saved, in PyTorch: strict loading, and the same logits."""
    model = run.create_model()
    model.load_state_dict(load_file(path))
    state = model.state_dict()
    for name in last_linear(state):
        state[name][-1] = 0
    with torch.no_grad():
        expected = model.double().eval()(run.images.double()).numpy()
    model.float()
    # As PyTorch saves it: with the counters of batch-norm, which are int64.
    got = logits_of_dptrain(program, run, model.state_dict(), folder)
    worst = numpy.abs(got - expected).max()
    assert numpy.abs(expected).max() > 0.05, "the logits are all alike"
    assert worst <= 1e-5, f"logits differ by {worst:.1e}"
    return worst


def check_training(program, run, path, folder):
    """A PyTorch state, trained on by both."""
    model = run.create_model()
    model.load_state_dict(load_file(path))
    run.steps = STEPS
    run.train_model(model, torch.float32)  # so that the counters are not zero
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    path = os.path.join(folder, "torch.safetensors")
    save_file(state, path)
    expected, _ = run.train_model(model, torch.float64)
    result = subprocess.run([program, "resume", run.name, path, str(STEPS)], check=True, text=True,
                            stdout=subprocess.PIPE)
    got = numpy.array([float(line) for line in result.stdout.split()])
    worst = numpy.abs(got - expected).max()
    assert worst <= 1e-4, f"losses differ by {worst:.1e}"
    counters = [tensor for name, tensor in state.items() if name.endswith("num_batches_tracked")]
    assert all(counter.dtype == torch.int64 and counter > 0 for counter in counters)
    return worst


def main():
    torch.set_num_threads(1)
    program = sys.argv[1]
    for name in RUNS:
        run = Run(program, name)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trained.safetensors")
            subprocess.run([program, "train", name, path, str(STEPS)], check=True,
                           stdout=subprocess.DEVNULL)
            logits = check_logits(program, run, path, folder)
            losses = check_training(program, run, path, folder)
        print(f"{name}: logits differ by {logits:.1e}, losses by {losses:.1e}", flush=True)


if __name__ == "__main__":
    main()
