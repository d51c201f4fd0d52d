"""What previews, preparations and the quality of a data set show: prices, and what they buy."""

from __future__ import annotations

from collections.abc import Sequence

from dpxplain.model.dates import edge_text
from dpxplain.phases.prepare_answer import Preparation
from dpxplain.privacy.calibration import two_sided_quantile
from dpxplain.render import words
from dpxplain.render.layout import MOST_ROWS, Column, Grid, View, view
from dpxplain.results import formats
from dpxplain.results.discovery import Discovery, DiscoveryPreview
from dpxplain.results.prepared import PreparationPreview, Prepared
from dpxplain.results.preview import CustomPreview, ExplanationPreview, QueriesPreview, QueryPreview
from dpxplain.results.quality import Quality, QualityPreview
from dpxplain.results.sentences import NOT_PRIVATE
from dpxplain.results.tuning import BoundsProposal, RowsProposal, Tuning, TuningPreview

_ANY = "for any groups, weights, k and confidence, as often as you like"


@view.register
def of_query_preview(preview: QueryPreview, most: int = MOST_ROWS) -> View:
    return _query_preview(preview, (), _margins(preview))


@view.register
def of_queries_preview(preview: QueriesPreview, most: int = MOST_ROWS) -> View:
    rows = [(formats.clean(name), *row) for name, part in preview.parts for row in _margins(part)]
    return _query_preview(preview, (Column("aggregate", wrap=True),), rows)


def _query_preview(
    preview: QueryPreview | QueriesPreview, before: tuple[Column, ...], rows: Sequence[tuple[str, ...]]
) -> View:
    expected = f"expected {formats.level(preview.confidence)} interval"
    return View(
        title="Preview of a query: nothing is spent",
        sql=formats.clean(preview.sql),
        lead=(*words.price(preview.price), f"It answers {words.counted(preview.groups, 'declared group')}."),
        shaped_by=preview.shaped_by,
        notes=tuple(map(formats.clean, preview.notes)) if isinstance(preview, QueriesPreview) else (),
        grid=Grid((*before, Column("rows in the group", "right"), Column(expected)), tuple(rows)),
    )


def _margins(preview: QueryPreview) -> list[tuple[str, str]]:
    if preview.margin is not None:
        return [("any", f"± {formats.number(preview.margin)}")]
    return [(f"{size:,}", f"± {formats.number(margin)}") for size, margin in preview.margin_by_group_size]


def _shown_conditions(k: int, size: int) -> str:
    """Which conditions a table of k lines has.

    >>> _shown_conditions(5, 10), _shown_conditions(1, 10), _shown_conditions(10, 10)
    ('The 5 most influential of 10 conditions', 'The most influential of 10 conditions', 'All 10 conditions')
    """
    if k >= size:
        return "The only condition" if size == 1 else f"All {words.counted(size, 'condition')}"
    return f"The {'' if k == 1 else f'{k:,} '}most influential of {words.counted(size, 'condition')}"


@view.register
def of_explanation_preview(preview: ExplanationPreview, most: int = MOST_ROWS) -> View:
    margins = [("influence", f"± {formats.number(preview.influence_margin)}")]
    if preview.relative_margin is not None:
        margins.append(("relative influence", f"± {formats.number(preview.relative_margin * 100)}%"))
    if preview.gap_margin is not None:
        margins.append((f"{preview.measured} without them", f"± {preview.unit.number(preview.gap_margin)}"))
    margins.append(("ranks", f"told apart beyond {formats.number(preview.rank_resolution)} of influence"))
    prepares = preview.mechanism == "marginals" and not preview.price.free
    return View(
        title="Preview of an explanation: nothing is spent",
        lead=(
            formats.clean(preview.question),
            f"{_shown_conditions(preview.k, preview.family_size)}, "
            f"by the {preview.mechanism} mechanism ({preview.reason}).",
            *words.price(preview.price),
            *(("It prepares the answer: every further why on it will be free.",) if prepares else ()),
        ),
        grid=Grid(
            (Column("of each condition"), Column(f"expected {formats.level(preview.confidence)} interval")),
            tuple(margins),
        ),
        notes=preview.promises,
    )


@view.register
def of_custom_preview(preview: CustomPreview, most: int = MOST_ROWS) -> View:
    rows = tuple(
        (name, f"what {words.counted(count, 'changed row')} could make of it")
        for name, count in (("influence", preview.influence_rows), ("rank", preview.rank_rows))
    )
    widths = Column(f"{formats.level(preview.confidence)} interval, at most")
    return View(
        title="Preview of an explanation: nothing is spent",
        lead=(
            formats.clean(preview.question),
            f"{_shown_conditions(preview.k, preview.family_size)}, "
            f"by the influence “{formats.clean(preview.influence)}”.",
            *words.price(preview.price),
        ),
        grid=Grid((Column("of each condition"), widths), rows),
        notes=preview.promises,
    )


@view.register
def of_preparation_preview(preview: PreparationPreview, most: int = MOST_ROWS) -> View:
    return View(
        title="Preview of preparing an answer: nothing is spent",
        sql=formats.clean(preview.sql),
        lead=(*words.price(preview.price), f"Afterwards every why on this answer is free, {_ANY}."),
        grid=_bought(preview.plan, "would be released", preview.confidence),
    )


