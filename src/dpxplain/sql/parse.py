"""Parses SQL text into a query tree, or refuses it with the place and a remedy. Reads no data.

Supported is one SELECT of group-by columns and of aggregates such as COUNT(*), COUNT(column), SUM(column) and
AVG(column), or arithmetic between them. It reads the declared table or a subquery that selects and filters,
with WHERE, GROUP BY (names, aliases or positions), HAVING, ORDER BY and LIMIT. Every GROUP BY column must be
selected: without their labels, rows would spend budget on an answer that nobody can read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from sqlglot import exp

from dpxplain.errors import QueryRefused
from dpxplain.model.expression import OutputFormula, formula_text, quoted_name
from dpxplain.model.hardening import plain
from dpxplain.model.query import (
    Aggregate,
    Filter,
    MeasuredKind,
    OrderKey,
    Output,
    Persons,
    Presentation,
    Quantile,
    Query,
    Statement,
)
from dpxplain.model.schema import Schema, SchemaKey
from dpxplain.model.value_domain import WHOLE_LIMIT
from dpxplain.sql.admit import Scope, admit, is_number, matching, number
from dpxplain.sql.expression_parser import (
    Aggregates,
    FormulaParser,
    all_of,
    column_name,
    condition,
    filtered_name,
    number_name,
    rounding,
)
from dpxplain.sql.join import inline, join_conditions, read_joins, table_scope
from dpxplain.sql.render import expressions
from dpxplain.sql.source import AGGREGATES, GRAMMAR, read, refused_part

MOST_EXPRESSIONS = 512  # computed columns in a statement; each is encoded for every row


def parse(sql: str, schema: Schema) -> Statement:
    """The statement a text stands for; raises QueryRefused for everything else.

    >>> schema = Schema.load({
    ...     "table": {"name": "people"}, "privacy": {"rho": 1.0},
    ...     "columns": {"sex": {"values": ["F", "M"]}, "pay": {"bounds": [0, 100]}}})
    >>> statement = parse("SELECT sex, AVG(pay) FROM people WHERE 10 < pay GROUP BY sex", schema)
    >>> statement.query.where
    Comparison(column='pay', operator='>', value=10)
    >>> parse("SELECT sex, MAX(pay) FROM people GROUP BY sex", schema)
    Traceback (most recent call last):
    ...
    dpxplain.errors.QueryRefused: line 1, column 13: The function MAX is not supported. A single row \
