"""Renders query trees as SQL over the encoded table, with every value bound as a parameter.

For the i-th declared column, the encoded table has `code_i` if it is discrete (0 outside the domain),
`units_i` if it has bounds (fixed point, clamped, NULL for NULL and NaN) and `value_i` if it has only edges. A
value outside the domain is unknown to a filter: it satisfies neither a condition nor its negation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from sqlglot import exp

from dpxplain.model.column import as_number, comparable
from dpxplain.model.expression import COMPARE, Value
from dpxplain.model.groups import cell_count, cell_starts
from dpxplain.model.query import (
    CONDENSED,
    DERIVED,
    ENCODED,
    PERSON,
    VARIANCES,
    And,
    Comparison,
    Filter,
    Histogram,
    IsNull,
    Membership,
    Not,
    Or,
    Parameters,
    Query,
    Subsets,
    code_column,
    column_number,
    filter_columns,
    units_column,
    value_column,
)
from dpxplain.model.schema import Schema
from dpxplain.sql.admit import Scope
from dpxplain.sql.join import inline
from dpxplain.sql.source import DIALECT, parse_tree, read

# -- Statements --------------------------------------------------------------------------------------------

T = TypeVar("T")

_OPERATORS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ, "<>": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE,
}  # fmt: skip
_ADDED = ("count", "total")  # the outputs of a grouped SELECT that are not keys

_FEW_SETS = 32  # for 40 columns, GROUPING SETS take Spark three times as long as numbered cells
_MOST_CELL_NUMBERS = 2**31 - 1  # the largest 32-bit integer


def expressions(query: Query, schema: Schema) -> list[str]:
    """The names of the query's own expressions: columns that it uses and that are not declared."""
    measured = [] if query.aggregate.column is None else [query.aggregate.column]
    names = dict.fromkeys([*query.group_by, *measured, *sorted(filter_columns(query.where))])
    return [name for name in names if name not in schema.columns]


@dataclass
class Rendered:
    """A statement over the encoded table, for any dialect, and its parameters."""

    tree: exp.Select
    parameters: Parameters

    def sql(self, dialect: str, placeholder: Callable[[int], str]) -> str:
        """The SQL text in one dialect; `placeholder` writes a reference to the parameter with a number."""

        def placed(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Placeholder):
                return exp.Var(this=placeholder(int(node.name)))
            if isinstance(node, exp.IntDiv) and dialect == "postgres":
                return exp.Div(this=node.this, expression=node.expression, typed=True)  # not of numerics
            return for_spark(node) if dialect == "spark" else node

        return self.tree.transform(placed).sql(dialect=dialect)


def grouping_parts(attributes: Sequence[T]) -> list[Sequence[T]]:
    """The attributes in parts whose GROUPING() bits fit into a signed 32-bit integer, as in PostgreSQL."""
    return [attributes[start : start + 31] for start in range(0, len(attributes), 31)]


def fits_condensed(query: Query, schema: Schema) -> bool:
    """Whether the condensed table can answer: numeric columns are only summed or counted, not filtered."""
    if expressions(query, schema) or query.aggregate.kind in (*VARIANCES, "persons", "quantile"):  # not kept
        return False
    measured = None if query.aggregate.column is None else schema.column(query.aggregate.column)
    is_kept = measured is None or measured.is_numeric or measured.is_summable
    return is_kept and not any(schema.column(name).is_numeric for name in filter_columns(query.where))


def condensed_columns(schema: Schema) -> tuple[list[str], dict[str, str]]:
    """The codes that the condensed table is grouped by, and its other columns with their expressions.

    Rows that agree in all codes become one row, with their number and, for each numeric column, the number
    and the sum of its values.
    """
    counts = {"rows": "COUNT(*)"}
    for number, column in enumerate(schema.columns.values()):
        if column.is_numeric or column.is_summable:
            source = "units" if column.is_summable else "value"
            counts[f"known_{number}"] = f"COUNT({source}_{number})"
        if column.is_summable:
            counts[f"sum_{number}"] = f"CAST(SUM(units_{number}) AS BIGINT)"
    return [code_column(schema, name) for name in schema.discrete()], counts


