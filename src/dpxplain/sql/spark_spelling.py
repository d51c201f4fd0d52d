"""Rewrites SQL that sqlglot cannot write the way Spark needs it."""

from __future__ import annotations

from sqlglot import exp

_HALF = 15  # bits


def for_spark(node: exp.Expr) -> exp.Expr:
    """The node as Spark needs it; unchanged if Spark has no other spelling."""
    if isinstance(node, exp.Anonymous) and node.name == "GROUPING":
        return _grouping(node)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Sum):
        return exp.Var(this=_total(node.this.this.sql(dialect="spark")))
    return node


def _grouping(node: exp.Anonymous) -> exp.Expr:
    """The GROUPING bits of several columns, one call per column, because Spark's GROUPING takes only one."""
    last = len(node.expressions) - 1
    bits = [f"GROUPING({column.name}) * {1 << last - i}L" for i, column in enumerate(node.expressions)]
    return exp.Var(this=f"({' + '.join(bits)})")


def _total(value: str) -> str:
    """A sum of 64-bit integers that stops at the largest or smallest 64-bit integer.

    Spark's SUM wraps around silently or, in ANSI mode, raises an error that would depend on the data. A
    clamped sum changes by no more than its parts do, so sensitivities hold.
    """
    value = f"CAST({value} AS BIGINT)"
    high = f"CAST(COALESCE(SUM(SHIFTRIGHT({value}, {_HALF})), 0L) AS DECIMAL(38, 0))"
    low = f"COALESCE(SUM({value} & {(1 << _HALF) - 1}L), 0L)"
    exact = f"{high} * {1 << _HALF} + {low}"
    return f"CAST(LEAST(GREATEST({exact}, {-(2**63)}BD), {2**63 - 1}BD) AS BIGINT)"
