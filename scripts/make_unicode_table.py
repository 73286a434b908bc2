#!/usr/bin/env python3
"""Writes core/text/unicode_table.h: the code points that are letters (\\p{L}) and numbers (\\p{N}).

    make_unicode_table.py > core/text/unicode_table.h

The tables are of Unicode 16.0, which the regular expressions of the package tokenizers 0.23 use.  Python
3.14 has this version in its standard library.  With an older Python, install unicodedata2==16.0.0.
"""

import sys

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

WANTED = "16.0.0"


def ranges(category):
    """The ranges of code points whose general category begins with this letter."""
    found = []
    for code in range(0x110000):
        if unicodedata.category(chr(code))[0] != category:
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def table(name, category):
    entries = [f"{{0x{first:04x}, 0x{last:04x}}}," for first, last in ranges(category)]
    print(f"\nstatic const code_range {name}[] = {{")
    for i in range(0, len(entries), 5):
        print("    " + " ".join(entries[i:i + 5]))
    print("};")


def main():
    if unicodedata.unidata_version != WANTED:
        sys.exit(f"this Python knows Unicode {unicodedata.unidata_version}, and the tables are of {WANTED}: "
                 f"install unicodedata2=={WANTED}")
    print("/* Made by scripts/make_unicode_table.py from Unicode " + WANTED + ".  Do not edit. */")
    print("/* clang-format off */")
    table("letters", "L")
    table("numbers", "N")
    print("/* clang-format on */")


main()
