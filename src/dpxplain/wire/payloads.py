"""Results as JSON objects for programs, each with its `kind`.

The command line prints them with --json; the server serves them. Records in them are sent with their public
fields (`model.public`).
"""

from __future__ import annotations

import math
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic reads the standard one from Python 3.12 on

from dpxplain.curator import TruthColumns
from dpxplain.explanation.family_choice import NO_ATTRIBUTE, eligible_attributes
from dpxplain.model.budget import Budget
from dpxplain.model.cancellation import checking
from dpxplain.model.charge import EntryId, Spend
from dpxplain.model.finding import Finding
from dpxplain.privacy.intervals import Interval
from dpxplain.render import story_tree
from dpxplain.render.snippets import Place, explain_code
from dpxplain.render.views_results import gap_without_text
from dpxplain.render.views_truth import true_texts
from dpxplain.results.asked_question import AskedQuestion
from dpxplain.results.base import Truth
from dpxplain.results.discovery import DiscoveryPreview
from dpxplain.results.explanation import Explanation, ExplanationRow
from dpxplain.results.prepared import PreparationPreview, Prepared
from dpxplain.results.preview import CustomPreview, ExplanationPreview, QueriesPreview, QueryPreview
from dpxplain.results.quality import QualityPreview
from dpxplain.results.released_answer import ReleasedAnswer
from dpxplain.results.story import Story, StoryPreview
from dpxplain.results.tuning import TuningPreview
from dpxplain.sql.parse import parse
from dpxplain.sql.render import narrowing
from dpxplain.wire.account_payloads import budget_figures
from dpxplain.wire.shapes import (
    BudgetFigures,
    ExplanationLine,
    ExplanationPayload,
    FoldedPayload,
    GeneralPayload,
    PreparedPayload,
    PreviewPayload,
    QuestionPayload,
    Record,
    TrueValue,
    TruthPayload,
    WeightPayload,
)
from dpxplain.words import numbers, prices, titles
from dpxplain.words.explanations import effect_text, relative_text, row_sentence
from dpxplain.words.questions import GENERAL_USE

Preview = (
    QueryPreview
    | QueriesPreview
    | ExplanationPreview
    | CustomPreview
    | PreparationPreview
    | QualityPreview
    | DiscoveryPreview
    | StoryPreview
    | TuningPreview
)


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


class StoryPreparation(TypedDict):
    """A preparation, paid for once, that a story is read from."""

    id: EntryId
    rho: float


class StoryPayload(TypedDict):
    kind: Literal["story"]
    id: EntryId  # of the preparation that its last level was read from
    preparations: list[StoryPreparation]  # all that it was read from; `rho` is their sum
    title: str
    caption: str
    measured: str
    levels: int  # the most that it could have had
    confidence: float
    rho: float
    free: bool
    private: bool
    finding: Finding
    sentences: list[str]  # the finding, and one for each further step
    rows: list[StoryBranch]
    shaped_by: list[str]
    spends: tuple[Spend, ...]
    budget: BudgetFigures
    chart: NotRequired[dict[str, Any]]  # Vega-Lite, at a server that was asked for one


def general_payload(
    interval: Interval, figures: numbers.Figures | numbers.Unit | None = None
) -> GeneralPayload:
    low, high = map(number_or_null, interval)
    return GeneralPayload(low=low, high=high, interval_text=interval_text(interval, figures))


def question_payload(question: AskedQuestion, truth: Truth | None = None) -> QuestionPayload:
    groups, contrast = question.answer.groups, question.contrast
    no_influence = question.answer.no_influence
    attributes = (
        [] if no_influence else eligible_attributes(question.answer.schema, question.answer.statement.query)
    )
    payload = QuestionPayload(
        kind="question",
        answer=question.answer.id,
        of=question.answer.value_name,
        question=question.text,
        weights=[
            WeightPayload(group=groups.label(group), weight=weight)
            for group, weight in question.asked_weights
        ],
        compare="difference" if question.ratio is None else question.measured,
        measured=question.measured,
        at_least=contrast.at_least,
        estimate=question.estimate,
        interval=(number_or_null(question.interval[0]), number_or_null(question.interval[1])),
        estimate_text=question.unit.number(question.estimate, question.interval[1] - question.interval[0]),
        interval_text=interval_text(question.interval, question.unit),
        confidence=question.confidence,
        method=question.method,
        verdict=question.verdict.value,
        title=question.title,
        finding=question.finding,
        note=question.note,
        sharpened=question.sharpened,
        shaped_by=list(question.shaped_by),
        prepared=question.prepared,
        attributes=attributes,
        no_influence=no_influence or ("" if attributes else NO_ATTRIBUTE),
    )
    if question.in_general is not None:
        general = general_payload(question.in_general.interval, question.unit)
        verdict, finding = question.in_general.verdict.value, question.general_finding
        payload["in_general"] = GeneralPayload(**general, verdict=verdict, finding=finding)
    if question.population:
        basis = [question.answer.general_basis, GENERAL_USE] if question.in_general is not None else []
        payload["general_notes"] = basis or [question.general_finding]
    if truth is not None:
        payload["truth"] = truth_payload(truth)
    return payload


