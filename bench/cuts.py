#!/usr/bin/env python3
"""Processes that stand still, and networks that are cut: what four processes that joined through TCP make of it, each on
a host and a disk of its own (bench/namespaces.py: root and iproute2).

    bench/cuts.py [--dptrain FILE] [--seed N] [CASE...]

    straggler    each process in turn is stopped for 60 s and continued
    partition    two of four are cut off for good, or for 30 s; also the first process alone, and a cut that heals before
                 the processes give each other up
    near         many cuts that heal about when the processes give each other up (--times N)

Checked: those that go on have the weights of a training that nobody disturbs, and their logs have each step and sample
once; every other process ends with status 1 and one line that says why, changes no file after that, and its last
checkpoint leads to the same weights.  The log of another process than the first is a new file: at most the last four
steps of before may be missing in both (docs/processes.md).  The exit status is 1 if anything is wrong.
"""

import argparse
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

from kills import COMMON, STEPS_PER_EPOCH, steps, weights
from namespaces import Job, Network
from survive import n_steps

N = 4
WHY = re.compile(r"dptrain: process \d+ \(.*\): (the other processes have gone on without this one|"
                 r"\d of \d processes hear each other, which is too few)")  # fmt: skip


def task(n_epochs):
    words = ["--model", "lenet", "--dataset", f"synthetic:28x28x1:10:{32 * STEPS_PER_EPOCH}", "--batch-size", "32"]
    return [*words, "--epochs", str(n_epochs), "--checkpoint-every", "16steps", *COMMON]


def content(folder):
    """A checksum of all files but those that this program makes."""
    found = hashlib.sha256()
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if name.startswith(("errors", "secret")):
                continue
            with open(os.path.join(place, name), "rb") as file:
                found.update(f"{os.path.relpath(place, folder)}/{name}\0".encode() + file.read())
    return found.hexdigest()


