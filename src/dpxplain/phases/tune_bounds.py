"""Private histograms from which the bounds of columns and max_rows are chosen (docs/proofs/tuning.md).

Measured once and stored; every proposal is read from them at no further cost.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpxplain.errors import BadRequest
from dpxplain.model.budget import check_rho, remainder
from dpxplain.model.caching import cached_property
from dpxplain.model.charge import Charge, Event, Request, Spend, spends
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import FitQuestion, TuningRelease, tuned_pairs, tuned_sizes
from dpxplain.model.spelling import did_you_mean
from dpxplain.phases.dataset import OpenDataset
from dpxplain.privacy.calibration import LARGEST_SCALE, gaussian_scale
from dpxplain.privacy.mechanisms.gaussian import add_gaussian
from dpxplain.privacy.sensitivity import count_sensitivity, fit_sensitivity

KIND = "tune"
_UNITS_SHARE = 0.1  # of ρ; one unit changes its own count by 1, but counts of rows by up to max_rows


@dataclass(frozen=True)
class TuningPlan:
    """What the histograms will cost and how noisy they will be, from public quantities only."""

    columns: tuple[str, ...]
    rho: float
    rho_rows: float
    rho_units: float
    schema: Schema = field(compare=False, repr=False)

    @property
    def spends(self) -> tuple[Spend, ...]:
        return spends((Event.BINS, self.rho_rows), (Event.UNIT_COUNTS, self.rho_units))

    @cached_property
    def asked(self) -> FitQuestion:
        return FitQuestion.of_tuning(self.schema, self.columns)

    @property
    def rows_sensitivity(self) -> float:
        """A row is in at most one bin of each column (docs/proofs/tuning.md, theorem 1)."""
        privacy = self.schema.privacy
        return fit_sensitivity(len(self.columns), privacy.max_rows, privacy.neighbours)

    @property
    def units_sensitivity(self) -> float:
        return count_sensitivity(1, self.schema.privacy.neighbours)

    @property
    def bins_scale(self) -> float | None:
        return gaussian_scale(self.rows_sensitivity, self.rho_rows) if self.columns else None

    @property
    def units_scale(self) -> float | None:
        return gaussian_scale(self.units_sensitivity, self.rho_units) if self.asked.sizes else None

    def key(self, dataset: OpenDataset) -> str:
        return dataset.request_key(KIND, self.rho, *self.columns)

    @property
    def shape(self) -> Hashable:
        return self.columns

    def charge(self, dataset: OpenDataset, request: Request) -> Charge:
        return Charge(KIND, self.key(dataset), request, self.rho, self.spends)

    def read(self, text: str) -> TuningRelease:
        return TuningRelease.from_json(text)

    def measure(self, dataset: OpenDataset) -> TuningRelease:
        dataset.progress("Counting where the values lie")
        counts = dataset.fit(self.asked)
        bins: tuple[tuple[float, ...], ...] = ()
        units: tuple[float, ...] = ()
        if self.columns:
            rows = add_gaussian(
                counts.map(lambda c: c.rows),
                sensitivity=self.rows_sensitivity,
                rho=self.rho_rows,
                noise=dataset.noise,
            )
            ends = np.cumsum([len(part.categories) for part in self.asked.partitions])[:-1]
            bins = tuple(tuple(part.tolist()) for part in np.split(rows.values, ends))
        if self.asked.sizes:
            sizes = add_gaussian(
                counts.map(lambda c: c.units),
                sensitivity=self.units_sensitivity,
                rho=self.rho_units,
                noise=dataset.noise,
            )
            units = tuple(sizes.values.tolist())
        return TuningRelease(
            rho=self.rho,
            columns=self.columns,
            noisy_bins=bins,
            bin_edges=tuple(part.edges for part in self.asked.partitions),
            bins_scale=self.bins_scale,
            noisy_units=units,
            unit_sizes=self.asked.sizes,
            units_scale=self.units_scale,
            private=dataset.noise.private,
        )


def plan_tuning(schema: Schema, rho: float, columns: Sequence[str] = ()) -> TuningPlan:
    """Splits ρ, or refuses what cannot be tuned; reads no data. By default for all columns with bounds."""
    rho = check_rho(rho)
    chosen = _named(schema, columns) or _bounded(schema)
    has_units = bool(tuned_sizes(schema))
    if not chosen and not has_units:
        raise BadRequest(
            "There is nothing to tune: no bounds can be made narrower, and max_rows cannot be lowered.",
            remedy="Declare generous bounds for a numeric column from public knowledge. Tuning then makes "
            "them narrower. Or name a column with numeric edges. Tuning then chooses among these edges.",
        )
    of_units = 0.0 if not has_units else rho * _UNITS_SHARE if chosen else rho
    plan = TuningPlan(chosen, rho, remainder(rho, of_units) if chosen else 0.0, of_units, schema)
    scales = (plan.bins_scale, plan.units_scale)
    if not all(scale <= LARGEST_SCALE for scale in scales if scale is not None):
        raise BadRequest(f"rho={rho!r} is too small to measure anything.", remedy="Use a larger rho.")
    return plan


def _bounded(schema: Schema) -> tuple[str, ...]:
    """The numeric columns whose bounds may become narrower.

    Expressions are left out, because their bounds follow from other columns.
    """
    return tuple(
        name
        for name, column in schema.columns.items()
        if column.is_summable and column.expression is None and len(tuned_pairs(column)) > 1
    )


def _named(schema: Schema, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns asked for, in the order of the schema: one release for any order."""
    is_list = isinstance(columns, Sequence) and not isinstance(columns, str)
    if not is_list or not all(isinstance(name, str) for name in columns):
        raise BadRequest(
            "columns must be a list of column names.",
            remedy='Write columns=["pay"], or leave it out for all columns with bounds.',
        )
    for name in columns:
        _check_column(schema, name)
    return tuple(name for name in schema.columns if name in columns)


def _check_column(schema: Schema, name: str) -> None:
    if name not in schema.columns:
        raise BadRequest(
            f"{name!r} is not a declared column.",
            remedy=did_you_mean(name, schema.columns) or "Name a column with bounds or numeric edges.",
        )
    column = schema.column(name)
    if column.expression is not None:
        raise BadRequest(
            f"The bounds of {name} follow from its expression, so they cannot be tuned.",
            remedy="Tune the columns that the expression uses.",
        )
    if column.is_temporal or (column.bounds is None and column.edges is None):
        raise BadRequest(
            f"{name} has no numeric bounds or edges to tune.",
            remedy="Name a column with bounds or numeric edges. Only numbers are capped.",
        )
    if len(tuned_pairs(column)) == 1:
        raise BadRequest(
            f"The bounds or edges of {name} cannot be narrowed: no round number lies between them.",
            remedy="`quality` shows the share of values beyond them.",
        )
