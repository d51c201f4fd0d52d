"""The result of one grouped pass over the data, in codes and whole numbers.

Code 0 means outside the declared domain, code i the i-th declared value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

BIN = "(bin)"
"""Stands for a column in the codes of a histogram's pass; no column that is declared has this name."""


@dataclass(frozen=True)
class Grouped:
    """One array entry per non-empty cell.

    Codes are in a mapping of their own, because a declared column may be called `count` or `total`.
    """

    codes: Mapping[str, IntArray]  # by group-by column and attribute; 0 where not part of the subset
    subset: IntArray  # the position of the cell's attribute subset
    count: IntArray
    total: IntArray  # the sum in grid units; 0 for COUNT
