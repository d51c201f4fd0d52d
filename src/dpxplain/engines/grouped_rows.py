"""Converts the rows that an engine fetched for a pass into `Grouped`, the form of every engine's answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpxplain.model.grouped_pass import BIN, Grouped, cell_starts
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema
from dpxplain.sql.encoded_names import code_column
from dpxplain.sql.render import code_sizes, grouping_parts


def grouped_of(
    columns: Mapping[str, Any], query: Query, schema: Schema, subsets: tuple[tuple[str, ...], ...]
) -> Grouped:
    """The cells, from the fetched columns by name. NULL (masked) becomes 0.

    The columns are those of `grouped_select`, or those of `cells_select`, which has the cells' numbers.
    """

    def numbers(name: str) -> NDArray[np.int64]:
        column: Any = columns[name]
        is_masked = hasattr(column, "filled")  # instead of isinstance, because numpy.ma is slow to import
        return np.asarray(column.filled(0) if is_masked else column, dtype=np.int64)

    if "cell" in columns:
        fetched = {name: numbers(name) for name in columns}
        return _numbered_cells(fetched, query, schema, subsets)
    attributes = list(dict.fromkeys(name for subset in subsets for name in subset))
    codes = {name: numbers(code_column(schema, name)) for name in (*query.group_by, *attributes)}
    if "bin" in columns:
        codes[BIN] = numbers("bin")
    count = numbers("count")
    total = numbers("total") if "total" in columns else np.zeros_like(count)
    subset = np.zeros_like(count)
    if len(subsets) > 1:
        masks = [numbers(f"missing_{i}") for i in range(len(grouping_parts(attributes)))]
        subset = _subset_numbers(masks, attributes, subsets)
        for name in attributes:
            is_part = np.array([name in columns for columns in (query.group_by + s for s in subsets)])
            codes[name] = np.where(is_part[subset], codes[name], 0)
    return Grouped(codes, subset, count, total)


def _numbered_cells(
    columns: Mapping[str, NDArray[np.int64]],
    query: Query,
    schema: Schema,
    subsets: tuple[tuple[str, ...], ...],
) -> Grouped:
    """The cells of `cells_select`; each cell's codes are the digits of its number."""
    order = np.argsort(columns["cell"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    sizes = code_sizes(schema, subsets)
    starts = np.array(cell_starts(subsets, sizes))
    cell, count = columns["cell"], columns["count"]
    subset = np.searchsorted(starts, cell, side="right") - 1
    codes = {name: np.zeros_like(cell) for name in sizes}
    ends = np.searchsorted(subset, np.arange(len(subsets) + 1))
    for number, names in enumerate(subsets):
        place = slice(ends[number], ends[number + 1])
        rest = cell[place] - starts[number]
        for name in reversed(names):
            rest, codes[name][place] = np.divmod(rest, sizes[name])
    keys = {name: columns[code_column(schema, name)] for name in query.group_by}
    return Grouped({**keys, **codes}, subset, count, columns.get("total", np.zeros_like(count)))


def joined(cells: list[Grouped], sizes: list[int]) -> Grouped:
    """The cells of several statements, their subsets numbered consecutively."""
    names = dict.fromkeys(name for part in cells for name in part.codes)
    starts = np.cumsum([0, *sizes[:-1]])
    codes = {
        name: np.concatenate([part.codes.get(name, np.zeros_like(part.count)) for part in cells])
        for name in names
    }
    return Grouped(
        codes,
        np.concatenate([part.subset + start for part, start in zip(cells, starts, strict=True)]),
        np.concatenate([part.count for part in cells]),
        np.concatenate([part.total for part in cells]),
    )


def _subset_numbers(
    missing: list[NDArray[np.int64]], attributes: list[str], subsets: tuple[tuple[str, ...], ...]
) -> NDArray[np.int64]:
    """The subset of each row, from GROUPING(), which sets the bit of every attribute not in the subset."""
    parts = grouping_parts(attributes)
    number_of = {
        tuple(_missing_bits(part, subset) for part in parts): number for number, subset in enumerate(subsets)
    }
    masks, positions = np.unique(missing[0], return_inverse=True)
    patterns: list[tuple[int, ...]] = [(int(mask),) for mask in masks]
    for part in missing[1:]:  # only if there are more attributes than fit into one part
        masks, inner = np.unique(part, return_inverse=True)
        pairs, positions = np.unique(positions * len(masks) + inner, return_inverse=True)
        patterns = [(*patterns[pair // len(masks)], int(masks[pair % len(masks)])) for pair in pairs.tolist()]
    return np.array([number_of[bits] for bits in patterns], dtype=np.int64)[positions]


def _missing_bits(part: Sequence[str], subset: tuple[str, ...]) -> int:
    return sum(1 << place for place, name in enumerate(reversed(part)) if name not in subset)
