"""What the quality of a data set shows: one line per kind of misfit, with its private share."""

from __future__ import annotations

import math

from dpxplain.render import words
from dpxplain.render.layout import MOST_ROWS, Column, Grid, View, view
from dpxplain.results import formats
from dpxplain.results.quality import Quality, QualityPreview
from dpxplain.results.sentences import NOT_PRIVATE

_NOT_TOLD = (
    "Shares are of all rows, not of single groups. How far values lie beyond their bounds is not told, "
    "so how far clamping moved a sum or an average cannot be bounded."
)
_UNITS_NOT_TOLD = "How many rows the largest {unit} has is not told: one alone could have any number."


@view.register
def of_quality(quality: Quality, most: int = MOST_ROWS) -> View:
    level, schema = formats.level(quality.confidence), quality.schema
    rows = [
        (
            formats.clean(row.column),
            row.misfit,
            formats.percent(*row.interval),
            formats.interval(*row.rows),
        )
        for row in quality
    ]
    has_units = schema.privacy.unit != "row"
    unit = formats.clean(schema.privacy.unit)
    if has_units:
        rows.append(
            (
                unit,
                f"more than {schema.privacy.max_rows:,} rows",
                formats.percent(*quality.units_above),
                _lost(*quality.rows_lost),
            )
        )
    return View(
        title=f"Quality of {formats.clean(schema.table.name)}: what its declarations clamp and leave out",
        warning="" if quality.private else NOT_PRIVATE,
        lead=("From now on every answer says how much of the data its declarations touch.",),
        grid=Grid(
            (
                Column("of", wrap=True),
                Column("which is", wrap=True),
                Column(f"share, {level} interval", "right"),
                Column("rows", "right"),
            ),
            tuple(rows),
        ),
        notes=(
            _NOT_TOLD,
            *((_UNITS_NOT_TOLD.format(unit=unit),) if has_units else ()),
            words.each_interval(quality.confidence),
            words.cost(quality.rho, quality.spends, quality.free),
        ),
    )


@view.register
def of_quality_preview(preview: QualityPreview, most: int = MOST_ROWS) -> View:
    return View(
        title="Preview of a data set's quality: nothing is spent",
        lead=(*words.price(preview.price), words.expected_count(preview.margin, preview.confidence)),
    )


def _lost(low: float, high: float) -> str:
    """The rows that max_rows leaves out."""
    return (
        formats.interval(low, high) + " lost"
        if math.isfinite(high)
        else f"at least {formats.number(low)} lost"
    )
