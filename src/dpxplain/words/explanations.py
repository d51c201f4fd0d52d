"""An explanation in words: each row's effect and sentence, the notes below a table, and what would help."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from dpxplain.model.contrast import Verdict
from dpxplain.privacy.mechanisms.rank_bounds import LOWER_SHARE
from dpxplain.words.findings import Effect, Explained, Interval, share_text, these_rows
from dpxplain.words.numbers import interval, level, percent, rho, whole_percent

UNMATCHED = "A row whose value is not in a column's list matches no condition on that column."
LOST_IN_NOISE = "{count}, too noisy to tell"
AS_ASKED = "{count}, for the difference as it was asked"
CUSTOM_INTERVALS = (
    "{} intervals. Each says how many rows would have to change to make the influence or the rank different."
)
MAY_MISS = "A condition that matters slightly more may be missing from the table."
STORY_ORDER = "Which condition comes first at each step is an estimate."
STORY_ADVICE = "A larger ρ, or fewer columns with attributes=[…], may show more."
ORDER_PRICE = "The order would be clear for about {rho}."
_FOLDED = 4  # conditions named under a row; the others are counted
_MOST_TIMES = 1_000.0  # times the budget spent; beyond that no price is named
_MANY_VALUES = 20  # of a column: with so many, noise alone can fill a table with them


def effect_text(effect: Effect) -> str:
    """A condition's effect in a few words: shrinks, widens or unclear, and by how much.

    >>> effect_text(Effect("x", "shrinks", (1, 2), share=(0.09, 0.11)))
    'shrinks by 9–11%'
    >>> effect_text(Effect("x", "widens", (-2, -1), share=(-0.2, -0.1)))
    'widens by 10–20%'
    >>> effect_text(Effect("x", "unclear", (-1, 2))), effect_text(Effect("x", "shrinks", (1, 2)))
    ('unclear', 'shrinks')
    """
    if effect.share is None or effect.effect == "unclear":
        return effect.effect
    low, high = effect.share
    if effect.effect == "shrinks":
        return f"shrinks by {share_text(effect.share)}"
    least, most = (f"{whole_percent(-end):,}" for end in (high, low))
    return f"widens by {least}%" if least == most else f"widens by {least}–{most}%"


def row_sentence(table: Explained, effect: Effect) -> str:
    """One condition in a sentence that claims no more than its interval."""
    asked, rows = table.asked, these_rows(effect)
    if effect.without is None or table.gap is None:
        if effect.effect == "unclear":
            return f"Leaving out {rows} has no clear effect on the {asked.measured}."
        return f"Leaving out {rows} {effect.effect} the {asked.measured}."
    if not all(map(math.isfinite, effect.without)):
        return f"Without {rows}, one of the groups may be empty, so the {asked.measured} is unknown."
    gap = asked.unit.bare(table.gap, asked.interval[1] - asked.interval[0])
    without = asked.unit.span(*effect.without, asked.constant)
    change = f"Without {rows}, the {asked.measured} of {gap} would be {without}"
    return f"{change}. That is no clear change." if effect.effect == "unclear" else f"{change}."


def folded_note(names: Sequence[str], shares: Sequence[Interval]) -> str:
    """A note on conditions that nearly repeat a row's; `shares` are intervals of the common rows.

    >>> folded_note(["a = 1", "b = 2"], [(0.9, 0.95)])
    'Also: a = 1; b = 2 (90.0% to 95.0% the same rows).'
    """
    further = len(names) - _FOLDED
    listed = "; ".join(names[:_FOLDED]) + (f"; and {further:,} more" if further > 0 else "")
    if not shares:
        return f"Also: {listed} (one implies the other)."
    common = percent(min(low for low, _ in shares), max(high for _, high in shares))
    return f"Also: {listed} ({common} the same rows)."


def short_effects(measured: str, verdict: Verdict) -> tuple[str, str]:
    """What leaving rows out does if influence is above zero, and if it is below."""
    if measured == "gap" and verdict is Verdict.REAL:
        return "shrinks the gap", "widens the gap"
    return f"lowers the {measured}", f"raises the {measured}"


def relative_text(influence: Interval, relative: Interval | None) -> str:
    """The interval of relative influence, or of influence if there is no relative one."""
    return interval(*influence) if relative is None else percent(*relative)


def influence_note(kind: str, measured: str, *, is_relative: bool) -> str:
    """What influence means, for tables that show it."""
    scaled = "scaled down when few rows would remain"
    if is_relative:
        return (
            f"Relative influence: the share of the {measured} that disappears without these rows, {scaled}."
        )
    if kind == "avg":
        scaled = "times the rows that remain in the smallest group"
    return f"Influence: how much of the {measured} disappears without these rows, {scaled}."


def promise(confidence: float, family_size: int, *, together: bool) -> str:
    """What the intervals of a table promise."""
    intervals = f"All {family_size:,} intervals hold together" if together else "Each interval holds"
    return f"{intervals} with {level(confidence)} confidence. Intervals cover privacy noise only."


def mechanism_note(mechanism: str, reason: str, lower_share: float | None) -> str:
    """The mechanism of a table and why it was used; also `lower_share` if it is not the default."""
    note = f"Mechanism: {mechanism} ({reason})."
    if lower_share in (None, LOWER_SHARE):
        return note
    return f"{note} {100 * lower_share:.4g}% of the ρ for ranks is spent on their lower bounds."


def enough_rho(spent: float, intervals: Sequence[Interval]) -> float | None:
    """The budget at which no two intervals would overlap, if the estimates are right.

    None if none overlap now, or if it is too large. Noise shrinks with the square root of the budget.

    >>> enough_rho(0.1, [(4.0, 6.0), (3.0, 5.0)])
    0.4
    """
    needed = 1.0
    for (low, high), (below, above) in combinations(intervals, 2):
        distance = abs((low + high) - (below + above)) / 2
        reach = (high - low + above - below) / 2
        if reach > distance:
            needed = max(needed, (reach / distance) ** 2 if distance > 0 else math.inf)
    return _rounded_up(spent * needed) if 1 < needed <= _MOST_TIMES else None


def clear_rho(spent: float, intervals: Iterable[Interval]) -> float | None:
    """The budget at which the strongest interval would exclude zero, if its estimate is right.

    >>> clear_rho(0.1, [(-1.0, 3.0), (-2.0, 2.5)]), clear_rho(0.1, [(-1.0, 1.0)])
    (0.4, None)
    """
    needed = math.inf
    for low, high in intervals:
        middle, reach = abs(low + high) / 2, (high - low) / 2
        if 0 < middle <= reach < math.inf:
            needed = min(needed, (reach / middle) ** 2)
    return _rounded_up(spent * needed) if needed <= _MOST_TIMES else None


def _rounded_up(value: float) -> float:
    """The price rounded up to one digit, so that it is not too low."""
    power: float = 10.0 ** -math.floor(math.log10(value))
    return math.ceil(round(value * power, 9)) / power


@dataclass(frozen=True)
class Circumstances:
    """The facts that `advice` needs: the budget spent and left, and what the table was chosen from."""

    spent: float
    remaining: float | None  # None where it is not known
    conditions: int  # in the family
    columns: tuple[str, ...]  # the first column of each row's condition
    values: dict[str, int]  # how many values each column declares
    conjuncts: int = 1


def advice(intervals: Sequence[Interval], known: Circumstances) -> str:
    """What would help where nothing is clear: at most two sentences, and no price above what is left."""
    crowd = max(set(known.columns), key=known.columns.count, default="")
    crowded = known.columns.count(crowd) * 2 > len(known.columns)
    if crowded and len(known.values) > 1 and known.values.get(crowd, 0) >= _MANY_VALUES:
        places = f"{known.columns.count(crowd)} of the {len(known.columns)} places in the table"
        return (
            f"Try again without the column {crowd} (exclude=[{crowd!r}]): by chance alone, its "
            f"{known.values[crowd]:,} values took {places}."
        )
    if known.conjuncts > 1:
        return (
            f"Single conditions (conjuncts=1) are easier to tell apart than these {known.conditions:,} "
            "combinations."
        )
    enough = clear_rho(known.spent, intervals)
    if known.remaining is None:
        return ""
    if enough is not None and enough <= known.remaining:
        return (
            f"Spending about {rho(enough)} of the privacy budget ({rho(known.remaining)} is left) would "
            "probably make one condition clear."
        )
    too_small = "The remaining budget is probably too small to make any condition clear."
    return f"{too_small} Try fewer columns: attributes=[…]." if len(known.values) > 2 else too_small
