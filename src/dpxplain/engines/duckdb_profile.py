"""What a curator may ask of a source before any budget exists: statistics of its columns, and how well the
rows fit the declarations. The figures are NOT private, and no code that an analyst can reach computes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from duckdb import DuckDBPyConnection as Connection

from dpxplain.engines.duckdb_source import (
    DuckDBDialect,
    OpenedSource,
    open_connection,
    open_source,
    unreadable,
    words_of,
)
from dpxplain.engines.encoding import Encoding, check_columns, checked_rows, fit_figures
from dpxplain.engines.source_state import quiet
from dpxplain.errors import SourceError
from dpxplain.model.expression import quoted_name
from dpxplain.model.process import interruptible
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import SourceFigures, UnitCandidate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# -- Statistics of columns ---------------------------------------------------------------------------------
#
# One pass counts the different values of every column; all other statistics come from those counts.

MOST_VALUES = 500  # a person cannot review a longer list
_SAMPLED = 20_000  # rows looked at to find columns with too many different values to count
_QUANTILES = 1_000
_REPEATED = 0.8  # different values per row; above this, hardly any value repeats
_LEADING_ZERO = r"^\s*[+-]?0[0-9]"  # marks a code, as in 02139
_ISO_TIME = r"^\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}(:?\d{2})?)?$"
ID_NAME = re.compile(
    r"(^|_)(id|uuid|guid|ssn|email|phone)s?$|(^|_)id_?(code|no|nr|num|number)$|[a-z]Id$", re.IGNORECASE
)
_PERSON_NAME = re.compile(
    r"(^|_)(person|individual|subject|respondent|participant|panelist|patient|customer|client|member|user|"
    r"student|pupil|employee|worker|household|family|account)(_?(no|nr|num|number|code|key|id))?$|"
    r"^(nr|pid|hhid|caseid)$",
    re.IGNORECASE,
)
_CODED = re.compile(r"[A-Za-z]+[-_ ]?\d+[A-Za-z0-9]*")  # such as the tail numbers of planes
_MOST_CODES = 100  # more codes or whole numbers than this may be keys of persons
FEWEST_PERSONS = 20  # different values, in a column whose name says that it identifies persons


@dataclass(frozen=True)
class ColumnProfile:
    """One column of the source; everything but its name and kind is computed from rows."""

    name: str
    kind: str  # "numbers", "text", "true or false", "dates", or a type that cannot be declared
    rows: int
    filled: int  # rows that are not NULL; for numbers, not NaN either
    distinct: int  # exact, or a good estimate if nearly every row has its own value
    values: tuple[Any, ...] = ()  # sorted; empty if there are more than MOST_VALUES
    low: float | None = None
    high: float | None = None
    is_whole: bool = False  # all numbers are whole; for dates, all are days without a time
    quantiles: tuple[float, ...] = ()  # for numbers: the lowest, 0.1%, 0.2%, ..., the highest
    first: str = ""  # for dates: the earliest and the latest, as ISO text
    last: str = ""
    most_rows: int = 1  # rows that have the most frequent value
    usual_rows: int = 1  # the smallest limit of rows per value that keeps 99% of all rows

    @property
    def has_null(self) -> bool:
        return self.filled < self.rows

    @property
    def has_coded_values(self) -> bool:
        """Whether the column has many values, nearly all letters with a number, such as tail numbers."""
        coded = sum(_CODED.fullmatch(str(value)) is not None for value in self.values)
        return self.kind == "text" and self.distinct > _MOST_CODES and coded > 0.9 * self.distinct

    @property
    def has_number_keys(self) -> bool:
        """Whether the column has whole numbers that repeat like the key of a person.

        Either its name says so; or it has many numbers, each in a few rows, that have no large gaps or all
        have equally many rows.
        """
        if self.kind != "numbers" or not self.is_whole or self.most_rows < 2 or not self.distinct:
            return False
        if self.distinct > FEWEST_PERSONS and _PERSON_NAME.search(self.name):
            return True
        assert self.low is not None
        assert self.high is not None
        mean = self.filled / self.distinct
        is_even = self.low >= 0 and 2 <= mean <= 100 and self.most_rows <= 10 * mean
        is_dense = self.high - self.low < 1.5 * self.distinct
        is_balanced = self.most_rows * self.distinct == self.filled
        return self.distinct > _MOST_CODES and is_even and (is_dense or is_balanced)


def unit_candidates(columns: Iterable[ColumnProfile]) -> list[UnitCandidate]:
    """The columns that may identify people: by their name, or because they have many values that repeat."""
    return [
        UnitCandidate(column.name, column.distinct, column.filled, column.most_rows, column.usual_rows)
        for column in columns
        if column.distinct > 1
        and column.most_rows > 1
        and column.kind in ("text", "numbers")
        and (
            ID_NAME.search(column.name)
            or (column.kind == "text" and not column.values)
            or column.has_coded_values
            or column.has_number_keys
        )
    ]


def profile(source: object) -> list[ColumnProfile]:
    """Profiles all columns of a source. Reads all its rows."""
    with closing(open_connection()) as connection:
        opened = open_source(connection, source)
        with quiet(SourceError(f"{source} could not be read completely.")):
            opened.relation.create_view("source")
            return profile_view(connection, opened, list(opened.types))


def profile_view(connection: Connection, opened: OpenedSource, names: Sequence[str]) -> list[ColumnProfile]:
    """Profiles the named columns of an opened source, which is the view `source`."""
    wide = _wide_columns(connection, names)
    _count_values(connection, [name for name in names if name not in wide])
    if wide or _has_line_ends(connection, opened.types):
        opened.check_rows()
    profiles = []
    for i, name in enumerate(names):
        kind, is_wide = words_of(opened.types[name]), name in wide
        column = _column(connection, i, name, kind, name in opened.untyped, is_wide)
        profiles.append(_repetition(connection, i, column, is_wide))
    return profiles


def _wide_columns(connection: Connection, names: Sequence[str]) -> set[str]:
    """Columns whose first rows hardly repeat a value. Counting each value would take as long as sorting."""
    counts = ", ".join(
        f"approx_count_distinct({quoted_name(name)}), count({quoted_name(name)})" for name in names
    )
    row = _row(connection, f"SELECT {counts} FROM (SELECT * FROM source LIMIT {_SAMPLED})")
    pairs = zip(names, row[::2], row[1::2], strict=True)
    return {name for name, distinct, filled in pairs if filled > MOST_VALUES and 2 * distinct > filled}


def _count_values(connection: Connection, names: Sequence[str]) -> None:
    """Creates `counted`: each column's different values with their rows, in one pass over the source."""
    columns = [quoted_name(name) for name in names] or ["1"]
    sets = ", ".join(f"({column})" for column in columns)
    parts = ", ".join(f"grouping({column}) AS other_{i}" for i, column in enumerate(columns))
    listed = ", ".join(columns)
    connection.execute(
        f"CREATE TABLE counted AS SELECT {listed}, {parts}, count(*) AS n FROM source "
        f"GROUP BY GROUPING SETS ({sets})"
    )
    for i, name in enumerate(names):
        view, column = quoted_name(f"values of {name}"), quoted_name(name)
        connection.execute(
            f"CREATE VIEW {view} AS SELECT {column} AS value, n FROM counted WHERE other_{i} = 0"
        )


