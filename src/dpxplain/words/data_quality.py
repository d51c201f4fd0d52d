"""The quality of a data set in words: what the shares say, and what they do not tell."""

from __future__ import annotations

from dpxplain.model.schema import Schema
from dpxplain.words.numbers import clean


def quality_limits(schema: Schema) -> tuple[str, ...]:
    """What the shares of a data set's quality do not tell."""
    shares = (
        "The shares are of all rows, not of one group. They do not say how far values lie beyond the bounds, "
        "nor how much capping changed a sum or an average."
    )
    unit = clean(schema.privacy.unit)
    if unit == "row":
        return (shares,)
    return (shares, f"They do not say how many rows the largest {unit} has.")


def units_misfit(max_rows: int) -> str:
    """The units that `max_rows` cuts."""
    return f"more than {max_rows:,} rows"
