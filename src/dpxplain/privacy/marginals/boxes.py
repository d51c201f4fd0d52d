"""Provable ranges of influences, by interval arithmetic on simultaneous boxes around all released parts.

The boxes contain rows and sums of all groups, with and without every predicate, at once. They give the
interval where the first-order one is not trusted, and bound the effect of the minimum and maximum in the
definition of influence (docs/proofs/marginals.md, sections 4 and 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpxplain.privacy.marginals.estimates import Estimates, FloatArray, Measured
from dpxplain.privacy.normal import normal_quantile

Ends = tuple[FloatArray, FloatArray]


def simultaneous_quantile(confidence: float, number: int) -> float:
    """z such that `number` Gaussians, however correlated, all lie within ±zσ at `confidence` (Šidák).

    >>> round(simultaneous_quantile(0.95, 1), 3), round(simultaneous_quantile(0.95, 103), 3)
    (1.96, 3.482)
    """
    return -normal_quantile(-math.expm1(math.log(confidence) / number) / 2.0)


@dataclass(frozen=True)
class Boxes:
    """Ranges of the parts of all (group, predicate), simultaneous, cut to what bounds and signs allow."""

    n: Ends  # rows of the group, (..., groups, 1)
    a: Ends  # rows with the predicate, (..., groups, predicates)
    c: Ends  # rows without it
    S: Ends | None  # sums over the same
    U: Ends | None
    V: Ends | None
    x: Ends  # Σ w·(sum over p), (..., predicates): what COUNT and SUM lose

    @property
    def smallest(self) -> Ends:
        """m, the rows of the smallest remaining group."""
        return self.c[0].min(axis=-2), self.c[1].min(axis=-2)

    @property
    def largest(self) -> Ends:
        """M, the rows of the largest group."""
        return self.n[0].max(axis=-2), self.n[1].max(axis=-2)


def boxes(e: Estimates, weights: FloatArray, confidence: float) -> Boxes:
    """Gaussian boxes by Šidák's inequality, cut to a + c = n, U + V = S, rows ≥ 0, sums within bounds."""
    kinds = 1 if e.total is None else 2
    number = kinds * e.groups * (2 * e.count.layout.size + 1) + e.count.layout.size
    z = simultaneous_quantile(confidence, number)
    n, a, c = _box(e.count, z)
    n, a, c = ((np.maximum(low, 0.0), np.maximum(high, 0.0)) for low, high in (n, a, c))
    a, c = _meet(a, _minus(n, c)), _meet(c, _minus(n, a))
    removed = e.removed
    x = np.einsum("g,...gp->...p", weights, removed.cell)
    reach = z * math.hypot(*weights) * removed.cell_scale
    around = (x - reach, x + reach)
    if e.total is None:
        return Boxes(n, a, c, None, None, None, _meet(around, _weighted(a, weights)))
    S, U, V = _box(e.total, z)
    value = np.array(e.value_low), np.array(e.value_high)
    S, U, V = _meet(S, _times(n, value)), _meet(U, _times(a, value)), _meet(V, _times(c, value))
    U, V = _meet(U, _minus(S, V)), _meet(V, _minus(S, U))
    return Boxes(n, a, c, S, U, V, _meet(around, _weighted(U, weights)))


def _box(part: Measured, z: float) -> tuple[Ends, Ends, Ends]:
    """Total, with the predicate, without it."""
    total, cell, rest = part.total[..., None], part.cell, part.rest
    total_reach, cell_reach, rest_reach = z * part.total_scale, z * part.cell_scale, z * part.rest_scale
    return (
        (total - total_reach, total + total_reach),
        (cell - cell_reach, cell + cell_reach),
        (rest - rest_reach, rest + rest_reach),
    )


