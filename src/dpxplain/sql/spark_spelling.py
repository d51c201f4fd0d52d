"""What Spark's SQL has another spelling for than sqlglot knows of."""

from __future__ import annotations

from sqlglot import exp

_HALF = 15  # bits


def for_spark(node: exp.Expr) -> exp.Expr:
    """The node as Spark needs it; any other as it is."""
    if isinstance(node, exp.Anonymous) and node.name == "GROUPING":
        return _grouping(node)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Sum):
        return exp.Var(this=_total(node.this.this.sql(dialect="spark")))
    return node


def _grouping(node: exp.Anonymous) -> exp.Expr:
    """The bits of several columns, of which Spark's GROUPING takes one."""
    last = len(node.expressions) - 1
    bits = [f"GROUPING({column.name}) * {1 << last - i}L" for i, column in enumerate(node.expressions)]
    return exp.Var(this=f"({' + '.join(bits)})")


def _total(value: str) -> str:
    """A sum of 64-bit integers that ends at the largest or smallest of them.

    Spark's SUM overflows without a word, or with an error in ANSI mode, which would depend on the data. A sum
    that is cut off changes by no more than its parts do, so that sensitivities hold.
    """
    value = f"CAST({value} AS BIGINT)"
    high = f"CAST(COALESCE(SUM(SHIFTRIGHT({value}, {_HALF})), 0L) AS DECIMAL(38, 0))"
    low = f"COALESCE(SUM({value} & {(1 << _HALF) - 1}L), 0L)"
    exact = f"{high} * {1 << _HALF} + {low}"
    return f"CAST(LEAST(GREATEST({exact}, {-(2**63)}BD), {2**63 - 1}BD) AS BIGINT)"
