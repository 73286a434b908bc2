#!/usr/bin/env python3
"""Makes tests/golden/schedules.txt: the learning rates that PyTorch's schedulers give.

    make_schedules.py > tests/golden/schedules.txt

Needs torch.  The golden file is made once and kept; the test reads it and needs no torch.  A line
"KIND LR EVERY FACTOR WARMUP STEPS_PER_EPOCH TOTAL" begins a case, and TOTAL rates follow.
"""

import warnings

import torch
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


def main():
    warnings.simplefilter("ignore", UserWarning)
    print(f"# PyTorch {torch.__version__}: learning rates, step by step; made by make_schedules.py")
    for case in CASES:
        print(*case)
        for rate in rates(*case):
            print(f"{rate:.17g}")


if __name__ == "__main__":
    main()
