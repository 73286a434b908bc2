#!/usr/bin/env python3
"""Compares the speed of two builds on a machine whose own speed changes from second to second.

    bench/turns.py BEFORE AFTER [--turn SECONDS] [--total SECONDS] [--starts N] -- OPTION...

BEFORE and AFTER are two `dptrain` commands, and the options are those of `dptrain train` without --log,
--split, --max-steps and --epochs.  Both builds train at the same time with the same shards and algorithms,
which BEFORE has chosen in a short run.  One is stopped (SIGSTOP) while the other one runs, in turns.  Prints
the median, over pairs of turns, of the time of a step of AFTER divided by that of BEFORE, and the quartiles.
Two processes of one build differ by several percent for as long as they live.  So with --starts N (default 1)
both are started N times for --total seconds each, the other one first in every second start.  Printed last is
the geometric mean of the medians with the interval in which the true one lies with 95 % (Student's t).  Give
BEFORE twice to see how much the method itself is off.
"""
import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("DPTRAIN_RECIPE", "none")  # what is measured is what the options say

RECORDED_STEPS, MOST_STEPS = 12, 100000


def read_steps(log):
    """The seconds of the steps in a log, whose last line may be incomplete."""
    seconds = []
    if not os.path.exists(log):
        return seconds
    with open(log) as lines:
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                break
            if event["event"] == "step":
                seconds.append(event["seconds"])
    return seconds


def train(command, log, options):
    return [command, "train", "--quiet", "--log", log, "--epochs", str(MOST_STEPS)] + options


def record(command, folder, options):
    """A log to replay: the last step of a short run, repeated."""
    log = os.path.join(folder, "recorded.jsonl")
    subprocess.run(train(command, log, options + ["--max-steps", str(RECORDED_STEPS)]), check=True,
                   stdout=subprocess.DEVNULL)
    with open(log) as lines:
        events = [e for e in map(json.loads, lines) if e["event"] not in ("epoch", "done")]
    last = [e for e in events if e["event"] == "step"][-1]
    events += [{**last, "step": step} for step in range(last["step"] + 1, MOST_STEPS + 1)]
    with open(log, "w") as out:
        out.writelines(json.dumps(event) + "\n" for event in events)
    return log


class Build:
    def __init__(self, command, log, options):
        self.log, self.seen = log, 0
        self.process = subprocess.Popen(train(command, log, options), stdout=subprocess.DEVNULL)
        while len(read_steps(log)) < 3:
            if self.process.poll() is not None:
                sys.exit(f"{command} ended with status {self.process.returncode}")
            time.sleep(0.05)
        self.process.send_signal(signal.SIGSTOP)

    def take_turn(self, seconds):
        """The median step of a turn without the first step, which was stopped; None if there is none."""
        self.process.send_signal(signal.SIGCONT)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGSTOP)
        steps = read_steps(self.log)
        own, self.seen = steps[self.seen + 1:], len(steps)
        return statistics.median(own) if own else None

    def end(self):
        self.process.kill()
        self.process.wait()


def compare(arguments, folder, options, swapped):
    """The ratios of all pairs of turns of one start."""
    ratios, builds = [], {}
    commands = {"before": arguments.before, "after": arguments.after}
    try:
        for name in sorted(commands, reverse=not swapped):
            log = os.path.join(folder, name + ".jsonl")
            if os.path.exists(log):
                os.remove(log)
            builds[name] = Build(commands[name], log, options)
        end = time.monotonic() + arguments.total
        while time.monotonic() < end:
            order = sorted(builds, reverse=len(ratios) % 2 == 0)
            medians = {name: builds[name].take_turn(arguments.turn) for name in order}
            if all(medians.values()):
                ratios.append(medians["after"] / medians["before"])
    finally:
        for build in builds.values():
            build.end()
    if len(ratios) < 4:
        sys.exit("too few turns had a whole step: give a longer --turn or --total")
    return ratios


def print_mean(medians):
    """The geometric mean of the starts' medians, and its interval of 95 %."""
    logs = [math.log(m) for m in medians]
    # Student's t for 95 %, by degrees of freedom; beyond the table the normal distribution's.
    table = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13]
    t = table[len(logs) - 2] if len(logs) - 2 < len(table) else 2.05
    middle, half = statistics.mean(logs), t * statistics.stdev(logs) / math.sqrt(len(logs))
    print(f"after / before, {len(logs)} starts: {math.exp(middle):.4f}, "
          f"from {math.exp(middle - half):.4f} to {math.exp(middle + half):.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--turn", type=float, default=0.5)
    parser.add_argument("--total", type=float, default=120)
    parser.add_argument("--starts", type=int, default=1)
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments, options = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1:]
    medians = []
    with tempfile.TemporaryDirectory() as folder:
        replay = ["--device-timeout", "1h", "--max-steps", str(MOST_STEPS),
                  "--split", "replay:" + record(arguments.before, folder, options)]
        for start in range(arguments.starts):
            ratios = compare(arguments, folder, options + replay, start % 2 == 1)
            low, middle, high = statistics.quantiles(ratios, n=4)
            medians.append(middle)
            print(f"after / before: median {middle:.3f} of {len(ratios)} turns, quartiles {low:.3f}, {high:.3f}",
                  flush=True)
    if len(medians) > 1:
        print_mean(medians)


if __name__ == "__main__":
    main()
