#!/usr/bin/env python3
"""Writes the declarations of the C library for the Python package.

    declarations.py OUTPUT [--cc COMPILER] [--source FOLDER]

OUTPUT becomes a Python module with two names: `ffi`, the declarations of the public headers for
cffi, and `VERSION`, the version of the headers.  Nothing of the headers is written by hand: the C
preprocessor expands them.  If cffi can be imported here, the module holds the declarations in
cffi's encoded form, which takes milliseconds to import.  Otherwise it holds their text, which cffi
parses at each import.
"""

import argparse
import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The headers of the compiler itself.  Their types are known to cffi.
KNOWN_TO_CFFI = ("stdbool.h", "stddef.h", "stdint.h")
TEXT_MODULE = '''from cffi import FFI

ffi = FFI()
ffi.cdef(r"""
{text}
""")
'''


def preprocess(compiler, source):
    """The public headers with all macros expanded, without comments and attributes."""
    with tempfile.TemporaryDirectory() as empty:
        for name in KNOWN_TO_CFFI:
            open(os.path.join(empty, name), "w", encoding="ascii").close()
        command = [
            *compiler.split(),
            "-E",
            "-P",
            "-nostdinc",
            "-U__GNUC__",
            "-U__clang__",
            "-I",
            empty,
        ]
        command += [
            "-I",
            os.path.join(source, "core"),
            os.path.join(source, "models", "dptrain_models.h"),
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode("utf-8")


def without_bodies(text):
    """Removes functions that have a body: they are no part of the library's interface."""
    kept, at = [], 0
    for match in re.finditer(r"\bstatic\s+inline\b[^;{]*\{", text):
        if match.start() < at:
            continue
        kept.append(text[at : match.start()])
        depth, at = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
    return "".join(kept) + text[at:]


def version(source):
    with open(os.path.join(source, "core", "dptrain", "context.h"), encoding="utf-8") as file:
        return re.search(r'#define\s+DPT_VERSION\s+"([^"]+)"', file.read())[1]


def encode(text):
    """The source of a module with `ffi`."""
    try:
        import cffi
    except ImportError:
        return TEXT_MODULE.format(text=text)
    ffi = cffi.FFI()
    ffi.cdef(text)
    ffi.set_source("dptrain._declarations", None)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "module.py")
        with contextlib.redirect_stdout(io.StringIO()):  # cffi says what it writes
            ffi.emit_python_code(path)
        with open(path, encoding="utf-8") as file:
            return file.read()


def write(path, text):
    """Writes a file, unless it has this text already."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(
        description="Writes the declarations of the C library for Python."
    )
    parser.add_argument("output")
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"), help="the C compiler")
    parser.add_argument("--source", default=ROOT, help="the root of the sources")
    arguments = parser.parse_args()
    text = without_bodies(preprocess(arguments.cc, arguments.source))
    head = "# Written by python/declarations.py from the public headers of libdptrain.\n"
    write(arguments.output, f'{head}{encode(text)}\nVERSION = "{version(arguments.source)}"\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
