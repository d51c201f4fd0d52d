"""How a source fits its schema: exact figures per column, and warnings with remedies and the TOML to change.
For the curator: NOT private.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict  # pydantic reads the standard one from Python 3.12 on

from dpxplain.model.column import Column, at_position, label, position
from dpxplain.model.display import Displayed, Record, Tabular, public, public_fields
from dpxplain.model.schema import Privacy, Schema
from dpxplain.model.schema_fit import ColumnFigures, NumberFigures, SourceFigures, UnitCandidate
from dpxplain.words.numbers import number

# -- Schema check ------------------------------------------------------------------------------------------

SCHEMA_FIT_NOT_PRIVATE = (
    "NOT PRIVATE: these figures and examples are exact, without noise. They are for the curator only. Do not "
    "share them."
)


@public(
    "ColumnShares",
    "column rows null outside not_numbers clamped_low clamped_high values values_seen",
    description="Shares of all rows, computed from the rows; null where the column declares nothing of that "
    "kind.",
)
@dataclass(frozen=True)
class ColumnShares:
    """Exact shares of all rows; None where the column declares nothing of that kind. NOT private."""

    column: str
    rows: int
    null: float
    outside: float | None
    not_numbers: float | None
    clamped_low: float | None
    clamped_high: float | None
    values: int | None
    values_seen: int | None


class SchemaFit(TypedDict):
    """How the rows fit a schema, as JSON, without the warnings: NOT private."""

    private: Literal[False]
    warning: str
    rows: int
    rows_without_unit: int
    units: int | None
    fits: bool
    figures: list[ColumnShares]


@dataclass(frozen=True)
class SchemaCheck(Displayed, Tabular):
    """The result of a schema check: `warnings` is empty if all is well; `records` has one line per column."""

    schema: Schema
    source: str
    figures: SourceFigures
    warnings: tuple[SchemaWarning, ...]

    @classmethod
    def of(cls, schema: Schema, source: object, figures: SourceFigures) -> SchemaCheck:
        """Makes the check from the figures of a source."""
        return cls(schema, _source_name(source), figures, tuple(_warnings(schema, figures)))

    @property
    def rows(self) -> int:
        """The number of rows read."""
        return self.figures.rows

    @property
    def fits(self) -> bool:
        return not self.warnings

    @property
    def private(self) -> bool:
        return False

    def records(self) -> list[Record]:
        return [
            public_fields(_shares(name, self.schema.columns[name], figures))
            for name, figures in self.figures.columns.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """The whole check as a dict for JSON."""
        fit = SchemaFit(
            private=False,
            warning=SCHEMA_FIT_NOT_PRIVATE,
            rows=self.rows,
            rows_without_unit=self.figures.without_unit,
            units=sum(self.figures.rows_per_unit.values()) or None,
            fits=self.fits,
            figures=self.records(),  # type: ignore[typeddict-item]  # the public fields of each
        )
        return {**fit, "warnings": [public_fields(warning) for warning in self.warnings]}


def _source_name(source: object) -> str:
    if isinstance(source, list | tuple):
        return ", ".join(map(_source_name, source))
    return str(source) if isinstance(source, str | Path) else f"the {type(source).__name__}"


def _shares(name: str, column: Column, figures: ColumnFigures) -> ColumnShares:
    numbers = figures.numbers
    undeclared = figures.codes.get(0, 0) if column.domain is not None else None
    seen_codes = [code for code, rows in figures.codes.items() if code and rows]
    below, above = (numbers.below, numbers.above) if numbers and column.bounds else (None, None)
    return ColumnShares(
        column=name,
        rows=figures.rows,
        null=figures.nulls / figures.rows if figures.rows else 0.0,
        outside=_share(undeclared, figures.rows),
        not_numbers=None if numbers is None else _share(figures.odd, figures.rows),
        clamped_low=_share(below, figures.rows),
        clamped_high=_share(above, figures.rows),
        values=None if column.domain is None else len(column.domain),
        values_seen=None if column.domain is None else len(seen_codes),
    )


def _share(rows: int | None, of: int) -> float | None:
    return None if rows is None else rows / of if of else 0.0


# -- Warnings ----------------------------------------------------------------------------------------------


@public("SchemaWarning", "where kind message remedy toml rows share examples")
@dataclass(frozen=True)
class SchemaWarning:
    """One thing that does not fit. `toml` has the lines to change, if changing the schema helps."""

    where: str  # "columns.origin", "privacy.max_rows"
    kind: str  # a code for programs
    message: str
    remedy: str
    toml: str
    rows: int
    share: float | None  # of all rows
    examples: tuple[str, ...] = ()


def _warnings(schema: Schema, figures: SourceFigures) -> Iterator[SchemaWarning]:
    if not figures.rows:
        yield SchemaWarning(
            "table.source",
            "empty",
            "The source has no rows.",
            "Check that it is the right file.",
            "",
            0,
            None,
        )
        return
    yield from unit_warnings(schema.privacy, figures)
    for name, column in figures.columns.items():
        yield from column_warnings(name, schema.columns[name], column)


# -- Privacy unit ------------------------------------------------------------------------------------------

_SHARE_KEPT = 0.99  # share of the rows that a proposed max_rows keeps


def unit_warnings(privacy: Privacy, figures: SourceFigures) -> Iterator[SchemaWarning]:
    """Warnings about rows that the privacy unit leaves out, or about columns that may have to be the unit."""
    if privacy.unit == "row":
        yield from map(_repeated_key, figures.unit_candidates)
        return
    if figures.without_unit:
        share = figures.without_unit / figures.rows
        yield SchemaWarning(
            "privacy.unit", "no_unit",
            f"{_percent(share)} of the rows ({figures.without_unit:,}) have no {privacy.unit}, so they are "
            "never counted.",
            f'Fill in {privacy.unit} in the source, or set unit = "row" if you promise to protect rows only.',
            "", figures.without_unit, share,
        )  # fmt: skip
    units = figures.rows_per_unit
    above = sum(persons for n, persons in units.items() if n > privacy.max_rows)
    lost = sum((n - privacy.max_rows) * persons for n, persons in units.items() if n > privacy.max_rows)
    if lost:
        yield _truncation(privacy, figures, above, lost)
    elif units and 2 * max(units) <= privacy.max_rows:
        yield SchemaWarning(
            "privacy.max_rows", "loose_max_rows",
            f"max_rows is {privacy.max_rows:,}, but no {privacy.unit} has more than {max(units):,} rows. The "
            f"noise is {number(privacy.max_rows / max(units))} times as large as it needs to be.",
            f"Lower max_rows if public knowledge says how many rows one {privacy.unit} can have.",
            f"[privacy]\nmax_rows = {max(units)}", 0, None,
        )  # fmt: skip


def _repeated_key(candidate: UnitCandidate) -> SchemaWarning:
    column = candidate.column
    return SchemaWarning(
        "privacy.unit", "repeated_key",
        f"The schema protects single rows, but {column} looks like a person's id: about "
        f"{candidate.values:,} values in {candidate.rows:,} rows, up to {candidate.most_rows:,} rows each. A "
        "person with several rows is protected less.",
        f"If {column} tells people apart, make it the privacy unit. If not, ignore this warning.",
        f"[privacy]\nunit = {_literal(column)}\nmax_rows = {candidate.usual_rows}", 0, None,
    )  # fmt: skip


def _truncation(privacy: Privacy, figures: SourceFigures, above: int, lost: int) -> SchemaWarning:
    units = figures.rows_per_unit
    total = sum(n * persons for n, persons in units.items())
    enough = next(
        m for m in sorted(units) if sum(min(n, m) * p for n, p in units.items()) >= _SHARE_KEPT * total
    )
    return SchemaWarning(
        "privacy.max_rows", "truncated",
        f"{above:,} of {sum(units.values()):,} values of {privacy.unit} have more than "
        f"{privacy.max_rows:,} rows. max_rows cuts off {lost:,} of {figures.rows:,} rows "
        f"({_percent(lost / figures.rows)}), so counts and sums come out too small.",
        f"max_rows = {enough:,} keeps {_percent(_SHARE_KEPT)} of the rows, with "
        f"{number(enough / privacy.max_rows)} times the noise. The largest {privacy.unit} has "
        f"{max(units):,} rows.",
        f"[privacy]\nmax_rows = {enough}", lost, lost / figures.rows,
    )  # fmt: skip


# -- Columns -----------------------------------------------------------------------------------------------

_MOST_PROPOSED = 20  # undeclared values in a proposed list


def column_warnings(name: str, column: Column, figures: ColumnFigures) -> Iterator[SchemaWarning]:
    """Warnings about one column, those that change the most numbers first."""
    is_derived = column.expression is not None
    for warning in (_number_warnings if column.is_numeric else _category_warnings)(name, column, figures):
        # The domain of an expression is inferred, not declared, so values that never occur are no mistake.
        if not is_derived or warning.kind != "unseen":
            yield warning
    if column.domain is not None and figures.nulls and None not in column.domain:
        yield (_without_value if is_derived else _undeclared_null)(name, figures)


def _undeclared_null(name: str, figures: ColumnFigures) -> SchemaWarning:
    return _warning(
        name, "null", figures.nulls, figures,
        f"{_rows(figures.nulls, figures)} are NULL, which is not declared, so they are in no group.",
        "If you want to see them as a group of their own, declare NULL.",
        _toml(name, "null = true"),
    )  # fmt: skip


def _without_value(name: str, figures: ColumnFigures) -> SchemaWarning:
    return _warning(
        name, "null", figures.nulls, figures,
        f"{_rows(figures.nulls, figures)} get no value, so they are in no group. In these rows, a column in "
        "the expression is NULL or not in its list, or the result cannot be computed (a division by zero, a "
        "text that is not a number).",
        "Write COALESCE(expression, a value), or correct the columns in the expression.",
        "",
    )  # fmt: skip


def _category_warnings(name: str, column: Column, figures: ColumnFigures) -> Iterator[SchemaWarning]:
    declared = [value for value in column.domain or () if value is not None]
    labels = [_text(value) for value in declared]
    unseen = [label for code, label in enumerate(labels, 1) if not figures.codes.get(code)]
    texts = [text for text, _ in figures.odd_texts]
    misses = near_misses(texts, labels)
    if figures.odd:
        warning = _undeclared(name, column, figures, misses, unseen)
        if figures.odd == figures.filled:
            warning = replace(warning, kind="never_fits", message=f"No row fits. {warning.message}")
        yield warning
    forgotten = [label for label in unseen if label not in {miss.declared for miss in misses}]
    if forgotten and not (_is_range(declared) and len(forgotten) < len(declared)):
        seen_values = [value for value in declared if _text(value) not in forgotten]
        yield _warning(
            name, "unseen", 0, figures,
            f"No row has {_listed(forgotten)}, which {'is' if len(forgotten) == 1 else 'are'} in the list.",
            "Delete values that are mistakes. Keep values that could occur: their counts will be about 0.",
            _toml(name, f"values = {_array(seen_values)}") if seen_values else "",
            forgotten,
        )  # fmt: skip


def _undeclared(
    name: str, column: Column, figures: ColumnFigures, misses: Sequence[NearMiss], unseen: Sequence[str]
) -> SchemaWarning:
    texts = [text for text, _ in figures.odd_texts]
    message = f"{_rows(figures.odd, figures)} have a value that is not in the list: {_listed(texts)}."
    remedy = "Add the values that are public knowledge to the list. Rows with other values are in no group."
    proposed = _proposed(column, texts, misses, unseen)
    if misses and proposed == [value for value in column.values or () if value is not None]:
        # The schema's spelling is right, so the only help in the schema is to declare each spelling.
        proposed += [miss.text for miss in misses[:_MOST_PROPOSED]]
    if misses:
        listed = "; ".join(f'"{m.text}" for "{m.declared}" ({m.difference})' for m in misses[:_FEW])
        message += f" They may be misspelt: {listed}."
        remedy = (
            "Correct the spelling in the source or in the schema, and add other values that are public "
            "knowledge to the list."
        )
        if len(misses) == len(texts) and not {m.declared for m in misses} <= set(unseen):
            remedy = "Correct the spelling in the source, or add each spelling to the list."
    return _warning(
        name, "near_misses" if misses else "undeclared", figures.odd, figures, message, remedy,
        _toml(name, f"values = {_array(proposed)}"), texts[:_MOST_PROPOSED],
    )  # fmt: skip


def _proposed(
    column: Column, texts: Sequence[str], misses: Sequence[NearMiss], unseen: Sequence[str]
) -> list[object]:
    """The declared values, with misspelt ones replaced, and the most frequent undeclared values."""
    spelling = {miss.declared: miss.text for miss in reversed(misses) if miss.declared in unseen}
    declared = [value for value in column.values or () if value is not None]
    values: list[object] = [spelling.get(_text(value), value) for value in declared]
    misspelt = {miss.text for miss in misses}
    fresh = [text for text in texts[:_MOST_PROPOSED] if text not in misspelt]
    if misses and all(_is_whole(text) for text in (*values, *texts)):
        return [*sorted({int(float(str(v))) for v in (*declared, *texts[:_MOST_PROPOSED])})]
    is_whole = all(isinstance(value, int) and not isinstance(value, bool) for value in declared)
    if is_whole and not all(re.fullmatch(r"-?\d{1,15}", str(value)) for value in (*values, *fresh)):
        return [str(value) for value in (*values, *fresh)]
    if any(isinstance(value, bool) for value in declared):
        return [str(text) for text in fresh] or values
    return [int(str(value)) if is_whole else value for value in (*values, *fresh)]


# -- Numbers and dates -------------------------------------------------------------------------------------

_THIN, _WIDE = 0.001, 0.95  # shares of the filled rows in one bin
_FEW_CLAMPED = 0.001
_BOOLEAN_WORDS = {"true", "false", "t", "f", "yes", "no", "y", "n"}


def _number_warnings(name: str, column: Column, figures: ColumnFigures) -> Iterator[SchemaWarning]:
    assert figures.numbers is not None
    line = DateLine() if column.is_temporal else NumberLine()
    if figures.odd:
        yield _not_dates(name, figures) if column.is_temporal else _not_numbers(name, figures)
    if column.bounds is not None:
        low, high = map(line.position, column.bounds)
        yield from _clamped(name, (low, high), figures, figures.numbers, line)
    if column.edges is not None:
        edges = [line.position(edge) for edge in column.edges]
        yield from _outside_edges(name, edges, figures, figures.numbers, line)
        yield from _bins(name, column, edges, figures, line)


def _not_dates(name: str, figures: ColumnFigures) -> SchemaWarning:
    texts = [text for text, _ in figures.odd_texts]
    return _warning(
        name, "not_dates", figures.odd, figures,
        f"{_rows(figures.odd, figures)} contain text that is not a date ({_listed(texts)}), so they are in "
        "no group.",
        'Write ISO dates in the source, such as "2025-01-31" or "2025-01-31 18:30:00".',
        "", texts[:_MOST_PROPOSED],
    )  # fmt: skip


def _not_numbers(name: str, figures: ColumnFigures) -> SchemaWarning:
    texts = [text for text, _ in figures.odd_texts]
    if {text.strip().lower() for text in texts} <= _BOOLEAN_WORDS:
        return _warning(
            name, "text_boolean", figures.odd, figures,
            f"{_rows(figures.odd, figures)} contain text instead of numbers ({_listed(texts)}). They are "
            "left out of sums, averages and bins.",
            "Declare the column as true and false, or write 1 and 0 in the source.",
            _toml(name, "values = [true, false]"), texts,
        )  # fmt: skip
    return _warning(
        name, "not_numbers", figures.odd, figures,
        f"{_rows(figures.odd, figures)} contain text that is not a number ({_listed(texts)}). They are left "
        "out of sums, averages and bins.",
        "Write numbers in the source, with a decimal point and without units. Or list the column's values.",
        _toml(name, f"values = {_array(texts[:_MOST_PROPOSED])}") if figures.odd == figures.filled else "",
        texts[:_MOST_PROPOSED],
    )  # fmt: skip


def _clamped(
    name: str, bounds: tuple[float, float], figures: ColumnFigures, numbers: NumberFigures, line: NumberLine
) -> Iterator[SchemaWarning]:
    moved = abs((numbers.clamped_mean or 0.0) - (numbers.mean or 0.0))
    matters = moved > _FEW_CLAMPED * (bounds[1] - bounds[0])
    low = min(bounds[0], bounds[0] if numbers.low is None else line.round_out(numbers.low, -1))
    high = max(bounds[1], bounds[1] if numbers.high is None else line.round_out(numbers.high, 1))
    for rows, side, bound, reach in (
        (numbers.below, "below", bounds[0], numbers.low),
        (numbers.above, "above", bounds[1], numbers.high),
    ):
        if not rows or (rows <= _FEW_CLAMPED * figures.rows and not matters):
            continue
        mean = ""
        if numbers.mean is not None and numbers.clamped_mean is not None and not isinstance(line, DateLine):
            mean = f" This moves the mean from {number(numbers.mean)} to {number(numbers.clamped_mean)}."
        furthest = "" if reach is None else f" ({'down' if side == 'below' else 'up'} to {line.text(reach)})"
        end = line.text(bound)
        yield _warning(
            name, f"clamped_{side}", rows, figures,
            f"{_rows(rows, figures)} are {side} {end}{furthest} and count as {end}.{mean}",
            "Widen the bounds as far as public knowledge allows. Wider bounds mean more noise.",
            _toml(name, f"bounds = {_array([line.literal(low), line.literal(high)])}"),
        )  # fmt: skip


def _outside_edges(
    name: str, edges: Sequence[float], figures: ColumnFigures, numbers: NumberFigures, line: NumberLine
) -> Iterator[SchemaWarning]:
    first, last = line.text(edges[0]), line.text(edges[-1])
    if numbers.under_edges:
        exactly = numbers.at_lowest_edge
        where = (
            f"equal the lowest edge, {first}, which lies outside the first bin"
            if exactly == numbers.under_edges
            else f"are at or below the lowest edge, {first}"
        )
        lowest = edges[0] - line.step(edges[0], edges[1])
        if exactly < numbers.under_edges and numbers.low is not None:
            lowest = min(lowest, line.round_out(numbers.low, -1))
            if lowest == numbers.low:  # a value at the lowest edge is in no bin
                lowest -= line.step(edges[0], edges[1])
        yield _warning(
            name, "below_edges", numbers.under_edges, figures,
            f"{_rows(numbers.under_edges, figures)} {where}, so they are in no group.",
            "Add a lower edge.",
            _toml(name, f"edges = {_array([line.literal(e) for e in (lowest, *edges)])}"),
        )  # fmt: skip
    if numbers.over_edges:
        highest = max(edges[-1] + (edges[-1] - edges[-2]), line.round_out(numbers.high or 0.0, 1))
        yield _warning(
            name, "above_edges", numbers.over_edges, figures,
            f"{_rows(numbers.over_edges, figures)} are above the highest edge, {last}, so they are in no "
            "group.",
            "Add a higher edge.",
            _toml(name, f"edges = {_array([line.literal(e) for e in (*edges, highest)])}"),
        )  # fmt: skip


def _bins(
    name: str, column: Column, edges: Sequence[float], figures: ColumnFigures, line: NumberLine
) -> Iterator[SchemaWarning]:
    bins = [value for value in column.domain or () if value is not None]
    rows = [figures.codes.get(code, 0) for code in range(1, len(bins) + 1)]
    filled = sum(rows)
    if not filled or len(bins) < 2:
        return
    thin = [label(value) for value, n in zip(bins, rows, strict=True) if n < _THIN * filled]
    if thin:
        merged = _without_thin(edges, rows, _THIN * filled)
        together = sum(n for n in rows if n < _THIN * filled)
        yield _warning(
            name, "thin_bins", together, figures,
            f"{len(thin)} of {len(bins)} bins are empty or almost empty, with {together:,} rows together: "
            f"{_listed(thin, quoted=False)}.",
            "Merge them with their neighbours, because their counts are mostly noise.",
            _toml(name, f"edges = {_array([line.literal(e) for e in merged])}") if len(merged) > 2 else "",
            thin,
        )  # fmt: skip
    largest = max(range(len(rows)), key=rows.__getitem__)
    if rows[largest] > _WIDE * filled:
        yield _warning(
            name, "wide_bin", rows[largest], figures,
            f"The bin {label(bins[largest])} contains {_percent(rows[largest] / filled)} of the binned rows, "
            f"so grouping by {name} says little.",
            "Add edges inside this bin.",
            "", [label(bins[largest])],
        )  # fmt: skip


def _without_thin(edges: Sequence[float], rows: Sequence[int], least: float) -> list[float]:
    """The edges after joining each thin bin to the next one, and a thin last bin to the one before."""
    kept_edges, rows_held = [edges[0]], 0
    for edge, n in zip(edges[1:], rows, strict=True):
        rows_held += n
        if rows_held >= least:
            kept_edges.append(edge)
            rows_held = 0
    if kept_edges[-1] != edges[-1]:
        kept_edges[-1:] = [edges[-1]] if len(kept_edges) > 1 else [edges[0], edges[-1]]
    return kept_edges


# -- Texts -------------------------------------------------------------------------------------------------

_FEW = 3  # values named in a sentence


def _warning(
    name: str,
    kind: str,
    rows: int,
    figures: ColumnFigures,
    message: str,
    remedy: str,
    toml: str,
    examples: Sequence[str] = (),
) -> SchemaWarning:
    share = rows / figures.rows if figures.rows else None
    return SchemaWarning(f"columns.{name}", kind, message, remedy, toml, rows, share, tuple(examples))


def _rows(rows: int, figures: ColumnFigures) -> str:
    return f"{_percent(rows / figures.rows)} of the rows ({rows:,})"


def _percent(share: float) -> str:
    """
    >>> _percent(0.5), _percent(0.00004), _percent(0.9999), _percent(0.0312)
    ('50%', '0.004%', '99.99%', '3.1%')
    """
    percent = share * 100
    digits = f"{percent:.2g}" if percent < 10 else f"{percent:.4g}" if percent > 99 else f"{percent:.3g}"
    return f"{float(digits):.12g}%"


def _listed(texts: Sequence[str], quoted: bool = True) -> str:
    listed = ", ".join(f'"{text}"' if quoted else text for text in texts[:_FEW])
    return listed + (f" and {len(texts) - _FEW} more" if len(texts) > _FEW else "")


def _is_range(values: Sequence[object]) -> bool:
    """Whether these are whole numbers without a gap, such as months: one without rows is no mistake."""
    numbers = sorted(v for v in values if isinstance(v, int) and not isinstance(v, bool))
    return len(numbers) == len(values) > 1 and numbers[-1] - numbers[0] == len(numbers) - 1


def _is_whole(value: object) -> bool:
    return re.fullmatch(r"-?\d{1,15}(\.0*)?", str(value)) is not None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _toml(name: str, line: str) -> str:
    """A declaration's lines in the schema file."""
    return f"[columns.{toml_key(name)}]\n{line}"


