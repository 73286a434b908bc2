#!/usr/bin/env python3
"""Kills processes of trainings at random times, and checks what the others make of it: the weights are those of a
training that nobody disturbs, and the log has each step once.  Needs an Open MPI with ULFM, and dptrain built with it.

    bench/kills.py [--dptrain FILE] [--kills N] [--processes N] [--seed N] [--early]

A training loses up to all processes but one.  With --early the first kill may come before the first step.  The exit
status is 1 if anything is wrong.  Open MPI 5.0.11 waits for ever for a process that dies while MPI starts: such a
training counts as one that hangs.
"""

import argparse
import collections
import hashlib
import json
import os
import random
import subprocess
import tempfile
import time

from survive import ranks, read, n_steps

TASK = ["--model", "linear", "--dataset", "synthetic:8x8x1:4:256", "--batch-size", "16", "--epochs", "8"]
TASK += ["--recipe", "none", "--devices", "cpu:threads=1", "--deterministic", "--quiet"]
TASK += ["--checkpoint", "kept", "--checkpoint-every", "1h", "--log", "run.jsonl"]


def start(dptrain, n, folder):
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "--with-ft", "ulfm", "-n", str(n), dptrain, *TASK]
    errors = open(os.path.join(folder, "errors"), "w")
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=errors)


def steps(folder):
    lines = read(os.path.join(folder, "run.jsonl")).splitlines()
    events = [json.loads(line) for line in lines]
    return [(e["step"], e["epoch"], e["samples"]) for e in events if e["event"] == "step"]


def weights(folder):
    try:
        with open(os.path.join(folder, "kept", "model.safetensors"), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None


def kill(folder, rank, waits):
    """Kills one process after some seconds.  Returns whether it was there, and the seconds until the next step."""
    log = os.path.join(folder, "run.jsonl")
    time.sleep(waits)
    found = ranks(folder)
    if rank not in found:
        return False, None
    before = n_steps(log)
    os.kill(found[rank], 9)
    began = time.monotonic()
    while time.monotonic() - began < 20:
        if n_steps(log) > before + 2:  # two were in flight
            return True, time.monotonic() - began
        time.sleep(0.002)
    return True, None


def disturb(dptrain, n, left, chance, early):
    """One training.  Returns its folder's outcome: kills, seconds to the next steps, words, weights, steps."""
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        job = start(dptrain, n, folder)
        victims = chance.sample(range(n), min(left, chance.randrange(1, n)))
        killed, seconds = [], []
        while not early and job.poll() is None and n_steps(os.path.join(folder, "run.jsonl")) == 0:
            time.sleep(0.01)
        for rank in victims:
            there, took = kill(folder, rank, chance.random() * 0.6)
            killed += [rank] if there else []
            seconds += [took] if took is not None else []
        try:
            job.wait(timeout=300)
            hangs = False
        except subprocess.TimeoutExpired:
            hangs = True
            for number in ranks(folder).values():
                os.kill(number, 9)
            job.wait()
        words = read(os.path.join(folder, "errors"))
        return killed, seconds, "hangs" if hangs else words, weights(folder), steps(folder)


def judge(outcome, whole):
    killed, _, words, bits, done = outcome
    if words == "hangs":
        return "hangs"
    if (bits, done) == whole:
        return "right"
    return "ended before the first step" if bits is None and not done else f"wrong ({words[-300:]})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dptrain", default=os.path.join(os.path.dirname(__file__), "../build/bin/dptrain"))
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--early", action="store_true")
    options = parser.parse_args()
    dptrain, chance = os.path.realpath(options.dptrain), random.Random(options.seed)
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        start(dptrain, options.processes, folder).wait()
        whole = weights(folder), steps(folder)
    counts, seconds, kills = collections.Counter(), [], 0
    while kills < options.kills:
        outcome = disturb(dptrain, options.processes, options.kills - kills, chance, options.early)
        kills += len(outcome[0])
        seconds += outcome[1]
        what = judge(outcome, whole)
        counts[what.split(" (")[0]] += 1
        print(f"{kills} kills: {outcome[0]}: {what}", flush=True)
    print(", ".join(f"{n} trainings {what}" for what, n in counts.items()))
    if seconds:
        seconds.sort()
        print(f"from kill to next step: median {seconds[len(seconds) // 2]:.3f} s, most {seconds[-1]:.3f} s")
    raise SystemExit(1 if counts["wrong"] or counts["hangs"] else 0)


if __name__ == "__main__":
    main()
