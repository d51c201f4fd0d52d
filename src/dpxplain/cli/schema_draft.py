"""A first draft of a schema, from what the columns look like, for the curator to review.

A domain read from data reveals what is in the data. Declaring it without review can reveal a person (the only
one with a rare value, or the highest earner). So a draft rounds outwards, comments out doubtful columns, and
says clearly what is left to do.
"""

from __future__ import annotations

import calendar
import csv
import math
import os
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from itertools import pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.items import Array, Table

from dpxplain.engines.duckdb_profile import ID_NAME, unit_candidates
from dpxplain.errors import BadRequest, InternalError, QueryRefused, SchemaError, SourceError
from dpxplain.model.column import LARGEST_UNITS
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import UnitCandidate

if TYPE_CHECKING:
    from dpxplain.engines.duckdb_profile import ColumnProfile

# -- Draft -------------------------------------------------------------------------------------------------

WARNING = (
    "NOT PRIVATE: dpxplain read the data to write this draft. Any value, edge or bound in it may reveal a "
    "person. Before you use or share it, compare each with public knowledge (a code book, a law, common "
    "sense)."
)

_HEADER = """\
DRAFT written by: dpxplain schema init

NOT PRIVATE: dpxplain read the data to write this draft.
Any value, edge or bound below may reveal a person: the only one with a rare value, or the highest
earner. Everything in a schema is public. Before you use or share this file, compare each value,
edge and bound with public knowledge (a code book, a law, common sense). Then delete this note."""
EXACT_SUMS = "whole numbers only, so sums are exact"
_MAY_BE_CODES = "to sum and average it; delete bounds and step if the numbers are codes"
_MAY_BE_UNIT = "If it tells people apart, it can be the privacy unit."
UNIT_COMMENT = "each row is one person; if not, name the column of the person id and add max_rows = 3"
_LINE_LENGTH = 100
_LEAST = 1e-100  # numbers below this or above its inverse are not measurements
_MOST_AGES = 120
_FEW_NUMBERS = 10  # up to this many different whole numbers, each in several rows, are categories
_SHORT_LIST = 30  # a longer list is marked for confirmation


@dataclass(frozen=True)
class LeftOut:
    """A column that the draft only mentions."""

    name: str
    reason: str


@dataclass(frozen=True)
class Draft:
    """The draft as TOML text, the columns that it leaves out, and those that may be the privacy unit."""

    text: str
    schema: Schema | None  # None if the curator must declare a domain first
    left_out: tuple[LeftOut, ...]
    units: tuple[UnitCandidate, ...] = ()


def draft_schema(
    columns: Sequence[ColumnProfile], source: str | list[str], rho: float, codebook: Codebook | None = None
) -> Draft:
    """The draft for a source or several files, named relative to the folder of the future schema file.

    What a code book lists takes precedence over the data.
    """
    book = codebook or {}
    check_names(book, [column.name for column in columns])
    coded = {name for name, column in book.items() if column.has_domain}
    reasons = {
        column.name: "" if column.name in coded else _reason_to_leave_out(column) for column in columns
    }
    left_out = tuple(LeftOut(name, reason) for name, reason in reasons.items() if reason)
    if len(left_out) == len(columns):
        raise SourceError(
            "None of the columns can be used: each is empty, has a different value in every row, or has an "
            "unsupported type.",
            remedy="Write the schema by hand; docs/language.md shows how.",
        )
    declared = [column for column in columns if not reasons[column.name]]
    table = table_name(source)
    units = tuple(unit_candidates(columns))

    def written(name: str) -> str:
        return _draft_text(name, source, _privacy_section(rho, units), declared, left_out, book)

    text = written(table)
    schema = _loaded_schema(text)
    if not _can_be_queried(schema):  # for example, a file called order.csv
        text = written(f"{table}_data")
        schema = _loaded_schema(text)
    return Draft(text, schema, left_out, units)


