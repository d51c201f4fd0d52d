"""HAVING on a released answer: which groups it keeps, and where privacy noise may have decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpxplain.model.computed import AnyOf, Calculation, Compared, Condition, Formula, Number, Ordering
from dpxplain.model.groups import Groups
from dpxplain.privacy.intervals import Interval
from dpxplain.results.formats import clean, level

_LISTED = 8  # groups named in a sentence

# A value's estimate and interval, for one group.
Valued = Callable[[Formula, int], tuple[float, Interval]]


@dataclass(frozen=True)
class JudgedGroup:
    """One group under HAVING; `certain` where its intervals leave no doubt about the true values."""

    label: str
    kept: bool
    certain: bool
    index: int


@dataclass(frozen=True)
class Having:
    """The condition as SQL, and every declared group with what became of it."""

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
        """What was left out, and of which groups the true values may have it otherwise."""
        dropped, count = self.dropped, len(self.groups)
        left_out = f"{len(dropped)} of {count} groups left out" if dropped else f"all {count} groups kept"
        named = f": {_listed(dropped)}" if dropped else ""
        lines = [f"HAVING {clean(self.condition)} acts on released, noisy values: {left_out}{named}."]
        for unsure, otherwise in ((dropped, "may meet"), (self.kept, "may not meet")):
            doubtful = [group for group in unsure if not group.certain]
            if doubtful:
                state = "left out" if unsure is dropped else "kept"
                sure = f"({level(self.confidence)} intervals, each by itself)"
                lines.append(
                    f"Privacy noise may have decided {sure}: {state}, but the true values {otherwise} the "
                    f"condition: {_listed(doubtful)}."
                )
        return lines


def judge_having(
    condition: Condition, text: str, groups: Groups, confidence: float, valued: Valued
) -> Having:
    """Every declared group under the condition; `valued` computes a formula for a group."""
    judged = []
    for index in range(groups.size):
        kept, certain = _judge(condition, lambda formula, index=index: valued(formula, index))  # type: ignore[misc]
        judged.append(JudgedGroup(groups.label(index), kept, certain, index))
    return Having(text, confidence, tuple(judged))


def _judge(condition: Condition, valued: Callable[[Formula], tuple[float, Interval]]) -> tuple[bool, bool]:
    """Whether the released values meet the condition, and whether the intervals leave no doubt."""
    if isinstance(condition, Compared):
        return _compare(condition, valued)
    parts = [_judge(part, valued) for part in condition.parts]
    # AND is decided for certain by one part that certainly fails, OR by one that certainly holds.
    deciding = isinstance(condition, AnyOf)
    result = any(held for held, _ in parts) if deciding else all(held for held, _ in parts)
    return result, (deciding, True) in parts or all(sure for _, sure in parts)


def _compare(condition: Compared, valued: Callable[[Formula], tuple[float, Interval]]) -> tuple[bool, bool]:
    left, right = condition.left, condition.right
    if isinstance(right, Number):
        value, (low, high) = valued(left)
        constant = right.value
    else:
        value, (low, high) = valued(Calculation("-", (left, right)))
        constant = 0.0
    held = _holds(value, condition.operator, constant)
    return held, _is_certain(low, high, condition.operator, constant)


def _holds(value: float, operator: Ordering, constant: float) -> bool:
    match operator:
        case "=":
            return value == constant
        case "<>":
            return value != constant
        case "<":
            return value < constant
        case "<=":
            return value <= constant
        case ">":
            return value > constant
        case ">=":
            return value >= constant


def _is_certain(low: float, high: float, operator: Ordering, constant: float) -> bool:
    """Whether the comparison has one outcome over the whole interval."""
    if operator in ("=", "<>"):
        return constant < low or constant > high or low == high
    return _holds(low, operator, constant) == _holds(high, operator, constant)


def _listed(groups: Sequence[JudgedGroup]) -> str:
    more = f" and {len(groups) - _LISTED} more" if len(groups) > _LISTED else ""
    return ", ".join(clean(group.label) for group in groups[:_LISTED]) + more
