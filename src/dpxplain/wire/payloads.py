"""What programs see: results as plain JSON values, each with its `kind`.

The command line prints them with --json; the server serves them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from dpxplain.explanation.choice import NO_ATTRIBUTE, eligible_attributes
from dpxplain.model.budget import Budget
from dpxplain.model.cancellation import checking
from dpxplain.model.query import Statement
from dpxplain.privacy.intervals import Interval
from dpxplain.render import story_tree, words
from dpxplain.render.ranking import headline
from dpxplain.render.snippets import Place, explain_code, query_code
from dpxplain.render.views_results import true_texts
from dpxplain.results import formats, titles
from dpxplain.results.answer import Answer, AnswerRow
from dpxplain.results.answers import Answers
from dpxplain.results.base import Truth
from dpxplain.results.discovery import DiscoveryPreview
from dpxplain.results.explanation import Explanation, ExplanationRow
from dpxplain.results.formula_answer import FormulaAnswer
from dpxplain.results.links import AnswerLike, QuestionLike
from dpxplain.results.prepared import PreparationPreview, Prepared
from dpxplain.results.preview import CustomPreview, ExplanationPreview, QueriesPreview, QueryPreview
from dpxplain.results.quality import Quality, QualityPreview
from dpxplain.results.requests import group_request
from dpxplain.results.sentences import rows_counted, subject
from dpxplain.results.story import StoryPreview
from dpxplain.sql.parse import parse
from dpxplain.sql.render import narrowing
from dpxplain.wire.account_payloads import budget_figures, spend_payloads
from dpxplain.wire.shapes import (
    AnswerPart,
    AnswerPayload,
    ExplanationLine,
    ExplanationPayload,
    FoldedPayload,
    GeneralPayload,
    GroupPayload,
    PreparedPayload,
    PreviewPayload,
    QualityLine,
    QualityPayload,
    QuestionPayload,
    Record,
    TrueValue,
    TruthPayload,
    UnitsPayload,
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
)


def answer_payload(
    answer: Answer | Answers, budget: Budget, truth: Truth | None = None, place: Place | None = None
) -> AnswerPayload:
    parts = [answer] if isinstance(answer, Answer) else list(answer.answers)
    payload = AnswerPayload(
        kind="answer" if isinstance(answer, Answer) else "answers",
        id=answer.id,
        address=answer.entry.address,
        title=titles.answer_title(answer.statement, answer.schema),
        caption=titles.caption(answer.schema, answer.entry, answer.confidence),
        sql=answer.sql,
        rho=answer.rho,
        free=answer.free,
        private=answer.private,
        confidence=answer.confidence,
        columns=list(answer.groups.columns),
        headings=[titles.column_words(name, answer.schema) for name in answer.groups.columns],
        ordered=_is_ordered(answer),
        rows=list(map(_finite, answer.records())),
        parts=[_part(part, answer.statement) for part in parts],
        shaped_by=list(answer.shaped_by),
        notes=answer.notes,
        spends=spend_payloads(answer.spends),
        budget=budget_figures(budget),
        code=query_code(place or Place.of_schema(answer.schema), answer.sql, answer.rho),
    )
    if isinstance(answer, Answer):
        payload["value"] = answer.value_name
    else:
        payload["values"] = list(answer.names)
    if answer.population:
        payload["general_notes"] = list(words.population_notes(parts))
    if truth is not None:
        payload["truth"] = truth_payload(truth)
    return payload


def _is_ordered(answer: Answer | Answers) -> bool:
    columns = [answer.schema.column(name) for name in answer.groups.columns]
    in_line = any(column.edges is not None or column.is_temporal for column in columns)
    return in_line or bool(answer.statement.presentation.order)


def _part(answer: Answer, whole: Statement) -> AnswerPart:
    aggregate = answer.statement.query.aggregate
    is_computed = isinstance(answer, FormulaAnswer)
    figures = words.answer_figures(answer)
    texts = [cache(answer.schema.column(name).text) for name in answer.groups.columns]
    return AnswerPart(
        name=answer.value_name,
        title=titles.value_title(answer.statement, whole, answer.schema),
        heading=titles.value_words(answer.statement.presentation.values[0], answer.statement, answer.schema),
        expression=answer.expression,
        aggregate="formula" if is_computed else aggregate.kind,
        column=None if is_computed else aggregate.column,
        subject="" if is_computed else subject(answer.statement.query, answer.schema),
        rows_counted="" if is_computed else rows_counted(answer.statement.query, answer.schema),
        rows=[_group(row, texts, figures) for row in answer.rows],
    )


def _group(row: AnswerRow, texts: Sequence[_Text], figures: formats.Figures | None) -> GroupPayload:
    payload = GroupPayload(
        group=list(group_request(row.group)),
        label=row.label,
        labels=[text(value) for text, value in zip(texts, row.group, strict=True)],
        estimate=row.estimate,
        low=_number(row.interval[0]),
        high=_number(row.interval[1]),
        noise_scale=_number(row.scale),
        estimate_text=_estimate_text(row.estimate, row.interval, figures),
        interval_text=_interval_text(row.interval, figures),
    )
    if row.in_general is not None:
        payload["in_general"] = _general(row.in_general)
    return payload


def _general(interval: Interval) -> GeneralPayload:
    low, high = map(_number, interval)
    return GeneralPayload(low=low, high=high, interval_text=_interval_text(interval))


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
        interval=(_number(question.interval[0]), _number(question.interval[1])),
        estimate_text=_estimate_text(question.estimate, question.interval),
        interval_text=_interval_text(question.interval),
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
        general = _general(question.in_general.interval)
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
            **_finite(record | {"folded": _folded(row)}),  # type: ignore[typeddict-item]
            folded_text=words.also(row),
            label=row.predicate.label,
            unclear=words.is_unclear(row),
            sentence=words.row_sentence(table, row),
            influence_text=words.influence_text(row),
            influence_interval_text=_interval_text(row.influence),
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
        gap=None if gap is None else _number(gap),
        gap_interval=None if interval is None else (_number(interval[0]), _number(interval[1])),
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
        rows=list(map(_finite, prepared.records())),
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
        rows=list(map(_finite, preview.records())),
        words=list(words.price(price)),
        summary=words.price_summary(price, once=once),
        expected=_expected(preview),
        shaped_by=list(preview.shaped_by),
    )


def _expected(preview: Preview) -> list[str]:
    if isinstance(preview, DiscoveryPreview):
        return [words.threshold(preview.threshold, preview.delta)]
    if isinstance(preview, QualityPreview):
        return [words.expected_count(preview.margin, preview.confidence)]
    if isinstance(preview, QueryPreview):
        return [words.expected_margin(preview)]
    if isinstance(preview, QueriesPreview):
        return [*(words.expected_margin(part, name) for name, part in preview.parts), *preview.notes]
    if isinstance(preview, StoryPreview):
        return [story_tree.expected_story(preview)]
    return [words.expected_influence(preview)] if isinstance(preview, ExplanationPreview) else []


def truth_payload(truth: Truth) -> TruthPayload:
    return TruthPayload(
        private=False,
        title=truth.title,
        shaped_by=list(truth.shaped_by),
        rows=list(map(_finite, truth.rows)),
        values=list(map(_true_value, truth.rows)),
    )


def _true_value(record: dict[str, Any]) -> TrueValue:
    own = {name.rstrip("_"): value for name, value in record.items()}  # see `results.answers.unused`
    value = next(own[name] for name in ("true", "true_influence", "influence") if name in own)
    covered = own.get("covered" if "true" in own else "influence_covered")
    text, gap_without = true_texts(record)
    return TrueValue(
        value=None if value is None else _number(value),
        text=text,
        covered=covered,
        gap_without_text=gap_without,
    )


def _estimate_text(estimate: float, interval: Interval, figures: formats.Figures | None = None) -> str:
    return figures.value(estimate) if figures else formats.number(estimate, interval[1] - interval[0])


def _interval_text(interval: Interval, figures: formats.Figures | None = None) -> str:
    write = figures.interval if figures else formats.interval
    return write(*interval) if all(map(math.isfinite, interval)) else "unbounded"


def _number(value: float) -> float | None:
    """JSON has no infinity: an unbounded end is null."""
    return value if math.isfinite(value) else None


def _finite(record: dict[str, Any]) -> Record:
    return {name: _number(value) if isinstance(value, float) else value for name, value in record.items()}


def quality_payload(quality: Quality, budget: Budget) -> QualityPayload:
    return QualityPayload(
        kind="quality",
        id=quality.id,
        rho=quality.rho,
        free=quality.free,
        private=quality.private,
        confidence=quality.confidence,
        rows=[
            QualityLine(
                column=row.column,
                misfit=row.misfit,
                share=row.estimate,
                low=row.interval[0],
                high=row.interval[1],
                interval_text=formats.percent(*row.interval),
                rows_low=row.rows[0],
                rows_high=row.rows[1],
                rows_text=formats.interval(*row.rows),
            )
            for row in quality
        ],
        units=_units(quality),
        notes=[words.QUALITY_USE, *words.quality_limits(quality)],
        spends=spend_payloads(quality.spends),
        budget=budget_figures(budget),
    )


def _units(quality: Quality) -> UnitsPayload | None:
    privacy = quality.schema.privacy
    if privacy.unit == "row":
        return None
    (low, high), (least, most) = quality.units_above, quality.rows_lost
    return UnitsPayload(
        unit=privacy.unit,
        max_rows=privacy.max_rows,
        low=low,
        high=high,
        rows_lost_low=least,
        rows_lost_high=most if math.isfinite(most) else None,
        misfit=words.units_misfit(privacy.max_rows),
        interval_text=formats.percent(low, high),
        rows_text=words.rows_lost(quality),
    )
