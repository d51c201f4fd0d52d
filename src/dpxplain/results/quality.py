"""How well the declarations fit the data, measured with noise: data quality, the values of a column, and
proposed bounds. Private.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dpxplain.errors import BadRequest
from dpxplain.model.charge import Request, Spend
from dpxplain.model.column import Column, DiscoveredValue, DiscoveryRelease, edge_text
from dpxplain.model.display import Displayed, Record, Tabular, public
from dpxplain.model.hardening import Frozen, plain_number
from dpxplain.model.release import Released
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import QualityRelease, TuningRelease, declares_null, tuned_pairs
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.measure import (
    DiscoveryPlan,
    QualityPlan,
    QualityReading,
    TuningPlan,
    check_delta,
    check_share,
    discovery_key,
    find_quality,
    known_values,
    plan_discovery,
    plan_quality,
    plan_tuning,
)
from dpxplain.privacy.calibration import normal_quantile, two_sided_quantile
from dpxplain.privacy.intervals import Interval, NoisyCount, bin_bounds, check_asked_confidence, shares_up_to
from dpxplain.results.base import Planned, ReleasedRows, ends_record
from dpxplain.results.schema_check import toml_key
from dpxplain.words import numbers
from dpxplain.words.prices import Price

# -- Data quality ------------------------------------------------------------------------------------------
#
# The shares of rows that are NULL, capped or left out, with intervals.

_NO_GROUP = "in no group"


@dataclass(frozen=True)
class QualityRow:
    """One kind of misfit of a column: the rows, the effect on them, and their number."""

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
                **ends_record("rows", row.rows),
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
    """The price of `quality`, and the margin of its counts."""

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


# -- Discovery ---------------------------------------------------------------------------------------------
#
# The discovered values of a column, and what discovering them would cost.


class Discovery(Frozen, Displayed, ReleasedRows[DiscoveryRelease, DiscoveredValue]):
    """The values whose noisy count of privacy units is above the threshold, in order."""

    def __init__(self, column: str, released: Released[DiscoveryRelease], spends: tuple[Spend, ...]) -> None:
        super().__init__(released)
        self.column = column
        self.spends = spends
        counts = zip(self.release.values, self.release.noisy_units, strict=True)
        self.rows = tuple(DiscoveredValue(value, units) for value, units in counts)
        self.freeze()

    @property
    def values(self) -> tuple[str, ...]:
        return self.release.values

    @property
    def delta(self) -> float:
        """The δ that this discovery spent."""
        return self.release.delta

    @property
    def threshold(self) -> int:
        """The number that the noisy count of units exceeds for every discovered value."""
        return self.release.threshold

    def records(self) -> list[Record]:
        return [{"value": row.value, "units": row.units} for row in self.rows]


@dataclass(frozen=True)
class DiscoveryPreview(Displayed, Tabular):
    """The price of a discovery, and the number of privacy units that a value needs to be found."""

    price: Price
    column: str
    delta: float
    threshold: int
    scale: float
    confidence: float = 0.95

    @property
    def found_units(self) -> int:
        """The number of units with which a value is found with this confidence."""
        return math.ceil(self.threshold + 1 - normal_quantile(1 - self.confidence) * self.scale)

    def records(self) -> list[Record]:
        return [
            {
                "column": self.column,
                "rho": self.price.rho,
                "delta": self.delta,
                "threshold": self.threshold,
                "remaining_after": self.price.remaining_after,
            }
        ]


class PlannedDiscovery(Planned[DiscoveryRelease, Discovery]):
    """A discovery, planned and not yet paid for."""

    plan: DiscoveryPlan

    def __init__(self, column: str, rho: float, delta: float | None, dataset: OpenDataset) -> None:
        plan = plan_discovery(dataset, column, rho, delta)
        body = {"column": column, "rho": rho, "delta": plan.delta}
        super().__init__(plan, Request(f"discover {column}", body), dataset)
        self.freeze()

    def show(self, released: Released[DiscoveryRelease]) -> Discovery:
        return Discovery(self.plan.column, released, self.plan.spends)

    @property
    def key(self) -> str:
        """Identity of the request, the same for every attempt."""
        return discovery_key(self.plan.schema, self.plan.column, self._dataset.seed)

    def _find(self) -> Released[DiscoveryRelease] | None:
        """The stored discovery, whatever its price was; None if no attempt has found values. Free."""
        stored = self._dataset.find(self.plan)
        return stored if stored is not None and stored.value.values else None

    def check(self, *, only_share: bool = False) -> None:
        """Raises, before any charge, if the column is discovered already or if less δ is left than asked for.

        With `only_share`, also raises if δ exceeds the column's even share.
        """
        plan, dataset = self.plan, self._dataset
        is_known = bool(known_values(plan.schema, plan.column, dataset.ledger, dataset.seed))
        if is_known or plan.column in dataset.schema.columns:
            raise BadRequest(
                f"The values of {self.plan.column} are already discovered.",
                remedy="Query it like any other column.",
            )
        check_delta(dataset, plan)
        if only_share:
            check_share(dataset, plan)

    def preview(self) -> DiscoveryPreview:
        is_stored = self.is_stored
        if not is_stored:
            self.check()
        price = Price.of(self.plan, self._dataset, free=is_stored)
        plan = self.plan
        return DiscoveryPreview(price, plan.column, plan.delta, plan.threshold, plan.scale)

    def run(self, dataset: OpenDataset | None = None) -> Discovery:
        """Finds the stored result or measures it, in the planned data set or the same caller's view of it."""
        if not self.is_stored:
            self.check()
        return super().run(dataset)