def source_for(data: str, output: Path | None) -> str:
    """The name of the data in a schema at `output`: relative to the schema's folder."""
    folder = output.absolute().parent if output is not None else Path.cwd()
    try:
        return Path(os.path.relpath(data, folder)).as_posix()
    except ValueError:  # another drive
        return os.path.abspath(data)


def _draft_text(
    table: str,
    source: str | list[str],
    privacy: Table,
    columns: Sequence[ColumnProfile],
    left_out: Sequence[LeftOut],
    book: Codebook,
) -> str:
    document = tomlkit.document()
    for line in _HEADER.splitlines():
        document.add(tomlkit.comment(line))
    document.add(tomlkit.nl())
    document.add("table", tomlkit.item({"name": table, "source": source}))
    document.add("privacy", privacy)
    declarations = tomlkit.table(is_super_table=True)
    for column in columns:
        coded = book.get(column.name)
        declaration = (
            _coded_declaration(column, coded) if coded and coded.has_domain else _declaration(column)
        )
        if coded and coded.label:
            declaration.add("label", coded.label)
        if coded and (labels := coded.value_labels(column.kind)):
            declaration.add("value_labels", labels)
        declarations.add(column.name, declaration)
    document.add("columns", declarations)
    for omitted in left_out:
        add_left_out(document, omitted)
    return tomlkit.dumps(document)


def add_left_out(document: TOMLDocument, omitted: LeftOut, notes: Sequence[str] = ()) -> None:
    """Adds comments about a column that the draft only mentions."""
    document.add(tomlkit.nl())
    document.add(tomlkit.comment(f"[columns.{tomlkit.key(omitted.name).as_string()}]"))
    for line in (f"Left out: {omitted.reason}", *notes):
        document.add(tomlkit.comment(line))


def _coded_declaration(column: ColumnProfile, coded: CodedColumn) -> Table:
    """The declaration of a column that the code book lists."""
    declaration = tomlkit.table()
    declaration.add(tomlkit.comment("from the code book"))
    if coded.values:
        declaration.add("values", toml_array(coded.typed_values(column.kind)))
        add_null(declaration, column.has_null)
    elif coded.bounds is not None:
        declaration.add("bounds", tomlkit.item([number_item(bound) for bound in coded.bounds]))
    return declaration


def budget_section(rho: float) -> Table:
    """The privacy section with the budget only."""
    privacy = tomlkit.table()
    rho_item, delta_item = tomlkit.item(number_item(rho)), tomlkit.value("1e-6")
    privacy.add("rho", rho_item.comment("the budget for all queries together, for ever"))
    privacy.add("delta", delta_item.comment("dpxplain converts between rho and epsilon at this delta"))
    return privacy


def _privacy_section(rho: float, units: Sequence[UnitCandidate]) -> Table:
    privacy = budget_section(rho)
    privacy.add("unit", tomlkit.item("row").comment(UNIT_COMMENT))
    for unit in units:
        for line in _unit_proposal(unit):
            privacy.add(tomlkit.comment(line))
    neighbours = tomlkit.item("unbounded")
    hides = 'hides whether a person is in the data; "bounded" hides only what their rows say'
    privacy.add("neighbours", neighbours.comment(hides))
    return privacy


def _unit_proposal(unit: UnitCandidate) -> tuple[str, ...]:
    """Comment lines about a column that looks like a person's key; the curator may uncomment them."""
    name = tomlkit.item(unit.column).as_string()
    return (
        f"{name} may tell people apart: about {unit.values:,} values in {unit.rows:,} rows, up to "
        f"{unit.most_rows:,} rows each.",
        "If it does, delete the line with unit above, and the # before these two lines:",
        f"unit = {name}",
        f"max_rows = {unit.usual_rows}  # keeps 99% of the rows; more rows per person mean more noise",
    )


