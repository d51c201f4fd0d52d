"""Exact one-sided bounds of probabilities (Clopper and Pearson) and of means of bounded numbers (betting)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpxplain.model.arrays import FloatArray

_STEPS = 60  # halvings of [0, 1]
_MOST_TERMS = 100_000
_TINY = 1e-300


def lower_probability(hits: int, trials: int, level: float) -> float:
    """The lower Clopper–Pearson bound; it exceeds the true probability with probability at most `level`.

    >>> round(lower_probability(50, 100, 0.025), 4), lower_probability(0, 100, 0.025)
    (0.3983, 0.0)
    """
    if hits == 0:
        return 0.0
    return _bisect(lambda p: beta_cdf(p, hits, trials - hits + 1) < level)[0]


def upper_probability(hits: int, trials: int, level: float) -> float:
    """The upper Clopper–Pearson bound.

    >>> round(upper_probability(50, 100, 0.025), 4), round(upper_probability(0, 100, 0.05), 4)
    (0.6017, 0.0295)
    """
    return 1.0 - lower_probability(trials - hits, trials, level)


def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction.

    >>> round(beta_cdf(0.5, 2, 2), 12), round(beta_cdf(0.25, 1, 1), 12)
    (0.5, 0.25)
    """
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - beta_cdf(1.0 - x, b, a)
    log_factor = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_factor) * _beta_fraction(x, a, b) / a


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Lentz's evaluation of the continued fraction 8.17.22 in the NIST handbook of functions."""
    c, d = 1.0, 1.0 / _away(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, _MOST_TERMS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _away(1.0 + numerator * d)
            c = _away(1.0 + numerator / c)
            value *= c * d
        if abs(c * d - 1.0) < 1e-14:
            break
    return value


def _away(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def lower_mean(values: FloatArray, least: float, level: float, guess: tuple[float, float]) -> float:
    """A lower bound of the mean of numbers that are never below `least`; wrong with probability ≤ `level`.

    A gambler who stakes a fixed share λ on "above m" at fair odds multiplies his capital by Π(1 + λ(x − m)).
    If the mean is m or less, the expected capital is at most 1, so by Markov's inequality it exceeds 1/level
    with probability `level` at most: every such m is excluded (Waudby-Smith and Ramdas, 2024). λ follows from
    a mean and a standard deviation guessed beforehand; a bad guess makes the bound wide, never wrong.

    >>> x = np.tile([0.0, 1.0], 500)
    >>> 0.4 < lower_mean(x, 0.0, 0.01, (0.5, 0.5)) < 0.5
    True
    """
    mean, spread = guess
    goal = math.log(1.0 / level)
    stake = math.sqrt(2.0 * goal / len(values)) / max(spread, _TINY)
    stake = min(stake, 0.9 / max(mean - least, _TINY))
    # Beyond this m the smallest number would leave no capital, and Markov's inequality would not hold.
    reach = 0.99 / stake

    def is_excluded(share: float) -> bool:
        return float(np.log1p(stake * (values - least - share * reach)).sum()) >= goal

    return least + _bisect(is_excluded)[0] * reach


def upper_mean(values: FloatArray, greatest: float, level: float, guess: tuple[float, float]) -> float:
    """An upper bound of the mean of numbers that are never above `greatest`.

    >>> x = np.tile([0.0, 1.0], 500)
    >>> 0.5 < upper_mean(x, 1.0, 0.01, (0.5, 0.5)) < 0.6
    True
    """
    return -lower_mean(-values, -greatest, level, (-guess[0], guess[1]))


def _bisect(below: Callable[[float], bool]) -> tuple[float, float]:
    """The ends of a tiny interval in [0, 1] in which `below` turns from true to false."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if below(middle) else (low, middle)
    return low, high
