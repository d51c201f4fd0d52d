"""How well one observation tells two samples apart: the area under the ROC curve, with an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Auc:
    """The chance that a value of the first sample is above a value of the second. Ties count half.

    >>> area = Auc.of([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0])
    >>> area.value, area.tells_apart(0.95)
    (0.5, False)
    """

    value: float
    error: float
    """The standard error by DeLong, DeLong and Clarke-Pearson (1988)."""

    @classmethod
    def of(cls, first: Sequence[float], second: Sequence[float]) -> Auc:
        x, y = np.asarray(first), np.asarray(second)
        wins = (x[:, None] > y[None, :]) + 0.5 * (x[:, None] == y[None, :])
        value = float(wins.mean())
        variance = wins.mean(axis=1).var(ddof=1) / len(x) + wins.mean(axis=0).var(ddof=1) / len(y)
        # Samples without overlap have variance 0. The floor is about that of one exception in each sample.
        least = 0.25 / (min(len(x), len(y)) + 1) ** 2
        return cls(value, math.sqrt(max(variance, least)))

    def interval(self, confidence: float) -> tuple[float, float]:
        margin = float(stats.norm.isf((1 - confidence) / 2)) * self.error
        return max(0.0, self.value - margin), min(1.0, self.value + margin)

    def tells_apart(self, confidence: float) -> bool:
        """Whether the interval excludes one half."""
        low, high = self.interval(confidence)
        return not low <= 0.5 <= high

    def text(self, confidence: float = 0.95) -> str:
        low, high = self.interval(confidence)
        return f"{self.value:.2f} ({low:.2f}–{high:.2f})"
