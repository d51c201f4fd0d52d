"""The statement of a grouped pass in a database server, which encodes as few values as possible.

Where a query compares a text column with a value, the statement compares the texts themselves. It counts
cells by their texts and encodes only the texts of the cells (ADR 28). In Spark a pass over many subsets
counts numbered cells instead of GROUPING SETS (ADR 29). The counts and sums are the same in every case.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from dpxplain.engines.encoding import Encoding, Rows, members_of
from dpxplain.engines.private_join import all_rows
from dpxplain.model.expression import columns_of, read_expression
from dpxplain.model.query import And, Comparison, Filter, Query, filter_columns
from dpxplain.model.schema import Schema
from dpxplain.sql.encoded_names import CELLS, DERIVED, ENCODED, NAMED_CELLS, ROW_CELLS, code_column
from dpxplain.sql.render import (
    Rendered,
    cells_select,
    expressions,
    grouped_select,
    regrouped_select,
    row_cells_select,
    suits_row_cells,
)

_MOST_SETS = 1000  # in one statement; PostgreSQL allows 4096 GROUPING SETS


def grouped_statement(
    query: Query,
    subsets: tuple[tuple[str, ...], ...],
    schema: Schema,
    encodings: Sequence[Encoding],
    *,
    stored: Rows | None = None,
    few: Collection[str] = (),
) -> str:
    """SQL of a pass over `stored` rows, or over rows that the statement itself encodes.

    `few` names the columns that have so few texts, including undeclared ones, that cells may be counted by
    text. The statement's values are bound to the parameters of the encodings.
    """
    own, texts, known = encodings[0], frozenset[str](), None
    has_row_cells = own.dialect.numbers_cells and suits_row_cells(query, schema, subsets)
    if stored is None and schema.privacy.unit == "row":
        query, only = _without_equalities(query, own)
        grouped = frozenset((*query.group_by, *(name for subset in subsets for name in subset)))
        read = _read_columns(query, grouped, schema)
        if not has_row_cells:  # a cell's number is computed from codes, not texts
            texts = frozenset(name for name in grouped - read if _is_text(name, own)) & frozenset(few)
        if _is_number(query.aggregate.column, schema) and not own.dialect.counts_clamped:
            known = query.aggregate.column
        wanted = grouped | read
        number = sum(len(members_of(schema.column(name))) for name in wanted - texts)
        dialect = own.dialect.for_texts(number, len(wanted))
        encodings = [replace(own, dialect=dialect, texts=texts, only=only, known=known, wanted=wanted)]
    select = row_cells_select if has_row_cells else grouped_select
    rendered = select(query, schema, subsets, has_known=known is not None, parameters=own.parameters)
    encoded = stored or all_rows(schema, encodings)
    tables = {ENCODED: encoded.sql}
    if names := expressions(query, schema):
        rows = Rows(f"SELECT * FROM {ENCODED}", encoded.columns)
        tables[DERIVED] = replace(own, schema=schema).with_derived(names, rows).sql
    if has_row_cells:
        tables[ROW_CELLS] = _sql(rendered, own)
        rendered = cells_select(rendered, ROW_CELLS)
    if texts:
        tables[CELLS] = _sql(rendered, own)
        tables[NAMED_CELLS] = _encoded_cells(rendered, texts, own)
        rendered = regrouped_select(rendered, NAMED_CELLS)
    listed = ", ".join(f"{name} {own.dialect.inlined} ({sql})" for name, sql in tables.items())
    return f"WITH {listed} {_sql(rendered, own)}"


def statement_parts(subsets: tuple[tuple[str, ...], ...]) -> list[tuple[tuple[str, ...], ...]]:
    """The subsets in parts, each small enough for one statement."""
    return [subsets[start : start + _MOST_SETS] for start in range(0, len(subsets), _MOST_SETS)]


def _sql(rendered: Rendered, encoding: Encoding) -> str:
    return rendered.sql(encoding.dialect.name, encoding.dialect.placeholder)


def _encoded_cells(cells: Rendered, texts: frozenset[str], encoding: Encoding) -> str:
    """The cells with codes instead of texts. A column that a subset lacks gets the code of NULL."""
    codes = {code_column(encoding.schema, name): name for name in texts}
    listed = [
        f"{encoding.code_of_text(codes[column], column)} AS {column}" if column in codes else column
        for column in cells.tree.named_selects
    ]
    return f"SELECT {', '.join(listed)} FROM {CELLS}"


def _without_equalities(query: Query, encoding: Encoding) -> tuple[Query, dict[str, list[str]]]:
    """Splits off the conditions `column = text` that every row must meet.

    Returns the query without them, and the texts that each column may have. Rows with another text, or none,
    cannot meet the condition, so they are left out before they are encoded.
    """
    parts = query.where.parts if isinstance(query.where, And) else (query.where,)
    kept: list[Filter] = []
    only: dict[str, list[str]] = {}
    for part in parts:
        if isinstance(part, Comparison) and part.operator == "=" and _is_text(part.column, encoding):
            texts = _members(part, encoding.schema)
            only[part.column] = [text for text in texts if text in only.get(part.column, texts)]
        elif part is not None:
            kept.append(part)
    if not all(only.values()):  # contradictory conditions; every engine handles the unchanged query
        return query, {}
    where = And(tuple(kept)) if len(kept) > 1 else next(iter(kept), None)
    return replace(query, where=where), only


def _members(part: Comparison, schema: Schema) -> list[str]:
    """The source's texts that stand for the compared value: several if the column has groups."""
    groups = schema.columns[part.column].groups
    return [str(text) for text in groups[str(part.value)]] if groups is not None else [str(part.value)]


def _read_columns(query: Query, grouped: frozenset[str], schema: Schema) -> frozenset[str]:
    """The columns whose codes or numbers a pass needs for more than grouping.

    Declared expressions read other columns, which may be expressions themselves.
    """
    measured = query.aggregate.column
    read = filter_columns(query.where) | (set() if measured is None else {measured})
    names = [*grouped, *read]
    for name in names:
        if (expression := schema.column(name).expression) is not None:
            sources = columns_of(read_expression(expression, schema.columns)) - read
            read |= sources
            names += sources
    return frozenset(read)


def _is_number(name: str | None, schema: Schema) -> bool:
    """Whether this is a column of the source that is clamped to bounds."""
    column = schema.columns.get(name or "")
    return column is not None and column.expression is None and column.is_numeric and column.is_summable


def _is_text(name: str, encoding: Encoding) -> bool:
    """Whether this is a text column of the source whose declared values are texts."""
    column = encoding.schema.columns.get(name)
    if column is None or column.expression is not None or encoding.kinds[name] != "text":
        return False
    return bool(members_of(column)) and all(isinstance(value, str) for value in members_of(column))
