"""Data quality: the shares of rows that are NULL, capped or left out, with intervals. Private."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpxplain.model.charge import Request, Spend
from dpxplain.model.dates import edge_text
from dpxplain.model.display import Displayed, Record, Tabular
from dpxplain.model.hardening import Frozen
from dpxplain.model.release import Released
from dpxplain.model.schema import Column, Schema
from dpxplain.model.schema_fit import Partition, QualityRelease, declares_null, partitions, unit_sizes
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.measure_quality import QualityPlan, find_quality, plan_quality
from dpxplain.privacy.aggregate_intervals import NoisyCount, bin_bounds, pooled_total, share_interval
from dpxplain.privacy.calibration import two_sided_quantile
from dpxplain.privacy.intervals import Interval, check_asked_confidence
from dpxplain.results.base import ReleasedRows
from dpxplain.results.preview import Price

_NO_GROUP = "in no group"


@dataclass(frozen=True)
class QualityRow:
    """One fact about a column: which rows, what happens to them, and how many they are."""

    column: str
    domain: str
    category: str
    misfit: str  # which rows, in words: "above 300"
    effect: str  # what happens to them: "count as 300"
    estimate: float
    interval: Interval
    rows: Interval


class Quality(Frozen, Displayed, ReleasedRows[QualityRelease, QualityRow]):
    """The shares of rows that are NULL, capped or left out, and of units with more than max_rows rows.

    >>> import dpxplain as dpx
    >>> quality = dpx.example("adult").quality(rho=0.1)
    >>> quality.share("education", "values", "undeclared")[1] < 0.01
    True
    """

    def __init__(self, plan: QualityPlan, released: Released[QualityRelease], confidence: float) -> None:
        self.plan = plan
        super().__init__(released)
        self.confidence = check_asked_confidence(confidence)
        self._partitions = partitions(plan.schema, plan.discovered)
        self._counts = _by_category(self._partitions, self.release)
        self._total = pooled_total([list(counts.values()) for counts in self._counts.values()])
        self.rows = tuple(self._rows())
        self.freeze()

    @property
    def schema(self) -> Schema:
        """The curator's schema, which is public."""
        return self.plan.schema

    @property
    def spends(self) -> tuple[Spend, ...]:
        return self.plan.spends

    def covers(self, column: str) -> bool:
        """Whether the column's rows were counted. A column that was discovered later is not covered."""
        return any(name == column for name, _ in self._counts)

    def share(self, column: str, domain: str, category: str) -> Interval:
        return share_interval(self._counts[column, domain][category], self._total, self.confidence)

    def most_left_out(self, column: str, domain: str) -> float:
        kept = {"fits", "null"} if declares_null(self.schema.column(column)) else {"fits"}
        counts = [count for category, count in self._counts[column, domain].items() if category not in kept]
        together = sum(count.value for count in counts)
        scale = math.sqrt(len(counts)) * self.release.rows_scale
        return max(0.0, together + two_sided_quantile(self.confidence) * scale)

    @property
    def units_above(self) -> Interval:
        """The share of privacy units with more than max_rows rows; (0, 0) if a row is the unit."""
        units = self._units()
        if not units:
            return 0.0, 0.0
        above = NoisyCount(sum(unit.value for unit in units[1:]), math.sqrt(len(units) - 1) * units[0].scale)
        return share_interval(above, pooled_total([units]), self.confidence)

    @property
    def rows_lost(self) -> Interval:
        """How many rows are beyond max_rows. The upper end is infinite if a unit may exceed the last size."""
        units, sizes = self._units(), unit_sizes(self.schema)
        if not units:
            return 0.0, 0.0
        counts = bin_bounds(units[1:], self.confidence)
        most = sizes[0]
        ends = zip(sizes, (*sizes[1:], math.inf), counts, strict=True)
        lost = [
            ((low + 1 - most) * few, (high - most) * many if many else 0.0) for low, high, (few, many) in ends
        ]
        return sum(low for low, _ in lost), sum(high for _, high in lost)

    def records(self) -> list[Record]:
        records: list[Record] = [
            {
                "of": row.column,
                "misfit": row.misfit,
                "effect": row.effect,
                "share": row.estimate,
                "low": row.interval[0],
                "high": row.interval[1],
                "rows_low": row.rows[0],
                "rows_high": row.rows[1],
            }
            for row in self.rows
        ]
        if self._units():
            low, high = self.rows_lost
            records.append(
                {
                    "of": self.schema.privacy.unit,
                    "misfit": f"more than {self.schema.privacy.max_rows:,} rows",
                    "effect": "further rows are not counted",
                    "share": sum(self.units_above) / 2,
                    "low": self.units_above[0],
                    "high": self.units_above[1],
                    "rows_low": low,
                    "rows_high": high if math.isfinite(high) else None,
                }
            )
        return records

    def _units(self) -> list[NoisyCount]:
        scale = self.release.units_scale
        return [] if scale is None else [NoisyCount(value, scale) for value in self.release.noisy_units]

    def _rows(self) -> Iterator[QualityRow]:
        reach = two_sided_quantile(self.confidence)
        for part in self._partitions:
            column = self.schema.column(part.column)
            is_null_group = declares_null(column) and part.domain != "bounds"
            for category in part.categories[1:]:
                misfit, effect = _in_words(column, part.domain, category, is_null_group)
                count = self._counts[part.column, part.domain][category]
                yield QualityRow(
                    part.column,
                    part.domain,
                    category,
                    misfit,
                    effect,
                    max(0.0, count.value) / max(1.0, self._total.value),
                    self.share(part.column, part.domain, category),
                    (
                        max(0.0, count.value - reach * count.scale),
                        max(0.0, count.value + reach * count.scale),
                    ),
                )


