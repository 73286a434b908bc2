"""Runs the programs that docs/python.md shows side by side in turns, and prints a Markdown table.

Called by python_peers.sh.  The programs are the blocks below the heading "Side by side"; the first of
them is what all have in common.  Each run is a process of its own.  Counted are

- the time of the program behind the common part, with the imports of its package;
- the processor time of the same, over all processes of the program;
- the largest memory of each process of the program, added up;
- the accuracy on the 10000 test images afterwards.
"""

import argparse
import datetime
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from vs_pytorch import machine  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FRAME = """
import contextlib, json, os, resource, sys, time
{common}
def used():
    return [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
def processors():
    return sum(u.ru_utime + u.ru_stime for u in used())
begin, before = time.perf_counter(), processors()
with contextlib.redirect_stdout(sys.stderr):
    exec(compile({program!r}, "program", "exec"))
report = dict(seconds=time.perf_counter() - begin, processors=processors() - before,
              memory=used()[0].ru_maxrss / 1024)
test = read("t10k-images-idx3", 16).reshape(-1, 1, 28, 28) / 255
if "keras" in sys.modules and "net" in globals():
    guesses = torch.from_numpy(numpy.array(net.predict(test.permute(0, 2, 3, 1).numpy(), verbose=0)))
else:
    with torch.inference_mode():
        guesses = module.eval()(test)
report["accuracy"] = (guesses.argmax(1) == read("t10k-labels-idx1", 8)).double().mean().item()
with open({result!r} + os.environ.get("LOCAL_RANK", "0"), "w") as file:
    json.dump(report, file)
"""


@dataclass
class Case:
    """A program, and how it differs from the block of docs/python.md."""

    name: str
    block: str
    packages: tuple
    changes: dict = field(default_factory=dict)
    environment: dict = field(default_factory=dict)


CASES = (
    Case("dptrain", "dptrain", ("dptrain",)),
    Case("DataParallel", "DataParallel", ("torch",)),
    Case("Lightning", "Lightning", ("lightning",)),
    Case("Lightning, devices=2", "Lightning", ("lightning",),
         {"devices=1": "devices=2", "batch_size=256": "batch_size=128"}),
    Case("Keras", "Keras", ("keras",), {}, {"KERAS_BACKEND": "torch"}),
)  # fmt: skip


def programs():
    """The programs by name; the first is what the others have in common."""
    with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as file:
        text = file.read().split("## Side by side")[1]
    blocks = re.findall(r"^```py\n# (.*?)\n(.*?)^```$", text, re.M | re.S)
    return dict(blocks)


def changed(program, changes):
    for old, new in changes.items():
        if old not in program:
            sys.exit(f"python_programs: docs/python.md has no {old} in this program")
        program = program.replace(old, new)
    return program


def run(common, program, environment):
    """The figures of one run, over all its processes."""
    with tempfile.TemporaryDirectory() as folder:
        result, script = os.path.join(folder, "result"), os.path.join(folder, "program.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(FRAME.format(common=common, program=program, result=result))
        done = subprocess.run([sys.executable, script], env={**os.environ, **environment}, cwd=folder,
                              capture_output=True, text=True)  # fmt: skip
        reports = []
        for path in sorted(p for p in os.listdir(folder) if p.startswith("result")):
            with open(os.path.join(folder, path), encoding="utf-8") as file:
                reports.append(json.load(file))
    if done.returncode != 0 or not reports:
        sys.exit(f"python_programs: a program failed\n{done.stderr[-3000:]}")
    return {
        "seconds": max(r["seconds"] for r in reports),
        "processors": sum(r["processors"] for r in reports),
        "memory": sum(r["memory"] for r in reports),
        "accuracy": reports[0]["accuracy"],
        "processes": len(reports),
    }


def measure(cases, runs, path):
    """The figures of all runs of each program, also those that `path` has."""
    known = programs()
    common = known.pop(next(iter(known)))
    results = {case.name: [] for case in cases}
    if path and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for one in map(json.loads, file):
                results.setdefault(one["name"], []).append(one)
    for i in range(runs):
        for case in cases:
            one = run(common, changed(known[case.block], case.changes), case.environment)
            one["name"] = case.name
            results[case.name].append(one)
            print(f"run {i + 1} of {runs}: {case.name}: {one['seconds']:.1f} s", file=sys.stderr)
            if path:
                with open(path, "a", encoding="utf-8") as file:
                    file.write(json.dumps(one) + "\n")
    return {name: of_name for name, of_name in results.items() if of_name}


def median(runs, key):
    return statistics.median(run[key] for run in runs)


def versions():
    from importlib.metadata import PackageNotFoundError, version

    found = []
    for package in ("torch", "lightning", "keras"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            pass
    return ", ".join(found)


def report(results):
    """Prints the table.  Returns what is not as claimed."""
    ours = results["dptrain"]
    runs = " to ".join(map(str, sorted({min(map(len, results.values())), max(map(len, results.values()))})))
    peers = {name: r for name, r in results.items() if name != "dptrain"}
    print(f"{len(os.sched_getaffinity(0))} cores, {machine()}; Python {sys.version.split()[0]}, {versions()}; "
          f"{datetime.date.today()}; medians of {runs} runs each, in turns\n")  # fmt: skip
    print("| | time | from, to | against dptrain | of processors | memory | against dptrain | processes | accuracy |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name, r in results.items():
        times = [one["seconds"] for one in r]
        print(f"| {name} | {median(r, 'seconds'):.1f} s | {min(times):.1f} to {max(times):.1f} "
              f"| {median(r, 'seconds') / median(ours, 'seconds'):.2f} | {median(r, 'processors'):.1f} s "
              f"| {median(r, 'memory'):.0f} MiB | {median(r, 'memory') / median(ours, 'memory'):.2f} "
              f"| {r[0]['processes']} | {median(r, 'accuracy'):.3f} |")  # fmt: skip
    missed = []
    if peers and median(ours, "seconds") > min(median(r, "seconds") for r in peers.values()):
        missed.append("a time no longer than that of each other program")
    same = [median(r, "accuracy") for name, r in peers.items() if name in ("DataParallel", "Lightning")]
    if same and median(ours, "accuracy") < min(same) - 0.02:
        missed.append("the accuracy of the same training in PyTorch, less 0.02")
    return missed


def main():
    parser = argparse.ArgumentParser(prog="python_peers.sh", description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="*", help=f"programs: {', '.join(c.name for c in CASES)} (default: all)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each (default 3)")
    parser.add_argument("--results", metavar="FILE",
                        help="a file of runs, to which these are added: the table is that of all of them")  # fmt: skip
    parser.add_argument("--check", action="store_true",
                        help="fail unless dptrain is as quick as the quickest other one, as accurate as PyTorch")  # fmt: skip
    args = parser.parse_args()
    unknown = set(args.name) - {case.name for case in CASES}
    if unknown or args.runs < 0:
        parser.error(f"unknown program {unknown.pop()}" if unknown else "--runs takes numbers from 0 on")
    cases = []
    for case in CASES:
        missing = [p for p in case.packages if importlib.util.find_spec(p) is None]
        if missing:
            print(f"python_programs: {case.name} is left out: {missing[0]} is not installed", file=sys.stderr)
        elif not args.name or case.name in args.name or case.name == "dptrain":
            cases.append(case)
    if args.runs == 0 and not (args.results and os.path.exists(args.results)):
        parser.error("--runs 0 needs the --results of earlier runs")
    missed = report(measure(cases, args.runs, args.results))
    if args.check and missed:
        sys.exit(f"python_programs: not what is claimed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
