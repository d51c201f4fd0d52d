"""How a table by a custom influence is shown: intervals that may be open, and ranks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpxplain.render import words
from dpxplain.render.layout import Column, Grid, View

if TYPE_CHECKING:
    from dpxplain.results.custom_explanation import CustomExplanation


def custom_view(table: CustomExplanation, most: int = 20) -> View:
    question, name = table.question, words.clean(table.release.influence)
    hidden = len(table) - most
    return View(
        title=words.clean(question.text),
        warning="" if table.private and question.answer.private else words.NOT_PRIVATE,
        verdict=question.verdict,
        lead=(f"Predicates by the influence “{name}”, found and ranked by how many rows would change that.",),
        grid=Grid(
            columns=(
                Column("predicate", wrap=True),
                Column("influence", "right"),
                Column(f"rank of {table.family_size:,}", "right"),
            ),
            rows=tuple(
                (words.clean(row.predicate.label), interval_text(row.influence), words.ranks(*row.rank))
                for row in table.rows[:most]
            ),
            more=f"… and {hidden:,} more" if hidden > 0 else "",
        ),
        notes=(
            words.cost(table.rho, table.spends, table.free),
            f"{words.level(table.confidence)} intervals. {words.CAVEAT}",
        ),
    )


def interval_text(interval: tuple[float, float]) -> str:
    """
    >>> interval_text((-math.inf, 0.25)), interval_text((2.0, math.inf)), interval_text((-math.inf, math.inf))
    ('below 0.25', '2 or more', 'unknown')
    """
    low, high = interval
    if math.isinf(low) and math.isinf(high):
        return "unknown"
    if math.isinf(low):
        return f"below {words.number(high)}"
    if math.isinf(high):
        return f"{words.number(low)} or more"
    return words.interval(low, high)
