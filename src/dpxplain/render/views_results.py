"""What answers, questions, tables and true values show: each as sentences and tables of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dpxplain.model.display import Record
from dpxplain.render import words
from dpxplain.render.layout import MOST_ROWS, Axis, Column, Grid, Mark, View, aligned, nice, span, view
from dpxplain.render.ranking import doubt_of
from dpxplain.results import formats
from dpxplain.results.answer import Answer, AnswerRow
from dpxplain.results.answers import Answers
from dpxplain.results.base import Truth
from dpxplain.results.combination import Combination
from dpxplain.results.custom_explanation import CustomExplanation
from dpxplain.results.explanation import Explanation
from dpxplain.results.question import Question
from dpxplain.results.sentences import NOISE_ONLY, NOT_PRIVATE, subject

UNCLEAR_MARK = "○ unclear: the interval contains zero, so these rows may push either way."

FREE_FORMULA = f"Free: a formula reads only what was released already. {NOISE_ONLY}"

# Said already by another column: the interval, or the influence that it divides.
_LEFT_OUT = ("noise_scale", "relative_influence_low", "relative_influence_high", "rank_covered")
_NAMES = {"true_influence": "true influence", "true_rank": "true rank", "influence_covered": "covered"}
_GAPS = ("gap_without_low", "gap_without_high", "true_gap_without", "gap_without_covered")


@view.register
def of_answer(answer: Answer, most: int = MOST_ROWS) -> View:
    return View(
        title=words.answer_title(answer),
        warning="" if answer.private else NOT_PRIVATE,
        sql=formats.clean(answer.sql),
        grid=answer_grid(answer, answer.rows[:most]),
        shaped_by=answer.shaped_by,
        notes=(
            *map(formats.clean, answer.notes),
            words.each_interval(answer.confidence, subject(answer.statement.query, answer.schema)),
            *words.population_notes([answer]),
            words.cost(answer.rho, answer.spends, answer.free),
        ),
        alt=f"{answer.value_name} of each group with its interval; the table has the numbers.",
    )


@view.register
def of_answers(answers: Answers, most: int = MOST_ROWS) -> View:
    """A table for each aggregate: one for all would be too wide to read, and could not have a plot."""
    first, *further = (answer_grid(answer, answer.rows[:most]) for answer in answers.answers)
    names = ", ".join(map(formats.clean, answers.names))
    return View(
        title=words.answer_title(answers),
        warning="" if answers.private else NOT_PRIVATE,
        sql=formats.clean(answers.sql),
        grid=first,
        further=tuple(further),
        shaped_by=answers.shaped_by,
        notes=(
            *map(formats.clean, answers.notes),
            words.each_interval(answers.confidence, _subjects(answers)),
            *words.population_notes(answers.answers),
            words.cost(answers.rho, answers.spends, answers.free),
        ),
        alt=f"{names} of each group with intervals; the tables have the numbers.",
    )


def _subjects(answers: Answers) -> str:
    names = (subject(answer.statement.query, answers.schema) for answer in answers.measured)
    return " and ".join(dict.fromkeys(name for name in names if name))


def answer_grid(answer: Answer, visible_rows: Sequence[AnswerRow]) -> Grid:
    """One line per group, with a mark on a common axis."""
    names = {o.column: o.name for o in answer.statement.presentation.outputs if o.column is not None}
    declared = [answer.schema.column(name) for name in answer.groups.columns]
    headings = [
        column.heading(name) if names.get(name, name) == name else names[name]
        for name, column in zip(answer.groups.columns, declared, strict=True)
    ]
    groups = tuple(Column(formats.clean(heading), wrap=True) for heading in headings)
    value = Column(formats.clean(answer.value_heading), "right")
    figures = words.answer_figures(answer)
    in_percent = figures if figures is not None and figures.percent else None
    estimates = aligned(
        formats.number(r.estimate, r.interval[1] - r.interval[0])
        if in_percent is None
        else in_percent.value(r.estimate)
        for r in visible_rows
    )
    rows = tuple(
        (
            *(
                [formats.clean(c.text(part)) for c, part in zip(declared, row.group, strict=True)]
                or ["all rows"]
            ),
            estimate,
            formats.open_interval(*row.interval)
            if in_percent is None
            else in_percent.interval(*row.interval),
            *(() if row.in_general is None else (formats.open_interval(*row.in_general),)),
        )
        for row, estimate in zip(visible_rows, estimates, strict=True)
    )
    left_out = len({row.group for row in answer.rows} - {row.group for row in visible_rows})
    return Grid(
        columns=(
            *(groups or (Column("group"),)),
            value,
            Column(f"{formats.level(answer.confidence)} interval"),
            *((Column("in general"),) if answer.population and not answer.not_general else ()),
        ),
        rows=rows,
        marks=tuple(Mark(r.interval[0], r.estimate, r.interval[1]) for r in visible_rows),
        axis=_axis([r.interval for r in visible_rows]),
        more=words.more(left_out, "group"),
    )


@view.register
def of_question(question: Question, most: int = MOST_ROWS) -> View:
    constant = question.contrast.at_least
    readings = [("in these data", question.interval)]
    if question.in_general is not None:
        readings.append(("in general", question.in_general.interval))
    named = len(readings) > 1
    grid = Grid(
        columns=(
            *((Column("where"),) if named else ()),
            Column(f"released {question.measured}"),
            Column(f"{formats.level(question.confidence)} interval"),
        ),
        rows=tuple(
            (
                *((name,) if named else ()),
                formats.number(question.estimate, high - low),
                formats.open_interval(low, high),
            )
            for name, (low, high) in readings
        ),
        marks=tuple(
            Mark(low, question.estimate, high, hollow=low <= constant <= high) for _, (low, high) in readings
        ),
        axis=_axis([ends for _, ends in readings], constant),
    )
    return View(
        title=formats.clean(question.text),
        warning="" if question.answer.private else NOT_PRIVATE,
        verdict=question.verdict,
        lead=tuple(
            formats.clean(text)
            for text in (words.here(question), question.note, words.in_general(question))
            if text
        ),
        grid=grid,
        shaped_by=question.shaped_by,
        notes=(
            f"Free: a question reads only what was released already. {words.scope(question)}",
            *words.general_notes(question),
        ),
        alt=formats.clean(question.finding),
    )


@view.register
def of_combination(combination: Combination, most: int = MOST_ROWS) -> View:
    low, high = combination.interval
    return View(
        title=combination.formula,
        warning="" if combination.private else NOT_PRIVATE,
        grid=Grid(
            columns=(Column("value", "right"), Column(f"{formats.level(combination.confidence)} interval")),
            rows=((formats.number(combination.estimate, high - low), formats.open_interval(low, high)),),
        ),
        shaped_by=combination.shaped_by,
        notes=tuple(filter(None, (combination.method_note, FREE_FORMULA))),
    )


@view.register
def of_explanation(table: Explanation, most: int = MOST_ROWS) -> View:
    question = table.question
    return View(
        title=formats.clean(question.text),
        warning="" if table.private and question.answer.private else NOT_PRIVATE,
        verdict=question.verdict,
        lead=tuple(
            formats.clean(text)
            for text in (
                words.here(question),
                question.note,
                words.in_general(question),
                doubt_of(table),
                words.gap_meaning(table) if words.tells_gaps(table) else "",
                words.influence_meaning(table),
            )
            if text
        ),
        grid=explanation_grid(table, most),
        shaped_by=table.shaped_by,
        notes=(
            *((UNCLEAR_MARK,) if any(map(words.is_unclear, table.rows)) else ()),
            *words.folded_notes(table),
            words.table_cost(table),
            words.mechanism(table),
            words.CAVEAT,
            *words.general_notes(question),
        ),
        alt="; ".join(words.row_sentence(table, row) for row in table.rows[:most]),
    )


def explanation_grid(table: Explanation, most: int = MOST_ROWS) -> Grid:
    """One line per predicate, with a mark against zero."""
    visible_rows = table.rows[:most]
    divisor = table.question.relative_to or 1.0
    intervals = [(r.influence[0] / divisor, r.influence[1] / divisor) for r in visible_rows]
    marks = (
        Mark(low, row.estimate / divisor, high, hollow=words.is_unclear(row))
        for row, (low, high) in zip(visible_rows, intervals, strict=True)
    )
    gaps = words.tells_gaps(table)
    name = f"{table.question.measured} without them"
    return Grid(
        columns=(
            Column("condition", wrap=True),
            *((Column(name, "right"),) if gaps else ()),
            Column("relative influence" if table.relative else "influence", "right"),
            Column(f"rank of {table.family_size:,}", "right"),
        ),
        rows=tuple(
            (
                formats.clean(row.predicate.label),
                *((words.gap_without_text(table, row),) if gaps else ()),
                words.influence_text(row),
                formats.ranks(*row.rank),
            )
            for row in visible_rows
        ),
        marks=tuple(marks),
        axis=_axis(intervals, 0.0, percent=table.relative),
        one_line=gaps,
        more=words.more(len(table.rows) - len(visible_rows), "condition"),
    )


@view.register
def of_custom_explanation(table: CustomExplanation, most: int = MOST_ROWS) -> View:
    question, name = table.question, formats.clean(table.release.influence)
    return View(
        title=formats.clean(question.text),
        warning="" if table.private and question.answer.private else NOT_PRIVATE,
        verdict=question.verdict,
        lead=(f"Conditions by the influence “{name}”, found and ranked by how many rows would change that.",),
        grid=Grid(
            columns=(
                Column("condition", wrap=True),
                Column("influence", "right"),
                Column(f"rank of {table.family_size:,}", "right"),
            ),
            rows=tuple(
                (
                    formats.clean(row.predicate.label),
                    formats.open_interval(*row.influence),
                    formats.ranks(*row.rank),
                )
                for row in table.rows[:most]
            ),
            more=words.more(len(table) - most, "condition"),
        ),
        shaped_by=table.shaped_by,
        notes=(
            words.cost(table.rho, table.spends, table.free),
            f"{formats.level(table.confidence)} intervals. {words.CAVEAT}",
        ),
    )


def _axis(
    intervals: Sequence[tuple[float, float]], reference: float | None = None, percent: bool = False
) -> Axis:
    low, high = nice(*span(intervals, reference))
    if reference is None and low <= 0 <= high:
        reference = 0.0

    def text(value: float) -> str:
        return f"{formats.number(value * 100)}%" if percent else formats.number(value)

    middle = "" if reference is None or reference in (low, high) else text(reference)
    return Axis(low, high, reference, (text(low), middle, text(high)))


@view.register
def of_truth(truth: Truth, most: int = MOST_ROWS) -> View:
    first, *further = truth_grids(truth.rows[:most], words.more(len(truth.rows) - most, "row"))
    return View(
        title=truth.title,
        warning=words.CURATOR_ONLY,
        grid=first,
        further=tuple(further),
        shaped_by=truth.shaped_by,
        notes=("All rows: to_pandas(), to_csv().",) if len(truth.rows) > most else (),
    )


@dataclass(frozen=True)
class Cell:
    text: str
    align: Literal["left", "right"]


def truth_grids(records: list[Record], more: str = "") -> list[Grid]:
    """One table; what a table says about the gap has its own, so that both have room."""
    has_gaps = any(record.get(_GAPS[0]) is not None for record in records)
    first = [{name: part for name, part in record.items() if name not in _GAPS} for record in records]
    if not has_gaps:
        return [_grid([truth_cells(record) for record in first], more)]
    gaps = [_gap_cells(record) for record in records]
    return [_grid([truth_cells(record) for record in first], more), _grid(gaps, more)]


def _grid(rows: list[dict[str, Cell]], more: str) -> Grid:
    first = rows[0] if rows else {}
    return Grid(
        tuple(Column(formats.clean(n), cell.align, wrap=cell.align == "left") for n, cell in first.items()),
        tuple(tuple(cell.text for cell in row.values()) for row in rows),
        more=more,
    )


def _gap_cells(record: Record) -> dict[str, Cell]:
    low, high, true, covered = (record[name] for name in _GAPS)
    known = low is not None
    return {
        "predicate": _cell("predicate", record["predicate"], None),
        "without them": Cell(formats.interval(low, high) if known else "unknown", "right"),
        "truly without them": Cell(
            "no rows left" if true is None else formats.number(true, high - low if known else None), "right"
        ),
        "covered": _cell("covered", covered, None),
    }


def truth_cells(record: Record) -> dict[str, Cell]:
    """
    >>> cells = truth_cells({"sex": "F", "n": 10.04, "low": 9.0, "high": 11.2, "true": 10.0, "covered": True})
    >>> {name: cell.text for name, cell in cells.items()}
    {'sex': 'F', 'n': '10.0', 'interval': '9.0 to 11.2', 'true': '10.0', 'covered': 'yes'}
    """
    cells: dict[str, Cell] = {}
    spread = _spread(record)
    for name, value in record.items():
        stem = name.removesuffix("low")
        if name in _LEFT_OUT or (name.endswith("high") and f"{name.removesuffix('high')}low" in record):
            continue
        if name.endswith("low") and f"{stem}high" in record:
            high = record[f"{stem}high"]
            text = formats.ranks(value, high) if stem == "rank_" else formats.interval(value, high)
            cells[stem.rstrip("_") or "interval"] = Cell(text, "right")
        else:
            cells[_NAMES.get(name, name)] = _cell(name, value, spread)
    if "influence_covered" in record:
        misses = [n for n in ("influence", "rank") if not record[f"{n}_covered"]]
        cells["covered"] = Cell(f"NO: {' and '.join(misses)}" if misses else "yes", "left")
    return cells


def true_texts(record: Record) -> tuple[str, str]:
    """The true value or influence of a row as text, and the true gap without its rows where that is told."""
    cells = truth_cells({name: value for name, value in record.items() if name not in _GAPS})
    true = next(
        name for name in reversed(cells) if name.rstrip("_") in ("true", "true influence", "influence")
    )
    gap = _gap_cells(record)["truly without them"].text if record.get(_GAPS[0]) is not None else ""
    return cells[true].text, gap


def _spread(record: Record) -> float | None:
    """The width of the released interval, which says how many digits are worth showing."""
    for stem in ("", "influence_"):
        if f"{stem}low" in record and f"{stem}high" in record:
            return float(record[f"{stem}high"] - record[f"{stem}low"])
    return None


def _cell(name: str, value: object, spread: float | None) -> Cell:
    if name.endswith("covered"):
        return Cell("-" if value is None else "yes" if value else "NO", "left")
    if value is None:
        return Cell("-" if name == "true" else "NULL", "left")
    if name in ("rank", "true_rank"):
        return Cell(f"{value:,}", "right")
    if isinstance(value, float):
        return Cell(formats.number(value, spread), "right")
    return Cell(formats.clean(str(value)), "left")
