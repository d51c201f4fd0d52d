"""Results as JSON objects for programs, each with its `kind`.

The command line prints them with --json, and the server sends them. Records in them have their public fields
only (`model.display`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic reads the standard one from Python 3.12 on

from dpxplain.curator import TruthColumns
from dpxplain.explanation.family_choice import NO_ATTRIBUTE, eligible_attributes
from dpxplain.model.charge import Budget, EntryId, Spend
from dpxplain.model.column import label
from dpxplain.model.display import Finding
from dpxplain.model.process import stoppable_steps
from dpxplain.model.query import Statement
from dpxplain.privacy.intervals import Interval
from dpxplain.render import views_results
from dpxplain.render.snippets import CodePlace, explain_code, query_code
from dpxplain.render.views_prices import true_texts
from dpxplain.render.views_results import answer_figures, gap_without_text
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers, FormulaAnswer
from dpxplain.results.base import Truth
from dpxplain.results.explanation import Explanation, ExplanationRow, Story, StoryPreview
from dpxplain.results.preview import (
    CustomPreview,
    ExplanationPreview,
    PreparationPreview,
    Prepared,
    QueriesPreview,
    QueryPreview,
)
from dpxplain.results.quality import DiscoveryPreview, Quality, QualityPreview, Tuning, TuningPreview
from dpxplain.results.released_answer import AnswerRow, AskedQuestion, ReleasedAnswer, group_request
from dpxplain.sql.parse import parse
from dpxplain.sql.render import narrowing
from dpxplain.wire.shapes import (
    AdvicePayload,
    AnswerPart,
    AnswerPayload,
    AnswerWords,
    BudgetFigures,
    ExplanationLine,
    ExplanationPayload,
    FoldedPayload,
    GeneralPayload,
    GroupPayload,
    PartWords,
    PreparedPayload,
    PreviewPayload,
    QualityLine,
    QualityPayload,
    QuestionPayload,
    Record,
    Scalar,
    TrueValue,
    TruthPayload,
    UnitsPayload,
    WeightPayload,
    budget_figures,
)
from dpxplain.words import numbers, prices, sentences
from dpxplain.words.declarations import rows_counted
from dpxplain.words.sentences import EACH_INTERVAL, GENERAL_USE, effect_text, relative_text, row_sentence

# -- Answers -----------------------------------------------------------------------------------------------
#
# By rows, one per group, or by columns for many groups.


class GeneralColumns(TypedDict):
    """`in_general` of all groups: one list for each of its fields."""

    low: list[float | None]
    high: list[float | None]
    interval_text: list[str] | None


class PartColumns(PartWords):
    """One aggregate's values, in the order shown: one list for each field of a row.

    If all values have the same `decimals`, the texts are null: the page writes those of the groups that it
    shows (page/src/lib/figures.ts).
    """

    decimals: int | None  # negative for tens, hundreds and so on

    estimate: list[float]
    low: list[float | None]
    high: list[float | None]
    unknown: list[bool] | None  # null where every value is known
    estimate_text: list[str] | None
    interval_text: list[str] | None
    in_general: GeneralColumns | None  # if `population` was asked for and is possible


class DomainColumns(TypedDict):
    """The declared values of a column: as requests name them, as labels of groups, as people read them."""

    values: list[Scalar]
    labels: list[str]
    texts: list[str]


class AnswerColumns(AnswerWords):
    """The same answer for thousands of groups: a list for each field, and each declared value once.

    A group is a number: the place of its values among all combinations, the last column changing fastest.
    """

    domains: list[DomainColumns]
    groups: list[int]
    parts: list[PartColumns]


def answer_payload(
    answer: Answer | Answers, budget: Budget, truth: Truth | None = None, place: CodePlace | None = None
) -> AnswerPayload:
    return AnswerPayload(
        **_answer_words(answer, budget, truth, place),
        rows=list(map(finite_record, answer.records())),
        parts=[
            AnswerPart(**_part_words(part, answer.statement), rows=_group_rows(part))
            for part in _parts_of(answer)
        ],
    )


def answer_columns(answer: Answer | Answers, budget: Budget, place: CodePlace | None = None) -> AnswerColumns:
    """The answer by columns: a tenth of the work and a fifth of the size for thousands of groups."""
    parts, groups = _parts_of(answer), answer.groups
    columns = [answer.schema.column(name) for name in groups.columns]
    return AnswerColumns(
        **_answer_words(answer, budget, None, place),
        domains=[
            DomainColumns(
                values=list(group_request(domain)),
                labels=list(map(label, domain)),
                texts=list(map(column.text, domain)),
            )
            for column, domain in zip(columns, groups.domains, strict=True)
        ],
        groups=[row.number for row in parts[0].rows],
        parts=[_part_columns(part, answer.statement) for part in parts],
    )


def _parts_of(answer: Answer | Answers) -> Sequence[Answer]:
    return [answer] if isinstance(answer, Answer) else answer.answers


def _answer_words(
    answer: Answer | Answers, budget: Budget, truth: Truth | None, place: CodePlace | None
) -> AnswerWords:
    payload = AnswerWords(
        kind="answer" if isinstance(answer, Answer) else "answers",
        id=answer.id,
        address=answer.entry.address,
        title=sentences.answer_title(answer.statement, answer.schema),
        caption=sentences.caption(answer.schema, answer.entry, answer.confidence),
        finding=answer.finding,
        sql=answer.sql,
        rho=answer.rho,
        free=answer.free,
        private=answer.private,
        confidence=answer.confidence,
        columns=list(answer.groups.columns),
        headings=[sentences.column_words(name, answer.schema) for name in answer.groups.columns],
        ordered=_is_ordered(answer),
        shaped_by=list(answer.shaped_by),
        notes=answer.notes,
        spends=answer.spends,
        budget=budget_figures(budget),
        code=query_code(
            place or CodePlace.of_schema(answer.schema),
            answer.sql,
            answer.rho,
            confidence=answer.confidence,
            population=answer.population,
        ),
    )
    if isinstance(answer, Answer):
        payload["value"] = answer.value_name
    else:
        payload["values"] = list(answer.names)
    if answer.population:
        bases = dict.fromkeys(part.general_basis for part in _parts_of(answer))
        payload["general_notes"] = [*bases, GENERAL_USE]
    if truth is not None:
        payload["truth"] = truth_payload(truth)
    return payload


def _is_ordered(answer: Answer | Answers) -> bool:
    columns = [answer.schema.column(name) for name in answer.groups.columns]
    in_line = any(column.edges is not None or column.is_temporal for column in columns)
    return in_line or bool(answer.statement.presentation.order)


def _part_words(answer: Answer, whole: Statement) -> PartWords:
    aggregate = answer.statement.query.aggregate
    is_computed = isinstance(answer, FormulaAnswer)
    return PartWords(
        name=answer.value_name,
        title=sentences.value_title(answer.statement, whole, answer.schema),
        heading=sentences.value_words(
            answer.statement.presentation.values[0], answer.statement, answer.schema
        ),
        expression=answer.expression,
        aggregate="formula" if is_computed else aggregate.kind,
        column=None if is_computed else aggregate.column,
        rows_counted="" if is_computed else rows_counted(answer.statement.query, answer.schema),
        percent=answer.in_percent,
    )


def _part_columns(answer: Answer, whole: Statement) -> PartColumns:
    figures = answer_figures(answer)
    rows, ends = answer.rows, [_shown_ends(row, row.interval) for row in answer.rows]
    unknown = [row.is_unknown for row in rows]
    # Either all groups have it, or none.
    general = [_shown_ends(row, row.in_general) for row in rows if row.in_general is not None]
    return PartColumns(
        **_part_words(answer, whole),
        estimate=[row.estimate for row in rows],
        low=[number_or_null(low) for low, _ in ends],
        high=[number_or_null(high) for _, high in ends],
        unknown=unknown if any(unknown) else None,
        decimals=figures.decimals if figures else None,
        estimate_text=None if figures else list(map(_estimate_text, rows)),
        interval_text=None if figures else [_interval_text(row, row.interval) for row in rows],
        in_general=_general_columns(general, figures is None) if general else None,
    )


def _general_columns(general: Sequence[Interval], with_texts: bool) -> GeneralColumns:
    return GeneralColumns(
        low=[number_or_null(low) for low, _ in general],
        high=[number_or_null(high) for _, high in general],
        interval_text=list(map(interval_text, general)) if with_texts else None,
    )


_Text = Callable[[Any], str]


def _group_rows(answer: Answer) -> list[GroupPayload]:
    figures = answer_figures(answer)
    texts = [cache(answer.schema.column(name).text) for name in answer.groups.columns]
    return [_group(row, texts, figures) for row in answer.rows]


def _group(row: AnswerRow, texts: Sequence[_Text], figures: numbers.Figures | None) -> GroupPayload:
    low, high = map(number_or_null, _shown_ends(row, row.interval))
    payload = GroupPayload(
        group=list(group_request(row.group)),
        label=row.label,
        labels=[text(value) for text, value in zip(texts, row.group, strict=True)],
        estimate=row.estimate,
        low=low,
        high=high,
        unknown=row.is_unknown,
        noise_scale=number_or_null(row.scale),
        estimate_text=_estimate_text(row, figures),
        interval_text=_interval_text(row, row.interval, figures),
    )
    if row.in_general is not None:
        low, high = map(number_or_null, _shown_ends(row, row.in_general))
        text = _interval_text(row, row.in_general, figures)
        payload["in_general"] = GeneralPayload(low=low, high=high, interval_text=text)
    return payload


def _shown_ends(row: AnswerRow, interval: Interval) -> Interval:
    """The interval to show: unbounded where the value is unknown, as for a group that may be empty."""
    return (-math.inf, math.inf) if row.is_unknown else interval


def _estimate_text(row: AnswerRow, figures: numbers.Figures | None = None) -> str:
    return numbers.UNKNOWN if row.is_unknown else estimate_text(row.estimate, row.interval, figures)


def _interval_text(row: AnswerRow, interval: Interval, figures: numbers.Figures | None = None) -> str:
    return numbers.NO_ROWS if row.is_unknown else interval_text(interval, figures)


# -- Questions and explanations ----------------------------------------------------------------------------


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
        releases=list(question.releases),
        sharper=question.sharper,
        shaped_by=list(question.shaped_by),
        prepared=question.prepared,
        attributes=attributes,
        no_influence=no_influence or ("" if attributes else NO_ATTRIBUTE),
    )
    if question.in_general is not None:
        interval = question.in_general.interval
        payload["in_general"] = GeneralPayload(
            low=number_or_null(interval[0]),
            high=number_or_null(interval[1]),
            interval_text=interval_text(interval, question.unit),
            verdict=question.in_general.verdict.value,
            finding=question.general_finding,
        )
    if question.population:
        basis = [question.answer.general_basis, GENERAL_USE] if question.in_general is not None else []
        payload["general_notes"] = basis or [question.general_finding]
    if truth is not None:
        payload["truth"] = truth_payload(truth)
    return payload


def explanation_payload(
    table: Explanation, budget: Budget, truth: Truth | None = None, place: CodePlace | None = None
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
        for record, row in stoppable_steps(zip(table.records(), table.rows, strict=True))
    ]
    gap, interval = table.release.gap, table.release.gap_interval
    advised = table.advice
    several = parse(answer.sql, answer.schema).is_table
    place = place or CodePlace.of_schema(answer.schema)
    code = explain_code(place, answer.sql, answer.rho, table.request, answer.schema, several=several)
    payload = ExplanationPayload(
        kind="explanation",
        id=table.id,
        title=sentences.question_filter(table.question.title, answer.statement, answer.schema),
        finding=table.finding_with(advised),
        order_note=table.order_note,
        advice=None
        if advised is None
        else AdvicePayload(exclude=advised.exclude, conjuncts=advised.conjuncts, rho=advised.rho),
        releases=list(table.releases),
        sharper=table.sharper,
        caption=sentences.caption(
            answer.schema,
            table.entry,
            table.confidence,
            sentences.source_text(answer.entry, table.releases),
        ),
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


# -- Stories -----------------------------------------------------------------------------------------------


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
    releases: list[EntryId]  # these, and what its verdict was read off; the same as `from` reads it again
    sharper: bool  # whether `from` left out something more precise, or with more steps
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


def story_payload(story: Story, budget: Budget) -> StoryPayload:
    answer = story.question.answer
    return StoryPayload(
        kind="story",
        id=story.id,
        preparations=[StoryPreparation(id=entry.id, rho=entry.rho) for entry in story.entries],
        releases=list(story.releases),
        sharper=story.sharper,
        title=sentences.question_filter(story.question.title, answer.statement, answer.schema),
        caption=sentences.caption(
            answer.schema,
            story.entries[-1],
            story.confidence,
            sentences.source_text(answer.entry, story.releases),
        ),
        measured=story.question.measured,
        levels=story.levels,
        confidence=story.confidence,
        rho=story.rho,
        free=story.free,
        private=story.private,
        finding=story.finding,
        sentences=views_results.sentences(story),
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
        for branch in views_results.tree(story)
    ]


# -- Previews ----------------------------------------------------------------------------------------------

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
        return [views_results.expected_story(preview)]
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


# -- True values -------------------------------------------------------------------------------------------


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


# -- Data quality and tuning -------------------------------------------------------------------------------


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
                misfit=f"{row.misfit}: {row.effect}",
                share=row.estimate,
                low=row.interval[0],
                high=row.interval[1],
                interval_text=numbers.percent(*row.interval),
                rows_low=row.rows[0],
                rows_high=row.rows[1],
                rows_text=numbers.interval(*row.rows),
            )
            for row in quality
        ],
        units=_units(quality),
        notes=[
            prices.QUALITY_USE,
            *prices.quality_limits(quality.schema),
            EACH_INTERVAL.format(numbers.level(quality.confidence)),
        ],
        spends=quality.spends,
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
        misfit=prices.units_misfit(privacy.max_rows),
        interval_text=numbers.percent(low, high),
        rows_text=prices.lost(*quality.rows_lost),
    )


def tuning_payload(tuning: Tuning, budget: Budget) -> dict[str, Any]:
    """A tuning as JSON, for the command line only: a server's schema is its curator's file."""
    return {
        "kind": "tuning",
        "id": tuning.id,
        "rho": tuning.rho,
        "free": tuning.free,
        "private": tuning.private,
        "confidence": tuning.confidence,
        "keep": tuning.keep,
        "bounds": tuning.rows,
        "max_rows": tuning.max_rows,
        "toml": tuning.toml(),
        "notes": list(tuning.notes),
        "spends": tuning.spends,
        "budget": budget_figures(budget),
    }


# -- Texts and numbers -------------------------------------------------------------------------------------


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