class Bench:
    def __init__(self, dptrain, network):
        self.dptrain, self.network = dptrain, network
        self.wrong, self.whole = 0, {}

    def make_folders(self, place):
        folders = [os.path.join(os.path.realpath(place), str(rank)) for rank in range(N)]
        for folder in folders:
            os.makedirs(folder)
        return folders

    def start(self, folders, n_epochs, timeout, resume=False):
        command = [self.dptrain, *task(n_epochs), *(["--resume"] if resume else [])]
        return Job(self.network, command, folders, {"DPTRAIN_PROCESS_TIMEOUT": str(timeout)})

    def undisturbed(self, n_epochs):
        if n_epochs not in self.whole:
            with tempfile.TemporaryDirectory() as place:
                command = [self.dptrain, *task(n_epochs)]
                subprocess.run(command, cwd=place, check=True, stdout=subprocess.DEVNULL)
                self.whole[n_epochs] = weights(place), steps(place)
        return self.whole[n_epochs]

    def await_steps(self, job, n, seconds=120):
        began = time.monotonic()
        while time.monotonic() - began < seconds and len(job.ranks()) == N:
            if n_steps(os.path.join(job.folders[0], "run.jsonl")) >= n:
                return
            time.sleep(0.01)

    def leads_to(self, folder, n_epochs):
        """Whether the checkpoint in a folder leads to the weights of the training that nobody disturbs."""
        with tempfile.TemporaryDirectory() as place:
            copied = os.path.join(place, "copy")
            shutil.copytree(folder, copied)
            command = [self.dptrain, *task(n_epochs), "--resume"]
            done = subprocess.run(command, cwd=copied, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            return done.returncode == 0 and not done.stderr and weights(copied) == self.whole[n_epochs][0]

    def judge(self, what, job, n_epochs, before=None):
        """`before`: checksums of the folders of processes that may change nothing any more, by rank."""
        faults = [] if job.wait(300) else ["hangs"]
        whole = self.undisturbed(n_epochs)
        on = [rank for rank, status in enumerate(job.statuses()) if status == 0]
        ended = [rank for rank in range(N) if rank not in on]
        for rank in ended:
            lines = [line for line in job.words(rank).splitlines() if WHY.match(line)]
            if job.statuses()[rank] != 1 or len(lines) != 1:
                faults.append(f"process {rank}: status {job.statuses()[rank]}, {job.words(rank)[-400:]!r}")
            if before and rank in before and content(job.folders[rank]) != before[rank]:
                faults.append(f"process {rank} has changed a file")
            kept = os.path.join(job.folders[rank], "kept")
            if os.path.isdir(kept) and not self.leads_to(job.folders[rank], n_epochs):
                faults.append(f"the checkpoint of process {rank} leads elsewhere")
        if on:
            log = steps(job.folders[on[0]])
            earlier = [step for step in steps(job.folders[0]) if log and step[0] < log[0][0]]
            if weights(job.folders[on[0]]) != whole[0]:
                faults.append("other weights")
            untold = len(whole[1]) - len(earlier) - len(log)
            if not log or earlier != whole[1][: len(earlier)] or log != whole[1][-len(log) :] or untold > 4:
                faults.append(f"other steps: {len(earlier)} and {len(log)}")
            if untold:
                what += f" ({untold} step in neither log)"
        self.wrong += bool(faults)
        why = sorted({m.group(1) for rank in ended for m in WHY.finditer(job.words(rank))})
        print(f"{what}: {on or 'nobody'} to the end, {ended or 'nobody'} not ({'; '.join(why)}): "
              f"{'; '.join(faults) or 'right'}", flush=True)  # fmt: skip

    # ---- Cases

    def straggler(self, _):
        n_epochs = 160
        for rank in [1, 0, 3, 2]:
            with tempfile.TemporaryDirectory() as place:
                job = self.start(self.make_folders(place), n_epochs, 20)
                self.await_steps(job, 40)
                job.send(rank, signal.SIGSTOP)
                before = {rank: content(job.folders[rank])}
                time.sleep(60)
                others = len(job.ranks()) > 1
                job.send(rank, signal.SIGCONT)
                what = f"process {rank} stands still for 60 s, and the others {'train' if others else 'have ended'} then"
                self.judge(what, job, n_epochs, before)

    def cut(self, what, *, others, timeout, heal=None, resume=False, n_epochs=120):
        """Cuts `others` off, for `heal` seconds or for good."""
        with tempfile.TemporaryDirectory() as place:
            folders = self.make_folders(place)
            if resume:
                for folder in folders:
                    subprocess.run([self.dptrain, *task(2)], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            self.network.divide(others)
            job = self.start(folders, n_epochs, timeout, resume)
            self.await_steps(job, 40 + resume * 2 * STEPS_PER_EPOCH)
            before = {rank: content(job.folders[rank]) for rank in range(1, N)} if resume else None
            self.network.cut()
            if heal is not None:
                time.sleep(heal)
                self.network.heal()
            self.judge(what, job, n_epochs, before)
            self.network.heal()

    def partition(self, _):
        self.cut("2 + 2 for good", others=[2, 3], timeout=20, resume=True)
        self.cut("2 + 2 for 30 s", others=[2, 3], timeout=20, resume=True, heal=30)
        self.cut("2 + 2 for 30 s, timeout 90 s", others=[1, 2], timeout=90, heal=30)
        self.cut("process 0 alone, for good", others=[0], timeout=20)
        self.cut("process 0 alone, for 30 s", others=[0], timeout=20, heal=30)

    def near(self, options):
        chance = random.Random(options.seed)
        for _ in range(options.times):
            others, heal = chance.choice([[2, 3], [1, 2], [3], [0], [0, 3]]), 1 + 3 * chance.random()
            self.cut(f"{others} cut off for {heal:.2f} s, timeout 2 s", others=others, timeout=2, heal=heal, n_epochs=20)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dptrain", default=os.path.join(os.path.dirname(__file__), "../build/bin/dptrain"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("cases", nargs="*", default=["straggler", "partition", "near"])
    options = parser.parse_args()
    with Network(N) as network:
        bench = Bench(os.path.realpath(options.dptrain), network)
        for case in options.cases:
            {"straggler": bench.straggler, "partition": bench.partition, "near": bench.near}[case](options)
    raise SystemExit(1 if bench.wrong else 0)


if __name__ == "__main__":
    main()
