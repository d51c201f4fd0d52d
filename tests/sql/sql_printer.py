"""A tiny printer from query trees to SQL, so that tests do not lean on the code they test."""

from __future__ import annotations

from collections.abc import Callable

from dpxplain.model.expression import (
    Compared,
    Constant,
    Every,
    Measured,
    Operation,
    OutputCondition,
    OutputFormula,
    Value,
)
from dpxplain.model.query import (
    Aggregate,
    And,
    Comparison,
    Filter,
    IsNull,
    Membership,
    Not,
    Or,
    Output,
    Presentation,
    Query,
    Statement,
)
from dpxplain.model.schema import Schema

SCHEMA = Schema.load(
    {
        "table": {"name": "people"},
        "privacy": {"rho": 1.0},
        "columns": {
            "sex": {"values": ["Female", "Male"], "null": True},
            "education": {"values": ["Bachelors", "Masters", "it's"]},
            "kids": {"values": [0, 1, 2, 3]},
            "active": {"values": [True, False]},
            "age": {"edges": [0, 10, 20, 30], "bounds": [0, 100]},
            "height": {"edges": [0, 1, 2]},
            "pay": {"bounds": [0, 100]},
            "Group": {"values": ["a", "b"]},
        },
    }
)

FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}


def name(text: str) -> str:
    """A column; that of an expression is called by its SQL."""
    return identifier(text) if text in SCHEMA.columns else f"({text})"


def identifier(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if not text.isidentifier() or text == "Group" else text


def literal(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def condition(node: Filter, coin: Callable[[], bool] = lambda: False) -> str:
    """One spelling of a filter; `coin` chooses among several."""
    match node:
        case Comparison(column, operator, value):
            if coin():
                return f"{literal(value)} {FLIPPED[operator]} {name(column)}"
            return f"{name(column)} {'!=' if operator == '<>' and coin() else operator} {literal(value)}"
        case Membership(column, values):
            listed = [literal(v) for v in (reversed(values) if coin() else values)]
            return f"{name(column)} IN ({', '.join(listed + listed[:1] if coin() else listed)})"
        case IsNull(column):
            return f"{name(column)} IS NULL"
        case Not(IsNull(column)) if coin():
            return f"{name(column)} IS NOT NULL"
        case Not(Membership(column, values)) if coin():
            return f"{name(column)} NOT IN ({', '.join(literal(v) for v in values)})"
        case Not(part):
            return f"NOT ({condition(part, coin)})"
        case And(parts):
            return "(" + " AND ".join(condition(p, coin) for p in parts) + ")"
        case Or(parts):
            return "(" + " OR ".join(condition(p, coin) for p in parts) + ")"


def value(output: Output, aggregates: list[str]) -> str:
    text = formula(output.value, aggregates)
    return text if output.digits is None else f"ROUND({text}, {output.digits})"


def formula(node: OutputFormula, aggregates: list[str]) -> str:
    match node:
        case Measured(number):
            return aggregates[number]
        case Constant(number):
            return repr(number)
        case Operation("neg", (part,)):
            return f"(- {formula(part, aggregates)})"
        case Operation("log" | "exp" as function, (part,)):
            return f"{'LN' if function == 'log' else 'EXP'}({formula(part, aggregates)})"
        case Operation(operator, (left, right)):
            return f"({formula(left, aggregates)} {operator} {formula(right, aggregates)})"
    raise AssertionError(node)


def having(node: OutputCondition, aggregates: list[str]) -> str:
    if isinstance(node, Compared):
        return f"{formula(node.left, aggregates)} {node.operator} {formula(node.right, aggregates)}"
    word = " AND " if isinstance(node, Every) else " OR "
    return "(" + word.join(having(part, aggregates) for part in node.parts) + ")"


def sql(
    query: Query,
    presentation: Presentation,
    more: tuple[Aggregate, ...] = (),
    coin: Callable[[], bool] = lambda: False,
) -> str:
    aggregates = [
        f"{a.kind.upper()}({name(a.column) if a.column else '*'})" for a in (query.aggregate, *more)
    ]
    items = [
        f"{name(o.column) if o.column else value(o, aggregates)} AS {identifier(o.name)}"
        for o in presentation.outputs
    ]
    text = f"SELECT {', '.join(items)} FROM {query.table}"
    if query.where is not None:
        text += f" WHERE {condition(query.where, coin)}"
    if query.group_by:
        text += f" GROUP BY {', '.join(name(c) for c in query.group_by)}"
    if presentation.having is not None:
        text += f" HAVING {having(presentation.having, aggregates)}"
    if presentation.order:
        keys = [
            (str(key.output + 1) if isinstance(key.output, int) else formula(key.output, aggregates))
            + (" DESC" if key.descending else "")
            for key in presentation.order
        ]
        text += f" ORDER BY {', '.join(keys)}"
    return text + (f" LIMIT {presentation.limit}" if presentation.limit is not None else "")


def reprint(statement: Statement) -> str:
    return sql(statement.query, statement.presentation, statement.more)
