"""What answers, questions and tables show: each as sentences and tables of texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dpxplain.model.contrast import Verdict
from dpxplain.render.layout import MOST_ROWS, Axis, Column, Grid, Mark, View, aligned, nice, span, view
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers
from dpxplain.results.combination import Combination
from dpxplain.results.explanation import CustomExplanation, Explanation, ExplanationRow
from dpxplain.results.question import Question
from dpxplain.results.released_answer import AnswerRow
from dpxplain.words import numbers
from dpxplain.words.conditions import condition_label
from dpxplain.words.explanations import (
    AS_ASKED,
    CUSTOM_INTERVALS,
    LOST_IN_NOISE,
    effect_text,
    relative_text,
    row_sentence,
)
from dpxplain.words.findings import in_general
from dpxplain.words.numbers import PERCENT
from dpxplain.words.prices import FREE_FORMULA, FREE_QUESTION, cost
from dpxplain.words.questions import NOT_PRIVATE
from dpxplain.words.titles import answer_title


@view.register
def of_answer(answer: Answer, most: int = MOST_ROWS) -> View:
    finding = answer.finding
    return View(
        title=f"Answer {answer.id}: {answer_title(answer.statement, answer.schema)}",
        warning="" if answer.private else NOT_PRIVATE,
        finding=finding,
        grid=answer_grid(answer, answer.rows[:most]),
        lines=tuple(map(numbers.clean, answer.notes)),
        notes=(*finding.notes, cost(answer.rho, answer.spends, answer.free)),
        alt=f"{answer.value_name} of each group with its interval; the table has the numbers.",
    )


@view.register
def of_answers(answers: Answers, most: int = MOST_ROWS) -> View:
    """A table for each aggregate: one for all would be too wide to read, and could not have a plot."""
    first, *further = (answer_grid(answer, answer.rows[:most]) for answer in answers.answers)
    names = ", ".join(map(numbers.clean, answers.names))
    finding = answers.finding
    return View(
        title=f"Answer {answers.id}: {answer_title(answers.statement, answers.schema)}",
        warning="" if answers.private else NOT_PRIVATE,
        finding=finding,
        grid=first,
        further=tuple(further),
        lines=tuple(map(numbers.clean, answers.notes)),
        notes=(*finding.notes, cost(answers.rho, answers.spends, answers.free)),
        alt=f"{names} of each group with intervals; the tables have the numbers.",
    )


def answer_figures(answer: Answer) -> numbers.Figures | None:
    """How an answer's values are written: counts whole, shares in percent, decimals in line."""
    intervals = [row.interval for row in answer.rows if not row.is_unknown]
    return numbers.Figures.of(intervals, whole=answer.is_count, percent=answer.in_percent)


def answer_grid(answer: Answer, visible_rows: Sequence[AnswerRow]) -> Grid:
    """One line per group, with a mark on a common axis."""
    names = {o.column: o.name for o in answer.statement.presentation.outputs if o.column is not None}
    declared = [answer.schema.column(name) for name in answer.groups.columns]
    headings = [
        column.heading(name) if names.get(name, name) == name else names[name]
        for name, column in zip(answer.groups.columns, declared, strict=True)
    ]
    groups = tuple(Column(numbers.clean(heading), wrap=True) for heading in headings)
    value = Column(numbers.clean(answer.value_heading), "right")
    figures = answer_figures(answer)
    written = figures if figures is not None and (figures.percent or answer.is_count) else None
    estimates = aligned(
        numbers.UNKNOWN
        if r.is_unknown
        else numbers.number(r.estimate, r.interval[1] - r.interval[0])
        if written is None
        else written.value(r.estimate)
        for r in visible_rows
    )
    rows = tuple(
        (
            *(
                [numbers.clean(c.text(part)) for c, part in zip(declared, row.group, strict=True)]
                or ["all rows"]
            ),
            estimate,
            numbers.NO_ROWS
            if row.is_unknown
            else numbers.open_interval(*row.interval)
            if written is None
            else written.interval(*row.interval),
            *(() if row.in_general is None else (_general_text(row.in_general, written),)),
        )
        for row, estimate in zip(visible_rows, estimates, strict=True)
    )
    left_out = len({row.group for row in answer.rows} - {row.group for row in visible_rows})
    return Grid(
        columns=(
            *(groups or (Column("group"),)),
            value,
            Column(f"{numbers.level(answer.confidence)} interval"),
            *((Column("in general"),) if answer.population and not answer.not_general else ()),
        ),
        rows=rows,
        marks=tuple(Mark(r.interval[0], r.estimate, r.interval[1]) for r in visible_rows),
        axis=_axis(
            [r.interval for r in visible_rows if not r.is_unknown],
            unit=PERCENT if answer.in_percent else numbers.PLAIN,
        ),
        more=numbers.more(left_out, "group"),
    )


