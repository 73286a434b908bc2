#!/usr/bin/env python3
"""Kills processes of trainings at random times, and checks what the others make of it: the weights are those of a
training that nobody disturbs, and the log has each step and each sample once.

    bench/kills.py [--tcp] [--dptrain FILE] [--kills N] [--processes N] [--seed N] [--early]

With --tcp the processes join through TCP, each on a host of its own (bench/namespaces.py).  Otherwise they are those
of an Open MPI with ULFM, and dptrain must have been built with it.  A training loses up to all processes but one.

Through TCP the kills are spread over phases: while the processes start, in steps, at the end of an epoch, while a
checkpoint is written, and right behind another kill.  Through MPI they come at random times behind the first step, or
with --early also before.  Open MPI 5.0.11 waits for ever for a process that dies while MPI starts: such a training
counts as one that hangs.

The exit status is 1 if anything is wrong.  Times are printed and not judged.
"""

import argparse
import collections
import hashlib
import json
import os
import random
import re
import subprocess
import tempfile
import time

from namespaces import Job, Network
from survive import ranks, read, n_steps

COMMON = ["--recipe", "none", "--devices", "cpu:threads=1", "--deterministic", "--quiet"]
COMMON += ["--checkpoint", "kept", "--log", "run.jsonl"]
MPI_TASK = ["--model", "linear", "--dataset", "synthetic:8x8x1:4:256", "--batch-size", "16", "--epochs", "8"]
MPI_TASK += ["--checkpoint-every", "1h", *COMMON]
STEPS_PER_EPOCH, N_EPOCHS = 16, 8
TCP_TASK = ["--model", "lenet", "--dataset", f"synthetic:28x28x1:10:{32 * STEPS_PER_EPOCH}", "--batch-size", "32"]
TCP_TASK += ["--epochs", str(N_EPOCHS), "--checkpoint-every", "4steps", *COMMON]
# What a process says that ends because another one has died before all had joined.
UNJOINED = re.compile(r"joined within|has ended before all|has ended while|is not reached|closed the connection")


class MpiJob:
    def __init__(self, command, folder):
        whole = ["mpirun", "--oversubscribe", "--bind-to", "none", "--with-ft", "ulfm", *command]
        self.folder = folder
        with open(os.path.join(folder, "errors"), "w") as errors:
            self.launcher = subprocess.Popen(whole, cwd=folder, stdout=subprocess.DEVNULL, stderr=errors)

    def runs(self):
        return self.launcher.poll() is None

    def ranks(self):
        return ranks(self.folder)

    def wait(self, seconds):
        try:
            self.launcher.wait(timeout=seconds)
            return True
        except subprocess.TimeoutExpired:
            for number in self.ranks().values():
                os.kill(number, 9)
            self.launcher.wait()
            return False


def steps(folder):
    """Number, epoch and samples of each step of the log, and whether the devices had each of the samples once."""
    lines = read(os.path.join(folder, "run.jsonl")).splitlines()
    events = [json.loads(line) for line in lines]
    return [(e["step"], e["epoch"], e["samples"], sum(e["shards"])) for e in events if e["event"] == "step"]


