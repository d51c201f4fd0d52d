"""A story as sentences and as a tree, the same for all displays."""

from __future__ import annotations

from dataclasses import dataclass

from dpxplain.phases.tell_story import StoryLine
from dpxplain.privacy.marginals.story_gaps import Gap
from dpxplain.render.layout import MOST_ROWS, Axis, Column, Grid, Mark, View, span, view
from dpxplain.results.story import Story, StoryPreview
from dpxplain.words import numbers
from dpxplain.words.findings import in_general
from dpxplain.words.prices import price
from dpxplain.words.questions import NOT_PRIVATE


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
    if story.steps and story.ends_in_noise and len(story.steps) > 1:
        lines.append("Nothing else clearly shrinks it.")
    return lines


def _rows(gap: Gap) -> str:
    low, high = gap.rows
    return numbers.interval(round(low), round(high))


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
def of_story_preview(preview: StoryPreview, most: int = MOST_ROWS) -> View:
    return View(
        title="Preview of a story: nothing is spent",
        lead=(numbers.clean(preview.question), *price(preview.price), expected_story(preview)),
    )


def expected_story(preview: StoryPreview) -> str:
    """How deep and how precise a story will be."""
    steps = numbers.counted(preview.levels, "step")
    where = "" if preview.rows_in_group is None else f" in groups of {preview.rows_in_group:,}"
    margin = preview.unit.about(preview.gap_margin, preview.gap_margin)
    return (
        f"Up to {steps}, chosen from {preview.predicates:,} conditions. Each {preview.measured} will be "
        f"accurate to about ±{margin}{where}, each number of rows to ±{numbers.number(preview.rows_margin)}."
    )
