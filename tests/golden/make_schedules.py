#!/usr/bin/env python3
"""Makes tests/golden/schedules.txt: the learning rates that the schedulers of PyTorch and of
`transformers` give, and those of nanoGPT's function get_lr (train.py, commit of 2024-12-09 and
before: the version with (it + 1) / (warmup_iters + 1)), written down here as its formula.

    make_schedules.py > tests/golden/schedules.txt

Needs torch and transformers.  The golden file is made once and kept; the test reads it and needs
neither.  A line "KIND LR EVERY FACTOR WARMUP STEPS_PER_EPOCH TOTAL MIN_LR STEPS" begins a case, and
STEPS rates follow.
"""

import math
import warnings

import torch
import transformers
from torch.optim import lr_scheduler

CASES = [
    # kind, lr, every, factor (one that float32 holds), warmup, steps per epoch, total
    ("constant", 0.1, 30, 0.5, 0, 5, 8),
    ("constant", 0.1, 30, 0.5, 6, 5, 12),
    ("step", 0.1, 2, 0.125, 0, 5, 40),
    ("step", 0.5, 1, 0.75, 7, 3, 30),
    ("cosine", 0.2, 30, 0.5, 0, 5, 37),
    ("cosine", 0.001, 30, 0.5, 10, 5, 40),
    ("cosine", 0.1, 30, 0.5, 0, 5, 1),
    ("onecycle", 0.1, 30, 0.5, 0, 5, 100),
    ("onecycle", 0.3, 30, 0.5, 0, 5, 37),
    ("onecycle", 0.1, 30, 0.5, 0, 5, 10),
    ("onecycle", 0.1, 30, 0.5, 0, 5, 4),
    ("onecycle", 0.1, 30, 0.5, 0, 5, 3),
    ("onecycle", 0.1, 30, 0.5, 0, 5, 1),
]

# The same with a lowest rate (one that float32 holds) and steps behind the end of the schedule.
BEHIND_WARMUP = [
    (kind, lr, 30, 0.5, warmup, 5, total, lowest, steps)
    for lr, warmup, total, lowest, steps in (
        (6e-4, 20, 100, 2.0**-14, 130),
        (1e-3, 0, 30, 0.0, 30),
        (0.25, 7, 8, 0.125, 12),
        (3e-4, 10, 10, 0.0, 12),
        (0.5, 1, 50, 0.03125, 50),
    )
    for kind in ("cosine-nanogpt", "cosine-transformers", "linear-transformers")
]


def rates(kind, lr, every, factor, warmup, steps_per_epoch, total):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    if kind == "onecycle":
        schedule = lr_scheduler.OneCycleLR(optimizer, max_lr=lr, total_steps=total)
    elif kind == "cosine":
        schedule = lr_scheduler.CosineAnnealingLR(optimizer, T_max=total)
    elif kind == "step":
        schedule = lr_scheduler.StepLR(optimizer, step_size=every * steps_per_epoch, gamma=factor)
    else:
        schedule = lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    schedules = [schedule]
    if warmup:
        # OneCycleLR and LambdaLR set the rate outright, so that nothing can be chained before them.
        if kind == "constant":
            schedules = []
        schedules.append(
            lr_scheduler.LinearLR(optimizer, start_factor=1 / warmup, total_iters=warmup - 1))
    for step in range(total):
        yield optimizer.param_groups[0]["lr"]
        optimizer.step()
        if step + 1 < total:
            for schedule in schedules:
                schedule.step()


def nanogpt(it, lr, warmup, total, lowest):
    if it < warmup:
        return lr * (it + 1) / (warmup + 1)
    if it > total or warmup == total:
        return lowest
    ratio = (it - warmup) / (total - warmup)
    return lowest + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (lr - lowest)


def rates_behind_warmup(kind, lr, every, factor, warmup, steps_per_epoch, total, lowest, steps):
    if kind == "cosine-nanogpt":
        yield from (nanogpt(step, lr, warmup, total, lowest) for step in range(steps))
        return
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    if kind == "linear-transformers":
        schedule = transformers.get_linear_schedule_with_warmup(optimizer, warmup, total)
    elif lowest:
        schedule = transformers.get_cosine_with_min_lr_schedule_with_warmup(
            optimizer, warmup, total, min_lr=lowest)
    else:
        schedule = transformers.get_cosine_schedule_with_warmup(optimizer, warmup, total)
    for step in range(steps):
        rate = optimizer.param_groups[0]["lr"]
        if kind == "linear-transformers" and step >= warmup:
            rate = lowest + (lr - lowest) * rate / lr  # it has no floor of its own
        if step >= total:  # behind its end the cosine of `transformers` rises again
            rate = lowest
        yield rate
        optimizer.step()
        schedule.step()


def main():
    warnings.simplefilter("ignore", UserWarning)
    print(f"# PyTorch {torch.__version__}, transformers {transformers.__version__}: learning rates, step by step; made by make_schedules.py")
    for case in CASES:
        print(*case, 0, case[-1])
        for rate in rates(*case):
            print(f"{rate:.17g}")
    for case in BEHIND_WARMUP:
        print(*case)
        for rate in rates_behind_warmup(*case):
            print(f"{rate:.17g}")


if __name__ == "__main__":
    main()
