#!/usr/bin/env bash
# torch 2.15.0: fused optimizers on processors mix up weights if a weight and its state have another order in memory.
#
# A module that is moved to channels_last between steps, or built in channels_last and given the optimizer state of a
# contiguous one, has convolution weights in another order than their momentum or moments. Optimizers that are not fused
# go by indices. fused=True on a processor goes by places in memory, without an error: each weight is moved by the state
# of another one. So SGD with momentum, Adam, AdamW and Adagrad. A parameter that is a view with steps is trained wrongly
# too, from the first step on.
#
# Guess before the run: fused and not, within rounding.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64; fused against not fused behind 3 + 3 steps):
#     AdamW, contiguous throughout: weights up to 0.33, differ by 1e-07
#     AdamW, channels_last throughout: weights up to 0.33, differ by 1e-07
#     AdamW, channels_last behind 3 steps: weights up to 0.33, differ by 0.3
#     AdamW, state loaded into channels_last: weights up to 0.33, differ by 0.3
#     SGD with momentum, channels_last behind 3 steps: weights up to 0.089, differ by 0.1
#
# What it means for dptrain: nothing depends on the order in memory. A checkpoint has one order, whatever the device.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet torch==2.15.0 || exit 2
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import copy
import sys

import torch

LAST = torch.channels_last


def train(title, when, make):
    """How much the weights of 6 steps differ between fused and not fused."""
    ends = []
    for fused in (False, True):
        torch.manual_seed(0)
        net = torch.nn.Conv2d(3, 4, 5)
        if when == "throughout":
            net.to(memory_format=LAST)
        optimizer = make(net.parameters(), fused)
        for step in range(6):
            if step == 3 and when == "between":
                net.to(memory_format=LAST)
            if step == 3 and when == "loaded":
                weights, state = copy.deepcopy(net.state_dict()), copy.deepcopy(optimizer.state_dict())
                net = torch.nn.Conv2d(3, 4, 5).to(memory_format=LAST)
                net.load_state_dict(weights)
                optimizer = make(net.parameters(), fused)
                optimizer.load_state_dict(state)
            optimizer.zero_grad()
            net(torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(step))).pow(2).mean().backward()
            optimizer.step()
        ends.append(net.weight.detach().clone())
    difference = (ends[0] - ends[1]).abs().max().item()
    print(f"{title}: weights up to {ends[0].abs().max():.2g}, differ by {difference:.1g}")
    return difference > 0.01


def adamw(parameters, fused):
    return torch.optim.AdamW(parameters, lr=0.1, fused=fused)


def sgd(parameters, fused):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, fused=fused)


seen = [
    train("AdamW, contiguous throughout", "never", adamw),
    train("AdamW, channels_last throughout", "throughout", adamw),
    train("AdamW, channels_last behind 3 steps", "between", adamw),
    train("AdamW, state loaded into channels_last", "loaded", adamw),
    train("SGD with momentum, channels_last behind 3 steps", "between", sgd),
]
sys.exit(seen != [False, False, True, True, True])
PYTHON
