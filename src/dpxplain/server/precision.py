"""Precision before spending: the margin that each price buys, in the answer's own unit; how well that price
protects; and whether its noise would hide the difference in question.

Everything is computed from declarations and releases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from typing_extensions import TypedDict

from dpxplain.model.budget import LARGEST_RHO, Budget
from dpxplain.phases.tell_story import TYPICAL_ROWS
from dpxplain.privacy.accounting import epsilon
from dpxplain.results.explanation import PlannedExplanation
from dpxplain.results.planned_query import PlannedQuery
from dpxplain.results.preview import ExplanationPreview, QueriesPreview, QueryPreview
from dpxplain.results.price_levels import PriceLevel, in_unit, typical_margin
from dpxplain.results.story import PlannedStory, StoryPreview
from dpxplain.wire.shapes import PreviewPayload
from dpxplain.words import numbers

LIKELY_SHARE = 0.1  # of a declared range: averages of groups often differ by this much
ENOUGH = 0.5  # of the gap: the largest error at a recommended price
_MOST_TRIES = 12  # prices tried to find one that suffices

_SCALE = ((0.5, "very strong"), (1.0, "strong"), (3.0, "moderate"), (10.0, "weak"), (math.inf, "very weak"))


class Protection(TypedDict):
    """`step` is 5 for the strongest protection; `odds` is how far a guess about one privacy unit may move."""

    epsilon: str
    step: int
    word: str
    odds: str


class Protections(TypedDict):
    """The protection of a request alone, and together with all that its caller has spent."""

    alone: Protection
    together: Protection


class PricedPreview(PreviewPayload):
    """A preview with the prices to compare. `doubt` is a warning to show before spending, or empty."""

    levels: list[PriceLevel]
    protection: Protections
    tells: str
    doubt: str


def protection(rho: float, delta: float) -> Protection:
    """ε in plain words: how far a release may move a guess about one privacy unit.

    >>> protection(0.001, 1e-6)
    {'epsilon': '0.183', 'step': 5, 'word': 'very strong', 'odds': '50:50 becomes 55:45 at most'}
    """
    value = epsilon(rho, delta)
    step = next(index for index, (most, _) in enumerate(_SCALE) if value <= most)
    percent = min(100 / (1 + math.exp(-min(value, 50.0))), 99.9)
    odds = f"{math.ceil(percent)}:{100 - math.ceil(percent)}" if percent < 99 else "99:1 or more"
    return Protection(
        epsilon=numbers.at_most(value),
        step=len(_SCALE) - step,
        word=_SCALE[step][1],
        odds=f"50:50 becomes {odds}{' at most' if percent < 99 else ''}",
    )


def protections(rho: float, budget: Budget) -> Protections:
    """The protection of a request alone, and together with all that its caller has spent."""
    return Protections(
        alone=protection(rho, budget.delta), together=protection(budget.spent + rho, budget.delta)
    )


def story_margin(preview: StoryPreview) -> str:
    """How far off the gap of a story's last step may be."""
    where = "" if preview.rows_in_group is None else f" in groups of {preview.rows_in_group:,}"
    return f"±{preview.unit.number(preview.gap_margin)} on the {preview.measured}{where}"


def explanation_margin(preview: ExplanationPreview) -> str:
    """How far off a table's figures may be: in terms of the gap if that is useful, or else of influences."""
    if preview.gap_margin is not None and math.isfinite(preview.gap_margin):
        return f"±{preview.unit.number(preview.gap_margin)} on the {preview.measured}"
    if preview.relative_margin:
        return f"±{numbers.number(100 * preview.relative_margin)}% relative influence"
    return f"±{numbers.number(preview.influence_margin)} influence"


