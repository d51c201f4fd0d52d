"""Formulas over the released values of each group, and the order in which groups are shown."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from dpxplain.model.computed import Formula, Measured, compute
from dpxplain.model.groups import Groups
from dpxplain.model.query import Statement
from dpxplain.privacy.intervals import Interval
from dpxplain.results.combination import Arithmetic, Combination, exp, log
from dpxplain.results.having import Having, judge_having

_OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "neg": operator.neg,
    "exp": exp,
    "log": log,
}


class ValueRow(Protocol):
    """One group's released value."""

    @property
    def estimate(self) -> float: ...

    @property
    def interval(self) -> Interval: ...

    @property
    def released(self) -> Combination: ...


class AggregateAnswer(Protocol):
    """The answer of one of the aggregates."""

    groups: Groups
    statement: Statement

    def row(self, index: int, /) -> Any: ...


class FormulaValues:
    """A formula over released values, for each group."""

    def __init__(self, formula: Formula, parts: Sequence[AggregateAnswer]) -> None:
        self.formula = formula
        self.parts = parts

    def value(self, group: int, label: str = "") -> Combination:
        """The group's value to compute with."""

        def operate(name: str, operands: Sequence[Any]) -> Any:
            return _OPERATIONS[name](*operands)

        made = compute(self.formula, lambda i: self.parts[i].row(group).released, float, operate)
        assert isinstance(made, Arithmetic)
        return +made

    def estimated(self, group: int) -> tuple[float, Interval]:
        """The group's estimate and interval; those of an aggregate itself are known already."""
        if isinstance(self.formula, Measured):
            part = self.parts[self.formula.aggregate]
            if part.statement.presentation.values[0].digits is None:
                row: ValueRow = part.row(group)
                return row.estimate, row.interval
        value = self.value(group)
        return finite(value.estimate, value.interval), value.interval


def finite(estimate: float, ends: Interval) -> float:
    """The estimate, or where it divides by zero the number nearest to 0 in its unbounded interval."""
    return estimate if math.isfinite(estimate) else min(max(0.0, ends[0]), ends[1])


def selection(statement: Statement, parts: Sequence[AggregateAnswer], confidence: float) -> Having | None:
    """What HAVING does to the released values; None without it."""
    condition = statement.presentation.having
    if condition is None:
        return None

    def valued(formula: Formula, group: int) -> tuple[float, Interval]:
        return FormulaValues(formula, parts).estimated(group)

    return judge_having(condition, statement.having_text, parts[0].groups, confidence, valued)


def arrangement(statement: Statement, parts: Sequence[AggregateAnswer], having: Having | None) -> list[int]:
    """The groups that are shown, in their order: HAVING first, then ORDER BY and LIMIT."""
    groups = parts[0].groups

    def values(formula: Formula) -> list[float]:
        computed = FormulaValues(formula, parts)
        return [computed.estimated(group)[0] for group in range(groups.size)]

    among = None if having is None else [group.index for group in having.kept]
    return groups.arranged(statement.presentation, values, among)
