"""Infers from declarations alone what values an expression can have (docs/proofs/derived-columns.md).

Every part of an expression gets a domain, so that no intermediate result can leave the range of floats. An
expression without a domain is refused; the error names the part at fault and a remedy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from operator import add, mul, sub
from typing import Any, Self

from pydantic import ValidationError

from dpxplain.errors import BadRequest, SchemaError
from dpxplain.model.column import LARGEST_BOUND, LARGEST_UNITS, Column, comparable, midnight
from dpxplain.model.expression import (
    FLIPPED,
    OPPOSITES,
    Among,
    Call,
    Case,
    Cast,
    Compared,
    Constant,
    DateDiff,
    DatePart,
    DateTrunc,
    Every,
    Expression,
    Like,
    Missing,
    Operation,
    Opposite,
    Reference,
    Shifted,
    Some,
    Value,
    columns_of,
    read_expression,
    sql_literal,
    sql_of,
)
from dpxplain.model.hardening import similar
from dpxplain.model.value_domain import (
    Kind,
    ValueDomain,
    between,
    cast_domain,
    combined,
    common_multiple,
    corners,
    difference_domain,
    kind_of,
    listed,
    mapped,
    monotone,
    part_domain,
    rounded,
    shifted_domain,
    truncated_domain,
    union,
    without_zero,
)

# -- Domains of expressions --------------------------------------------------------------------------------

_BOOLEANS = ValueDomain("boolean", (False, True))


class UnknownDomain(Exception):
    """No domain follows from the declarations; says which part of the expression is at fault."""

    def __init__(self, node: Expression, problem: str, remedy: str) -> None:
        super().__init__(f"{problem} {remedy}")
        self.node, self.problem, self.remedy = node, problem, remedy


def infer(node: Expression, columns: Mapping[str, Column]) -> ValueDomain:
    """The domain of an expression over declared columns.

    >>> infer(Operation("*", (Reference("price"), Constant(2))), {"price": Column(bounds=(0, 50))})
    ValueDomain(kind='number', values=None, low=0.0, high=100.0, step=None)
    """
    return Inference.of(columns).domain(node)


def declared_domain(column: Column) -> ValueDomain:
    """A declared column's domain in an expression: clamped numbers or declared values; the rest is NULL."""
    if column.values is not None:
        values = [value for value in column.values if value is not None]
        return listed(kind_of(values[0]), values) if values else ValueDomain("null", ())
    if column.is_temporal:
        low, *_, high = column.bounds or column.edges or ()
        return ValueDomain("timestamp", None, midnight(low), midnight(high))
    if column.bounds is not None:
        grid = column.grid
        if column.step is not None:
            return ValueDomain(
                "number", None, float(grid.low * grid.step), float(grid.high * grid.step), grid.step
            )
        low, high = column.bounds
        return ValueDomain("number", None, float(low), float(high))
    assert column.edges is not None
    return ValueDomain("number", None, float(column.edges[0]), float(column.edges[-1]))