def _general_text(interval: tuple[float, float], written: numbers.Figures | None) -> str:
    """What holds in general, in the unit of the interval beside it; its ends may be infinite."""
    if written is None:
        return numbers.open_interval(*interval)
    if all(map(math.isfinite, interval)):
        return written.interval(*interval)
    return numbers.PERCENT.open_interval(*interval)


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
            Column(f"{numbers.level(question.confidence)} interval"),
        ),
        rows=tuple(
            (
                *((name,) if named else ()),
                question.unit.number(question.estimate, high - low),
                question.unit.open_interval(low, high, constant),
            )
            for name, (low, high) in readings
        ),
        marks=tuple(
            Mark(low, question.estimate, high, hollow=low <= constant <= high) for _, (low, high) in readings
        ),
        axis=_axis([ends for _, ends in readings], constant, question.unit),
    )
    finding = question.finding
    return View(
        title=question.title,
        warning="" if question.answer.private else NOT_PRIVATE,
        verdict=question.verdict,
        finding=finding,
        grid=grid,
        lines=tuple(filter(None, (question.sharpened,))),
        notes=(*(note for note in finding.notes if note != question.sharpened), FREE_QUESTION),
        alt=str(finding),
    )


@view.register
def of_combination(combination: Combination, most: int = MOST_ROWS) -> View:
    low, high = combination.interval
    return View(
        title=combination.formula,
        warning="" if combination.private else NOT_PRIVATE,
        grid=Grid(
            columns=(Column("value", "right"), Column(f"{numbers.level(combination.confidence)} interval")),
            rows=((numbers.number(combination.estimate, high - low), numbers.open_interval(low, high)),),
        ),
        lines=tuple(filter(None, (combination.method_note,))),
        notes=(*combination.shaped_by, FREE_FORMULA),
    )


@view.register
def of_explanation(table: Explanation, most: int = MOST_ROWS) -> View:
    question, finding = table.question, table.finding
    first, *further = explanation_grids(table, most)
    return View(
        title=question.title,
        warning="" if table.private and question.answer.private else NOT_PRIVATE,
        verdict=None if question.verdict is Verdict.REAL else question.verdict,
        finding=finding,
        grid=first,
        further=tuple(further),
        lines=tuple(filter(None, (in_general(question.comparison), table.order_note))),
        notes=finding.notes,
        alt="" if first.folded else _effects(table, most),  # no chart of noise
    )


def _effects(table: Explanation, most: int) -> str:
    return " ".join(row_sentence(table.explained, table.effect_of(row)) for row in table.rows[:most])


def explanation_grids(table: Explanation, most: int = MOST_ROWS) -> list[Grid]:
    """The conditions with a clear effect, and folded below them those that are too noisy to tell."""
    rows = table.rows[:most]
    if table.question.verdict is not Verdict.REAL:
        heading = AS_ASKED.format(count=numbers.counted(len(rows), "condition"))
        return [replace(explanation_grid(table, rows), folded=heading)]
    clear, unclear = [r for r in rows if not r.is_unclear], [r for r in rows if r.is_unclear]
    if table.by_influence and clear:
        return [explanation_grid(table, rows)]
    grids = [explanation_grid(table, clear)] if clear else []
    if unclear:
        count = f"{len(unclear):,} more" if clear else numbers.counted(len(unclear), "candidate")
        grids.append(replace(explanation_grid(table, unclear), folded=LOST_IN_NOISE.format(count=count)))
    return grids


def explanation_grid(table: Explanation, rows: Sequence[ExplanationRow]) -> Grid:
    """One line per condition: what it removes of the gap; or its influence and rank."""
    grid = _influence_grid(table, rows) if table.by_influence else _share_grid(table, rows)
    return replace(grid, more=numbers.more(len(table.rows) - MOST_ROWS, "condition") if rows else "")


