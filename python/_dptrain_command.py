"""The command `dptrain` of a Python environment: starts the program that lies in the package.

The package itself is not imported, so that the command starts as fast as the program.
"""

import importlib.util
import os
import sys


def main():
    package = importlib.util.find_spec("dptrain")
    for folder in package.submodule_search_locations if package else []:
        program = os.path.join(folder, "_bin", "dptrain")
        if os.path.exists(program):
            os.execv(program, ["dptrain", *sys.argv[1:]])
    sys.exit("dptrain: the Python package has no program; install the package again: pip install --force-reinstall dptrain")