def toml_key(name: str) -> str:
    """A column's name as a TOML key, in quotes if it needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _literal(name)


def _array(values: Sequence[object]) -> str:
    return f"[{', '.join(map(_literal, values))}]"


def _literal(value: object) -> str:
    """A TOML literal. JSON strings are valid in TOML, except for one control character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


# -- Near misses -------------------------------------------------------------------------------------------
#
# The declared value that an undeclared one resembles.

_LONG_ENOUGH = 4  # codes of three letters differ by one letter on purpose


@dataclass(frozen=True)
class NearMiss:
    """An undeclared value beside the declared one that it resembles."""

    text: str
    declared: str
    difference: str


def near_misses(texts: Iterable[str], declared: Iterable[str]) -> list[NearMiss]:
    """The texts that resemble a declared value, with the likeliest reason.

    >>> misses = near_misses(["Ewr", "7.0", "Bosten"], ["EWR", "7", "Boston"])
    >>> [(miss.declared, miss.difference) for miss in misses]
    [('EWR', 'upper and lower case'), ('7', 'how the number is written'), ('Boston', 'one letter')]
    """
    values = list(declared)
    plain = _by_form(values, _plain)
    numbers = _by_form(values, _number)
    misses = []
    for text in texts:
        declared_value = plain.get(_plain(text)) or numbers.get(_number(text) or "")
        if declared_value is not None:
            misses.append(NearMiss(text, declared_value, _difference(text, declared_value)))
        else:
            typo = next((value for value in values if _is_typo(_plain(text), _plain(value))), None)
            if typo is not None:
                misses.append(NearMiss(text, typo, "one letter"))
    return misses