def grouped_select(
    query: Query,
    schema: Schema,
    subsets: Subsets,
    *,
    parameters: Parameters,
    condensed: bool = False,
    has_known: bool = False,
) -> Rendered:
    """One pass of GROUPING SETS: (group-by columns + subset) for every subset.

    With `has_known` the table has an extra column to count, not NULL where the measured column has a value.
    """
    attributes = list(dict.fromkeys(name for subset in subsets for name in subset))
    outputs = _codes(schema, (*query.group_by, *attributes))
    if len(subsets) > 1:
        for i, part in enumerate(grouping_parts(attributes)):
            bits = exp.Anonymous(this="GROUPING", expressions=_codes(schema, part))
            outputs.append(_named(bits, f"missing_{i}"))
    if query.aggregate.kind == "persons":
        counted: exp.Expr = exp.Count(this=exp.Distinct(expressions=[exp.column(PERSON)]))
    elif condensed:
        counted = _sum(_condensed_count(query, schema))
    else:
        counted = exp.Count(this=_counted_value(query, schema, has_known))
    outputs.append(_named(counted, "count"))
    if isinstance(query.aggregate, Histogram):
        outputs.append(_named(_bin(query.aggregate, schema), "bin"))
    if query.aggregate.kind not in ("count", "persons", "quantile"):
        outputs.append(_named(_sum(_added(query, schema, condensed)), "total"))
    select = _select(outputs, query, schema, parameters, condensed=condensed)
    keys = [_codes(schema, (*query.group_by, *subset)) for subset in subsets]
    if isinstance(query.aggregate, Histogram):
        keys[0].append(_bin(query.aggregate, schema))
    if len(subsets) == 1:
        select = select.group_by(*keys[0], copy=False)
    else:
        sets = exp.GroupingSets(expressions=[exp.Tuple(expressions=key) for key in keys])
        select.set("group", exp.Group(expressions=[sets]))
    return Rendered(select, parameters)


def regrouped_select(cells: Rendered, table: str) -> Rendered:
    """Adds up cells that now have equal codes. `table` has the cells, under the names of their outputs."""
    names = cells.tree.named_selects
    keys = [exp.column(name) for name in names if name not in _ADDED]
    sums = [_named(_sum(exp.column(name)), name) for name in names if name in _ADDED]
    select = exp.select(*keys, *sums, copy=False).from_(exp.to_table(table), copy=False)
    return Rendered(select.group_by(*keys), cells.parameters)


def suits_row_cells(query: Query, schema: Schema, subsets: Subsets) -> bool:
    """Whether there are many subsets and their cells can be numbered, for dialects that prefer this."""
    if len(subsets) <= _FEW_SETS or query.aggregate.kind in ("persons", "quantile"):
        return False
    return cell_count((), subsets, code_sizes(schema, subsets)) <= _MOST_CELL_NUMBERS


def code_sizes(schema: Schema, subsets: Subsets) -> dict[str, int]:
    """How many codes each column of the subsets has, 0 included."""
    names = dict.fromkeys(name for subset in subsets for name in subset)
    return {name: len(schema.domain(name)) + 1 for name in names}


def row_cells_select(
    query: Query,
    schema: Schema,
    subsets: Subsets,
    *,
    parameters: Parameters,
    has_known: bool = False,
) -> Rendered:
    """Each row once per subset: its cell's number (`cell_starts`), and the values to count and to add up.

    `cells_select` reads the result. `has_known` is the same as for `grouped_select`.
    """
    sizes = code_sizes(schema, subsets)
    numbers = [
        _cell_number(schema, subset, sizes, start)
        for subset, start in zip(subsets, cell_starts(subsets, sizes), strict=True)
    ]
    counted = _counted_value(query, schema, has_known)
    is_every_row = isinstance(counted, exp.Star)
    outputs = [
        *_codes(schema, query.group_by),
        _named(exp.Explode(this=exp.Array(expressions=numbers)), "cell"),
        _named(exp.Literal.number(1) if is_every_row else counted, "count"),
    ]
    if query.aggregate.kind != "count":
        outputs.append(_named(_added(query, schema, False), "total"))
    return Rendered(_select(outputs, query, schema, parameters, condensed=False), parameters)


def cells_select(row_cells: Rendered, table: str) -> Rendered:
    """Counts the rows of each cell and adds up their values; `table` has the outputs of `row_cells`."""
    *keys, count = (exp.column(name) for name in row_cells.tree.named_selects if name != "total")
    outputs = [*keys, _named(exp.Count(this=count), "count")]
    if "total" in row_cells.tree.named_selects:
        outputs.append(_named(_sum(exp.column("total")), "total"))
    select = exp.select(*outputs, copy=False).from_(exp.to_table(table), copy=False)
    return Rendered(select.group_by(*keys), row_cells.parameters)


def _cell_number(schema: Schema, subset: tuple[str, ...], sizes: Mapping[str, int], start: int) -> exp.Expr:
    """The number of a row's cell: its codes are the digits, with the last column as the lowest digit."""
    number: exp.Expr = exp.Literal.number(start)
    stride = 1
    for name in reversed(subset):
        digit: exp.Expr = exp.cast(exp.column(code_column(schema, name)), "INT")
        if stride > 1:
            digit = exp.Mul(this=digit, expression=exp.Literal.number(stride))
        number = exp.Add(this=number, expression=digit)
        stride *= sizes[name]
    return number