class Inference:
    """Domains of expressions where the columns have the given domains."""

    def __init__(self, columns: Mapping[str, ValueDomain]) -> None:
        self.columns = columns
        self._known: dict[int, tuple[Expression, ValueDomain]] = {}  # by identity: parts are looked at often

    @classmethod
    def of(cls, columns: Mapping[str, Column]) -> Self:
        return cls({name: declared_domain(column) for name, column in columns.items()})

    def domain(self, node: Expression) -> ValueDomain:
        if id(node) not in self._known:
            self._known[id(node)] = node, self._bounded(node)
        return self._known[id(node)][1]

    def _bounded(self, node: Expression) -> ValueDomain:
        domain = self._domain(node)
        if domain.kind == "number" and not domain.is_empty:
            largest = max(map(abs, domain.ends))
            if not largest <= LARGEST_BOUND:
                problem = f"{sql_of(node)} can be larger than {LARGEST_BOUND:g}."
                raise UnknownDomain(
                    node, problem, "Divide it by a constant first. The curator can declare narrower bounds."
                )
        return domain

    def _domain(self, node: Expression) -> ValueDomain:
        match node:
            case Constant(value):
                return ValueDomain("null", ()) if value is None else listed(kind_of(value), [value])
            case Reference(column):
                return self.columns[column]
            case Operation():
                return self._arithmetic(node)
            case Compared() | Among() | Like() | Missing() | Opposite() | Every() | Some():
                self._check_condition(node)
                return _BOOLEANS
            case Case():
                return self._case(node)
            case Call():
                return FUNCTIONS[node.function].domain(self, node)
            case Cast(part, target):
                cast = cast_domain(self.domain(part), target)
                if cast is None:
                    problem = f"{sql_of(part)} has too many values to cast to {target}."
                    raise UnknownDomain(
                        node, problem, "Cast whole numbers, or a column with a list of values."
                    )
                return cast
            case DatePart(name, part):
                return part_domain(self._temporal(part), name)
            case DateTrunc() | Shifted():
                return self._moved(node)
            case DateDiff(unit, start, end):
                return difference_domain(self._temporal(start), self._temporal(end), unit)

    # -- Numbers -------------------------------------------------------------------------------------------

    def number(self, node: Expression) -> ValueDomain:
        domain = self.domain(node)
        if domain.kind != "number" or domain.is_empty:
            text = sql_of(node)
            span = f"Write {text} + INTERVAL '1' DAY, or DATE_DIFF('day', a, b)."
            hints = {"boolean": f"Write CAST({text} AS BIGINT).", "date": span, "timestamp": span}
            raise UnknownDomain(node, f"{text} is not a number.", hints.get(domain.kind, "Use numbers here."))
        return domain

    def _arithmetic(self, node: Operation[Expression]) -> ValueDomain:
        first, last = node.operands
        kinds = {self.domain(first).kind, self.domain(last).kind}
        if kinds <= {"date", "timestamp"}:
            days = sql_of(DateDiff("day", last, first))
            raise UnknownDomain(
                node, f"{sql_of(node)} is a span of time, not a number.", f"Write {days}, or another unit."
            )
        left, right = self.number(first), self.number(last)
        match node.operator:
            case "+" | "-" as operator:
                function = add if operator == "+" else sub
                return combined(left, right, function) or corners(
                    left, right, function, common_multiple(left, right)
                )
            case "*":
                steps = left.multiple, right.multiple
                step = None if steps[0] is None or steps[1] is None else steps[0] * steps[1]
                return combined(left, right, mul) or corners(left, right, mul, step)
            case "/":
                return self._quotient(node, left, right)
            case "%":
                return self._remainder(node, left, right)
        raise AssertionError(node.operator)

    def _quotient(self, node: Operation[Expression], left: ValueDomain, right: ValueDomain) -> ValueDomain:
        pieces = [piece for piece in without_zero(right) if not piece.is_empty]
        if not pieces:
            divisor = sql_of(node.operands[1])
            if right.values is not None:
                raise UnknownDomain(node, f"{divisor} is always 0, so the result is NULL.", "Leave it out.")
            problem = f"{divisor} can be close to 0, so the result of the division has no limit."
            remedy = f"Write CASE WHEN {divisor} >= 1 THEN {sql_of(node)} END, or use another limit."
            raise UnknownDomain(node, problem, remedy)
        quotients = [
            combined(left, piece, lambda a, b: a / b) or corners(left, piece, lambda a, b: a / b, None)
            for piece in pieces
        ]
        return self.union(node, quotients)

    def _remainder(self, node: Operation[Expression], left: ValueDomain, right: ValueDomain) -> ValueDomain:
        if right.values is not None:
            [divisors] = without_zero(right)
            if divisors.is_empty:
                raise UnknownDomain(
                    node, "The remainder of a division by 0 is NULL.", "Divide by another number."
                )
            if (remainders := combined(left, divisors, math.fmod)) is not None:
                return remainders
        most = max(map(abs, right.ends))
        low, high = left.ends
        return between(max(min(low, 0), -most), min(max(high, 0), most), common_multiple(left, right))

    # -- Branches ------------------------------------------------------------------------------------------

    def _case(self, node: Case) -> ValueDomain:
        """All results, each where its condition holds and the earlier ones are false or unknown.

        If a column is NULL, a comparison with it is unknown, and a reference to it is NULL, which every
        domain allows.
        """
        inference, domains = self, []
        for condition, result in node.branches:
            inference._check_boolean(condition)
            domains.append(inference.where(condition).domain(result))
            inference = inference.unless(condition)
        if node.otherwise is not None:
            domains.append(inference.domain(node.otherwise))
        return self.union(node, domains)

    def union(self, node: Expression, parts: Iterable[ValueDomain]) -> ValueDomain:
        """Everything that one of the parts holds."""
        domains = list(parts)
        everything = union(domains)
        if everything is None:
            kinds = " and ".join(dict.fromkeys(d.kind for d in domains if d.kind != "null"))
            raise UnknownDomain(node, f"{sql_of(node)} mixes {kinds}.", "Use one type for all results.")
        return everything

    def where(self, condition: Expression) -> Inference:
        """The inference for rows where a condition holds, with narrower domains of the columns."""
        match condition:
            case Every(parts):
                return reduce(Inference.where, parts, self)
            case Opposite(part):
                return self.unless(part)
            case Compared(operator, Reference(column), Constant(value)):
                return self._narrowed(column, operator, value)
            case Compared(operator, Constant(value), Reference(column)):
                return self._narrowed(column, FLIPPED[operator], value)
        return self

    def unless(self, condition: Expression) -> Inference:
        """The inference for rows where a condition does not hold; NULL belongs to no domain."""
        match condition:
            case Some(parts):
                return reduce(Inference.unless, parts, self)
            case Opposite(part):
                return self.where(part)
            case Compared(operator, left, right):
                return self.where(Compared(OPPOSITES[operator], left, right))
        return self

    def _narrowed(self, column: str, operator: str, value: object) -> Inference:
        domain = self.columns[column]
        if domain.kind != "number" or not isinstance(value, int | float) or domain.values is not None:
            return self
        low, high = domain.low, domain.high
        if operator in (">", ">=", "="):
            low = max(low, float(value))
        if operator in ("<", "<=", "="):
            high = min(high, float(value))
        narrow = ValueDomain("number", ()) if low > high else replace(domain, low=low, high=high)
        return Inference({**self.columns, column: narrow})

    # -- Conditions ----------------------------------------------------------------------------------------

    def _check_boolean(self, node: Expression) -> None:
        if self.domain(node).kind not in ("boolean", "null"):
            raise UnknownDomain(node, f"{sql_of(node)} is not a condition.", "Write a comparison.")

    def _check_condition(self, node: Expression) -> None:
        match node:
            case Compared(operator, left, right):
                self.check_comparable(node, left, right)
                ordered = operator not in ("=", "<>")
                if ordered and self.domain(left).kind in ("text", "boolean"):
                    problem = (
                        f"The values of {sql_of(left)} have no order, so {operator} cannot compare them."
                    )
                    raise UnknownDomain(node, problem, "List the values you mean: IN (...).")
            case Among(part, values):
                for value in values:
                    self.check_comparable(node, part, value)
            case Like(part):
                self.text(part)
            case Missing(part):
                self.domain(part)
            case Opposite(part):
                self._check_boolean(part)
            case Every(parts) | Some(parts):
                for part in parts:
                    self._check_boolean(part)

    def check_comparable(self, node: Expression, left: Expression, right: Expression) -> None:
        domains = self.domain(left), self.domain(right)
        kinds = {domain.kind for domain in domains} - {"null"}
        if len(kinds) > 1 and kinds != {"date", "timestamp"}:
            raise UnknownDomain(node, f"{sql_of(node)} compares {' with '.join(sorted(kinds))}.", _OWN_TYPE)
        for part, constant in ((left, right), (right, left)):
            if isinstance(part, Reference) and isinstance(constant, Constant):
                self._check_declared(part, constant)

    def _check_declared(self, reference: Reference, constant: Constant[Value | None]) -> None:
        declared = self.columns[reference.column].values
        if declared is None or not isinstance(constant.value, str) or constant.value in declared:
            return
        texts = list(map(str, declared))
        remedy = f"Its values are: {', '.join(texts[:5])}."
        if suggestions := similar(constant.value, texts):
            remedy = f"Did you mean {sql_literal(suggestions[0])}?"
        text = sql_literal(constant.value)
        problem = f"{text} is not one of the values of {reference.column}, so nothing could match it."
        raise UnknownDomain(constant, problem, remedy)

    def text(self, node: Expression) -> ValueDomain:
        domain = self.domain(node)
        if domain.kind != "text":
            raise UnknownDomain(node, f"{sql_of(node)} is not text.", "Use a column with text values.")
        return domain

    def _moved(self, node: DateTrunc | Shifted) -> ValueDomain:
        part = self._temporal(node.part)
        if part.is_empty:
            raise UnknownDomain(node.part, f"{sql_of(node.part)} is always NULL.", "Leave it out.")
        if isinstance(node, DateTrunc):
            domain, problem = truncated_domain(part, node.unit), "has too many values"
            remedy = "Truncate to a longer unit. The curator can declare narrower bounds."
        else:
            domain, problem = shifted_domain(part, node.amount, node.unit), "can leave the years 1 to 9999"
            remedy = "Use a shorter INTERVAL. The curator can declare narrower bounds."
        if domain is None:
            raise UnknownDomain(node, f"{sql_of(node)} {problem}.", remedy)
        return domain

    def _temporal(self, node: Expression) -> ValueDomain:
        domain = self.domain(node)
        if domain.kind not in ("date", "timestamp"):
            remedy = (
                'If it is a date, the curator can declare its edges or values as dates, such as "2025-01-01".'
            )
            raise UnknownDomain(node, f"{sql_of(node)} is not a date or timestamp.", remedy)
        return domain