def _has_line_ends(connection: Connection, types: dict[str, str]) -> bool:
    """Whether some text spans lines; only then can unescaped quotes have swallowed rows."""
    columns = [quoted_name(name) for name, kind in types.items() if kind == "VARCHAR"]
    counted_columns = set(connection.table("counted").columns)
    tests = [f"contains({c}, chr({end}))" for c in columns if c[1:-1] in counted_columns for end in (10, 13)]
    return bool(tests and _row(connection, f"SELECT bool_or({' OR '.join(tests)}) FROM counted")[0])


def _column(
    connection: Connection, place: int, name: str, kind: str, is_untyped: bool, is_wide: bool
) -> ColumnProfile:
    view = f"counted_{place}"
    counted = f"FROM {quoted_name(f'values of {name}')}"
    different = "count(value)"
    if is_wide:
        counted = f"SELECT {quoted_name(name)} AS value, 1 AS n FROM source"
        different = "approx_count_distinct(value)"
    connection.execute(f"CREATE TABLE {view} AS {counted}")
    counts = f"SELECT sum(n), sum(n) FILTER (value IS NOT NULL), {different} FROM {view}"
    rows, filled, distinct = _row(connection, counts)
    rows, filled = int(rows or 0), int(filled or 0)
    if filled and (is_untyped or kind == "text"):
        read_as = _kind_of_text(connection, view)
        if is_untyped or read_as == "dates":  # a source with types that stores digits as text means codes
            kind = read_as
    if kind == "numbers":
        return _numbers(connection, view, name, rows)
    if kind == "dates" or str(connection.table(view).types[0]).startswith(("DATE", "TIMESTAMP")):
        return _dates(connection, view, name, rows, filled, distinct)
    text = f"CAST(value AS {'BOOLEAN' if kind == 'true or false' else 'VARCHAR'})"
    values = () if kind not in ("text", "true or false") else _values(connection, view, text, distinct)
    return ColumnProfile(name, kind, rows, filled, distinct, values)


