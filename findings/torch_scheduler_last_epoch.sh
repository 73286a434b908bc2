#!/usr/bin/env bash
# torch 2.15.0: a scheduler made with last_epoch=9 begins at the first rate again if it is StepLR, MultiStepLR,
# ExponentialLR, CosineAnnealingLR or LinearLR.
#
# The argument last_epoch of every scheduler is documented as the index of the last epoch, for resuming. The optimizer
# is new here: its rate and its initial_lr are those of the beginning. LambdaLR takes the rate of the epoch. The five
# others multiply the optimizer's rate by the change from the last epoch to this one, and so decay anew from the first
# rate. OneCycleLR ends with a KeyError. With load_state_dict of the scheduler and of the optimizer all of them resume.
#
# Guess before the run: CosineAnnealingLR, which was tried first, has the rate of the tenth epoch.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     StepLR: 0.001000 without an interruption, 0.100000 with last_epoch=9
#     MultiStepLR: 0.001000 without an interruption, 0.100000 with last_epoch=9
#     ExponentialLR: 0.034868 without an interruption, 0.100000 with last_epoch=9
#     CosineAnnealingLR: 0.050000 without an interruption, 0.100000 with last_epoch=9
#     LinearLR: 0.055000 without an interruption, 0.100000 with last_epoch=9
#     LambdaLR: 0.034868 without an interruption, 0.034868 with last_epoch=9
#     OneCycleLR: KeyError 'max_lr'
#
# What it means for dptrain: its rates are functions of the number of the step alone, so that a resumed training has
# those of one without interruption.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet torch==2.15.0 || exit 2
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import math
import sys
import torch
from torch.optim import lr_scheduler as S

DONE = 9  # the index of the last epoch; ten epochs are done


def optimizer():
    made = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    made.param_groups[0]["initial_lr"] = 0.1
    return made


def without_end(make):
    fresh = optimizer()
    schedule = make(fresh, -1)
    for _ in range(DONE + 1):
        fresh.step()
        schedule.step()
    return fresh.param_groups[0]["lr"]


def resumed(make):
    fresh = optimizer()
    make(fresh, DONE)
    return fresh.param_groups[0]["lr"]


SCHEDULES = {
    "StepLR": lambda o, last: S.StepLR(o, 4, last_epoch=last),
    "MultiStepLR": lambda o, last: S.MultiStepLR(o, [3, 6], last_epoch=last),
    "ExponentialLR": lambda o, last: S.ExponentialLR(o, 0.9, last_epoch=last),
    "CosineAnnealingLR": lambda o, last: S.CosineAnnealingLR(o, 20, last_epoch=last),
    "LinearLR": lambda o, last: S.LinearLR(o, 0.1, total_iters=20, last_epoch=last),
    "LambdaLR": lambda o, last: S.LambdaLR(o, lambda t: 0.9**t, last_epoch=last),
    "OneCycleLR": lambda o, last: S.OneCycleLR(o, 0.1, total_steps=20, last_epoch=last),
}
wrong = []
for name, make in SCHEDULES.items():
    try:
        again = resumed(make)
    except KeyError as error:
        print(f"{name}: KeyError {error}")
        continue
    straight = without_end(make)
    print(f"{name}: {straight:.6f} without an interruption, {again:.6f} with last_epoch={DONE}")
    if not math.isclose(straight, again, rel_tol=1e-9):
        wrong.append(name)
sys.exit(wrong != ["StepLR", "MultiStepLR", "ExponentialLR", "CosineAnnealingLR", "LinearLR"])
PYTHON
