#!/usr/bin/env bash
# Pillow 13.0.0 makes a 16-bit grey PNG almost white: convert('RGB') cuts numbers off at 255 instead of scaling them.
#
# A grey PNG of 16 bits has the mode I;16. convert('RGB') and convert('L') keep numbers up to 255 and make all others
# 255. Loaders of pictures call convert('RGB') first, torchvision's ImageFolder among them, and so train on white
# pictures. OpenCV divides by 256 and drops the rest.
#
# Guess (put into words after the first run): numbers are scaled to 8 bits, as OpenCV does.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     numbers of the file: 0 100 255 256 20000 65535
#     Pillow, mode I;16, convert('RGB'): 0 100 255 255 255 255
#     Pillow, convert('L'): 0 100 255 255 255 255
#     OpenCV, IMREAD_COLOR: 0 0 0 1 78 255
#
# What it means for dptrain: 16-bit PNG is scaled to 8 bits, rounded (docs/data.md).
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet pillow==13.0.0 opencv-python-headless==5.0.0.93 numpy==2.4.6 || exit 2
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import io
import sys
import cv2
import numpy as np
from PIL import Image

ramp = np.array([[0, 100, 255, 256, 20000, 65535]], np.uint16)
file = io.BytesIO()
Image.fromarray(ramp).save(file, "PNG")
opened = Image.open(io.BytesIO(file.getvalue()))
colour, grey = np.asarray(opened.convert("RGB"))[0, :, 0].tolist(), np.asarray(opened.convert("L"))[0].tolist()
other = cv2.imdecode(np.frombuffer(file.getvalue(), np.uint8), cv2.IMREAD_COLOR)[0, :, 0].tolist()
print("numbers of the file:", *ramp[0].tolist())
print(f"Pillow, mode {opened.mode}, convert('RGB'):", *colour)
print("Pillow, convert('L'):", *grey)
print("OpenCV, IMREAD_COLOR:", *other)
sys.exit(not (colour == grey == [0, 100, 255, 255, 255, 255] and other[4:] == [78, 255] and other[1] == 0))
PYTHON
