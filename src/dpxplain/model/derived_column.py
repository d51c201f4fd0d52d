"""Derived columns: their declarations follow from an expression, as if the curator had declared them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from pydantic import ValidationError

from dpxplain.errors import BadRequest, SchemaError
from dpxplain.model.column import LARGEST_UNITS, Column
from dpxplain.model.derivation import UnknownDomain, infer
from dpxplain.model.expression import Among, Case, Constant, Expression, columns_of, read_expression
from dpxplain.model.value_domain import Kind, ValueDomain


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
        if inferred and domain.kind == "text" and column.lookup is None and _reads_verbatim(node, columns):
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


def _reads_verbatim(node: Expression, columns: Mapping[str, Column]) -> bool:
    return any(columns[name].verbatim for name in columns_of(node))


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
    if not listed:
        return "number"
    return "boolean" if isinstance(listed[0], bool) else "number" if isinstance(listed[0], int) else "text"
