"""What each kind of result shows: the one place that turns results into sentences and tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from itertools import accumulate

from dpxplain.ledger.protocol import Entry
from dpxplain.model.budget import Budget, rho_of_units, spend_units
from dpxplain.model.schema import label
from dpxplain.render import words
from dpxplain.render.custom_views import custom_view, interval_text
from dpxplain.render.layout import Axis, Column, Grid, Mark, View, aligned, nice, span
from dpxplain.render.prepared_views import prepared_view, preview_view
from dpxplain.render.truth_views import truth_grids
from dpxplain.results import formats
from dpxplain.results.answer import Answer, AnswerRow
from dpxplain.results.answers import Answers
from dpxplain.results.combination import Combination
from dpxplain.results.custom_explanation import CustomExplanation
from dpxplain.results.explanation import Explanation
from dpxplain.results.prepared import PreparationPreview, Prepared
from dpxplain.results.preview import ExplanationPreview, QueriesPreview, QueryPreview
from dpxplain.results.question import Question
from dpxplain.results.sentences import NOISE_ONLY, NOT_PRIVATE
from dpxplain.results.truth import Truth

MOST_ROWS = 20
UNCLEAR_MARK = "○ unclear: the interval contains zero, so these rows may push either way."


@singledispatch
def view(result: object, most: int = MOST_ROWS) -> View:
    """The view of a result; at most `most` rows of its table."""
    raise TypeError(f"There is no view of {type(result).__name__}.")


@view.register
def of_answer(answer: Answer, most: int = MOST_ROWS) -> View:
    return View(
        title=f"Answer {answer.id}",
        warning="" if answer.private else NOT_PRIVATE,
        sql=formats.clean(answer.sql),
        grid=answer_grid(answer, answer.rows[:most]),
        notes=(
            words.each_interval(answer.confidence),
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
        title=f"Answer {answers.id}",
        warning="" if answers.private else NOT_PRIVATE,
        sql=formats.clean(answers.sql),
        grid=first,
        further=tuple(further),
        notes=(
            words.each_interval(answers.confidence),
            words.cost(answers.rho, answers.spends, answers.free),
        ),
        alt=f"{names} of each group with intervals; the tables have the numbers.",
    )


def answer_grid(answer: Answer, shown: Sequence[AnswerRow]) -> Grid:
    """One line per group, with a mark on a common axis."""
    names = {o.column: o.name for o in answer.statement.presentation.outputs if o.column is not None}
    groups = tuple(Column(formats.clean(names.get(name, name)), wrap=True) for name in answer.groups.columns)
    value = Column(formats.clean(answer.value_name), "right")
    estimates = aligned(formats.number(r.estimate, r.interval[1] - r.interval[0]) for r in shown)
    rows = tuple(
        (
            *([formats.clean(label(part)) for part in row.group] or ["all rows"]),
            estimate,
            formats.interval(*row.interval),
        )
        for row, estimate in zip(shown, estimates, strict=True)
    )
    left_out = len({row.group for row in answer.rows} - {row.group for row in shown})
    return Grid(
        columns=(
            *(groups or (Column("group"),)),
            value,
            Column(f"{formats.level(answer.confidence)} interval"),
        ),
        rows=rows,
        marks=tuple(Mark(r.interval[0], r.estimate, r.interval[1]) for r in shown),
        axis=_axis([r.interval for r in shown]),
        more=_more(left_out, "group"),
    )


@view.register
def of_question(question: Question, most: int = MOST_ROWS) -> View:
    constant = question.contrast.at_least
    low, high = question.interval
    mark = Mark(low, question.estimate, high, hollow=low <= constant <= high)
    grid = Grid(
        columns=(
            Column(f"released {question.measured}"),
            Column(f"{formats.level(question.confidence)} interval"),
        ),
        rows=((formats.number(question.estimate, high - low), formats.interval(low, high)),),
        marks=(mark,),
        axis=_axis([question.interval], constant),
    )
    return View(
        title=formats.clean(question.text),
        warning="" if question.answer.private else NOT_PRIVATE,
        verdict=question.verdict,
        lead=tuple(formats.clean(text) for text in (question.finding, question.note) if text),
        grid=grid,
        notes=(f"Free: a question reads only what was released already. {NOISE_ONLY}",),
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
            rows=((formats.number(combination.estimate, high - low), interval_text((low, high))),),
        ),
        notes=(f"Free: a formula reads only what was released already. {NOISE_ONLY}",),
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
                question.finding,
                question.note,
                words.gap_meaning(table) if words.tells_gaps(table) else "",
                words.influence_meaning(table),
            )
            if text
        ),
        grid=explanation_grid(table, most),
        notes=(
            *((UNCLEAR_MARK,) if any(map(words.is_unclear, table.rows)) else ()),
            words.table_cost(table),
            words.mechanism(table),
            words.CAVEAT,
        ),
        alt="; ".join(words.row_sentence(table, row) for row in table.rows[:most]),
    )


def explanation_grid(table: Explanation, most: int = MOST_ROWS) -> Grid:
    """One line per predicate, with a mark against zero."""
    shown = table.rows[:most]
    divisor = table.question.relative_to or 1.0
    intervals = [(r.influence[0] / divisor, r.influence[1] / divisor) for r in shown]
    marks = (
        Mark(low, row.estimate / divisor, high, hollow=words.is_unclear(row))
        for row, (low, high) in zip(shown, intervals, strict=True)
    )
    gaps = words.tells_gaps(table)
    name = f"{table.question.measured} without them"
    return Grid(
        columns=(
            Column("predicate", wrap=True),
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
            for row in shown
        ),
        marks=tuple(marks),
        axis=_axis(intervals, 0.0, percent=table.relative),
        one_line=gaps,
        more=_more(len(table.rows) - len(shown), "predicate"),
    )


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
        lead=(*words.price(preview.price), f"It answers {_counted(preview.groups, 'declared group')}."),
        grid=Grid((*before, Column("rows in the group", "right"), Column(expected)), tuple(rows)),
    )


def _margins(preview: QueryPreview) -> list[tuple[str, str]]:
    if preview.margin is not None:
        return [("any", f"± {formats.number(preview.margin)}")]
    return [(f"{size:,}", f"± {formats.number(margin)}") for size, margin in preview.margin_by_group_size]


@view.register
def of_explanation_preview(preview: ExplanationPreview, most: int = MOST_ROWS) -> View:
    margins = [("influence", f"± {formats.number(preview.influence_margin)}")]
    if preview.relative_margin is not None:
        margins.append(("relative influence", f"± {formats.number(preview.relative_margin * 100)}%"))
    if preview.gap_margin is not None:
        margins.append((f"{preview.measured} without them", f"± {formats.number(preview.gap_margin)}"))
    margins.append(("ranks", f"told apart beyond {formats.number(preview.rank_resolution)} of influence"))
    prepares = preview.mechanism == "marginals" and not preview.price.free
    return View(
        title="Preview of an explanation: nothing is spent",
        lead=(
            formats.clean(preview.question),
            f"The {preview.k:,} most influential of {_counted(preview.family_size, 'predicate')}, "
            f"by the {preview.mechanism} mechanism ({preview.reason}).",
            *words.price(preview.price),
            *(("It prepares the answer: every further why on it will be free.",) if prepares else ()),
        ),
        grid=Grid(
            (Column("of each predicate"), Column(f"expected {formats.level(preview.confidence)} interval")),
            tuple(margins),
        ),
    )


@view.register
def of_truth(truth: Truth, most: int = MOST_ROWS) -> View:
    first, *further = truth_grids(truth.rows[:most], _more(len(truth.rows) - most, "row"))
    return View(
        title=truth.title,
        warning=words.CURATOR_ONLY,
        grid=first,
        further=tuple(further),
        notes=("All rows: to_pandas(), to_csv().",) if len(truth.rows) > most else (),
    )


@view.register
def of_budget(budget: Budget, most: int = MOST_ROWS) -> View:
    from dpxplain.privacy.accounting import epsilon

    amounts = (("spent", budget.spent), ("left", budget.remaining), ("limit", budget.limit))
    rows = tuple(
        (name, f"{amount:.6g}", formats.number(epsilon(amount, budget.delta))) for name, amount in amounts
    )
    share = budget.spent / budget.limit if budget.limit else 1.0
    return View(
        title="Privacy budget",
        lead=(f"{formats.rho(budget.spent)} of {budget.limit:.6g} is spent ({share:.0%}).",),
        grid=Grid((Column(""), Column("ρ", "right"), Column(f"ε at δ = {budget.delta:g}", "right")), rows),
        notes=("ρ adds up over requests; ε does not, and each is converted by itself.",),
    )


@view.register(list)
def of_history(entries: list[Entry], most: int = 1_000) -> View:
    totals = accumulate(spend_units(e.rho) if e.rho else 0 for e in entries)
    shown = list(zip(entries, totals, strict=True))[-most:]
    rows = tuple(
        (
            str(e.id),
            f"{e.time:%Y-%m-%d %H:%M}",
            e.kind,
            formats.clean(e.description),
            f"{e.rho:.6g}",
            f"{rho_of_units(total):.6g}",
            "interrupted or running" if e.state == "reserved" else e.state,
        )
        for e, total in shown
    )
    columns = (
        Column("no.", "right"),
        Column("time (UTC)"),
        Column("kind"),
        Column("asked", wrap=True),
        Column("ρ", "right"),
        Column("total", "right"),
        Column("state"),
    )
    return View(
        title="History",
        lead=() if rows else ("Nothing was asked yet.",),
        grid=Grid(columns, rows, more=_more(len(entries) - len(shown), "earlier entry")) if rows else None,
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


def _counted(count: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def _more(count: int, noun: str) -> str:
    """What is not shown: … and 480 more groups."""
    return f"… and {_counted(count, f'more {noun}')}" if count > 0 else ""


view.register(CustomExplanation, custom_view)
view.register(Prepared, prepared_view)
view.register(PreparationPreview, preview_view)
