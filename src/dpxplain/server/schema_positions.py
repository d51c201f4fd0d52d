"""Where in a schema text each refused key is, for an editor that marks it."""

from __future__ import annotations

import re

from dpxplain.errors import SchemaError
from dpxplain.server.response_shapes import Position, SchemaProblem

_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_PATH = rf"{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*"
_HEADER_OR_KEY = re.compile(
    rf"^[ \t]*(?:\[\[?[ \t]*(?P<table>{_PATH})[ \t]*\]|(?P<key>{_PATH})[ \t]*=)", re.M
)
_UNREADABLE = "cannot be read here: perhaps a quote or bracket is missing, or a key is given twice"


def schema_problems(text: str, error: SchemaError) -> list[SchemaProblem]:
    """One problem per refused key, or one where the text stops being TOML."""
    if error.place is not None:
        return [SchemaProblem(key="TOML", message=_UNREADABLE, position=_rest_of_line(text, *error.place))]
    positions = key_positions(text) if error.mistakes else {}
    return [
        SchemaProblem(key=key, message=message, position=_nearest(positions, key))
        for key, message in error.mistakes
    ]


def key_position(text: str, key: str) -> Position | None:
    """Where a key of the schema is declared, or the innermost table around it."""
    return _nearest(key_positions(text), key)


def key_positions(text: str) -> dict[str, Position]:
    """Every table and key of a TOML text by its full name; a table that has no header is at its first key.

    >>> key_positions("[columns.pay]\\nbounds = [9, 1]")["columns.pay.bounds"]
    {'line': 2, 'column': 1, 'start': 14, 'end': 29}
    """
    positions: dict[str, Position] = {}
    table: list[str] = []
    for match in _HEADER_OR_KEY.finditer(text):
        names = [name.strip("\"'") for name in re.findall(_NAME, match["table"] or match["key"])]
        if match["table"]:
            table = path = names
        else:
            path = [*table, *names]
        position = _rest_of_line(text, text.count("\n", 0, match.start()) + 1, 1)
        for length in range(1, len(path) + 1):
            positions.setdefault(".".join(path[:length]), position)
    return positions


def _nearest(positions: dict[str, Position], key: str) -> Position | None:
    """The position of a key, or of the innermost table around a missing one."""
    while key and key not in positions:
        key = key.rpartition(".")[0]
    return positions.get(key)


def _rest_of_line(text: str, line: int, column: int) -> Position:
    """From a column to the end of its line; the whole line where nothing is left to mark."""
    lines = text.split("\n")
    line = min(line, len(lines))
    content = lines[line - 1]
    before = sum(len(other) + 1 for other in lines[: line - 1])
    indent = len(content) - len(content.lstrip())
    end = len(content.rstrip())
    first = max(column - 1, indent) if column - 1 < end else min(indent, end)
    return Position(line=line, column=first + 1, start=before + first, end=before + end)
