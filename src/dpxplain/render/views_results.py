"""Views of answers, questions, explanations and stories."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpxplain.model.contrast import Verdict
from dpxplain.phases.explain_marginals import StoryLine
from dpxplain.privacy.marginals.inference import Gap
from dpxplain.render.layout import (
    MOST_ROWS,
    Axis,
    IntervalMark,
    TextColumn,
    TextGrid,
    View,
    aligned,
    nice,
    span,
    view,
)
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers
from dpxplain.results.combination import Combination
from dpxplain.results.explanation import CustomExplanation, Explanation, ExplanationRow, Story, StoryPreview
from dpxplain.results.question import Question
from dpxplain.results.released_answer import AnswerRow
from dpxplain.words import numbers
from dpxplain.words.findings import NOTHING_ELSE, in_general
from dpxplain.words.numbers import PERCENT
from dpxplain.words.prices import FREE_FORMULA, FREE_QUESTION, cost, price
from dpxplain.words.sentences import (
    AS_ASKED,
    CUSTOM_INTERVALS,
    LOST_IN_NOISE,
    NOT_PRIVATE,
    answer_title,
    condition_label,
    effect_text,
    relative_text,
    row_sentence,
)

# -- Answers -----------------------------------------------------------------------------------------------


@view.register
def of_answer(answer: Answer) -> View:
    finding = answer.finding
    return View(
        title=f"Answer {answer.id}: {answer_title(answer.statement, answer.schema)}",
        warning="" if answer.private else NOT_PRIVATE,
        finding=finding,
        grid=answer_grid(answer, answer.rows[:MOST_ROWS]),
        lines=tuple(map(numbers.clean, answer.notes)),
        notes=(*finding.notes, cost(answer.rho, answer.spends, answer.free)),
        alt=f"{answer.value_name} of each group with its interval; the table has the numbers.",
    )


@view.register
def of_answers(answers: Answers) -> View:
    """A table for each aggregate: one for all would be too wide to read, and could not have a plot."""
    first, *further = (answer_grid(answer, answer.rows[:MOST_ROWS]) for answer in answers.answers)
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
    """The common decimals of an answer's values: none for counts; shares are in percent."""
    intervals = [row.interval for row in answer.rows if not row.is_unknown]
    return numbers.Figures.of(intervals, whole=answer.is_count, percent=answer.in_percent)


def answer_grid(answer: Answer, visible_rows: Sequence[AnswerRow]) -> TextGrid:
    """One line per group, with a mark on a common axis."""
    names = {o.column: o.name for o in answer.statement.presentation.outputs if o.column is not None}
    declared = [answer.schema.column(name) for name in answer.groups.columns]
    headings = [
        column.heading(name) if names.get(name, name) == name else names[name]
        for name, column in zip(answer.groups.columns, declared, strict=True)
    ]
    groups = tuple(TextColumn(numbers.clean(heading), wrap=True) for heading in headings)
    value = TextColumn(numbers.clean(answer.value_heading), "right")
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
    return TextGrid(
        columns=(
            *(groups or (TextColumn("group"),)),
            value,
            TextColumn(f"{numbers.level(answer.confidence)} interval"),
            *((TextColumn("in general"),) if answer.population and not answer.not_general else ()),
        ),
        rows=rows,
        marks=tuple(IntervalMark(r.interval[0], r.estimate, r.interval[1]) for r in visible_rows),
        axis=_axis(
            [r.interval for r in visible_rows if not r.is_unknown],
            unit=PERCENT if answer.in_percent else numbers.PLAIN,
        ),
        more=numbers.more(left_out, "group"),
    )


def _general_text(interval: tuple[float, float], written: numbers.Figures | None) -> str:
    """The interval in general, in the unit of the interval beside it; its ends may be infinite."""
    if written is None:
        return numbers.open_interval(*interval)
    if all(map(math.isfinite, interval)):
        return written.interval(*interval)
    return numbers.PERCENT.open_interval(*interval)


@view.register
def of_combination(combination: Combination) -> View:
    low, high = combination.interval
    return View(
        title=combination.formula,
        warning="" if combination.private else NOT_PRIVATE,
        grid=TextGrid(
            columns=(
                TextColumn("value", "right"),
                TextColumn(f"{numbers.level(combination.confidence)} interval"),
            ),
            rows=((numbers.number(combination.estimate, high - low), numbers.open_interval(low, high)),),
        ),
        lines=tuple(filter(None, (combination.method_note,))),
        notes=(*combination.shaped_by, FREE_FORMULA),
    )


# -- Questions ---------------------------------------------------------------------------------------------


