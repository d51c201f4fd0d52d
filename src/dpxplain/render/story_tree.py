"""A story in sentences and as a tree: what every face says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpxplain.model.contrast import Verdict
from dpxplain.phases.tell_story import StoryLine
from dpxplain.privacy.marginals.story_gaps import Gap
from dpxplain.render import words
from dpxplain.render.layout import MOST_ROWS, Axis, Column, Grid, Mark, View, span, view
from dpxplain.results import formats
from dpxplain.results.sentences import NOT_PRIVATE
from dpxplain.results.story import Story, StoryPreview


@dataclass(frozen=True)
class Branch:
    """One line of the tree: all rows, or those that a step's condition takes or leaves."""

    label: str
    gap: Gap
    level: int = 0
    step: StoryLine | None = None
    is_rest: bool = False
    unit: formats.Unit = formats.PLAIN

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
    """All rows, then for each step the rows that meet its condition, then backwards those that do not."""
    numbered = list(enumerate(story.steps, 1))
    unit = story.question.unit
    down = [Branch(_label(step), step.inside, level, step, unit=unit) for level, step in numbered]
    back = [
        Branch(f"without {_label(step)}", step.rest, level, step, is_rest=True, unit=unit)
        for level, step in numbered
    ]
    return [Branch("all rows", story.gap, unit=unit), *down, *reversed(back)]


def sentences(story: Story) -> list[str]:
    """The story in words, a sentence or two for each step, and what remains."""
    name, unit = story.question.measured, story.question.unit
    lines = [f"The {name} is {_gap_text(story.gap, unit)}."]
    if not story.steps:
        return [*lines, _ending(story, [])]
    first, *others = story.steps
    # Nothing explains a gap that is not there, or that points the other way.
    does = "explain" if story.question.verdict is Verdict.REAL else f"raise the {name}"
    lines.append(
        f"{_label(first)} is estimated to {does} most: without its {_rows(first.inside)} rows, the {name} "
        f"would be {_interval(first.rest, unit)}; among them it is {_interval(first.inside, unit)}."
    )
    for step in others:
        lines.append(
            f"Within these, {_label(step)} is estimated to {does} most: among its {_rows(step.inside)} rows "
            f"the {name} is {_interval(step.inside, unit)}, among the others of them "
            f"{_interval(step.rest, unit)}."
        )
    ending = _ending(story, story.steps)
    remains = f"What remains among the {_rows(first.rest)} rows without {_label(first)}"
    return [*lines, *([ending] if ending else []), f"{remains}: a {name} of {_gap_text(first.rest, unit)}."]


def _ending(story: Story, steps: Sequence[StoryLine]) -> str:
    """Why the story ends before its last level; empty where it does not."""
    if not story.ends_in_noise:
        return ""
    where = "Within these no further" if steps else "No"
    return f"{where} condition lowers the {story.question.measured} by clearly more than privacy noise."


def _label(step: StoryLine) -> str:
    return formats.clean(step.condition.label)


def _interval(gap: Gap, unit: formats.Unit) -> str:
    return unit.interval(*gap.interval)


def _gap_text(gap: Gap, unit: formats.Unit) -> str:
    return f"{unit.number(gap.estimate, gap.interval[1] - gap.interval[0])} ({_interval(gap, unit)})"


def _rows(gap: Gap) -> str:
    low, high = gap.rows
    return formats.interval(round(low), round(high))


def notes(story: Story) -> list[str]:
    """What the intervals promise, what it cost, and what it does not say."""
    number = sum(family.size for family in story.plan.families)
    cost = (
        f"Free: read off what was prepared once for {_prices(story)}."
        if story.free
        else f"{words.cost(story.rho, story.spends)}. Every further story and why on this answer is free."
    )
    return [
        f"{formats.level(story.confidence)} intervals, which hold together for all {number:,} conditions "
        "that the steps chose from. Which of them comes first is an estimate.",
        cost,
        words.CAVEAT,
    ]


def _prices(story: Story) -> str:
    """The price of each preparation that the story was read off."""
    prices = [formats.rho(entry.rho) for entry in story.entries]
    together = f", together {formats.rho(story.rho)}" if len(prices) > 1 else ""
    return f"{' and for '.join(prices)}{together}"


def story_grid(story: Story) -> Grid:
    branches = tree(story)
    intervals = [branch.gap.interval for branch in branches]
    low, high = span(intervals, story.gap.estimate)
    unit = story.question.unit
    ends = unit.number(low, high - low), unit.number(high, high - low)
    return Grid(
        columns=(
            Column("rows"),
            Column(f"{story.question.measured} among them", "right"),
            Column("number of rows", "right"),
        ),
        rows=tuple((branch.text, branch.gap_text, branch.rows_text) for branch in branches),
        marks=tuple(Mark(b.gap.interval[0], b.gap.estimate, b.gap.interval[1]) for b in branches),
        axis=Axis(low, high, story.gap.estimate, (ends[0], "", ends[1])),
    )


@view.register
def of_story(story: Story, most: int = MOST_ROWS) -> View:
    question = story.question
    return View(
        title=f"The story of: {formats.clean(question.text)}",
        warning="" if story.private and question.answer.private else NOT_PRIVATE,
        verdict=question.verdict,
        lead=(*words.verdicts(question), *sentences(story)),
        grid=story_grid(story),
        shaped_by=story.shaped_by,
        notes=(*notes(story), *words.general_notes(question)),
        alt=" ".join(sentences(story)),
    )


@view.register
def of_story_preview(preview: StoryPreview, most: int = MOST_ROWS) -> View:
    return View(
        title="Preview of a story: nothing is spent",
        lead=(formats.clean(preview.question), *words.price(preview.price), expected_story(preview)),
    )


def expected_story(preview: StoryPreview) -> str:
    """How deep and how precise a story will be."""
    steps = words.counted(preview.levels, "step")
    where = "" if preview.rows_in_group is None else f" where each group has {preview.rows_in_group:,}"
    return (
        f"Expected: up to {steps}, chosen from {preview.predicates:,} conditions; numbers of rows to about "
        f"±{formats.number(preview.rows_margin)}, and the {preview.measured} among them to about "
        f"±{preview.unit.number(preview.gap_margin)}{where} (together {formats.level(preview.confidence)})."
    )
