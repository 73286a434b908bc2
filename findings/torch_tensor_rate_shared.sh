#!/usr/bin/env bash
# torch 2.15.0: a learning rate that is a tensor is shared by all groups of an optimizer, by saved states, and by the
# caller, so that a scheduler changes all of them.
#
# The rate of the constructor goes to every group that has none. A number is copied; a tensor is one object, which
# schedulers fill in place. Two lambdas of LambdaLR then give both groups the rate of the second. A state_dict that was
# taken earlier has the rate of now, as has the tensor that the caller passed, also in a second optimizer that was made
# with it.
#
# Guess before the run: two groups have two rates, and a state that was taken has the rate of then.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     rates behind 3 steps of 1/(1+e) and 1: numbers 0.1 and 0.4, tensors 0.4 and 0.4
#     rate in the state taken before 3 steps of ExponentialLR(0.5): number 0.4, tensor 0.05
#     the caller's tensor, and a second optimizer made with it: 0.05, 0.05
#
# What it means for dptrain: rates are numbers, and each group has a factor of its own.
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
from torch.optim import AdamW
from torch.optim.lr_scheduler import ExponentialLR, LambdaLR


def groups():
    return [{"params": [torch.nn.Parameter(torch.ones(2))]} for _ in range(2)]


def go(optimizer, scheduler):
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    return [round(float(group["lr"]), 6) for group in optimizer.param_groups]


rates = []
for rate in (0.4, torch.tensor(0.4)):
    optimizer = AdamW(groups(), lr=rate)
    rates.append(go(optimizer, LambdaLR(optimizer, [lambda e: 1 / (1 + e), lambda e: 1.0])))
print("rates behind 3 steps of 1/(1+e) and 1: numbers {} and {}, tensors {} and {}".format(*rates[0], *rates[1]))

states = []
for rate in (0.4, torch.tensor(0.4)):
    optimizer, second = AdamW(groups(), lr=rate), AdamW(groups(), lr=rate)
    state = optimizer.state_dict()
    go(optimizer, ExponentialLR(optimizer, 0.5))
    states.append(round(float(state["param_groups"][0]["lr"]), 6))
print("rate in the state taken before 3 steps of ExponentialLR(0.5): number {}, tensor {}".format(*states))
others = [round(float(rate), 6), round(float(second.param_groups[0]["lr"]), 6)]
print("the caller's tensor, and a second optimizer made with it: {}, {}".format(*others))
sys.exit((rates, states, others) != ([[0.1, 0.4], [0.4, 0.4]], [0.4, 0.05], [0.05, 0.05]))
PYTHON
