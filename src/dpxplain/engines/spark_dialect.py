"""Spark's SQL, written so that no setting of a session changes a value, such as ANSI mode or the time zone.

Timestamps are TIMESTAMP_NTZ, which has no zone, and are counted from 1970. Functions that would convert them
to the session's zone on the way (date_trunc, timestampdiff) are not used. docs/engines.md lists the pitfalls.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

from dpxplain.engines.dialect import NUMBERS, Dialect, Kind
from dpxplain.model.query import Parameters

_EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
_DAY = 86_400_000_000
_FEW = 8  # up to this many texts are compared one by one; of more, only those with the same checksum
# Up to this many declared texts of a statement are compared one by one. Each takes about 65 bytes of a
# method, and Java compiles no method above 8,000 bytes.
_MOST_COMPARISONS = 64
# Above this many columns (spark.sql.codegen.maxFields), Spark itself splits the code into short methods.
_MOST_FIELDS = 100
_WHOLE_FROM = float(2**52)  # from this number on, every double is whole
_NO_LONG = float(2**63)  # Spark casts this to 2^63 - 1 without an error
_FAR = 8 * 10**18  # microseconds; later than every declared date, and changing the zone does not overflow
_ISO = "[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?)?"
_OFFSET = "([+-][0-9]{2}(:?[0-9]{2})?|Z)"
_PARTS = {
    "week": "weekofyear({})", "dow": "dayofweek({}) - 1", "isodow": "weekday({}) + 1", "doy": "dayofyear({})",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class SparkDialect(Dialect):
    """Spark's SQL over a view, whose columns have names that the engine chose."""

    names: Mapping[str, str] = field(default_factory=dict)
    """The view's name for each column of the source."""
    padded: frozenset[str] = frozenset()
    """The view's names of the CHAR columns, whose texts Spark pads with spaces."""
    is_wide: bool = False
    """Whether a statement encodes so many columns that Spark itself splits its code into short methods."""
    compares_texts: bool = False
    """Whether a statement encodes so few texts that comparing each is faster than looking them up."""

    name = "spark"
    text = "STRING"
    moment = "TIMESTAMP_NTZ"
    compares_whole = True
    counts_clamped = True
    numbers_cells = True

    def for_texts(self, texts: int, columns: int) -> SparkDialect:
        return replace(self, is_wide=columns > _MOST_FIELDS, compares_texts=texts <= _MOST_COMPARISONS)

    def quote(self, name: str) -> str:
        """The view's name for a column. It is the engine's own, because Spark ignores case in names."""
        return self.names[name]

    def placeholder(self, number: int) -> str:
        return f":p{number}"

    def code_type(self, size: int) -> str:
        return "SMALLINT" if size < 2**15 else "INT"

    def array(self, values: Sequence[Any], parameters: Parameters) -> str:
        # The array is one JSON text, because Spark would turn a list into as many parameters.
        sample = values[0] if values else ""
        if isinstance(sample, date):
            listed = self._listed([value.isoformat() for value in values], "string", parameters)
            return f"CAST({listed} AS ARRAY<{self.type_of(sample)}>)"
        if isinstance(sample, bool):
            return self._listed(list(values), "boolean", parameters)
        if isinstance(sample, int | float):
            return self._listed([float(value) for value in values], "double", parameters)
        return self._listed([str(value) for value in values], "string", parameters)

    def element(self, array: str, place: str) -> str:
        return f"get({array}, CAST({place} AS INT) - 1)"

    def number(self, source: str, kind: Kind) -> str:
        return f"CAST({source if kind in (*NUMBERS, 'boolean') else 'NULL'} AS DOUBLE)"

    def whole(self, source: str, kind: Kind) -> str:
        if kind in ("whole", "boolean"):
            return f"CAST({source} AS BIGINT)"
        if kind in ("decimal", "long decimal"):
            return f"CASE WHEN {source} % 1 = 0 THEN try_cast({source} AS BIGINT) END"
        if kind != "float":
            return "CAST(NULL AS BIGINT)"
        number = f"CAST({source} AS DOUBLE)"
        # In Spark NaN equals NaN, but it casts to NULL.
        is_whole = f"rint({number}) = {number} AND {number} < {self.number_literal(_NO_LONG)}"
        return f"CASE WHEN {is_whole} THEN try_cast({number} AS BIGINT) END"

    def truth(self, source: str, kind: Kind) -> str:
        if kind == "boolean":
            return source
        if kind in NUMBERS:
            return f"CASE WHEN {source} = 1 THEN TRUE WHEN {source} = 0 THEN FALSE END"
        return "CAST(NULL AS BOOLEAN)"

    def text_of(self, source: str, kind: Kind) -> str:
        if kind == "zoned":  # otherwise its text would depend on the session's zone
            return f"CAST(unix_micros({source}) AS STRING)"
        # Not CAST: without ANSI mode, it writes a decimal with an exponent.
        text = f"try_cast({source} AS STRING)"
        return f"rtrim({text})" if source in self.padded else text

    def valid_text(self, text: str) -> str:
        return f"try_validate_utf8({text})"

    def micros(self, source: str, kind: Kind, zone: str) -> str:
        if kind == "date":
            # NULL for years after 294247, which 64 bits of microseconds cannot hold.
            return f"try_multiply(CAST(unix_date({source}) AS BIGINT), {_DAY})"
        if kind == "timestamp":
            return _since_epoch(source)
        # The zone's name is safe to insert: Python knows it, and it has no quotation mark.
        if kind == "zoned":
            return _local(f"unix_micros({source})", zone)
        if kind != "text":
            return "CAST(NULL AS BIGINT)"
        text = f"trim({self.text_of(source, kind)})"
        aware = _local(f"unix_micros(try_cast({text} AS TIMESTAMP_LTZ))", zone)
        return (
            f"CASE WHEN {text} RLIKE '^{_ISO}$' THEN {_since_epoch(f'try_cast({text} AS TIMESTAMP_NTZ)')} "
            f"WHEN {text} RLIKE '^{_ISO}{_OFFSET}$' THEN {aware} END"
        )

    def code(self, key: str, codes: Mapping[Any, int], parameters: Parameters) -> str:
        is_text = all(isinstance(value, str) for value in codes)
        if self.is_wide and len(codes) <= _FEW:
            return self._searched(key, [*codes.items()], parameters)
        text = key if is_text else f"CAST({key} AS STRING)"
        if is_text and self.compares_texts:
            return self._searched(text, sorted(codes.items(), key=lambda item: item[0].encode()), parameters)
        if len(codes) <= _FEW:
            return self._place(text, [*map(str, codes)], [*codes.values()], parameters)
        number = len(codes) // _FEW + 1
        buckets: list[dict[str, int]] = [{} for _ in range(number)]
        for value, code in codes.items():
            buckets[zlib.crc32(str(value).encode()) % number][str(value)] = code
        texts = self._listed([list(bucket) for bucket in buckets], "array<string>", parameters)
        numbers = self._listed([list(bucket.values()) for bucket in buckets], "array<int>", parameters)
        bucket = f"CAST(crc32(CAST({text} AS BINARY)) % {number} AS INT)"
        place = f"CAST(array_position(get({texts}, {bucket}), {text}) AS INT)"
        return f"get(get({numbers}, {bucket}), {place} - 1)"

    def _searched(self, text: str, codes: Sequence[tuple[Any, int]], parameters: Parameters) -> str:
        """A binary search in a list sorted by bytes; the last few texts are compared one by one."""
        if len(codes) > _FEW:
            middle = len(codes) // 2
            first = self.placeholder(parameters.bind(codes[middle][0]))
            lower, upper = (
                self._searched(text, half, parameters) for half in (codes[:middle], codes[middle:])
            )
            return f"CASE WHEN {text} < {first} THEN {lower} ELSE {upper} END"
        tests = (
            f"WHEN {text} = {self.placeholder(parameters.bind(value))} THEN {code}" for value, code in codes
        )
        return f"CASE {' '.join(tests)} END"

    def _place(self, text: str, texts: list[str], codes: list[int], parameters: Parameters) -> str:
        place = f"array_position({self._listed(texts, 'string', parameters)}, {text})"
        if codes == [*range(1, len(codes) + 1)]:
            return f"NULLIF({place}, 0)"
        return f"get({self._listed(codes, 'int', parameters)}, CAST({place} AS INT) - 1)"

    def _listed(self, values: list[Any], kind: str, parameters: Parameters) -> str:
        """An array from a constant JSON text, which Spark parses once."""
        return f"from_json({self.placeholder(parameters.bind(json.dumps(values)))}, 'array<{kind}>')"

    def nearest(self, number: str, low: float, high: float) -> str:
        rounded = f"CAST({super().nearest(number, low, high)} AS DOUBLE)"
        if max(abs(low), abs(high)) < _WHOLE_FROM:
            return rounded
        # floor and ceil return 64-bit integers, and overflow is an error.
        is_small = f"abs({number}) < {self.number_literal(_WHOLE_FROM)}"
        return f"CASE WHEN {is_small} THEN {rounded} ELSE {number} END"

    def function(self, name: str, arguments: Sequence[str]) -> str:
        if name not in ("floor", "ceil"):
            return super().function(name, arguments)
        number = arguments[0]
        is_small = f"abs({number}) < {self.number_literal(_WHOLE_FROM)}"
        return f"CASE WHEN {is_small} THEN CAST({name}({number}) AS DOUBLE) ELSE {number} END"

    def like(self, text: str, pattern: str, ignores_case: bool) -> str:
        # Spark's LIKE always has an escape character, the backslash, so backslashes are doubled.
        plain = f"replace({pattern}, chr(92), concat(chr(92), chr(92)))"
        return f"({text} {'ILIKE' if ignores_case else 'LIKE'} {plain})"

    def half_even(self, number: str) -> str:
        is_long = f"{number} < {self.number_literal(_NO_LONG)}"
        return f"CASE WHEN {is_long} THEN try_cast(rint({number}) AS BIGINT) END"

    def cast(self, value: str, target: str, kind: str) -> str:
        types = {"TIMESTAMP": self.moment, "VARCHAR": self.text}
        return f"try_cast({value} AS {types.get(target, target)})"

    def timestamp(self, micros: str) -> str:
        return _at(f"CAST({micros} AS BIGINT)")

    def date_part(self, name: str, moment: str) -> str:
        part = _PARTS.get(name, f"{name}({{}})").format(f"CAST({moment} AS {self.moment})")
        return f"CAST({part} AS DOUBLE)"

    def date_trunc(self, unit: str, moment: str) -> str:
        typed = f"CAST({moment} AS {self.moment})"
        spans = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
        if unit in spans:
            micros = _since_epoch(typed)
            return _at(f"({micros} - pmod({micros}, {spans[unit]}))")
        day = f"CAST({moment} AS DATE)"
        return day if unit == "day" else f"trunc({day}, '{unit}')"

    def span_number(self, moment: str, micros: int) -> str:
        return f"({_since_epoch(f'CAST({moment} AS {self.moment})')} DIV {micros})"

    def type_of(self, value: Any) -> str:
        return self.moment if isinstance(value, datetime) else super().type_of(value)


