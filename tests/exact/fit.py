#!/usr/bin/env python3
"""Prints the coefficients of backends/kernels/exact.h, constant first, and the error of each polynomial.

    fit.py > coefficients.txt

Needs mpmath (PyPI).  It takes about half a minute.  A polynomial has the smallest weighted sum of squared errors at 200
Chebyshev points.  The weight makes the error relative to the function's result.  The weights are then changed in turns,
so that the largest error becomes small (Lawson's method).  Coefficients are rounded to float32 one after the other, the
constant first.  After each rounding the remaining coefficients are computed anew.  A coefficient with a low part is the
sum of two float32.
"""

from mpmath import mp, mpf

mp.dps = 50
POINTS, TURNS = 200, 25


def rounded(x):
    """x, rounded to float32."""
    mantissa, exponent = mp.frexp(x)
    return mp.ldexp(mp.nint(mp.ldexp(mantissa, 24)), exponent - 24)


def text(x):
    return f"{float(x):.9g}"


class Fit:
    """The error of a polynomial at the points: values - sum of coefficients times powers."""

    def __init__(self, function, weight, low, high):
        middle, radius = (mpf(low) + high) / 2, (mpf(high) - low) / 2
        self.points = [middle + radius * mp.cos(mp.pi * (2 * i + 1) / (2 * POINTS)) for i in range(POINTS)]
        self.values = [function(x) for x in self.points]
        self.weights = [weight(x) for x in self.points]
        self.squares = [w * w for w in self.weights]

    def solve(self, first, n):
        """The best coefficients of x^first and of the n - 1 powers above."""
        a, b = mp.matrix(n, n), mp.matrix(n, 1)
        rows = [[x ** (first + k) for k in range(n)] for x in self.points]
        for i in range(n):
            for k in range(i, n):
                a[i, k] = a[k, i] = mp.fsum(s * r[i] * r[k] for r, s in zip(rows, self.squares))
            b[i] = mp.fsum(s * r[i] * y for r, s, y in zip(rows, self.squares, self.values))
        return list(mp.lu_solve(a, b))

    def subtract(self, coefficient, power):
        self.values = [y - coefficient * x ** power for x, y in zip(self.points, self.values)]

    def errors(self, coefficients=(), first=0):
        return [abs(w * (y - mp.fsum(c * x ** (first + k) for k, c in enumerate(coefficients))))
                for x, y, w in zip(self.points, self.values, self.weights)]

    def level(self, first, n):
        """Gives more weight to points with large errors."""
        for _ in range(TURNS):
            errors = self.errors(self.solve(first, n), first)
            mean = mp.fsum(errors) / POINTS
            self.squares = [s * (mpf("0.02") + e / mean) for s, e in zip(self.squares, errors)]
            total = mp.fsum(self.squares)
            self.squares = [s / total for s in self.squares]


def show(name, fit, degree, pairs=0, fixed=()):
    """fixed: the first coefficients, where they are given.  pairs: how many have a low part."""
    for power, coefficient in enumerate(fixed):
        fit.subtract(coefficient, power)
    first, words = len(fixed), [text(c) for c in fixed]
    fit.level(first, degree + 1 - first)
    for power in range(first, degree + 1):
        best = fit.solve(power, degree + 1 - power)[0]
        high = rounded(best)
        low = rounded(best - high) if power < pairs else mpf(0)
        fit.subtract(high + low, power)
        words.append(f"({text(high)}, {text(low)})" if power < pairs else text(high))
    print(f"{name}: error 2^{float(mp.log(max(fit.errors()), 2)):.1f}")
    for word in words:
        print("   ", word)


def main():
    root, log2 = mp.sqrt, mp.log(2)
    r = log2 / 2 * mpf("1.001")
    show("exp: (exp(r) - 1 - r) / r^2", Fit(lambda r: (mp.exp(r) - 1 - r) / r ** 2, lambda r: r ** 2 / mp.exp(r), -r, r), 5,
         fixed=(mpf("0.5"),))
    show("log: 2 (log(1 + f) - f + f^2 / 2) / f^3",
         Fit(lambda f: 2 * (mp.log1p(f) - f + f * f / 2) / f ** 3, lambda f: f ** 3 / 2 / mp.log1p(f),
             root(mpf(1) / 2) - 1, root(2) - 1), 9)
    show("softplus: (atanh(s) / s - 1) / s^2, in s^2",
         Fit(lambda z: (mp.atanh(root(z)) / root(z) - 1) / z, lambda z: z, 0, mpf(1) / 9), 4)
    show("tanh: (tanh(x) / x - 1) / x^2, in x^2",
         Fit(lambda z: (mp.tanh(root(z)) / root(z) - 1) / z, lambda z: z, 0, mpf(1) / 4), 4)
    show("erf near 0: erf(x) / x - 1, in x^2", Fit(lambda z: mp.erf(root(z)) / root(z) - 1, lambda z: 1, 0, mpf(9) / 16), 5)
    show("erf: -log(erfc(a)) / a", Fit(lambda a: -mp.log(mp.erfc(a)) / a, lambda a: a * mp.erfc(a) / mp.erf(a), mpf(3) / 4, 4),
         7, pairs=1)
    z = (mp.pi / 4) ** 2 * mpf("1.001")
    show("sin: (sin(r) / r - 1) / r^2, in r^2", Fit(lambda z: (mp.sin(root(z)) / root(z) - 1) / z, lambda z: z, 0, z), 3)
    show("cos: (cos(r) - 1 + r^2 / 2) / r^4, in r^2",
         Fit(lambda z: (mp.cos(root(z)) - 1 + z / 2) / z ** 2, lambda z: z ** 2, 0, z), 2)
    logarithm = lambda z: 2 * mp.atanh(root(z)) / root(z) / log2
    show("log2: log2(m) / s, in s^2 = ((m - 1) / (m + 1))^2",
         Fit(logarithm, lambda z: 1 / logarithm(z), 0, ((root(2) - 1) / (root(2) + 1)) ** 2), 5, pairs=2)
    start, k = mpf("0.875"), 1
    show("normal near 0: (normal(x) - 1/2) / x, in x^2",
         Fit(lambda z: mp.erf(root(z / 2)) / root(z) / 2, lambda z: root(z) / (mp.erfc(root(z / 2)) / 2), 0, start ** 2), 5,
         pairs=1)
    low, high = 1 / (mpf("14.3") + k), 1 / (start + k)
    centre = rounded(mp.nint((low + high) / 2 * 64) / 64)

    def tail(v):
        a = 1 / (v + centre) - k
        return mp.erfc(a / root(2)) / 2 * mp.exp(a * a / 2) * (a + k)

    show(f"normal: normal(-a) exp(a^2 / 2) (a + 1), in 1 / (a + 1) - {text(centre)}",
         Fit(tail, lambda v: 1 / tail(v), low - centre, high - centre), 11, pairs=1)


if __name__ == "__main__":
    main()
