"""Precision before spending: what each price buys in the answer's own unit, how well it protects, and whether
the noise it leaves is larger than what is looked for. All of it follows from declarations and releases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from typing_extensions import TypedDict

from dpxplain.model.budget import LARGEST_RHO, Budget
from dpxplain.model.query import Aggregate
from dpxplain.model.schema import Schema
from dpxplain.phases.tell_story import TYPICAL_ROWS
from dpxplain.privacy.accounting import epsilon
from dpxplain.results import formats
from dpxplain.results.explanation import PlannedExplanation
from dpxplain.results.planned_query import PlannedQuery
from dpxplain.results.preview import ExplanationPreview, QueriesPreview, QueryPreview
from dpxplain.results.story import PlannedStory, StoryPreview
from dpxplain.results.titles import in_percent
from dpxplain.wire.shapes import PreviewPayload

LIKELY_SHARE = 0.1  # of a declared range: what averages of groups often differ by
ENOUGH = 0.5  # of the gap: the error that a recommended price is to reach
_MOST_TRIES = 12  # prices, until one is found that suffices

_SCALE = ((0.5, "very strong"), (1.0, "strong"), (3.0, "moderate"), (10.0, "weak"), (math.inf, "very weak"))


class PriceLevel(TypedDict):
    """`margin` is how far off figures may be, in their own unit; empty where that is not known beforehand."""

    rho: float
    free: bool
    affordable: bool
    margin: str


class Protection(TypedDict):
    """`step` is 5 for the strongest protection; `odds` is how far a guess about one privacy unit may move."""

    epsilon: str
    step: int
    word: str
    odds: str


class Protections(TypedDict):
    """Of a request alone, and of all that its caller has spent together with it."""

    alone: Protection
    together: Protection


class PricedPreview(PreviewPayload):
    """A preview beside the prices to compare; `doubt` is said before spending, if there is any."""

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
        epsilon=formats.at_most(value),
        step=len(_SCALE) - step,
        word=_SCALE[step][1],
        odds=f"50:50 becomes {odds}{' at most' if percent < 99 else ''}",
    )


def protections(rho: float, budget: Budget) -> Protections:
    """Of a request alone, and of everything that its caller has spent together with it."""
    return Protections(
        alone=protection(rho, budget.delta), together=protection(budget.spent + rho, budget.delta)
    )


def query_levels(plan: Callable[[float], PlannedQuery], prices: Sequence[float]) -> list[PriceLevel]:
    """What each price buys of a query."""
    return [_level(preview, query_margin(planned, preview)) for planned, preview in _previews(plan, prices)]


def explanation_levels(
    plan: Callable[[float], PlannedExplanation], prices: Sequence[float]
) -> list[PriceLevel]:
    """What each price buys of an explanation."""
    previews = [plan(rho).preview() for rho in prices]
    return [_level(preview, explanation_margin(preview)) for preview in previews]


def story_levels(plan: Callable[[float], PlannedStory], prices: Sequence[float]) -> list[PriceLevel]:
    """What each price buys of a story."""
    previews = [plan(rho).preview() for rho in prices]
    return [_level(preview, story_margin(preview)) for preview in previews]


def story_margin(preview: StoryPreview) -> str:
    """How far off the gap of a story's last step may be."""
    where = "" if preview.rows_in_group is None else f" in groups of {preview.rows_in_group:,}"
    return f"±{preview.unit.number(preview.gap_margin)} on the {preview.measured}{where}"


def query_margin(planned: PlannedQuery, preview: QueryPreview | QueriesPreview) -> str:
    """How far off a group's values may be, in their own units; '' where the noise alone does not say."""
    parts = [part for _, part in preview.parts] if isinstance(preview, QueriesPreview) else [preview]
    schema = planned.schema
    texts = []
    for query, part in zip(planned.statement.queries, parts, strict=True):
        margin, where = _typical_margin(part)
        if margin is not None and math.isfinite(margin):
            texts.append(f"±{in_unit(margin, query.aggregate, schema)}{where}")
    return ", ".join(dict.fromkeys(texts))


