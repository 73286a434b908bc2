#!/usr/bin/env python3
"""Packs tests of a build, so that they run on a machine without a compiler, CMake or CTest: one with
a card that is lent for minutes, or a node of a cluster.

    scripts/bundle_tests.py FOLDER [--build BUILD] [CTest's -L, -LE, -R, -E ...]
    scripts/bundle_tests.py kit -L cuda -E emulated
    kit/run.sh --require cuda              # there; kit/run.sh --help

FOLDER is made, and must not be there.  It has the programs (without symbols), the plug-ins, the
libraries that they are linked with but for the C library's, the source files, which scripts among
the tests read, and run.sh, which runs the tests one after the other, each within a limit, and tells
what came of them.  Libraries that plug-ins look for themselves (CUDA's, OpenBLAS) and OpenCL's
drivers are those of the machine: $LD_LIBRARY_PATH and $OCL_ICD_VENDORS stay as they are there.
Python 3 is needed here, bash and coreutils there.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
# What tests write, which is made anew and empty.
MADE = ("tests/cache", "tests/scratch")
# The C library's own, and what belongs to a driver.
OF_THE_MACHINE = re.compile(r"^(ld-linux|lib(c|m|dl|rt|pthread|resolv|util|mvec|cuda|nvidia)\b)")


def fail(words):
    sys.exit(f"bundle_tests.py: {words}")


def read_arguments():
    parser = argparse.ArgumentParser(
        description="Packs tests of a build to be run on a machine without build tools.",
        epilog="Further arguments select tests, as those of ctest do: -L cuda -E emulated",
    )
    parser.add_argument("folder", type=pathlib.Path, help="made, and must not be there")
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build", help="default: build/")
    arguments, selection = parser.parse_known_args()
    arguments.build = arguments.build.resolve()
    if not (arguments.build / "CTestTestfile.cmake").exists():
        fail(f"{arguments.build} is no build with tests: configure it with CMake, and build it")
    if arguments.folder.exists():
        fail(f"{arguments.folder} is there already: remove it, or name another folder")
    return arguments, selection


def list_tests(build, selection):
    """Name and properties of each test that is selected."""
    command = ["ctest", "--test-dir", str(build), "--show-only=json-v1", *selection]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        fail(f"ctest cannot list these tests: {listed.stderr.strip()}")
    tests = json.loads(listed.stdout)["tests"]
    if not tests:
        fail("no test is selected: `ctest -N` lists those that there are")
    for test in tests:
        test["properties"] = {p["name"]: p["value"] for p in test["properties"]}
        if "command" not in test:
            fail(f"{test['name']} has no program: build everything first")
    return tests


class Kit:
    """What is packed, in build/, source/ and libraries/ of its folder."""

    def __init__(self, folder, build):
        self.folder, self.build = folder, build
        self.packed = set()

    def place(self, path):
        """Where something of the build, or of the source, stands in the kit; None: of neither."""
        for name, root in (("build", self.build), ("source", SOURCE)):
            if path.is_relative_to(root):
                return self.folder / name / path.relative_to(root)
        return None

    def is_made(self, path):
        inside = path.relative_to(self.build).as_posix() if path.is_relative_to(self.build) else ""
        return inside.startswith(MADE)

    def pack_file(self, path):
        place = self.place(path)
        if place is None or path in self.packed:
            return
        self.packed.add(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
        with path.open("rb") as file:
            is_program = file.read(4) == b"\x7fELF"
        if is_program:
            subprocess.run(["strip", "--strip-unneeded", str(place)], check=True)
            self.pack_libraries(path)

    def pack_libraries(self, program):
        """Those that it is linked with."""
        listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", listed.stdout, re.MULTILINE):
            if OF_THE_MACHINE.match(name):
                continue
            library = self.folder / "libraries" / name
            library.parent.mkdir(exist_ok=True)
            if not library.exists():
                shutil.copy(path, library)

    def pack(self, path):
        """A file, or the files of a folder: not those of folders in it."""
        if self.is_made(path):
            self.place(path).mkdir(parents=True, exist_ok=True)
        elif path.is_file():
            self.pack_file(path)
        elif path.is_dir() and path != SOURCE:
            for entry in path.iterdir():
                if entry.is_file():
                    self.pack_file(entry)

    def pack_source(self):
        """What scripts read."""
        listed = subprocess.run(["git", "-C", str(SOURCE), "ls-files", "-z"],
                                capture_output=True, check=True)
        for name in filter(None, listed.stdout.decode().split("\0")):
            self.pack_file(SOURCE / name)

    def pack_paths(self, text):
        for part in re.split(r"[:=,]", text):
            path = pathlib.Path(part)
            if path.is_absolute() and path.exists() and self.place(path) is not None:
                self.pack(path)

    def word(self, text):
        """As it stands in the kit's shell, where $kit is its folder."""
        quoted = shlex.quote(text)
        for name, root in (("build", self.build), ("source", SOURCE)):
            quoted = quoted.replace(str(root), f"'\"$kit\"'/{name}" if quoted[0] == "'" else f'"$kit"/{name}')
        return quoted

    def add_test(self, test):
        properties = test["properties"]
        environment = properties.get("ENVIRONMENT", [])
        scratch = pathlib.Path(properties.get("WORKING_DIRECTORY", self.build / "tests/scratch"))
        for text in [*test["command"], *environment]:
            self.pack_paths(text)
        lines = [
            "# What run.sh runs, with kit set to its folder.",
            f"limit={float(properties.get('TIMEOUT', 600)):.0f}",
            f"scratch={self.word(str(scratch))}",
            f"skipped={properties.get('SKIP_RETURN_CODE', -1)}",
            f"wanted={shlex.quote('|'.join(properties.get('PASS_REGULAR_EXPRESSION', [])))}",
            f"waived={shlex.quote('|'.join(properties.get('SKIP_REGULAR_EXPRESSION', [])))}",
            *(f"export {name}={self.word(value)}" for name, _, value in
              (entry.partition("=") for entry in environment)),
            "command=(" + " ".join(self.word(part) for part in test["command"]) + ")",
        ]
        place = self.folder / "tests" / test["name"]
        place.parent.mkdir(exist_ok=True)
        place.write_text("\n".join(lines) + "\n")


def main():
    arguments, selection = read_arguments()
    tests = list_tests(arguments.build, selection)
    arguments.folder.mkdir(parents=True)
    kit = Kit(arguments.folder.resolve(), arguments.build)
    for test in tests:
        kit.add_test(test)
    kit.pack_source()
    (kit.folder / "list").write_text("".join(test["name"] + "\n" for test in tests))
    shutil.copy(SOURCE / "scripts" / "run_bundle.sh", kit.folder / "run.sh")
    n_bytes = sum(f.stat().st_size for f in kit.folder.rglob("*") if f.is_file())
    print(f"{len(tests)} tests, {n_bytes / 2**20:.0f} MiB: {arguments.folder}/run.sh --help")


if __name__ == "__main__":
    main()
