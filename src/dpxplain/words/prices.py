"""Prices in words: the cost of a request, the budget left, and the expected precision of the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dpxplain.model.charge import Spend, gaussian_part, rho_of_units, spend_units
from dpxplain.model.schema import Privacy, Schema
from dpxplain.privacy.accounting import epsilon
from dpxplain.words.numbers import PERCENT, PLAIN, POINTS, Unit, at_most, clean, interval, level, number, rho

if TYPE_CHECKING:
    from dpxplain.phases.dataset import OpenDataset

# -- Prices ------------------------------------------------------------------------------------------------

FREE_QUESTION = "Free: a question uses only the answer you already have."
FREE_FORMULA = "Free: a formula uses only the answer you already have."
PREPARED = "Free: this answer is prepared."
STORED = "Free: this was asked before, and the stored result is shown."
EPSILON = (
    "ρ adds up over requests. ε does not, so each ε here is converted separately. Whatever is asked, all "
    "answers paid from this budget together stay within the ε of the limit."
)


class Priced(Protocol):
    """Any plan that has a price."""

    @property
    def rho(self) -> float: ...

    @property
    def spends(self) -> tuple[Spend, ...]: ...


@dataclass(frozen=True)
class Price:
    """The price and the budget, which every preview shows."""

    rho: float
    spends: tuple[Spend, ...]
    remaining: float  # before spending
    free: bool  # the identical request is stored already
    delta: float  # at which ε is shown

    @classmethod
    def of(cls, plan: Priced, dataset: OpenDataset, *, free: bool) -> Price:
        remaining = dataset.ledger.budget(dataset.name).remaining
        return cls(plan.rho, plan.spends, remaining, free, dataset.schema.privacy.delta)

    @property
    def epsilon(self) -> float:
        """The ε of this price alone, at the declared δ."""
        return epsilon(self.rho, self.delta, gaussian_part(self.rho, self.spends))

    @property
    def affordable(self) -> bool:
        return self.free or spend_units(self.rho) <= spend_units(self.remaining)

    @property
    def remaining_after(self) -> float:
        if self.free:
            return self.remaining
        return rho_of_units(max(0, spend_units(self.remaining) - spend_units(self.rho)))


def cost(total: float, spends: Sequence[Spend], free: bool = False) -> str:
    """The cost of a result, with the share of each mechanism."""
    parts = " + ".join(f"{spend} {spend.rho:.4g}" for spend in spends)
    split = f" = {parts}" if len(spends) > 1 else f" for {spends[0]}" if spends else ""
    if free:
        return f"Free: asked before. The first time it cost {rho(total)}{split}."
    return f"Cost: {rho(total)}{split}."


def price(quote: Price) -> tuple[str, ...]:
    """The first lines of a preview: the cost, and what would be left."""
    if quote.free and not quote.rho:
        return (PREPARED,)
    if quote.free:
        return (STORED,)
    total = f"Price: {rho_and_epsilon(quote.rho, quote.epsilon, quote.delta)}."
    if not quote.affordable:
        return total, f"Only {rho(quote.remaining)} is left, so the request would be refused."
    left = f"{rho(quote.remaining)} is left now, {rho(quote.remaining_after)} afterwards."
    return total, left


def price_summary(quote: Price, *, once: bool = False) -> str:
    """The price in one sentence; `once` if it also pays for every further explanation."""
    if quote.free:
        return STORED if quote.rho else PREPARED
    total, remaining = f"{quote.rho:.6g}", f"{quote.remaining:.6g}"
    if not quote.affordable:
        return f"Costs {total}, but only {remaining} is left."
    return f"Costs {total} of {remaining} left{', once' if once else ''}."


def rho_and_epsilon(rho: float, epsilon: float, delta: float) -> str:
    """A price in ρ, with its ε rounded up.

    >>> rho_and_epsilon(0.00770116, 0.4999999, 1e-6)
    'ρ 0.00770116 (ε 0.5 at δ 1e-6)'
    """
    return f"ρ {rho:.6g} ({epsilon_at(epsilon, delta)})"


def epsilon_at(epsilon: float, delta: float) -> str:
    """An ε, rounded up, with its δ.

    >>> epsilon_at(0.12345, 1e-12)
    'ε 0.124 at δ 1e-12'
    """
    return f"ε {at_most(epsilon)} at {delta_text(delta)}"


def delta_text(delta: float) -> str:
    """
    >>> delta_text(1e-6), delta_text(0.001)
    ('δ 1e-6', 'δ 0.001')
    """
    return f"δ {delta:g}".replace("e-0", "e-")


# -- Expected precision ------------------------------------------------------------------------------------


class ExpectedAnswer(Protocol):
    """The expected precision of a query."""

    @property
    def confidence(self) -> float: ...

    @property
    def margin(self) -> float | None: ...

    @property
    def margin_by_group_size(self) -> tuple[tuple[int, float], ...]: ...


def expected_margin(preview: ExpectedAnswer, name: str = "") -> str:
    """The expected margin of each group's value, as a sentence."""
    begin = f"{clean(name)}: expected" if name else "Expected"
    sure = f"({level(preview.confidence)} interval)"
    if preview.margin is not None:
        return f"{begin} ±{number(preview.margin)} per group {sure}."
    if not preview.margin_by_group_size:  # of a quantile
        return f"{begin} interval unknown before asking, as its width depends on the values."
    sizes = [f"±{number(m)} in a group of {size:,}" for size, m in preview.margin_by_group_size]
    return f"{begin} {', '.join(sizes)} rows {sure}."


def expected_count(margin: float, confidence: float) -> str:
    """The expected margin of each count of rows, as a sentence."""
    return f"Expected ±{number(margin)} rows per count ({level(confidence)} interval)."


def expected_effects(
    measured: str, unit: Unit, *, gap: float | None, relative: float | None, influence: float
) -> str:
    """The expected precision of an explanation's effects, in the figure that the table will show."""
    if gap is not None:
        accuracy = f"±{unit.about(gap, gap)}"
        return f"Each {measured} without a condition's rows will be accurate to about {accuracy}."
    if relative is not None:
        return f"Each relative influence will be accurate to about ±{number(relative * 100)}%."
    return f"Each influence will be accurate to about ±{number(influence)}."


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


# -- Discovery ---------------------------------------------------------------------------------------------

DISCOVERY_DELTA = "Discovering values adds at most {:g} to this δ."


def discovered_delta(spent: float, total: float) -> str:
    """A note beside an ε at δ if values were discovered."""
    return (
        f"Discovering values has spent up to δ = {spent:g} as well. "
        f"Everything asked together is (ε, {total:g})-differentially private."
    )


def budget_notes(discovered: float, total: float) -> tuple[str, ...]:
    """What the ε of a budget means, and the δ that discoveries have spent, if they have."""
    return (EPSILON, discovered_delta(discovered, total)) if discovered else (EPSILON,)


def threshold(least: int, delta: float) -> str:
    """The number of units that a value needs to be discovered, as sentences."""
    return (
        f"A value is found if its noisy number of units exceeds {least:,}. The chance to find a value "
        f"that only one unit has is below δ = {delta:.3g}. This δ is spent in addition to ρ."
    )


# -- Data quality ------------------------------------------------------------------------------------------

QUALITY_USE = "Every answer now says how much of the data was capped or left out."


def quality_limits(schema: Schema) -> tuple[str, ...]:
    """The limits of the measured shares, as sentences."""
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


def lost(low: float, high: float) -> str:
    """A number of rows that are left out; the upper end may be unknown."""
    return f"{interval(low, high)} lost" if math.isfinite(high) else f"at least {number(low)} lost"
