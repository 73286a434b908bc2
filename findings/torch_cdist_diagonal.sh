#!/usr/bin/env bash
# torch 2.15.0: cdist(x, x) of 26 points is not 0 on its diagonal, and of 25 points it is.
#
# With more than 25 rows cdist computes |a|^2 + |b|^2 - 2ab by a matrix product by default (compute_mode). The
# difference of large sums leaves their rounding: around 100 the distance of a point to itself is 0.18. So nearest
# neighbours, and losses over pairs, change when a batch grows from 25 to 26 points.
#
# Guess before the run: 0 for any number of points.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     25 points around 0: distance of a point to itself up to 0, without a matrix product 0
#     26 points around 0: distance of a point to itself up to 0.0014, without a matrix product 0
#     25 points around 100: distance of a point to itself up to 0, without a matrix product 0
#     26 points around 100: distance of a point to itself up to 0.18, without a matrix product 0
#
# What it means for dptrain: expected values for losses over pairs are computed without a matrix product, or in
# float64.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet torch==2.15.0 || exit 2
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import sys
import torch

torch.manual_seed(0)
seen = {}
for offset in (0.0, 100.0):
    for rows in (25, 26):
        x = torch.randn(rows, 8) + offset
        plain = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").diag().max().item()
        seen[offset, rows] = torch.cdist(x, x).diag().max().item(), plain
        print(f"{rows} points around {offset:g}: distance of a point to itself up to"
              f" {seen[offset, rows][0]:.2g}, without a matrix product {plain:g}")
sys.exit(not (seen[0.0, 25][0] == seen[100.0, 25][0] == 0 and seen[100.0, 26][0] > 0.05
              and all(plain == 0 for _, plain in seen.values())))
PYTHON
