"""The same query within a condition: how a person drills down into a predicate."""

from __future__ import annotations

from sqlglot import exp

from dpxplain.sql.source import DIALECT, grow, read


def narrowed(sql: str, condition: str) -> str:
    """The statement with one more condition; a new query, with a price of its own.

    >>> narrowed("SELECT sex, COUNT(*) FROM t WHERE age > 30 OR age < 9 GROUP BY sex", "race = 'White'")
    "SELECT sex, COUNT(*) FROM t WHERE (age > 30 OR age < 9) AND race = 'White' GROUP BY sex"
    """
    tree = grow(read(sql))
    assert isinstance(tree, exp.Select)
    return tree.where(condition, dialect=DIALECT).sql(dialect=DIALECT)
