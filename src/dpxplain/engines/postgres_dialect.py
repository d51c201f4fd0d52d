"""PostgreSQL's SQL. A cast or an arithmetic operation can fail on a value there, so each one is guarded.

A number may be too large or too small for a double, a timestamp may exceed 64 bits of microseconds, and texts
may have a collation that treats different texts as equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpxplain.engines.dialect import Dialect, Kind
from dpxplain.sql.encoded_names import Parameters

_FEW = 16  # up to this many codes are compared one by one; more are looked up in a jsonb object
_LARGEST_DOUBLE = "'1.7976931348623157e308'::numeric"
_SMALLEST_DOUBLE = "'1e-323'::numeric"
_TINY = "'1e-140'::float8"
_FIRST_MOMENT, _LAST_MOMENT = "4713-02-01 00:00:00+00 BC", "294246-12-31 00:00:00+00"
_SAFE_PRECISION = 290  # numbers of so many digits neither overflow nor underflow a double


class PostgresDialect(Dialect):
    name = "postgres"
    double = "DOUBLE PRECISION"
    text = "TEXT"
    inlined = "AS NOT MATERIALIZED"
    compares_whole = True

    def placeholder(self, number: int) -> str:
        return f"${number}"

    def number_literal(self, value: float) -> str:
        return f"'{float(value)!r}'::float8"

    def code_type(self, size: int) -> str:
        return "SMALLINT" if size < 2**15 else "INTEGER"

    def array(self, values: Sequence[Any], parameters: Parameters) -> str:
        kind = self.type_of(values[0]) if values else self.text
        sent = [float(value) if kind == self.double else _storable(value) for value in values]
        return f"CAST({self.placeholder(parameters.bind(sent))} AS {kind}[])"

    def element(self, array: str, place: str) -> str:
        return f"({array})[{place}]"

    def number(self, source: str, kind: Kind) -> str:
        if kind == "boolean":
            return f"{source}::int::float8"
        if kind != "long decimal":
            return f"{source}::float8"
        return (
            f"CASE WHEN {source} = 'NaN'::numeric THEN 'NaN'::float8 "
            f"WHEN {source} > {_LARGEST_DOUBLE} THEN 'Infinity'::float8 "
            f"WHEN {source} < -{_LARGEST_DOUBLE} THEN '-Infinity'::float8 "
            f"WHEN abs({source}) < {_SMALLEST_DOUBLE} THEN '0'::float8 ELSE {source}::float8 END"
        )

    def whole(self, source: str, kind: Kind) -> str:
        if kind in ("whole", "boolean"):
            return f"{source}::int::bigint" if kind == "boolean" else f"{source}::bigint"
        # NaN fails the test below, because PostgreSQL sorts it above every number.
        low, end = (
            ("'-9223372036854775808'::float8", "'9223372036854775808'::float8")
            if kind == "float"
            else ("'-9223372036854775808'::numeric", "'9223372036854775808'::numeric")
        )
        fits = f"{source} >= {low} AND {source} < {end} AND {source} = floor({source})"
        return f"CASE WHEN {fits} THEN {source}::bigint END"

    def truth(self, source: str, kind: Kind) -> str:
        if kind == "boolean":
            return source
        number = self.number(source, kind)
        return f"CASE WHEN {number} = 1 THEN TRUE WHEN {number} = 0 THEN FALSE END"

    def text_of(self, source: str, kind: Kind) -> str:
        operand = f"trim_scale({source})" if kind in ("decimal", "long decimal") else source
        return f'({operand}::text COLLATE "C")'

    def micros(self, source: str, kind: Kind, zone: str) -> str:
        if kind == "date":
            days = f"({source} - DATE '1970-01-01')::bigint * 86400000000"
            return f"CASE WHEN isfinite({source}) AND {source} <= DATE '294246-12-31' THEN {days} END"
        last = f"TIMESTAMPTZ '{_LAST_MOMENT}'" if kind == "zoned" else f"TIMESTAMP '{_LAST_MOMENT[:-3]}'"
        moment = source
        if kind == "zoned":
            # The zone's name is safe to insert: Python knows it, and it has no quotation mark.
            moment = f"(greatest({source}, TIMESTAMPTZ '{_FIRST_MOMENT}') AT TIME ZONE '{zone}')"
        micros = f"(extract(epoch FROM {moment}) * 1000000)::bigint"
        return f"CASE WHEN isfinite({source}) AND {source} <= {last} THEN {micros} END"

    def is_nan(self, number: str) -> str:
        return f"({number} = 'NaN'::float8)"

    def code(self, key: str, codes: Mapping[Any, int], parameters: Parameters) -> str:
        storable_codes = {value: code for value, code in codes.items() if _storable(value) is not None}
        if len(storable_codes) > _FEW:
            number = parameters.bind({str(value): code for value, code in storable_codes.items()})
            return f"(CAST({self.placeholder(number)} AS jsonb) -> ({key})::text)::int"
        steps = " ".join(
            f"WHEN {self._literal(value, parameters)} THEN {code}" for value, code in storable_codes.items()
        )
        return f"(CASE {key} {steps} END)" if steps else "NULL::int"

    def is_among(self, text: str, values: Sequence[str], parameters: Parameters) -> str:
        listed = [self._literal(value, parameters) for value in values if _storable(value) is not None]
        return f"{text} IN ({', '.join(listed)})" if listed else "FALSE"

    def _literal(self, value: Any, parameters: Parameters) -> str:
        if isinstance(value, int):
            return f"'{value}'::bigint"
        return f'(CAST({self.placeholder(parameters.bind(value))} AS text) COLLATE "C")'

    def md5(self, text: str) -> str:
        return f'(md5({text}) COLLATE "C")'

    def person(self, text: str) -> str:
        return f"md5({text})::uuid"

    def factor(self, number: str) -> str:
        """The number; 0 if too small to matter, so that products and quotients do not underflow."""
        return f"({number} + {_TINY} - {_TINY})"

    def remainder(self, left: str, right: str, is_whole: bool) -> str:
        if is_whole:
            return f"(({left})::bigint % ({right})::bigint)::float8"
        # NULLIF after `factor`, which can turn a tiny number into 0.
        quotient = f"trunc({self.factor(left)} / NULLIF({self.factor(right)}, 0))"
        return f"({left} - {self.factor(right)} * {self.factor(quotient)})"

    def like(self, text: str, pattern: str, ignores_case: bool) -> str:
        return f"({text} {'ILIKE' if ignores_case else 'LIKE'} {pattern} ESCAPE '')"

    def half_even(self, number: str) -> str:
        fits = f"abs({number}) < '9e18'::float8"
        return f"CASE WHEN {fits} THEN ({number})::bigint END"

    def cast(self, value: str, target: str, kind: str) -> str:
        match kind, target:
            case "boolean", "DOUBLE":
                return f"({value})::int::float8"
            case "number", "BOOLEAN":
                return f"({value} <> 0)"
        return f"CAST({value} AS {self.double if target == 'DOUBLE' else target})"

    def timestamp(self, micros: str) -> str:
        return f"(TIMESTAMP '1970-01-01' + {micros} * INTERVAL '1 microsecond')"

    def date_part(self, name: str, moment: str) -> str:
        return f"floor(date_part('{name}', {moment}))"

    def date_trunc(self, unit: str, moment: str) -> str:
        return f"date_trunc('{unit}', CAST({moment} AS TIMESTAMP))"  # a date would give one with a zone

    def span_number(self, moment: str, micros: int) -> str:
        return f"((extract(epoch FROM CAST({moment} AS TIMESTAMP)) * 1000000)::bigint / {micros})"


def kind_of(type_name: str, category: str, modifier: int) -> Kind:
    """The kind of a catalog type, from its name, pg_type.typtype and its modifier (-1 if it has none)."""
    if type_name == "numeric":
        # The modifier is precision * 65536 + scale (11 bits, signed) + 4.
        precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
        is_safe = modifier >= 0 and precision <= _SAFE_PRECISION and scale <= _SAFE_PRECISION
        return "decimal" if is_safe else "long decimal"
    kinds: dict[str, Kind] = {
        "int2": "whole", "int4": "whole", "int8": "whole", "float4": "float", "float8": "float",
        "bool": "boolean", "date": "date", "timestamp": "timestamp", "timestamptz": "zoned",
        "text": "text", "varchar": "text", "bpchar": "text", "name": "text", "citext": "text", "uuid": "text",
    }  # fmt: skip
    return "text" if category == "e" else kinds.get(type_name, "other")


def _storable(value: Any) -> Any:
    """The value; None for a text that PostgreSQL cannot hold, so that no row can have it."""
    return None if isinstance(value, str) and "\0" in value else value