@dataclass(frozen=True)
class QualityPreview(Displayed, Tabular):
    """What `quality` would cost, and how far off its counts may be."""

    price: Price
    plan: QualityPlan
    confidence: float

    @property
    def margin(self) -> float:
        """The margin of each count of rows."""
        return two_sided_quantile(self.confidence) * self.plan.rows_scale

    def records(self) -> list[Record]:
        return [{"rho": self.plan.rho, "margin": self.margin, "remaining_after": self.price.remaining_after}]


class PlannedQuality(Frozen):
    """A measurement of data quality, planned and not yet paid for."""

    def __init__(self, rho: float, confidence: float, dataset: OpenDataset) -> None:
        self.plan = plan_quality(dataset.schema, rho)
        self.request = Request(f"quality of {dataset.name}", {"rho": rho})
        self.confidence = check_asked_confidence(confidence)
        self._dataset = dataset
        self.freeze()

    def preview(self) -> QualityPreview:
        stored = self._dataset.find(self.plan) is not None
        return QualityPreview(Price.of(self.plan, self._dataset, free=stored), self.plan, self.confidence)

    def find(self) -> Quality | None:
        """The stored quality, if it was bought for this ρ before. Free."""
        stored = self._dataset.find(self.plan)
        return None if stored is None else Quality(self.plan, stored, self.confidence)

    def run(self, dataset: OpenDataset | None = None) -> Quality:
        """Finds the stored result or measures it, in the planned data set or another caller's view of it."""
        return (dataset or self._dataset).find_or_measure(
            self.plan, self.request, lambda released: Quality(self.plan, released, self.confidence)
        )


def bought_quality(dataset: OpenDataset, confidence: float = 0.95) -> Quality | None:
    """The quality that was bought last under the current schema; None if none was. Free."""
    bought = find_quality(dataset)
    return None if bought is None else Quality(*bought, confidence)


def _by_category(
    parts: Sequence[Partition], release: QualityRelease
) -> dict[tuple[str, str], dict[str, NoisyCount]]:
    """The counts by column and domain, then by category."""
    values = iter(release.noisy_rows)
    return {
        (part.column, part.domain): {
            category: NoisyCount(next(values), release.rows_scale) for category in part.categories
        }
        for part in parts
    }


def _in_words(column: Column, domain: str, category: str, is_null_group: bool) -> tuple[str, str]:
    """Which rows are in a category, and what happens to them."""
    if category == "undeclared":
        return "not in the list", _NO_GROUP
    if category == "null":
        if domain == "bounds":
            return "NULL", "not in sums and averages"
        return "NULL", "a group of its own" if is_null_group else _NO_GROUP
    if domain == "edges":
        assert column.edges is not None
        end = edge_text(column.edges[-1 if category == "above" else 0], ",")
        return f"{'above' if category == 'above' else 'at most'} {end}", _NO_GROUP
    assert column.bounds is not None
    end = edge_text(column.bounds[1 if category == "above" else 0], ",")
    return f"{category} {end}", f"count as {end}"