def row_select(
    query: Query,
    schema: Schema,
    attributes: Sequence[str],
    *,
    parameters: Parameters,
    condensed: bool = False,
) -> Rendered:
    """The rows themselves: their codes, and what each adds to its cells' count and total; never NULL."""
    measured = query.aggregate.column
    if condensed:
        counted: exp.Expr = _condensed_count(query, schema)
    elif measured is None:
        counted = exp.Literal.number(1)
    else:
        is_null = exp.Is(this=_counted(schema, measured), expression=exp.null())
        counted = exp.Cast(this=exp.not_(is_null), to=exp.DataType.build("TINYINT"))
    outputs = [*_codes(schema, (*query.group_by, *attributes)), _named(counted, "count")]
    if query.aggregate.kind != "count":
        value = _added(query, schema, condensed)
        added = exp.Coalesce(this=value, expressions=[exp.Literal.number(0)])
        outputs.append(_named(added, "total"))
    return Rendered(_select(outputs, query, schema, parameters, condensed=condensed), parameters)


def _bin(aggregate: Histogram, schema: Schema) -> exp.Expr:
    """The number of a value's bin from 1; NULL for none."""
    assert aggregate.column is not None
    units = f"units_{column_number(schema, aggregate.column)}"
    low = schema.column(aggregate.column).grid.low
    return exp.maybe_parse(f"(CAST({units} AS BIGINT) - ({low})) // {aggregate.width} + 1", dialect=DIALECT)


def _added(query: Query, schema: Schema, condensed: bool) -> exp.Expr:
    """What a row adds to the total: its value in grid units or, for variances, the square around the middle.

    The square is of (2x − low − high) in whole multiples of the grid's coarseness, so that sums are exact.
    """
    assert query.aggregate.column is not None
    number = column_number(schema, query.aggregate.column)
    if query.aggregate.kind not in VARIANCES:
        return exp.column(f"{'sum' if condensed else 'units'}_{number}")
    grid = schema.column(query.aggregate.column).grid
    twice = f"ABS(2 * CAST(units_{number} AS BIGINT) - ({grid.low + grid.high}))"
    # Rounds half away from zero, in whole numbers only, because every engine divides these alike.
    coarse = f"((2 * {twice} + {grid.coarseness}) // {2 * grid.coarseness})"
    return exp.maybe_parse(f"{coarse} * {coarse}", dialect=DIALECT)


def _select(
    outputs: list[exp.Expr], query: Query, schema: Schema, parameters: Parameters, *, condensed: bool
) -> exp.Select:
    """SELECT of the outputs, over the rows that the query's filter admits."""
    table = exp.to_table(CONDENSED if condensed else DERIVED if expressions(query, schema) else ENCODED)
    select = exp.select(*outputs, copy=False).from_(table, copy=False)
    if query.where is not None:
        select = select.where(_Conditions(schema, parameters).render(query.where), copy=False)
    return select


def _codes(schema: Schema, names: Iterable[str]) -> list[exp.Expr]:
    return [exp.column(code_column(schema, name)) for name in names]


def _named(output: exp.Expr, name: str) -> exp.Expr:
    return exp.alias_(output, name, copy=False)


def _sum(value: exp.Expr) -> exp.Cast:
    return exp.Cast(this=exp.Sum(this=value), to=exp.DataType.build("BIGINT"))


def _condensed_count(query: Query, schema: Schema) -> exp.Column:
    """What a row of the condensed table adds to the count."""
    measured = query.aggregate.column
    return exp.column("rows" if measured is None else f"known_{column_number(schema, measured)}")


def _counted_value(query: Query, schema: Schema, has_known: bool) -> exp.Expr:
    """What a pass counts: the extra column of `has_known`, or else what COUNT counts."""
    measured = query.aggregate.column
    if has_known and measured is not None:
        return exp.column(f"known_{column_number(schema, measured)}")
    return _counted(schema, measured)


def _counted(schema: Schema, name: str | None) -> exp.Expr:
    """What COUNT counts: `*`, or a column that is NULL where COUNT(x), SUM(x) and AVG(x) skip the row."""
    if name is None:
        return exp.Star()
    column = schema.column(name)
    if column.is_summable:
        return exp.column(units_column(schema, name))
    if column.is_numeric:
        return exp.column(value_column(schema, name))
    return _declared_or_null(schema, name)


def _declared_or_null(schema: Schema, name: str) -> exp.Condition:
    """The code of a declared value that is not NULL; otherwise SQL's NULL."""
    code: exp.Condition = exp.Nullif(
        this=exp.column(code_column(schema, name)), expression=exp.Literal.number(0)
    )
    domain = schema.domain(name)
    if None in domain:
        code = exp.Nullif(this=code, expression=exp.Literal.number(domain.index(None) + 1))
    return code