def weights(folder):
    try:
        with open(os.path.join(folder, "kept", "model.safetensors"), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None


class Training:
    """One training, of which processes are killed."""

    def __init__(self, job, folder):
        self.job, self.folder = job, folder
        self.log = os.path.join(folder, "run.jsonl")
        self.began = time.monotonic()
        self.n_writing = 0  # kills while a checkpoint was being written
        self.killed, self.seconds = [], []  # (rank, phase), (phase, seconds to the next step)

    def await_that(self, done, seconds=60):
        began = time.monotonic()
        while self.job.runs() and time.monotonic() - began < seconds:
            if done():
                return True
            time.sleep(0.001)
        return False

    def writes(self):
        """Whether a checkpoint is being written."""
        try:
            return any(name.endswith(".tmp") for name in os.listdir(os.path.join(self.folder, "kept")))
        except OSError:
            return False

    def await_moment(self, phase, chance):
        """Waits for a random moment of the phase."""
        if phase == "start":
            time.sleep(max(0, self.began + chance.random() * 1.5 - time.monotonic()))
            return
        if phase == "again":
            time.sleep(chance.random() * 0.06)
            return
        self.await_that(lambda: n_steps(self.log) > 0)
        time.sleep(chance.random() * 0.6)
        if phase == "epoch":
            self.await_that(lambda: n_steps(self.log) % STEPS_PER_EPOCH >= STEPS_PER_EPOCH - 2)
            time.sleep(chance.random() * 0.02)
        if phase == "checkpoint":
            self.await_that(self.writes)

    def kill(self, rank, phase):
        found = self.job.ranks()
        if rank not in found or len(found) < 2:
            return
        self.before = n_steps(self.log)
        os.kill(found[rank], 9)
        self.at = time.monotonic()
        self.n_writing += self.writes()
        self.killed.append((rank, phase))

    def time_next_step(self, phase):
        if self.await_that(lambda: n_steps(self.log) > self.before + 2, 20):  # two were in flight
            self.seconds.append((phase, time.monotonic() - self.at))

    def disturb(self, plan, chance):
        """plan: (rank, phase) of each kill.  Returns whether the training has ended."""
        for i, (rank, phase) in enumerate(plan):
            self.await_moment(phase, chance)
            n_killed = len(self.killed)
            self.kill(rank, phase)
            if len(self.killed) > n_killed and (i + 1 == len(plan) or plan[i + 1][1] != "again"):
                self.time_next_step(phase)
        return self.job.wait(300)


def make_plan(n, left, chance, early):
    """A random plan for MPI: kills in steps, or with `early` at any time."""
    victims = chance.sample(range(n), min(left, chance.randrange(1, n)))
    return [(rank, "start" if early and i == 0 else "step") for i, rank in enumerate(victims)]


def make_tcp_plan(n, left, chance):
    """A random plan over all phases.  The process with the files is the victim more often than others."""
    n_victims = min(left, chance.randrange(1, n))
    victims = chance.sample(range(n), n_victims)
    if chance.random() < 0.5 and 0 not in victims:
        victims[0] = 0
    phases = [chance.choice(["start", "step", "epoch", "checkpoint"])]
    phases += [chance.choice(["step", "epoch", "checkpoint", "again"]) for _ in victims[1:]]
    return list(zip(victims, phases))


def judge_words(training):
    """Through TCP: None if the processes that are left have ended as they should, else what is wrong."""
    job, killed = training.job, {rank for rank, _ in training.killed}
    unjoined = not steps(training.folder)
    for rank, status in enumerate(job.statuses()):
        if rank in killed:
            continue
        words = job.words(rank).strip().splitlines()
        if unjoined and (status != 1 or not words or not UNJOINED.search(words[-1])):
            return f"process {rank} has status {status}: {words[-3:]}"
        if not unjoined and status != 0:
            return f"process {rank} has status {status}: {words[-3:]}"
    return None


def judge(training, ended, whole):
    outcome = weights(training.folder), steps(training.folder)
    wrong = judge_words(training) if isinstance(training.job, Job) else None
    if not ended:
        return "hangs"
    if wrong:
        return f"wrong ({wrong})"
    if outcome == whole:
        return "right"
    if outcome == (None, []):
        return "ended before the first step"
    if outcome[0] == whole[0]:
        return f"wrong (steps {[a for a, b in zip(outcome[1], whole[1]) if a != b][:3]}, {len(outcome[1])} of them)"
    return f"wrong (weights; {len(outcome[1])} steps)"


def report(trainings, counts):
    print(", ".join(f"{n} trainings {what}" for what, n in counts.items()))
    killed = [kill for t in trainings for kill in t.killed]
    seconds = [pair for t in trainings for pair in t.seconds]
    print(f"{len(killed)} kills, {sum(rank == 0 for rank, _ in killed)} of them of the first process, ", end="")
    print(f"{sum(t.n_writing for t in trainings)} while a checkpoint was being written")
    for phase in [*sorted({phase for _, phase in killed}), None]:
        of = sorted(s for p, s in seconds if phase in (p, None))
        n = sum(phase in (p, None) for _, p in killed)
        times = f": {len(of)} times, median {of[len(of) // 2]:.3f} s, most {of[-1]:.3f} s" if of else ""
        print(f"from kill to next step, {phase or 'all'}, {n} kills{times}", flush=True)


def run(options, network):
    dptrain, chance = os.path.realpath(options.dptrain), random.Random(options.seed)
    trainings, counts, kills, whole = [], collections.Counter(), 0, None
    while kills < options.kills:
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.realpath(folder)
            if network:
                settings = {"DPTRAIN_JOIN_TIMEOUT": "15"}
                job = Job(network, [dptrain, *TCP_TASK], [folder] * options.processes, settings)
                plan = make_tcp_plan(options.processes, options.kills - kills, chance)
            else:
                job = MpiJob(["-n", str(options.processes), dptrain, *MPI_TASK], folder)
                plan = make_plan(options.processes, options.kills - kills, chance, options.early)
            training = Training(job, folder)
            ended = training.disturb(plan if whole else [], chance)
            if not whole:
                whole = weights(folder), steps(folder)
                if not ended or not whole[1] or any(s[2] != s[3] for s in whole[1]):
                    raise SystemExit(f"kills.py: a training that nobody disturbs fails: look into {dptrain}")
                continue
            what = judge(training, ended, whole)
            if options.keep and what not in ("right", "ended before the first step"):
                subprocess.run(["cp", "-a", folder, f"{options.keep}/{len(trainings)}"], check=True)
        kills += len(training.killed)
        trainings.append(training)
        counts[what.split(" (")[0]] += 1
        print(f"{kills} kills: {training.killed}: {what}", flush=True)
    report(trainings, counts)
    raise SystemExit(1 if counts["wrong"] or counts["hangs"] else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tcp", action="store_true")
    parser.add_argument("--dptrain", default=os.path.join(os.path.dirname(__file__), "../build/bin/dptrain"))
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--early", action="store_true")
    parser.add_argument("--keep", help="a folder for what trainings leave that go wrong")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    if not options.tcp:
        run(options, None)
    with Network(options.processes) as network:
        run(options, network)


if __name__ == "__main__":
    main()
