"""Data quality: the shares of rows that are NULL, capped or left out, with intervals. Private."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from dpxplain.model.charge import Request, Spend
from dpxplain.model.dates import edge_text
from dpxplain.model.display import Displayed, Record, Tabular
from dpxplain.model.hardening import Frozen
from dpxplain.model.release import Released
from dpxplain.model.schema import Column
from dpxplain.model.schema_fit import QualityRelease, declares_null
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.measure_quality import QualityPlan, QualityReading, find_quality, plan_quality
from dpxplain.privacy.calibration import two_sided_quantile
from dpxplain.privacy.intervals import Interval, check_asked_confidence
from dpxplain.results.base import ReleasedRows
from dpxplain.results.planned import Planned
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


class Quality(QualityReading, Frozen, Displayed, ReleasedRows[QualityRelease, QualityRow]):
    """The shares of rows that are NULL, capped or left out, and of units with more than max_rows rows.

    >>> import dpxplain as dpx
    >>> quality = dpx.example("adult").quality(rho=0.1)
    >>> quality.share("education", "values", "undeclared")[1] < 0.01
    True
    """

    def __init__(self, plan: QualityPlan, released: Released[QualityRelease], confidence: float) -> None:
        ReleasedRows.__init__(self, released)
        QualityReading.__init__(self, plan, released, check_asked_confidence(confidence))
        self.rows = tuple(self._rows())
        self.freeze()

    @property
    def spends(self) -> tuple[Spend, ...]:
        return self.plan.spends

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


class PlannedQuality(Planned[QualityRelease, Quality]):
    """A measurement of data quality, planned and not yet paid for."""

    plan: QualityPlan

    def __init__(self, rho: float, confidence: float, dataset: OpenDataset) -> None:
        request = Request(f"quality of {dataset.name}", {"rho": rho})
        super().__init__(plan_quality(dataset.schema, rho), request, dataset)
        self.confidence = check_asked_confidence(confidence)
        self.freeze()

    def show(self, released: Released[QualityRelease]) -> Quality:
        return Quality(self.plan, released, self.confidence)

    def preview(self) -> QualityPreview:
        price = Price.of(self.plan, self._dataset, free=self.is_stored)
        return QualityPreview(price, self.plan, self.confidence)


def bought_quality(dataset: OpenDataset, confidence: float = 0.95) -> Quality | None:
    """The quality that was bought last under the current schema; None if none was. Free."""
    bought = find_quality(dataset)
    return None if bought is None else Quality(*bought, confidence)


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
