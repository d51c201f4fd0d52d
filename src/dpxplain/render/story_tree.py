"""A story in sentences and as a tree: what every face says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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

    @property
    def text(self) -> str:
        """With the lines of the tree that lead to it."""
        stem = "│ " * (self.level - 1) + ("└ " if self.is_rest else "├ ") if self.step else ""
        return f"{stem}{self.label}"

    @property
    def short(self) -> str:
        """Where the lines of a tree would not meet, as beside a chart."""
        if self.level < 2:
            return self.label
        return f"{'… ' * (self.level - 1)}{'' if self.is_rest else 'and '}{self.label}"

    @property
    def gap_text(self) -> str:
        return formats.interval(*self.gap.interval)

    @property
    def rows_text(self) -> str:
        return _rows(self.gap)


def tree(story: Story) -> list[Branch]:
    """All rows, then for each step the rows that meet its condition, then backwards those that do not."""
    numbered = list(enumerate(story.steps, 1))
    down = [Branch(_label(step), step.inside, level, step) for level, step in numbered]
    back = [
        Branch(f"without {_label(step)}", step.rest, level, step, is_rest=True) for level, step in numbered
    ]
    return [Branch("all rows", story.gap), *down, *reversed(back)]


def sentences(story: Story) -> list[str]:
    """The story in words, a sentence or two for each step, and what remains."""
    name = story.question.measured
    told = [f"The {name} is {_told(story.gap)}."]
    if not story.steps:
        return [*told, _ending(story, [])]
    first, *others = story.steps
    told.append(
        f"{_label(first)} is estimated to explain most: without its {_rows(first.inside)} rows, the {name} "
        f"would be {_interval(first.rest)}; among them it is {_interval(first.inside)}."
    )
    for step in others:
        told.append(
            f"Within these, {_label(step)} is estimated to explain most: among its {_rows(step.inside)} rows "
            f"the {name} is {_interval(step.inside)}, among the others of them {_interval(step.rest)}."
        )
    ending = _ending(story, story.steps)
    remains = f"What remains among the {_rows(first.rest)} rows without {_label(first)}"
    return [*told, *([ending] if ending else []), f"{remains}: a {name} of {_told(first.rest)}."]


def _ending(story: Story, steps: Sequence[StoryLine]) -> str:
    """Why the story ends before its last level; empty where it does not."""
    if not story.ends_in_noise:
        return ""
    where = "Within these no further" if steps else "No"
    return f"{where} condition lowers the {story.question.measured} by clearly more than privacy noise."


def _label(step: StoryLine) -> str:
    return formats.clean(step.condition.label)


def _interval(gap: Gap) -> str:
    return formats.interval(*gap.interval)


def _told(gap: Gap) -> str:
    return f"{formats.number(gap.estimate, gap.interval[1] - gap.interval[0])} ({_interval(gap)})"


def _rows(gap: Gap) -> str:
    low, high = gap.rows
    return formats.interval(round(low), round(high))


def notes(story: Story) -> list[str]:
    """What the intervals promise, what it cost, and what it does not say."""
    number = sum(family.size for family in story.plan.families)
    cost = (
        f"Free: read off what was prepared once for {formats.rho(story.rho)}."
        if story.free
        else f"{words.cost(story.rho, story.spends)}. Every further story and why on this answer is free."
    )
    return [
        f"{formats.level(story.confidence)} intervals, which hold together for all {number:,} conditions "
        "that the steps chose from. Which of them comes first is an estimate.",
        cost,
        words.CAVEAT,
    ]


def story_grid(story: Story) -> Grid:
    branches = tree(story)
    intervals = [branch.gap.interval for branch in branches]
    low, high = span(intervals, story.gap.estimate)
    ends = formats.number(low, high - low), formats.number(high, high - low)
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
        lead=(formats.clean(words.here(question)), *sentences(story)),
        grid=story_grid(story),
        shaped_by=story.shaped_by,
        notes=tuple(notes(story)),
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
    gaps = (
        ""
        if preview.gap_margin is None
        else f", and the gap among them to about ±{formats.number(preview.gap_margin)}"
    )
    return (
        f"Expected: up to {steps}, chosen from {preview.predicates:,} conditions; numbers of rows to about "
        f"±{formats.number(preview.rows_margin)}{gaps} (together {formats.level(preview.confidence)})."
    )
