#!/usr/bin/env python3
"""Shares that are measured beside the best ones there are, on two devices.

    python3 bench/optimum.py [--devices A,B] [--model lenet] [--batch-size 256] [--data DIR] ...

In turns: a start with `--split measured`, and trainings with fixed shares around those that the first
start ended with.  Of the fixed ones each device's busy time t(n) is taken, medians over steps and
rounds, straight lines between; every division is then looked at for the least time of the later device,
which is what the controller looks for.  Printed are that optimum, the division whose steps were the
fastest, and for each start where its shares were at the end, how far that is from the optimum, and what
its time is by t(n).  Times in seconds.  DPTRAIN names the program (build/bin/dptrain).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

os.environ.setdefault("DPTRAIN_RECIPE", "none")  # what is measured is what the options say

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DPTRAIN = os.environ.get("DPTRAIN", os.path.join(ROOT, "build", "bin", "dptrain"))
WARM = 3  # steps in which memory is touched and kernels are loaded
AROUND = (-0.10, -0.05, -0.025, 0.0, 0.025, 0.05, 0.10)  # of a batch


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", default="cpu:threads=1,cpu:threads=1:throttle=3")
    parser.add_argument("--model", default="lenet")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--data", help="a folder; without it synthetic images")
    parser.add_argument("--batchnorm", default="sync")
    parser.add_argument("--steps", type=int, default=100, help="of a training with fixed shares")
    parser.add_argument("--settling", type=int, default=60, help="of one with measured shares")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.rounds < 1 or options.batch_size < 16:
        parser.error("--rounds must be at least 1, --batch-size at least 16")
    if options.steps <= WARM or options.settling <= WARM:
        parser.error(f"--steps and --settling must be more than {WARM}")
    return options


def train(o, split, n_steps):
    """The steps of the log."""
    data = ["--data", o.data] if o.data else ["--dataset", "synthetic:28x28x1:10:8192"]
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "run.jsonl")
        command = [DPTRAIN, "--quiet", "--devices", o.devices, "--model", o.model, *data, "--batch-size",
                   str(o.batch_size), "--batchnorm", o.batchnorm, "--split", split, "--max-steps",
                   str(n_steps), "--epochs", "1000", "--lr", "0.001", "--log", log]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"bench: {' '.join(command)}\n{run.stderr}")
        with open(log) as lines:
            steps = [e for e in map(json.loads, lines) if e["event"] == "step"]
    steps = [s for s in steps if sum(s["shards"]) == o.batch_size]
    if len(steps) <= WARM:
        sys.exit(f"bench: fewer than {WARM + 1} whole batches in {n_steps} steps; a smaller --batch-size is needed")
    return steps


def median(steps, value):
    return statistics.median(value(s) for s in steps[WARM:])


class Times:
    """t(n) of one device, from medians at some n: straight lines between, and on beyond the last."""

    def __init__(self, points):
        self.points = sorted(points)

    def __call__(self, n):
        if n == 0:
            return 0.0
        k = 0
        while k + 2 < len(self.points) and self.points[k + 1][0] < n:
            k += 1
        (n0, t0), (n1, t1) = self.points[k], self.points[k + 1]
        return t0 + (t1 - t0) * (n - n0) / (n1 - n0)


def search(times, batch):
    """Every division between the measured ones."""
    low, high = times[0].points[0][0], times[0].points[-1][0]
    return min(range(low, high + 1), key=lambda n: max(times[0](n), times[1](batch - n)))


def main():
    o = arguments()
    if not os.access(DPTRAIN, os.X_OK):
        sys.exit(f"bench: no dptrain at {DPTRAIN}; build it (scripts/quickstart.sh) or set DPTRAIN")
    for name in "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OMP_NUM_THREADS":
        os.environ.pop(name, None)
    batch = o.batch_size
    ends, fixed, steps, busy = [], [], {}, {}
    for turn in range(o.rounds):
        last = train(o, "measured", o.settling)[-1]["shards"]
        if len(last) != 2:
            sys.exit("bench: two devices are needed")
        ends.append(last[0])
        if turn == 0:
            fixed = sorted({min(max(round(last[0] + part * batch), 1), batch - 1) for part in AROUND})
            busy = {n: ([], []) for n in fixed}
            steps = {n: [] for n in fixed}
        for n in fixed if turn % 2 == 0 else reversed(fixed):
            run = train(o, f"{n}:{batch - n}", o.steps)
            steps[n].append(median(run, lambda s: s["seconds"]))
            for device in (0, 1):
                busy[n][device].append(median(run, lambda s: s["device_seconds"][device]))

    times = [Times([(n if device == 0 else batch - n, statistics.median(busy[n][device]))
                    for n in fixed]) for device in (0, 1)]
    best = search(times, batch)
    least = max(times[0](best), times[1](batch - best))
    print(f"{o.model}, batch {batch}, {o.devices}, {o.rounds} rounds")
    print("shares        t(n) of each         later one   step")
    for n in fixed:
        t0, t1 = times[0](n), times[1](batch - n)
        print(f"{n:4}:{batch - n:<4}  {t0:9.5f} {t1:9.5f}  {max(t0, t1):9.5f}  {statistics.median(steps[n]):9.5f}")
    fastest = min(fixed, key=lambda n: statistics.median(steps[n]))
    print(f"optimum of t(n) {best}:{batch - best}, {least:.5f} s; fastest steps at {fastest}:{batch - fastest}")
    for n in ends:
        excess = max(times[0](n), times[1](batch - n)) / least - 1
        print(f"a start ended at {n}:{batch - n}, {100 * abs(n - best) / batch:.1f} % of the batch from the"
              f" optimum, {100 * excess:.1f} % more time")


if __name__ == "__main__":
    main()
