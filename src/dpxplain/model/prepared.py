"""The released marginals of an answer: noisy rows and sums of every cell, for every group.

Paid for once; every later question on that answer is read off them. Numbers are stored compactly,
because there are many.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class PreparedRelease:
    """`cells` says how many cells each part has; arrays hold (part, group, cell) in that order."""

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

    def only(self, parts: Sequence[int], groups: int) -> PreparedRelease:
        """The same cells of some parts only; post-processing, so free."""

        def chosen(values: FloatArray) -> FloatArray:
            split = self.per_part(values, groups)
            return np.concatenate([split[part].ravel() for part in parts])

        return replace(
            self,
            cells=tuple(self.cells[part] for part in parts),
            noisy_count=chosen(self.noisy_count),
            noisy_total=None if self.noisy_total is None else chosen(self.noisy_total),
        )

    def to_json(self) -> str:
        return json.dumps(
            {
                "rho": self.rho,
                "cells": self.cells,
                "noisy_count": _pack(self.noisy_count),
                "count_scale": self.count_scale,
                "noisy_total": None if self.noisy_total is None else _pack(self.noisy_total),
                "total_scale": self.total_scale,
                "private": self.private,
            }
        )

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
    return base64.b64encode(zlib.compress(values.astype("<f8").tobytes())).decode("ascii")


def _unpack(text: str) -> FloatArray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<f8").astype(np.float64)
