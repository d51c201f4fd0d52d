"""The statements that every SQL engine runs over encoded rows: joins of private tables, grouped passes, and
counts of how rows fit the declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpxplain.engines.dialect import Kind
from dpxplain.engines.encoding import Encoding, Rows, derived_names, members_of
from dpxplain.errors import SchemaError
from dpxplain.model.column import ValueCounts, as_number, is_declarable
from dpxplain.model.expression import columns_of, read_expression
from dpxplain.model.groups import BIN, Grouped, cell_starts
from dpxplain.model.query import (
    CELLS,
    DERIVED,
    ENCODED,
    NAMED_CELLS,
    PERSON,
    ROW_CELLS,
    UNIT,
    And,
    Comparison,
    Filter,
    Query,
    Subsets,
    code_column,
    filter_columns,
    units_column,
    value_column,
)
from dpxplain.model.schema import Schema, parts
from dpxplain.model.schema_fit import FitCounts, FitQuestion, Partition
from dpxplain.sql.render import (
    Rendered,
    cells_select,
    code_sizes,
    expressions,
    grouped_select,
    grouping_parts,
    regrouped_select,
    row_cells_select,
    suits_row_cells,
)

TIME_LIMIT = 1800.0
"""Seconds that a statement in a database may take, unless the caller says otherwise."""
CHARGED = "The charge stays."
"""Ends the message of a statement that failed after its charge."""

# -- Joins of private tables -------------------------------------------------------------------------------
#
# Joins the encoded rows of private tables by the person's id, as SQL of any dialect.
#
# Each table is first encoded and cut to its own max_rows, as if it was a data set of its own: the choice of a
# person's rows depends only on that person's rows in that table. Only then are the tables joined
# (docs/proofs/private-joins.md).


def all_rows(schema: Schema, encodings: Sequence[Encoding]) -> Rows:
    """The encoded rows of a data set, or of its joined tables; `encodings` are in the order of `parts`."""
    if not schema.joined:
        return encodings[0].all_rows()
    tables = [replace(encoding, keeps_unit=True).rows() for encoding in encodings]
    return joined_rows(schema, tables, encodings[0])


def joined_rows(schema: Schema, tables: Sequence[Rows], encoding: Encoding) -> Rows:
    """The rows of all tables joined by the text of the unit, with the columns of declared expressions.

    A person who is missing in a table has no joined row. `encoding` has the dialect and the parameters.
    """
    listed, joins = [f"part_0.{PERSON} AS {PERSON}"], []
    columns = [PERSON]
    for number, ((table, part), rows) in enumerate(zip(parts(schema).items(), tables, strict=True)):
        names = _encoded_names(schema, part, table)
        own = {name: names[name] for name in rows.columns if name in names}
        listed += [f"part_{number}.{name} AS {joined}" for name, joined in own.items()]
        columns += own.values()
        on = f" ON part_{number}.{UNIT} = part_0.{UNIT}" if number else ""
        joins.append(f"({rows.sql}) AS part_{number}{on}")
    joined = Rows(f"SELECT {', '.join(listed)} FROM {' JOIN '.join(joins)}", tuple(columns))
    return replace(encoding, schema=schema).with_derived(derived_names(schema), joined)


def check_units(tables: Mapping[str, Schema], kinds: Mapping[str, Mapping[str, Kind]]) -> None:
    """Raises if the units of two tables may write the same person differently, such as 7 and 7.00."""
    if len(tables) == 1:
        return
    units = {name: kinds[name][part.privacy.unit] for name, part in tables.items()}
    if len(set(units.values())) > 1 and not set(units.values()) <= {"whole", "text"}:
        words = ", ".join(f"{kind} in {name}" for name, kind in units.items())
        raise SchemaError(
            f"The privacy unit has different types in different tables ({words}), so its values would not "
            "match.",
            remedy="Convert it to whole numbers, or to text, in all tables.",
        )


def _encoded_names(schema: Schema, part: Schema, table: str) -> dict[str, str]:
    """Maps each encoded column that a table may have to its name in the joined rows."""
    names = schema.joined.get(table, {})
    return {
        encoded(part, name): encoded(schema, names.get(name, name))
        for name in part.columns
        for encoded in (code_column, units_column, value_column)
    }


# -- Grouped passes in a database server -------------------------------------------------------------------
#
# A statement encodes as few values as possible. Where a query compares a text column with a value, the
# statement compares the texts themselves. It counts cells by their texts and encodes only the texts of the
# cells (ADR 28). In Spark a pass over many subsets counts numbered cells instead of GROUPING SETS (ADR 29).
# The counts and sums are the same in every case.

_MOST_SETS = 1000  # in one statement; PostgreSQL allows 4096 GROUPING SETS


def grouped_statement(
    query: Query,
    subsets: Subsets,
    schema: Schema,
    encodings: Sequence[Encoding],
    *,
    stored: Rows | None = None,
    few_texts: Collection[str] = (),
) -> str:
    """SQL of a pass over `stored` rows, or over rows that the statement itself encodes.

    `few_texts` names the columns that have so few texts, including undeclared ones, that cells may be counted
    by text. The statement's values are bound to the parameters of the encodings.
    """
    own, uncoded, counted = encodings[0], frozenset[str](), None
    has_row_cells = own.dialect.numbers_cells and suits_row_cells(query, schema, subsets)
    if stored is None and schema.privacy.unit == "row":
        query, only_texts = _without_equalities(query, own)
        grouped = frozenset((*query.group_by, *(name for subset in subsets for name in subset)))
        read = _read_columns(query, grouped, schema)
        if not has_row_cells:  # a cell's number is computed from codes, not texts
            uncoded = frozenset(name for name in grouped - read if _is_text(name, own)) & frozenset(few_texts)
        if _is_clamped(query.aggregate.column, schema) and not own.dialect.counts_clamped:
            counted = query.aggregate.column
        wanted = grouped | read
        texts = sum(len(members_of(schema.column(name))) for name in wanted - uncoded)
        encoding = replace(own, uncoded=uncoded, only_texts=only_texts, counted=counted, wanted=wanted)
        encodings = [replace(encoding, dialect=own.dialect.for_texts(texts, len(wanted)))]
    select = row_cells_select if has_row_cells else grouped_select
    rendered = select(query, schema, subsets, has_known=counted is not None, parameters=own.parameters)
    encoded = stored or all_rows(schema, encodings)
    tables = {ENCODED: encoded.sql}
    if names := expressions(query, schema):
        rows = Rows(f"SELECT * FROM {ENCODED}", encoded.columns)
        tables[DERIVED] = replace(own, schema=schema).with_derived(names, rows).sql
    if has_row_cells:
        tables[ROW_CELLS] = _sql(rendered, own)
        rendered = cells_select(rendered, ROW_CELLS)
    if uncoded:
        tables[CELLS] = _sql(rendered, own)
        tables[NAMED_CELLS] = _encoded_cells(rendered, uncoded, own)
        rendered = regrouped_select(rendered, NAMED_CELLS)
    listed = ", ".join(f"{name} {own.dialect.inlined} ({sql})" for name, sql in tables.items())
    return f"WITH {listed} {_sql(rendered, own)}"


def statement_parts(subsets: Subsets) -> list[Subsets]:
    """The subsets in parts, each small enough for one statement."""
    return [subsets[start : start + _MOST_SETS] for start in range(0, len(subsets), _MOST_SETS)]


def _sql(rendered: Rendered, encoding: Encoding) -> str:
    return rendered.sql(encoding.dialect.name, encoding.dialect.placeholder)


def _encoded_cells(cells: Rendered, uncoded: frozenset[str], encoding: Encoding) -> str:
    """The cells with codes instead of texts. A column that a subset lacks gets the code of NULL."""
    codes = {code_column(encoding.schema, name): name for name in uncoded}
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
    remaining: list[Filter] = []
    only_texts: dict[str, list[str]] = {}
    for part in parts:
        if isinstance(part, Comparison) and part.operator == "=" and _is_text(part.column, encoding):
            texts = _members(part, encoding.schema)
            admitted = only_texts.get(part.column, texts)
            only_texts[part.column] = [text for text in texts if text in admitted]
        elif part is not None:
            remaining.append(part)
    if not all(only_texts.values()):  # contradictory conditions; every engine handles the unchanged query
        return query, {}
    where = And(tuple(remaining)) if len(remaining) > 1 else next(iter(remaining), None)
    return replace(query, where=where), only_texts


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


def _is_clamped(name: str | None, schema: Schema) -> bool:
    """Whether this is a column of the source that is clamped to bounds."""
    column = schema.columns.get(name or "")
    return column is not None and column.expression is None and column.is_numeric and column.is_summable


def _is_text(name: str, encoding: Encoding) -> bool:
    """Whether this is a text column of the source whose declared values are texts."""
    column = encoding.schema.columns.get(name)
    if column is None or column.expression is not None or encoding.kinds[name] != "text":
        return False
    return bool(members_of(column)) and all(isinstance(value, str) for value in members_of(column))


# -- Fetched rows ------------------------------------------------------------------------------------------
#
# Converts the rows that an engine fetched for a pass into `Grouped`, the form of every engine's answer.


def grouped_of(columns: Mapping[str, Any], query: Query, schema: Schema, subsets: Subsets) -> Grouped:
    """The cells, from the fetched columns by name. NULL (masked) becomes 0.

    The columns are those of `grouped_select`, or those of `cells_select`, which has the cells' numbers.
    """

    def numbers(name: str) -> NDArray[np.int64]:
        column: Any = columns[name]
        is_masked = hasattr(column, "filled")  # instead of isinstance, because numpy.ma is slow to import
        return np.asarray(column.filled(0) if is_masked else column, dtype=np.int64)

    if "cell" in columns:
        fetched = {name: numbers(name) for name in columns}
        return _numbered_cells(fetched, query, schema, subsets)
    attributes = list(dict.fromkeys(name for subset in subsets for name in subset))
    codes = {name: numbers(code_column(schema, name)) for name in (*query.group_by, *attributes)}
    if "bin" in columns:
        codes[BIN] = numbers("bin")
    count = numbers("count")
    total = numbers("total") if "total" in columns else np.zeros_like(count)
    subset = np.zeros_like(count)
    if len(subsets) > 1:
        masks = [numbers(f"missing_{i}") for i in range(len(grouping_parts(attributes)))]
        subset = _subset_numbers(masks, attributes, subsets)
        for name in attributes:
            is_part = np.array([name in columns for columns in (query.group_by + s for s in subsets)])
            codes[name] = np.where(is_part[subset], codes[name], 0)
    return Grouped(codes, subset, count, total)


def _numbered_cells(
    columns: Mapping[str, NDArray[np.int64]],
    query: Query,
    schema: Schema,
    subsets: Subsets,
) -> Grouped:
    """The cells of `cells_select`; each cell's codes are the digits of its number."""
    order = np.argsort(columns["cell"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    sizes = code_sizes(schema, subsets)
    starts = np.array(cell_starts(subsets, sizes))
    cell, count = columns["cell"], columns["count"]
    subset = np.searchsorted(starts, cell, side="right") - 1
    codes = {name: np.zeros_like(cell) for name in sizes}
    ends = np.searchsorted(subset, np.arange(len(subsets) + 1))
    for number, names in enumerate(subsets):
        place = slice(ends[number], ends[number + 1])
        rest = cell[place] - starts[number]
        for name in reversed(names):
            rest, codes[name][place] = np.divmod(rest, sizes[name])
    keys = {name: columns[code_column(schema, name)] for name in query.group_by}
    return Grouped({**keys, **codes}, subset, count, columns.get("total", np.zeros_like(count)))


def merged_cells(parts: Sequence[Subsets], cells: Sequence[Grouped]) -> Grouped:
    """The cells of one statement for each part of the subsets, with all subsets numbered consecutively."""
    if len(cells) == 1:
        return cells[0]
    names = dict.fromkeys(name for part in cells for name in part.codes)
    starts = np.cumsum([0, *map(len, parts[:-1])])
    codes = {
        name: np.concatenate([part.codes.get(name, np.zeros_like(part.count)) for part in cells])
        for name in names
    }
    return Grouped(
        codes,
        np.concatenate([part.subset + start for part, start in zip(cells, starts, strict=True)]),
        np.concatenate([part.count for part in cells]),
        np.concatenate([part.total for part in cells]),
    )


def _subset_numbers(
    missing: list[NDArray[np.int64]], attributes: list[str], subsets: Subsets
) -> NDArray[np.int64]:
    """The subset of each row, from GROUPING(), which sets the bit of every attribute not in the subset."""
    parts = grouping_parts(attributes)
    number_of = {
        tuple(_missing_bits(part, subset) for part in parts): number for number, subset in enumerate(subsets)
    }
    masks, positions = np.unique(missing[0], return_inverse=True)
    patterns: list[tuple[int, ...]] = [(int(mask),) for mask in masks]
    for part in missing[1:]:  # only if there are more attributes than fit into one part
        masks, inner = np.unique(part, return_inverse=True)
        pairs, positions = np.unique(positions * len(masks) + inner, return_inverse=True)
        patterns = [(*patterns[pair // len(masks)], int(masks[pair % len(masks)])) for pair in pairs.tolist()]
    return np.array([number_of[bits] for bits in patterns], dtype=np.int64)[positions]


def _missing_bits(part: Sequence[str], subset: tuple[str, ...]) -> int:
    return sum(1 << place for place, name in enumerate(reversed(part)) if name not in subset)


# -- Fit counts --------------------------------------------------------------------------------------------
#
# Counted over the same chosen rows as every answer.

_MOST_COUNTS = 1_000  # in one statement; PostgreSQL returns 1,664 columns at most
Fetch = Callable[[str, list[Any]], Sequence[tuple[Any, ...]]]
"""Runs a statement, and returns all its rows; none in a rehearsal."""


def fit_counts(encoding: Encoding, asked: FitQuestion, fetch: Fetch) -> FitCounts:
    """Counts the rows of each category, and the units by the number of all their rows."""
    parts, sizes = asked.partitions, asked.sizes
    # Only if needed: PostgreSQL refuses parameters that a statement does not use.
    encoded = encoding.columns() if any(part.domain == "values" for part in parts) else {}
    # The SQL is repeated, because a column of the source may have the name of any encoded column.
    categories = {f"fit_{number}": _category(encoding, part, encoded) for number, part in enumerate(parts)}
    counted = [
        f"count(CASE WHEN fit_{number} = {category} THEN 1 END)"
        for number, part in enumerate(parts)
        for category in range(len(part.categories))
    ]
    rows = np.zeros(len(counted), dtype=np.int64)
    if counted:
        rows_to_count = encoding.rows(categories)
        for start in range(0, len(counted), _MOST_COUNTS):
            aggregates = counted[start : start + _MOST_COUNTS]
            sql = f"SELECT {', '.join(aggregates)} FROM ({rows_to_count.sql}) AS kept"
            for row in fetch(sql, encoding.parameters.values):
                rows[start : start + len(aggregates)] = row
    units = np.zeros(len(sizes) + 1 if sizes else 0, dtype=np.int64)
    if sizes:
        for row in fetch(_unit_counts(encoding, sizes), []):
            units[:] = row
    return FitCounts(rows, units)


def value_counts(encoding: Encoding, column: str, longest: int, fetch: Fetch) -> ValueCounts:
    """How many privacy units have each value of a text column, counting at most max_rows values of each unit.

    Which of a unit's values count depends on that unit's values alone (docs/proofs/discovery.md).
    """
    d, privacy = encoding.dialect, encoding.schema.privacy
    text = d.valid_text(d.exact_text(d.quote(column), encoding.kinds[column]))
    fits = f"{text} IS NOT NULL AND length({text}) <= {longest}"
    rows = f"SELECT {text} AS value FROM {encoding.source} WHERE {fits}"
    if privacy.unit != "row":
        unit = encoding.unit()
        selected = f"SELECT DISTINCT {unit} AS person, {text} AS value FROM {encoding.source}"
        pairs = f"{selected} WHERE {d.is_unit(unit)} AND {fits}"
        hashed = d.md5("person || ',' || value")
        place = f"row_number() OVER (PARTITION BY person ORDER BY {hashed}, value) AS place"
        placed = f"SELECT value, {place} FROM ({pairs}) AS pairs"
        rows = f"SELECT value FROM ({placed}) AS placed WHERE place <= {privacy.max_rows}"
    counted = fetch(f"SELECT value, count(*) AS units FROM ({rows}) AS kept GROUP BY value", [])
    declarable = [(str(value), units) for value, units in counted if is_declarable(str(value))]
    values = tuple(value for value, _ in declarable)
    return ValueCounts(values, np.array([units for _, units in declarable], dtype=np.int64))


def _category(encoding: Encoding, part: Partition, encoded: dict[str, str]) -> str:
    column, source = encoding.schema.column(part.column), encoding.dialect.quote(part.column)
    if part.domain == "values":
        code = encoded[code_column(encoding.schema, part.column)]
        return f"CASE WHEN {source} IS NULL THEN 2 WHEN ({code}) > 0 THEN 0 ELSE 1 END"
    number = encoding.number(part.column)
    if part.domain == "bins":
        return _bin_category(encoding, part, number)
    ends = column.edges if part.domain == "edges" else column.bounds
    assert ends is not None
    low, high = (encoding.dialect.number_literal(as_number(end)) for end in (ends[0], ends[-1]))
    below = f"{number} {'<=' if part.domain == 'edges' else '<'} {low}"
    return (
        f"CASE WHEN {encoding.missing(number)} THEN 3 WHEN {below} THEN 1 "
        f"WHEN {number} > {high} THEN 2 ELSE 0 END"
    )


def _bin_category(encoding: Encoding, part: Partition, number: str) -> str:
    """SQL of the category: 0 below the first edge, one per bin, one above the last edge; -1 if missing."""
    first, *others = map(encoding.dialect.number_literal, part.edges)
    steps = " ".join(f"WHEN {number} <= {edge} THEN {place}" for place, edge in enumerate(others, 1))
    # NaN is tested first, because engines sort it in different places.
    return (
        f"CASE WHEN {encoding.missing(number)} THEN -1 WHEN {number} < {first} THEN 0 "
        f"{steps} ELSE {len(part.edges)} END"
    )


def _unit_counts(encoding: Encoding, sizes: tuple[int, ...]) -> str:
    """SQL that counts units by their number of rows: one bin up to each size, and one beyond the last."""
    ends = zip((0, *sizes[:-1]), sizes, strict=True)
    bins = [f"n > {low} AND n <= {high}" for low, high in ends] + [f"n > {sizes[-1]}"]
    # Not count_if, which is NULL where there is no row at all.
    counts = ", ".join(f"count(CASE WHEN {condition} THEN 1 END)" for condition in bins)
    unit = encoding.unit()
    is_unit = encoding.dialect.is_unit(unit)
    rows = f"SELECT count(*) AS n FROM {encoding.source} WHERE {is_unit} GROUP BY {unit}"
    return f"SELECT {counts} FROM ({rows}) AS sizes"
