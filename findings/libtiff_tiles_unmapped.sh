#!/usr/bin/env bash
# libtiff 4.7.2: its RGBA interface refuses uncompressed tiles that it reads by itself, unless the file is mapped.
#
# TIFFReadRGBAImage compares the bytes of a tile with the size of libtiff's own buffer, which is rounded up to a multiple
# of 1024 where the file is not mapped into memory (mode "rm", or a client without a mapping function). A tile of 16x16
# pixels of three bytes has 768. The file is valid, its byte counts are right, and TIFFReadEncodedTile reads the tiles in
# both modes. Tiles of 32x32 pixels have 3072 bytes and are read. A program that gives libtiff functions to read from a
# stream or from memory, but none that maps it, cannot read such files.
#
# Guess before the run: a mode that turns mapping off changes nothing but the speed.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64; libtiff 4.7.2 of the wheel pillow 13.0.0):
#     tiles of 16x16, mode r: RGBA read, tile of 768 bytes read
#     tiles of 16x16, mode rm: RGBA refused, tile of 768 bytes read
#     tiles of 32x32, mode r: RGBA read, tile of 3072 bytes read
#     tiles of 32x32, mode rm: RGBA read, tile of 3072 bytes read
#
# What it means for dptrain: dptrain reads TIFF from memory, and gives libtiff a function that maps this memory.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet pillow==13.0.0 tifffile==2026.3.3 numpy==2.4.6 || exit 2
"$folder/venv/bin/python" - "$folder" 2>/dev/null <<'PYTHON'
import ctypes
import glob
import os
import sys
import numpy as np
import PIL
import tifffile

(name,) = glob.glob(os.path.join(os.path.dirname(os.path.dirname(PIL.__file__)), "pillow.libs", "libtiff-*"))
tiff = ctypes.CDLL(name)
tiff.TIFFOpen.restype = ctypes.c_void_p
tiff.TIFFOpen.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
tiff.TIFFReadRGBAImage.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int]
tiff.TIFFReadEncodedTile.restype = ctypes.c_ssize_t
tiff.TIFFReadEncodedTile.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_ssize_t]
tiff.TIFFClose.argtypes = [ctypes.c_void_p]
pixels = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
seen = []
for side in (16, 32):
    path = os.path.join(sys.argv[1], f"{side}.tif")
    tifffile.imwrite(path, pixels, tile=(side, side), photometric="rgb")
    for mode in ("r", "rm"):
        file = tiff.TIFFOpen(path.encode(), mode.encode())
        raster, tile = (ctypes.c_uint32 * (48 * 64))(), (ctypes.c_uint8 * (side * side * 3))()
        read = tiff.TIFFReadRGBAImage(file, 64, 48, raster, 1) == 1
        n = tiff.TIFFReadEncodedTile(file, 0, tile, len(tile))
        same = bytes(tile) == pixels[:side, :side].tobytes()
        tiff.TIFFClose(file)
        print(f"tiles of {side}x{side}, mode {mode}: RGBA {'read' if read else 'refused'}, "
              f"tile of {n} bytes {'read' if same else 'wrong'}")
        seen.append((read, n, same))
sys.exit(seen != [(True, 768, True), (False, 768, True), (True, 3072, True), (True, 3072, True)])
PYTHON
