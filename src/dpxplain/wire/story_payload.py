"""A story as programs see it: the tree line by line, its sentences, and its price."""

from __future__ import annotations

import math
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic reads the standard one from Python 3.12 on

from dpxplain.model.budget import Budget
from dpxplain.model.charge import EntryId
from dpxplain.render.story_tree import notes, sentences, tree
from dpxplain.results.story import Story
from dpxplain.results.titles import question_title
from dpxplain.wire.account_payloads import budget_figures, spend_payloads
from dpxplain.wire.shapes import BudgetFigures, SpendPayload


class StoryBranch(TypedDict):
    """Some rows: all of them, those with the conditions so far, or those without the last of these."""

    level: int
    rows: Literal["all", "with", "without"]
    condition: str  # as SQL; empty for all rows
    predicate: str  # with the conditions of the levels before
    text: str  # with the lines of the tree before it
    gap: float
    gap_low: float | None
    gap_high: float | None
    gap_text: str
    rows_low: float
    rows_high: float
    rows_text: str


class StoryPayload(TypedDict):
    kind: Literal["story"]
    id: EntryId  # of the preparation that it is read off
    title: str
    measured: str
    levels: int  # as many as it could have had
    confidence: float
    rho: float
    free: bool
    private: bool
    sentences: list[str]
    rows: list[StoryBranch]
    shaped_by: list[str]
    notes: list[str]
    spends: list[SpendPayload]
    budget: BudgetFigures
    chart: NotRequired[dict[str, Any]]  # Vega-Lite, at a server that was asked for one


def story_payload(story: Story, budget: Budget) -> StoryPayload:
    answer = story.question.answer
    return StoryPayload(
        kind="story",
        id=story.id,
        title=question_title(story.question.text, answer.statement, answer.schema),
        measured=story.question.measured,
        levels=story.levels,
        confidence=story.confidence,
        rho=story.rho,
        free=story.free,
        private=story.private,
        sentences=sentences(story),
        rows=_branches(story),
        shaped_by=list(story.shaped_by),
        notes=notes(story),
        spends=spend_payloads(story.spends),
        budget=budget_figures(budget),
    )


def _branches(story: Story) -> list[StoryBranch]:
    return [
        StoryBranch(
            level=branch.level,
            rows="all" if branch.step is None else "without" if branch.is_rest else "with",
            condition="" if branch.step is None else str(branch.step.condition),
            predicate="" if branch.step is None else str(branch.step.predicate),
            text=branch.text,
            gap=branch.gap.estimate,
            gap_low=_finite(branch.gap.interval[0]),
            gap_high=_finite(branch.gap.interval[1]),
            gap_text=branch.gap_text,
            rows_low=branch.gap.rows[0],
            rows_high=branch.gap.rows[1],
            rows_text=branch.rows_text,
        )
        for branch in tree(story)
    ]


def _finite(value: float) -> float | None:
    """JSON has no infinity: an unbounded end is null."""
    return value if math.isfinite(value) else None