@view.register
def of_question(question: Question) -> View:
    constant = question.contrast.at_least
    readings = [("in these data", question.interval)]
    if question.in_general is not None:
        readings.append(("in general", question.in_general.interval))
    has_several = len(readings) > 1
    grid = TextGrid(
        columns=(
            *((TextColumn("where"),) if has_several else ()),
            TextColumn(f"released {question.measured}"),
            TextColumn(f"{numbers.level(question.confidence)} interval"),
        ),
        rows=tuple(
            (
                *((name,) if has_several else ()),
                question.unit.number(question.estimate, high - low),
                question.unit.open_interval(low, high, constant),
            )
            for name, (low, high) in readings
        ),
        marks=tuple(
            IntervalMark(low, question.estimate, high, hollow=low <= constant <= high)
            for _, (low, high) in readings
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


# -- Explanations ------------------------------------------------------------------------------------------


@view.register
def of_explanation(table: Explanation) -> View:
    question, finding, explained = table.question, table.finding, table.explained
    first, *further = explanation_grids(table)
    effects = (row_sentence(explained, effect) for effect in explained.effects[:MOST_ROWS])
    return View(
        title=question.title,
        warning="" if table.private and question.answer.private else NOT_PRIVATE,
        verdict=None if question.verdict is Verdict.REAL else question.verdict,
        finding=finding,
        grid=first,
        further=tuple(further),
        lines=tuple(filter(None, (in_general(question.comparison), table.order_note))),
        notes=finding.notes,
        alt="" if first.folded else " ".join(effects),  # no chart of noise
    )


def explanation_grids(table: Explanation, most: int = MOST_ROWS) -> list[TextGrid]:
    """The conditions with a clear effect, and folded below them those that are too noisy to tell."""
    rows = table.rows[:most]
    more = numbers.more(len(table.rows) - len(rows), "condition")
    if table.question.verdict is not Verdict.REAL:
        heading = AS_ASKED.format(count=numbers.counted(len(rows), "condition"))
        return [replace(explanation_grid(table, rows), folded=heading, more=more)]
    clear, unclear = [r for r in rows if not r.is_unclear], [r for r in rows if r.is_unclear]
    if table.by_influence and clear:
        return [replace(explanation_grid(table, rows), more=more)]
    grids = [replace(explanation_grid(table, clear), more=more)] if clear else []
    if unclear:
        count = f"{len(unclear):,} more" if clear else numbers.counted(len(unclear), "candidate")
        heading = LOST_IN_NOISE.format(count=count)
        grids.append(replace(explanation_grid(table, unclear), folded=heading, more=more))
    return grids


def explanation_grid(table: Explanation, rows: Sequence[ExplanationRow]) -> TextGrid:
    """One line per condition: what it removes of the gap; or its influence and rank."""
    return _influence_grid(table, rows) if table.by_influence else _share_grid(table, rows)


def _share_grid(table: Explanation, rows: Sequence[ExplanationRow]) -> TextGrid:
    name, shares = table.question.measured, [row.share_removed or (-math.inf, math.inf) for row in rows]
    low, high = nice(*span(shares, 0.0))
    return TextGrid(
        columns=(
            TextColumn("condition", wrap=True),
            TextColumn(f"effect on the {name}"),
            TextColumn(f"{name} without them", "right"),
        ),
        rows=tuple(
            (table.label_of(row), effect_text(table.effect_of(row)), gap_without_text(table, row))
            for row in rows
        ),
        marks=tuple(
            IntervalMark(
                ends[0], 0.0 if row.share_estimate is None else row.share_estimate, ends[1], row.is_unclear
            )
            for row, ends in zip(rows, shares, strict=True)
        ),
        axis=Axis(low, high, 0.0, (PERCENT.number(low), "", PERCENT.number(high))),
        one_line=True,
    )


def gap_without_text(table: Explanation, row: ExplanationRow) -> str:
    """The question's number without these rows, in the digits of its column."""
    if row.gap_without is None or not all(map(math.isfinite, row.gap_without)):
        return "unknown"
    return table.question.unit.interval(*row.gap_without, spread=_gap_spread(table))


def _gap_spread(table: Explanation) -> float | None:
    """One width for the digits of a whole column: the middle one."""
    known_gaps = [row.gap_without for row in table.rows if row.gap_without is not None]
    widths = sorted(high - low for low, high in known_gaps if 0 < high - low < math.inf)
    return widths[len(widths) // 2] if widths else None


def _influence_grid(table: Explanation, rows: Sequence[ExplanationRow]) -> TextGrid:
    divisor = table.question.relative_to or 1.0
    intervals = [(r.influence[0] / divisor, r.influence[1] / divisor) for r in rows]
    marks = (
        IntervalMark(low, row.estimate / divisor, high, hollow=low <= 0 <= high)
        for row, (low, high) in zip(rows, intervals, strict=True)
    )
    # A ratio's table has no shares, and so no other view that tells what remains.
    tells_gaps = all(row.share_removed is None and row.gap_without is not None for row in table.rows)
    return TextGrid(
        columns=(
            TextColumn("condition", wrap=True),
            TextColumn("effect"),
            *((TextColumn(f"{table.question.measured} without them", "right"),) if tells_gaps else ()),
            TextColumn("relative influence" if table.relative else "influence", "right"),
            TextColumn(f"rank of {table.family_size:,}", "right"),
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
def of_custom_explanation(table: CustomExplanation) -> View:
    question, name = table.question, numbers.clean(table.release.influence)
    return View(
        title=question.title,
        warning="" if table.private and question.answer.private else NOT_PRIVATE,
        verdict=question.verdict,
        finding=question.finding,
        lead=(f"Conditions by the influence “{name}”:",),
        grid=TextGrid(
            columns=(
                TextColumn("condition", wrap=True),
                TextColumn("influence", "right"),
                TextColumn(f"rank of {table.family_size:,}", "right"),
            ),
            rows=tuple(
                (
                    condition_label(row.predicate, table.plan.family.schema),
                    numbers.open_interval(*row.influence),
                    numbers.ranks(*row.rank),
                )
                for row in table.rows[:MOST_ROWS]
            ),
            more=numbers.more(len(table) - MOST_ROWS, "condition"),
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


# -- Stories -----------------------------------------------------------------------------------------------
#
# A story as sentences and as a tree, the same for all displays.


@dataclass(frozen=True)
class Branch:
    """One line of the tree: all rows, or the rows with or without a step's condition."""

    label: str
    gap: Gap
    level: int = 0
    step: StoryLine | None = None
    is_rest: bool = False
    unit: numbers.Unit = numbers.PLAIN

    @property
    def text(self) -> str:
        """The branch's label behind the tree lines that lead to it."""
        stem = "│ " * (self.level - 1) + ("└ " if self.is_rest else "├ ") if self.step else ""
        return f"{stem}{self.label}"

    @property
    def short(self) -> str:
        """The branch without tree lines, for places where they would not connect, such as beside a chart."""
        if self.level < 2:
            return self.label
        return f"{'… ' * (self.level - 1)}{'' if self.is_rest else 'and '}{self.label}"

    @property
    def gap_text(self) -> str:
        return self.unit.interval(*self.gap.interval)

    @property
    def rows_text(self) -> str:
        return _rows(self.gap)


def tree(story: Story) -> list[Branch]:
    """All rows, then the rows that meet each step's condition, then in reverse order those that do not."""
    numbered = list(enumerate(story.steps, 1))
    unit = story.question.unit
    down = [Branch(story.label(step), step.inside, level, step, unit=unit) for level, step in numbered]
    back = [
        Branch(f"without {story.label(step)}", step.rest, level, step, is_rest=True, unit=unit)
        for level, step in numbered
    ]
    return [Branch("all rows", story.gap, unit=unit), *down, *reversed(back)]


def sentences(story: Story) -> list[str]:
    """The story in words: its finding, then a sentence for each further step."""
    unit, name = story.question.unit, story.question.measured
    lines = [str(story.finding)]
    for step in story.steps[1:]:
        lines.append(
            f"Within these, {story.phrase(step)}: among its {_rows(step.inside)} rows the {name} is "
            f"{unit.span(*step.inside.interval)}, among the others {unit.span(*step.rest.interval)}."
        )
    if story.ends_in_noise and len(story.steps) > 1:
        lines.append(NOTHING_ELSE)
    return lines


def _rows(gap: Gap) -> str:
    low, high = gap.rows
    return numbers.interval(round(low), round(high))


def story_grid(story: Story) -> TextGrid:
    branches = tree(story)
    intervals = [branch.gap.interval for branch in branches]
    low, high = span(intervals, story.gap.estimate)
    unit = story.question.unit
    ends = unit.number(low, high - low), unit.number(high, high - low)
    return TextGrid(
        columns=(
            TextColumn("rows"),
            TextColumn(f"{story.question.measured} among them", "right"),
            TextColumn("number of rows", "right"),
        ),
        rows=tuple((branch.text, branch.gap_text, branch.rows_text) for branch in branches),
        marks=tuple(IntervalMark(b.gap.interval[0], b.gap.estimate, b.gap.interval[1]) for b in branches),
        axis=Axis(low, high, story.gap.estimate, (ends[0], "", ends[1])),
    )


@view.register
def of_story(story: Story) -> View:
    question, (_, *further) = story.question, sentences(story)
    finding = story.finding
    return View(
        title=f"Step by step: {question.title}",
        warning="" if story.private and question.answer.private else NOT_PRIVATE,
        verdict=question.verdict,
        finding=finding,
        lead=tuple(further),
        grid=story_grid(story) if story.steps else None,
        lines=tuple(filter(None, (in_general(question.comparison),))),
        notes=finding.notes,
        alt=" ".join(sentences(story)),
    )


@view.register
def of_story_preview(preview: StoryPreview) -> View:
    return View(
        title="Preview of a story: nothing is spent",
        lead=(numbers.clean(preview.question), *price(preview.price), expected_story(preview)),
    )


def expected_story(preview: StoryPreview) -> str:
    """A sentence on the depth and precision of a story."""
    steps = numbers.counted(preview.levels, "step")
    where = "" if preview.rows_in_group is None else f" in groups of {preview.rows_in_group:,}"
    margin = preview.unit.about(preview.gap_margin, preview.gap_margin)
    return (
        f"Up to {steps}, chosen from {preview.predicates:,} conditions. Each {preview.measured} will be "
        f"accurate to about ±{margin}{where}, each number of rows to ±{numbers.number(preview.rows_margin)}."
    )
