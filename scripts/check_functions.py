#!/usr/bin/env python3
"""Checks that functions of the product are short and have few arguments.

    check_functions.py lines      no function has more than 60 lines, from the first line of its head
                                  to its closing brace; comments above it do not count
    check_functions.py arguments  no function has more than four arguments; the `...` of a function that
                                  prints does not count
    check_functions.py self-test  plants one fault of each kind and fails unless each is found

Every fault is one line, FILE:LINE: what is wrong.  The exit status is 0 if there is none, else 1.
The check relies on the formatter: the braces around a function's body are the first character of
their lines, and no other opening brace is.
"""

import glob
import os
import re
import sys
from collections import namedtuple

from checking import check_planted, read, run

TOPS = ("core", "models", "cli", "examples", "backends", "transports")
SOURCES = (".c", ".h", ".cl", ".cu", ".cuh")
MOST_LINES = 60

# Functions that may be longer, as "FILE NAME", each with the reason.  An entry that is not needed any
# more is a fault: remove it.
LONG = {
    "backends/opencl/kernels/conv2d_registers_gather.cl dpt_conv2d_gather": "its loops share a tile of sums "
    "in registers and were measured as one function: a split needs a measurement",
    "backends/opencl/kernels/conv2d_registers_weights.cl dpt_conv2d_weights": "as dpt_conv2d_gather",
}

MOST_ARGUMENTS = 4
PUBLIC = "core/dptrain/*.h"

# Functions that may have more arguments, as patterns of "FILE NAME", each with the reason.  Functions
# that the public headers declare may have more, too.  A pattern that is not needed any more is a fault:
# remove it.
MANY = {
    r"backends/cpu/kernels/\S+ \w+": "inlined bodies of loops, whose arguments stay in registers",
    r"backends/kernels/\S+ \w+": "kernels and device functions: the arguments of a kernel are its launch interface, "
    "and those of a device function stay in registers",
    r"backends/opencl/kernels/\S+ \w+": "as backends/kernels",
    r"backends/cuda/(collective|nccl|peers)\.c (all_reduce|broadcast)": "functions of the table in core/backend.h",
    r"examples/read_records\.c read_image": "dpt_dataset_reader in core/dptrain/data.h calls it",
    r"core/data/pictures\.c read_one": "dpt_dataset_reader in core/dptrain/data.h calls it",
    r"core/data/image_tiff\.c (note_error|hear_warning)": "libtiff calls them",
    r"transports/\w+/\w+\.c transport_start": "a function of the table in core/collective/transport.h",
    r"core/dpt_error\.h dpt_error_set": "only macros call it, which add the file and the line",
    r"backends/cuda/runtime\.c dpt_cuda_fail": "as dpt_error_set",
    r"backends/opencl/opencl\.c dpt_cl_fail": "as dpt_error_set",
}

# `parameters` is the text between the parentheses of the head; `first` and `last` are line numbers.
Function = namedtuple("Function", "file name parameters first last")


# ---- Functions ----


def sources(root):
    """The source files, relative to the root."""
    found = []
    for top in TOPS:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders.sort()
            found += [os.path.relpath(os.path.join(folder, n), root) for n in sorted(names) if n.endswith(SOURCES)]
    return found


SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*", re.M | re.S)


def code_lines(text):
    """The lines of the text; comments, strings and directives of the preprocessor are blank."""

    def blank(match):
        spaces = re.sub(r"[^\n]", " ", match[0])
        return '"' + spaces[1:-1] + '"' if match[0][0] in "\"'" else spaces

    return SKIPPED.sub(blank, text).split("\n")


def head_of(lines, opening):
    """The index of the first line of the head whose body opens at the line `opening`."""
    first = opening
    while first > 0 and lines[first - 1].strip() and lines[first - 1].rstrip()[-1] not in ";}":
        first -= 1
    return first


def name_and_parameters(head):
    """The name of a function and the text between its last parentheses on the outermost level."""
    depth, opened, groups = 0, 0, []
    for at, letter in enumerate(head):
        if letter == "(":
            opened = at if depth == 0 else opened
            depth += 1
        elif letter == ")":
            depth -= 1
            if depth == 0:
                groups.append((opened, at))
    for opened, closed in reversed(groups):
        name = re.search(r"(\w+)\s*$", head[:opened])
        if name:
            return name[1], head[opened + 1 : closed]
    return "?", ""


def functions(root):
    """Every function of the product that has a body outside a macro."""
    found = []
    for file in sources(root):
        lines, opening = code_lines(read(os.path.join(root, file))), None
        for number, line in enumerate(lines):
            if line.startswith("{"):
                opening = number
            elif line.startswith("}") and opening is not None:
                first = head_of(lines, opening)
                name, parameters = name_and_parameters(" ".join(lines[first:opening]))
                found.append(Function(file, name, parameters, first + 1, number + 1))
                opening = None
    return found


