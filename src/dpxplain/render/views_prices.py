"""Views of previews, preparations, data quality, discoveries and tunings: prices, and what they buy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpxplain.model.dates import edge_text
from dpxplain.phases.prepare_answer import Preparation
from dpxplain.privacy.calibration import two_sided_quantile
from dpxplain.render.layout import MOST_ROWS, Column, Grid, View, view
from dpxplain.results.discovery import Discovery, DiscoveryPreview
from dpxplain.results.prepared import PreparationPreview, Prepared
from dpxplain.results.preview import CustomPreview, ExplanationPreview, QueriesPreview, QueryPreview
from dpxplain.results.quality import Quality, QualityPreview, QualityRow
from dpxplain.results.tuning import BoundsProposal, RowsProposal, Tuning, TuningPreview
from dpxplain.words import data_quality, numbers, prices
from dpxplain.words.questions import EACH_INTERVAL, NOT_PRIVATE

_VAGUE = 0.05  # a share that may be larger than this is not known to be small
_ANY = "for any groups, weights, k and confidence, as often as you like"


@view.register
def of_query_preview(preview: QueryPreview, most: int = MOST_ROWS) -> View:
    return _query_preview(preview, (), _margins(preview))


@view.register
def of_queries_preview(preview: QueriesPreview, most: int = MOST_ROWS) -> View:
    rows = [(numbers.clean(name), *row) for name, part in preview.parts for row in _margins(part)]
    return _query_preview(preview, (Column("aggregate", wrap=True),), rows)


def _query_preview(
    preview: QueryPreview | QueriesPreview, before: tuple[Column, ...], rows: Sequence[tuple[str, ...]]
) -> View:
    expected = f"expected {numbers.level(preview.confidence)} interval"
    return View(
        title="Preview of a query: nothing is spent",
        sql=numbers.clean(preview.sql),
        lead=(
            *prices.price(preview.price),
            f"It returns {numbers.counted(preview.groups, 'group')}.",
        ),
        notes=preview.shaped_by,
        lines=tuple(map(numbers.clean, preview.notes)) if isinstance(preview, QueriesPreview) else (),
        grid=Grid((*before, Column("rows in the group", "right"), Column(expected)), tuple(rows)),
    )


def _margins(preview: QueryPreview) -> list[tuple[str, str]]:
    if preview.margin is not None:
        return [("any", f"± {numbers.number(preview.margin)}")]
    return [(f"{size:,}", f"± {numbers.number(margin)}") for size, margin in preview.margin_by_group_size]


def _shown_conditions(k: int, size: int) -> str:
    """Which conditions a table of k lines has.

    >>> _shown_conditions(5, 10), _shown_conditions(1, 10), _shown_conditions(10, 10)
    ('The 5 most influential of 10 conditions', 'The most influential of 10 conditions', 'All 10 conditions')
    """
    if k >= size:
        return "The only condition" if size == 1 else f"All {numbers.counted(size, 'condition')}"
    return f"The {'' if k == 1 else f'{k:,} '}most influential of {numbers.counted(size, 'condition')}"


@view.register
def of_explanation_preview(preview: ExplanationPreview, most: int = MOST_ROWS) -> View:
    margins = [("influence", f"± {numbers.number(preview.influence_margin)}")]
    if preview.relative_margin is not None:
        margins.append(("relative influence", f"± {numbers.number(preview.relative_margin * 100)}%"))
    if preview.gap_margin is not None:
        margins.append((f"{preview.measured} without them", f"± {preview.unit.number(preview.gap_margin)}"))
    margins.append(
        ("ranks", f"clear if influences differ by more than {numbers.number(preview.rank_resolution)}")
    )
    prepares = preview.mechanism == "marginals" and not preview.price.free
    return View(
        title="Preview of an explanation: nothing is spent",
        lead=(
            numbers.clean(preview.question),
            *prices.price(preview.price),
            *(
                ("This also prepares the answer. Every further explanation of it will be free.",)
                if prepares
                else ()
            ),
        ),
        grid=Grid(
            (Column("for each condition"), Column(f"expected {numbers.level(preview.confidence)} interval")),
            tuple(margins),
        ),
        notes=(
            f"{_shown_conditions(preview.k, preview.family_size)}, "
            f"by the {preview.mechanism} mechanism ({preview.reason}).",
            *preview.promises,
        ),
    )


@view.register
def of_custom_preview(preview: CustomPreview, most: int = MOST_ROWS) -> View:
    rows = tuple(
        (name, f"possible values after {numbers.counted(count, 'changed row')}")
        for name, count in (("influence", preview.influence_rows), ("rank", preview.rank_rows))
    )
    widths = Column(f"{numbers.level(preview.confidence)} interval, at most")
    return View(
        title="Preview of an explanation: nothing is spent",
        lead=(
            numbers.clean(preview.question),
            f"{_shown_conditions(preview.k, preview.family_size)}, "
            f"by the influence “{numbers.clean(preview.influence)}”.",
            *prices.price(preview.price),
        ),
        grid=Grid((Column("for each condition"), widths), rows),
        notes=preview.promises,
    )


@view.register
def of_preparation_preview(preview: PreparationPreview, most: int = MOST_ROWS) -> View:
    return View(
        title="Preview of preparing an answer: nothing is spent",
        sql=numbers.clean(preview.sql),
        lead=(
            *prices.price(preview.price),
            f"Afterwards every explanation of this answer is free, {_ANY}.",
            preview.forecast,
        ),
        grid=_bought(preview.plan, "would be measured", preview.confidence),
    )


@view.register
def of_prepared(prepared: Prepared, most: int = MOST_ROWS) -> View:
    already = "It was prepared before, so nothing was spent now." if prepared.free else ""
    return View(
        title="Prepared: every explanation of this answer is now free.",
        warning="" if prepared.private else NOT_PRIVATE,
        lead=tuple(filter(None, (already, prepared.summary))),
        grid=replace(_bought(prepared.plan, "measured once"), folded="What was measured, and how precisely"),
        notes=(*prepared.shaped_by, prices.cost(prepared.rho, prepared.spends)),
    )


def _bought(plan: Preparation, title: str, confidence: float = 0.95) -> Grid:
    reach, level = two_sided_quantile(confidence), numbers.level(confidence)
    rows = [
        ("groups", f"{plan.groups:,}"),
        ("conditions", f"{plan.family.size:,}"),
        ("noisy cells", f"{plan.cells:,}"),
        (f"noise in a cell's row count ({level})", f"± {numbers.number(reach * plan.count_scale)}"),
    ]
    if plan.total_scale is not None:
        rows.append((f"noise in a cell's sum ({level})", f"± {numbers.number(reach * plan.total_scale)}"))
    return Grid((Column(title), Column("", "right")), tuple(rows))


@view.register
def of_quality(quality: Quality, most: int = MOST_ROWS) -> View:
    level, schema = numbers.level(quality.confidence), quality.schema
    facts = [fact for fact in _quality_facts(quality) if fact[0].interval[0] > 0]
    rows = [
        (
            numbers.clean(row.column),
            row.misfit,
            ", ".join(effects),
            numbers.percent(*row.interval),
            numbers.interval(*row.rows),
        )
        for row, effects in facts
    ]
    if quality.units_above[0] > 0:
        unit, value = numbers.clean(schema.privacy.unit), data_quality.units_misfit(schema.privacy.max_rows)
        share = f"{numbers.percent(*quality.units_above)} of them"
        rows.append((unit, value, "further rows not counted", share, prices.lost(*quality.rows_lost)))
    return View(
        title=f"Data quality: {numbers.clean(schema.table.name)}",
        warning="" if quality.private else NOT_PRIVATE,
        lead=(prices.QUALITY_USE,),
        grid=Grid(
            (
                Column("column", wrap=True),
                Column("value", wrap=True),
                Column("effect", wrap=True),
                Column(f"share, {level} interval", "right"),
                Column("rows", "right"),
            ),
            tuple(rows),
        )
        if rows
        else None,
        lines=_nothing_to_report(quality, {row.column for row, _ in facts}),
        notes=(
            *((*data_quality.quality_limits(schema), EACH_INTERVAL.format(level)) if rows else ()),
            prices.cost(quality.rho, quality.spends, quality.free),
        ),
    )


def _quality_facts(quality: Quality) -> list[tuple[QualityRow, tuple[str, ...]]]:
    """One row per column and kind of misfit, with all effects on these rows.

    Values above both the edges and the bounds, for example, are counted twice. The first count is shown.
    """
    facts: dict[tuple[str, str], list[QualityRow]] = {}
    for row in quality:
        facts.setdefault((row.column, row.misfit), []).append(row)
    return [(rows[0], tuple(row.effect for row in rows)) for rows in facts.values()]


def _nothing_to_report(quality: Quality, reported: set[str]) -> tuple[str, ...]:
    """A sentence about the columns that have no line, with the largest share they may have."""
    folded = [row for row, _ in _quality_facts(quality) if row.column not in reported]
    if not folded:
        return ()
    most = max(row.interval[1] for row in folded)
    columns = numbers.counted(len({row.column for row in folded}), f"{'other ' if reported else ''}column")
    share = f"{numbers.at_most(100 * most)}%"
    if most > _VAGUE:
        return (f"Too noisy to report on {columns}: shares may be up to {share}. A larger ρ would help.",)
    return (f"Nothing to report for {columns}: each share is at most {share}.",)


@view.register
def of_discovery(discovery: Discovery, most: int = MOST_ROWS) -> View:
    rows = discovery.rows[:most]
    number = f"{len(discovery.rows):,} value{'' if len(discovery.rows) == 1 else 's'}"
    return View(
        title=f"Values of {numbers.clean(discovery.column)}: {number}",
        warning="" if discovery.private else NOT_PRIVATE,
        lead=(
            "You can now group by this column, filter by it and explain with it. Other values are not in its "
            "list."
            if discovery.rows
            else "No value has enough privacy units, so you still cannot use this column.",
        ),
        grid=Grid(
            (Column("value", wrap=True), Column("units, noisy", "right")),
            tuple((numbers.clean(row.value), numbers.number(row.units)) for row in rows),
            more=numbers.more(len(discovery.rows) - len(rows), "value"),
        )
        if rows
        else None,
        lines=(
            prices.threshold(discovery.threshold, discovery.delta),
            prices.cost(discovery.rho, discovery.spends, discovery.free),
        ),
    )


@view.register
def of_discovery_preview(preview: DiscoveryPreview, most: int = MOST_ROWS) -> View:
    return View(
        title=f"Preview of discovering {numbers.clean(preview.column)}: nothing is spent",
        lead=(
            *prices.price(preview.price),
            prices.threshold(preview.threshold, preview.delta),
            f"A value shared by {preview.found_units:,} privacy units will be found with "
            f"{numbers.level(preview.confidence)} confidence.",
        ),
    )


@view.register
def of_quality_preview(preview: QualityPreview, most: int = MOST_ROWS) -> View:
    return View(
        title="Preview of data quality: nothing is spent",
        lead=(*prices.price(preview.price), prices.expected_count(preview.margin, preview.confidence)),
    )


@view.register
def of_tuning(tuning: Tuning, most: int = MOST_ROWS) -> View:
    toml = tuning.toml()
    surely = all(row.sure for row in tuning.rows) and all(row.sure for row in tuning.max_rows)
    kept = "values unchanged" if toml.startswith("[columns.") else "privacy units whole"
    keep = f"{numbers.level(tuning.keep)} of the {kept}"
    lines = f"To keep {keep}, put this into the schema:\n{toml}" if toml else ""
    grids = [
        Grid(
            (
                Column("column", wrap=True),
                Column("keep", "right"),
                Column("low", "right"),
                Column("high", "right"),
                Column("below", "right"),
                Column("above", "right"),
                Column("noise", "right"),
            ),
            tuple(
                (
                    numbers.clean(row.column),
                    _kept(row),
                    edge_text(row.low, ","),
                    edge_text(row.high, ","),
                    numbers.percent(*row.below),
                    numbers.percent(*row.above),
                    f"× {numbers.number(row.average_noise)}",
                )
                for row in tuning.rows
            ),
        )
    ]
    if tuning.max_rows:
        grids.append(_max_rows(tuning))
    grids = [grid for grid in grids if grid.rows]
    return View(
        title=f"Bounds for {numbers.clean(tuning.schema.table.name)}, within the declared bounds",
        warning="" if tuning.private else NOT_PRIVATE,
        grid=grids[0] if grids else None,
        further=tuple(grids[1:]),
        lines=(
            *((lines,) if lines else ()),
            *(() if surely else ("?: this share may not be reached.",)),
            "noise: how much noise an average would have (for max_rows: every answer), compared with now.",
            *map(numbers.clean, tuning.notes),
            prices.cost(tuning.rho, tuning.spends, tuning.free),
        ),
    )


def _kept(row: BoundsProposal | RowsProposal) -> str:
    return numbers.level(row.keep) if row.sure else f"{numbers.level(row.keep)}?"


def _max_rows(tuning: Tuning) -> Grid:
    unit = numbers.clean(tuning.schema.privacy.unit)
    return Grid(
        (
            Column("keep whole", "right"),
            Column("max_rows", "right"),
            Column(f"{unit} with more", "right"),
            Column("rows lost", "right"),
            Column("noise", "right"),
        ),
        tuple(
            (
                _kept(row),
                f"{row.max_rows:,}",
                numbers.percent(*row.units_above),
                prices.lost(*row.rows_lost),
                f"× {numbers.number(row.noise)}",
            )
            for row in tuning.max_rows
        ),
    )


@view.register
def of_tuning_preview(preview: TuningPreview, most: int = MOST_ROWS) -> View:
    return View(
        title="Preview of tuning bounds: nothing is spent",
        lead=(*prices.price(preview.price), *preview.expected),
    )
