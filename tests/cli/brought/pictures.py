"""Makes the pictures that people bring.

pictures.py FOLDER: two classes, "red" and "blue", of PNG pictures, and FOLDER/test/black.ppm.

pictures.py FOLDER ORIENTATION: two classes whose pictures note this orientation (EXIF), and for predictions
plain.png, the same as noted.png, which notes the orientation, and by-hand.png, which is turned by it (6: by 90
degrees to the right).

pictures.py broken CORPUS FOLDER: breaks the pictures of each format of the fuzzers' corpus in different ways,
and prints how many files it has made.  A file that is cut off, or has other first bytes, must be refused; others
may happen to be pictures.
"""

import os
import struct
import sys
import zlib

SIDE = 8


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_png(path, rows, orientation=0):
    """rows: lists of (red, green, blue)"""
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    exif = struct.pack(">2sHIHHHIHHI", b"MM", 42, 8, 1, 0x112, 3, 1, orientation, 0, 0)
    data = zlib.compress(b"".join(b"\0" + b"".join(map(bytes, row)) for row in rows))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header))
        file.write(chunk(b"eXIf", exif) if orientation else b"")
        file.write(chunk(b"IDAT", data) + chunk(b"IEND", b""))


def make_classes(folder):
    for part, n in ("train", 6), ("test", 2):
        for colour, name in ((255, 0, 0), "red"), ((0, 0, 255), "blue"):
            for i in range(n):
                faded = tuple(v * (20 - i) // 20 for v in colour)
                write_png(f"{folder}/{part}/{name}/{i}.png", [[faded] * SIDE] * SIDE)
    with open(f"{folder}/test/black.ppm", "wb") as file:
        file.write(b"P6 8 8 255\n" + bytes(192))


def make_turned(folder, orientation):
    for part in "train", "test":
        for c, name in enumerate(("one", "two")):
            for i in range(4):
                row = [(200 + i, 0, 0) if (x < SIDE // 2) != (c == 1) else (0, 0, 200) for x in range(SIDE)]
                write_png(f"{folder}/{part}/{name}/{i}.png", [row] * SIDE, orientation)
    rows = [[(30 * x, 20 * y, 90) for x in range(SIDE)] for y in range(SIDE)]
    write_png(f"{folder}/plain.png", rows)
    write_png(f"{folder}/noted.png", rows, orientation)
    write_png(f"{folder}/by-hand.png", [[rows[SIDE - 1 - x][y] for x in range(SIDE)] for y in range(SIDE)])


def breaks(data):
    """Ways to break a file: cut off, absurd sizes, other first bytes, holes."""
    for tenth in range(10):
        yield f"cut-{tenth}", data[: len(data) * tenth // 10]
    for i, place in enumerate(range(min(len(data), 64) - 4)):
        yield f"huge-{i}", data[:place] + b"\xff\xff\xff\x7f" + data[place + 4 :]
    yield "magic", bytes(b ^ 0x20 for b in data[:4]) + data[4:]
    yield "text", b"a text, and no picture\n"
    yield "empty", b""
    yield "zeros", data[: len(data) // 2] + bytes(len(data) - len(data) // 2)
    yield "twice-cut", data[: len(data) // 4] + data[len(data) * 3 // 4 :]


def make_broken(corpus, folder):
    files = {"bmp": "colour.bmp", "gif": "still.gif", "tiff": "lzw.tif", "pnm": "text.ppm", "webp": "lossy.webp",
             "png": "colour.png", "jpeg": "colour.jpg"}  # fmt: skip
    n = 0
    for kind, name in files.items():
        with open(os.path.join(corpus, kind, name), "rb") as file:
            data = file.read()
        end = name.rpartition(".")[2]
        for way, broken in breaks(data):
            with open(os.path.join(folder, f"{kind}-{way}.{end}"), "wb") as file:
                file.write(broken)
            n += 1
    print(n)


if sys.argv[1] == "broken":
    make_broken(*sys.argv[2:])
elif len(sys.argv) > 2:
    make_turned(sys.argv[1], int(sys.argv[2]))
else:
    make_classes(sys.argv[1])
