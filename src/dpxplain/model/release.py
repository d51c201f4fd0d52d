"""What leaves the curator's side: released numbers only, with the noise they carry.

Releases are stored in the ledger as JSON, so that a repeated request is answered from there for free. Long
arrays are stored packed, short ones as lists of numbers.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpxplain.errors import BadRequest
from dpxplain.model.charge import Entry

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

_MOST_BYTES = 2**30  # sixteen times the cells that one preparation can count
_LONG = 1000  # numbers or lines; shorter ones are stored as lists, which people can read


class Release(Protocol):
    """A released value, as the ledger stores it."""

    @property
    def rho(self) -> float: ...

    @property
    def private(self) -> bool:
        """False only for experiments with a seeded source of noise."""
        ...

    def to_json(self) -> str: ...


R = TypeVar("R", bound=Release)
R_co = TypeVar("R_co", bound=Release, covariant=True)


@dataclass(frozen=True)
class Released(Generic[R_co]):
    """A release and the ledger entry it is stored under; `free` when it had been stored before."""

    value: R_co
    entry: Entry
    free: bool


Noise = tuple[tuple[str, float], ...]
"""For each independent noise, by name: the coefficient with which a value carries it, times its σ."""


@dataclass(frozen=True)
class AnswerRelease:
    """Phase 1: noisy parts per declared group. An AVG has both parts, its sum centred at mid.

    If aggregates of one SELECT share noise, `count_noise` and `sum_noise` list its parts; a scale is the root
    of their sum of squares. Groups never share noise.
    """

    rho: float
    noisy_count: tuple[float, ...] | None
    count_scale: float | None
    noisy_sum: tuple[float, ...] | None
    sum_scale: float | None
    private: bool = True
    count_noise: Noise = ()
    sum_noise: Noise = ()
    noisy_squares: tuple[float, ...] | None = None  # centred too, for VARIANCE and STDDEV
    squares_scale: float | None = None
    squares_noise: Noise = ()
    noisy_bins: tuple[float, ...] | None = None  # group by group, for quantiles
    bins_scale: float | None = None
    bin_edges: tuple[float, ...] | None = None

    @property
    def shares_noise(self) -> bool:
        return bool(self.count_noise or self.sum_noise)

    def to_json(self) -> str:
        return json.dumps(self.to_raw())

    def to_raw(self) -> dict[str, Any]:
        raw = vars(self) | {name: _vector_to_json(getattr(self, name)) for name in _VECTORS}
        required = ("rho", "noisy_count", "count_scale", "noisy_sum", "sum_scale", "private")
        return {name: value for name, value in raw.items() if name in required or value not in ((), None)}

    @classmethod
    def from_json(cls, text: str) -> AnswerRelease:
        return cls.from_raw(json.loads(text))

    @classmethod
    def from_raw(cls, raw: dict[str, Any]) -> AnswerRelease:
        read: dict[str, Any] = {name: _vector_from_json(raw[name]) for name in _VECTORS if name in raw}
        read |= {name: _noise_from_json(raw[name]) for name in _NOISES if name in raw}
        return cls(**(raw | read))


_VECTORS = ("noisy_count", "noisy_sum", "noisy_squares", "noisy_bins", "bin_edges")
_NOISES = ("count_noise", "sum_noise", "squares_noise")


def _noise_from_json(stored: list[list[Any]]) -> Noise:
    return tuple((str(name), float(loading)) for name, loading in stored)


def _vector_to_json(numbers: tuple[float, ...] | None) -> tuple[float, ...] | str | None:
    return numbers if numbers is None or len(numbers) < _LONG else _pack(np.array(numbers))


def _vector_from_json(stored: list[float] | str | None) -> tuple[float, ...] | None:
    if stored is None:
        return None
    return tuple(_unpack(stored).tolist() if isinstance(stored, str) else stored)


@dataclass(frozen=True)
class AnswersRelease:
    """Phase 1 for several aggregates: one release each, in the order of `phases.answer_query.canonical`.

    Stored with a version: in version 2 each aggregate has independent noise, and version 3 says which noise
    they share. The release of a single aggregate is stored without a version.
    """

    rho: float
    answers: tuple[AnswerRelease, ...]

    @property
    def private(self) -> bool:
        return all(answer.private for answer in self.answers)

    def to_json(self) -> str:
        answers = [answer.to_raw() for answer in self.answers]
        version = 3 if any(answer.shares_noise for answer in self.answers) else 2
        return json.dumps({"version": version, "rho": self.rho, "answers": answers})

    @classmethod
    def from_json(cls, text: str) -> AnswersRelease:
        raw: dict[str, Any] = json.loads(text)
        if raw.get("version") not in (2, 3):
            raise BadRequest(
                "This answer was stored by another version of DPXPlain.",
                remedy="Read it with that version, or ask the query again.",
            )
        return cls(raw["rho"], tuple(map(AnswerRelease.from_raw, raw["answers"])))


@dataclass(frozen=True)
class FoldedLine:
    """A condition that says nearly the same as the line that it is folded under.

    A predicate of the family, or only some of the line's own conditions, by their positions.
    """

    predicate: int
    kept: tuple[int, ...] | None
    same_rows: tuple[float, float] | None
    """The rows that meet both, as a share of those that meet either; None if only the structure is known."""


@dataclass(frozen=True)
class ReleasedLine:
    """Phase 3, one predicate: its index in the family, influence and rank.

    `gap_without` is the question's value without the predicate's rows, if the mechanism estimates it.
    `folded` and the share of the gap that the rows remove are computed from what was released, and never
    stored.
    """

    predicate: int
    influence: float
    influence_interval: tuple[float, float]
    rank: tuple[int, int]
    gap_without: float | None = None
    gap_without_interval: tuple[float, float] | None = None
    folded: tuple[FoldedLine, ...] = ()
    share_removed: float | None = None
    share_removed_interval: tuple[float, float] | None = None


_NOT_STORED = ("folded", "share_removed", "share_removed_interval")


@dataclass(frozen=True)
class ExplanationRelease:
    """Phase 3: the k lines as the mechanism released them."""

    rho: float
    mechanism: str
    confidence: float
    lines: tuple[ReleasedLine, ...]
    influence_scale: float | None = None  # σ of each influence, if it is the same for all
    gap: float | None = None  # the question's value, if the mechanism estimates it better than Phase 1
    gap_interval: tuple[float, float] | None = None
    private: bool = True

    def to_json(self) -> str:
        # Not asdict, which copies deeply: there may be a million lines.
        many = len(self.lines) >= _LONG
        lines = _pack_lines(self.lines) if many else [_plain_line(line) for line in self.lines]
        return json.dumps(vars(self) | {"lines": lines})

    @classmethod
    def from_json(cls, text: str) -> ExplanationRelease:
        raw: dict[str, Any] = json.loads(text)
        stored: list[dict[str, Any]] | str = raw["lines"]
        if isinstance(stored, str):
            lines = _unpack_lines(stored)
        else:
            lines = tuple(ReleasedLine(**_tuples(line)) for line in stored)
        return cls(**(_tuples(raw) | {"lines": lines}))


def _plain_line(line: ReleasedLine) -> dict[str, Any]:
    return {name: value for name, value in vars(line).items() if name not in _NOT_STORED}


def _pack_lines(lines: Sequence[ReleasedLine]) -> str:
    """Ten numbers per line, column by column; the first says whether the gap without the rows is known."""
    rows: list[tuple[float | None, ...]] = []
    for line in lines:
        numbers = (line.predicate, line.influence, *line.influence_interval, *line.rank)
        if line.gap_without_interval is None:
            rows.append((False, *numbers, 0.0, 0.0, 0.0))
        else:
            rows.append((True, *numbers, line.gap_without, *line.gap_without_interval))
    return _pack(np.array(rows, dtype=np.float64).T.ravel())


def _unpack_lines(text: str) -> tuple[ReleasedLine, ...]:
    numbers = _unpack(text)
    if len(numbers) % 10:
        raise _damaged()
    lines = []
    for row in numbers.reshape(10, -1).T.tolist():
        has_gap, predicate, influence, low, high, first, last, gap, gap_low, gap_high = row
        known = (gap, (gap_low, gap_high)) if has_gap else ()
        lines.append(ReleasedLine(int(predicate), influence, (low, high), (int(first), int(last)), *known))
    return tuple(lines)


def _tuples(raw: dict[str, Any]) -> dict[str, Any]:
    """Lists as tuples: JSON knows no tuples, and a release is frozen."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()}


