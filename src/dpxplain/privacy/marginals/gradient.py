"""First-order inference: plug-in influences, their gradients, and the exact covariances of their parts.

An interval is the range of the influence within z standard errors of the estimates. Unlike a symmetric
interval it follows the curvature of the influence (docs/proofs/marginals.md, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpxplain.model.arrays import BoolArray
from dpxplain.privacy.marginals.estimates import Estimates, FloatArray, IntArray, Measured

# How much the gradient may turn, in units of the noise, between the estimate and z standard errors away.
STEADY_COSINE = 0.8


@dataclass(frozen=True)
class Parts:
    """Rows n and sum S of each group, rows a and sum U of each predicate in it; or derivatives by them."""

    n: FloatArray  # (..., groups, predicates), or 1 in place of predicates
    a: FloatArray
    S: FloatArray | None = None  # None for COUNT
    U: FloatArray | None = None


@dataclass(frozen=True)
class Slope:
    """Influences at some point and their derivatives there."""

    influence: FloatArray  # (..., predicates)
    by: Parts


def smooth_interval(e: Estimates, weights: FloatArray, z: float) -> tuple[FloatArray, FloatArray, BoolArray]:
    """The least and largest influence within z standard errors of the estimates, and whether it is steady.

    Two gradient steps lead to the extreme point: the first finds the direction, the second corrects it. That
    suffices where the gradient hardly turns in between. Elsewhere the influence is not steady: COUNT of one
    group peaks where half of its rows match, and near the peak the first order is useless.
    """
    start = slope_at(e, weights, estimated(e))
    ends, steady = [], np.asarray(True)
    for step in (-z, z):
        first = slope_at(e, weights, _moved(e, start, step))
        ends.append(slope_at(e, weights, _moved(e, first, step)).influence)
        lengths = np.sqrt(variances(e, start) * variances(e, first))
        steady = steady & (_covariances(e, start, first) >= STEADY_COSINE * lengths)
    return ends[0], ends[1], steady


def estimated(e: Estimates) -> Parts:
    """The estimates as a point."""
    if e.total is None:
        return Parts(e.count.total[..., None], e.count.cell)
    return Parts(e.count.total[..., None], e.count.cell, e.total.total[..., None], e.total.cell)


def _moved(e: Estimates, slope: Slope, step: float) -> Parts:
    """The point `step` standard errors from the estimates in the steepest direction: Σg·step/√(gᵀΣg)."""
    scale = np.sqrt(variances(e, slope))
    pace = step / np.where(scale > 0.0, scale, np.inf)[..., None, :]

    def move(part: Measured, by_total: FloatArray, by_cell: FloatArray) -> tuple[FloatArray, FloatArray]:
        shift = pace * part.total_variance * _load(part, by_total, by_cell)
        own = pace * part.own_variance * by_cell
        return part.total[..., None] + shift, part.cell + part.layout.share * shift + own

    return Parts(*(moved for triple in _triples(e, slope) for moved in move(*triple)))


def slope_at(e: Estimates, weights: FloatArray, point: Parts, *, fixed: bool = False) -> Slope:
    """Influence (docs/specification.md) and its derivatives, with the minimum and the maximum resolved.

    m is the remainder of the group where its estimate is smallest, M the size of the group whose estimated
    size is largest; nearby points use the same groups. `fixed` makes M a constant. Only meaningful where
    remainders exceed their noise.
    """
    w = weights[:, None]
    smallest, largest = _indicator(-e.count.rest), _indicator(e.count.total[..., None])
    n, c = np.maximum(point.n, 1.0), np.maximum(point.n - point.a, 1.0)
    m = np.sum(smallest * c, axis=-2, keepdims=True)
    if e.kind == "avg":
        assert point.S is not None
        assert point.U is not None
        S, V = point.S, point.S - point.U
        T = np.sum(w * (S / n - V / c), axis=-2, keepdims=True)
        by_a = -m * w * V / c**2 - smallest * T
        by_n = -m * w * S / n**2 - by_a
        return Slope((m * T)[..., 0, :], Parts(by_n, by_a, m * w * (1.0 / n - 1.0 / c), m * w / c))
    removed = point.a if point.U is None else point.U
    x = np.sum(w * removed, axis=-2, keepdims=True)
    M = np.sum(largest * (e.count.total[..., None] if fixed else n), axis=-2, keepdims=True)
    share = 1.0 / (np.maximum(M, 1.0) + 1.0)
    by_n = smallest * x * share - (0.0 if fixed else largest * x * m * share**2)
    by_a, by_removed = -smallest * x * share, w * m * share
    influence = (x * m * share)[..., 0, :]
    if point.U is None:
        return Slope(influence, Parts(by_n, by_a + by_removed))
    return Slope(influence, Parts(by_n, by_a, np.zeros_like(by_removed), by_removed))


def variances(e: Estimates, slope: Slope) -> FloatArray:
    """The first-order variance of every plug-in influence."""
    return _covariances(e, slope, slope)


def _covariances(e: Estimates, left: Slope, right: Slope) -> FloatArray:
    """gᵀΣg′ for every predicate (proof, section 2: a cell is share·total + noise of its own)."""
    covariance = np.zeros(())
    for (part, *first), (_, *second) in zip(_triples(e, left), _triples(e, right), strict=True):
        load = part.total_variance * _load(part, *first) * _load(part, *second)
        covariance = covariance + np.sum(load + part.own_variance * first[1] * second[1], axis=-2)
    return np.asarray(covariance)


def difference_variances(e: Estimates, slope: Slope, chosen: IntArray) -> FloatArray:
    """The variance of each chosen influence minus every influence, (..., chosen, predicates)."""
    own = e.count.layout.own(chosen)
    shared = np.zeros(())
    for part, by_total, by_cell in _triples(e, slope):
        load = _load(part, by_total, by_cell)
        chosen_load, cell = (np.take_along_axis(d, chosen[..., None, :], axis=-1) for d in (load, by_cell))
        shared = shared + part.total_variance * np.einsum("...gk,...gp->...kp", chosen_load, load)
        shared = shared + part.cell_noise**2 * own * np.einsum("...gk,...gp->...kp", cell, by_cell)
    every = variances(e, slope)
    of_chosen = np.take_along_axis(every, chosen, axis=-1)[..., None]
    return np.maximum(of_chosen + every[..., None, :] - 2.0 * shared, 0.0)


def _triples(e: Estimates, slope: Slope) -> list[tuple[Measured, FloatArray, FloatArray]]:
    """Counts, then sums, each with the derivatives by total and by cell."""
    by = slope.by
    triples = [(e.count, by.n, by.a)]
    if e.total is not None and by.S is not None and by.U is not None:
        triples.append((e.total, by.S, by.U))
    return triples


def _load(part: Measured, by_total: FloatArray, by_cell: FloatArray) -> FloatArray:
    """The derivative by the total when the cell changes by its share."""
    return by_total + part.layout.share * by_cell


def _indicator(values: FloatArray) -> FloatArray:
    """1 in the group where a predicate's value is largest (the first of equals), else 0."""
    first = values.argmax(axis=-2)[..., None, :]
    return np.asarray(np.arange(values.shape[-2])[:, None] == first, dtype=np.float64)