def kind_of(type_name: str) -> Kind:
    """The kind of values that a Spark type holds, by its name."""
    head = type_name.partition("(")[0].partition(" ")[0]
    if head == "decimal":
        digits = int(type_name[8:].partition(",")[0])
        return "decimal" if digits <= 15 else "long decimal"
    kinds: dict[str, Kind] = {
        **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "whole"),
        **dict.fromkeys(("float", "double"), "float"),
        **dict.fromkeys(("string", "char", "varchar"), "text"),
        "boolean": "boolean",
        "date": "date",
        "timestamp": "zoned",
        "timestamp_ntz": "timestamp",
        "void": "nothing",
    }
    return kinds.get(head, "other")


def _since_epoch(moment: str) -> str:
    """The microseconds from 1970 to a timestamp without a zone."""
    return f"CAST(CAST(({moment} - {_EPOCH}) AS DECIMAL(19, 6)) * 1000000 AS BIGINT)"


def _at(micros: str) -> str:
    return f"({_EPOCH} + make_dt_interval(0, 0, 0, CAST({micros} AS DECIMAL(20, 0)) * 0.000001BD))"


def _local(micros: str, zone: str) -> str:
    """A moment's microseconds, converted to the local time of the zone."""
    inside = f"timestamp_micros(least(greatest({micros}, -{_FAR}), {_FAR}))"
    return f"CASE WHEN {micros} IS NOT NULL THEN unix_micros(from_utc_timestamp({inside}, '{zone}')) END"