def _reason_to_leave_out(column: ColumnProfile) -> str:
    """Why a column is not declared. The words contain no value of the data."""
    if column.kind == "dates":
        if column.first and not (EARLIEST <= _moment(column.first) <= _moment(column.last) <= LATEST):
            return "some of its dates are so early or so late that they are probably codes, not dates."
        return "" if column.first else "it contains no readable date."
    if column.kind not in ("numbers", "text", "true or false"):
        return f"it contains {column.kind}, which a schema cannot declare."
    if not column.distinct:
        return "it is empty."
    if ID_NAME.search(column.name):
        return f"its name looks like an identifier's. {_MAY_BE_UNIT}"
    unique = column.distinct >= 0.9 * column.filled and column.filled >= 20
    if column.kind == "numbers":
        if column.has_number_keys:
            return f"its numbers repeat, as a person's id would. {_MAY_BE_UNIT} If not, declare its bounds."
        assert column.low is not None
        assert column.high is not None
        if not _LEAST <= (max(abs(column.low), abs(column.high)) or 1.0) <= 1 / _LEAST:
            return "its numbers are too large or too small to propose bounds."
        dense = column.high - column.low < 2 * column.filled
        # A small table may well hold every age once.
        if unique and column.is_whole and dense and column.distinct > _MOST_AGES:
            return "nearly every row has a different number, so it looks like an identifier."
        return ""
    if unique:
        return "nearly every row has a different value, so it looks like an identifier or free text."
    if column.has_coded_values:
        return f"its values look like identifiers. {_MAY_BE_UNIT}"
    if column.kind == "text" and not column.values:
        return f"about {column.distinct:,} different values are too many to list. {_MAY_BE_UNIT}"
    return ""


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _dated_declaration(column: ColumnProfile) -> Table:
    declaration = tomlkit.table()
    period, edges = drafted_dates(_moment(column.first), _moment(column.last), column.is_whole)
    last_of = "; each bin includes the day at its upper edge" if column.is_whole else ""
    declaration.add(tomlkit.comment(f"one bin per {period}{last_of}"))
    declaration.add("edges", toml_array(edges))
    add_null(declaration, column.has_null)
    return declaration


def _declaration(column: ColumnProfile) -> Table:
    if column.kind == "dates":
        return _dated_declaration(column)
    declaration = tomlkit.table()
    if column.kind != "numbers":
        values = calendar_names(column.values) or column.values
        if len(values) > _SHORT_LIST:
            declaration.add(tomlkit.comment(f"{len(values)} values: compare them with a public list"))
        declaration.add("values", toml_array(values))
        add_null(declaration, column.has_null)
        return declaration
    assert column.low is not None
    assert column.high is not None
    calendar = calendar_values(column.name, column.low, column.high) if column.is_whole else None
    if calendar is not None:
        declaration.add("values", toml_array(calendar))
        add_null(declaration, column.has_null)
        return declaration
    is_flag = column.is_whole and {column.low, column.high} <= {0.0, 1.0}
    if is_flag or _has_few_numbers(column):
        _add_categories(declaration, column, [0, 1] if is_flag else [int(value) for value in column.values])
        return declaration
    edges = drafted_edges(column.low, column.high, column.is_whole, column.quantiles)
    low, high = _bounds(column, edges)
    declaration.add("edges", toml_array([number_item(edge) for edge in edges]))
    add_null(declaration, column.has_null)
    declaration.add("bounds", tomlkit.item([number_item(low), number_item(high)]))
    if column.quantiles and 3 * (column.quantiles[-2] - column.quantiles[1]) < high - low:
        usual = f"{column.quantiles[1]:.6g} to {column.quantiles[-2]:.6g}"
        declaration.add(tomlkit.comment(f"99.8% lie within {usual}: narrower bounds mean less noise"))
    if column.is_whole and max(abs(low), abs(high)) <= LARGEST_UNITS:
        declaration.add("step", tomlkit.item(1).comment(EXACT_SUMS))
    return declaration


def _has_few_numbers(column: ColumnProfile) -> bool:
    """Whether whole numbers are so few, and repeat so often, that each is a category."""
    is_few = column.is_whole and 0 < len(column.values) <= _FEW_NUMBERS
    return is_few and column.filled >= 5 * column.distinct and max(map(abs, column.values)) <= LARGEST_UNITS