# -- Tuning ------------------------------------------------------------------------------------------------
#
# Bounds and max_rows proposed from one private release, with the share of values that each would cap.
#
# Proposals never exceed the declared bounds or max_rows. The schema is not changed: the curator adds the
# lines.

KEEP = 0.99
_USUAL_KEEPS = (0.9, 0.95, 0.99, 0.999)
_COST_OF_MOVING = 0.01  # of the declared range: an end is moved only if that saves more
_TINY_RANGE = 1e-3  # as a share of the declared range
_TUNE_AGAIN = "# max_rows decides which rows count: change max_rows first, then tune the bounds again.\n"


@public("BoundsProposal", "column keep low high below above average_noise sum_noise sure")
@dataclass(frozen=True)
class BoundsProposal:
    """Bounds that keep at least a share of a column's values, and what capping at them would change."""

    column: str
    keep: float
    low: float
    high: float
    below: Interval
    """The share of values below `low`, all of which would become `low`."""
    above: Interval
    average_noise: float
    """The noise of an average, as a multiple of the noise with the declared range."""
    sum_noise: float
    sure: bool
    """Whether the bounds surely keep the share; if not, they are the declared ones."""

    @property
    def is_too_narrow(self) -> bool:
        """Whether the declared bounds surely cap a larger share than 1 − `keep`."""
        return not self.sure and self.below[0] + self.above[0] > 1 - self.keep


@public("RowsProposal", "unit keep max_rows units_above rows_lost noise sure")
@dataclass(frozen=True)
class RowsProposal:
    """A max_rows that leaves at least a share of the privacy units whole, and what it would leave out."""

    unit: str
    """The privacy unit."""
    keep: float
    max_rows: int
    units_above: Interval
    """The share of units with more than `max_rows` rows."""
    rows_lost: Interval
    """The number of rows that these units have beyond `max_rows`. The upper end is rarely finite."""
    noise: float
    """The noise of every answer, at most, as a multiple of the noise with the declared max_rows."""
    sure: bool

    @property
    def is_too_low(self) -> bool:
        """Whether a larger share of units than 1 − `keep` surely has more rows than the declared max_rows."""
        return not self.sure and self.units_above[0] > 1 - self.keep


