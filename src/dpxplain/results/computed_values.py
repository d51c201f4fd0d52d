"""Formulas over the released values of each group, which groups HAVING keeps, and the order of the groups.

HAVING also reports the groups for which privacy noise may have decided the outcome.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dpxplain.model.expression import (
    ArithmeticOperator,
    Compared,
    ComparisonOperator,
    Constant,
    Measured,
    Operation,
    OutputCondition,
    OutputFormula,
    Some,
    applied,
    fold,
)
from dpxplain.model.groups import Groups
from dpxplain.model.query import Statement
from dpxplain.privacy.intervals import Interval
from dpxplain.results.combination import Arithmetic, Combination, exp, log
from dpxplain.words.numbers import clean, level

_COMPARISONS: dict[ComparisonOperator, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_LISTED = 8  # groups named in a sentence

# A value's estimate and interval, for one group.
Valued = Callable[[OutputFormula, int], tuple[float, Interval]]


@dataclass(frozen=True)
class JudgedGroup:
    """One group's outcome under HAVING; `certain` if its intervals leave no doubt about the true values."""

    label: str
    kept: bool
    certain: bool
    index: int


@dataclass(frozen=True)
class Having:
    """The HAVING condition as SQL, and its outcome for every group that the WHERE does not exclude."""

    condition: str
    confidence: float
    groups: tuple[JudgedGroup, ...]

    @property
    def kept(self) -> tuple[JudgedGroup, ...]:
        return tuple(group for group in self.groups if group.kept)

    @property
    def dropped(self) -> tuple[JudgedGroup, ...]:
        return tuple(group for group in self.groups if not group.kept)

    @property
    def sentences(self) -> list[str]:
        """Which groups were left out, and for which groups the true values may decide otherwise."""
        dropped, count = self.dropped, len(self.groups)
        all_kept = "the only group kept" if count == 1 else f"all {count} groups kept"
        left_out = f"{len(dropped)} of {count} groups left out" if dropped else all_kept
        listed_groups = f": {_listed(dropped)}" if dropped else ""
        lines = [
            f"HAVING {clean(self.condition)} compares the noisy values, not the true ones: "
            f"{left_out}{listed_groups}."
        ]
        for unsure, otherwise in ((dropped, "may meet"), (self.kept, "may not meet")):
            doubtful = [group for group in unsure if not group.certain]
            if doubtful:
                state = "left out" if unsure is dropped else "kept"
                sure = f"(each with its own {level(self.confidence)} interval)"
                lines.append(
                    f"Privacy noise may have decided about these groups {sure}. They were {state}, but their "
                    f"true values {otherwise} the condition: {_listed(doubtful)}."
                )
        return lines


def judge_having(
    condition: OutputCondition, text: str, groups: Groups, confidence: float, valued: Valued
) -> Having:
    """Judges every group that the WHERE does not exclude; `valued` computes a formula for a group."""
    judged = []
    for index in groups.remaining:
        is_kept, certain = _judge(condition, lambda formula, index=index: valued(formula, index))  # type: ignore[misc]
        judged.append(JudgedGroup(groups.label(index), is_kept, certain, index))
    return Having(text, confidence, tuple(judged))


def _judge(
    condition: OutputCondition, valued: Callable[[OutputFormula], tuple[float, Interval]]
) -> tuple[bool, bool]:
    """Whether the released values meet the condition, and whether the intervals leave no doubt."""
    if isinstance(condition, Compared):
        return _compare(condition, valued)
    parts = [_judge(part, valued) for part in condition.parts]
    # AND is decided for certain by one part that certainly fails, OR by one that certainly holds.
    deciding = isinstance(condition, Some)
    result = any(held for held, _ in parts) if deciding else all(held for held, _ in parts)
    return result, (deciding, True) in parts or all(sure for _, sure in parts)


def _compare(
    condition: Compared[OutputFormula], valued: Callable[[OutputFormula], tuple[float, Interval]]
) -> tuple[bool, bool]:
    left, right = condition.left, condition.right
    if isinstance(right, Constant):
        value, (low, high) = valued(left)
        constant = right.value
    else:
        value, (low, high) = valued(Operation("-", (left, right)))
        constant = 0.0
    holds = _holds(value, condition.operator, constant)
    return holds, _is_certain(low, high, condition.operator, constant)