def _add_categories(declaration: Table, column: ColumnProfile, values: Sequence[int]) -> None:
    """Declares whole numbers for grouping and, if there are several, for averages too."""
    declaration.add("values", toml_array(values))
    add_null(declaration, column.has_null)
    if len(values) > 1:
        bounds = tomlkit.item([values[0], values[-1]])
        is_flag = list(values) == [0, 1]
        use = "to average it: the share of rows with 1" if is_flag else _MAY_BE_CODES
        declaration.add("bounds", bounds.comment(use))
        declaration.add("step", tomlkit.item(1).comment(EXACT_SUMS))


def _bounds(column: ColumnProfile, edges: Sequence[float]) -> tuple[float, float]:
    """Round bounds, no wider than the edges require: a number that starts at 0 keeps 0."""
    assert column.low is not None
    low = edges[1] if column.low == edges[1] and len(edges) > 2 else edges[0]
    return 0.0 if column.low == 0 else low, edges[-1]


def add_null(declaration: Table, has_null: bool) -> None:
    """Declares NULL as a value, if the column has it."""
    if has_null:
        declaration.add("null", tomlkit.item(True).comment("NULL is a group of its own"))


def toml_array(items: Sequence[object]) -> Array:
    """An array on one line if it fits, otherwise on several lines, each as full as possible."""
    array = tomlkit.item(list(items))
    if len(array.as_string()) <= _LINE_LENGTH:
        return array
    lines = [""]
    for literal in (f"{tomlkit.item(part).as_string()}," for part in items):
        if lines[-1] and len(lines[-1]) + len(literal) >= _LINE_LENGTH:
            lines.append("")
        lines[-1] += f" {literal}" if lines[-1] else f"    {literal}"
    parsed = tomlkit.value("[\n{}\n]".format("\n".join(lines)))
    assert isinstance(parsed, Array)
    return parsed


def number_item(value: float) -> int | float:
    """A whole number as an int, which TOML writes without a fraction.

    >>> number_item(10.0), number_item(0.25), number_item(1e300)
    (10, 0.25, 1e+300)
    """
    value = float(value)
    return int(value) if value == int(value) and abs(value) < 2**53 else value


def table_name(source: str | list[str]) -> str:
    """The file's name as an SQL name; for several files, the words that all their names begin with."""
    if isinstance(source, list):
        words = zip(*(table_name(path).split("_") for path in source), strict=False)
        return "_".join(same[0] for same in takewhile(lambda same: len(set(same)) == 1, words)) or "data"
    name = source.rpartition("::")[2] if "::" in source else Path(source).name.split(".")[0]
    stem = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return stem if stem[:1].isalpha() else f"data_{stem}".rstrip("_")


def _can_be_queried(schema: Schema) -> bool:
    from dpxplain.sql.parse import parse

    try:
        parse(f"SELECT COUNT(*) FROM {schema.table.name}", schema)
    except QueryRefused:
        return False
    return True


def _loaded_schema(text: str) -> Schema:
    """The draft as a schema. If it does not load, that is a bug, and the error quotes no value."""
    with suppress(tomllib.TOMLDecodeError, SchemaError):
        return Schema.load(tomllib.loads(text))
    raise InternalError("The drafted schema does not load.")


# -- Edges, bounds and calendar values ---------------------------------------------------------------------
#
# Round numbers, whole months, and bins that each hold some rows.

FEW_BINS = 10
_UNEVEN, _THIN, _ENOUGH = 0.35, 0.0025, 0.02  # limits on the share of the rows in one bin
_FEW_VALUES = 20  # with fewer different values, bins of equal width stay, even empty ones
_MOST_YEARS = 60
# The first and last number that a column with this name has, by public knowledge.
_CALENDAR = {
    r"(.*_)?(month|mon|mth)(_?(of_?year|no|nr|num|number))?": [(1, 12)],
    r"(.*_)?(day|dom|mday)(_?of_?month)?": [(1, 31)],
    r"(.*_)?(hour|hr|hh)(_?of_?day)?": [(0, 23), (0, 24)],
    r"(.*_)?(minute|min|mi)": [(0, 59)],
    r"(.*_)?(second|sec)": [(0, 59), (0, 60)],
    r"(.*_)?(weekday|dow|wday|day_?of_?week)": [(0, 6), (1, 7)],
    r"(.*_)?(quarter|qtr)": [(1, 4)],
    r"(.*_)?(week|isoweek|week_?of_?year)": [(1, 53), (0, 53)],
}
_YEAR = re.compile(r"(.*_)?(year|yr|yyyy)", re.IGNORECASE)
_CALENDAR_NAMES = (
    list(calendar.day_name),
    list(calendar.day_abbr),
    [calendar.month_name[month] for month in range(1, 13)],
    [calendar.month_abbr[month] for month in range(1, 13)],
)