def _folded(row: ExplanationRow) -> list[FoldedPayload]:
    return [
        FoldedPayload(
            predicate=str(condition.predicate),
            label=condition.predicate.label,
            same_low=condition.same_rows and condition.same_rows[0],
            same_high=condition.same_rows and condition.same_rows[1],
        )
        for condition in row.folded
    ]


def _line_record(record: Record) -> Record:
    """The record without the two ends of the share removed, because the JSON has them as one pair."""
    return {name: value for name, value in record.items() if not name.startswith("share_removed_")}


def explanation_payload(
    table: Explanation, budget: Budget, truth: Truth | None = None, place: Place | None = None
) -> ExplanationPayload:
    answer = table.question.answer
    narrowed, explained = narrowing(answer.sql, answer.schema), table.explained
    lines = [
        ExplanationLine(
            **finite_record(_line_record(record) | {"folded": _folded(row)}),  # type: ignore[typeddict-item]
            share_removed=row.share_removed,
            folded_text=table.folded_text(row),
            label=table.label_of(row),
            unclear=row.is_unclear,
            effect_text=effect_text(table.effect_of(row)),
            sentence=row_sentence(explained, table.effect_of(row)),
            influence_text=relative_text(row.influence, row.relative_influence),
            influence_interval_text=interval_text(row.influence),
            gap_without_text=gap_without_text(table, row),
            rank_text=numbers.ranks(*row.rank),
            drill=narrowed(str(row.predicate)),
        )
        for record, row in checking(zip(table.records(), table.rows, strict=True))
    ]
    gap, interval = table.release.gap, table.release.gap_interval
    several = parse(answer.sql, answer.schema).is_table
    place = place or Place.of_schema(answer.schema)
    code = explain_code(place, answer.sql, answer.rho, table.request, answer.schema, several=several)
    payload = ExplanationPayload(
        kind="explanation",
        id=table.id,
        title=titles.question_filter(table.question.title, answer.statement, answer.schema),
        finding=table.finding,
        order_note=table.order_note,
        caption=titles.caption(answer.schema, table.entry, table.confidence),
        question=question_payload(table.question),
        mechanism=table.mechanism,
        reason=table.plan.reason,
        gap=None if gap is None else number_or_null(gap),
        gap_interval=None if interval is None else (number_or_null(interval[0]), number_or_null(interval[1])),
        rho=table.rho,
        free=table.free,
        private=table.private,
        confidence=table.confidence,
        predicates=table.family_size,
        relative=table.relative,
        rows=lines,
        shaped_by=list(table.shaped_by),
        by_influence=table.by_influence,
        spends=table.spends,
        budget=budget_figures(budget),
        code=code,
    )
    if truth is not None:
        payload["truth"] = truth_payload(truth)
    return payload


def prepared_payload(prepared: Prepared, answer: ReleasedAnswer, budget: Budget) -> PreparedPayload:
    return PreparedPayload(
        kind="prepared",
        id=prepared.id,
        answer=answer.id,
        of=answer.value_name,
        sql=prepared.sql,
        rho=prepared.rho,
        free=prepared.free,
        private=prepared.private,
        rows=list(map(finite_record, prepared.records())),
        shaped_by=list(prepared.shaped_by),
        spends=prepared.spends,
        budget=budget_figures(budget),
    )


