"""Data quality in words: what the shares do not tell, and the name of a misfit."""

from __future__ import annotations

from dpxplain.model.schema import Schema
from dpxplain.words.numbers import clean


def quality_limits(schema: Schema) -> tuple[str, ...]:
    """What the measured shares do not tell, as sentences."""
    shares = (
        "The shares are percentages of all rows, not of one group. They do not say how far values lie beyond "
        "the bounds, nor how much capping changed a sum or an average."
    )
    unit = clean(schema.privacy.unit)
    if unit == "row":
        return (shares,)
    return (shares, f"They do not say how many rows the largest {unit} has.")


def units_misfit(max_rows: int) -> str:
    """The misfit of privacy units with more rows than `max_rows`."""
    return f"more than {max_rows:,} rows"