def query_hints(plan: Callable[[float], PlannedQuery], rho: float) -> tuple[str, str]:
    """The differences that a price can show, and a warning if likely differences would be lost in noise."""
    (planned, preview), *_ = _previews(plan, [rho])
    if isinstance(preview, QueriesPreview) or len(planned.statement.query.group_by) == 0:
        return "", ""
    smallest = _smallest_gap(preview)
    if smallest is None:
        return "", ""
    aggregate, schema = planned.statement.query.aggregate, planned.schema
    of_rows = f" of {TYPICAL_ROWS:,} rows" if preview.margin is None else ""
    reach = in_unit(smallest, aggregate, schema)
    sentence = f"You will be able to tell two groups{of_rows} apart if they differ by about {reach}."
    bounds = schema.column(aggregate.column).bounds if aggregate.column else None
    if aggregate.kind != "avg" or bounds is None or preview.price.free:
        return sentence, ""
    likely_gap = LIKELY_SHARE * (bounds[1] - bounds[0])
    if smallest <= likely_gap:
        return sentence, ""

    def smallest_gap_at(price: float) -> float | None:
        ((_, priced),) = _previews(plan, [price])
        assert isinstance(priced, QueryPreview)
        return _smallest_gap(priced)

    sufficient = _sufficient_price(smallest_gap_at, rho, likely_gap)
    remedy = "" if sufficient is None else f" About {numbers.rho(sufficient)} would be enough."
    return sentence, (
        f"This is probably too noisy. With groups{of_rows}, you would not see a difference of "
        f"{in_unit(likely_gap, aggregate, schema)}, a tenth of the declared range.{remedy}"
    )


def explanation_doubt(plan: Callable[[float], PlannedExplanation], rho: float) -> str:
    """A warning, with a sufficient price, if the expected error exceeds the gap to be explained."""
    preview = plan(rho).preview()
    return _doubt(lambda price: plan(price).preview().relative_margin, rho, preview)


def story_doubt(plan: Callable[[float], PlannedStory], rho: float) -> str:
    """A warning, with a sufficient price, if the expected error exceeds the gap of a story."""

    def relative_error(price: float) -> float | None:
        planned = plan(price)
        gap = abs(planned.question.estimate)
        return planned.preview().gap_margin / gap if gap else None

    return _doubt(relative_error, rho, plan(rho).preview())


def _doubt(
    relative_error: Callable[[float], float | None], rho: float, preview: ExplanationPreview | StoryPreview
) -> str:
    relative = relative_error(rho)
    if relative is None or relative <= 1 or preview.price.free:
        return ""
    gap = preview.measured
    sufficient = _sufficient_price(relative_error, rho, ENOUGH)
    remedy = ""
    if sufficient is not None:
        remedy = f" About {numbers.rho(sufficient)} would reduce the error to half of the {gap}."
    return f"The expected error is larger than the {gap} itself, so you would learn little.{remedy}"


def _previews(
    plan: Callable[[float], PlannedQuery], prices: Sequence[float]
) -> list[tuple[PlannedQuery, QueryPreview | QueriesPreview]]:
    planned = [plan(rho) for rho in prices]
    return [(query, query.preview()) for query in planned]


def _smallest_gap(preview: QueryPreview) -> float | None:
    """The margin of the difference of two groups: √2 times one group's, as their noise is independent."""
    margin, _ = typical_margin(preview)
    return None if margin is None or not math.isfinite(margin) else margin * math.sqrt(2)


def _sufficient_price(error: Callable[[float], float | None], rho: float, wanted: float) -> float | None:
    """A price, to two digits, at which the planner expects the wanted error or less; None if none is near."""
    for _ in range(_MOST_TRIES):
        expected = error(rho)
        if expected is None or rho > LARGEST_RHO:
            return None
        if expected <= wanted:
            return rho
        rho = _rounded_up(rho * max(1.05, (expected / wanted) ** 2))
    return None


def _rounded_up(rho: float) -> float:
    power: float = 10.0 ** (1 - math.floor(math.log10(rho)))
    return math.ceil(round(rho * power, 9)) / power