def story_payload(story: Story, budget: Budget) -> StoryPayload:
    answer = story.question.answer
    return StoryPayload(
        kind="story",
        id=story.id,
        preparations=[StoryPreparation(id=entry.id, rho=entry.rho) for entry in story.entries],
        title=titles.question_filter(story.question.title, answer.statement, answer.schema),
        caption=titles.caption(answer.schema, story.entries[-1], story.confidence),
        measured=story.question.measured,
        levels=story.levels,
        confidence=story.confidence,
        rho=story.rho,
        free=story.free,
        private=story.private,
        finding=story.finding,
        sentences=story_tree.sentences(story),
        rows=_story_branches(story),
        shaped_by=list(story.shaped_by),
        spends=story.spends,
        budget=budget_figures(budget),
    )


def _story_branches(story: Story) -> list[StoryBranch]:
    return [
        StoryBranch(
            level=branch.level,
            rows="all" if branch.step is None else "without" if branch.is_rest else "with",
            condition="" if branch.step is None else str(branch.step.condition),
            predicate="" if branch.step is None else str(branch.step.predicate),
            text=branch.text,
            gap=branch.gap.estimate,
            gap_low=number_or_null(branch.gap.interval[0]),
            gap_high=number_or_null(branch.gap.interval[1]),
            gap_text=branch.gap_text,
            rows_low=branch.gap.rows[0],
            rows_high=branch.gap.rows[1],
            rows_text=branch.rows_text,
        )
        for branch in story_tree.tree(story)
    ]


def preview_payload(preview: Preview) -> PreviewPayload:
    price = preview.price
    once = isinstance(preview, ExplanationPreview) and preview.mechanism == "marginals"
    return PreviewPayload(
        kind="preview",
        rho=price.rho,
        epsilon=price.epsilon,
        free=price.free,
        affordable=price.affordable,
        remaining=price.remaining,
        remaining_after=price.remaining_after,
        spends=price.spends,
        confidence=preview.confidence,
        rows=list(map(finite_record, preview.records())),
        words=list(prices.price(price)),
        summary=prices.price_summary(price, once=once),
        expected=_expected(preview),
        shaped_by=list(preview.shaped_by),
    )


def _expected(preview: Preview) -> list[str]:
    if isinstance(preview, DiscoveryPreview):
        return [prices.threshold(preview.threshold, preview.delta)]
    if isinstance(preview, TuningPreview):
        return list(preview.expected)
    if isinstance(preview, QualityPreview):
        return [prices.expected_count(preview.margin, preview.confidence)]
    if isinstance(preview, QueryPreview):
        return [prices.expected_margin(preview)]
    if isinstance(preview, QueriesPreview):
        return [*(prices.expected_margin(part, name) for name, part in preview.parts), *preview.notes]
    if isinstance(preview, StoryPreview):
        return [story_tree.expected_story(preview)]
    if isinstance(preview, ExplanationPreview):
        expected = prices.expected_effects(
            preview.measured,
            preview.unit,
            gap=preview.gap_margin,
            relative=preview.relative_margin,
            influence=preview.influence_margin,
        )
        return [expected, *preview.promises]
    if isinstance(preview, CustomPreview):
        return list(preview.promises)
    return [preview.forecast]


def truth_payload(truth: Truth) -> TruthPayload:
    return TruthPayload(
        private=False,
        title=truth.title,
        shaped_by=list(truth.shaped_by),
        rows=list(map(finite_record, truth.rows)),
        values=list(map(_true_value, truth.rows)),
    )


def _true_value(record: dict[str, Any]) -> TrueValue:
    columns = TruthColumns.of(record)
    if columns is not None:
        value, covered = record[columns.true], record[columns.covered]
    else:
        value = record["true_influence" if "true_influence" in record else "influence"]
        covered = record.get("influence_covered")
    text, gap_without = true_texts(record)
    return TrueValue(
        value=None if value is None else number_or_null(value),
        text=text,
        covered=covered,
        gap_without_text=gap_without,
    )


def estimate_text(estimate: float, interval: Interval, figures: numbers.Figures | None = None) -> str:
    return figures.value(estimate) if figures else numbers.number(estimate, interval[1] - interval[0])


def interval_text(interval: Interval, figures: numbers.Figures | numbers.Unit | None = None) -> str:
    write = figures.interval if figures else numbers.interval
    return write(*interval) if all(map(math.isfinite, interval)) else "unbounded"


def number_or_null(value: float) -> float | None:
    """JSON has no infinity: an unbounded end is null."""
    return value if math.isfinite(value) else None


def finite_record(record: dict[str, Any]) -> Record:
    return {
        name: number_or_null(value) if isinstance(value, float) else value for name, value in record.items()
    }