_OWN_TYPE = "Compare values of the same type: write 30, 'text', TRUE or DATE '2025-01-31'."


# -- Functions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowFunction:
    """A function of SQL, from which the parser, the domains, the engines' SQL and refusals follow."""

    domain: Callable[[Inference, Call], ValueDomain]
    arguments: tuple[int, ...] = ()
    """How many it may have; any number if empty. A database may have further forms, such as TRIM(text,
    characters), whose values would differ from the inferred ones."""
    of_text: Callable[[str], Value] | None = None
    """The function of one text, in Python. Engines look up its results instead of computing them."""
    is_whole: bool = False
    """Whether it returns whole numbers, for which databases have types of their own."""
    synonyms: tuple[str, ...] = ()


def _of_text(kind: Kind, function: Callable[[str], Value], *, is_whole: bool = False) -> RowFunction:
    def domain(inference: Inference, call: Call) -> ValueDomain:
        return mapped(inference.text(call.arguments[0]), kind, function)

    return RowFunction(domain, (1,), function, is_whole)


def _absolute(inference: Inference, call: Call) -> ValueDomain:
    number = inference.number(call.arguments[0])
    if number.values is not None:
        return mapped(number, "number", abs)
    low, high = number.ends
    nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return between(nearest, max(abs(low), abs(high)), number.multiple)