def _numbers(connection: Connection, view: str, name: str, rows: int) -> ColumnProfile:
    import numpy as np  # imported here, because a schema check of categories does not need it

    number = "TRY_CAST(value AS DOUBLE)"
    filled = int(_row(connection, f"SELECT sum(n) FROM {view} WHERE NOT isnan({number})")[0] or 0)
    numbers = connection.execute(
        f"SELECT {number} AS value, sum(n) AS n FROM {view} WHERE isfinite({number}) GROUP BY 1 ORDER BY 1"
    ).fetchnumpy()
    values = np.asarray(numbers["value"], dtype=np.float64)
    counts = np.asarray(numbers["n"], dtype=np.float64)
    if not len(values):
        return ColumnProfile(name, "numbers", rows, filled, 0)
    return ColumnProfile(
        name,
        "numbers",
        rows,
        filled,
        len(values),
        tuple(values.tolist()) if len(values) <= MOST_VALUES else (),
        low=float(values[0]),
        high=float(values[-1]),
        is_whole=bool((values == np.floor(values)).all()),
        quantiles=_quantiles(values, counts),
    )


def _quantiles(values: NDArray[np.float64], counts: NDArray[np.float64]) -> tuple[float, ...]:
    """The quantiles of sorted values with their counts."""
    import numpy as np

    ends = np.cumsum(counts)
    ranks = np.arange(_QUANTILES + 1) / _QUANTILES * ends[-1]
    return tuple(values[np.minimum(np.searchsorted(ends, ranks), len(values) - 1)].tolist())


def _dates(
    connection: Connection, view: str, name: str, rows: int, filled: int, distinct: int
) -> ColumnProfile:
    moment = "TRY_CAST(CAST(value AS VARCHAR) AS TIMESTAMP)"
    first, last, is_whole = _row(
        connection,
        f"SELECT min({moment}), max({moment}), bool_and({moment} = date_trunc('day', {moment})) FROM {view} "
        f"WHERE isfinite({moment})",
    )
    if first is None:
        return ColumnProfile(name, "dates", rows, filled, distinct)
    ends = {"first": first.isoformat(), "last": last.isoformat()}
    return ColumnProfile(name, "dates", rows, filled, distinct, is_whole=is_whole, **ends)


