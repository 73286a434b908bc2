#!/usr/bin/env python3
"""Checks that the concerns of the trainer (the folders of core/train) stay apart.

1. A file touches the fields of its own concern alone: `->pipeline.` and the like stand in files of
   core/train/pipeline only.
2. A concern includes headers of lower concerns only, and only where the table below allows it.
3. No two files of core/train include each other in a circle, a header and its source being one file.

Prints every violation; exit status 1 if there is one.  With the argument self-test it checks instead
that each of the three finds what is planted.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent / "core"
TRAIN = ROOT / "train"

# The concerns, the lowest first.  A concern calls only concerns that stand before it.
ORDER = (
    "progress",
    "membership",
    "peers",
    "rounds",
    "plan",
    "feeding",
    "exchange",
    "standby",
    "replicas",
    "compute",
    "programs",
    "recovery",
    "evaluation",
    "pipeline",
)
# Folders below all concerns, which all concerns may include: components, which know no trainer, and
# the structs of the trainer.
BELOW = ("components", "state")

# Which concern calls which, and what for.
MAY_CALL = {
    ("membership", "progress"): "where training stands, for events; whether steps are in flight",
    ("peers", "progress"): "the record of a step",
    ("peers", "membership"): "the error of a device that hangs",
    ("rounds", "progress"): "where training stands",
    ("rounds", "peers"): "the first device of each process",
    ("plan", "progress"): "how many steps the log that is replayed has left",
    ("plan", "membership"): "which devices are lost",
    ("plan", "peers"): "the capacities of all devices",
    ("feeding", "membership"): "waiting; who takes part",
    ("feeding", "plan"): "the rows of each batch, to read images ahead",
    ("exchange", "membership"): "waiting; who takes part; events",
    ("exchange", "peers"): "whether all devices are alike; agreeing",
    ("standby", "progress"): "where training stands, and going back",
    ("standby", "membership"): "device states; events",
    ("standby", "plan"): "the balance",
    ("standby", "exchange"): "whether a device is in an island",
    ("replicas", "progress"): "where training stands",
    ("replicas", "membership"): "replica validity; waiting; events",
    ("replicas", "peers"): "comparing weights between processes",
    ("replicas", "rounds"): "forgetting the outer velocity",
    ("replicas", "exchange"): "clearing error feedback",
    ("replicas", "standby"): "ending standby where all replicas are written",
    ("compute", "progress"): "whether spans of times are kept",
    ("compute", "membership"): "who takes part; replica validity; events",
    ("compute", "peers"): "outcomes of a step",
    ("compute", "plan"): "micro-batches",
    ("compute", "feeding"): "sending samples",
    ("compute", "exchange"): "a step's collectives; checks of gradients in an island",
    ("compute", "replicas"): "comparing replicas in a step; the optimizer's state in parts",
    ("programs", "progress"): "host memory of shards; checks of calls",
    ("programs", "membership"): "waiting; who takes part",
    ("programs", "peers"): "the records of devices",
    ("programs", "plan"): "capacities; micro-batches",
    ("programs", "feeding"): "copies of data and host feeds",
    ("programs", "exchange"): "joining and leaving the collectives",
    ("programs", "replicas"): "what fits on a device; views, comparison and parts of a replica",
    ("programs", "compute"): "checks of gradients; single-launch programs",
    ("recovery", "progress"): "where training stands; retrying steps; checks of calls",
    ("recovery", "membership"): "device states; waiting; events",
    ("recovery", "peers"): "agreeing before devices are made anew",
    ("recovery", "rounds"): "refusing calls within a round",
    ("recovery", "plan"): "the balance and capacities",
    ("recovery", "feeding"): "copies of data of lost and readmitted devices; publishing samples",
    ("recovery", "exchange"): "ending islands, and having them formed anew",
    ("recovery", "standby"): "ending standby; going back; refreshing replicas",
    ("recovery", "replicas"): "reading, writing and copying the training state",
    ("recovery", "programs"): "making and destroying workers; forgetting programs of evaluation",
    ("evaluation", "progress"): "retrying steps; checks of calls",
    ("evaluation", "membership"): "waiting; who takes part",
    ("evaluation", "peers"): "gathering all processes' parts",
    ("evaluation", "rounds"): "refusing calls within a round",
    ("evaluation", "plan"): "the split",
    ("evaluation", "feeding"): "copies of data and host feeds",
    ("evaluation", "replicas"): "what fits on a device; comparing weights",
    ("evaluation", "compute"): "running a segment",
    ("evaluation", "programs"): "programs of evaluation",
    ("evaluation", "recovery"): "refreshing replicas; losing a device that fails; publishing samples",
    ("pipeline", "progress"): "the records of steps; checks of calls",
    ("pipeline", "membership"): "waiting; who takes part; events",
    ("pipeline", "peers"): "outcomes of other processes; requests",
    ("pipeline", "rounds"): "beginning and ending rounds",
    ("pipeline", "plan"): "shards of a step, and what was measured",
    ("pipeline", "feeding"): "order of samples, reading and gathering them",
    ("pipeline", "exchange"): "islands before a step; error feedback for the end of a round",
    ("pipeline", "standby"): "what standby observes; steps to retry",
    ("pipeline", "replicas"): "comparing replicas and weights; whether there is a state",
    ("pipeline", "compute"): "the job of a step; ending a dropped step",
    ("pipeline", "programs"): "the options of a program",
    ("pipeline", "recovery"): "remedies before a retry; what is due between steps",}


def folder_of(path):
    """The folder of a file of the trainer; None: core/train itself, which may call every concern."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else None


