"""What answers, questions and tables show: each as sentences and tables of texts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpxplain.render import words
from dpxplain.render.layout import MOST_ROWS, Axis, Column, Grid, Mark, View, aligned, nice, span, view
from dpxplain.render.ranking import doubt_of
from dpxplain.results import formats
from dpxplain.results.answer import Answer, AnswerRow
from dpxplain.results.answers import Answers
from dpxplain.results.combination import Combination
from dpxplain.results.explanation import CustomExplanation, Explanation
from dpxplain.results.formula_answer import joined_subjects
from dpxplain.results.question import Question
from dpxplain.results.sentences import NOISE_ONLY, NOT_PRIVATE

UNCLEAR_MARK = "○ unclear: the interval contains zero, so these rows may push either way."

FREE_FORMULA = f"Free: a formula reads only what was released already. {NOISE_ONLY}"


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
            words.each_interval(answer.confidence, answer.subject),
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
            words.each_interval(answers.confidence, joined_subjects(answers.measured)),
            *words.population_notes(answers.answers),
            words.cost(answers.rho, answers.spends, answers.free),
        ),
        alt=f"{names} of each group with intervals; the tables have the numbers.",
    )


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
            *(() if row.in_general is None else (_general_text(row.in_general, in_percent),)),
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


def _general_text(interval: tuple[float, float], in_percent: formats.Figures | None) -> str:
    """What holds in general, in the unit of the interval beside it; its ends may be infinite."""
    if in_percent is None:
        return formats.open_interval(*interval)
    if all(map(math.isfinite, interval)):
        return in_percent.interval(*interval)
    return formats.PERCENT.open_interval(*interval)


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
    return View(
        title=formats.clean(question.text),
        warning="" if question.answer.private else NOT_PRIVATE,
        verdict=question.verdict,
        lead=words.verdicts(question),
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
        lead=(
            *words.verdicts(question),
            *(
                formats.clean(text)
                for text in (
                    doubt_of(table),
                    words.gap_meaning(table) if words.tells_gaps(table) else "",
                    words.influence_meaning(table),
                )
                if text
            ),
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
        axis=_axis(intervals, 0.0, formats.PERCENT if table.relative else formats.PLAIN),
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
        lead=(
            *words.verdicts(question),
            f"Conditions by the influence “{name}”. What is chosen, its influence and its rank are told by "
            "how many rows would have to change to make it otherwise.",
        ),
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
            *words.general_notes(question),
        ),
    )


def _axis(
    intervals: Sequence[tuple[float, float]],
    reference: float | None = None,
    unit: formats.Unit = formats.PLAIN,
) -> Axis:
    low, high = nice(*span(intervals, reference))
    if reference is None and low <= 0 <= high:
        reference = 0.0
    middle = "" if reference is None or reference in (low, high) else unit.number(reference)
    return Axis(low, high, reference, (unit.number(low), middle, unit.number(high)))
