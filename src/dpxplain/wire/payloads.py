"""What programs see: results as plain JSON values, each with its `kind`.

The command line prints them with --json; the server serves them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dpxplain.explanation.choice import NO_ATTRIBUTE, eligible_attributes
from dpxplain.model.budget import Budget
from dpxplain.model.cancellation import checking
from dpxplain.privacy.intervals import Interval
from dpxplain.render import story_tree, words
from dpxplain.render.ranking import headline
from dpxplain.render.snippets import Place, explain_code
from dpxplain.render.views_results import true_texts
from dpxplain.results import formats, titles
from dpxplain.results.base import Truth
from dpxplain.results.discovery import DiscoveryPreview
from dpxplain.results.explanation import Explanation, ExplanationRow
from dpxplain.results.links import AnswerLike, QuestionLike
from dpxplain.results.prepared import PreparationPreview, Prepared
from dpxplain.results.preview import CustomPreview, ExplanationPreview, QueriesPreview, QueryPreview
from dpxplain.results.quality import QualityPreview
from dpxplain.results.story import StoryPreview
from dpxplain.results.tuning import TuningPreview
from dpxplain.sql.parse import parse
from dpxplain.sql.render import narrowing
from dpxplain.wire.account_payloads import budget_figures, spend_payloads
from dpxplain.wire.shapes import (
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

_Text = Callable[[Any], str]
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


def general_payload(interval: Interval, figures: formats.Figures | None = None) -> GeneralPayload:
    low, high = map(number_or_null, interval)
    return GeneralPayload(low=low, high=high, interval_text=interval_text(interval, figures))


def question_payload(question: QuestionLike, truth: Truth | None = None) -> QuestionPayload:
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
        at_least=contrast.at_least,
        estimate=question.estimate,
        interval=(number_or_null(question.interval[0]), number_or_null(question.interval[1])),
        estimate_text=estimate_text(question.estimate, question.interval),
        interval_text=interval_text(question.interval),
        confidence=question.confidence,
        method=question.method,
        verdict=question.verdict.value,
        finding=question.finding,
        note=question.note,
        shaped_by=list(question.shaped_by),
        prepared=question.prepared,
        attributes=attributes,
        no_influence=no_influence or ("" if attributes else NO_ATTRIBUTE),
    )
    if question.in_general is not None:
        general = general_payload(question.in_general.interval)
        verdict, finding = question.in_general.verdict.value, question.general_finding
        payload["in_general"] = GeneralPayload(**general, verdict=verdict, finding=finding)
    if question.population:
        payload["general_notes"] = list(words.general_notes(question)) or [question.general_finding]
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


def explanation_payload(
    table: Explanation, budget: Budget, truth: Truth | None = None, place: Place | None = None
) -> ExplanationPayload:
    answer = table.question.answer
    narrowed = narrowing(answer.sql, answer.schema)
    lines = [
        ExplanationLine(
            **finite_record(record | {"folded": _folded(row)}),  # type: ignore[typeddict-item]
            folded_text=words.also(row),
            label=row.predicate.label,
            unclear=words.is_unclear(row),
            sentence=words.row_sentence(table, row),
            influence_text=words.influence_text(row),
            influence_interval_text=interval_text(row.influence),
            gap_without_text=words.gap_without_text(table, row),
            rank_text=words.ranks(*row.rank),
            drill=narrowed(str(row.predicate)),
        )
        for record, row in checking(zip(table.records(), table.rows, strict=True))
    ]
    meaning = [words.gap_meaning(table)] if words.tells_gaps(table) else []
    gap, interval = table.release.gap, table.release.gap_interval
    several = parse(answer.sql, answer.schema).is_table
    place = place or Place.of_schema(answer.schema)
    code = explain_code(place, answer.sql, answer.rho, table.request, several=several)
    payload = ExplanationPayload(
        kind="explanation",
        id=table.id,
        title=titles.question_title(table.question.text, answer.statement, answer.schema),
        headline=headline(table),
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
        meaning=[*meaning, words.influence_meaning(table)],
        notes=[words.table_cost(table), words.mechanism(table), words.CAVEAT],
        spends=spend_payloads(table.spends),
        budget=budget_figures(budget),
        code=code,
    )
    if truth is not None:
        payload["truth"] = truth_payload(truth)
    return payload


def prepared_payload(prepared: Prepared, answer: AnswerLike, budget: Budget) -> PreparedPayload:
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
        spends=spend_payloads(prepared.spends),
        budget=budget_figures(budget),
    )


def preview_payload(preview: Preview) -> PreviewPayload:
    price = preview.price
    once = isinstance(preview, ExplanationPreview) and preview.mechanism == "marginals"
    return PreviewPayload(
        kind="preview",
        rho=price.rho,
        free=price.free,
        affordable=price.affordable,
        remaining=price.remaining,
        remaining_after=price.remaining_after,
        spends=spend_payloads(price.spends),
        confidence=preview.confidence,
        rows=list(map(finite_record, preview.records())),
        words=list(words.price(price)),
        summary=words.price_summary(price, once=once),
        expected=_expected(preview),
        shaped_by=list(preview.shaped_by),
    )


def _expected(preview: Preview) -> list[str]:
    if isinstance(preview, DiscoveryPreview):
        return [words.threshold(preview.threshold, preview.delta)]
    if isinstance(preview, TuningPreview):
        return list(preview.expected)
    if isinstance(preview, QualityPreview):
        return [words.expected_count(preview.margin, preview.confidence)]
    if isinstance(preview, QueryPreview):
        return [words.expected_margin(preview)]
    if isinstance(preview, QueriesPreview):
        return [*(words.expected_margin(part, name) for name, part in preview.parts), *preview.notes]
    if isinstance(preview, StoryPreview):
        return [story_tree.expected_story(preview)]
    if isinstance(preview, ExplanationPreview):
        return [words.expected_influence(preview), *preview.promises]
    return []


def truth_payload(truth: Truth) -> TruthPayload:
    return TruthPayload(
        private=False,
        title=truth.title,
        shaped_by=list(truth.shaped_by),
        rows=list(map(finite_record, truth.rows)),
        values=list(map(_true_value, truth.rows)),
    )


def _true_value(record: dict[str, Any]) -> TrueValue:
    own = {name.rstrip("_"): value for name, value in record.items()}  # see `results.answers.unused`
    value = next(own[name] for name in ("true", "true_influence", "influence") if name in own)
    covered = own.get("covered" if "true" in own else "influence_covered")
    text, gap_without = true_texts(record)
    return TrueValue(
        value=None if value is None else number_or_null(value),
        text=text,
        covered=covered,
        gap_without_text=gap_without,
    )


def estimate_text(estimate: float, interval: Interval, figures: formats.Figures | None = None) -> str:
    return figures.value(estimate) if figures else formats.number(estimate, interval[1] - interval[0])


def interval_text(interval: Interval, figures: formats.Figures | None = None) -> str:
    write = figures.interval if figures else formats.interval
    return write(*interval) if all(map(math.isfinite, interval)) else "unbounded"


def number_or_null(value: float) -> float | None:
    """JSON has no infinity: an unbounded end is null."""
    return value if math.isfinite(value) else None


def finite_record(record: dict[str, Any]) -> Record:
    return {
        name: number_or_null(value) if isinstance(value, float) else value for name, value in record.items()
    }
