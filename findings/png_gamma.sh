#!/usr/bin/env bash
# A PNG file with gAMA has the numbers of the file in Pillow, OpenCV and imageio, and other numbers in libpng's
# simplified interface.
#
# The chunk gAMA says how numbers of the file relate to light. png_image_finish_read of libpng 1.6.39 converts to sRGB
# by it: 64 with a gAMA of 1 becomes 136. Pillow 13.0.0, OpenCV 5.0.0 and imageio 2.38.1 decode with libpng's other
# interface, or with code of their own, and leave the numbers alone. With a chunk sRGB beside gAMA all four agree.
#
# Guess before the run: dptrain, which used libpng's simplified interface, differs from Pillow. It did, and so did no
# other library.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64, libpng16-16 1.6.39-2+deb12u6 of Debian 12):
#     a pixel of 64 with gAMA 1.0: Pillow 64, OpenCV 64, imageio 64, libpng's simplified interface 136
#
# What it means for dptrain: dptrain decodes with the simplified interface, and leaves gAMA and other meanings of
# colours out before (docs/data.md).
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet pillow==13.0.0 opencv-python-headless==5.0.0.93 imageio==2.38.1 numpy==2.4.6 || exit 2
(cd "$folder" && apt-get download libpng16-16 >/dev/null 2>&1) || exit 2
dpkg-deb -x "$folder"/libpng16-16_*.deb "$folder/libpng" || exit 2
libpng=$(find "$folder/libpng" -name 'libpng16.so.16' | head -n 1)
"$folder/venv/bin/python" - "$libpng" 2>/dev/null <<'PYTHON'
import ctypes
import io
import sys
import cv2
import imageio.v3 as imageio
import numpy as np
from PIL import Image, PngImagePlugin

chunk = PngImagePlugin.PngInfo()
chunk.add(b"gAMA", (100000).to_bytes(4, "big"))
file = io.BytesIO()
Image.fromarray(np.full((2, 2, 3), 64, np.uint8)).save(file, "PNG", pnginfo=chunk)
data = file.getvalue()


class PngImage(ctypes.Structure):  # png_image of png.h
    _fields_ = [("opaque", ctypes.c_void_p), ("version", ctypes.c_uint32), ("width", ctypes.c_uint32),
                ("height", ctypes.c_uint32), ("format", ctypes.c_uint32), ("flags", ctypes.c_uint32),
                ("colormap_entries", ctypes.c_uint32), ("warning_or_error", ctypes.c_uint32),
                ("message", ctypes.c_char * 64)]


def by_libpng(name):
    library = ctypes.CDLL(name)
    image = PngImage(version=1)
    pixels = ctypes.create_string_buffer(12)
    assert library.png_image_begin_read_from_memory(ctypes.byref(image), data, ctypes.c_size_t(len(data)))
    assert library.png_image_finish_read(ctypes.byref(image), None, pixels, 0, None)
    return pixels.raw[0]


seen = {
    "Pillow": int(np.asarray(Image.open(io.BytesIO(data)))[0, 0, 0]),
    "OpenCV": int(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)[0, 0, 0]),
    "imageio": int(imageio.imread(data)[0, 0, 0]),
    "libpng's simplified interface": by_libpng(sys.argv[1]),
}
print("a pixel of 64 with gAMA 1.0:", ", ".join(f"{name} {value}" for name, value in seen.items()))
sys.exit(list(seen.values()) != [64, 64, 64, 136])
PYTHON
