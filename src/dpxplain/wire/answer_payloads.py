"""Answers as JSON for programs: by rows, one per group, or by columns for many groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from typing_extensions import TypedDict

from dpxplain.model.budget import Budget
from dpxplain.model.query import Statement
from dpxplain.model.schema import label
from dpxplain.privacy.intervals import Interval
from dpxplain.render.snippets import Place, query_code
from dpxplain.render.views_results import answer_figures
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers
from dpxplain.results.base import Truth
from dpxplain.results.formula_answer import FormulaAnswer
from dpxplain.results.released_answer import AnswerRow
from dpxplain.results.requests import group_request
from dpxplain.wire.account_payloads import budget_figures
from dpxplain.wire.payloads import (
    estimate_text,
    finite_record,
    interval_text,
    number_or_null,
    truth_payload,
)
from dpxplain.wire.shapes import (
    AnswerPart,
    AnswerPayload,
    AnswerWords,
    GeneralPayload,
    GroupPayload,
    PartWords,
    Scalar,
)
from dpxplain.words import numbers, titles
from dpxplain.words.declarations import rows_counted
from dpxplain.words.questions import GENERAL_USE

_Text = Callable[[Any], str]


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
    answer: Answer | Answers, budget: Budget, truth: Truth | None = None, place: Place | None = None
) -> AnswerPayload:
    return AnswerPayload(
        **_answer_words(answer, budget, truth, place),
        rows=list(map(finite_record, answer.records())),
        parts=[
            AnswerPart(**_part_words(part, answer.statement), rows=_group_rows(part))
            for part in _parts_of(answer)
        ],
    )


def answer_columns(answer: Answer | Answers, budget: Budget, place: Place | None = None) -> AnswerColumns:
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
    answer: Answer | Answers, budget: Budget, truth: Truth | None, place: Place | None
) -> AnswerWords:
    payload = AnswerWords(
        kind="answer" if isinstance(answer, Answer) else "answers",
        id=answer.id,
        address=answer.entry.address,
        title=titles.answer_title(answer.statement, answer.schema),
        caption=titles.caption(answer.schema, answer.entry, answer.confidence),
        finding=answer.finding,
        sql=answer.sql,
        rho=answer.rho,
        free=answer.free,
        private=answer.private,
        confidence=answer.confidence,
        columns=list(answer.groups.columns),
        headings=[titles.column_words(name, answer.schema) for name in answer.groups.columns],
        ordered=_is_ordered(answer),
        shaped_by=list(answer.shaped_by),
        notes=answer.notes,
        spends=answer.spends,
        budget=budget_figures(budget),
        code=query_code(
            place or Place.of_schema(answer.schema),
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
        title=titles.value_title(answer.statement, whole, answer.schema),
        heading=titles.value_words(answer.statement.presentation.values[0], answer.statement, answer.schema),
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


def _shown_ends(row: AnswerRow, interval: Interval) -> Interval:
    """The interval to show: unbounded where the value is unknown, as for a group that may be empty."""
    return (-math.inf, math.inf) if row.is_unknown else interval


def _estimate_text(row: AnswerRow, figures: numbers.Figures | None = None) -> str:
    return numbers.UNKNOWN if row.is_unknown else estimate_text(row.estimate, row.interval, figures)


def _interval_text(row: AnswerRow, interval: Interval, figures: numbers.Figures | None = None) -> str:
    return numbers.NO_ROWS if row.is_unknown else interval_text(interval, figures)


def _general_columns(general: Sequence[Interval], with_texts: bool) -> GeneralColumns:
    return GeneralColumns(
        low=[number_or_null(low) for low, _ in general],
        high=[number_or_null(high) for _, high in general],
        interval_text=list(map(interval_text, general)) if with_texts else None,
    )


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
