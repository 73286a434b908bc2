#!/usr/bin/env python3
"""Compares the reader of files of settings with Python's tomllib.

    compare.py PROGRAM    PROGRAM is test-settings

Every file that our reader accepts must be accepted by tomllib, with the same tables, keys, types
and values.  The files are some that must be accepted, and random changes of these.  The exit status
is 77 if this Python has no tomllib.
"""

import os
import random
import subprocess
import sys
import tempfile

try:
    import tomllib
except ImportError:
    print("skipped: this Python has no tomllib")
    sys.exit(77)

VALID = [
    b"# only a comment",
    b"lr = 1e-3\nepochs=10\t# ten\n\n\tquiet = true \nresume = false",
    b"a = 0\nb = -0\nc = +17\nd = 1_000_000\ne = 9223372036854775807\nf = 18446744073709551615",
    b"a = 0.5\nb = -1.25e+3\nc = +0.0\nd = 1e05\ne = 1_0.0_1E-1_0\nf = 6.02e23",
    b'a = "x"\nb = \'y\'\nc = ""\nd = \'\'\ne = "#not = [a] comment"',
    'a = "\\b\\t\\n\\f\\r\\"\\\\\\u00fc\\U0001F3B2"\nb = \'C:\\path\\"x"\'\nc = "tab\tü€🎲"'.encode(),
    b"a = [1, 2, 3]\nb = ['x', \"y\"]\nc = [ ]\nd = [1.5, 'x', -2]\ne = [\n 1, # one\n\n 2,\n]\r\n",
    b"x = 1\r\n[train]\r\nlr = 2\r\n[ eval ] # here\r\nlr = 3\n[empty]",
    b"-a_1 = 1\n1-2 = 3\n_ = 'z'",
]
ALPHABET = b"ab01_-+.eE\"'\\=[],{}# \t\r\n\x00\x7f\xc3\xbcuU"


def changed(rng):
    data = bytearray(rng.choice(VALID))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(3)
        if kind == 0:
            data.insert(at, rng.choice(ALPHABET))
        elif kind == 1 and at < len(data):
            del data[at]
        elif at < len(data):
            data[at] = rng.choice(ALPHABET)
    return bytes(data)


def word(value):
    """A value as our reader gives it, but numbers as numbers."""
    if isinstance(value, bool):
        return "boolean", str(value).lower()
    if isinstance(value, int):
        return "whole", value
    if isinstance(value, float):
        return "real", value
    if isinstance(value, str):
        return "text", value
    return "list", [word(v)[1] for v in value]


def flat(document):
    found = {}
    for key, value in document.items():
        if isinstance(value, dict):
            found.update({(key, k): word(v) for k, v in value.items()})
        else:
            found[("", key)] = word(value)
    return found


def same(ours, theirs):
    kind, text = ours
    if kind != theirs[0]:
        return False
    if kind == "whole":
        return int(text) == theirs[1]
    if kind == "real":
        return float(text) == theirs[1]
    if kind != "list":
        return text == theirs[1]
    parts, at = theirs[1], 0
    for i, part in enumerate(parts):  # our reader joins elements by commas
        if i and text[at : at + 1] != ",":
            return False
        at += i > 0
        if isinstance(part, str):
            if not text.startswith(part, at):
                return False
            at += len(part)
        else:
            end = text.find(",", at)
            end = len(text) if end < 0 else end
            if float(text[at:end]) != part:
                return False
            at = end
    return at == len(text)


def records(output):
    fields = iter(output.split(b"\0"))
    for verdict in fields:
        if not verdict:
            return
        entries = {}
        while (table := next(fields)) != b"":
            key, kind, text = (next(fields).decode() for _ in range(3))
            entries[(table.decode()[1:-1], key)] = (kind, text[1:])
        yield verdict, entries


def main():
    rng = random.Random(1)
    files = VALID + [changed(rng) for _ in range(6000)]
    accepted = faults = 0
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"{i}.toml") for i in range(len(files))]
        for path, data in zip(paths, files):
            with open(path, "wb") as out:
                out.write(data)
        run = subprocess.run([sys.argv[1], "read"] + paths, stdout=subprocess.PIPE, check=True)
    found = list(records(run.stdout))
    assert len(found) == len(files), f"{len(found)} records of {len(files)} files"
    for i, (data, (verdict, ours)) in enumerate(zip(files, found)):
        if verdict != b"read":
            if i < len(VALID):
                faults += 1
                print("refused:", data)
            continue
        accepted += 1
        try:
            theirs = flat(tomllib.loads(data.decode()))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            faults += 1
            print("tomllib refuses:", data, error)
            continue
        if ours.keys() != theirs.keys() or not all(same(ours[k], theirs[k]) for k in ours):
            faults += 1
            print("differs:", data, ours, theirs)
    print(f"{len(files)} files, {accepted} accepted, {faults} faults")
    return 1 if faults or accepted < 500 else 0


if __name__ == "__main__":
    sys.exit(main())