decides it, so the answer would be only noise. Ask for QUANTILE_CONT(column, 0.95).
    """
    text = plain(sql)  # a subclass of str could compare equal to another text in the cache
    if type(text) is not str:
        read(text)  # raises a refusal that explains the problem
    return _parsed(text, SchemaKey(schema))


@lru_cache(maxsize=256)  # a request is parsed several times: when admitted, priced, measured and shown
def _parsed(sql: str, declared: SchemaKey) -> Statement:
    schema = declared.schema
    source, joins = read_joins(read(sql), schema)
    scope = Scope(source, schema, joins=joins)
    tree = inline(admit(source, schema.columns), scope)
    scope = table_scope(tree.args.get("from_"), scope)
    aggregates = Aggregates(_is_aggregate, lambda node: _aggregate(node, scope), scope)
    outputs = _select(tree, scope, aggregates)
    group_by = _group(tree, scope, outputs)
    where, having = tree.args.get("where"), tree.args.get("having")
    formula_parser = FormulaParser(aggregates, {o.name: o.value for o in outputs if o.column is None})
    presentation = Presentation(
        outputs,
        having=formula_parser.having(having.this) if having else None,
        order=_order(tree, outputs, formula_parser),
        limit=_limit(tree, scope),
    )
    conditions = [*([condition(where.this, scope)] if where else []), *join_conditions(joins, schema)]
    query = Query(
        table=schema.table.name,
        group_by=group_by,
        aggregate=aggregates.known[0],
        where=all_of(conditions) if conditions else None,
    )
    _check_expressions([replace(query, aggregate=aggregate) for aggregate in aggregates.known], scope)
    return Statement(sql, query, presentation, tuple(aggregates.known[1:]))


def _check_expressions(queries: Sequence[Query], scope: Scope) -> None:
    """Raises if there are more computed columns than an engine can handle well in one statement."""
    computed = {name for query in queries for name in expressions(query, scope.schema)}
    if len(computed) > MOST_EXPRESSIONS:
        raise scope.refuse(
            f"The statement has {len(computed):,} computed columns; the limit is {MOST_EXPRESSIONS}.",
            "Compare columns with constants, or ask in several queries.",
        )


def parse_condition(text: str, schema: Schema) -> Filter:
    """Parses one condition, as it would be written after WHERE.

    >>> schema = Schema.load({"table": {"name": "people"}, "privacy": {"rho": 1.0},
    ...     "columns": {"sex": {"values": ["F", "M"]}}})
    >>> parse_condition("sex <> 'F'", schema)
    Comparison(column='sex', operator='<>', value='F')
    """
    # Inside parentheses no further clause can follow.
    before = f"SELECT COUNT(*) FROM {quoted_name(schema.table.name)} WHERE ("
    try:
        statement = parse(f"{before}{text}\n)", schema)
    except QueryRefused as refusal:
        raise refused_part(refusal, before, text, f"In the condition {text!r}: {refusal.reason}") from None
    query, presentation = statement.query, statement.presentation
    if query.where is None or query.group_by or presentation.order or presentation.limit is not None:
        raise QueryRefused(
            f"{text!r} contains more than a condition.", remedy="Write only the part that comes after WHERE."
        )
    return query.where


def _select(tree: exp.Select, scope: Scope, aggregates: Aggregates) -> tuple[Output, ...]:
    """The answer's columns and the names under which they are shown."""
    outputs: list[Output] = []
    for item in tree.expressions:
        inner, digits = rounding(item.unalias().unnest(), aggregates)
        if aggregates.recognises(inner):
            output = _aggregate_output(inner, scope, aggregates, outputs)
        elif isinstance(inner, exp.Star) or isinstance(inner.this, exp.Star):
            remedy = "Name the GROUP BY columns, and add COUNT(*), SUM(column) or AVG(column)."
            raise scope.refuse("SELECT * is not supported, because rows are private.", remedy, inner)
        elif aggregates.occur_in(inner):
            formula = FormulaParser(aggregates).formula(inner)
            output = Output(formula_text(formula, list(map(str, aggregates.known))), None, -1, formula)
        else:
            column = column_name(inner, scope)
            output = Output(column, column)
        name = item.alias or (output.name if digits is None else f"ROUND({output.name}, {digits})")
        if name.casefold() in {output.name.casefold() for output in outputs}:
            remedy = "Remove one of them, or rename it with AS."
            raise scope.refuse(f"Two columns of the SELECT are called {name}.", remedy, item)
        outputs.append(replace(output, name=name, digits=digits))
    if not aggregates.known:
        remedy = "Add COUNT(*), COUNT(column), SUM(column) or AVG(column) to SELECT."
        raise scope.refuse("The SELECT has no aggregate.", remedy, scope.source.tokens[0])
    return tuple(outputs)


def _aggregate_output(node: exp.Expr, scope: Scope, aggregates: Aggregates, outputs: list[Output]) -> Output:
    number = aggregates.number(node)
    text = str(aggregates.known[number])
    if any(o.column is None and o.formula is None and o.aggregate == number for o in outputs):
        raise scope.refuse(f"{text} is selected twice.", "Select it once.", node)
    return Output(text, None, number)


def _is_aggregate(node: exp.Expr) -> bool:
    return type(node.this if isinstance(node, exp.Filter) else node) in AGGREGATES


def _refuse_inner_aggregates(node: exp.Expr, scope: Scope) -> None:
    inner = next(node.find_all(*AGGREGATES), None)
    if inner is not None:
        raise scope.refuse("An aggregate cannot be used inside this expression.", GRAMMAR, inner)


