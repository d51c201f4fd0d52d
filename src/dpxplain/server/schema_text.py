"""Reads a schema from the TOML text that a curator sent, and writes its file."""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from pathlib import Path

from dpxplain.errors import BadRequest, SchemaError
from dpxplain.model.schema import Schema

_MOST_DEPTH, _MOST_TABLES = 32, 5_000
_NOT_PART_OF_KEYS = str.maketrans("", "", " \t\"'")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_WORD = re.compile(r"[\w.-]+")
_TOML_POSITION = re.compile(r"\(at (line (\d+), column (\d+)|end of document)\)")


def schema_of(text: str) -> Schema:
    """The schema in a TOML text, or a refusal that names the keys to mend."""
    _check_toml_size(text)
    try:
        raw = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        position = _TOML_POSITION.search(str(error))
        raise SchemaError(
            f"The schema is not valid TOML{f' at {position[1]}' if position else ''}.",
            remedy="Mend it there.",
            place=_place(text, position),
        ) from None
    schema = Schema.load(raw)
    check_source(schema)
    return schema


def _place(text: str, position: re.Match[str] | None) -> tuple[int, int]:
    """Line and column where tomllib stopped; the end of the text where it names none."""
    if position is not None and position[2]:
        return int(position[2]), int(position[3])
    return text.count("\n") + 1, len(text) - text.rfind("\n")


def _check_toml_size(text: str) -> None:
    """Refuses what tomllib is slow at: its time grows with the square of the depth and number of tables."""
    squeezed = text.translate(_NOT_PART_OF_KEYS)
    deep = any(sum(map(bool, word.split("."))) > _MOST_DEPTH for word in _WORD.findall(squeezed))
    nested = "[" * _MOST_DEPTH in squeezed or squeezed.count("{") > _MOST_TABLES
    if deep or nested or text.count("\n[") > _MOST_TABLES:
        raise SchemaError(
            f"The schema is deeper than {_MOST_DEPTH} levels, or has more than {_MOST_TABLES:,} tables.",
            remedy="A schema has [table], [privacy] and one [columns.NAME] for each column.",
        )


def check_source(schema: Schema) -> None:
    if "\x00" in "".join(schema.table.source or ""):  # no path has it, and asking the system would fail
        mistake = ("table.source", "must not contain a NUL character")
        raise SchemaError(f"{': '.join(mistake)}.", remedy="Leave it out.", mistakes=[mistake])


def schema_file_name(table: str) -> str:
    """The file of a new data set's schema; only a plain name becomes part of a path."""
    if _FILE_NAME.fullmatch(table) is None:
        raise SchemaError(
            "table.name: must be of plain letters, digits, _ and - here, as it names a file.",
            remedy="Choose such a name.",
        )
    return f"{table}.toml"


def write_atomically(file: Path, text: str) -> None:
    """Readers see the old file or the new one, never a part of it."""
    try:
        handle, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.stem}.", suffix=".draft")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as opened:
                opened.write(text)
                opened.flush()
                os.fsync(opened.fileno())
            Path(draft).chmod(0o644)
            os.replace(draft, file)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise BadRequest(
            f"The schema cannot be written: {error.strerror}.",
            remedy="Let the server write to its folder of schemas.",
        ) from None
