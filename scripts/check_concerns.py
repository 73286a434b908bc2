#!/usr/bin/env python3
"""Checks that the concerns of the trainer (core/train/*/) stay apart.

1. A file touches the fields of its own concern alone: `->pipeline.` and the like stand in files of
   core/train/pipeline only.
2. A file includes headers of another concern only where the table below allows it.
3. No two files of core/train include each other in a circle, a header and its source being one file.

Prints every violation; exit status 1 if there is one.  With the argument self-test it checks instead
that each of the three finds what is planted.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent / "core"
TRAIN = ROOT / "train"
CONCERNS = ("pipeline", "exchange", "recovery", "feeding", "evaluation", "membership", "peers")

# Which concern may call which, and what for.  Headers that hold types alone (X_state.h, outcome.h,
# order.h, data_store.h, feed.h, membership.h) may be included by every concern.
MAY_CALL = {
    ("pipeline", "exchange"): "a step's collectives; islands formed before a step",
    ("pipeline", "feeding"): "order of samples, reading, gathering and sending them",
    ("pipeline", "membership"): "who takes part; waiting; events; what standby observes",
    ("pipeline", "peers"): "outcomes of other processes; requests",
    ("pipeline", "recovery"): "remedies before a retry; comparing replicas in a step",
    ("exchange", "membership"): "waiting; who takes part; events",
    ("exchange", "peers"): "whether all devices are alike; agreeing",
    ("exchange", "pipeline"): "checks of gradients in an island",
    ("feeding", "membership"): "waiting; who takes part",
    ("feeding", "pipeline"): "the rows of each batch, to read images ahead",
    ("feeding", "recovery"): "losing a device that fails while samples are published",
    ("evaluation", "feeding"): "copies, feeds and publishing of samples",
    ("evaluation", "membership"): "waiting; who takes part",
    ("evaluation", "peers"): "gathering all processes' parts; comparing weights",
    ("evaluation", "pipeline"): "the split; running a segment; host memory of a share",
    ("evaluation", "recovery"): "refreshing replicas; losing a device that fails",
    ("membership", "evaluation"): "forgetting programs that a readmitted device lacks",
    ("membership", "exchange"): "who takes part in collectives; breaking them; islands",
    ("membership", "feeding"): "copies of data of a readmitted device",
    ("membership", "peers"): "names of devices; what a readmitted device can do",
    ("membership", "pipeline"): "where training stands; the balance",
    ("membership", "recovery"): "restoring replicas before standby and after readmission",
    ("peers", "feeding"): "whether a device is fed; that images could not be read",
    ("peers", "membership"): "who takes part; the error of a hung device",
    ("peers", "pipeline"): "the record of a step; where training stands",
    ("peers", "recovery"): "reading weights to compare them; preparing devices anew",
    ("recovery", "evaluation"): "forgetting programs of devices that are made anew",
    ("recovery", "exchange"): "ending islands; clearing error feedback",
    ("recovery", "feeding"): "data that a hung device may still read",
    ("recovery", "membership"): "losing, waiting, events, standby devices' state",
    ("recovery", "peers"): "agreeing before devices are made anew; noting written weights",
    ("recovery", "pipeline"): "the balance and capacities; where training stands",
}
TYPES = re.compile(r"(_state|/outcome|/order|/data_store|/feed|/membership/membership)\.h$")


def concern_of(path):
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else None


def strip(text):
    return re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)


def check_fields(path, text):
    field = re.compile(r"(?:->|\.)(" + "|".join(CONCERNS) + r")\.[a-z_]")
    for number, line in enumerate(strip(text).split("\n"), 1):
        if line.startswith("#include"):
            continue
        for match in field.finditer(line):
            if concern_of(path) != match.group(1):
                yield f"core/{path}:{number}: touches a field of {match.group(1)}"


def check_edges(path, includes):
    own = concern_of(path)
    for include in includes:
        other = concern_of(include)
        if own is None or other is None or own == other or TYPES.search(include):
            continue
        if (own, other) not in MAY_CALL:
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
        not list(check_edges("train/evaluation/planted.c", ["train/pipeline/step.h"])),
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
        used |= {(concern_of(path), concern_of(i)) for i in includes if not TYPES.search(i)}
        others = {i[:-2] for i in includes} - {path[:-2]}
        graph.setdefault(path[:-2], set()).update(others)
    for component in find_circles(graph):
        violations.append("include each other: " + ", ".join(component))
    for edge in sorted(set(MAY_CALL) - used):
        violations.append(f"the table allows {edge[0]} to call {edge[1]}, which nothing does")
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1:] == ["self-test"] else main())
