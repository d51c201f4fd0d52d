"""How a table by a custom influence is shown: intervals that may be open, and ranks."""

from __future__ import annotations

import math

from dpxplain.render import words
from dpxplain.render.layout import Column, Grid, View
from dpxplain.results import formats
from dpxplain.results.custom_explanation import CustomExplanation
from dpxplain.results.sentences import NOT_PRIVATE


def custom_view(table: CustomExplanation, most: int = 20) -> View:
    question, name = table.question, formats.clean(table.release.influence)
    hidden = len(table) - most
    return View(
        title=formats.clean(question.text),
        warning="" if table.private and question.answer.private else NOT_PRIVATE,
        verdict=question.verdict,
        lead=(f"Predicates by the influence “{name}”, found and ranked by how many rows would change that.",),
        grid=Grid(
            columns=(
                Column("predicate", wrap=True),
                Column("influence", "right"),
                Column(f"rank of {table.family_size:,}", "right"),
            ),
            rows=tuple(
                (formats.clean(row.predicate.label), interval_text(row.influence), formats.ranks(*row.rank))
                for row in table.rows[:most]
            ),
            more=f"… and {hidden:,} more" if hidden > 0 else "",
        ),
        notes=(
            words.cost(table.rho, table.spends, table.free),
            f"{formats.level(table.confidence)} intervals. {words.CAVEAT}",
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
        return f"below {formats.number(high)}"
    if math.isinf(high):
        return f"{formats.number(low)} or more"
    return formats.interval(low, high)
