"""Limits on the declared size of requests, checked before the charge, and on failures after it.

A charged request that runs out of memory or time reveals a fact about the data without noise. So a request
whose declared size could need too much is refused before its charge, and an analyst may have only a few
failures.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from dpxplain.errors import ExplanationError, QueryRefused, QuestionError
from dpxplain.explanation.cells import cover
from dpxplain.explanation.family import Family
from dpxplain.ledger.failed_charges import Failures
from dpxplain.model.charge import Ending
from dpxplain.model.groups import Groups
from dpxplain.model.memory_limit import bytes_of
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema
from dpxplain.privacy.intervals import DEFAULT_METHOD, RESAMPLES
from dpxplain.results.explanation import PlannedExplanation
from dpxplain.results.planned_query import PlannedQuery
from dpxplain.results.prepared import PlannedPreparation, PreparationPreview
from dpxplain.results.preview import ExplanationPreview, QueriesPreview, QueryPreview
from dpxplain.results.story import PlannedStory, StoryPreview
from dpxplain.server.config import Limits
from dpxplain.server.pool import Pool
from dpxplain.server.problems import too_many_failures

_MOST_RESAMPLED = 1_000_000  # values that a bootstrap draws for one question; it does so twice
_MOST_VALUES = 100_000  # in one answer, all aggregates together; each takes about 3 kB while shown
_MOST_COMPUTED = 10_000_000  # groups times characters of a formula
_BYTES_PER_CELL = 128  # in DuckDB's hash table and in the result, with room to spare


@dataclass(frozen=True)
class Sizes:
    """The largest declared sizes of one request."""

    groups: int
    cells: int
    """Cells of one pass over the data."""
    ranked: int
    """The number of conditions chosen, times the number of conditions that they are ranked among."""

    @classmethod
    def of(cls, limits: Limits) -> Sizes:
        # The other half is for the encoded table and for other requests.
        cells = bytes_of(limits.memory) // 2 // _BYTES_PER_CELL
        return cls(limits.groups, cells, limits.ranked)


def check_query(planned: PlannedQuery, sizes: Sizes) -> None:
    """Raises if a query has too many groups to measure, or too many values to show at once."""
    groups, aggregates = planned.group_count, len(planned.statement.queries)
    if groups > sizes.groups:
        raise QueryRefused(
            f"The query has {groups:,} declared groups. This server answers at most {sizes.groups:,} at "
            "once. Nothing was charged.",
            remedy="Group by fewer columns, or by columns with fewer declared values.",
        )
    if aggregates > 1 and groups * aggregates > _MOST_VALUES:
        raise QueryRefused(
            f"The query has {aggregates:,} aggregates for {groups:,} declared groups each. This server "
            f"answers at most {_MOST_VALUES:,} values at once. Nothing was charged.",
            remedy=f"Ask for at most {max(1, _MOST_VALUES // groups):,} aggregates in one query.",
        )


def price_query(planned: PlannedQuery, sizes: Sizes) -> QueryPreview | QueriesPreview:
    """The preview of a query. Raises if the query is too large."""
    check_query(planned, sizes)
    return planned.preview()


def check_question(weights: int, method: str) -> None:
    """Raises for a bootstrap over many groups: its work grows with them, and the question is free."""
    if method == "bootstrap" and weights * RESAMPLES > _MOST_RESAMPLED:
        raise QuestionError(
            f"A bootstrap over {weights:,} groups is too much work for a free request on this server.",
            remedy=f"Use at most {_MOST_RESAMPLED // RESAMPLES:,} groups, or leave out method: "
            f"{DEFAULT_METHOD!r} works with any number.",
        )


def check_formula(text: str, groups: int) -> None:
    """Raises if a formula over released values is too long for so many groups."""
    if len(text) * groups > _MOST_COMPUTED:
        raise QuestionError(
            f"A formula of {len(text):,} characters for {groups:,} groups is too much work for a free "
            "request on this server.",
            remedy="Write a shorter formula, or use an answer with fewer groups.",
        )


def price_preparation(planned: PlannedPreparation, sizes: Sizes) -> PreparationPreview:
    """The preview of a preparation. Raises if the preparation is too large."""
    preview = planned.preview()
    if not preview.price.free:
        _check_pass(planned.plan.query, planned.plan.family, sizes)
    return preview


def price_story(planned: PlannedStory, sizes: Sizes) -> StoryPreview:
    """The preview of a story. Raises if its preparation is too large."""
    preview, plan = planned.preview(), planned.plan
    if plan.preparation is not None and not preview.price.free:
        _check_pass(plan.preparation.query, plan.preparation.family, sizes)
    return preview


def price_explanation(planned: PlannedExplanation, sizes: Sizes) -> ExplanationPreview:
    """The preview of an explanation. Raises if the explanation is too large."""
    preview = planned.preview()
    if preview.k * preview.family_size > sizes.ranked:
        raise ExplanationError(
            f"Ranking {preview.k:,} of {preview.family_size:,} conditions is too much work for one request "
            "on this server. Nothing was charged.",
            remedy=f"Use k up to {max(1, sizes.ranked // preview.family_size):,}, or choose fewer attributes "
            "or conjuncts.",
        )
    if not preview.price.free and preview.price.rho > 0:
        _check_pass(planned.plan.terms.query, planned.plan.family, sizes)
    return preview


def _check_pass(query: Query, family: Family, sizes: Sizes) -> None:
    cells = pass_cells(query, family, family.schema)
    if cells > sizes.cells:
        raise ExplanationError(
            f"This request would count up to {cells:,} cells. This server has memory for {sizes.cells:,}. "
            "Nothing was charged.",
            remedy="Choose fewer attributes or conjuncts, or ask about a query with fewer groups.",
        )


def pass_cells(query: Query, family: Family, schema: Schema) -> int:
    """The most cells that one pass can count, whatever the data: all cells of its group-bys.

    As in the pass itself, a column has one more code than declared values, for all other values.
    """
    codes = {name: len(schema.domain(name)) + 1 for name in family.attributes}
    cells_per_group = sum(math.prod(codes[name] for name in block) for block in cover(family.subsets, codes))
    return math.prod(size + 1 for size in Groups.of(query, schema).shape) * cells_per_group


class FailureLimit:
    """Refuses to measure for an analyst whose charged requests failed or were cancelled too often.

    After `limits.failures` failures nothing more is measured for that analyst on that data set until the
    curator forgives them. A failure is an entry that the analyst asked to cancel, or an entry that ended
    without a release for a reason that the data may have caused. Each counts from the padded end of its
    request on.
    """

    def __init__(self, failures: Failures, pool: Pool, limits: Limits) -> None:
        self._failures = failures
        self._pool = pool
        self.most = limits.failures

    def check(self, dataset: str, analyst: str) -> None:
        if self.counted(dataset, analyst).total() >= self.most:
            raise too_many_failures()

    def counted(self, dataset: str, analyst: str) -> Counter[Ending]:
        """The failures that count now, by how the requests ended."""
        running, failed = self._pool.entries, self._pool.failed
        return self._failures.counted(dataset, analyst, running=running, failed=failed)