def _by_form(values: list[str], form: Callable[[str], str | None]) -> dict[str, str]:
    """Maps each form to the first value that has it. Values without a form are dropped."""
    return {key: value for value in reversed(values) if (key := form(value))}


def _plain(text: str) -> str:
    """The text without case and accents, with hyphens and underscores as spaces."""
    letters = unicodedata.normalize("NFKD", text).casefold()
    base_letters = "".join(c for c in letters if not unicodedata.combining(c))
    return " ".join(base_letters.replace("_", " ").replace("-", " ").split())


def _number(text: str) -> str | None:
    try:
        return repr(float(text))
    except ValueError:
        return None


def _difference(text: str, declared: str) -> str:
    if text.strip() == declared.strip():
        return "spaces around it"
    if text.strip().casefold() == declared.strip().casefold():
        return "upper and lower case"
    if _number(text) is not None and _number(text) == _number(declared):
        return "how the number is written"
    folded = unicodedata.normalize("NFKD", text).casefold()
    if any(map(unicodedata.combining, folded)) != any(
        map(unicodedata.combining, unicodedata.normalize("NFKD", declared))
    ):
        return "accents"
    return "spaces, hyphens or underscores"


def _is_typo(text: str, value: str) -> bool:
    """Whether one letter was changed, added, left out, or swapped with the next."""
    if min(len(text), len(value)) < _LONG_ENOUGH or abs(len(text) - len(value)) > 1:
        return False
    if text.replace(".", "").isdigit():
        return False
    start = 0
    while start < min(len(text), len(value)) and text[start] == value[start]:
        start += 1
    a, b = text[start:], value[start:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[1::-1] == b[:2] and a[2:] == b[2:])


