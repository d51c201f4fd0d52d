"""A value computed from released aggregates, such as SUM(a) / COUNT(*): an answer that cannot be explained.

This is post-processing. The intervals are those of arithmetic on released values (`results.combination`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dpxplain.errors import ExplanationError, QueryRefused, QuestionError
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.charge import Spend
from dpxplain.model.contrast import Contrast, judge
from dpxplain.model.expression import aggregates_of, formula_text, renumbered
from dpxplain.model.query import Output, Query, Statement
from dpxplain.phases.assess_question import Assessment
from dpxplain.privacy.formula_intervals import DEFAULT_METHOD
from dpxplain.privacy.formula_intervals import METHODS as FORMULA_METHODS
from dpxplain.privacy.intervals import METHODS, Interval
from dpxplain.results.answer import Answer
from dpxplain.results.computed_values import FormulaValues, finite, rounded
from dpxplain.results.prepared import PlannedPreparation
from dpxplain.results.released_answer import AnswerRow
from dpxplain.sql.parse import parse, quoted_name
from dpxplain.words.numbers import PLAIN, Unit

_MOST_COMPARED = 200  # groups


class FormulaAnswer(Answer):
    """One computed value per group; `parts` are the answers that it is computed from."""

    def __init__(
        self, output: Output, statement: Statement, parts: Sequence[Answer], order: Sequence[int]
    ) -> None:
        first = parts[0]
        self.statement = statement.computing(output)
        self.output = output
        self.parts = tuple(parts)
        self.release = first.release
        self.entry = first.entry
        self.id = first.id
        self.free = first.free
        self.confidence = first.confidence
        self.population = first.population
        self.groups = first.groups
        self.having = first.having
        self._dataset = first._dataset
        self._values = FormulaValues(output.value, self.parts)
        self._every = _ComputedRows(self._values, first, output.digits)
        self.rows = tuple(self._every[group] for group in order)
        self.freeze()

    @property
    def rho(self) -> float:
        return self.entry.rho

    @property
    def spends(self) -> tuple[Spend, ...]:
        return self.entry.spends

    @property
    def queries(self) -> list[Query]:
        return [part.statement.query for part in self._used_parts]

    @property
    def unit(self) -> Unit:
        """No unit, because a formula may multiply and divide units."""
        return PLAIN

    @property
    def is_count(self) -> bool:
        return False

    def _joint_intervals(self, rows: Sequence[AnswerRow]) -> list[Interval]:
        """Intervals that hold together, as in `Answer`; infinite ones for more than `_MOST_COMPARED` rows."""
        if len(rows) > _MOST_COMPARED:
            return [(-math.inf, math.inf)] * len(rows)
        joint = 1.0 - (1.0 - self.confidence) / self.groups.size
        return [self._values.value(row.number).interval_by(DEFAULT_METHOD, joint) for row in rows]

    @property
    def in_percent(self) -> bool:
        """False: a value computed from shares need not be a share."""
        return False

    @property
    def expression(self) -> str:
        return self.statement.text_of(self.output.value)

    @property
    def not_general(self) -> str:
        return (
            f"There is no “in general” interval for {self.expression}, because it is computed from noisy "
            "values."
        )

    @property
    def general_basis(self) -> str:
        return self.not_general

    @property
    def no_influence(self) -> str:
        return f"{self.expression} is computed from noisy values. Only COUNT, SUM and AVG can be explained."

    def assess(self, contrast: Contrast, confidence: float, method: str) -> Assessment:
        if method not in METHODS:
            raise QuestionError(
                f"There is no interval method {method!r}.", remedy=f"Choose one of: {', '.join(METHODS)}."
            )
        terms = [
            weight * self._values.value(group)
            for group, weight in zip(contrast.groups, contrast.weights, strict=True)
        ]
        total = sum(terms[1:], terms[0])
        ends = total.interval_by(method if method in FORMULA_METHODS else DEFAULT_METHOD, confidence)
        return Assessment(finite(total.estimate, ends), ends, judge(ends, contrast.at_least))

    def _check_explainable(self) -> None:
        """Allows every formula: released values can be compared. `unexplained` refuses explanations."""

    def _check_ratio(self) -> None:
        raise QuestionError(
            f"{self.expression} is itself computed from other values. You can ask about ratios of COUNT, SUM "
            "and AVG only.",
            remedy='Divide two values of the answer for free: answer["A"] / answer["B"] has an interval.',
        )

    def plan_prepare(
        self, rho: float | None, choice: FamilyChoice, epsilon: float | None = None
    ) -> PlannedPreparation:
        raise self.unexplained()

    def unexplained(self) -> ExplanationError:
        parts = " or ".join(part.expression for part in self._used_parts if not part.no_influence)
        instead = f"a value that it is computed from: {parts}" if parts else "COUNT, SUM or AVG"
        return ExplanationError(self.no_influence, remedy=f"Ask why about {instead}.")

    @property
    def _used_parts(self) -> list[Answer]:
        return [self.parts[number] for number in sorted(aggregates_of(self.output.value))]


class _ComputedRows(dict[int, AnswerRow]):
    """The rows of a computed value, made when they are needed."""

    def __init__(self, values: FormulaValues, first: Answer, digits: int | None) -> None:
        super().__init__()
        self._values, self._first, self._digits = values, first, digits

    def __missing__(self, group: int) -> AnswerRow:
        estimate, ends = self._values.estimated(group)
        if self._digits is not None:
            estimate, ends = rounded(estimate, ends, self._digits)
        like = self._first.row(group)
        row = AnswerRow(
            like.group,
            like.label,
            estimate,
            ends,
            math.nan,
            is_unknown=math.isinf(ends[0]) and math.isinf(ends[1]),
            _index=group,
            _values=self._values,
        )
        self[group] = row
        return row


def computed_answer(text: str, measured: Sequence[Answer]) -> FormulaAnswer | None:
    """The answer for SQL arithmetic over measured aggregates; None if the text is anything else."""
    first = measured[0]
    table = quoted_name(first.schema.table.name)
    try:
        statement = parse(f"SELECT {text}\n FROM {table}", first.schema)
    except QueryRefused:
        return None
    available = [part.statement.query.aggregate for part in measured]
    values = statement.presentation.values
    is_value = len(values) == len(statement.presentation.outputs) == 1 and statement.query.where is None
    aggregates = [query.aggregate for query in statement.queries]
    if not is_value or any(aggregate not in available for aggregate in aggregates):
        return None
    formula = renumbered(values[0].value, [available.index(aggregate) for aggregate in aggregates])
    whole = replace(first.statement, more=tuple(available[1:]))
    output = Output(formula_text(formula, list(map(str, available))), None, -1, formula, values[0].digits)
    order = [first.groups.find(row.group) for row in first.rows]
    return FormulaAnswer(output, whole, measured, order)