@dataclass(frozen=True)
class PreparedRelease:
    """The marginals of an answer: noisy counts and sums of every cell, for every group.

    They are paid for once, and later explanations of that answer are computed from them. `cells` says how
    many cells each part has. Arrays hold (part, group, cell) in that order, and are stored compressed.
    """

    rho: float
    cells: tuple[int, ...]
    noisy_count: FloatArray
    count_scale: float
    noisy_total: FloatArray | None  # centred on the middle of the bounds for AVG, in the column's unit
    total_scale: float | None
    private: bool = True

    def per_part(self, values: FloatArray, groups: int) -> list[FloatArray]:
        """One array of (groups, cells) per part."""
        ends = np.cumsum([groups * size for size in self.cells])[:-1]
        parts = np.split(values, ends)
        return [part.reshape(groups, size) for part, size in zip(parts, self.cells, strict=True)]

    def only(
        self, parts: Sequence[int], groups: int, cells: Mapping[int, IntArray] | None = None
    ) -> PreparedRelease:
        """The release with some parts only; `cells` reorders those of a part. Post-processing, so free."""
        orders = cells or {}

        def chosen(values: FloatArray) -> FloatArray:
            split = self.per_part(values, groups)
            chosen_parts = (split[part][:, orders[part]] if part in orders else split[part] for part in parts)
            return np.concatenate([values.ravel() for values in chosen_parts])

        return replace(
            self,
            cells=tuple(self.cells[part] for part in parts),
            noisy_count=chosen(self.noisy_count),
            noisy_total=None if self.noisy_total is None else chosen(self.noisy_total),
        )

    def to_json(self) -> str:
        noisy_total = None if self.noisy_total is None else _pack(self.noisy_total)
        return json.dumps(vars(self) | {"noisy_count": _pack(self.noisy_count), "noisy_total": noisy_total})

    @classmethod
    def from_json(cls, text: str) -> PreparedRelease:
        raw = json.loads(text)
        total = raw["noisy_total"]
        unpacked = {
            "cells": tuple(raw["cells"]),
            "noisy_count": _unpack(raw["noisy_count"]),
            "noisy_total": None if total is None else _unpack(total),
        }
        return cls(**(raw | unpacked))


def _pack(values: FloatArray) -> str:
    # Noise hardly compresses: to 0.54 of its size at the quickest level, to 0.50 in four times the time.
    return base64.b64encode(zlib.compress(values.astype("<f8").tobytes(), level=1)).decode("ascii")


def _unpack(text: str) -> FloatArray:
    """The numbers that `_pack` stored; refuses other text, and more numbers than any release has."""
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(base64.b64decode(text, validate=True), _MOST_BYTES)
        is_whole = unpacking.eof and not unpacking.unused_data and len(content) % 8 == 0
    except (ValueError, TypeError, zlib.error):
        is_whole = False
    if not is_whole:
        raise _damaged()
    return np.frombuffer(content, dtype="<f8").astype(np.float64)


def _damaged() -> BadRequest:
    return BadRequest(
        "A stored result is damaged: its numbers cannot be read.",
        remedy="Ask the curator to run `dpxplain audit verify`, which shows the changes to the ledger.",
    )