def _share_grid(table: Explanation, rows: Sequence[ExplanationRow]) -> Grid:
    name, shares = table.question.measured, [row.share_removed or (-math.inf, math.inf) for row in rows]
    low, high = nice(*span(shares, 0.0))
    return Grid(
        columns=(
            Column("condition", wrap=True),
            Column(f"effect on the {name}"),
            Column(f"{name} without them", "right"),
        ),
        rows=tuple(
            (table.label_of(row), effect_text(table.effect_of(row)), gap_without_text(table, row))
            for row in rows
        ),
        marks=tuple(
            Mark(ends[0], 0.0 if row.share_estimate is None else row.share_estimate, ends[1], row.is_unclear)
            for row, ends in zip(rows, shares, strict=True)
        ),
        axis=Axis(low, high, 0.0, (PERCENT.number(low), "", PERCENT.number(high))),
        one_line=True,
    )


def gap_without_text(table: Explanation, row: ExplanationRow) -> str:
    """Where the question's number would be without these rows, in the digits of its column."""
    if row.gap_without is None or not all(map(math.isfinite, row.gap_without)):
        return "unknown"
    return table.question.unit.interval(*row.gap_without, spread=_gap_spread(table))


def _gap_spread(table: Explanation) -> float | None:
    """One width for the digits of a whole column: the middle one."""
    known_gaps = [row.gap_without for row in table.rows if row.gap_without is not None]
    widths = sorted(high - low for low, high in known_gaps if 0 < high - low < math.inf)
    return widths[len(widths) // 2] if widths else None


def _influence_grid(table: Explanation, rows: Sequence[ExplanationRow]) -> Grid:
    divisor = table.question.relative_to or 1.0
    intervals = [(r.influence[0] / divisor, r.influence[1] / divisor) for r in rows]
    marks = (
        Mark(low, row.estimate / divisor, high, hollow=low <= 0 <= high)
        for row, (low, high) in zip(rows, intervals, strict=True)
    )
    # A ratio's table has no shares, and so no other view that tells what remains.
    tells_gaps = all(row.share_removed is None and row.gap_without is not None for row in table.rows)
    return Grid(
        columns=(
            Column("condition", wrap=True),
            Column("effect"),
            *((Column(f"{table.question.measured} without them", "right"),) if tells_gaps else ()),
            Column("relative influence" if table.relative else "influence", "right"),
            Column(f"rank of {table.family_size:,}", "right"),
        ),
        rows=tuple(
            (
                table.label_of(row),
                row.effect,
                *((gap_without_text(table, row),) if tells_gaps else ()),
                relative_text(row.influence, row.relative_influence),
                numbers.ranks(*row.rank),
            )
            for row in rows
        ),
        marks=tuple(marks),
        axis=_axis(intervals, 0.0, numbers.PERCENT if table.relative else numbers.PLAIN),
    )


@view.register
def of_custom_explanation(table: CustomExplanation, most: int = MOST_ROWS) -> View:
    question, name = table.question, numbers.clean(table.release.influence)
    return View(
        title=question.title,
        warning="" if table.private and question.answer.private else NOT_PRIVATE,
        verdict=question.verdict,
        finding=question.finding,
        lead=(f"Conditions by the influence “{name}”:",),
        grid=Grid(
            columns=(
                Column("condition", wrap=True),
                Column("influence", "right"),
                Column(f"rank of {table.family_size:,}", "right"),
            ),
            rows=tuple(
                (
                    condition_label(row.predicate, table.plan.family.schema),
                    numbers.open_interval(*row.influence),
                    numbers.ranks(*row.rank),
                )
                for row in table.rows[:most]
            ),
            more=numbers.more(len(table) - most, "condition"),
        ),
        notes=(
            CUSTOM_INTERVALS.format(numbers.level(table.confidence)),
            cost(table.rho, table.spends, table.free),
            *question.finding.notes,
        ),
    )


def _axis(
    intervals: Sequence[tuple[float, float]],
    reference: float | None = None,
    unit: numbers.Unit = numbers.PLAIN,
) -> Axis:
    low, high = nice(*span(intervals, reference))
    if reference is None and low <= 0 <= high:
        reference = 0.0
    middle = "" if reference is None or reference in (low, high) else unit.number(reference)
    return Axis(low, high, reference, (unit.number(low), middle, unit.number(high)))
