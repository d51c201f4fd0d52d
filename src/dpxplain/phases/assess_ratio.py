"""Phase 2 for ratios and shares: the values of a ratio that released values do not contradict.

Post-processing. A ratio r is tested by the weighted sum A − r·B, whose interval is that of any question; the
ratio's interval has all r for which it contains 0 (Fieller's principle, docs/proofs/ratio.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from dpxplain.errors import QuestionError
from dpxplain.model.contrast import Contrast, Ratio, judge
from dpxplain.phases.assess_question import Assessment
from dpxplain.privacy.intervals import Interval

Weigh = Callable[[Sequence[float]], Interval]
"""The interval of the weighted sum of a ratio's groups."""

_DOUBLINGS, _HALVINGS = 200, 32
_LEAST_WEIGHT = 1e-9  # a group with less does not matter to an explanation, which takes no smaller weights


def assess_ratio(ratio: Ratio, estimates: Sequence[float], weigh: Weigh, limits: Interval) -> Assessment:
    """Estimate, interval and verdict of a ratio; `limits` are public, as 0 to 1 for a share of counts."""
    above, below = (
        math.fsum(w * value for w, value in zip(weights, estimates, strict=True))
        for weights in (ratio.numerator, ratio.denominator)
    )
    low, high = limits
    value = min(max(above / below, low), high) if below else min(max(0.0, low), high)
    sign = divisor_sign(ratio, weigh)
    if sign:
        ends = _ends(ratio, value, weigh, sign)
        low, high = min(max(ends[0], low), value), max(min(ends[1], high), value)
    return Assessment(value, (low, high), judge((low, high), ratio.at_least))


def divisor_sign(ratio: Ratio, weigh: Weigh) -> int:
    """Whether what is divided by is surely above 0, surely below, or neither."""
    least, most = weigh(ratio.denominator)
    return 1 if least > 0.0 else -1 if most < 0.0 else 0


def known_divisor(ratio: Ratio, weigh: Weigh, name: str, possible: Collection[int] = (1, -1)) -> int:
    """The sign of the divisor, or a refusal: by what may be 0, anything is possible.

    A sign that is not among the `possible` ones, such as that of a count below 0, is noise around 0.
    """
    sign = divisor_sign(ratio, weigh)
    if sign not in possible:
        raise QuestionError(
            f"{name} cannot be told from 0, so that dividing by it says nothing.",
            remedy="Ask the query with more ρ, divide by a larger group, or ask why about the difference.",
        )
    return sign


def linear_question(ratio: Ratio, value: float, sign: int) -> Contrast:
    """The weighted question that explains the ratio: what lifts A above `value` times B."""
    pairs = zip(ratio.groups, ratio.weights(value), strict=True)
    kept = [(group, sign * weight) for group, weight in pairs if abs(weight) > _LEAST_WEIGHT]
    return Contrast(tuple(g for g, _ in kept), tuple(w for _, w in kept), ratio.at_least)


def _ends(ratio: Ratio, value: float, weigh: Weigh, sign: int) -> Interval:
    def is_above(r: float) -> bool:
        """Whether the true ratio surely lies above r."""
        return weigh([sign * weight for weight in ratio.weights(r)])[0] > 0.0

    def is_below(r: float) -> bool:
        return weigh([sign * weight for weight in ratio.weights(r)])[1] < 0.0

    return _edge(value, -1.0, is_above), _edge(value, 1.0, is_below)


def _edge(start: float, direction: float, is_out: Callable[[float], bool]) -> float:
    """The end of the values around `start` that are not out; infinite where there is none."""
    if is_out(start):
        return start
    inner, step = start, max(abs(start), 1e-12) * 1e-3
    for _ in range(_DOUBLINGS):
        outer = start + direction * step
        if not math.isfinite(outer):
            return direction * math.inf
        if is_out(outer):
            break
        inner, step = outer, step * 2.0
    else:
        return direction * math.inf
    for _ in range(_HALVINGS):
        middle = (inner + outer) / 2.0
        inner, outer = (inner, middle) if is_out(middle) else (middle, outer)
    return outer
