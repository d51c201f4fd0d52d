"""Parses WHERE into a filter tree in canonical form.

The literal is on the right, BETWEEN becomes two comparisons, AND and OR are flat, a double NOT is removed, an
IN list is sorted without repeats, and IN with one value becomes `=`. Parts keep the order in which they are
written.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from dpxplain.model.expression import FLIPPED
from dpxplain.model.query import And, Comparison, Filter, IsNull, Literal_, Membership, Not, Or
from dpxplain.model.value_domain import like_matcher
from dpxplain.sql.expression_parser import column_name
from dpxplain.sql.scope import Scope, is_literal, listing
from dpxplain.sql.vocabulary import COMPARISONS

_COMPARE = "Compare a column with a value, for example age >= 30 AND sex = 'F'."


def condition(node: exp.Expr, scope: Scope) -> Filter:
    """The filter of a condition and everything below it."""
    node = node.unnest()
    match node:
        case exp.And():
            return all_of(condition(part, scope) for part in node.flatten())
        case exp.Or():
            return any_of(condition(part, scope) for part in node.flatten())
        case exp.Not():
            return none_of(condition(node.this, scope))
        case exp.Between():
            return _between(node, scope)
        case exp.In():
            return _in(node, scope)
        case exp.Is():
            return _is(node, scope)
        case exp.Column():
            return _bare(node, scope)
        case exp.Like() | exp.ILike():
            return _like(node, scope)
        case _ if type(node) in COMPARISONS:
            return _comparison(node, scope)
    return _expression(node, scope)


def _expression(node: exp.Expr, scope: Scope) -> Filter:
    """A condition that does not compare one plain column, as a new column that is TRUE where it holds."""
    if is_literal(node):
        raise scope.refuse("This is not a condition.", _COMPARE, node)
    name = column_name(node, scope)
    if True not in (scope.schema.column(name).values or ()):
        raise scope.refuse("This is not a condition.", _COMPARE, node)
    return Comparison(name, "=", True)


def _is_plain(*nodes: exp.Expr) -> bool:
    """Whether the nodes are one column and literals, which can be compared in the column's encoded form."""
    column, *literals = nodes
    return isinstance(column, exp.Column) and all(is_literal(literal) for literal in literals)


def all_of(parts: Iterable[Filter]) -> Filter:
    """AND, with the ANDs inside it lifted out."""
    flat = [p for part in parts for p in (part.parts if isinstance(part, And) else (part,))]
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def any_of(parts: Iterable[Filter]) -> Filter:
    """OR, with the ORs inside it lifted out."""
    flat = [p for part in parts for p in (part.parts if isinstance(part, Or) else (part,))]
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def none_of(part: Filter) -> Filter:
    """NOT. A double NOT cancels out, in three-valued logic too."""
    return part.part if isinstance(part, Not) else Not(part)


def one_of(column: str, values: Iterable[Literal_]) -> Filter:
    """IN, with its values sorted and without repeats."""
    distinct = sorted(set(values))  # all values of a column have one kind, so they can be sorted
    return Comparison(column, "=", distinct[0]) if len(distinct) == 1 else Membership(column, tuple(distinct))


def _comparison(node: exp.Expr, scope: Scope) -> Filter:
    operator = COMPARISONS[type(node)]
    left, right = node.this.unnest(), node.expression.unnest()
    if is_literal(left) and is_literal(right):
        raise scope.refuse("This compares two constants.", _COMPARE, node)
    if is_literal(left):
        left, right, operator = right, left, FLIPPED[operator]
    if isinstance(right, exp.Column):
        # Text without quotation marks is read as a column.
        scope.column(right, otherwise=f"If you mean text, write '{right.name}'.")
    if not _is_plain(left, right):
        is_itself = operator == "=" and isinstance(right, exp.Boolean) and right.this
        return condition(left, scope) if is_itself else _expression(node, scope)
    column = scope.column(left)
    return Comparison(column, operator, scope.literal(column, operator, right))


def _between(node: exp.Between, scope: Scope) -> Filter:
    low, high = node.args["low"].unnest(), node.args["high"].unnest()
    if not _is_plain(node.this.unnest(), low, high):
        return _expression(node, scope)
    column = scope.column(node.this.unnest())
    return And(
        (
            Comparison(column, ">=", scope.literal(column, ">=", low)),
            Comparison(column, "<=", scope.literal(column, "<=", high)),
        )
    )


def _in(node: exp.In, scope: Scope) -> Filter:
    if not node.expressions:
        raise scope.refuse("The list of IN is empty.", "Name at least one value.", node)
    if not _is_plain(node.this.unnest(), *(value.unnest() for value in node.expressions)):
        return _expression(node, scope)
    column = scope.column(node.this.unnest())
    return one_of(column, [scope.literal(column, "=", value.unnest()) for value in node.expressions])


def _like(node: exp.Expr, scope: Scope) -> Filter:
    """LIKE as IN: the declared values that match the pattern."""
    inner = node.this.unnest()
    name = column_name(inner, scope)
    texts = [value for value in scope.schema.column(name).values or () if isinstance(value, str)]
    pattern = node.expression.unnest()
    if not isinstance(inner, exp.Column) or not texts or not pattern.args.get("is_string"):
        return _expression(node, scope)
    matches = like_matcher(str(pattern.this), isinstance(node, exp.ILike))
    matching = [text for text in texts if matches(text)]
    if not matching:
        problem = f"No declared value of {name} matches this pattern."
        raise scope.refuse(problem, listing(texts), pattern)
    members = one_of(name, matching)
    return none_of(members) if node.args.get("negate") else members


def _is(node: exp.Is, scope: Scope) -> Filter:
    if not isinstance(node.this.unnest(), exp.Column):
        return _expression(node, scope)
    column = scope.column(node.this.unnest())
    if not isinstance(node.expression, exp.Null):
        remedy = "Write column = TRUE or column = FALSE."
        raise scope.refuse("IS works only with NULL.", remedy, node.expression)
    return IsNull(column)


def _bare(node: exp.Column, scope: Scope) -> Filter:
    column = scope.column(node)
    values = scope.schema.columns[column].values or ()
    if not any(isinstance(value, bool) for value in values):
        raise scope.refuse(f"{column} alone is not a condition.", _COMPARE, node)
    return Comparison(column, "=", scope.literal(column, "=", exp.true()))