def provable(e: Estimates, weights: FloatArray, box: Boxes, *, fixed: bool = False) -> Ends:
    """The range of every predicate's influence over the boxes (proof, theorem 5).

    `fixed` puts the estimated M in place of the true one, a common factor that no rank depends on.
    """
    m = box.smallest
    if e.kind != "avg":
        if fixed:
            scale = 1.0 / (np.maximum(e.count.total.max(axis=-1), 0.0)[..., None] + 1.0)
            share = m[0] * scale, m[1] * scale
        else:  # m ≤ M, so the share is largest at M = max(its lower end, m)
            share = m[0] / (box.largest[1] + 1.0), m[1] / (np.maximum(box.largest[0], m[1]) + 1.0)
        return _times(box.x, share)
    assert box.S is not None
    assert box.U is not None
    R = e.value_high - e.value_low
    a, c = box.a, box.c
    m = m[0][..., None, :], m[1][..., None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        # m·T = (m/c)·Y with Y = U − a·S/n = (a·c/n)·(mean with p − mean without p): |Y| ≤ R·a·c/(a + c).
        largest = R * np.nan_to_num(a[1] * c[1] / (a[1] + c[1]))
        relative = np.nan_to_num(m[0] / c[1]), np.where(c[0] > 0, np.minimum(m[1] / c[0], 1.0), 1.0)
    mean = _ratio(box.S, box.n, e)
    by_rows = _times(relative, _meet(_minus(box.U, _times(a, mean)), (-largest, largest)))
    by_means = _times(m, _change(e, box))
    return _weighted(_meet(by_rows, by_means), weights)


def _change(e: Estimates, box: Boxes) -> Ends:
    """T, the change of each group's mean: |T| ≤ R·a/n."""
    assert box.S is not None
    assert box.V is not None
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nan_to_num(box.a[1] / (box.a[1] + box.c[0]), nan=1.0)
    largest = (e.value_high - e.value_low) * share
    return _meet(_minus(_ratio(box.S, box.n, e), _ratio(box.V, box.c, e)), (-largest, largest))


def _ratio(total: Ends, count: Ends, e: Estimates) -> Ends:
    """The range of a mean, within the bounds of x; the bounds themselves where the count may be zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.minimum(total[0] / count[0], total[0] / count[1])
        high = np.maximum(total[1] / count[0], total[1] / count[1])
    positive = count[0] > 0.0
    least, most = e.value_low, e.value_high
    low, high = np.clip(low, least, most), np.clip(high, least, most)
    return np.where(positive, low, least), np.where(positive, high, most)


def tie_allowance(e: Estimates, weights: FloatArray, box: Boxes, *, fixed: bool = False) -> Ends:
    """How far the influence may differ from the one that takes m from group h, estimated to remain smallest.

    c_h − δ ≤ m ≤ c_h, where δ = 0 once the boxes of the other groups' remainders lie above that of h.
    For COUNT and SUM it is divided by n_H + 1, at least the lower end of its box plus 1. With `fixed` the
    estimated M takes its place, as in `provable`.
    """
    smallest = e.count.rest.argmin(axis=-2)[..., None, :]
    up = np.take_along_axis(box.c[1], smallest, axis=-2)
    others = np.where(np.arange(e.groups)[:, None] == smallest, np.inf, box.c[0])
    gap = np.maximum(up - others.min(axis=-2, keepdims=True), 0.0)[..., 0, :]
    if e.kind == "avg":
        change = _weighted(_change(e, box), weights)
    else:
        size = e.count.total.max(axis=-1)[..., None] if fixed else _largest_size(e, box)
        most = np.maximum(size, 0.0) + 1.0
        change = box.x[0] / most, box.x[1] / most
    return _times((-gap, np.zeros_like(gap)), change)


def _largest_size(e: Estimates, box: Boxes) -> FloatArray:
    """The lower end of the size of H, the group that is estimated to be largest."""
    return np.take_along_axis(box.n[0][..., 0], e.count.total.argmax(axis=-1)[..., None], axis=-1)


def largest_allowance(e: Estimates, box: Boxes, interval: Ends) -> Ends:
    """COUNT and SUM: widens an interval that took M from the group H of largest estimated size.

    The true factor is smaller by (n_H + 1)/(M + 1) ≥ 1/(1 + δ/(n_H + 1)) with δ ≥ M − n_H.
    """
    largest = e.count.total.argmax(axis=-1)[..., None]
    low = _largest_size(e, box)
    others = np.where(np.arange(e.groups) == largest, -np.inf, box.n[1][..., 0]).max(axis=-1, keepdims=True)
    factor = (low + 1.0) / (np.maximum(others, low) + 1.0)
    return np.minimum(interval[0], interval[0] * factor), np.maximum(interval[1], interval[1] * factor)


def _meet(left: Ends, right: Ends) -> Ends:
    """The intersection of two ranges; `left` where it is empty, which happens only if the boxes failed."""
    low, high = np.maximum(left[0], right[0]), np.minimum(left[1], right[1])
    empty = low > high
    return np.where(empty, left[0], low), np.where(empty, left[1], high)


def _minus(left: Ends, right: Ends) -> Ends:
    return left[0] - right[1], left[1] - right[0]


def _times(left: Ends, right: Ends) -> Ends:
    corners = [p * q for p in left for q in right]
    return np.minimum.reduce(corners), np.maximum.reduce(corners)


def _weighted(ends: Ends, weights: FloatArray) -> Ends:
    """Interval arithmetic: Σ w·[low, high] over the groups."""
    at_low, at_high = weights[:, None] * ends[0], weights[:, None] * ends[1]
    return np.minimum(at_low, at_high).sum(axis=-2), np.maximum(at_low, at_high).sum(axis=-2)