def _aggregate(node: exp.Expr, scope: Scope) -> Aggregate:
    condition = node.expression.this if isinstance(node, exp.Filter) else None
    node = node.this if isinstance(node, exp.Filter) else node
    kind = AGGREGATES[type(node)].kind
    inner = node.this.unnest() if isinstance(node.this, exp.Expr) else None
    if isinstance(inner, exp.Distinct):
        return _persons(inner, condition, scope)
    is_constant = isinstance(inner, exp.Literal) and inner.is_int
    if kind == "count" and (isinstance(inner, exp.Star) or is_constant):
        return Aggregate("count", None if condition is None else filtered_name(exp.Star(), condition, scope))
    if inner is None or isinstance(inner, exp.Star | exp.Literal):
        usage = f"Write {kind.upper()}(column){' or COUNT(*)' if kind == 'count' else ''}."
        usage = "Write QUANTILE_CONT(column, 0.9)." if kind == "quantile" else usage
        raise scope.refuse(f"{kind.upper()} takes one column or expression.", usage, inner or node)
    _refuse_inner_aggregates(inner, scope)
    if kind == "quantile":
        return _quantile(node, inner, condition, scope)
    column = filtered_name(inner, condition, scope)
    return Aggregate(kind, column if kind == "count" else _numeric(kind, column, inner, scope))


def _quantile(node: exp.Expr, inner: exp.Expr, condition: exp.Expr | None, scope: Scope) -> Aggregate:
    """MEDIAN(x), QUANTILE_CONT(x, level) or APPROX_QUANTILE(x, level), of a column with bounds or edges."""
    share = node.args.get("expression") or node.args.get("quantile")
    level = 0.5 if isinstance(node, exp.Median) else number(share.name) if is_number(share) else None
    if level is None or not 0 < level < 1:
        remedy = "Write QUANTILE_CONT(column, 0.9)."
        raise scope.refuse("A quantile needs a number between 0 and 1.", remedy, share or node)
    column = filtered_name(inner, condition, scope)
    declared = scope.schema.column(column)
    if declared.is_temporal or not (declared.is_summable or declared.edges):
        remedy = f"The curator can declare bounds = [low, high] or edges = [...] for {column}."
        raise scope.refuse(
            f"A quantile needs a column with bounds or edges; {column} has none.", remedy, inner
        )
    return Quantile("quantile", column, float(level))


def _persons(node: exp.Distinct, condition: exp.Expr | None, scope: Scope) -> Aggregate:
    """COUNT(DISTINCT unit) of the declared privacy unit, whose column need not be declared itself."""
    unit, counted = scope.schema.privacy.unit, [part.unnest() for part in node.expressions]
    column = counted[0] if len(counted) == 1 and isinstance(counted[0], exp.Column) else None
    is_unit = column is not None and isinstance(column.this, exp.Identifier) and matching(column.this, [unit])
    if unit == "row" or not is_unit or condition is not None:
        remedy = "Use COUNT(column). The schema lists the distinct values."
        if unit != "row":
            remedy = f"Write COUNT(DISTINCT {unit}), with conditions in WHERE."
        problem = "DISTINCT in an aggregate works only for the privacy unit."
        raise scope.refuse(problem, remedy, counted[0])
    return Persons("persons", None, unit)


def _numeric(kind: MeasuredKind, column: str, at: exp.Expr, scope: Scope) -> str:
    """The column to sum: a column with bounds, or whole numbers or booleans converted to numbers."""
    declared = scope.schema.column(column)
    if declared.is_summable:
        return column
    if declared.is_temporal:
        remedy = f"Average a part of it: EXTRACT(hour FROM {column})."
        raise scope.refuse(f"{kind.upper()} needs numbers; {column} has dates.", remedy, at)
    if any(isinstance(value, int) for value in declared.values or ()):  # TRUE and FALSE are 1 and 0
        if max(abs(value) for value in declared.values or () if isinstance(value, int)) >= WHOLE_LIMIT:
            remedy = "Leave the largest values out with CASE."
            raise scope.refuse(f"The values of {column} are too large for {kind.upper()}.", remedy, at)
        return number_name(column, at, scope)
    usable = [name for name, other in scope.schema.columns.items() if other.is_summable]
    instead = f"Choose a column with bounds: {', '.join(usable)}. " if usable else ""
    remedy = f"{instead}The curator can declare bounds = [low, high] for {column}."
    raise scope.refuse(f"{kind.upper()} needs a column with bounds; {column} has none.", remedy, at)


