"""Arithmetic on released answers: `answer["A"] / answer["B"] - 1`, `dpx.log(...)`, `dpx.exp(...)`.

Post-processing: it costs nothing, works across answers, and knows when a released value occurs twice. The
formulas, HAVING and ORDER BY of a query are computed from released values in the same way.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from numbers import Real
from typing import Any, ClassVar, NoReturn, Protocol

from dpxplain.errors import BadRequest
from dpxplain.model.charge import Entry, EntryId
from dpxplain.model.contrast import Verdict, judge
from dpxplain.model.expression import (
    ATOM,
    COMPARE,
    ArithmeticOperator,
    Compared,
    Constant,
    Measured,
    Operation,
    OutputCondition,
    OutputFormula,
    Some,
    Text,
    applied,
    fold,
    number_text,
    operation_text,
)
from dpxplain.model.groups import Groups
from dpxplain.model.process import cached_property
from dpxplain.model.query import VARIANCES, Query, Statement
from dpxplain.model.release import AnswerRelease, Noise
from dpxplain.model.schema import Schema
from dpxplain.phases.assess import group_estimates, noisy_mean
from dpxplain.privacy.formulas import (
    DEFAULT_FORMULA_METHOD,
    Atom,
    NoisyFormula,
    NoisyImage,
    NoisyPart,
    NoisyValue,
    check_method,
    estimate,
    interval,
    leaves,
)
from dpxplain.privacy.intervals import Interval, Loadings, check_asked_confidence
from dpxplain.words import numbers
from dpxplain.words.declarations import shaped_by
from dpxplain.words.sentences import NOISE_ONLY, NOT_PRIVATE

# -- Combination -------------------------------------------------------------------------------------------

_METHOD_NOTES = {
    "image": "Interval by the image method, which is valid for groups of any size.",
    "bootstrap": "Bootstrap interval: approximate. It is too narrow if the noise is large compared with a "
    "divisor or with the argument of a logarithm.",
}


class Arithmetic:
    """The operators + - * / on numbers and released values. A subclass is or has a `released` combination."""

    __slots__ = ()
    __array_ufunc__: ClassVar[None] = None  # so that a NumPy number on the left calls our operators

    def __add__(self, other: object) -> Combination:
        return _combined("+", self, other)

    def __radd__(self, other: object) -> Combination:
        # `sum` starts from 0, which the user did not write, so the formula does not show it.
        return +self if type(other) is int and other == 0 else _combined("+", other, self)

    def __sub__(self, other: object) -> Combination:
        return _combined("-", self, other)

    def __rsub__(self, other: object) -> Combination:
        return _combined("-", other, self)

    def __mul__(self, other: object) -> Combination:
        return _combined("*", self, other)

    def __rmul__(self, other: object) -> Combination:
        return _combined("*", other, self)

    def __truediv__(self, other: object) -> Combination:
        return _combined("/", self, other)

    def __rtruediv__(self, other: object) -> Combination:
        return _combined("/", other, self)

    def __neg__(self) -> Combination:
        return _combined("neg", self)

    def __pos__(self) -> Combination:
        """The value as a combination."""
        released = getattr(self, "released", None)
        if not isinstance(released, Combination):
            raise TypeError(
                f"You cannot compute with this {type(self).__name__}, because it is not part of an answer."
            )
        return released

    def log(self) -> Combination:
        """The natural logarithm."""
        return _combined("log", self)

    def exp(self) -> Combination:
        return _combined("exp", self)

    def _refuse_order(self, _other: object) -> NoReturn:
        raise TypeError(
            "A noisy value is uncertain, so < and > cannot answer yes or no. "
            "Compare its .estimate or .interval, or ask a combination for its .verdict(at_least=...)."
        )

    __lt__ = __le__ = __gt__ = __ge__ = _refuse_order


class Combination(Arithmetic):
    """A formula over released values, with its estimate and interval. Free.

    >>> import dpxplain as dpx
    >>> answer = dpx.example("adult").query("SELECT sex, COUNT(*) FROM adult GROUP BY sex", rho=0.5)
    >>> more = answer["Male"] / answer["Female"] - 1
    >>> more.formula, round(more.estimate, 2), more.verdict(at_least=1)
    ('Male / Female - 1', 1.02, <Verdict.REAL: 'real'>)
    >>> low, high = more.interval
    >>> low < more.estimate < high and (answer["Male"] - answer["Male"]).interval
    (0.0, 0.0)
    """

    def __init__(
        self, expression: NoisyFormula, confidence: float, method: str = DEFAULT_FORMULA_METHOD
    ) -> None:
        self._expression = expression
        self.confidence = check_asked_confidence(confidence)
        self.method = check_method(method)

    def __pos__(self) -> Combination:
        return self

    @cached_property
    def estimate(self) -> float:
        """The formula's value at the released values; infinite if it divides by 0, never NaN."""
        return estimate(self._expression)

    @cached_property
    def interval(self) -> Interval:
        """The interval by the combination's method, at the highest confidence of the answers."""
        return self.interval_by(self.method)

    def by(self, method: str) -> Combination:
        """The same formula with its interval by `image`, `bootstrap` or `auto` (see `interval_by`)."""
        return Combination(self._expression, self.confidence, method)

    def interval_by(self, method: str = DEFAULT_FORMULA_METHOD, confidence: float | None = None) -> Interval:
        """The interval by `image` (provable), `bootstrap` (narrower, approximate), or `auto` (the default).

        `auto` is `image`, except for weighted sums of averages, which get the same interval as a question
        about them. An end is infinite if the formula may be undefined, such as a ratio to a group that may
        be empty.
        """
        return interval(self._expression, self.confidence if confidence is None else confidence, method)

    @property
    def method_note(self) -> str:
        """The promise of the interval's method; empty for the default, which chooses by the formula."""
        return _METHOD_NOTES.get(self.method, "")

    def verdict(self, at_least: float = 0.0) -> Verdict:
        """Is the true value really above the constant, or could it be privacy noise?"""
        if not isinstance(at_least, Real) or not math.isfinite(at_least):
            raise BadRequest("A verdict needs a finite constant.", remedy="Write verdict(at_least=0).")
        return judge(self.interval, float(at_least))

    @property
    def private(self) -> bool:
        """False only for experiments with a seeded source of noise."""
        return all(key.private for key in leaves(self._expression) if isinstance(key, _Source))

    @property
    def shaped_by(self) -> tuple[str, ...]:
        """The declarations that shaped the numbers of the formula, as sentences."""
        sources = [key for key in leaves(self._expression) if isinstance(key, _Source)]
        return tuple(dict.fromkeys(sentence for source in sources for sentence in source.shaped_by))

    @property
    def formula(self) -> str:
        """The combination as it was written, with group names."""
        names = _names([key for key in leaves(self._expression) if isinstance(key, _Source)])
        return fold(self._expression, lambda leaf: (names[leaf.key], ATOM), number_text, _text)[0]

    def __str__(self) -> str:
        low, high = self.interval
        ends = numbers.interval(low, high).replace(" to ", " and ")
        lines = [] if self.private else [NOT_PRIVATE]
        lines += [
            self.formula,
            f"{numbers.number(self.estimate, high - low)}, between {ends} "
            f"({numbers.level(self.confidence)} confidence)",
            *(["Note: " + " ".join(self.shaped_by)] if self.shaped_by else []),
            " ".join(filter(None, (self.method_note, NOISE_ONLY, "No cost."))),
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def __bool__(self) -> NoReturn:
        raise TypeError("A combination of noisy values is neither true nor false. Ask for its .verdict().")


def log(value: object) -> Combination:
    """The natural logarithm of a released value or a combination.

    >>> log(object())
    Traceback (most recent call last):
    TypeError: Cannot compute with 'object': use rows of an answer, combinations of them, and numbers.
    """
    return _combined("log", value)


def exp(value: object) -> Combination:
    """e to the power of a released value or a combination."""
    return _combined("exp", value)


def _combined(name: ArithmeticOperator, *operands: object) -> Combination:
    """An operation on released values, combinations and numbers."""
    confidences, expressions = [], []
    for operand in operands:
        if isinstance(operand, Arithmetic):
            combination = +operand
            confidences.append(combination.confidence)
            expressions.append(combination._expression)
        elif isinstance(operand, Real) and not isinstance(operand, bool):
            expressions.append(_constant(operand))
        elif len(operands) == 2:
            return NotImplemented  # type: ignore[no-any-return]  # Python raises its usual TypeError
        else:
            raise TypeError(
                f"Cannot compute with {type(operand).__name__!r}: "
                "use rows of an answer, combinations of them, and numbers."
            )
    last = expressions[-1]
    if name == "/" and isinstance(last, Constant) and last.value == 0.0:
        raise BadRequest(
            "A combination cannot be divided by the number 0.", remedy="Divide by another number."
        )
    if name == "log" and isinstance(last, Constant) and last.value <= 0.0:
        raise BadRequest("The logarithm needs a number above 0.", remedy="Use a number above 0 in log().")
    return Combination(Operation(name, tuple(expressions)), max(confidences, default=0.95))


def _constant(number: Real) -> Constant[float]:
    try:
        value = float(number)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise BadRequest(
            "A combination takes finite numbers only.", remedy="Leave out infinities and NaN; use a float."
        )
    return Constant(value)


# -- Released values ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    """Identifies a released value. Equal sources are the same value, even if two sessions opened it."""

    request: str
    time: datetime
    answer: str
    group: int
    aggregate: str
    label: str
    private: bool
    shaped_by: tuple[str, ...] = field(compare=False)
    number: EntryId = field(compare=False)
    """The answer's entry id, used to label the combined value."""


@dataclass(frozen=True)
class ReleasedValues:
    """The values of one release, for arithmetic; `entry` is the release's line in the ledger."""

    entry: Entry
    release: AnswerRelease
    query: Query
    schema: Schema
    confidence: float

    def value(self, group: int, label: str) -> Combination:
        """One group's value; `label` names the group."""
        # Different ledgers use the same entry numbers. The request and its time tell two releases apart, and
        # show when two sessions opened the same release.
        source = _Source(
            self.entry.key,
            self.entry.time,
            self.entry.identity,
            group,
            str(self.query.aggregate),
            label,
            private=self.release.private,
            shaped_by=shaped_by([self.query], self.schema),
            number=self.entry.id,
        )
        return Combination(NoisyValue(source, self._atom(group)), self.confidence)

    def _atom(self, group: int) -> Atom:
        release, aggregate = self.release, self.query.aggregate
        if aggregate.kind == "avg":
            mean = noisy_mean(release, self.query, self.schema, group)
            sum_noise, count_noise = (
                self._noise(noise, group) for noise in (release.sum_noise, release.count_noise)
            )
            return replace(mean, sum_noise=sum_noise, count_noise=count_noise)
        if aggregate.kind == "sum":
            assert aggregate.column is not None
            assert release.noisy_sum is not None
            assert release.sum_scale is not None
            grid = self.schema.column(aggregate.column).grid
            # Values of one sign have a sum of that sign, however many there are.
            low, high = (0.0 if grid.low >= 0 else -math.inf), (0.0 if grid.high <= 0 else math.inf)
            noise = self._noise(release.sum_noise, group)
            return NoisyPart(release.noisy_sum[group], release.sum_scale, low, high, noise)
        if aggregate.kind in (*VARIANCES, "quantile"):
            return self._image(group)
        assert release.noisy_count is not None
        assert release.count_scale is not None
        noise = self._noise(release.count_noise, group)
        return NoisyPart(release.noisy_count[group], release.count_scale, low=0.0, noise=noise)

    def _image(self, group: int) -> NoisyImage:
        def estimated(confidence: float) -> tuple[float, Interval, float]:
            return group_estimates(self.release, self.query, self.schema, confidence)[group]

        release = self.release
        noise = self._noise((*release.count_noise, *release.sum_noise, *release.squares_noise), group)
        return NoisyImage(estimated(self.confidence)[0], lambda level: estimated(level)[1], noise)

    def _noise(self, noise: Noise, group: int) -> Loadings:
        """The release's noise, named by release and group: neither groups nor releases share noise."""
        release = self.entry.key, self.entry.time, self.entry.identity
        return tuple(((*release, group, name), loading) for name, loading in noise)


# -- Formula text ------------------------------------------------------------------------------------------

_LONGEST = 400  # letters of a formula


def _names(sources: Sequence[_Source]) -> dict[object, str]:
    """The shortest names that tell the released values apart."""
    styles: list[Callable[[_Source], str]] = [
        lambda source: _quoted(source.label),
        lambda source: f"{source.aggregate}[{_quoted(source.label)}]",
        lambda source: f"{source.aggregate}[{_quoted(source.label)}, answer {source.number}]",
    ]
    for style in styles:
        names: dict[object, str] = {source: style(source) for source in sources}
        if len(set(names.values())) == len(names):
            break
    return names


def _quoted(label: str) -> str:
    """The label, in quotes if it could be read as part of the formula."""
    text = numbers.clean(label)
    return text if text.replace(" ", "_").isidentifier() else f'"{text}"'


def _text(operator: ArithmeticOperator, operands: Sequence[Text]) -> Text:
    """An operation as Python, cut short: a formula built by doubling would not fit into memory."""
    text, level = operation_text(operator, operands, functions={"exp": "exp", "log": "log"})
    half = _LONGEST // 2
    return (text if len(text) <= _LONGEST else f"{text[:half]} … {text[-half:]}"), level


# -- Values per group --------------------------------------------------------------------------------------


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

    def row(self, index: int, /) -> ValueRow: ...


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
                row = part.row(group)
                return row.estimate, row.interval
        value = self.value(group)
        return finite(value.estimate, value.interval), value.interval

    def is_unknown(self, group: int) -> bool:
        """Whether nothing is known about an aggregate's value. Such groups come last in any order."""
        return isinstance(self.formula, Measured) and self.parts[self.formula.aggregate].row(group).is_unknown


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


# -- HAVING ------------------------------------------------------------------------------------------------
#
# HAVING compares noisy values. It also reports the groups for which privacy noise may have decided the
# outcome.

_LISTED = 8  # groups named in a sentence
Evaluate = Callable[[OutputFormula], tuple[float, Interval]]
"""Computes the estimate and the interval of a formula for one group."""


@dataclass(frozen=True)
class JudgedGroup:
    """One group's outcome under HAVING; certain if its intervals leave no doubt about the true values."""

    label: str
    is_kept: bool
    is_certain: bool
    index: int


@dataclass(frozen=True)
class Having:
    """The HAVING condition as SQL, and its outcome for every group that the WHERE does not exclude."""

    condition: str
    confidence: float
    groups: tuple[JudgedGroup, ...]

    @property
    def kept(self) -> tuple[JudgedGroup, ...]:
        return tuple(group for group in self.groups if group.is_kept)

    @property
    def dropped(self) -> tuple[JudgedGroup, ...]:
        return tuple(group for group in self.groups if not group.is_kept)

    @property
    def sentences(self) -> list[str]:
        """Which groups were left out, and for which groups the true values may decide otherwise."""
        dropped, count = self.dropped, len(self.groups)
        all_kept = "the only group kept" if count == 1 else f"all {count} groups kept"
        left_out = f"{len(dropped)} of {count} groups left out" if dropped else all_kept
        listed_groups = f": {_listed(dropped)}" if dropped else ""
        lines = [
            f"HAVING {numbers.clean(self.condition)} compares the noisy values, not the true ones: "
            f"{left_out}{listed_groups}."
        ]
        for unsure, otherwise in ((dropped, "may meet"), (self.kept, "may not meet")):
            doubtful = [group for group in unsure if not group.is_certain]
            if doubtful:
                state = "left out" if unsure is dropped else "kept"
                sure = f"(each with its own {numbers.level(self.confidence)} interval)"
                lines.append(
                    f"Privacy noise may have decided about these groups {sure}. They were {state}, but their "
                    f"true values {otherwise} the condition: {_listed(doubtful)}."
                )
        return lines


def selection(statement: Statement, parts: Sequence[AggregateAnswer], confidence: float) -> Having | None:
    """The outcome of HAVING on the released values; None without HAVING."""
    condition = statement.presentation.having
    if condition is None:
        return None

    def judged(group: int) -> JudgedGroup:
        outcome = judge_group(condition, lambda formula: FormulaValues(formula, parts).estimated(group))
        return JudgedGroup(groups.label(group), *outcome, group)

    groups = parts[0].groups
    return Having(statement.having_text, confidence, tuple(map(judged, groups.remaining)))


def judge_group(condition: OutputCondition, evaluate: Evaluate) -> tuple[bool, bool]:
    """Whether a group's released values meet the condition, and whether the intervals leave no doubt."""
    if isinstance(condition, Compared):
        return _compare(condition, evaluate)
    parts = [judge_group(part, evaluate) for part in condition.parts]
    # AND is decided for certain by one part that certainly fails, OR by one that certainly holds.
    is_or = isinstance(condition, Some)
    holds = (any if is_or else all)(part_holds for part_holds, _ in parts)
    return holds, (is_or, True) in parts or all(is_certain for _, is_certain in parts)


def _compare(condition: Compared[OutputFormula], evaluate: Evaluate) -> tuple[bool, bool]:
    left, right = condition.left, condition.right
    if isinstance(right, Constant):
        value, (low, high) = evaluate(left)
        constant = right.value
    else:
        value, (low, high) = evaluate(Operation("-", (left, right)))
        constant = 0.0
    compare = COMPARE[condition.operator]
    # Certain: the comparison has one outcome over the whole interval.
    if condition.operator in ("=", "<>"):
        is_certain = constant < low or constant > high or low == high
    else:
        is_certain = compare(low, constant) == compare(high, constant)
    return compare(value, constant), is_certain


def _listed(groups: Sequence[JudgedGroup]) -> str:
    more = f" and {len(groups) - _LISTED} more" if len(groups) > _LISTED else ""
    return ", ".join(numbers.clean(group.label) for group in groups[:_LISTED]) + more