# -- Number lines ------------------------------------------------------------------------------------------
#
# Numbers and dates are both placed on a line, where bounds are rounded outwards.

_DAY = 86_400_000_000.0  # microseconds


class NumberLine:
    """Numbers as they are."""

    def position(self, declared: Any) -> float:
        """The place of a declared edge or bound on the line."""
        return float(declared)

    def text(self, place: float) -> str:
        return f"{place:.6g}"

    def literal(self, place: float) -> int | float | str:
        """The value to write in TOML."""
        return int(place) if place == int(place) and abs(place) < 2**53 else float(f"{place:.12g}")

    def step(self, first: float, second: float) -> float:
        """The distance to a new edge below the lowest one, so that a value at the lowest edge is in a bin."""
        return min(1.0, second - first)

    def round_out(self, place: float, direction: int) -> float:
        """The next number with two significant digits: upwards for a positive direction, else downwards.

        >>> line = NumberLine()
        >>> line.round_out(1301, 1), line.round_out(-43, -1), line.round_out(0.137, 1), line.round_out(17, -1)
        (1400.0, -43.0, 0.14, 17.0)
        """
        if place == 0:
            return 0.0
        unit = 10.0 ** (math.floor(math.log10(abs(place))) - 1)
        steps = place / unit
        rounded = (math.ceil if direction > 0 else math.floor)(round(steps, 9)) * unit
        return float(f"{rounded:.12g}")


class DateLine(NumberLine):
    """Dates and timestamps as microseconds since 1970, rounded to days.

    >>> line = DateLine()
    >>> line.text(86_400_000_000.0), line.literal(3_600_000_000.0), line.round_out(3_600_000_000.0, 1) == _DAY
    ('1970-01-02', '1970-01-01 01:00:00', True)
    """

    def position(self, declared: Any) -> float:
        return position(declared)

    def text(self, place: float) -> str:
        return str(at_position(place))

    def literal(self, place: float) -> str:
        return self.text(place)

    def step(self, first: float, second: float) -> float:
        return _DAY

    def round_out(self, place: float, direction: int) -> float:
        return (math.ceil if direction > 0 else math.floor)(place / _DAY) * _DAY