def calendar_values(name: str, low: float, high: float) -> list[int] | None:
    """All values of the part of the calendar in the column's name, if the column's numbers fit it.

    >>> calendar_values("hour", 5, 23) == list(range(24)), calendar_values("hour", 5, 100)
    (True, None)
    """
    if _YEAR.fullmatch(name) and low >= 1500 and high <= 2200 and high - low < _MOST_YEARS:
        return list(range(int(low), int(high) + 1))
    for pattern, ranges in _CALENDAR.items():
        if re.fullmatch(pattern, name, re.IGNORECASE):
            return next((list(range(a, b + 1)) for a, b in ranges if a <= low and high <= b), None)
    return None


def calendar_names(values: Sequence[object]) -> list[str] | None:
    """All weekdays or months in their order, if the values are some of them.

    >>> calendar_names(["Fri", "Mon"])
    ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']
    """
    if len(values) < 2:
        return None
    for names in _CALENDAR_NAMES:
        for form in (str, str.lower, str.upper):
            listed = [form(name) for name in names]
            if set(values) <= set(listed):
                return listed
    return None


def drafted_edges(low: float, high: float, is_whole: bool, quantiles: Sequence[float]) -> list[float]:
    """Round edges that cover the whole range: of equal width, or closer together where most rows are."""
    edges = round_edges(low, high, is_whole)
    if low == 0 and len(edges) > 2 and is_whole:
        edges[:2] = [-1.0]  # zero joins the first bin, because nobody would write (-10, 0] for it
    if len(set(quantiles)) <= _FEW_VALUES:
        return edges
    even = _without_thin(edges, quantiles)
    uneven = _without_thin(_uneven_edges(low, high, quantiles) or edges, quantiles)
    largest = max(_shares(even, quantiles))
    return uneven if largest > max(_UNEVEN, max(_shares(uneven, quantiles))) else even


def round_edges(low: float, high: float, is_whole: bool) -> list[float]:
    """Edges of about ten bins at round numbers that cover the whole range. The lowest edge is below `low`,
    because bins exclude their lower edge.

    >>> round_edges(17, 90, is_whole=True)
    [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0]
    >>> round_edges(0.0, 0.37, is_whole=False)
    [-0.05, 0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4]
    """
    spread, size = high - low, max(abs(low), abs(high))
    if spread <= 1e-9 * size:  # (nearly) one value only: a single bin from about zero
        width = _round_up(size or 1.0)
    else:
        width = _round_up(max(spread / FEW_BINS, 1.0 if is_whole else 0.0))
    first = math.ceil(low / width) - 1
    last = max(math.ceil(high / width), first + 1)
    last += last * width < high  # needed if the quotient was rounded to zero
    # Rounding the product to the digits of the width gives 0.3, not 0.30000000000000004.
    digits = 1 - math.floor(math.log10(width))
    edges = [round(i * width, digits) if digits > 0 else float(i * width) for i in range(first, last + 1)]
    return list(dict.fromkeys(0.0 if edge == 0 else edge for edge in edges))