class _Conditions:
    """Renders a filter; values become parameters."""

    def __init__(self, schema: Schema, parameters: Parameters) -> None:
        self.schema = schema
        self.parameters = parameters

    def render(self, node: Filter) -> exp.Condition:
        match node:
            case And(parts):
                return exp.paren(exp.and_(*(self.render(p) for p in parts)))
            case Or(parts):
                return exp.paren(exp.or_(*(self.render(p) for p in parts)))
            case Not(part):
                return exp.paren(exp.not_(self.render(part)))
            case IsNull(column):
                return self._is_null(column)
            case Comparison(column, operator, value):
                return exp.paren(self._compare(column, operator, value))
            case Membership(column, values):
                return exp.paren(exp.or_(*(self._compare(column, "=", v) for v in values)))

    def _bind(self, value: int | float) -> exp.Condition:
        return exp.Placeholder(this=str(self.parameters.bind(value)))

    def _is_null(self, name: str) -> exp.Condition:
        column = self.schema.column(name)
        if column.is_numeric:
            return exp.paren(exp.Is(this=_counted(self.schema, name), expression=exp.null()))
        code = exp.Nullif(this=exp.column(code_column(self.schema, name)), expression=exp.Literal.number(0))
        domain = self.schema.domain(name)
        if None not in domain:  # every undeclared value, including NULL, reads as NULL
            return exp.paren(code.is_(exp.null()))
        return exp.paren(exp.EQ(this=code, expression=exp.Literal.number(domain.index(None) + 1)))

    def _compare(self, name: str, operator: str, value: Value) -> exp.Condition:
        column = self.schema.column(name)
        if column.is_numeric and column.is_summable:
            return self._compare_units(name, operator, value)
        if column.is_numeric:
            encoded: exp.Condition = exp.column(value_column(self.schema, name))
            return _OPERATORS[operator](this=encoded, expression=self._bind(as_number(value)))
        domain = self.schema.domain(name)
        if operator in ("=", "<>"):
            encoded = _declared_or_null(self.schema, name)
            return _OPERATORS[operator](this=encoded, expression=self._bind(domain.index(value) + 1))
        matching = [
            v for v in domain if v is not None and COMPARE[operator](comparable(v), comparable(value))
        ]
        # An ordered comparison of whole-number categories becomes the set of declared values that it admits.
        code = _declared_or_null(self.schema, name)
        tests = [exp.EQ(this=code.copy(), expression=self._bind(domain.index(v) + 1)) for v in matching]
        return exp.or_(*tests) if tests else exp.NEQ(this=code, expression=code.copy())

    def _compare_units(self, name: str, operator: str, value: Value) -> exp.Condition:
        """Compares fixed-point units with an exact threshold, so that no rounding is involved."""
        units = exp.column(units_column(self.schema, name))
        exact = Fraction(str(value)) / self.schema.column(name).grid.step
        below, above = math.floor(exact), math.ceil(exact)
        if operator in ("=", "<>") and below != above:
            # No value on the grid equals the literal: false for = (true for <>), but still unknown for NULL.
            operator = {"=": "<", "<>": ">="}[operator]
            below = above = self.schema.column(name).grid.low
        threshold = below if operator in ("<=", ">") else above
        within_64_bits = max(-(2**62), min(2**62, threshold))
        return _OPERATORS[operator](this=units, expression=self._bind(within_64_bits))


def narrowing(sql: str, schema: Schema) -> Callable[[str], str]:
    """A function that adds a condition to the statement, to drill down; the result is a new, priced query.

    >>> schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1.0},
    ...     "columns": {"sex": {"values": ["F", "M"]}, "age": {"bounds": [0, 100]}}})
    >>> narrowed = narrowing("SELECT sex, COUNT(*) FROM t WHERE age > 30 OR age < 9 GROUP BY sex", schema)
    >>> narrowed("sex = 'F'")
    "SELECT sex, COUNT(*) FROM t WHERE (age > 30 OR age < 9) AND sex = 'F' GROUP BY sex"
    """
    source = read(sql)
    tree = parse_tree(source)
    assert isinstance(tree, exp.Select)
    # Rewritten to the declared table: a subquery may hide the column that the condition is about.
    statement = inline(tree, Scope(source, schema))
    return lambda condition: statement.where(condition, dialect=DIALECT).sql(dialect=DIALECT)


# -- Spark spelling ----------------------------------------------------------------------------------------
#
# Rewrites SQL that sqlglot cannot write the way Spark needs it.

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