@view.register
def of_prepared(prepared: Prepared, most: int = MOST_ROWS) -> View:
    return View(
        title="Prepared: every why on this answer is now free",
        warning="" if prepared.private else NOT_PRIVATE,
        sql=formats.clean(prepared.sql),
        lead=(f"From now on why(...).explain() costs nothing, {_ANY}.",),
        grid=_bought(prepared.plan, "released once"),
        shaped_by=prepared.shaped_by,
        notes=(
            *(("Prepared before: nothing was spent now.",) if prepared.free else ()),
            words.cost(prepared.rho, prepared.spends),
        ),
    )


def _bought(plan: Preparation, title: str, confidence: float = 0.95) -> Grid:
    reach, level = two_sided_quantile(confidence), formats.level(confidence)
    rows = [
        ("groups", f"{plan.groups:,}"),
        ("predicates", f"{plan.family.size:,}"),
        ("noisy cells", f"{plan.cells:,}"),
        (f"{level} noise on a cell's rows", f"± {formats.number(reach * plan.count_scale)}"),
    ]
    if plan.total_scale is not None:
        rows.append((f"{level} noise on a cell's sum", f"± {formats.number(reach * plan.total_scale)}"))
    return Grid((Column(title), Column("", "right")), tuple(rows))


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
                words.units_misfit(schema.privacy.max_rows),
                formats.percent(*quality.units_above),
                words.rows_lost(quality),
            )
        )
    return View(
        title=f"Quality of {formats.clean(schema.table.name)}: what its declarations clamp and leave out",
        warning="" if quality.private else NOT_PRIVATE,
        lead=(words.QUALITY_USE,),
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
            *words.quality_limits(quality),
            words.each_interval(quality.confidence),
            words.cost(quality.rho, quality.spends, quality.free),
        ),
    )


@view.register
def of_discovery(discovery: Discovery, most: int = MOST_ROWS) -> View:
    rows = discovery.rows[:most]
    number = f"{len(discovery.rows):,} value{'' if len(discovery.rows) == 1 else 's'}"
    return View(
        title=f"Values of {formats.clean(discovery.column)}: {number}",
        warning="" if discovery.private else NOT_PRIVATE,
        lead=(
            "From now on the column can be grouped, filtered and explained by; other values are undeclared."
            if discovery.rows
            else "No value has enough privacy units, so the column still cannot be asked about.",
        ),
        grid=Grid(
            (Column("value", wrap=True), Column("units, noisy", "right")),
            tuple((formats.clean(row.value), formats.number(row.units)) for row in rows),
            more=words.more(len(discovery.rows) - len(rows), "further value"),
        )
        if rows
        else None,
        notes=(
            words.threshold(discovery.threshold, discovery.delta),
            words.cost(discovery.rho, discovery.spends, discovery.free),
        ),
    )


@view.register
def of_discovery_preview(preview: DiscoveryPreview, most: int = MOST_ROWS) -> View:
    return View(
        title=f"Preview of discovering {formats.clean(preview.column)}: nothing is spent",
        lead=(
            *words.price(preview.price),
            words.threshold(preview.threshold, preview.delta),
            f"One that {preview.found_units:,} units have is found with {formats.level(preview.confidence)} "
            "confidence.",
        ),
    )


@view.register
def of_quality_preview(preview: QualityPreview, most: int = MOST_ROWS) -> View:
    return View(
        title="Preview of a data set's quality: nothing is spent",
        lead=(*words.price(preview.price), words.expected_count(preview.margin, preview.confidence)),
    )


@view.register
def of_tuning(tuning: Tuning, most: int = MOST_ROWS) -> View:
    toml = tuning.toml()
    surely = all(row.sure for row in tuning.rows) and all(row.sure for row in tuning.max_rows)
    lines = f"For {formats.level(tuning.keep)}, put into the schema:\n{toml}" if toml else ""
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
                    formats.clean(row.column),
                    _kept(row),
                    edge_text(row.low, ","),
                    edge_text(row.high, ","),
                    formats.percent(*row.below),
                    formats.percent(*row.above),
                    f"× {formats.number(row.average_noise)}",
                )
                for row in tuning.rows
            ),
        )
    ]
    if tuning.max_rows:
        grids.append(_max_rows(tuning))
    grids = [grid for grid in grids if grid.rows]
    return View(
        title=f"Bounds for {formats.clean(tuning.schema.table.name)}, within what is declared",
        warning="" if tuning.private else NOT_PRIVATE,
        grid=grids[0] if grids else None,
        further=tuple(grids[1:]),
        notes=(
            *((lines,) if lines else ()),
            *(() if surely else ("?: this share is not surely kept.",)),
            "noise: of an average, or of all answers, against that of today.",
            *map(formats.clean, tuning.notes),
            words.cost(tuning.rho, tuning.spends, tuning.free),
        ),
    )


def _kept(row: BoundsProposal | RowsProposal) -> str:
    return formats.level(row.keep) if row.sure else f"{formats.level(row.keep)}?"


def _max_rows(tuning: Tuning) -> Grid:
    unit = formats.clean(tuning.schema.privacy.unit)
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
                formats.percent(*row.cut),
                words.lost(*row.rows_lost),
                f"× {formats.number(row.noise)}",
            )
            for row in tuning.max_rows
        ),
    )


@view.register
def of_tuning_preview(preview: TuningPreview, most: int = MOST_ROWS) -> View:
    return View(
        title="Preview of tuning bounds: nothing is spent",
        lead=(*words.price(preview.price), *preview.expected),
    )
