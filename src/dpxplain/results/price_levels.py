"""The precision that the prices Rough, Good and Sharp buy, in a query's own unit, from declarations alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from typing_extensions import TypedDict

from dpxplain.errors import BadRequest
from dpxplain.model.budget import Budget
from dpxplain.model.query import Aggregate
from dpxplain.model.schema import Schema
from dpxplain.phases.tell_story import TYPICAL_ROWS
from dpxplain.results.asked_price import NAMES, USUAL_QUERY, ladder
from dpxplain.results.planned_query import PlannedQuery
from dpxplain.results.preview import Price, QueriesPreview, QueryPreview
from dpxplain.words import numbers
from dpxplain.words.titles import in_percent

_IN_A_GROUP = f" in a group of {TYPICAL_ROWS:,}"


class PriceLevel(TypedDict):
    """`margin` is how far off figures may be, in their own unit; empty where that is not known beforehand."""

    rho: float
    free: bool
    affordable: bool
    margin: str


def query_levels(plan: Callable[[float], PlannedQuery], prices: Sequence[float]) -> list[PriceLevel]:
    """What each price buys for a query."""
    planned = [plan(rho) for rho in prices]
    previews = [(query, query.preview()) for query in planned]
    return [level_of(preview.price, query_margin(query, preview)) for query, preview in previews]


def level_of(price: Price, margin: str) -> PriceLevel:
    return PriceLevel(rho=price.rho, free=price.free, affordable=price.affordable, margin=margin)


def missing_price(plan: Callable[[float], PlannedQuery], budget: Budget) -> BadRequest:
    """The error for a query without a price, which says what Rough, Good and Sharp would buy."""
    prices = ladder(USUAL_QUERY, budget.limit)
    levels = [_choice(level, budget) for level in query_levels(plan, prices)]
    levels[1:] = [text.replace(_IN_A_GROUP, "") for text in levels[1:]]  # the same as in the first
    choices = " ".join(f"{name}: {text}." for name, text in zip(NAMES, levels, strict=True))
    good = prices[1]
    return BadRequest(
        f"How precise should it be? {choices}",
        remedy=f"Ask again with a price, such as rho={good:g} (on the command line --rho {good:g}). "
        "Nothing was spent.",
    )


def _choice(level: PriceLevel, budget: Budget) -> str:
    if level["free"]:
        price = "free, because it was asked before"
    elif level["affordable"]:
        price = numbers.rho(level["rho"])
    else:
        return f"{numbers.rho(level['rho'])}, more than the {numbers.rho(budget.remaining)} left"
    return f"{price}, {level['margin']}" if level["margin"] else price


def query_margin(planned: PlannedQuery, preview: QueryPreview | QueriesPreview) -> str:
    """How far off a group's values may be, in their own units; '' if the noise alone does not say."""
    parts = [part for _, part in preview.parts] if isinstance(preview, QueriesPreview) else [preview]
    schema = planned.schema
    texts = []
    for query, part in zip(planned.statement.queries, parts, strict=True):
        margin, where = typical_margin(part)
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
        return f"{math.ceil(margin):,} {numbers.clean(schema.privacy.unit)}s"
    if in_percent(aggregate, schema):
        return f"{numbers.number(margin * 100)} percentage points"
    unit = schema.column(aggregate.column).unit if aggregate.column else ""
    squared = " squared" if unit and aggregate.kind.startswith("var") else ""
    return f"{numbers.number(margin)}{f' {numbers.clean(unit)}{squared}' if unit else ''}"


def typical_margin(preview: QueryPreview) -> tuple[float | None, str]:
    """The margin for any group, or for a group of typical size, and words that say which of the two."""
    if preview.margin is not None:
        return preview.margin, ""
    by_size = dict(preview.margin_by_group_size)
    return by_size.get(TYPICAL_ROWS), _IN_A_GROUP
