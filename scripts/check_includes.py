#!/usr/bin/env python3
"""Checks who includes whom.

    check_includes.py layers      every include follows the arrows of the diagram "Layers" in
                                  docs/architecture.md
    check_includes.py circles     no circle of includes between folders, and none between the files of
                                  one folder; a .c file and the .h file of the same name are one file
    check_includes.py self-test   plants one fault of each kind and fails unless each is found

Every fault is one line, FILE:LINE: what is wrong.  The exit status is 0 if there is none, else 1.
Only includes of files of this project are looked at.
"""

import os
import re
import sys

from checking import check_planted, read, run

DIAGRAM = "docs/architecture.md"
TOPS = ("core", "models", "cli", "examples", "backends", "transports")
SOURCES = (".c", ".h", ".cl", ".cu", ".cuh")

# Circles that are known and not yet ended.  Every circle whose members are all in one entry is
# accepted.  An entry that has no circle any more is a fault: remove it.
KNOWN_CIRCLES = []


# ---- Includes ----


def sources(root):
    """The source files, relative to the root."""
    found = []
    for top in TOPS:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders.sort()
            found += [os.path.relpath(os.path.join(folder, n), root) for n in sorted(names) if n.endswith(SOURCES)]
    return found


def search_path(name):
    """The folders in which the build looks for what a file includes, the file's own folder first."""
    parts = name.split("/")
    folders = [os.path.dirname(name)]
    if parts[0] == "backends":
        folders += ["/".join(parts[:2]), "backends", "backends/common", "backends/kernels"]
    if parts[0] == "cli":
        folders += ["cli"]
    return folders + ["core", "core/collective", "models"]


INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def includes(root):
    """(file, line, included file) of every include of a file of the project."""
    files = sources(root)
    known, found = set(files), []
    for name in files:
        for number, line in enumerate(read(os.path.join(root, name)).splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            folders = search_path(name) if match[1] else ["core", "models"]
            for folder in folders:
                target = os.path.normpath(os.path.join(folder, match[1] or match[2]))
                if target in known:
                    found.append((name, number, target))
                    break
    return files, found


# ---- Layers ----

NODE = r'(\w+)(?:\["([^"]+)"\])?'


def diagram(root):
    """The boxes of the diagram, with what each holds, and the arrows between them."""
    text = read(os.path.join(root, DIAGRAM))
    match = re.search(r"^## Layers$.*?^```mermaid\n(.*?)^```", text, re.M | re.S)
    holds, arrows = {}, {}
    for line in match[1].splitlines() if match else []:
        arrow = re.match(rf"\s*{NODE}\s*(-->|-\..*?\.->)\s*{NODE}\s*$", line)
        if not arrow:
            continue
        for box, label in ((arrow[1], arrow[2]), (arrow[4], arrow[5])):
            arrows.setdefault(box, set())
            if label or box not in holds:
                holds[box] = [part.strip() for part in (label or box).split(",")]
        if arrow[3] == "-->":
            arrows[arrow[1]].add(arrow[4])
    return holds, arrows


def box_of(name, holds):
    """The box that holds a file: the one with the longest matching path; None if there is none."""
    best, length = None, -1
    for box, paths in holds.items():
        for path in paths:
            if (name == path or name.startswith((path + "/", path + "."))) and len(path) > length:
                best, length = box, len(path)
    return best


def below(box, arrows):
    """The box and everything that arrows lead to from it."""
    found, todo = set(), [box]
    while todo:
        at = todo.pop()
        if at not in found:
            found.add(at)
            todo += arrows[at]
    return found


def check_layers(root):
    files, found = includes(root)
    holds, arrows = diagram(root)
    if not holds:
        return [f"{DIAGRAM}:1: no diagram below the heading Layers"], f"{len(found)} includes"
    faults = [f"{name}:1: no box of the diagram in {DIAGRAM} holds this file" for name in files if box_of(name, holds) is None]
    for box, paths in holds.items():
        for path in paths:
            if not any(name == path or name.startswith((path + "/", path + ".")) for name in files):
                faults.append(f"{DIAGRAM}:1: the box {path} holds no file")
    reach = {box: below(box, arrows) for box in arrows}
    for name, number, target in found:
        upper, lower = box_of(name, holds), box_of(target, holds)
        if upper is not None and lower is not None and lower not in reach[upper]:
            faults.append(f"{name}:{number}: includes {target}, but no arrow leads from {holds[upper][0]} to {holds[lower][0]}")
    return faults, f"{len(found)} includes"


# ---- Circles ----


def folder_of(name):
    """The folder of a file; a file directly in core/ or backends/ is a folder of its own."""
    folder = os.path.dirname(name)
    return os.path.splitext(name)[0] if folder in TOPS and folder in ("core", "backends") else folder


def circles(edges):
    """The strongly connected components with more than one member (Tarjan, without recursion)."""
    index, low, on_stack, stack, found = {}, {}, set(), [], []
    for start in sorted(edges):
        if start in index:
            continue
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        work = [(start, iter(sorted(edges[start])))]
        while work:
            at, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(edges.get(target, ())))))
                    break
                if target in on_stack:
                    low[at] = min(low[at], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == index[at]:
                    members = set()
                    while at not in members:
                        members.add(stack.pop())
                    on_stack -= members
                    if len(members) > 1:
                        found.append(members)
    return found


def check_circles(root, known=None):
    known = KNOWN_CIRCLES if known is None else known
    _, found = includes(root)
    folders, files, places = {}, {}, {}
    for name, number, target in found:
        for edges, of in ((folders, folder_of), (files, lambda path: os.path.splitext(path)[0])):
            if edges is files and folder_of(name) != folder_of(target):
                continue
            upper, lower = of(name), of(target)
            if upper != lower:
                edges.setdefault(upper, set()).add(lower)
                places.setdefault((upper, lower), f"{name}:{number}")
    faults, used = [], [False] * len(known)
    for edges in (folders, files):
        for members in circles(edges):
            entries = [i for i, entry in enumerate(known) if members <= entry]
            for i in entries:
                used[i] = True
            if entries:
                continue
            for upper in sorted(members):
                for lower in sorted(members & edges[upper]):
                    faults.append(f"{places[upper, lower]}: {upper} includes {lower}, in a circle of {len(members)}: {', '.join(sorted(members))}")
    for entry, was_used in zip(known, used):
        if not was_used:
            faults.append(f"scripts/check_includes.py:1: the known circle of {', '.join(sorted(entry))} has ended: remove it")
    return faults, f"{len(found)} includes, {len(folders)} folders"


# ---- Self-test ----


def self_test(_):
    files = {
        DIAGRAM: '## Layers\n\n```mermaid\ngraph TD\n    cli --> api["core/dptrain.h"]\n    top["core/top"] --> low["core/low"]\n'
        '    low --> api\n    top -. "opens" .-> gone["core/gone"]\n```\n',
        "cli/main.c": '#include "dptrain.h"\n#include "low/a.h"\n',
        "core/dptrain.h": "",
        "core/low/a.h": '#include "low/b.h"\n',
        "core/low/a.c": '#include "low/a.h"\n',
        "core/low/b.h": "",
        "core/low/b.c": '#include <stdio.h>\n#include "low/b.h"\n#include "low/a.h"\n#include "top/t.h"\n',
        "core/low/c.c": '#include "low/d.h"\n',
        "core/low/d.h": "",
        "core/low/d.c": '#include "low/c.h"\n',
        "core/low/c.h": "",
        "core/top/t.h": '#include "low/a.h"\n',
        "core/lost/x.c": '#include "low/a.h"\n',
    }
    known = [{"core/low/c", "core/low/d", "core/low/e"}, {"core/low/e", "core/low/f"}]
    low = "in a circle of 2: core/low/a, core/low/b"
    folders = "in a circle of 2: core/low, core/top"
    expected = [
        "cli/main.c:2: includes core/low/a.h, but no arrow leads from cli to core/low",
        "core/low/b.c:4: includes core/top/t.h, but no arrow leads from core/low to core/top",
        f"core/lost/x.c:1: no box of the diagram in {DIAGRAM} holds this file",
        f"{DIAGRAM}:1: the box core/gone holds no file",
        f"core/low/a.h:1: core/low/a includes core/low/b, {low}",
        f"core/low/b.c:3: core/low/b includes core/low/a, {low}",
        f"core/low/b.c:4: core/low includes core/top, {folders}",
        f"core/top/t.h:1: core/top includes core/low, {folders}",
        "scripts/check_includes.py:1: the known circle of core/low/e, core/low/f has ended: remove it",
    ]
    return check_planted(files, expected, check_layers, lambda root: check_circles(root, known))


if __name__ == "__main__":
    sys.exit(run(__doc__, {"layers": check_layers, "circles": check_circles, "self-test": self_test}))
