"""Rows and sums of every cell of a family's columns, for every group: what `prepare` releases.

The cells of a part split each group completely, rows with undeclared values included, so one row lies in
exactly one cell per part, whatever the predicates are.
"""

from __future__ import annotations

import math

import numpy as np

from dpxplain.explanation.cells import Totals, group_index
from dpxplain.explanation.family import Family
from dpxplain.model.grouped import Grouped, IntArray


def marginals(
    grouped: Grouped,
    group_by: tuple[str, ...],
    shape: tuple[int, ...],
    family: Family,
    blocks: tuple[tuple[str, ...], ...],
) -> Totals:
    """One entry per (part, group, cell), in that order."""
    groups = group_index(grouped, group_by, shape)
    number = math.prod(shape)
    counts: list[IntArray] = []
    totals: list[IntArray] = []
    for part in family.parts:
        block = next(i for i, columns in enumerate(blocks) if set(part.columns) <= set(columns))
        rows = np.flatnonzero((groups >= 0) & (grouped.subset == block))
        cell = groups[rows] * part.cells + part.cell_of([grouped.codes[name][rows] for name in part.columns])
        for into, values in ((counts, grouped.count), (totals, grouped.total)):
            dense = np.zeros(number * part.cells, dtype=np.int64)
            np.add.at(dense, cell, values[rows])
            into.append(dense)
    return Totals(np.concatenate(counts), np.concatenate(totals))
