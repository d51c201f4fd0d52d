"""Phase 2 for the population: what a released answer says beyond the rows that it was computed from.

Post-processing, no budget. docs/proofs/population.md states the assumptions about how the rows were drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpxplain.model.contrast import Contrast, judge
from dpxplain.model.query import Aggregate, Query
from dpxplain.model.release import AnswerRelease
from dpxplain.model.schema import Grid, Schema
from dpxplain.phases.assess_question import Assessment, noisy_mean, noisy_moments
from dpxplain.privacy.calibration import two_sided_quantile
from dpxplain.privacy.intervals import FloatArray, Interval, NoisyMean
from dpxplain.privacy.population_intervals import (
    Spread,
    WeightedCounts,
    WeightedMeans,
    count_ends,
    mean_ends,
    spread_ends,
    sum_ends,
)

_KNOWN_TOTAL = 100.0  # rows; the size of a smaller table is not known well enough to be taken as fixed


@dataclass(frozen=True)
class PopulationReading:
    """One aggregate's released values, read as a sample; `moments` is its column's variance, if released."""

    release: AnswerRelease
    query: Query
    schema: Schema
    moments: AnswerRelease | None = None

    @property
    def refusal(self) -> str:
        """A sentence that says why there is no result for the population; empty if there is one."""
        aggregate = self.query.aggregate
        if aggregate.kind not in ("count", "sum", "avg"):
            return f"{aggregate} cannot be extended to the population. Only COUNT, SUM and AVG can."
        if aggregate.kind == "sum" and self._grid.low < 0 < self._grid.high:
            return (
                f"{aggregate} cannot be extended to the population, because both negative and positive "
                f"values are declared. Ask for AVG({aggregate.column}) and COUNT(*) instead."
            )
        return ""

    @property
    def basis(self) -> str:
        """The assumption about how much values vary from draw to draw, as a sentence."""
        kind, column, cluster = self.query.aggregate.kind, self.query.aggregate.column, self._cluster
        together = ""
        if cluster > 1:
            unit = self.schema.privacy.unit
            together = f" The calculation assumes that up to {cluster:,} rows of one {unit} vary together."
        if kind == "count":
            left_out = ", without the rows in unlisted groups" if self.query.group_by else ""
            return f"Counts vary as in a multinomial draw{left_out}.{together}"
        if kind == "sum":
            return (
                "Sums are assumed to vary as much as possible: like a multinomial count of the "
                f"largest value.{together}"
            )
        if self._grid.range == 1:
            return (
                "How much a share varies follows from the share itself, so no assumption is "
                f"needed.{together}"
            )
        if self.moments is not None:
            return f"The released variance limits how much {column} varies.{together}"
        return (
            f"The variance of {column} is not released, so it is assumed to be as large as the average and "
            "the bounds allow, at most (high - low)²/4. To get narrower intervals for large groups, add "
            f"VARIANCE({column}) to the same SELECT.{together}"
        )

    def intervals(self, confidence: float) -> list[Interval]:
        """Every group's interval in the population."""
        failure, cluster = 1.0 - confidence, self._cluster
        if self.query.aggregate.kind == "avg":
            means, failure, spread = self._means(range(self._groups), confidence)
            low, high = mean_ends(means, failure, cluster=cluster, spread=spread)
        else:
            values, scale = np.array(self.estimates(range(self._groups))), self._scale
            if self.query.aggregate.kind == "sum":
                low, high = sum_ends(values, scale, self._largest, failure, cluster=cluster)
            else:
                total = self._total(confidence)
                low, high = count_ends(values, scale, failure, cluster=cluster, total=total)
        return list(zip(low.tolist(), high.tolist(), strict=True))

    def assess(self, contrast: Contrast, confidence: float) -> Assessment:
        """Estimate and interval of Σ w·value in the population, and what they say about the constant."""
        estimates = self.estimates(contrast.groups)
        low, high = self.weigh(contrast.groups, confidence)(contrast.weights)
        estimate = math.fsum(w * value for w, value in zip(contrast.weights, estimates, strict=True))
        interval = min(low, estimate), max(high, estimate)
        return Assessment(estimate, interval, judge(interval, contrast.at_least))

    def weigh(self, groups: Sequence[int], confidence: float) -> Callable[[Sequence[float]], Interval]:
        """A function from weights to the interval of the weighted sum; shared parts are computed once."""
        if self.query.aggregate.kind == "avg":
            means, failure, spread = self._means(groups, confidence)
            return WeightedMeans(means, failure, cluster=self._cluster, spread=spread)
        total = self._total(confidence) if len(groups) == 1 else None
        largest = self._largest * self._cluster
        values = self.estimates(groups)
        return WeightedCounts(values, self._scale, 1.0 - confidence, largest=largest, total=total)

    def _means(
        self, groups: Sequence[int], confidence: float
    ) -> tuple[list[NoisyMean], float, FloatArray | None]:
        """The released averages, the error probability left for them, and upper bounds of their spread."""
        means = [noisy_mean(self.release, self.query, self.schema, group) for group in groups]
        spread = self._spread(confidence)
        if spread is None:
            return means, 1.0 - confidence, None
        return means, 1.0 - confidence - spread.failure, spread.most[list(groups)]

    @property
    def _scale(self) -> float:
        release = self.release
        scale = release.count_scale if self.query.aggregate.kind == "count" else release.sum_scale
        assert scale is not None
        return scale

    @property
    def _largest(self) -> float:
        """The value of largest size that one row can add to a group."""
        if self.query.aggregate.kind == "count":
            return 1.0
        grid = self._grid
        return float((grid.high if abs(grid.high) >= abs(grid.low) else grid.low) * grid.unit)

    def estimates(self, groups: Sequence[int]) -> list[float]:
        release = self.release
        if self.query.aggregate.kind == "avg":
            return [noisy_mean(release, self.query, self.schema, group).estimate for group in groups]
        values = release.noisy_count if self.query.aggregate.kind == "count" else release.noisy_sum
        assert values is not None
        return [values[group] for group in groups]

    def _spread(self, confidence: float) -> Spread | None:
        if self.moments is None or self._grid.range == 1:
            return None
        varied = replace(self.query, aggregate=Aggregate("var_samp", self.query.aggregate.column))
        moments = noisy_moments(self.moments, varied, self.schema)
        return spread_ends(moments, confidence, cluster=self._cluster)

    def _total(self, confidence: float) -> float | None:
        """The most rows that all groups may have together; None if the rows drawn are not fixed or not known.

        A filter leaves rows out, and so may a query without groups: how many were drawn is not released. If
        a privacy unit may have several rows, the number of rows is not fixed.
        """
        release = self.release
        if self._cluster > 1:
            return None
        if self.query.where is not None or self.query.aggregate.column is not None or self._groups < 2:
            return None
        assert release.noisy_count is not None
        assert release.count_scale is not None
        reach = two_sided_quantile(confidence) * release.count_scale * math.sqrt(self._groups)
        total = math.fsum(release.noisy_count)
        return total + reach if total - reach >= _KNOWN_TOTAL else None

    @property
    def _groups(self) -> int:
        return len(self.release.noisy_sum or self.release.noisy_count or ())

    @property
    def _cluster(self) -> int:
        """Rows that may vary together: those of one privacy unit."""
        return self.schema.privacy.max_rows

    @property
    def _grid(self) -> Grid:
        assert self.query.aggregate.column is not None
        return self.schema.column(self.query.aggregate.column).grid
