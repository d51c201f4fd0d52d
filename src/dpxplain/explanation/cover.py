"""Chooses few, wide attribute subsets to group by that contain all the narrow ones of a family.

Counts by (a, b) are sums of counts by (a, b, c): seven attributes have 35 triples, but 12 quadruples contain
them all. Grouping rows is expensive; summing a few thousand cells afterwards is not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

_SMALL = 1024  # cells up to which merging is always worth it
_GROWTH = 24  # how many times larger than the largest narrow subset a wider one may be,
_CACHED = 16_384  # as long as its cells fit a processor's cache
_MOST_SUBSETS = 5000  # beyond, finding a cover could take longer than the group-bys it saves

Subset = tuple[str, ...]


def cover(subsets: tuple[Subset, ...], sizes: Mapping[str, int]) -> tuple[Subset, ...]:
    """Wider subsets such that each given subset is contained in one of them; depends on domain sizes only.

    >>> cover((("a",), ("b",), ("c",)), {"a": 10, "b": 20, "c": 1000})
    (('c', 'a'), ('b',))
    """
    return _cover(subsets, tuple(sorted(sizes.items())))


@lru_cache(maxsize=64)
def _cover(subsets: tuple[Subset, ...], sizes: tuple[tuple[str, int], ...]) -> tuple[Subset, ...]:
    size = dict(sizes)
    names = list(dict.fromkeys(name for subset in subsets for name in subset))
    if len(names) > 62 or len(subsets) > _MOST_SUBSETS:  # subsets are bit masks below
        return subsets
    bit = {name: 1 << i for i, name in enumerate(names)}
    cells = [math.prod(size[name] for name in subset) for subset in subsets]
    largest = max(cells)
    most = max(_SMALL, min(_GROWTH * largest, _CACHED), 2 * largest)
    # The largest first: they can be widened the least.
    order = sorted(range(len(subsets)), key=lambda i: -cells[i])
    waiting = np.array([sum(bit[name] for name in subsets[i]) for i in order], dtype=np.int64)
    blocks: list[Subset] = []
    while len(waiting):
        mask = int(waiting[0])
        block = [name for name in names if mask & bit[name]]
        block.sort(key=lambda name: -size[name])
        while True:
            room = most // math.prod(size[name] for name in block)
            gains = {
                name: int(np.count_nonzero((waiting & ~np.int64(mask | bit[name])) == 0))
                for name in names
                if not mask & bit[name] and size[name] <= room
            }
            covered = int(np.count_nonzero((waiting & ~np.int64(mask)) == 0))
            # Most newly contained subsets; among equals the attribute that adds the fewest cells.
            best = max(gains, key=lambda name: (gains[name], -size[name]), default=None)
            if best is None or gains[best] <= covered:
                break
            block.append(best)
            mask |= bit[best]
        blocks.append(tuple(block))
        waiting = waiting[(waiting & ~np.int64(mask)) != 0]
    return tuple(blocks)