def _sign(inference: Inference, call: Call) -> ValueDomain:
    inference.number(call.arguments[0])
    return mapped(listed("number", (-1, 0, 1)), "number", lambda sign: sign)


def _floor(inference: Inference, call: Call) -> ValueDomain:
    return monotone(inference.number(call.arguments[0]), math.floor, Fraction(1))


def _ceil(inference: Inference, call: Call) -> ValueDomain:
    return monotone(inference.number(call.arguments[0]), math.ceil, Fraction(1))


def _round(inference: Inference, call: Call) -> ValueDomain:
    number, digits = inference.number(call.arguments[0]), _digits(call)
    return monotone(number, lambda x: rounded(x, digits), Fraction(10) ** -digits)


def _digits(node: Call) -> int:
    digits = node.arguments[1] if len(node.arguments) > 1 else Constant(0)
    if not isinstance(digits, Constant) or type(digits.value) is not int or abs(digits.value) > 15:
        raise UnknownDomain(node, "ROUND takes a whole number of digits.", "Write ROUND(x) or ROUND(x, 2).")
    return digits.value


def _coalesce(inference: Inference, call: Call) -> ValueDomain:
    return inference.union(call, map(inference.domain, call.arguments))


def _extreme(inference: Inference, call: Call) -> ValueDomain:
    return inference.union(call, map(inference.number, call.arguments))


def _nullif(inference: Inference, call: Call) -> ValueDomain:
    first, last = call.arguments
    inference.check_comparable(call, first, last)
    return inference.domain(first)


FUNCTIONS: dict[str, RowFunction] = {
    "abs": RowFunction(_absolute, (1,)),
    "ceil": RowFunction(_ceil, (1,), is_whole=True, synonyms=("CEILING",)),
    "coalesce": RowFunction(_coalesce, synonyms=("IFNULL",)),
    "floor": RowFunction(_floor, (1,), is_whole=True),
    "greatest": RowFunction(_extreme),
    "least": RowFunction(_extreme),
    "length": _of_text("number", len, is_whole=True),
    "lower": _of_text("text", str.lower),
    "nullif": RowFunction(_nullif, (2,)),
    "round": RowFunction(_round, (1, 2)),
    "sign": RowFunction(_sign, (1,), is_whole=True),
    "trim": _of_text("text", str.strip),
    "upper": _of_text("text", str.upper),
}


# -- Derived columns ---------------------------------------------------------------------------------------
#
# Their declarations follow from an expression, as if the curator had declared them.


def with_derived(columns: Mapping[str, Column]) -> dict[str, Column]:
    """The columns, with derived ones completed from their expression and the columns above them."""
    complete: dict[str, Column] = {}
    for name, column in columns.items():
        try:
            complete[name] = column if column.expression is None else derive(column, complete)
        except BadRequest as refusal:
            raise SchemaError(
                f"In the schema: columns.{name}.expression: {refusal.problem}",
                remedy=refusal.remedy,
                mistakes=[(f"columns.{name}.expression", f"{refusal.problem} {refusal.remedy}")],
            ) from None
    return complete