def _kind_of_text(connection: Connection, view: str) -> str:
    """What all texts can be read as: numbers, booleans or dates; otherwise "text"."""
    text = "CAST(value AS VARCHAR)"
    filled, numbers, booleans, dates = _row(
        connection,
        f"SELECT count(value), count_if(TRY_CAST({text} AS DOUBLE) IS NOT NULL AND NOT "
        f"regexp_matches({text}, '{_LEADING_ZERO}')), count_if(lower({text}) IN ('true', 'false')), "
        f"count_if(regexp_full_match({text}, '{_ISO_TIME}') AND TRY_CAST({text} AS TIMESTAMP) IS NOT NULL) "
        f"FROM {view}",
    )
    kinds = {"numbers": numbers, "true or false": booleans, "dates": dates}
    return next((kind for kind, count in kinds.items() if count == filled), "text")


def _values(connection: Connection, view: str, expression: str, distinct: int) -> tuple[Any, ...]:
    """All different values in order; empty if there are too many."""
    if distinct > MOST_VALUES:
        return ()
    rows = connection.execute(
        f"SELECT DISTINCT {expression} AS value FROM {view} WHERE value IS NOT NULL ORDER BY 1"
    ).fetchall()
    return tuple(value for (value,) in rows)


def _repetition(connection: Connection, place: int, column: ColumnProfile, is_wide: bool) -> ColumnProfile:
    """The profile with `most_rows` and `usual_rows`, which suggest max_rows for a privacy unit."""
    counted = f"SELECT n FROM counted_{place} WHERE value IS NOT NULL"
    if is_wide:  # its values are not counted yet
        is_key = column.kind == "text" or column.is_whole
        if not is_key or column.distinct > _REPEATED * column.filled:
            return column
        counted = f"SELECT count(*) AS n FROM counted_{place} WHERE value IS NOT NULL GROUP BY value"
    sizes = connection.execute(f"SELECT n, count(*) FROM ({counted}) GROUP BY n ORDER BY n").fetchall()
    total, kept_rows, last = sum(n * count for n, count in sizes), 0, 0
    above = sum(count for _, count in sizes)
    for n, count in sizes:
        kept_rows += (n - last) * above  # raising the limit from `last` to n keeps this many more rows
        above, last = above - count, n
        if kept_rows >= 0.99 * total:
            return replace(column, most_rows=int(sizes[-1][0]), usual_rows=int(n))
    return column


def _row(connection: Connection, sql: str) -> tuple[Any, ...]:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return row


# -- How the rows fit --------------------------------------------------------------------------------------
#
# The source is read once, and all counts come from that reading.


def duckdb_figures(source: object, schema: Schema, *, memory: str | None = None) -> SourceFigures:
    """The figures of a source. Raises if its columns contradict the schema."""
    with closing(open_connection(memory)) as connection:
        opened = open_source(connection, source, schema.table.name)
        check_columns(schema, opened.kinds, opened.untyped)
        with quiet(unreadable(schema.table.name)), interruptible(connection.interrupt):
            opened.check_rows()
            opened.relation.create_view("source")
            encoding = Encoding(schema, opened.kinds, DuckDBDialect(connection))
            rows = checked_rows(encoding).sql
            connection.execute(f"CREATE TABLE checked AS {rows}", encoding.parameters.values)
            figures = fit_figures(encoding, lambda select: connection.execute(select).fetchall())
            if schema.privacy.unit != "row" or not figures.rows:
                return figures
            return replace(figures, unit_candidates=_unit_candidates(connection, opened))


def _unit_candidates(connection: Connection, opened: OpenedSource) -> tuple[UnitCandidate, ...]:
    """The columns of the source, declared or not, that may tell people apart."""
    names = [name for name, kind in opened.kinds.items() if kind in ("text", "whole")]
    if not names:
        return ()
    distinct = ", ".join(f"approx_count_distinct({quoted_name(name)})" for name in names)
    counts = connection.execute(f"SELECT {distinct} FROM source").fetchall()[0]
    many = [name for name, count in zip(names, counts, strict=True) if count > FEWEST_PERSONS]
    return tuple(unit_candidates(profile_view(connection, opened, many))) if many else ()
