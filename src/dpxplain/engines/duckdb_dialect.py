"""DuckDB's SQL. TRY_CAST gives NULL instead of an error, so the source's types hardly matter."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import duckdb

from dpxplain.engines.dialect import WORDS, Dialect, Kind
from dpxplain.sql.encoded_names import Parameters

_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_TEXT = ("VARCHAR", "ENUM", "UUID")
_EXACT_DIGITS = 15


class DuckDBDialect(Dialect):
    """DuckDB's SQL. With a connection, codes of declared values are looked up in enums created there."""

    name = "duckdb"

    def __init__(self, connection: duckdb.DuckDBPyConnection | None = None) -> None:
        self._connection = connection
        self._enums = count()

    def placeholder(self, number: int) -> str:
        return f"${number}"

    def code_type(self, size: int) -> str:
        return "UTINYINT" if size < 2**8 else "USMALLINT" if size < 2**16 else "UINTEGER"

    def array(self, values: Sequence[Any], parameters: Parameters) -> str:
        kind = self.type_of(values[0]) if values else self.text
        return f"{self.placeholder(parameters.bind(list(values)))}::{kind}[]"

    def element(self, array: str, place: str) -> str:
        return f"list_extract({array}, {place})"

    def number(self, source: str, kind: Kind) -> str:
        # Casting a long decimal directly to a double would round twice.
        operand = f"CAST({source} AS VARCHAR)" if kind == "long decimal" else source
        return f"CAST(TRY_CAST({operand} AS DOUBLE) AS DOUBLE)"

    def whole(self, source: str, kind: Kind) -> str:
        if kind == "whole":
            return f"TRY_CAST({source} AS BIGINT)"
        number = source if kind in ("decimal", "long decimal") else f"TRY_CAST({source} AS DOUBLE)"
        return f"CASE WHEN {number} = trunc({number}) THEN TRY_CAST({source} AS BIGINT) END"

    def truth(self, source: str, kind: Kind) -> str:
        # 2 is neither true nor false, but a cast would make it true.
        fits = f"COALESCE(TRY_CAST({source} AS DOUBLE) IN (0, 1), TRUE)"
        return f"CASE WHEN {fits} THEN TRY_CAST({source} AS BOOLEAN) END"

    def text_of(self, source: str, kind: Kind) -> str:
        return f"CAST({source} AS VARCHAR)"

    def exact_text(self, source: str, kind: Kind) -> str:
        # A cast keeps the collation, which could make two persons, or two values, equal.
        return f"decode(encode({self.text_of(source, kind)}))"

    def valid_text(self, text: str) -> str:
        return f"TRY({text})"

    def micros(self, source: str, kind: Kind, zone: str) -> str:
        return f"epoch_us({self._moment(source, kind, zone)})"

    def _moment(self, source: str, kind: Kind, zone: str) -> str:
        # The zone's name is safe to insert: Python knows it, and it has no quotation mark.
        local = f"TRY(timezone('{zone}', TRY_CAST({source} AS TIMESTAMPTZ)))"
        moment = f"TRY_CAST({source} AS TIMESTAMP)"
        if kind == "zoned":
            moment = local
        elif kind not in ("date", "timestamp"):
            offset = "':[0-9]{2}.*([+-][0-9]{2}(:?[0-9]{2})?|Z)$'"
            has_offset = f"regexp_matches(CAST({source} AS VARCHAR), {offset})"
            moment = f"CASE WHEN {has_offset} THEN {local} ELSE {moment} END"
        return f"CASE WHEN isfinite({moment}) THEN {moment} END"

    def code(self, key: str, codes: Mapping[Any, int], parameters: Parameters) -> str:
        texts = [str(value) for value in codes]
        text = key if all(isinstance(value, str) for value in codes) else f"CAST({key} AS VARCHAR)"
        place = self._place(text, texts, parameters)
        numbers = list(codes.values())
        return place if numbers == [*range(1, len(codes) + 1)] else f"list_extract({numbers}, {place})"

    def _place(self, text: str, texts: list[str], parameters: Parameters) -> str:
        if self._connection is None:
            return f"list_position({self.array(texts, parameters)}, {text})"
        enum = f"domain_{next(self._enums)}"
        # Declared values are sent as data, not as SQL text. No row has the random first value, which is code
        # 0.
        self._connection.execute(
            f"CREATE TYPE {enum} AS ENUM (SELECT value FROM "
            "(SELECT unnest(CAST(? AS VARCHAR[])) AS value, unnest(range(?)) AS code) ORDER BY code)",
            [[secrets.token_hex(16), *texts], len(texts) + 1],
        )
        # Nothing may wrap this, so that DuckDB computes it only once per value of a Parquet file's
        # dictionary.
        return f"enum_code(TRY_CAST({text} AS {enum}))"

    def integer(self, number: str) -> str:
        # TRY_CAST even inside a CASE: DuckDB also casts the dictionary values that the CASE would leave out.
        return f"TRY_CAST({number} AS INTEGER)"

    def person(self, text: str) -> str:
        return f"md5_number({text})"

    def like(self, text: str, pattern: str, ignores_case: bool) -> str:
        return f"({text} {'ILIKE' if ignores_case else 'LIKE'} {pattern})"

    def half_even(self, number: str) -> str:
        return f"TRY_CAST(TRY_CAST({number} AS DOUBLE) AS BIGINT)"

    def cast(self, value: str, target: str, kind: str) -> str:
        return f"TRY_CAST({value} AS {target})"

    def timestamp(self, micros: str) -> str:
        return f"make_timestamp(TRY_CAST({micros} AS BIGINT))"

    def span_number(self, moment: str, micros: int) -> str:
        return f"(epoch_us(CAST({moment} AS TIMESTAMP)) // {micros})"


def kind_of(type_name: str) -> Kind:
    """The kind of values that a DuckDB type holds."""
    plain = type_name.removeprefix("U") if type_name != "UUID" else type_name
    if type_name.strip('"') == "NULL":
        return "nothing"
    if type_name.endswith("]"):
        return "other"
    if plain.startswith(_WHOLE):
        return "whole"
    if plain.startswith("DECIMAL"):
        return "decimal" if int(plain[8:].partition(",")[0]) <= _EXACT_DIGITS else "long decimal"
    if plain.startswith(("FLOAT", "DOUBLE")):
        return "float"
    if plain.startswith("TIMESTAMP"):
        return "zoned" if plain == "TIMESTAMP WITH TIME ZONE" else "timestamp"
    kinds: dict[str, Kind] = {"BOOLEAN": "boolean", "DATE": "date"}
    return "text" if plain.startswith(_TEXT) else kinds.get(type_name, "other")


def words_of(type_name: str) -> str:
    """The kind of values that a DuckDB type holds, in words."""
    kind = kind_of(type_name)
    if type_name.endswith("]"):
        return "lists"
    return f"values of type {type_name.partition('(')[0].lower()}" if kind == "other" else WORDS[kind]
