"""A forecast of what a preparation will make clear, shown before anybody pays for it."""

from __future__ import annotations

from collections.abc import Sequence

from dpxplain.model.schema import Privacy
from dpxplain.words.numbers import PERCENT, PLAIN, POINTS, clean, number, rho


def preparation_forecast(
    smallest: float | None,
    gap: float | None,
    labels: Sequence[str],
    price: float,
    privacy: Privacy,
    *,
    in_percent: bool,
) -> str:
    """A sentence on the smallest change of the gap that will be clear; also as a share of a known gap.

    >>> one_row, persons = Privacy(rho=1), Privacy(rho=1, unit="person", max_rows=15)
    >>> preparation_forecast(0.0033, 0.4, ["A", "B"], 0.02, one_row, in_percent=True)
    'At ρ 0.02, only a change of a gap above 0.33 pp can be clear. Between A and B that is 0.825% of the gap.'
    >>> preparation_forecast(0.4, 0.3, ["A"], 0.5, persons, in_percent=False)[34:]
    'only a change of the value above 0.4 can be clear. That is more than the whole value of 0.3.'
    >>> preparation_forecast(0.4, None, ["A", "B"], 0.5, persons, in_percent=False)
    'At ρ 0.5 with 15 rows per person, only a change of a gap above 0.4 can be clear.'
    >>> preparation_forecast(None, None, ["A", "B"], 0.01, one_row, in_percent=False)
    'At ρ 0.01, hardly any change of a gap will be clear: the groups are too small for so much noise.'
    """
    rows = "" if privacy.unit == "row" else f" with {privacy.max_rows:,} rows per {clean(privacy.unit)}"
    begin = f"At {rho(price)}{rows},"
    measured = "the value" if len(labels) < 2 else "a gap"
    if smallest is None:
        reason = "the groups are too small for so much noise"
        return f"{begin} hardly any change of {measured} will be clear: {reason}."
    unit = (POINTS if len(labels) > 1 else PERCENT) if in_percent else PLAIN
    sentence = f"{begin} only a change of {measured} above {unit.number(smallest)} can be clear."
    if gap is None:
        return sentence
    where = f"Between {clean(labels[0])} and {clean(labels[1])} that is" if len(labels) > 1 else "That is"
    whole = "gap" if len(labels) > 1 else "value"
    if smallest >= gap:
        return f"{sentence} {where} more than the whole {whole} of {unit.number(gap)}."
    return f"{sentence} {where} {number(100 * smallest / gap)}% of the {whole}."