def strip(text):
    return re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)


def check_fields(path, text):
    field = re.compile(r"(?:->|\.)(" + "|".join(ORDER) + r")\.[a-z_]")
    for number, line in enumerate(strip(text).split("\n"), 1):
        if line.startswith("#include"):
            continue
        for match in field.finditer(line):
            if folder_of(path) != match.group(1):
                yield f"core/{path}:{number}: touches a field of {match.group(1)}"


def rank_of(folder):
    """How high a folder is: below all concerns, a concern, or core/train itself."""
    return -1 if folder in BELOW else len(ORDER) if folder is None else ORDER.index(folder)


def check_edges(path, includes):
    own = folder_of(path)
    for include in includes:
        other = folder_of(include)
        if own == other or (own is None and other is not None) or (other in BELOW and own not in BELOW):
            continue
        if rank_of(other) > rank_of(own):
            yield f"core/{path}: includes {include}; {own} is lower than {other or 'core/train itself'}"
        elif own not in BELOW and (own, other) not in MAY_CALL:
            yield f"core/{path}: includes {include}; {own} may not call {other}"


def find_circles(graph):
    """Strongly connected components of more than one node."""
    index, low, stack, result = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component = []
            while True:
                component.append(stack.pop())
                if component[-1] == node:
                    break
            if len(component) > 1:
                result.append(sorted(component))

    sys.setrecursionlimit(10000)
    for node in sorted(graph):
        if node not in index:
            visit(node)
    return result


def self_test():
    planted = "/* t->pipeline.done */\nsize_t n = t->pipeline.done.step;\n"
    found = [
        len(list(check_fields("train/peers/planted.c", planted))) == 1,
        not list(check_fields("train/pipeline/planted.c", planted)),
        len(list(check_edges("train/exchange/planted.c", ["train/evaluation/evaluate.h"]))) == 1,
        len(list(check_edges("train/pipeline/planted.c", ["train/evaluation/evaluate.h"]))) == 1,
        len(list(check_edges("train/state/planted.h", ["train/plan/shards.h"]))) == 1,
        len(list(check_edges("train/pipeline/planted.c", ["train/options.h"]))) == 1,
        not list(check_edges("train/evaluation/planted.c", ["train/compute/step.h", "train/state/trainer.h"])),
        not list(check_edges("train/planted.c", ["train/pipeline/steps.h", "train/options.h"])),
        find_circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]],
        not find_circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}),
    ]
    if not all(found):
        print(f"a planted violation was not told from what is allowed: {found}")
    return 0 if all(found) else 1


def main():
    violations, graph, used = [], {}, set()
    files = sorted(f for f in ROOT.rglob("*.[ch]"))
    for file in files:
        path, text = str(file.relative_to(ROOT)), file.read_text()
        violations += check_fields(path, text)
        if not path.startswith("train/"):
            continue
        includes = re.findall(r'^#include "(train/[^"]+)"', text, flags=re.M)
        violations += check_edges(path, includes)
        used |= {(folder_of(path), folder_of(i)) for i in includes}
        others = {i[:-2] for i in includes} - {path[:-2]}
        graph.setdefault(path[:-2], set()).update(others)
    for component in find_circles(graph):
        violations.append("include each other: " + ", ".join(component))
    folders = {folder.name for folder in TRAIN.iterdir() if folder.is_dir()}
    for folder in sorted(folders ^ {*ORDER, *BELOW}):
        violations.append(f"core/train/{folder} and the order of concerns in this script do not agree")
    for upper, lower in MAY_CALL:
        if rank_of(lower) >= rank_of(upper):
            violations.append(f"the table lets {upper} call {lower}, which is not lower")
    for edge in sorted(set(MAY_CALL) - used):
        violations.append(f"the table allows {edge[0]} to call {edge[1]}, which nothing does")
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1:] == ["self-test"] else main())