class Tuning(Frozen, Displayed, ReleasedRows[TuningRelease, BoundsProposal]):
    """Proposed bounds and max_rows, at several shares to keep.

    >>> import dpxplain as dpx
    >>> tuning = dpx.example("adult").tune(rho=0.1, columns=["age"])
    >>> print(tuning.toml())  # doctest: +SKIP
    [columns.age]
    bounds = [10, 80]
    """

    def __init__(
        self, plan: TuningPlan, released: Released[TuningRelease], confidence: float, keep: float
    ) -> None:
        self.plan = plan
        super().__init__(released)
        self.confidence = check_asked_confidence(confidence)
        self.keep = check_keep(keep)
        self.keeps = tuple(sorted({*_USUAL_KEEPS, self.keep}))
        self.rows = tuple(row for place in range(len(plan.columns)) for row in self._of_column(place))
        self.max_rows = tuple(self._of_units())
        self.freeze()

    @property
    def schema(self) -> Schema:
        """The curator's schema, which is public."""
        return self.plan.schema

    @property
    def spends(self) -> tuple[Spend, ...]:
        return self.plan.spends

    def toml(self, keep: float | None = None) -> str:
        """The lines to put into the schema; empty if nothing better than the declared values was found.

        A smaller max_rows is returned alone, because it changes which rows count. Change it first, then tune
        the bounds again.
        """
        share = self.keep if keep is None else keep
        if share not in self.keeps:
            raise BadRequest(
                f"There is no proposal that keeps {share!r}.",
                remedy=f"Ask for it with tune(keep={share!r}).",
            )
        declared = self.schema.privacy.max_rows
        for units in self.max_rows:
            if units.keep == share and units.max_rows != declared:
                return f"{_TUNE_AGAIN if self.rows else ''}[privacy]\nmax_rows = {units.max_rows}"
        blocks = [
            f"[columns.{toml_key(row.column)}]\nbounds = [{edge_text(row.low)}, {edge_text(row.high)}]"
            for row in self.rows
            if row.keep == share and (row.low, row.high) != self.schema.column(row.column).bounds
        ]
        return "\n\n".join(blocks)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the meaning of the shares, their limits, and the effect of new declarations."""
        sure = numbers.level(self.confidence)
        return (
            f"All intervals of one column hold together with {sure} confidence, and so do those of max_rows. "
            "The shares are percentages of the values in counted rows, without NULL. They do not say how far "
            "values lie beyond the bounds, nor how much capping would change a sum or an average.",
            *self._may_count_other_rows(),
            *self._unimproved(),
            *self._narrow_declarations(),
            *self._tiny_ranges(),
            "Nothing was written. If you change the bounds or max_rows, every query must be paid for again.",
        )

    def _may_count_other_rows(self) -> Iterator[str]:
        if self.schema.privacy.unit != "row" and self.rows:
            yield (
                "If a privacy unit has more than max_rows rows, new bounds or a new max_rows can change "
                "which of its rows count. The shares may then change too."
            )

    def _narrow_declarations(self) -> Iterator[str]:
        """Sentences about declarations that certainly cap or cut more than the share asked for allows."""
        lost = numbers.level(1 - self.keep)
        columns = [row.column for row in self.rows if row.keep == self.keep and row.is_too_narrow]
        if columns:
            names = ", ".join(columns)
            yield f"The declared bounds of {names} cap more than {lost} of the values. Widen them."
        if any(row.keep == self.keep and row.is_too_low for row in self.max_rows):
            yield (
                f"More than {lost} of the privacy units have more rows than the declared max_rows. Raise "
                "max_rows."
            )

    def _tiny_ranges(self) -> Iterator[str]:
        rows = [row for row in self.rows if row.keep == self.keep and row.average_noise < _TINY_RANGE]
        if rows:
            yield (
                "The proposed bounds are less than a thousandth of the declared range for "
                f"{', '.join(row.column for row in rows)}. Most values are nearly the same, such as 0, and "
                "these bounds would cap the others."
            )

    def _unimproved(self) -> Iterator[str]:
        """A sentence about the declarations for which no better proposal was found."""
        rows = [row for row in self.rows if row.keep == self.keep]
        unimproved = [row.column for row in rows if row.average_noise == 1.0 and not row.is_too_narrow]
        units = [row for row in self.max_rows if row.keep == self.keep]
        unimproved += ["max_rows" for row in units if row.noise == 1.0 and not row.is_too_low]
        if unimproved:
            yield (
                f"No better proposal is certain to keep {numbers.level(self.keep)} of the values for "
                f"{', '.join(unimproved)}. A larger ρ, fewer columns at once or a smaller keep may find one."
            )

    def records(self) -> list[Record]:
        bounds: list[Record] = [
            {
                "of": row.column,
                "keep": row.keep,
                "low": row.low,
                "high": row.high,
                "max_rows": None,
                **ends_record("below", row.below),
                **ends_record("above", row.above),
                "average_noise": row.average_noise,
                "sum_noise": row.sum_noise,
                "sure": row.sure,
            }
            for row in self.rows
        ]
        return bounds + [
            {
                "of": self.schema.privacy.unit,
                "keep": row.keep,
                "low": None,
                "high": None,
                "max_rows": row.max_rows,
                **ends_record("below", None),
                **ends_record("above", row.units_above),
                "average_noise": row.noise,
                "sum_noise": row.noise,
                "sure": row.sure,
            }
            for row in self.max_rows
        ]

    def _of_column(self, place: int) -> Iterator[BoundsProposal]:
        name, release = self.plan.columns[place], self.release
        assert release.bins_scale is not None
        edges, pairs = release.bin_edges[place], tuned_pairs(self.schema.column(name))
        counts = np.array(release.noisy_bins[place])
        _, *ends = shares_up_to(counts, release.bins_scale, self.confidence)
        least, most = (part.tolist()[1:-1] for part in ends)  # one for each edge
        for keep in self.keeps:
            sure_pairs = [(i, j) for i, j in pairs if most[i] + 1 - least[j] <= 1 - keep]
            i, j = _narrowest(edges, sure_pairs) if sure_pairs else (0, len(edges) - 1)
            low, high = edges[i], edges[j]
            yield BoundsProposal(
                name,
                keep,
                low,
                high,
                below=(least[max(i - 1, 0)], most[i]),  # values exactly at an inner edge are not below it
                above=(1 - most[j], 1 - least[j]),
                average_noise=(high - low) / (edges[-1] - edges[0]),
                sum_noise=max(abs(low), abs(high)) / max(abs(edges[0]), abs(edges[-1])),
                sure=bool(sure_pairs),
            )

    def _of_units(self) -> Iterator[RowsProposal]:
        release, sizes = self.release, self.release.unit_sizes
        if release.units_scale is None:
            return
        half = 1 - (1 - self.confidence) / 2  # so that the shares and the rows lost hold together
        _, least, most = shares_up_to(np.array(release.noisy_units), release.units_scale, half)
        counts = bin_bounds([NoisyCount(value, release.units_scale) for value in release.noisy_units], half)
        last = len(sizes)
        for keep in self.keeps:
            sure_places = [p for p in range(1, last + 1) if 1 - least[p] <= 1 - keep]
            place = min(sure_places, default=last)
            size = sizes[place - 1]
            yield RowsProposal(
                self.schema.privacy.unit,
                keep,
                size,
                units_above=(1 - float(most[place]), 1 - float(least[place])),
                rows_lost=_rows_lost(size, sizes[place - 1 :], counts[place:]),
                noise=size / sizes[-1],
                sure=bool(sure_places),
            )


def _narrowest(edges: Sequence[float], pairs: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The edges of the narrowest range, where each end that is moved costs `_COST_OF_MOVING`."""
    last, width = len(edges) - 1, edges[-1] - edges[0]
    return min(
        pairs,
        key=lambda pair: (
            (edges[pair[1]] - edges[pair[0]]) / width + _COST_OF_MOVING * ((pair[0] > 0) + (pair[1] < last))
        ),
    )