def _holds(value: float, comparison: ComparisonOperator, constant: float) -> bool:
    return bool(_COMPARISONS[comparison](value, constant))


def _is_certain(low: float, high: float, comparison: ComparisonOperator, constant: float) -> bool:
    """Whether the comparison has one outcome over the whole interval."""
    if comparison in ("=", "<>"):
        return constant < low or constant > high or low == high
    return _holds(low, comparison, constant) == _holds(high, comparison, constant)


def _listed(groups: Sequence[JudgedGroup]) -> str:
    more = f" and {len(groups) - _LISTED} more" if len(groups) > _LISTED else ""
    return ", ".join(clean(group.label) for group in groups[:_LISTED]) + more


class ValueRow(Protocol):
    """One group's released value."""

    @property
    def estimate(self) -> float: ...

    @property
    def interval(self) -> Interval: ...

    @property
    def is_unknown(self) -> bool: ...

    @property
    def released(self) -> Combination: ...


class AggregateAnswer(Protocol):
    """The answer for one of the aggregates."""

    groups: Groups
    statement: Statement

    def row(self, index: int, /) -> Any: ...


class FormulaValues:
    """A formula over released values, for each group."""

    def __init__(self, formula: OutputFormula, parts: Sequence[AggregateAnswer]) -> None:
        self.formula = formula
        self.parts = parts

    def value(self, group: int, label: str = "") -> Combination:
        """The group's value as a `Combination`."""

        def operate(name: ArithmeticOperator, operands: Sequence[Any]) -> Any:
            return applied(name, operands, exp, log)

        value: Any = fold(
            self.formula, lambda leaf: self.parts[leaf.aggregate].row(group).released, float, operate
        )
        assert isinstance(value, Arithmetic)
        return +value

    def estimated(self, group: int) -> tuple[float, Interval]:
        """The group's estimate and interval. Those of a single aggregate are known already."""
        if isinstance(self.formula, Measured):
            part = self.parts[self.formula.aggregate]
            if part.statement.presentation.values[0].digits is None:
                row: ValueRow = part.row(group)
                return row.estimate, row.interval
        value = self.value(group)
        return finite(value.estimate, value.interval), value.interval

    def is_unknown(self, group: int) -> bool:
        """Whether nothing is known about an aggregate's value. Such groups come last in any order."""
        if not isinstance(self.formula, Measured):
            return False
        row: ValueRow = self.parts[self.formula.aggregate].row(group)
        return row.is_unknown


def finite(estimate: float, ends: Interval) -> float:
    """The estimate; if it is infinite, the number nearest to 0 in its interval."""
    return estimate if math.isfinite(estimate) else min(max(0.0, ends[0]), ends[1])


def rounded(value: float, ends: Interval, digits: int) -> tuple[float, Interval]:
    """Rounds a value, and its interval outwards, so that the interval holds with or without the rounding.

    >>> rounded(2.678, (2.123, 3.4), 1)
    (2.7, (2.1, 3.4))
    """
    unit = 10.0**digits
    low, high = (
        round(f(end * unit) / unit, digits) if math.isfinite(end) else end
        for f, end in zip((math.floor, math.ceil), ends, strict=True)
    )
    return round(value, digits), (min(low, ends[0]), max(high, ends[1]))


def selection(statement: Statement, parts: Sequence[AggregateAnswer], confidence: float) -> Having | None:
    """The outcome of HAVING on the released values; None without HAVING."""
    condition = statement.presentation.having
    if condition is None:
        return None

    def valued(formula: OutputFormula, group: int) -> tuple[float, Interval]:
        return FormulaValues(formula, parts).estimated(group)

    return judge_having(condition, statement.having_text, parts[0].groups, confidence, valued)


def arrangement(statement: Statement, parts: Sequence[AggregateAnswer], having: Having | None) -> list[int]:
    """The groups to show, in order: HAVING applies first, then ORDER BY and LIMIT."""
    groups = parts[0].groups

    def values(formula: OutputFormula) -> list[float]:
        computed = FormulaValues(formula, parts)
        return [
            math.nan if computed.is_unknown(group) else computed.estimated(group)[0]
            for group in range(groups.size)
        ]

    among = None if having is None else [group.index for group in having.kept]
    return groups.arranged(statement.presentation, values, among)
