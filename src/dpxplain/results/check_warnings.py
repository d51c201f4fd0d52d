"""Turns the figures of a schema check into warnings, each with a remedy and the TOML to change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dpxplain.model.schema import Column, Privacy, label
from dpxplain.model.schema_fit import ColumnFigures, NumberFigures, SourceFigures
from dpxplain.results.check_suggestions import DateLine, NearMiss, NumberLine, near_misses
from dpxplain.results.formats import number

_SEVERAL = 3  # values named in a sentence
_TO_DECLARE = 20  # undeclared values that a proposed list takes in
_THIN, _WIDE = 0.001, 0.95  # shares of the filled rows in one bin
_FEW_CLAMPED = 0.001
_BOOLEAN_WORDS = {"true", "false", "t", "f", "yes", "no", "y", "n"}
_OF_DECLARED = {"unseen"}
_KEPT = 0.99  # share of the rows that a proposed max_rows keeps


@dataclass(frozen=True)
class SchemaWarning:
    """One thing that does not fit. `toml` has the lines to change, where a change of the schema helps."""

    where: str  # "columns.origin", "privacy.max_rows"
    kind: str  # what programs go by
    message: str
    remedy: str
    toml: str
    rows: int
    share: float | None  # of all rows
    examples: tuple[str, ...] = ()


def column_warnings(name: str, column: Column, figures: ColumnFigures) -> Iterator[SchemaWarning]:
    """Everything of one column that does not fit, what moves the most numbers first."""
    warnings = (_number_warnings if column.is_numeric else _category_warnings)(name, column, figures)
    if column.expression is not None:
        # Nobody has declared an inferred domain, so that values never seen are no mistake.
        yield from (warning for warning in warnings if warning.kind not in _OF_DECLARED)
        if column.domain is not None and figures.nulls and None not in column.domain:
            yield _without_value(name, figures)
        return
    yield from warnings
    if column.domain is not None and figures.nulls and None not in column.domain:
        yield _warning(
            name, "null", figures.nulls, figures,
            f"{_of(figures.nulls, figures)} are NULL, which is not declared: left out of every group.",
            "Declare NULL as a value of its own.",
            _toml(name, "null = true"),
        )  # fmt: skip


def _without_value(name: str, figures: ColumnFigures) -> SchemaWarning:
    return _warning(
        name, "null", figures.nulls, figures,
        f"{_of(figures.nulls, figures)} get no value: what it is computed from is NULL or undeclared there, "
        "or it cannot be computed (a division by zero, a text that is no number): left out of every group.",
        "Write COALESCE(..., a value) around it, or mend the columns that it is computed from.",
        "",
    )  # fmt: skip


def unit_warnings(privacy: Privacy, figures: SourceFigures) -> Iterator[SchemaWarning]:
    """What the privacy unit leaves out."""
    if privacy.unit == "row":
        return
    if figures.without_unit:
        share = figures.without_unit / figures.rows
        yield SchemaWarning(
            "privacy.unit", "no_unit",
            f"{_percent(share)} of the rows ({figures.without_unit:,}) have no {privacy.unit}: left out.",
            "Fill it in the source, or protect rows instead of persons if that is what you promise.",
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
            f"No {privacy.unit} has more than {max(units):,} rows, but max_rows is {privacy.max_rows:,}: "
            f"noise is {number(privacy.max_rows / max(units))} times what {max(units):,} would need.",
            "Lower max_rows, if public knowledge says how many rows one can have.",
            f"[privacy]\nmax_rows = {max(units)}", 0, None,
        )  # fmt: skip


def _truncation(privacy: Privacy, figures: SourceFigures, above: int, lost: int) -> SchemaWarning:
    units = figures.rows_per_unit
    total = sum(n * persons for n, persons in units.items())
    enough = next(m for m in sorted(units) if sum(min(n, m) * p for n, p in units.items()) >= _KEPT * total)
    return SchemaWarning(
        "privacy.max_rows", "truncated",
        f"{above:,} of {sum(units.values()):,} {privacy.unit} have more than {privacy.max_rows:,} rows; "
        f"{lost:,} of {figures.rows:,} rows ({_percent(lost / figures.rows)}) are left out of every "
        "answer, so counts and sums come out too small.",
        f"max_rows = {enough:,} keeps {_percent(_KEPT)} of the rows, with "
        f"{number(enough / privacy.max_rows)} times the noise; the largest has {max(units):,} rows.",
        f"[privacy]\nmax_rows = {enough}", lost, lost / figures.rows,
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
            f"{_several(forgotten)} {'is' if len(forgotten) == 1 else 'are'} declared and in no row.",
            "Harmless if a row could have it: its count will be about 0. Take it out if it is a mistake.",
            _toml(name, f"values = {_array(seen_values)}") if seen_values else "",
            forgotten,
        )  # fmt: skip


def _undeclared(
    name: str, column: Column, figures: ColumnFigures, misses: Sequence[NearMiss], unseen: Sequence[str]
) -> SchemaWarning:
    texts = [text for text, _ in figures.odd_texts]
    message = f"{_of(figures.odd, figures)} hold an undeclared value and are left out: {_several(texts)}."
    remedy = "Declare those that are public knowledge."
    proposed = _proposed(column, texts, misses, unseen)
    if misses and proposed == [value for value in column.values or () if value is not None]:
        # The schema spells them right: what it can do beside the source is to declare each spelling.
        proposed += [miss.text for miss in misses[:_TO_DECLARE]]
    if misses:
        alike = "; ".join(f'"{m.text}" for "{m.declared}" ({m.difference})' for m in misses[:_SEVERAL])
        message += f" Near misses: {alike}."
        remedy = "Mend the spelling in the source or in the schema; declare others that are public knowledge."
        if len(misses) == len(texts) and not {m.declared for m in misses} <= set(unseen):
            remedy = "Mend the spelling in the source, or declare each as a value of its own."
    return _warning(
        name, "near_misses" if misses else "undeclared", figures.odd, figures, message, remedy,
        _toml(name, f"values = {_array(proposed)}"), texts[:_TO_DECLARE],
    )  # fmt: skip


def _proposed(
    column: Column, texts: Sequence[str], misses: Sequence[NearMiss], unseen: Sequence[str]
) -> list[object]:
    """The declared values, a misspelt one replaced, and the most frequent undeclared ones."""
    spelling = {miss.declared: miss.text for miss in reversed(misses) if miss.declared in unseen}
    declared = [value for value in column.values or () if value is not None]
    values: list[object] = [spelling.get(_text(value), value) for value in declared]
    alike = {miss.text for miss in misses}
    fresh = [text for text in texts[:_TO_DECLARE] if text not in alike]
    if misses and all(_is_whole(text) for text in (*values, *texts)):
        return [*sorted({int(float(str(v))) for v in (*declared, *texts[:_TO_DECLARE])})]
    whole = all(isinstance(value, int) and not isinstance(value, bool) for value in declared)
    if whole and not all(re.fullmatch(r"-?\d{1,15}", str(value)) for value in (*values, *fresh)):
        return [str(value) for value in (*values, *fresh)]
    if any(isinstance(value, bool) for value in declared):
        return [str(text) for text in fresh] or values
    return [int(str(value)) if whole else value for value in (*values, *fresh)]


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
        f"{_of(figures.odd, figures)} hold text that is no date ({_several(texts)}): left out.",
        'Write ISO dates in the source, such as "2025-01-31" or "2025-01-31 18:30:00".',
        "", texts[:_TO_DECLARE],
    )  # fmt: skip


def _not_numbers(name: str, figures: ColumnFigures) -> SchemaWarning:
    texts = [text for text, _ in figures.odd_texts]
    if {text.strip().lower() for text in texts} <= _BOOLEAN_WORDS:
        return _warning(
            name, "text_boolean", figures.odd, figures,
            f"{_of(figures.odd, figures)} hold {_several(texts)} as text, which is no number: left out of "
            "sums, averages and bins.",
            "Declare it as true and false, or write 1 and 0 in the source.",
            _toml(name, "values = [true, false]"), texts,
        )  # fmt: skip
    return _warning(
        name, "not_numbers", figures.odd, figures,
        f"{_of(figures.odd, figures)} hold text that is no number ({_several(texts)}): left out of "
        "sums, averages and bins.",
        "Write numbers in the source, with a point and without units; or declare the column's values.",
        _toml(name, f"values = {_array(texts[:_TO_DECLARE])}") if figures.odd == figures.filled else "",
        texts[:_TO_DECLARE],
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
            mean = f" Clamping moves the mean from {number(numbers.mean)} to {number(numbers.clamped_mean)}."
        furthest = "" if reach is None else f" (as far as {line.text(reach)})"
        end = line.text(bound)
        yield _warning(
            name, f"clamped_{side}", rows, figures,
            f"{_of(rows, figures)} lie {side} {end}{furthest} and count as {end}.{mean}",
            "Widen the bounds as far as public knowledge supports; noise grows with their width.",
            _toml(name, f"bounds = {_array([line.literal(low), line.literal(high)])}"),
        )  # fmt: skip


def _outside_edges(
    name: str, edges: Sequence[float], figures: ColumnFigures, numbers: NumberFigures, line: NumberLine
) -> Iterator[SchemaWarning]:
    first, last = line.text(edges[0]), line.text(edges[-1])
    if numbers.under_edges:
        exactly = numbers.at_lowest_edge
        where = (
            f"are {first}, the lowest edge: bins are open below"
            if exactly == numbers.under_edges
            else f"lie at or below the lowest edge {first}"
        )
        lowest = edges[0] - line.step(edges[0], edges[1])
        if exactly < numbers.under_edges and numbers.low is not None:
            lowest = min(lowest, line.round_out(numbers.low, -1))
            if lowest == numbers.low:  # a value at the lowest edge is in no bin
                lowest -= line.step(edges[0], edges[1])
        yield _warning(
            name, "below_edges", numbers.under_edges, figures,
            f"{_of(numbers.under_edges, figures)} {where}, so they are in no bin and left out.",
            "Begin with a lower edge.",
            _toml(name, f"edges = {_array([line.literal(e) for e in (lowest, *edges)])}"),
        )  # fmt: skip
    if numbers.over_edges:
        highest = max(edges[-1] + (edges[-1] - edges[-2]), line.round_out(numbers.high or 0.0, 1))
        yield _warning(
            name, "above_edges", numbers.over_edges, figures,
            f"{_of(numbers.over_edges, figures)} lie above the highest edge {last}, so they are in no bin "
            "and left out.",
            "End with a higher edge.",
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
            f"{len(thin)} of {len(bins)} bins hold (almost) nothing, {together:,} rows together: "
            f"{_several(thin, quoted=False)}.",
            "Join them with their neighbours: their counts are mostly noise.",
            _toml(name, f"edges = {_array([line.literal(e) for e in merged])}") if len(merged) > 2 else "",
            thin,
        )  # fmt: skip
    largest = max(range(len(rows)), key=rows.__getitem__)
    if rows[largest] > _WIDE * filled:
        yield _warning(
            name, "wide_bin", rows[largest], figures,
            f"The bin {label(bins[largest])} holds {_percent(rows[largest] / filled)} of the binned rows: "
            f"grouping by {name} hardly tells them apart.",
            "Put more edges inside it.",
            "", [label(bins[largest])],
        )  # fmt: skip


def _without_thin(edges: Sequence[float], rows: Sequence[int], least: float) -> list[float]:
    """The edges with each thin bin joined to the next one, the last to the one before."""
    kept_edges, rows_held = [edges[0]], 0
    for edge, n in zip(edges[1:], rows, strict=True):
        rows_held += n
        if rows_held >= least:
            kept_edges.append(edge)
            rows_held = 0
    if kept_edges[-1] != edges[-1]:
        kept_edges[-1:] = [edges[-1]] if len(kept_edges) > 1 else [edges[0], edges[-1]]
    return kept_edges


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


def _of(rows: int, figures: ColumnFigures) -> str:
    return f"{_percent(rows / figures.rows)} of the rows ({rows:,})"


def _percent(share: float) -> str:
    """
    >>> _percent(0.5), _percent(0.00004), _percent(0.9999), _percent(0.0312)
    ('50%', '0.004%', '99.99%', '3.1%')
    """
    percent = share * 100
    digits = f"{percent:.2g}" if percent < 10 else f"{percent:.4g}" if percent > 99 else f"{percent:.3g}"
    return f"{float(digits):.12g}%"


def _several(texts: Sequence[str], quoted: bool = True) -> str:
    listed = ", ".join(f'"{text}"' if quoted else text for text in texts[:_SEVERAL])
    return listed + (f" and {len(texts) - _SEVERAL} more" if len(texts) > _SEVERAL else "")


def _is_range(values: Sequence[object]) -> bool:
    """Whole numbers without a gap, such as months: nobody misses one that has no row yet."""
    numbers = sorted(v for v in values if isinstance(v, int) and not isinstance(v, bool))
    return len(numbers) == len(values) > 1 and numbers[-1] - numbers[0] == len(numbers) - 1


def _is_whole(value: object) -> bool:
    return re.fullmatch(r"-?\d{1,15}(\.0*)?", str(value)) is not None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _toml(name: str, line: str) -> str:
    """A declaration's lines in the schema file."""
    key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _literal(name)
    return f"[columns.{key}]\n{line}"


def _array(values: Sequence[object]) -> str:
    return f"[{', '.join(map(_literal, values))}]"


def _literal(value: object) -> str:
    """A TOML literal; JSON's strings are TOML's, but for one control character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
