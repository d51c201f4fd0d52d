"""The parser of expressions, plugged in by the package: `sql/` has it, and this room is below `sql/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpxplain.model.expression import Expression

# The text and the columns that it may read, by name; raises QueryRefused.
ExpressionReader = Callable[[str, Mapping[str, Any]], "Expression"]

_readers: list[ExpressionReader] = []


def plug_in(reader: ExpressionReader) -> None:
    _readers[:] = [reader]


def read_expression(text: str, columns: Mapping[str, Any]) -> Expression:
    """The expression that a SQL text stands for."""
    return _readers[0](text, columns)
