"""Columns whose values are not known beforehand: their declaration, and what a private discovery releases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field

from dpxplain.model.hardening import Declared
from dpxplain.model.public import public

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DISCOVER = "discover"


class UnknownColumn(Declared):
    """The declaration `values = "discover"`: a text column that cannot be queried before its discovery."""

    longest: int = Field(default=100, ge=1, le=1_000)  # characters; a longer value is never discovered
    label: str = ""
    description: str = ""


def apart(declared: Any) -> Any:
    """A schema as it was written, with the columns that are to be discovered kept apart from the others."""
    columns = declared.get("columns") if isinstance(declared, Mapping) else None
    if not isinstance(columns, Mapping):
        return declared
    unknown = {
        name: {key: value for key, value in column.items() if key != "values"}
        for name, column in columns.items()
        if isinstance(column, Mapping) and column.get("values") == DISCOVER
    }
    if not unknown:
        return declared
    known = {name: column for name, column in columns.items() if name not in unknown}
    return {**declared, "columns": known, "unknown": {**declared.get("unknown", {}), **unknown}}


def is_declarable(text: str) -> bool:
    """Whether a text can be a declared value on every engine: it must not contain the character NUL.

    Checked before noise is drawn (docs/proofs/discovery.md), so that no discovered value fails afterwards.
    """
    return "\0" not in text


@dataclass(frozen=True)
class ValueCounts:
    """The true number of privacy units that have each value of a column."""

    values: tuple[str, ...]
    units: NDArray[np.int64]


@public("DiscoveredValuePayload", "value units")
@dataclass(frozen=True)
class DiscoveredValue:
    """A value and how many privacy units have it, with noise."""

    value: str
    units: float


@dataclass(frozen=True)
class DiscoveryRelease:
    """Values that enough privacy units have, in order, and their noisy numbers of units."""

    rho: float
    delta: float
    values: tuple[str, ...]
    noisy_units: tuple[float, ...]
    threshold: int
    scale: float
    private: bool = True

    def to_json(self) -> str:
        return json.dumps(vars(self))

    @classmethod
    def from_json(cls, text: str) -> DiscoveryRelease:
        stored = json.loads(text)
        return cls(
            **stored | {"values": tuple(stored["values"]), "noisy_units": tuple(stored["noisy_units"])}
        )