def in_unit(margin: float, aggregate: Aggregate, schema: Schema) -> str:
    """A margin with the unit of the aggregate.

    >>> people = Schema.load({"table": {"name": "p"}, "privacy": {"rho": 1}, "columns": {
    ...     "rich": {"bounds": [0, 1], "step": 1, "label": "high income"},
    ...     "pay": {"bounds": [0, 9], "unit": "dollars"}}})
    >>> in_unit(0.0123, Aggregate("avg", "rich"), people), in_unit(3.1, Aggregate("avg", "pay"), people)
    ('1.23 percentage points', '3.1 dollars')
    >>> in_unit(12.3, Aggregate("count", None), people)
    '13 rows'
    """
    if aggregate.kind == "count":
        return f"{math.ceil(margin):,} rows"
    if aggregate.kind == "persons":
        return f"{math.ceil(margin):,} {formats.clean(schema.privacy.unit)}s"
    if in_percent(aggregate, schema):
        return f"{formats.number(margin * 100)} percentage points"
    unit = schema.column(aggregate.column).unit if aggregate.column else ""
    squared = " squared" if unit and aggregate.kind.startswith("var") else ""
    return f"{formats.number(margin)}{f' {formats.clean(unit)}{squared}' if unit else ''}"


def explanation_margin(preview: ExplanationPreview) -> str:
    """How far off a table's figures may be: on the gap where that says something, or else on influences."""
    if preview.gap_margin is not None and math.isfinite(preview.gap_margin):
        return f"±{preview.unit.number(preview.gap_margin)} on the {preview.measured}"
    if preview.relative_margin:
        return f"±{formats.number(100 * preview.relative_margin)}% relative influence"
    return f"±{formats.number(preview.influence_margin)} influence"


def query_hints(plan: Callable[[float], PlannedQuery], rho: float) -> tuple[str, str]:
    """Which differences a price can tell, and a warning where likely ones are lost in its noise."""
    (planned, preview), *_ = _previews(plan, [rho])
    if isinstance(preview, QueriesPreview) or len(planned.statement.query.group_by) == 0:
        return "", ""
    smallest = _smallest_gap(preview)
    if smallest is None:
        return "", ""
    aggregate, schema = planned.statement.query.aggregate, planned.schema
    of_rows = f" of {TYPICAL_ROWS:,} rows" if preview.margin is None else ""
    reach = in_unit(smallest, aggregate, schema)
    sentence = f"Two groups{of_rows} are told apart when they differ by about {reach}."
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
    remedy = "" if sufficient is None else f" About {formats.rho(sufficient)} would do."
    return sentence, (
        "This is likely too rough: a gap of a tenth of the declared range, "
        f"{in_unit(likely_gap, aggregate, schema)}, would be lost in the noise of groups{of_rows}.{remedy}"
    )


def explanation_doubt(plan: Callable[[float], PlannedExplanation], rho: float) -> str:
    """A warning where the expected error exceeds the gap to be explained, with the price that would do."""
    preview = plan(rho).preview()
    return _doubt(lambda price: plan(price).preview().relative_margin, rho, preview)


def story_doubt(plan: Callable[[float], PlannedStory], rho: float) -> str:
    """A warning where the expected error exceeds the gap of a story, with the price that would do."""

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
        remedy = f" About {formats.rho(sufficient)} would bring it to half of the {gap}."
    return f"The expected error is larger than the {gap} itself, so little would be told apart.{remedy}"


def _level(
    preview: QueryPreview | QueriesPreview | ExplanationPreview | StoryPreview, margin: str
) -> PriceLevel:
    price = preview.price
    return PriceLevel(rho=price.rho, free=price.free, affordable=price.affordable, margin=margin)


def _previews(
    plan: Callable[[float], PlannedQuery], prices: Sequence[float]
) -> list[tuple[PlannedQuery, QueryPreview | QueriesPreview]]:
    planned = [plan(rho) for rho in prices]
    return [(query, query.preview()) for query in planned]


def _typical_margin(preview: QueryPreview) -> tuple[float | None, str]:
    if preview.margin is not None:
        return preview.margin, ""
    by_size = dict(preview.margin_by_group_size)
    return by_size.get(TYPICAL_ROWS), f" in a group of {TYPICAL_ROWS:,}"


def _smallest_gap(preview: QueryPreview) -> float | None:
    """The difference that the noise of two groups reaches together: √2 margins, as it is independent."""
    margin, _ = _typical_margin(preview)
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
