#!/usr/bin/env python3
"""Prints what bench/local_steps.sh has measured.

    bench/local_steps.py FOLDER H

H is the number of steps of a round.  A run is the log of dptrain, NAME-TURN.jsonl, and beside it NAME-TURN.jsonl.sent,
whose lines are the steps in the log at a time and the bytes that both hosts had sent by then.
"""

import glob
import json
import math
import os
import statistics
import sys


def steps_of(log):
    with open(log) as lines:
        events = [json.loads(line) for line in lines]
    return [event for event in events if event["event"] == "step"]


def first_counted(n, h):
    """How many steps, of n, do not count: the first round, or the first step of a single round or of none."""
    return h if n >= 2 * h else 1


def rate_of(log, h):
    """Samples a second."""
    counted = steps_of(log)
    counted = counted[first_counted(len(counted), h) :]
    return sum(step["samples"] for step in counted) / sum(step["seconds"] for step in counted)


def bytes_of(log, in_rounds):
    """The bytes of a step that a host sends, without those before the first step; NaN if the run was too short to tell.
    All rounds of a run are exchanged behind its first step, whose own gradients are not counted."""
    with open(log + ".sent") as lines:
        seen = [tuple(map(int, line.split())) for line in lines]
    last, sent = seen[-1]
    first, before = next((steps, sent) for steps, sent in seen if steps >= 1)
    if first == last:
        return math.nan
    return (sent - before) / 2 / (last if in_rounds else last - first)


def main(folder, h):
    with open(os.path.join(folder, "what")) as file:
        print(file.read().strip() + "\n")
    print("| run | samples a second | each turn | KB a step that a host sends |")
    print("|---|--:|---|--:|")
    rates, sent = {}, {}
    for name, words in (("local", "local steps"), ("free", "local steps, no limit"), ("synchronous", "synchronous")):
        logs = sorted(glob.glob(os.path.join(folder, f"{name}-*.jsonl")))
        in_rounds = name != "synchronous"
        rates[name] = [rate_of(log, h if in_rounds else 1) for log in logs]
        sent[name] = statistics.median(bytes_of(log, in_rounds) for log in logs)
        turns = ", ".join(f"{rate:.1f}" for rate in rates[name])
        print(f"| {words} | {statistics.median(rates[name]):.1f} | {turns} | {sent[name] / 1e3:.1f} |")
    ratios = [a / b for a, b in zip(rates["local"], rates["free"])]
    print(f"\nOf the samples a second without a limit: {statistics.median(ratios):.3f}"
          f" ({', '.join(f'{ratio:.3f}' for ratio in ratios)}).")
    print(f"Of the bytes of the synchronous run: 1/{sent['synchronous'] / sent['local']:.1f}.")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]))
