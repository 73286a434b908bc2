#!/usr/bin/env python3
"""Runs the programs that docs/python.md shows side by side, and prints time and memory of each.

    bench/python_programs.py [NAME...]

The programs are the blocks below the heading "Side by side".  Each runs in a process of its own,
three times; the median is printed.  The time is that of the program behind what all programs have in
common; the memory is the largest that the process had.  A program whose package is not installed is
left out.  PYTHONPATH names the folder of dptrain's package, such as build/python.
"""

import os
import re
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RUNS = 3
FRAME = """
import contextlib, io, json, resource, time
{common}
begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
with contextlib.redirect_stdout(io.StringIO()):
    exec(compile({program!r}, "program", "exec"))
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([time.perf_counter() - begin, used.ru_utime - before, used.ru_maxrss / 1024]))
"""


def programs():
    """The programs by name; the first is what the others have in common."""
    with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as file:
        text = file.read().split("## Side by side")[1]
    blocks = re.findall(r"^```py\n# (.*?)\n(.*?)^```$", text, re.M | re.S)
    return dict(blocks)


def run(common, program):
    """Seconds, seconds of processors, and MiB; None if a package is missing."""
    text = FRAME.format(common=common, program=program)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    if "ModuleNotFoundError" in done.stderr:
        return None
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return [float(number) for number in done.stdout.strip().splitlines()[-1].strip("[]").split(",")]


def main():
    known = programs()
    common = known.pop(next(iter(known)))
    wanted = sys.argv[1:] or list(known)
    for name in wanted:
        results = [run(common, known[name]) for _ in range(RUNS)]
        if None in results:
            print(f"{name:14} is not installed")
            continue
        seconds, processors, memory = (statistics.median(column) for column in zip(*results))
        print(f"{name:14} {seconds:7.1f} s  {processors:7.1f} s of processors  {memory:7.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