def _rows_lost(size: int, sizes: Sequence[int], counts: Sequence[tuple[int, int]]) -> Interval:
    """The rows beyond `size` of units in (sizes[0], sizes[1]], ..., above the last size."""
    ends = pairwise((*sizes, math.inf))
    lost = [
        ((low + 1 - size) * few, (high - size) * many if many else 0.0)
        for (low, high), (few, many) in zip(ends, counts, strict=True)
    ]
    return math.fsum(low for low, _ in lost), math.fsum(high for _, high in lost)


def check_keep(keep: float) -> float:
    number = plain_number(keep)
    if number is None or not 0.5 <= number < 1:
        raise BadRequest(
            "keep must be at least 0.5 and below 1.",
            remedy="Pass the share of values to keep as they are, such as 0.99.",
        )
    return number


@dataclass(frozen=True)
class TuningPreview(Displayed, Tabular):
    """The price of `tune`, and the margins of the counts behind its shares."""

    price: Price
    plan: TuningPlan
    confidence: float

    @property
    def margin(self) -> float | None:
        """The largest margin for a number of values beyond a bound; None if no column is tuned."""
        scale, parts = self.plan.bins_scale, self.plan.asked.partitions
        if scale is None:
            return None
        return max(_reach(len(part.categories), scale, self.confidence) for part in parts)

    @property
    def units_margin(self) -> float | None:
        """The margin for a number of units with more rows than a size; None if a row is the unit."""
        scale = self.plan.units_scale
        half = 1 - (1 - self.confidence) / 2
        return None if scale is None else _reach(len(self.plan.asked.sizes) + 1, scale, half)

    @property
    def expected(self) -> Iterator[str]:
        """The margins of the numbers behind the shares, as sentences."""
        sure = f"({numbers.level(self.confidence)} interval)"
        if self.margin is not None:
            many = numbers.number(self.margin)
            yield f"The number of values beyond a bound will be accurate to about ±{many} {sure}."
        if self.units_margin is not None:
            many = numbers.number(self.units_margin)
            yield f"The number of privacy units above a max_rows will be accurate to about ±{many} {sure}."

    def records(self) -> list[Record]:
        return [
            {
                "rho": self.plan.rho,
                "columns": ", ".join(self.plan.columns),
                "margin": self.margin,
                "units_margin": self.units_margin,
                "remaining_after": self.price.remaining_after,
            }
        ]


def _reach(bins: int, scale: float, confidence: float) -> float:
    """An upper estimate of the half-width for a number of values beyond an edge, whatever the share."""
    if bins < 2:
        return 0.0
    return two_sided_quantile(1 - (1 - confidence) / (bins - 1)) * scale * math.sqrt(bins)


class PlannedTuning(Planned[TuningRelease, Tuning]):
    """The tuning of a data set's declarations, planned and not yet paid for."""

    plan: TuningPlan

    def __init__(
        self, rho: float, columns: Sequence[str], keep: float, confidence: float, dataset: OpenDataset
    ) -> None:
        plan = plan_tuning(dataset.schema, rho, columns)
        body = {"rho": rho, "columns": list(plan.columns)}
        super().__init__(plan, Request(f"tune {', '.join(plan.columns) or 'max_rows'}", body), dataset)
        self.keep = check_keep(keep)
        self.confidence = check_asked_confidence(confidence)
        self.freeze()

    def show(self, released: Released[TuningRelease]) -> Tuning:
        return Tuning(self.plan, released, self.confidence, self.keep)

    def preview(self) -> TuningPreview:
        price = Price.of(self.plan, self._dataset, free=self.is_stored)
        return TuningPreview(price, self.plan, self.confidence)
