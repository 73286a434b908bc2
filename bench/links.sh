#!/usr/bin/env bash
# Makes a folder of a million links to pictures, in 1000 classes, and prints how long a training takes from its start to
# the end of its first step and of an evaluation of 1000 pictures, and how much memory it needs. The second run has
# the folder in the system's caches. As root the first one has not, because the script empties them.
#
#     bench/links.sh [CLASSES [LINKS]]      1000 classes of 1000 links each
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DPTRAIN=${DPTRAIN:-$root/build/bin/dptrain}
[ -x "$DPTRAIN" ] || { echo "bench: no dptrain at $DPTRAIN; build it (scripts/quickstart.sh) or set DPTRAIN" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 - "$folder" "${1:-1000}" "${2:-1000}" <<'PYTHON'
import os
import sys

folder, classes, links = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for i in range(8):
    with open(f"{folder}/{i}.ppm", "wb") as file:
        file.write(b"P6 64 64 255\n" + bytes([i * 30]) * (64 * 64 * 3))
for c in range(classes):
    for part, n in ("train", links), ("test", 1):
        os.makedirs(f"{folder}/{part}/class{c:05d}")
        for i in range(n):
            os.symlink(f"../../{i % 8}.ppm", f"{folder}/{part}/class{c:05d}/{i:07d}.ppm")
PYTHON
sync
for run in first second; do
    [ $run = second ] || [ "$(id -u)" -ne 0 ] || echo 3 >/proc/sys/vm/drop_caches
    python3 - "$run" "$DPTRAIN" --quiet --recipe none --model linear --dataset folder:8x8:stream --data "$folder" \
        --batch-size 64 --max-steps 1 --devices cpu <<'PYTHON'
import resource
import subprocess
import sys
import time

start = time.monotonic()
subprocess.run(sys.argv[2:], check=True)
seconds = time.monotonic() - start
print(f"{sys.argv[1]} run: {seconds:.1f} s, {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000:.0f} MB")
PYTHON
done
