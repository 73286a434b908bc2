"""What the scripts check_*.py share: modes on the command line, and self-tests with planted faults.

A check is a function of a root folder.  It returns the faults that it found, each a line, and what it looked at, in
words that begin with a number.
"""

import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def run(usage, checks):
    """Runs the checks that the command line names and prints their faults.

    checks   {mode: check}
    Returns the exit status: 0 without a fault; 1 with a fault, or if a check looked at nothing; 2 after `usage`."""
    modes = sys.argv[1:]
    if not modes or any(mode not in checks for mode in modes):
        print(usage, file=sys.stderr)
        return 2
    failed = False
    for mode in modes:
        faults, looked_at = checks[mode](ROOT)
        for fault in faults:
            print(fault)
        print(f"{mode}: {looked_at}, {len(faults)} faults")
        failed = failed or bool(faults) or looked_at.startswith("0 ")
    return 1 if failed else 0


def check_planted(files, expected, *checks):
    """Checks the checks: they must find exactly the faults `expected` in a folder of `files`.

    files   {path: text}
    Returns what a check returns."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        found = [fault for check in checks for fault in check(root)[0]]
    faults = [f"self-test: not found: {fault}" for fault in expected if fault not in found]
    faults += [f"self-test: found, but not planted: {fault}" for fault in found if fault not in expected]
    return faults, f"{len(expected)} planted faults"
