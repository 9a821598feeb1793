"""Products of features that turn with them: the Clebsch-Gordan coefficients in the real basis of `wigner`.

Two features of degrees a and b have one product of each degree |a - b| <= l <= a + b, up to scale. Of degree 1 with
degree 1 they are the inner product, the cross product and the traceless symmetric part of the outer product.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from eda.lie.wigner import degree_rows, real_from_complex, rows_of


def coupled_degrees(max_degree: int) -> list[tuple[int, int, int]]:
    """Every (a, b, l) with all degrees up to `max_degree` in which a and b have a product of degree l; l rises."""
    degrees = range(max_degree + 1)
    return [(a, b, l) for l in degrees for a in degrees for b in degrees if abs(a - b) <= l <= a + b]


@lru_cache(maxsize=256)
def coupling_table(a: int, b: int, l: int) -> np.ndarray:
    """The product of degrees a and b of degree l, (2l+1, 2a+1, 2b+1): random factors of variance 1 give variance 1."""
    table = np.zeros((2 * l + 1, 2 * a + 1, 2 * b + 1))
    for m in range(-a, a + 1):
        for n in range(max(-b, -l - m), min(b, l - m) + 1):
            table[m + n + l, m + a, n + b] = _clebsch_gordan(a, m, b, n, l, m + n)
    to_real = [real_from_complex(l), real_from_complex(a).conj(), real_from_complex(b).conj()]
    real = np.einsum("km,mnp,in,jp->kij", to_real[0], table, to_real[1], to_real[2])
    # The table is real or, where a + b + l is odd, imaginary: i times a coupling is a coupling.
    return np.ascontiguousarray(real.imag if (a + b + l) % 2 else real.real)


@lru_cache(maxsize=16)
def stacked_couplings(max_degree: int) -> np.ndarray:
    """All tables of `coupled_degrees` under each other, in the rows of stacked features. (K, M, M)."""
    rows, paths = rows_of(max_degree), coupled_degrees(max_degree)
    stacked = np.zeros((sum(2 * l + 1 for _, _, l in paths), rows, rows))
    start = 0
    for a, b, l in paths:
        stacked[start : start + 2 * l + 1, degree_rows(a), degree_rows(b)] = coupling_table(a, b, l)
        start += 2 * l + 1
    return stacked


def _clebsch_gordan(a: int, m: int, b: int, n: int, l: int, k: int) -> float:
    """<a m b n | l k> by Racah's formula, for k = m + n."""
    f = math.factorial
    size = (2 * l + 1) * f(l + a - b) * f(l - a + b) * f(a + b - l) / f(a + b + l + 1)
    size *= f(l + k) * f(l - k) * f(a - m) * f(a + m) * f(b - n) * f(b + n)
    total = 0.0
    for s in range(max(0, b - l - m, a - l + n), min(a + b - l, a - m, b + n) + 1):
        below = f(s) * f(a + b - l - s) * f(a - m - s) * f(b + n - s) * f(l - b + m + s) * f(l - a - n + s)
        total += (-1) ** s / below
    return math.sqrt(size) * total