# ---- Lines ----


def check_lines(root, allowed=None):
    allowed = LONG if allowed is None else allowed
    found, faults, used = functions(root), [], set()
    for function in found:
        n_lines = function.last - function.first + 1
        if n_lines <= MOST_LINES:
            continue
        key = f"{function.file} {function.name}"
        used.add(key)
        if key not in allowed:
            faults.append(f"{function.file}:{function.first}: {function.name} has {n_lines} lines, more than {MOST_LINES}")
    faults += [f"scripts/check_functions.py:1: {key} is not long any more: remove the entry" for key in allowed if key not in used]
    return faults, f"{len(found)} functions"


# ---- Arguments ----


def count_arguments(parameters):
    """The number of arguments in the text between the parentheses of a head."""
    depth, pieces = 0, [""]
    for letter in parameters:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += letter
    return sum(piece.strip() not in ("", "void", "...") for piece in pieces)


def check_arguments(root, allowed=None):
    allowed = MANY if allowed is None else allowed
    public = [read(path) for path in glob.glob(os.path.join(root, PUBLIC))]
    declared = {name for text in public for name in re.findall(r"\b(\w+)\(", "\n".join(code_lines(text)))}
    found, faults, used = functions(root), [], set()
    for function in found:
        n_arguments = count_arguments(function.parameters)
        if n_arguments <= MOST_ARGUMENTS or function.name in declared:
            continue
        key = f"{function.file} {function.name}"
        patterns = {pattern for pattern in allowed if re.fullmatch(pattern, key)}
        used |= patterns
        if not patterns:
            faults.append(f"{function.file}:{function.first}: {function.name} has {n_arguments} arguments, more than {MOST_ARGUMENTS}")
    unused = [pattern for pattern in allowed if pattern not in used]
    faults += [f"scripts/check_functions.py:1: no function needs the pattern {pattern}: remove it" for pattern in unused]
    return faults, f"{len(found)} functions"


# ---- Self-test ----


def body(n_lines):
    """A body of so many lines, its braces among them."""
    return "{\n" + "    call();\n" * (n_lines - 2) + "}\n"


def self_test(_):
    files = {
        "core/a.c": "/* A comment of\n   two lines. */\nstatic int fits(int a)\n" + body(59) + "\nvoid too_long(void)\n" + body(60),
        "core/b.c": "typedef struct shape {\n    int a;\n} shape;\n\nstatic const int table[] = {\n" + "    1,\n" * 80 + "};\n",
        "backends/k.cl": "#define HEAD(x) \\\n    x\nMACRO(1, 2) kernel void two(int a,\n        void (*b)(int))\n" + body(70),
        "cli/c.c": 'void brace(void)\n{\n    print("\\\n{");\n    /* {\n}\n */\n' + "    call();\n" * 60 + "}\n",
        "core/d.c": "void accepted(void)\n" + body(61) + "void next(void)\n" + body(61),
    }
    allowed = {"core/d.c accepted": "", "core/a.c fits": ""}
    expected = [
        "core/a.c:64: too_long has 61 lines, more than 60",
        "backends/k.cl:3: two has 72 lines, more than 60",
        "cli/c.c:1: brace has 68 lines, more than 60",
        "core/d.c:63: next has 62 lines, more than 60",
        "scripts/check_functions.py:1: core/a.c fits is not long any more: remove the entry",
    ]
    files |= {
        "core/dptrain/a.h": "int declared(int a, int b, int c, int d, int e);\n/* undeclared() */\n",
        "core/e.c": "int declared(int a, int b, int c, int d, int e)\n{\n}\nint undeclared(int a, int b, int c, int d, int e)\n{\n}\n",
        "core/f.c": "void four(int (*a)(int, int), int b, int c, const int d[], ...)\n{\n}\nstatic int none(void)\n{\n}\n"
        "int five(int a,\n         int b, int (*c)(int, int), int d, int e)\n{\n}\n",
        "backends/g.c": "DPT_PRINTF(1, 2)\nvoid kernel(int a, int b, int c, int d, int e, int f)\n{\n}\n",
    }
    many = {r"backends/\S+ kernel": "", r"backends/\S+ other": ""}
    expected += [
        "core/e.c:4: undeclared has 5 arguments, more than 4",
        "core/f.c:7: five has 5 arguments, more than 4",
        r"scripts/check_functions.py:1: no function needs the pattern backends/\S+ other: remove it",
    ]
    return check_planted(files, expected, lambda root: check_lines(root, allowed), lambda root: check_arguments(root, many))


if __name__ == "__main__":
    sys.exit(run(__doc__, {"lines": check_lines, "arguments": check_arguments, "self-test": self_test}))
