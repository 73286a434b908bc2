#!/usr/bin/env python3
"""Checks the documents and the public headers.

    check_docs.py links       no dead link and no dead anchor in README.md, CONTRIBUTING.md, docs/,
                              bench/ and examples/
    check_docs.py headers     every function of the public headers has a comment that names its errors
    check_docs.py self-test   plants one fault of each kind and fails unless each is found

Every fault is one line, FILE:LINE: what is wrong.  The exit status is 0 if there is none, else 1.
Links to other hosts are not followed.
"""

import glob
import os
import re
import sys
from urllib.parse import unquote

from checking import check_planted, read, run

HEADERS = ["core/dptrain/*.h", "core/dptrain.h", "models/dptrain_models.h", "core/dpt_error.h", "core/backend/abi.h",
           "core/backend/helpers.h", "core/backend/operators.h"]


# ---- Links ----


def documents(root):
    """The Markdown files whose links are checked."""
    found = [name for name in ("README.md", "CONTRIBUTING.md") if os.path.exists(os.path.join(root, name))]
    for top in ("docs", "bench", "examples"):
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders.sort()
            found += [os.path.relpath(os.path.join(folder, n), root) for n in sorted(names) if n.endswith(".md")]
    return found


def prose_lines(text):
    """Line number and text of every line outside fenced and indented code."""
    fence, blank = None, True
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r" {0,3}(```+|~~~+)", line)
        if mark:
            if fence is None:
                fence = mark[1][:3]
            elif fence == mark[1][:3]:
                fence = None
            blank = False
            continue
        code = fence is not None or (blank and re.match(r" {4,}(?![-*\d])\S", line))
        if not code:
            yield number, line
            blank = not line.strip()


def anchors(text):
    """The anchors of a document: its headings as GitHub names them, and explicit ids."""
    found, seen = set(), {}
    for _, line in prose_lines(text):
        found.update(re.findall(r"""<[^>]*\b(?:id|name)=["']([^"']+)["']""", line))
        heading = re.match(r" {0,3}#{1,6}\s+(.*?)\s*#*\s*$", line)
        if heading:
            title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            n = seen.get(slug, 0)
            seen[slug] = n + 1
            found.add(f"{slug}-{n}" if n else slug)
    return found


LINK = re.compile(r"""\]\(\s*<?([^)\s>]+)>?(?:\s+["'][^)]*)?\s*\)|<[^>]*\b(?:href|src)=["']([^"']+)["']|^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?\s*$""")


def check_links(root):
    faults, n_links, known = [], 0, {}
    for name in documents(root):
        for number, line in prose_lines(read(os.path.join(root, name))):
            line = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", line)
            for match in LINK.finditer(line):
                link = match[1] or match[2] or match[3]
                if re.match(r"[a-z][a-z0-9+.-]*:", link):
                    continue
                n_links += 1
                path, _, anchor = link.partition("#")
                target = os.path.join(root, os.path.dirname(name), unquote(path)) if path else os.path.join(root, name)
                target = os.path.normpath(target)
                if os.path.relpath(target, root).startswith(".."):
                    faults.append(f"{name}:{number}: {link} leads out of the project")
                elif not os.path.exists(target):
                    faults.append(f"{name}:{number}: {link}: no such file")
                elif anchor and target.endswith(".md"):
                    if target not in known:
                        known[target] = anchors(read(target))
                    if unquote(anchor) not in known[target]:
                        faults.append(f"{name}:{number}: {link}: no such heading")
    return faults, f"{n_links} links"


# ---- Headers ----

DECLARATION = re.compile(r"^[A-Za-z_][\w\s*()]*?\b(dpt\w*)\s*\(", re.S)
ERRORS = re.compile(r"DPT_E_\w+|\bnever\s+fails?\b|\bcannot\s+fail\b|\breturns?\s+NULL\b|\bNULL\s+without\b|\bno\s+errors?\b", re.I)


def declarations(text):
    """Name, line and comment of every function declared at file scope.  Declarations without an
    empty line between them share the comment above the first."""
    lines, comment, depth, i = text.splitlines(), "", 0, 0
    while i < len(lines):
        line = lines[i].strip()
        if not line:
            comment = ""
        elif line.startswith("/*"):
            start = i
            while "*/" not in lines[i] and i + 1 < len(lines):
                i += 1
            comment = " ".join(lines[start : i + 1])
        elif line.startswith("#"):
            while lines[i].endswith("\\") and i + 1 < len(lines):
                i += 1
        else:
            start, statement = i, line
            while not re.search(r"[;{}]", lines[i]) and i + 1 < len(lines):
                i += 1
                statement += " " + lines[i].strip()
            match = DECLARATION.match(statement)
            inside = depth
            if not re.match(r'extern\s+"C"', statement):
                depth = max(0, depth + statement.count("{") - statement.count("}"))
            if match and not inside and not re.match(r"typedef|struct .*\{|enum|return", statement):
                yield match[1], start + 1, comment
        i += 1


def check_headers(root):
    faults, n = [], 0
    names = [name for pattern in HEADERS for name in sorted(glob.glob(pattern, root_dir=root))]
    for name in names:
        for function, line, comment in declarations(read(os.path.join(root, name))):
            n += 1
            if not comment:
                faults.append(f"{name}:{line}: {function} has no comment directly above it")
            elif not ERRORS.search(comment):
                faults.append(f"{name}:{line}: the comment of {function} names no error and does not say that it never fails")
    return faults, f"{n} functions"


# ---- Self-test ----


def self_test(_):
    files = {
        "README.md": "# Title\n\n[a](docs/a.md#one-two) [b](docs/b.md)\n\n    [code](nowhere.md)\n",
        "docs/a.md": "# One, two\n\n[up](../README.md#title) [bad](../README.md#none) `[x](no.md)`\n<img src=\"no.svg\">\n",
        "core/dptrain/a.h": "/* Opens. DPT_E_IO if it cannot. */\ndpt_status dpt_good(int a,\n                    int b);\n"
        "void dpt_group(void);\n\nvoid dpt_bare(void);\n\n/* Closes. */\nvoid dpt_silent(void);\n",
    }
    expected = [
        "README.md:3: docs/b.md: no such file",
        "docs/a.md:3: ../README.md#none: no such heading",
        "docs/a.md:4: no.svg: no such file",
        "core/dptrain/a.h:6: dpt_bare has no comment directly above it",
        "core/dptrain/a.h:9: the comment of dpt_silent names no error and does not say that it never fails",
    ]
    return check_planted(files, expected, check_links, check_headers)


if __name__ == "__main__":
    sys.exit(run(__doc__, {"links": check_links, "headers": check_headers, "self-test": self_test}))