def _group(tree: exp.Select, scope: Scope, outputs: tuple[Output, ...]) -> tuple[str, ...]:
    group = tree.args.get("group")
    columns: list[str] = []
    for item in group.expressions if group else ():
        column = _group_column(item.unnest(), scope, outputs)
        if column in columns:
            raise scope.refuse(f"GROUP BY names {column} twice.", "Name it once.", item)
        if scope.schema.column(column).domain is None:
            remedy = f"Group by another column. The curator can declare edges = [...] for {column}."
            if column not in scope.schema.columns:
                remedy = (
                    f"Group by FLOOR({column} / 10), or by CASE WHEN {column} > 0 THEN 'yes' ELSE 'no' END."
                )
            raise scope.refuse(
                f"You cannot group by {column}: the schema lists no values or edges for it.", remedy, item
            )
        if all(output.column != column for output in outputs):
            remedy = f"Add {column} to SELECT, so that the answer's rows can be told apart."
            raise scope.refuse(f"{column} is in GROUP BY but not in SELECT.", remedy, item)
        columns.append(column)
    for output, item in zip(outputs, tree.expressions, strict=True):
        if output.column is not None and output.column not in columns:
            remedy = f"Add GROUP BY {', '.join([*columns, output.column])}, or leave {output.column} out."
            raise scope.refuse(f"{output.column} is in SELECT but not in GROUP BY.", remedy, item)
    return tuple(columns)


def _group_column(item: exp.Expr, scope: Scope, outputs: tuple[Output, ...]) -> str:
    """The column that a position, column name or alias means. Columns take precedence, as in standard SQL."""
    if isinstance(item, exp.Literal):
        output = outputs[_position(item, scope, outputs)]
    else:
        aliases = {output.name: output for output in outputs}
        named = _plain_name(item)
        alias = matching(named, aliases) if named is not None else []
        if named is None or matching(named, scope.schema.columns) or not alias:
            _refuse_inner_aggregates(item, scope)
            return column_name(item, scope)
        output = aliases[alias[0]]
    if output.column is None:
        raise scope.refuse("GROUP BY cannot use an aggregate.", "Group by columns.", item)
    return output.column


def _order(tree: exp.Select, outputs: tuple[Output, ...], parser: FormulaParser) -> tuple[OrderKey, ...]:
    order = tree.args.get("order")
    return tuple(
        OrderKey(_ordered_output(item.this.unnest(), outputs, parser), bool(item.args.get("desc")))
        for item in (order.expressions if order else ())
    )


def _ordered_output(
    item: exp.Expr, outputs: tuple[Output, ...], parser: FormulaParser
) -> int | OutputFormula:
    """The output that a position, name, column or value means, or a new value. Names take precedence."""
    scope, names = parser.scope, [output.name for output in outputs]
    if isinstance(item, exp.Literal):
        return _position(item, scope, outputs)
    named = _plain_name(item)
    if named is not None and (alias := matching(named, names)):
        return names.index(alias[0])
    if parser.is_formula(item):
        formula = parser.formula(item)
        selected = [i for i, o in enumerate(outputs) if o.column is None and o.value == formula]
        return selected[0] if selected else formula
    remedy = f"Order by one of: {', '.join(names)}."
    column = scope.column(item, hint=remedy) if named is not None else column_name(item, scope)
    columns = [output.column for output in outputs]
    if column not in columns:
        raise scope.refuse(f"ORDER BY names {column}, which is not in SELECT.", remedy, item)
    return columns.index(column)


def _limit(tree: exp.Select, scope: Scope) -> int | None:
    limit = tree.args.get("limit")
    if limit is None:
        return None
    rows = limit.expression.unnest()
    value = number(rows.name) if is_number(rows) else None
    if not isinstance(value, int) or value < 1:
        # LIMIT 0 would spend budget and show nothing.
        remedy = "Write a whole number of at least 1. To spend nothing, use preview."
        raise scope.refuse("LIMIT takes a positive whole number.", remedy, rows)
    return value


def _plain_name(item: exp.Expr) -> exp.Identifier | None:
    """The identifier of a column without a table in front, which may be an alias."""
    plain = isinstance(item, exp.Column) and isinstance(item.this, exp.Identifier)
    return item.this if plain and not item.args.get("table") else None


def _position(item: exp.Literal, scope: Scope, outputs: tuple[Output, ...]) -> int:
    value = int(item.name) if not item.is_string and item.name.isdecimal() else 0  # 2.0 is a constant to SQL
    if not 1 <= value <= len(outputs):
        remedy = f"Write a column's name, or its number from 1 to {len(outputs)}."
        raise scope.refuse(f"The SELECT has no column number {item.name}.", remedy, item)
    return value - 1