def _round_up(width: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, ..."""
    power = 10.0 ** math.floor(math.log10(width))
    return float(f"{next(m for m in (1, 2, 5, 10, 20) if m * power >= width * (1 - 1e-9)) * power:.12g}")


def _uneven_edges(low: float, high: float, quantiles: Sequence[float]) -> list[float]:
    """Edges at 0, ±1, ±2, ±5, ±10, ..., so that every bin holds a few percent; empty if this gives one."""
    size = max(abs(low), abs(high))
    powers = range(math.floor(math.log10(size)) - 4, math.floor(math.log10(size)) + 2)
    steps = [float(f"{m * 10.0**p:.12g}") for p in powers for m in (1, 2, 5)]
    marks = sorted([-step for step in steps] + [0.0] + steps)
    start = 0.0 if low < 0 < high else max(mark for mark in marks if mark < low)
    above, below = [start], [start]
    for mark in marks:
        if start < mark < high and min(_shares([above[-1], mark, math.inf], quantiles)) >= _ENOUGH:
            above.append(mark)
    for mark in reversed(marks):
        if low <= mark < start and min(_shares([-math.inf, mark, below[-1]], quantiles)) >= _ENOUGH:
            below.append(mark)
    if start >= low:
        below.append(max(mark for mark in marks if mark < low))
    edges = [*reversed(below[1:]), *above, min(mark for mark in marks if mark >= high)]
    return edges if len(edges) > 2 else []


def _without_thin(edges: list[float], quantiles: Sequence[float]) -> list[float]:
    """The edges, with each bin that has hardly any rows joined to the next bin."""
    kept_edges = [edges[0]]
    for edge in edges[1:-1]:
        if min(_shares([kept_edges[-1], edge, math.inf], quantiles)) >= _THIN:
            kept_edges.append(edge)
    return [*kept_edges, edges[-1]]


def _shares(edges: Sequence[float], quantiles: Sequence[float]) -> list[float]:
    """The share of the rows in each bin, as far as the quantiles tell."""
    return [sum(a < q <= b for q in quantiles) / len(quantiles) for a, b in pairwise(edges)]


_MOST_BINS, _MOST_WEEKS = 24, 9
_DAY = timedelta(days=1)
_MONTHS = {1: "month", 3: "quarter", 12: "year", 60: "5 years", 120: "10 years", 600: "50 years"}
EARLIEST, LATEST = datetime(1000, 1, 1), datetime(9000, 1, 1)
"""Dates outside these have another meaning, such as unknown or for ever."""


def drafted_dates(first: datetime, last: datetime, whole_days: bool) -> tuple[str, list[str]]:
    """The period of a bin, and the edges (as ISO text) of bins that hold all moments from `first` to `last`.

    A bin excludes its lower edge, so for whole days the edge of a month is the last day of the month before.

    >>> drafted_dates(datetime(2013, 1, 1), datetime(2013, 3, 30), whole_days=True)
    ('month', ['2012-12-31', '2013-01-31', '2013-02-28', '2013-03-31'])
    >>> drafted_dates(datetime(2013, 1, 1, 5), datetime(2013, 1, 3, 9), whole_days=False)
    ('day', ['2013-01-01', '2013-01-02', '2013-01-03', '2013-01-04'])
    """
    hour = timedelta(hours=1)
    shift = _DAY if whole_days else timedelta()  # a day belongs to the bin that contains its end
    # The first moment of a period belongs to the bin before. For `first` itself, the lowest edge is lowered.
    after = first + (shift or timedelta(microseconds=1))
    period, starts = _period_starts(after, max(last + shift, after), least=_DAY if whole_days else hour)
    edges = [start - shift for start in starts]
    if edges[0] == first:
        edges[0] -= hour if period == "hour" else _DAY
    is_dated = all(edge.time() == time() for edge in edges)
    return period, [str(edge.date() if is_dated else edge) for edge in edges]


def _period_starts(first: datetime, last: datetime, least: timedelta) -> tuple[str, list[datetime]]:
    """The finest period with few enough bins: its starts from before `first` to `last` or later."""
    midnight = datetime.combine(first.date(), time())
    monday = midnight - first.weekday() * _DAY
    for period, start, step, most in (
        ("hour", midnight, timedelta(hours=1), _MOST_BINS),
        ("day", midnight, _DAY, _MOST_BINS),
        ("week", monday, 7 * _DAY, _MOST_WEEKS),
    ):
        if step >= least and last - first <= most * step:
            begin = start + ((first - start) // step) * step
            begin -= step if begin == first else timedelta()
            return period, [begin + n * step for n in range(-(-(last - begin) // step) + 1)]
    bins = {months: _whole_months(first, last, months) for months in _MONTHS}
    months = next((months for months in bins if len(bins[months]) - 1 <= _MOST_BINS), max(bins))
    return _MONTHS[months], bins[months]


def _whole_months(first: datetime, last: datetime, months: int) -> list[datetime]:
    """The starts of periods of `months` months, from before `first` to `last` or later."""
    begin = _month(first) // months
    begin -= _month_start(begin * months) == first
    end = -(-(_month(last) + (_month_start(_month(last)) < last)) // months)
    return [_month_start(number * months) for number in range(begin, end + 1)]


def _month(moment: date) -> int:
    return moment.year * 12 + moment.month - 1


def _month_start(number: int) -> datetime:
    return datetime(number // 12, number % 12 + 1, 1)


# -- Code book ---------------------------------------------------------------------------------------------
#
# Columns with their values and labels, as CSV or YAML. A code book is public knowledge.

_COLUMN_HEADERS = ("column", "variable", "name", "field")
_VALUE_HEADERS = ("value", "code", "values")
_LABEL_HEADERS = ("label", "description", "meaning", "text")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,15}")
_TRUTH_VALUES = {"true": True, "false": False, "1": True, "0": False}
_LOW_HEADERS, _HIGH_HEADERS = ("low", "min", "minimum", "lower"), ("high", "max", "maximum", "upper")


@dataclass
class CodedColumn:
    """A column as a code book describes it."""

    label: str = ""
    values: dict[str, str] = field(default_factory=dict)  # each value as text, with its label
    bounds: tuple[float, float] | None = None

    @property
    def has_domain(self) -> bool:
        """Whether the code book says which values the column can have."""
        return bool(self.values or self.bounds)

    def typed_values(self, kind: str) -> list[bool | int | str]:
        """The values as a column of this kind holds them: codes such as 01 are numbers only among numbers."""
        texts = list(self.values)
        typed: list[bool | int | str] = [*texts]
        if kind == "true or false" and {text.lower() for text in texts} <= _TRUTH_VALUES.keys():
            typed = [_TRUTH_VALUES[text.lower()] for text in texts]
        elif kind == "numbers" and all(_WHOLE_NUMBER.fullmatch(text) for text in texts):
            typed = [int(text) for text in texts]
        if len(set(typed)) < len(typed):
            repeated = next(text for text, value in zip(texts, typed, strict=True) if typed.count(value) > 1)
            raise BadRequest(
                f"The code book lists {repeated!r} twice for one column.",
                remedy="List each code once. 1 and 01 are the same number.",
            )
        return typed

    def value_labels(self, kind: str) -> dict[str, str]:
        """The labels, by value as a schema writes it."""
        labelled = zip(self.typed_values(kind), self.values.values(), strict=True)
        return {_value_text(value): text for value, text in labelled if text}


Codebook = Mapping[str, CodedColumn]


def read_codebook(path: Path) -> Codebook:
    """The code book of a file that ends in .csv, .tsv, .yaml or .yml."""
    kind = path.suffix.lower()
    if kind not in (".csv", ".tsv", ".yaml", ".yml"):
        raise BadRequest(
            f"{path} is not a code book: its name must end in .csv, .tsv, .yaml or .yml.",
            remedy='Use a CSV file with the columns "column", "value" and "label", or a YAML file.',
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise BadRequest(f"Cannot read {path}.", remedy="Name an existing file in UTF-8.") from None
    book = _from_yaml(text, path) if kind in (".yaml", ".yml") else _from_csv(text, path, kind)
    if not book:
        raise BadRequest(
            f"The code book {path} is empty.", remedy="Add lines with a column, a value and a label."
        )
    return book


def check_names(book: Codebook, names: Collection[str]) -> None:
    """Raises if the code book is for another table."""
    if book and book.keys().isdisjoint(names):
        raise SourceError(
            "None of the columns in the code book is in the data.",
            remedy="Write the column names as in the data, including upper and lower case.",
        )


def _from_csv(text: str, path: Path, kind: str) -> Codebook:
    lines = text.splitlines()
    delimiter = "\t" if kind == ".tsv" else max(",;\t", key=(lines or [""])[0].count)
    reader = csv.DictReader(lines, delimiter=delimiter)
    names = {str(name).strip().lower(): name for name in reader.fieldnames or ()}
    column = _first_name(names, _COLUMN_HEADERS)
    if column is None or not {*_VALUE_HEADERS, *_LABEL_HEADERS, *_LOW_HEADERS} & names.keys():
        raise BadRequest(
            f"The first line of {path} does not name the columns of a code book.",
            remedy='The first line must contain "column", and also "value", "label", or "low" and "high".',
        )
    book: dict[str, CodedColumn] = {}
    for row in reader:

        def cell(accepted_names: tuple[str, ...], row: Mapping[str, Any] = row) -> str:
            return str(row.get(_first_name(names, accepted_names) or "") or "").strip()

        coded = book.setdefault(cell(_COLUMN_HEADERS), CodedColumn())
        if cell(_VALUE_HEADERS):
            coded.values[cell(_VALUE_HEADERS)] = cell(_LABEL_HEADERS)
        else:
            coded.label = cell(_LABEL_HEADERS) or coded.label
        if cell(_LOW_HEADERS) and cell(_HIGH_HEADERS):
            coded.bounds = _finite_bounds(cell(_LOW_HEADERS), cell(_HIGH_HEADERS), path)
    book.pop("", None)
    return book


def _from_yaml(text: str, path: Path) -> Codebook:
    import yaml  # type: ignore[import-untyped]

    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError:
        raise BadRequest(f"{path} is not valid YAML.", remedy="Correct the code book.") from None
    columns = raw.get("columns", raw) if isinstance(raw, dict) else None
    if not isinstance(columns, dict):
        raise BadRequest(
            f"{path} is not a code book: it does not list columns by name.",
            remedy="Write each column's name with its values or label.",
        )
    return {str(name): _coded_column(entry, path) for name, entry in columns.items()}


def _coded_column(entry: Any, path: Path) -> CodedColumn:
    if isinstance(entry, str) or entry is None:
        return CodedColumn(label=entry or "")
    if isinstance(entry, list):
        return CodedColumn(values={_value_text(value): "" for value in entry})
    if not isinstance(entry, dict):
        raise BadRequest(
            f"{path} is not a code book: a column in it has neither values nor a label.",
            remedy="Give each column its values or a label.",
        )
    if not {"values", "label", "bounds", "description"} & entry.keys():
        return CodedColumn(values={_value_text(value): str(label or "") for value, label in entry.items()})
    values, bounds = entry.get("values") or {}, entry.get("bounds")
    listed = values.items() if isinstance(values, dict) else ((value, "") for value in values)
    return CodedColumn(
        label=str(entry.get("label") or entry.get("description") or ""),
        values={_value_text(value): str(label or "") for value, label in listed},
        bounds=_finite_bounds(bounds[0], bounds[1], path)
        if isinstance(bounds, list) and len(bounds) == 2
        else None,
    )


def _finite_bounds(low: Any, high: Any, path: Path) -> tuple[float, float]:
    try:
        bounds = float(low), float(high)
    except (TypeError, ValueError):
        bounds = (1.0, 0.0)
    if not (bounds[0] < bounds[1] and math.isfinite(bounds[1] - bounds[0])):
        raise BadRequest(
            f"{path} has wrong bounds. Bounds are two finite numbers, the lower one first.",
            remedy="Correct the bounds in the code book.",
        )
    return bounds


def _first_name(names: Mapping[str, str], accepted_names: tuple[str, ...]) -> str | None:
    return next((names[name] for name in accepted_names if name in names), None)


def _value_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
