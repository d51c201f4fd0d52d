"""Whether a table's order is more than noise: how many conditions are told apart from all others."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING

from dpxplain.results.formats import number

if TYPE_CHECKING:  # slow to import, and here only for annotations
    from dpxplain.privacy.intervals import Interval
    from dpxplain.results.explanation import Explanation

_MOST_TIMES = 1_000.0  # as much budget; beyond that no price is named


def headline(table: Explanation) -> str:
    """What a table is called: noise is never announced as insight."""
    count = len(table.rows)
    order = sorted(table.rows, key=lambda row: _middle(row.influence), reverse=True)
    intervals = [row.influence for row in order]
    clear = clear_count(intervals)
    if clear == count and _are_the_first(table):
        return "The condition that matters most" if count == 1 else f"The {count} conditions that matter most"
    if clear == count == 1:
        low, high = table.rows[0].rank
        return f"May not matter most: its rank is {low:,} to {high:,} of {table.family_size:,}."
    if clear == count:
        return "Told apart from each other, but conditions that were left out may belong among them."
    doubt = "Too noisy to rank" if 2 * clear < count else "Ranked with some doubt"
    return (
        f"{doubt}: {clear} of {count} {'is' if clear == 1 else 'are'} clear{_remedy(table.rho, intervals)}."
    )


def _are_the_first(table: Explanation) -> bool:
    """Whether no condition that was left out may rank before one that is shown.

    Folded conditions take ranks too: with them, only exact ranks tell.
    """
    ranks = [row.rank for row in table.rows]
    are_exact = all(low == high for low, high in ranks)
    return are_exact or (not table.distinct and max((high for _, high in ranks), default=0) <= len(ranks))


def doubt_of(table: Explanation) -> str:
    """Said above a table whose order may be noise; empty where it is clear."""
    title = headline(table)
    return title if title.endswith(".") else ""


def clear_count(intervals: list[Interval]) -> int:
    """How many intervals overlap neither zero nor another one.

    >>> clear_count([(9.0, 10.0), (4.0, 6.0), (3.0, 5.0), (-1.0, 1.0)])
    1
    >>> clear_count([(9.0, 10.0), (8.0, 8.5), (1.0, 9.5)])  # the widest reaches beyond its neighbour
    0
    """
    unclear = {index for index, (low, high) in enumerate(intervals) if low <= 0 <= high}
    for (one, first), (other, second) in combinations(enumerate(intervals), 2):
        if first[0] <= second[1] and second[0] <= first[1]:
            unclear |= {one, other}
    return len(intervals) - len(unclear)


def enough_rho(rho: float, intervals: list[Interval]) -> float | None:
    """The budget at which no two would overlap, if the estimates are right; None if it is too large.

    Noise shrinks with the square root of the budget.

    >>> enough_rho(0.1, [(4.0, 6.0), (3.0, 5.0)])
    0.4
    """
    needed = 1.0
    for (low, high), (below, above) in combinations(intervals, 2):
        distance = _middle((low, high)) - _middle((below, above))
        reach = (high - low + above - below) / 2
        if reach <= distance:
            continue
        if distance <= 0 or not math.isfinite(reach):
            return None
        needed = max(needed, (reach / distance) ** 2)
    for low, high in intervals:
        if low <= 0 <= high and (middle := abs(_middle((low, high)))) > 0:
            needed = max(needed, ((high - low) / 2 / middle) ** 2)
    if not 1 < needed <= _MOST_TIMES:
        return None
    power: float = 10.0 ** -math.floor(math.log10(rho * needed))
    return math.ceil(round(rho * needed * power, 9)) / power


def _remedy(rho: float, intervals: list[Interval]) -> str:
    enough = enough_rho(rho, intervals) if rho > 0 else None
    return "" if enough is None else f"; about ρ {number(enough)} would tell them apart"


def _middle(ends: Interval) -> float:
    return (ends[0] + ends[1]) / 2
