#!/usr/bin/env bash
# The last bits of cos, sin, log, exp and other functions of glibc 2.36 depend on the processor, not only on the library.
#
# glibc's C library has its double-precision functions twice: for processors with fused multiply-adds and for others.
# It takes one of the two when a program starts.  The two round differently in some results.  The functions are within
# their documented errors either way, and single-precision functions such as logf agreed in a separate try.  The
# variant for other processors can be had on any processor by GLIBC_TUNABLES.
#
# Guess before the run: one library gives the same results on every x86-64 processor.
#
# Output seen (2026-11-29, Debian 12, libc6 2.36-9+deb12u14, AMD EPYC with FMA and AVX2), of 200000 arguments each:
#     cos: 0.079 % of the results differ, by at most 2.2e-16 of their value
#     sin: 0.0715 % of the results differ, by at most 2.2e-16 of their value
#     log: 0.0105 % of the results differ, by at most 2.1e-16 of their value
#     exp: 0.066 % of the results differ, by at most 2.2e-16 of their value
#     tanh: 0.033 % of the results differ, by at most 4.2e-16 of their value
#
# What it means for dptrain: normally distributed initial weights and the cosine schedule are computed in double
# precision by these functions and rounded to float32, which hides almost all of the difference.  For the same bits on
# two machines weights come from a file, and deterministic operators use functions of our own (docs/reproducibility.md).
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the package cannot be had, or the processor
# has no fused multiply-adds.
set -euo pipefail
grep -qw fma /proc/cpuinfo || { echo "this processor has no fused multiply-adds"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
(cd "$folder" && apt-get download libc6=2.36-9+deb12u14 >/dev/null 2>&1) || exit 2
dpkg-deb -x "$folder"/libc6_*.deb "$folder/glibc" || exit 2
libraries=$folder/glibc/lib/x86_64-linux-gnu
cat >"$folder/compute.py" <<'PYTHON'
import math
import random
import struct
import sys

numbers = random.Random(1)
for name, low, high in ("cos", 0, 6.3), ("sin", 0, 6.3), ("log", 0.001, 1), ("exp", -5, 5), ("tanh", -3, 3):
    arguments = [numbers.uniform(low, high) for _ in range(200000)]
    sys.stdout.buffer.write(struct.pack("<200000d", *map(getattr(math, name), arguments)))
PYTHON
compute() {
    "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries:/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu" \
        "$(python3 -c "import sys; print(sys.executable)")" -I "$folder/compute.py"
}
compute >"$folder/as_it_is"
GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2,-FMA_Usable,-FMA4_Usable,-AVX2_Usable compute >"$folder/without"
python3 - "$folder" <<'PYTHON'
import struct
import sys

COUNT = 200000
both = [open(f"{sys.argv[1]}/{name}", "rb").read() for name in ("as_it_is", "without")]
least = 1
for i, name in enumerate(("cos", "sin", "log", "exp", "tanh")):
    a, b = (struct.unpack_from(f"<{COUNT}d", data, 8 * COUNT * i) for data in both)
    differ = sum(x != y for x, y in zip(a, b)) / COUNT
    worst = max(abs(x - y) / max(abs(x), 1e-300) for x, y in zip(a, b))
    print(f"{name}: {100 * differ:.3g} % of the results differ, by at most {worst:.2g} of their value")
    least = min(least, differ)
sys.exit(0 if least > 0 else 1)
PYTHON
