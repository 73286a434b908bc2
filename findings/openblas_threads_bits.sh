#!/usr/bin/env bash
# OpenBLAS 0.3.34: a matrix product on two threads has other bits than on one, and a row of it other bits by itself.
#
# Two calls with the same threads have the same bits. With two threads most results of a product of 200x500 by 500x300
# differ in their last bits: work is cut along the inner axis otherwise. The first row of a product of 64 rows differs
# from the product of that row alone, and of two rows, which go through other kernels. So the prediction of one sample
# depends on the batch that it is in. MKL 2026.2.0 had the same bits with one thread and two, in a separate try, and
# not for one row. The variable OPENBLAS_CORETYPE makes all processors with AVX2 take the same kernels here.
#
# Guess before the run: threads divide rows and columns, so that bits do not depend on them; of the rows, a difference.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     kernels: Haswell
#     200x500 by 500x300: 0.0 % of the results differ between two calls, 78.4 % between one thread and two
#     first row of 64 rows by 784x128, one thread: 11.7 % differ in a product of 1; 11.7 % differ in a product of 2; 0.0 % differ in a product of 16; 0.0 % differ in a product of 32
#
# What it means for dptrain: `--deterministic` uses no BLAS (docs/reproducibility.md).
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed, or
# the processor has no AVX2.
set -euo pipefail
grep -qw avx2 /proc/cpuinfo || { echo "this processor has no AVX2"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet scipy-openblas32==0.3.34.481.3 numpy==2.4.6 || exit 2
OPENBLAS_CORETYPE=Haswell "$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import ctypes
import sys
import numpy as np
import scipy_openblas32 as openblas

library = ctypes.CDLL(f"{openblas.get_lib_dir()}/{openblas.get_library(fullname=True)}")
sgemm = library.scipy_cblas_sgemm
integer, real = ctypes.c_int, ctypes.c_float
ROW_MAJOR, PLAIN = 101, 111


def product(a, b, threads):
    library.scipy_openblas_set_num_threads(threads)
    (m, k), n = a.shape, b.shape[1]
    c = np.zeros((m, n), np.float32)
    sgemm(integer(ROW_MAJOR), integer(PLAIN), integer(PLAIN), integer(m), integer(n), integer(k), real(1),
          ctypes.c_void_p(a.ctypes.data), integer(k), ctypes.c_void_p(b.ctypes.data), integer(n), real(0),
          ctypes.c_void_p(c.ctypes.data), integer(n))
    return c


def share(a, b):
    return round(100 * float(np.mean(a != b)), 1)


library.scipy_openblas_get_corename.restype = ctypes.c_char_p
print("kernels:", library.scipy_openblas_get_corename().decode())
numbers = np.random.default_rng(0)
a, b = (numbers.standard_normal(s).astype(np.float32) for s in ((200, 500), (500, 300)))
one, again, two = product(a, b, 1), product(a, b, 1), product(a, b, 2)
print(f"200x500 by 500x300: {share(one, again)} % of the results differ between two calls,"
      f" {share(one, two)} % between one thread and two")
a, b = (numbers.standard_normal(s).astype(np.float32) for s in ((64, 784), (784, 128)))
many = product(a, b, 1)
rows = {n: share(product(np.ascontiguousarray(a[:n]), b, 1)[0], many[0]) for n in (1, 2, 16, 32)}
print("first row of 64 rows by 784x128, one thread:",
      "; ".join(f"{value} % differ in a product of {n}" for n, value in rows.items()))
sys.exit(not (share(one, again) == 0 and share(one, two) > 0 and rows[1] > 0))
PYTHON
