#!/usr/bin/env bash
# torch 2.15.0: among equal scores topk(1) and argmax choose different classes, so two ways to count top-1 differ.
#
# argmax, max(dim) and a descending sort take the first of equal scores.  topk takes another one: the index depends on
# how many elements there are and how many are asked for.  Scores in bfloat16 have eight bits, so that ties between
# the best two classes are common.  A program that takes the accuracy of topk(5) with its first column as top-1, as many
# do, counts other hits than one that takes argmax.
#
# Guess before the run: the first of the equal scores in all four, at least on a CPU.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     scores 1 3 3 3: argmax 1, max 1, sort 1, topk 2
#     10 equal scores: argmax 0, sort 0 1 2 3 4, topk 8 6 7 5 9
#     10000 rows of 1000 scores in bfloat16: 242 have ties for the best; argmax and topk(5) differ in 109 of these
#
# What it means for dptrain: an accuracy counts the samples whose label is the first class with the largest score, as
# argmax does.
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

few = torch.tensor([1.0, 3.0, 3.0, 3.0])
first = [
    few.argmax().item(),
    few.max(0).indices.item(),
    few.sort(descending=True).indices[0].item(),
    few.topk(1).indices.item(),
]
print("scores 1 3 3 3: argmax {}, max {}, sort {}, topk {}".format(*first))
equal = torch.zeros(10)
order = equal.sort(descending=True, stable=True).indices[:5].tolist()
top = equal.topk(5).indices.tolist()
print(f"10 equal scores: argmax {equal.argmax().item()}, sort", *order, end=", topk ")
print(*top)
torch.manual_seed(0)
scores = torch.randn(10000, 1000).bfloat16()
best = scores.max(1, keepdim=True).values
tied = (scores == best).sum(1) > 1
differ = scores.argmax(1) != scores.topk(5).indices[:, 0]
some = bool(differ.any()) and not bool((differ & ~tied).any())
print(
    f"10000 rows of 1000 scores in bfloat16: {tied.sum().item()} have ties for the best; "
    f"argmax and topk(5) differ in {differ.sum().item()} of these"
)
sys.exit(0 if first == [1, 1, 1, 2] and order == [0, 1, 2, 3, 4] and top != order and some else 1)
PYTHON
