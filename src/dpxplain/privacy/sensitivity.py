"""How far one row can move an influence, or a whole family of influences at once.

Every constant is proved in docs/proofs/sensitivity.md (SPEC sections 1 to 3 and 7, with the places where
the proof yields less than SPEC) and attacked by tests/privacy/test_sensitivity.py. Public quantities only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Aggregate = Literal["count", "sum", "avg"]

SCORE_GRID = 2**20
"""Influences are scored in integers, score = round(influence · SCORE_GRID / sensitivity)."""

SCORE_SLACK = 8
"""One row moves such a score by at most SCORE_GRID + SCORE_SLACK, floating point included, in tables of up
to 2**31 rows and questions on any number of groups: docs/proofs/sensitivity.md, section 7."""


def influence_sensitivity(
    aggregate: Aggregate,
    weights: Sequence[float],
    low: float = 0.0,
    high: float = 0.0,
    *,
    paper: bool = False,
) -> float:
    """The most one row, added or removed, changes the influence of one predicate (SPEC section 3).

    `weights` are the question's, one per group; `low` and `high` bound the aggregated column and are ignored
    by COUNT. `paper=True` gives the larger constants of the paper's proposition on influence sensitivity.

    >>> influence_sensitivity("count", (1, -1)), influence_sensitivity("count", (1, -1), paper=True)
    (1.0, 4.0)
    >>> influence_sensitivity("sum", (1, -1), 0, 50), influence_sensitivity("sum", (1, -1), -50, 50)
    (50.0, 100.0)
    >>> influence_sensitivity("avg", (1, -1), 0, 50), influence_sensitivity("avg", (1, -1), 0, 50, paper=True)
    (100.0, 800.0)
    """
    weight, value = _weights(weights), _values(aggregate, low, high)
    if paper:
        factor = 8 if aggregate == "avg" else 2
        return _usable(factor * weight.total * value.largest, value.largest)
    if aggregate == "avg":
        return _usable(weight.total * value.width, value.width)  # W·R, proof in section 3
    return _usable(_largest_total(weight, value), value.largest)  # L, proof in section 2


def family_sensitivity(
    aggregate: Aggregate,
    weights: Sequence[float],
    low: float = 0.0,
    high: float = 0.0,
    *,
    overlap: int,
) -> float:
    """The most one row moves the vector of a family's influences, in Euclidean length (SPEC section 3).

    `overlap` is the largest number of the family's predicates that one row can satisfy: 1 for the values of
    one attribute, m for those of m attributes, C(m, l) for conjunctions of l among m attributes. The number
    of predicates does not matter.

    >>> round(family_sensitivity("avg", (1, -1), 0, 10, overlap=8) ** 2)  # 5·t·R²
    4000
    >>> round(family_sensitivity("count", (1, -1), overlap=8) ** 2 * 27 / 8)  # (58/27)·t
    58
    """
    if overlap < 1:
        raise ValueError(f"overlap must be at least 1, not {overlap!r}")
    weight, value = _weights(weights), _values(aggregate, low, high)
    if aggregate == "avg":
        length, spread = _average_family(weight, value), value.width
    else:
        length, spread = _total_family(weight, value), value.largest
    return _usable(math.sqrt(overlap) * length, spread)


@dataclass(frozen=True, slots=True)
class _Weights:
    groups: int
    positive: float
    negative: float
    largest: float

    @property
    def total(self) -> float:
        return self.positive + self.negative


@dataclass(frozen=True, slots=True)
class _Values:
    up: float  # how far above zero a row can lie
    down: float  # how far below
    width: float

    @property
    def largest(self) -> float:
        return max(self.up, self.down)


def _weights(weights: Sequence[float]) -> _Weights:
    used = [float(w) for w in weights if w]
    if not used:
        raise ValueError("a question needs at least one group with a nonzero weight")
    if not all(math.isfinite(w) for w in used):
        raise ValueError("the weights of a question must be finite numbers")
    return _Weights(
        groups=len(used),
        positive=math.fsum(w for w in used if w > 0),
        negative=math.fsum(-w for w in used if w < 0),
        largest=max(abs(w) for w in used),
    )


def _values(aggregate: Aggregate, low: float, high: float) -> _Values:
    if aggregate == "count":
        return _Values(up=1.0, down=0.0, width=0.0)
    if aggregate not in ("sum", "avg"):
        raise ValueError(f"the aggregate must be 'count', 'sum' or 'avg', not {aggregate!r}")
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(f"the bounds must be finite and in order, not [{low!r}, {high!r}]")
    return _Values(up=max(float(high), 0.0), down=max(-float(low), 0.0), width=float(high) - float(low))


def _largest_total(weight: _Weights, value: _Values) -> float:
    """L: the largest |Σ w_g·x_g| with one value x_g of the column, or no row, per group."""
    return max(
        weight.positive * value.up + weight.negative * value.down,
        weight.positive * value.down + weight.negative * value.up,
    )


def _total_family(weight: _Weights, value: _Values) -> float:
    """COUNT and SUM at overlap 1 (proof in section 4); products of roots, so that nothing underflows."""
    L, A, w = _largest_total(weight, value), value.largest, weight.largest
    if L == 0:
        return 0.0
    matched = (L + w * A) / L * (L + w * A) / 4
    unmatched = math.sqrt(L) * math.sqrt(weight.total * A)
    unmatched_if_largest = math.sqrt(L) * math.sqrt(L + (weight.total - w) * A * 4 / 27)
    return max(unmatched, math.hypot(matched, min(unmatched, unmatched_if_largest)))


def _average_family(weight: _Weights, value: _Values) -> float:
    """AVG at overlap 1 (proof in section 5). A single group is always its own minimum."""
    w, W = weight.largest, weight.total
    unmatched = max(W, math.hypot(math.sqrt(32 / 27) * w, W - w)) if weight.groups > 1 else W
    return math.hypot(w, unmatched) * value.width


def _usable(sensitivity: float, spread: float) -> float:
    """Refuse weights and bounds whose product leaves the range of floats: noise must never round to none."""
    if spread > 0 and not 1e-150 <= sensitivity <= 1e150:
        raise ValueError("the weights and bounds are too large or too small to be multiplied")
    return sensitivity
