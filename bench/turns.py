#!/usr/bin/env python3
"""Compares the speed of two builds on a machine whose own speed changes from second to second.

    bench/turns.py BEFORE AFTER [--turn SECONDS] [--total SECONDS] -- OPTION...

BEFORE and AFTER are two `dptrain` commands, and the options are those of `dptrain train` without --log,
--split, --max-steps and --epochs.  Both builds train at the same time with the same shards and algorithms,
which BEFORE has chosen in a short run.  One is stopped (SIGSTOP) while the other one runs, in turns.  Prints
the median, over pairs of turns, of the time of a step of AFTER divided by that of BEFORE, and the quartiles.
Two processes of one build differ by several percent for as long as they live: start this several times, and
give BEFORE twice to see how much the method itself is off.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--turn", type=float, default=0.5)
    parser.add_argument("--total", type=float, default=120)
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments, options = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1:]
    ratios, builds = [], []
    with tempfile.TemporaryDirectory() as folder:
        replay = ["--device-timeout", "1h", "--max-steps", str(MOST_STEPS),
                  "--split", "replay:" + record(arguments.before, folder, options)]
        try:
            for name, command in ("before", arguments.before), ("after", arguments.after):
                builds.append(Build(command, os.path.join(folder, name + ".jsonl"), options + replay))
            end = time.monotonic() + arguments.total
            while time.monotonic() < end:
                order = builds if len(ratios) % 2 == 0 else builds[::-1]
                medians = {build: build.take_turn(arguments.turn) for build in order}
                if all(medians.values()):
                    ratios.append(medians[builds[1]] / medians[builds[0]])
        finally:
            for build in builds:
                build.end()
    if len(ratios) < 4:
        sys.exit("too few turns had a whole step: give a longer --turn or --total")
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(f"after / before: median {middle:.3f} of {len(ratios)} turns, quartiles {low:.3f}, {high:.3f}")


if __name__ == "__main__":
    main()
