#!/usr/bin/env python3
"""How long a training waits when one of its processes dies: kills one of three, and prints the seconds until the log
says so, and until it has the next step.  Needs an Open MPI with ULFM, and dptrain built with it.  With --supervise the
job ends, `dptrain supervise` starts it again, and any MPI will do.

    bench/survive.py [--dptrain FILE] [--kills N] [--supervise] [MODEL...]
"""

import argparse
import os
import signal
import statistics
import subprocess
import tempfile
import time

PROCESSES = 3


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def n_steps(log):
    return read(log).count('"event":"step"')


def until(done, seconds=60):
    began = time.monotonic()
    while not done():
        if time.monotonic() - began > seconds:
            raise SystemExit("survive.py: nothing happens: is this an Open MPI with ULFM, and dptrain built with it?")
        time.sleep(0.002)
    return time.monotonic() - began


def ranks(folder):
    """The process numbers of the training in this folder, by rank."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.path.realpath(f"/proc/{name}/cwd") != folder or not read(f"/proc/{name}/comm").startswith("dptrain"):
                continue
        except OSError:
            continue
        for word in read(f"/proc/{name}/environ").split("\0"):
            if word.startswith("OMPI_COMM_WORLD_RANK="):
                found[int(word.split("=")[1])] = int(name)
    return found


def goes_on(log):
    """Whether the log has a step behind the last start."""
    return '"event":"step"' in read(log).rpartition('"event":"resume"')[2] and '"event":"resume"' in read(log)


def kill_supervised(dptrain, model, victim):
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        log, errors = (os.path.join(folder, name) for name in ("run.jsonl", "run.err"))
        command = [dptrain, "supervise", "mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(PROCESSES), dptrain]
        command += ["--model", model, "--dataset", "synthetic:28x28x1:10:2400", "--batch-size", "24", "--recipe", "none"]
        command += ["--max-steps", "1000000", "--devices", "cpu:threads=1", "--deterministic", "--quiet", "--log", log]
        command += ["--checkpoint", os.path.join(folder, "run"), "--checkpoint-every", "1h"]
        with open(errors, "w") as file:
            job = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=file)
        try:
            until(lambda: n_steps(log) >= 10)
            time.sleep(2.5)
            os.kill(ranks(folder)[victim], signal.SIGKILL)
            began = time.monotonic()
            until(lambda: "starting it again" in read(errors))
            told = time.monotonic() - began
            until(lambda: goes_on(log))
            return told, time.monotonic() - began
        finally:
            job.terminate()
            job.wait()


def kill_one(dptrain, model, victim):
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        log = os.path.join(folder, "run.jsonl")
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "--with-ft", "ulfm", "-n", str(PROCESSES), dptrain]
        command += ["--model", model, "--dataset", "synthetic:28x28x1:10:2400", "--batch-size", "24", "--recipe", "none"]
        command += ["--max-steps", "1000000", "--devices", "cpu:threads=1", "--deterministic", "--quiet", "--log", log]
        job = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(lambda: n_steps(log) >= 10)
            time.sleep(0.5)
            os.kill(ranks(folder)[victim], signal.SIGKILL)
            told = until(lambda: "has died" in read(log))
            before = n_steps(log)
            return told, told + until(lambda: n_steps(log) > before)
        finally:
            for number in ranks(folder).values():
                os.kill(number, signal.SIGTERM)
            job.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dptrain", default=os.path.join(os.path.dirname(__file__), "../build/bin/dptrain"))
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--supervise", action="store_true")
    parser.add_argument("models", nargs="*", default=["lenet", "resnet18"])
    options = parser.parse_args()
    for model in options.models:
        kill = kill_supervised if options.supervise else kill_one
        times = [kill(os.path.realpath(options.dptrain), model, i % PROCESSES) for i in range(options.kills)]
        told, step = (statistics.median(of) for of in zip(*times))
        most = max(time for _, time in times)
        print(f"{model}: told after {told:.2f} s, next step after {step:.2f} s (medians of {options.kills}), at most {most:.2f} s")


if __name__ == "__main__":
    main()
