"""Sensitivities: how far one row can move an answer, an influence, or a whole family's influences.

Every constant is listed in docs/specification.md, proved in docs/proofs/sensitivity.md and attacked by
tests/privacy/test_sensitivity.py. For replacing a row, see docs/proofs/bounded-neighbours.md and
test_bounded_neighbours.py. All inputs are public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dpxplain.privacy.calibration import rounded_up

Aggregate = Literal["count", "sum", "avg"]
Neighbours = Literal["unbounded", "bounded"]
"""Unbounded: one row, or up to `rows` rows of one person, is added or removed. Bounded: it is replaced."""

SCORE_GRID = 2**20
"""Influences are scored in integers, score = round(influence · SCORE_GRID / sensitivity)."""

SCORE_SLACK = 8
"""One row moves such a score by at most SCORE_GRID + SCORE_SLACK, floating point included, in tables of up
to 2**31 rows and questions on any number of groups: docs/proofs/sensitivity.md, section 7."""

SCORE_SENSITIVITY = SCORE_GRID + SCORE_SLACK


def count_sensitivity(rows: int = 1, neighbours: Neighbours = "unbounded") -> float:
    """The most a vector of row counts, one per group, moves in Euclidean length.

    >>> count_sensitivity(3), round(count_sensitivity(3, "bounded") / 3, 6)
    (3.0, 1.414214)
    """
    return float(rows) if neighbours == "unbounded" else rounded_up(math.sqrt(2) * rows)


def fit_sensitivity(partitions: int, rows: int = 1, neighbours: Neighbours = "unbounded") -> float:
    """The most the row counts of several partitions of the table move together; each holds every row once.

    Proved in docs/proofs/quality.md.

    >>> round(fit_sensitivity(4, 50), 6), round(fit_sensitivity(2, 1, "bounded"), 6)
    (100.0, 2.0)
    """
    return rounded_up(count_sensitivity(rows, neighbours) * math.sqrt(partitions))


def sum_sensitivity(low: int, high: int, rows: int = 1, neighbours: Neighbours = "unbounded") -> float:
    """The most a vector of sums of values in [low, high], whole units, moves: A, or max(R, √2·A) if bounded.

    >>> sum_sensitivity(0, 10), sum_sensitivity(-10, 5)
    (10.0, 10.0)
    >>> round(sum_sensitivity(0, 10, 1, "bounded"), 3), round(sum_sensitivity(-10, 5, 1, "bounded"), 3)
    (14.142, 15.0)
    """
    largest = max(abs(low), abs(high))
    if neighbours == "unbounded":
        return float(rows * largest)
    return rounded_up(rows * max(high - low, math.sqrt(2) * largest))


def mean_sum_sensitivity(low: int, high: int, rows: int = 1, neighbours: Neighbours = "unbounded") -> float:
    """The most a vector of sums of 2·value − low − high, which lie in [−R, R], moves: R, or 2R if bounded.

    >>> mean_sum_sensitivity(0, 10), mean_sum_sensitivity(0, 10, 1, "bounded")
    (10.0, 20.0)
    """
    return float(rows * (high - low) * (1 if neighbours == "unbounded" else 2))


def influence_sensitivity(
    aggregate: Aggregate,
    weights: Sequence[float],
    low: float = 0.0,
    high: float = 0.0,
    *,
    paper: bool = False,
    neighbours: Neighbours = "unbounded",
) -> float:
    """The most one row, added, removed or replaced, changes the influence of one predicate.

    `weights` are the question's, one per group; `low` and `high` bound the aggregated column and are ignored
    by COUNT. `paper=True` gives the larger constants of the paper's proposition on influence sensitivity.

    >>> influence_sensitivity("count", (1, -1)), influence_sensitivity("count", (1, -1), paper=True)
    (1.0, 4.0)
    >>> influence_sensitivity("sum", (1, -1), 0, 50), influence_sensitivity("sum", (1, -1), -50, 50)
    (50.0, 100.0)
    >>> influence_sensitivity("avg", (1, -1), 0, 50), influence_sensitivity("avg", (1, -1), 0, 50, paper=True)
    (100.0, 800.0)
    >>> influence_sensitivity("avg", (1, -1), 0, 50, neighbours="bounded")
    150.0
    """
    weight, value = _weights(weights), _values(aggregate, low, high)
    bounded = neighbours == "bounded"
    if paper:
        factor = (8 if aggregate == "avg" else 2) * (2 if bounded else 1)
        return _usable(factor * weight.total * value.largest, value.largest)
    if aggregate == "avg":
        # W·R, proof in section 3; (W + w)·R for replacing, which can move two groups at once.
        extra = weight.largest if bounded and weight.groups > 1 else 0.0
        return _usable((weight.total + extra) * value.width, value.width)
    total = _replaced_total if bounded else _largest_total
    return _usable(total(weight, value), value.largest)  # L, proof in section 2


def family_sensitivity(
    aggregate: Aggregate,
    weights: Sequence[float],
    low: float = 0.0,
    high: float = 0.0,
    *,
    overlap: int,
    neighbours: Neighbours = "unbounded",
) -> float:
    """The most one row moves the vector of a family's influences, in Euclidean length.

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
    replaced = 2 if neighbours == "bounded" else 1  # a removal and an addition; not tight
    return _usable(replaced * math.sqrt(overlap) * length, spread)


@dataclass(frozen=True, slots=True)
class _Weights:
    groups: int
    positive: float
    negative: float
    most_positive: float  # a single weight, 0 if there is none of that sign
    most_negative: float

    @property
    def total(self) -> float:
        return self.positive + self.negative

    @property
    def largest(self) -> float:
        return max(self.most_positive, self.most_negative)


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
        most_positive=max(*used, 0.0),
        most_negative=-min(*used, 0.0),
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


def _replaced_total(weight: _Weights, value: _Values) -> float:
    """COUNT and SUM when a row is replaced (docs/proofs/bounded-neighbours.md, section 3)."""
    most = weight.positive * value.up + weight.negative * value.down  # L⁺, of all groups together
    least = weight.positive * value.down + weight.negative * value.up  # L⁻
    rise = max(weight.most_positive * value.up, weight.most_negative * value.down)  # of one row
    fall = max(weight.most_positive * value.down, weight.most_negative * value.up)
    return max(rise + fall, _hump(most, fall), _hump(least, rise))


def _hump(total: float, row: float) -> float:
    """The largest y·row + (1 − y²)·total for y in [0, 1]."""
    return total + row * (row / total) / 4 if row < 2 * total else row


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