def derive(column: Column, columns: Mapping[str, Column]) -> Column:
    """A derived column with its domain: what is declared beside the expression, or else what is inferred."""
    node = expression_of(column, columns)
    is_declared = column.values is not None or column.edges is not None or column.bounds is not None
    try:
        domain = infer(node, columns)
        inferred = {} if is_declared else declaration(domain, node)
        reads_verbatim = any(columns[name].verbatim for name in columns_of(node))
        if inferred and domain.kind == "text" and column.lookup is None and reads_verbatim:
            inferred["verbatim"] = True
        complete = Column.model_validate(column.model_dump() | inferred)
    except UnknownDomain as unknown:
        raise SchemaError(unknown.problem, remedy=unknown.remedy) from None
    except ValidationError as error:
        message = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise SchemaError(
            f"The values that follow from the expression cannot be used: {message}.", remedy=_BESIDE
        ) from None
    if is_declared and not _fits(domain.kind, _kind(complete)):
        raise SchemaError(
            f"The expression gives {_WORDS[domain.kind]}, but the schema declares {_WORDS[_kind(complete)]}.",
            remedy="Correct the values, edges or bounds beside the expression, or delete them.",
        )
    return complete


def can_exceed_declaration(column: Column, columns: Mapping[str, Column]) -> bool:
    """Whether the expression can have values outside the values or bounds that are declared beside it."""
    domain = infer(expression_of(column, columns), columns)
    if column.values is not None:
        listed_values = set(map(comparable, column.values))
        return domain.values is None or not set(map(comparable, domain.values)) <= listed_values
    if column.bounds is None or domain.is_empty:
        return False
    low, high = map(comparable, domain.ends)
    return bool(low < comparable(column.bounds[0]) or high > comparable(column.bounds[1]))


def expression_of(column: Column, columns: Mapping[str, Column]) -> Expression:
    """The expression of a derived column.

    With groups, the result is the name of the group that has the value; with a lookup, the value's entry.
    """
    assert column.expression is not None
    node = read_expression(column.expression, columns)
    members = _members(column)
    if not members:
        return node
    return Case(
        tuple(
            (Among(node, tuple(Constant(member) for member in values)), Constant(result))
            for result, values in members.items()
        )
    )


def _members(column: Column) -> dict[Any, list[Any]]:
    """For each result of a column with groups or a lookup: the expression's values that lead to it."""
    members: dict[Any, list[Any]] = {name: [*values] for name, values in (column.groups or {}).items()}
    for value, result in column.lookup or ():
        members.setdefault(result, []).append(value)
    return members


_BESIDE = "Declare values, edges or bounds beside the expression."
_WORDS: dict[Kind, str] = {
    "number": "numbers",
    "text": "text",
    "boolean": "true or false",
    "date": "dates",
    "timestamp": "timestamps",
    "null": "nothing but NULL",
}


def declaration(domain: ValueDomain, node: Expression) -> dict[str, Any]:
    """The keys of a column that has this domain."""
    if domain.is_empty:
        raise UnknownDomain(node, "This is always NULL.", "Write an expression that has values.")
    if domain.kind == "boolean":
        return {"values": domain.values, "bounds": (0, 1), "step": 1}
    if domain.kind != "number":
        return {"values": domain.values} if domain.values is not None else {"bounds": domain.ends}
    low, high = domain.ends
    if low == high:  # bounds must have some width; a wider range is also true
        low, high = (min(low, 0), max(high, 0)) if low else (0, 1)
    bounds = {"bounds": (float(low), float(high)), "step": _usable_step(domain.multiple, low, high)}
    is_listed = domain.values is not None and all(isinstance(value, int) for value in domain.values)
    return {"values": domain.values, **bounds} if is_listed else bounds


def _usable_step(step: Fraction | None, low: float, high: float) -> float | None:
    """The step as a decimal number, if the grid it makes is not too fine."""
    if not step or max(abs(low), abs(high)) / step > LARGEST_UNITS:
        return None
    return float(step) if Fraction(repr(float(step))) == step else None


def _fits(inferred: Kind, declared: Kind) -> bool:
    return inferred in (declared, "null") or {inferred, declared} == {"date", "timestamp"}


def _kind(column: Column) -> Kind:
    """The kind of value that a declaration is for."""
    if column.is_temporal:
        return "timestamp"
    listed = [value for value in column.values or () if value is not None]
    return kind_of(listed[0]) if listed else "number"
