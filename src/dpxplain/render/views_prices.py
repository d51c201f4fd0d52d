"""Views of previews, preparations, data quality, discoveries, tunings and, for the curator, true values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dpxplain.curator import TruthColumns
from dpxplain.model.column import edge_text
from dpxplain.model.display import Record
from dpxplain.phases.prepare import Preparation
from dpxplain.privacy.calibration import two_sided_quantile
from dpxplain.render.layout import MOST_ROWS, TextColumn, TextGrid, View, view
from dpxplain.results.answers import unused_name
from dpxplain.results.base import Truth
from dpxplain.results.preview import (
    CustomPreview,
    ExplanationPreview,
    PreparationPreview,
    Prepared,
    QueriesPreview,
    QueryPreview,
)
from dpxplain.results.quality import (
    BoundsProposal,
    Discovery,
    DiscoveryPreview,
    Quality,
    QualityPreview,
    QualityRow,
    RowsProposal,
    Tuning,
    TuningPreview,
)
from dpxplain.words import numbers, prices
from dpxplain.words.sentences import CURATOR_ONLY, EACH_INTERVAL, NOT_PRIVATE

# -- Queries and explanations ------------------------------------------------------------------------------


@view.register
def of_query_preview(preview: QueryPreview) -> View:
    return _query_preview(preview, (), _margins(preview))


@view.register
def of_queries_preview(preview: QueriesPreview) -> View:
    rows = [(numbers.clean(name), *row) for name, part in preview.parts for row in _margins(part)]
    return _query_preview(preview, (TextColumn("aggregate", wrap=True),), rows)


def _query_preview(
    preview: QueryPreview | QueriesPreview, before: tuple[TextColumn, ...], rows: Sequence[tuple[str, ...]]
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
        grid=TextGrid((*before, TextColumn("rows in the group", "right"), TextColumn(expected)), tuple(rows)),
    )


def _margins(preview: QueryPreview) -> list[tuple[str, str]]:
    if preview.margin is not None:
        return [("any", f"± {numbers.number(preview.margin)}")]
    return [(f"{size:,}", f"± {numbers.number(margin)}") for size, margin in preview.margin_by_group_size]


@view.register
def of_explanation_preview(preview: ExplanationPreview) -> View:
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
        grid=TextGrid(
            (
                TextColumn("for each condition"),
                TextColumn(f"expected {numbers.level(preview.confidence)} interval"),
            ),
            tuple(margins),
        ),
        notes=(
            f"{_shown_conditions(preview.k, preview.family_size)}, "
            f"by the {preview.mechanism} mechanism ({preview.reason}).",
            *preview.promises,
        ),
    )


@view.register
def of_custom_preview(preview: CustomPreview) -> View:
    rows = tuple(
        (name, f"possible values after {numbers.counted(count, 'changed row')}")
        for name, count in (("influence", preview.influence_rows), ("rank", preview.rank_rows))
    )
    widths = TextColumn(f"{numbers.level(preview.confidence)} interval, at most")
    return View(
        title="Preview of an explanation: nothing is spent",
        lead=(
            numbers.clean(preview.question),
            f"{_shown_conditions(preview.k, preview.family_size)}, "
            f"by the influence “{numbers.clean(preview.influence)}”.",
            *prices.price(preview.price),
        ),
        grid=TextGrid((TextColumn("for each condition"), widths), rows),
        notes=preview.promises,
    )


def _shown_conditions(k: int, size: int) -> str:
    """Which conditions a table of k lines has.

    >>> _shown_conditions(5, 10), _shown_conditions(1, 10), _shown_conditions(10, 10)
    ('The 5 most influential of 10 conditions', 'The most influential of 10 conditions', 'All 10 conditions')
    """
    if k >= size:
        return "The only condition" if size == 1 else f"All {numbers.counted(size, 'condition')}"
    return f"The {'' if k == 1 else f'{k:,} '}most influential of {numbers.counted(size, 'condition')}"


# -- Preparations ------------------------------------------------------------------------------------------

_ANY = "for any groups, weights, k and confidence, as often as you like"


@view.register
def of_preparation_preview(preview: PreparationPreview) -> View:
    return View(
        title="Preview of preparing an answer: nothing is spent",
        sql=numbers.clean(preview.sql),
        lead=(
            *prices.price(preview.price),
            f"Afterwards every explanation of this answer is free, {_ANY}.",
            preview.forecast,
        ),
        grid=_measurements_grid(preview.plan, "would be measured", preview.confidence),
    )


@view.register
def of_prepared(prepared: Prepared) -> View:
    already = "It was prepared before, so nothing was spent now." if prepared.free else ""
    return View(
        title="Prepared: every explanation of this answer is now free.",
        warning="" if prepared.private else NOT_PRIVATE,
        lead=tuple(filter(None, (already, prepared.summary))),
        grid=replace(
            _measurements_grid(prepared.plan, "measured once"), folded="What was measured, and how precisely"
        ),
        notes=(*prepared.shaped_by, prices.cost(prepared.rho, prepared.spends)),
    )


def _measurements_grid(plan: Preparation, title: str, confidence: float = 0.95) -> TextGrid:
    reach, level = two_sided_quantile(confidence), numbers.level(confidence)
    rows = [
        ("groups", f"{plan.groups:,}"),
        ("conditions", f"{plan.family.size:,}"),
        ("noisy cells", f"{plan.cells:,}"),
        (f"noise in a cell's row count ({level})", f"± {numbers.number(reach * plan.count_scale)}"),
    ]
    if plan.total_scale is not None:
        rows.append((f"noise in a cell's sum ({level})", f"± {numbers.number(reach * plan.total_scale)}"))
    return TextGrid((TextColumn(title), TextColumn("", "right")), tuple(rows))


# -- Data quality ------------------------------------------------------------------------------------------

_VAGUE = 0.05  # a share that may be larger than this is not known to be small


@view.register
def of_quality(quality: Quality) -> View:
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
        unit, value = numbers.clean(schema.privacy.unit), prices.units_misfit(schema.privacy.max_rows)
        share = f"{numbers.percent(*quality.units_above)} of them"
        rows.append((unit, value, "further rows not counted", share, prices.lost(*quality.rows_lost)))
    return View(
        title=f"Data quality: {numbers.clean(schema.table.name)}",
        warning="" if quality.private else NOT_PRIVATE,
        lead=(prices.QUALITY_USE,),
        grid=TextGrid(
            (
                TextColumn("column", wrap=True),
                TextColumn("value", wrap=True),
                TextColumn("effect", wrap=True),
                TextColumn(f"share, {level} interval", "right"),
                TextColumn("rows", "right"),
            ),
            tuple(rows),
        )
        if rows
        else None,
        lines=_nothing_to_report(quality, {row.column for row, _ in facts}),
        notes=(
            *((*prices.quality_limits(schema), EACH_INTERVAL.format(level)) if rows else ()),
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
def of_quality_preview(preview: QualityPreview) -> View:
    return View(
        title="Preview of data quality: nothing is spent",
        lead=(*prices.price(preview.price), prices.expected_count(preview.margin, preview.confidence)),
    )


# -- Discovery ---------------------------------------------------------------------------------------------


@view.register
def of_discovery(discovery: Discovery) -> View:
    rows = discovery.rows[:MOST_ROWS]
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
        grid=TextGrid(
            (TextColumn("value", wrap=True), TextColumn("units, noisy", "right")),
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
def of_discovery_preview(preview: DiscoveryPreview) -> View:
    return View(
        title=f"Preview of discovering {numbers.clean(preview.column)}: nothing is spent",
        lead=(
            *prices.price(preview.price),
            prices.threshold(preview.threshold, preview.delta),
            f"A value shared by {preview.found_units:,} privacy units will be found with "
            f"{numbers.level(preview.confidence)} confidence.",
        ),
    )


# -- Tuning ------------------------------------------------------------------------------------------------


@view.register
def of_tuning(tuning: Tuning) -> View:
    toml = tuning.toml()
    surely = all(row.sure for row in tuning.rows) and all(row.sure for row in tuning.max_rows)
    kept = "values unchanged" if toml.startswith("[columns.") else "privacy units whole"
    keep = f"{numbers.level(tuning.keep)} of the {kept}"
    lines = f"To keep {keep}, put this into the schema:\n{toml}" if toml else ""
    grids = [
        TextGrid(
            (
                TextColumn("column", wrap=True),
                TextColumn("keep", "right"),
                TextColumn("low", "right"),
                TextColumn("high", "right"),
                TextColumn("below", "right"),
                TextColumn("above", "right"),
                TextColumn("noise", "right"),
            ),
            tuple(
                (
                    numbers.clean(row.column),
                    _keep_text(row),
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
        grids.append(_max_rows_grid(tuning))
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


def _keep_text(row: BoundsProposal | RowsProposal) -> str:
    return numbers.level(row.keep) if row.sure else f"{numbers.level(row.keep)}?"


def _max_rows_grid(tuning: Tuning) -> TextGrid:
    unit = numbers.clean(tuning.schema.privacy.unit)
    return TextGrid(
        (
            TextColumn("keep whole", "right"),
            TextColumn("max_rows", "right"),
            TextColumn(f"{unit} with more", "right"),
            TextColumn("rows lost", "right"),
            TextColumn("noise", "right"),
        ),
        tuple(
            (
                _keep_text(row),
                f"{row.max_rows:,}",
                numbers.percent(*row.units_above),
                prices.lost(*row.rows_lost),
                f"× {numbers.number(row.noise)}",
            )
            for row in tuning.max_rows
        ),
    )


@view.register
def of_tuning_preview(preview: TuningPreview) -> View:
    return View(
        title="Preview of tuning bounds: nothing is spent",
        lead=(*prices.price(preview.price), *preview.expected),
    )


# -- True values -------------------------------------------------------------------------------------------
#
# For the curator: true values stand beside the released ones.

# Left out of an explanation's truth, because another column already says the same.
_LEFT_OUT = (
    *("relative_influence_low", "relative_influence_high", "rank_covered"),
    *("share_removed_low", "share_removed_high", "effect"),
)
_NAMES = {"true_influence": "true influence", "true_rank": "true rank", "influence_covered": "covered"}
_GAPS = ("gap_without_low", "gap_without_high", "true_gap_without", "gap_without_covered")


@view.register
def of_truth(truth: Truth) -> View:
    grids = truth_grids(truth.rows[:MOST_ROWS], numbers.more(len(truth.rows) - MOST_ROWS, "row"))
    return View(
        title=truth.title,
        warning=CURATOR_ONLY,
        lead=() if truth.rows else ("There are no rows.",),
        grid=grids[0] if grids else None,
        further=tuple(grids[1:]),
        notes=truth.shaped_by,
        lines=("All rows: to_pandas(), to_csv().",) if len(truth.rows) > MOST_ROWS else (),
    )


@dataclass(frozen=True)
class Cell:
    text: str
    align: Literal["left", "right"]


def truth_grids(records: list[Record], more: str = "") -> list[TextGrid]:
    """One table, and a second one about the gap, so that both have room. No table without rows."""
    if not records:
        return []
    grids = [_grid([truth_cells(record) for record in records], more)]
    if any(_tells_gap(record) for record in records):
        grids.append(_grid([_gap_cells(record) for record in records], more))
    return grids


def _grid(rows: list[dict[str, Cell]], more: str) -> TextGrid:
    return TextGrid(
        tuple(
            TextColumn(numbers.clean(n), cell.align, wrap=cell.align == "left") for n, cell in rows[0].items()
        ),
        tuple(tuple(cell.text for cell in row.values()) for row in rows),
        more=more,
    )


def _tells_gap(record: Record) -> bool:
    return TruthColumns.of(record) is None and record.get(_GAPS[0]) is not None


def _gap_cells(record: Record) -> dict[str, Cell]:
    low, high, true, covered = (record[name] for name in _GAPS)
    is_known = low is not None
    return {
        "predicate": _cell(record["predicate"]),
        "without them": Cell(numbers.interval(low, high) if is_known else "unknown", "right"),
        "true value without them": Cell(
            "no rows left" if true is None else numbers.number(true, high - low if is_known else None),
            "right",
        ),
        "covered": _covered(covered),
    }


def truth_cells(record: Record) -> dict[str, Cell]:
    """The cells of one row by column heading, without those about the gap."""
    columns = TruthColumns.of(record)
    return _influence_cells(record) if columns is None else _answer_cells(record, columns)


def _answer_cells(record: Record, columns: TruthColumns) -> dict[str, Cell]:
    """
    >>> released = {"sex": "F", "n": 10.04, "low": 9.0, "high": 11.2, "noise_scale": 0.5}
    >>> cells = truth_cells(released | {"true": 10.0, "covered": True})
    >>> {name: cell.text for name, cell in cells.items()}
    {'sex': 'F', 'n': '10.0', 'interval': '9.0 to 11.2', 'true': '10.0', 'covered': 'yes'}
    """
    low, high, true = record[columns.low], record[columns.high], record[columns.true]
    width = None if low is None else high - low  # nothing is known about the average of an empty group
    cells = {name: _cell(record[name], width) for name in columns.selected}
    cells[unused_name("interval", cells)] = Cell("–" if low is None else numbers.interval(low, high), "right")
    if columns.general is not None:
        ends = (record[name] for name in columns.general)
        cells[unused_name("in_general", cells)] = Cell(numbers.interval(*ends), "right")
    cells[columns.true] = Cell("-", "left") if true is None else _cell(true, width)
    cells[columns.covered] = _covered(record[columns.covered])
    return cells


def _influence_cells(record: Record) -> dict[str, Cell]:
    """A predicate's true influence and rank, beside the released ones if there are any."""
    cells: dict[str, Cell] = {}
    spread = record["influence_high"] - record["influence_low"] if "influence_low" in record else None
    for name, value in record.items():
        stem = name.removesuffix("_low")
        if name in (*_LEFT_OUT, *_GAPS) or name.endswith("_high"):
            continue
        if name.endswith("_low"):
            ends = value, record[f"{stem}_high"]
            cells[stem] = Cell(numbers.ranks(*ends) if stem == "rank" else numbers.interval(*ends), "right")
        elif name in ("rank", "true_rank"):
            cells[_NAMES.get(name, name)] = Cell(f"{value:,}", "right")
        else:
            cells[_NAMES.get(name, name)] = _cell(value, spread)
    if "influence_covered" in record:
        misses = [n for n in ("influence", "rank") if not record[f"{n}_covered"]]
        cells["covered"] = Cell(f"NO: {' and '.join(misses)}" if misses else "yes", "left")
    return cells


def true_texts(record: Record) -> tuple[str, str]:
    """The true value or influence of a row as text, and the true gap without its rows if there is one."""
    columns = TruthColumns.of(record)
    if columns is not None:
        return truth_cells(record)[columns.true].text, ""
    cells = _influence_cells(record)
    influence = cells["true influence" if "true_influence" in record else "influence"].text
    return influence, _gap_cells(record)["true value without them"].text if _tells_gap(record) else ""


def _covered(covered: bool | None) -> Cell:
    return Cell("-" if covered is None else "yes" if covered else "NO", "left")


def _cell(value: object, spread: float | None = None) -> Cell:
    if value is None:
        return Cell("NULL", "left")
    if isinstance(value, float):
        return Cell(numbers.number(value, spread), "right")
    return Cell(numbers.clean(str(value)), "left")
