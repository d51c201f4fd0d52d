"""From a release to a score: how much likelier it is under one table than under its neighbour.

Fitted to examples, with no idea where the numbers come from: frequencies of what was chosen, Gaussian
densities of what was measured, and exact values that come back, which noise would not let happen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Key = tuple[object, ...]

_REPEATED = 0.02  # share of the examples from which on an exact value counts as one that comes back
_ENOUGH = 40  # examples of either table before densities are fitted to those with one key
_RIDGE = 1e-9  # of each number's variance, so that a number that never changes has a density too


@dataclass(frozen=True)
class Sample:
    """Releases of one table: what was chosen (a name for each release) and what was measured (a row each)."""

    names: Sequence[str]
    numbers: FloatArray

    def __len__(self) -> int:
        return len(self.names)

    def part(self, rows: slice) -> Sample:
        return Sample(self.names[rows], self.numbers[rows])


@dataclass(frozen=True)
class _Densities:
    """The logarithm of the ratio of two Gaussian densities with one covariance: linear in the numbers."""

    direction: FloatArray
    middle: float

    @classmethod
    def fit(cls, table: FloatArray, neighbour: FloatArray) -> _Densities:
        gap = neighbour.mean(axis=0) - table.mean(axis=0)
        centred = np.vstack([table - table.mean(axis=0), neighbour - neighbour.mean(axis=0)])
        covariance = centred.T @ centred / max(1, len(centred) - 2)
        scale = np.diag(covariance) + gap**2
        covariance += np.diag(_RIDGE * np.where(scale > 0, scale, 1.0))
        direction = np.linalg.solve(covariance, gap)
        return cls(direction, float(direction @ (table.mean(axis=0) + neighbour.mean(axis=0))) / 2.0)

    def ratio(self, numbers: FloatArray) -> FloatArray:
        ratio: FloatArray = numbers @ self.direction - self.middle
        return ratio


@dataclass(frozen=True)
class LikelihoodRatio:
    """log P(release | neighbour) − log P(release | table), as fitted to examples of both."""

    repeated: tuple[frozenset[float], ...]  # for each number, the exact values that come back
    shares: dict[Key, float] = field(default_factory=dict)
    densities: dict[Key, _Densities] = field(default_factory=dict)
    unseen: float = 0.0

    @classmethod
    def fit(cls, table: Sample, neighbour: Sample) -> LikelihoodRatio:
        repeated = tuple(_repeated(column) for column in np.vstack([table.numbers, neighbour.numbers]).T)
        model = cls(repeated)
        keys = [model._keys(sample) for sample in (table, neighbour)]
        counts = [Counter(of_one) for of_one in keys]
        kinds = len(counts[0] | counts[1])
        totals = [len(sample) + kinds / 2 for sample in (table, neighbour)]
        for key in counts[0] | counts[1]:
            model.shares[key] = float(
                np.log((counts[1][key] + 0.5) / totals[1]) - np.log((counts[0][key] + 0.5) / totals[0])
            )
            if table.numbers.shape[1] and min(count[key] for count in counts) >= _ENOUGH:
                rows = [np.array([k == key for k in of_one]) for of_one in keys]
                model.densities[key] = _Densities.fit(table.numbers[rows[0]], neighbour.numbers[rows[1]])
        return model

    def score(self, sample: Sample) -> FloatArray:
        keys = self._keys(sample)
        scores = np.array([self.shares.get(key, 0.0) for key in keys], dtype=np.float64)
        for key, densities in self.densities.items():
            rows = np.array([k == key for k in keys], dtype=np.bool_)
            if rows.any():
                scores[rows] += densities.ratio(sample.numbers[rows])
        return scores

    def _keys(self, sample: Sample) -> list[Key]:
        """What is discrete about each release: its name, and its numbers that are values that come back."""
        places = [(number, values) for number, values in enumerate(self.repeated) if values]
        if not places:
            return [(name,) for name in sample.names]
        return [
            (name, *((n, x) for n, values in places if (x := float(row[n])) in values))
            for name, row in zip(sample.names, sample.numbers, strict=True)
        ]


def _repeated(column: FloatArray) -> frozenset[float]:
    values, counts = np.unique(column, return_counts=True)
    return frozenset(values[counts >= max(3, _REPEATED * len(column))].tolist())
