"""How many requests a caller may send, and how large one request may be."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpxplain.errors import DPXPlainError, ExplanationError, QueryRefused, QuestionError
from dpxplain.explanation.family import PredicateFamily
from dpxplain.explanation.influence import cover
from dpxplain.ledger.single_flight import Failures
from dpxplain.model.charge import Ending, failure_number
from dpxplain.model.groups import Groups
from dpxplain.model.process import bytes_of
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema
from dpxplain.privacy.intervals import DEFAULT_METHOD, RESAMPLES
from dpxplain.results.answers import PlannedQuery
from dpxplain.results.explanation import PlannedExplanation, PlannedStory, StoryPreview
from dpxplain.results.preview import (
    ExplanationPreview,
    PlannedPreparation,
    PreparationPreview,
    QueriesPreview,
    QueryPreview,
)
from dpxplain.server.config import Limits
from dpxplain.server.pool import Pool
from dpxplain.server.problems import too_many, too_many_crashes, too_many_failures

if TYPE_CHECKING:
    from dpxplain.ledger.jobs import Processes

# -- Rate limits -------------------------------------------------------------------------------------------
#
# Token buckets per caller, per address and per person who signs in.
#
# If several processes share a ledger, each takes an equal share of every limit. So together they keep the
# limit, and a free request need not access the ledger. A caller who reaches only one process gets only its
# share.

_MOST_KEYS = 20_000
_SECONDS_BETWEEN_COUNTS = 10.0
_LONGEST_HEARTBEAT_SECONDS = 10.0


class Buckets:
    """A token bucket per key. It holds the tokens of a minute, and is refilled steadily.

    >>> now = 0.0
    >>> buckets = Buckets(60, clock=lambda: now)
    >>> [buckets.take("a") for _ in range(61)][-2:]  # the last one has to wait a second
    [0, 1]
    >>> buckets.take("b")
    0
    """

    def __init__(
        self,
        per_minute: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        processes: Callable[[], int] = lambda: 1,
    ) -> None:
        self._per_minute = per_minute
        self._processes = processes
        self._clock = clock
        self._levels: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    @property
    def _rate(self) -> float:
        """Tokens per second, for this process."""
        return self._per_minute / 60 / self._processes()

    @property
    def _size(self) -> float:
        return max(1.0, self._per_minute / self._processes())

    def take(self, key: str) -> int:
        """Takes a token and returns 0, or returns how many whole seconds to wait."""
        with self._lock:
            level = self._level(key)
            if level < 1:
                return max(1, math.ceil((1 - level) / self._rate))
            if len(self._levels) >= _MOST_KEYS and key not in self._levels:
                self._drop_keys()
            self._levels[key] = (level - 1, self._clock())
            return 0

    def refund(self, key: str) -> None:
        """Undoes one `take`."""
        with self._lock:
            self._levels[key] = (min(self._size, self._level(key) + 1), self._clock())

    def _level(self, key: str) -> float:
        level, time_of_level = self._levels.get(key, (self._size, 0.0))
        return min(self._size, level + (self._clock() - time_of_level) * self._rate)

    def _drop_keys(self) -> None:
        """Drops full buckets, which are like new ones; if that is not enough, drops the oldest too."""
        for key in [key for key in self._levels if self._level(key) >= self._size]:
            del self._levels[key]
        for key in list(self._levels)[: max(0, len(self._levels) - _MOST_KEYS // 2)]:
            del self._levels[key]


class RateLimits:
    """The limits of one server process; `processes` says how many divide them."""

    def __init__(self, limits: Limits, processes: Callable[[], int] = lambda: 1) -> None:
        self.callers = Buckets(limits.requests_per_minute, processes=processes)
        self.anonymous = Buckets(limits.anonymous_per_minute, processes=processes)
        """By address, for requests without a valid credential."""
        self.sign_ins = Buckets(limits.sign_ins_per_minute, processes=processes)
        """By caller, for sign-ins with a valid token: each writes to the ledger."""


class ProcessCount:
    """How many server processes share the ledger: counted every few seconds, in a thread of its own.

    The thread also runs `tasks`, each independently of the others.
    """

    def __init__(self, processes: Processes, *tasks: Callable[[], object]) -> None:
        self._processes = processes
        self._tasks = tasks
        self._id = processes.enter()
        self._number = processes.count(self._id)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="dpxplain-processes", daemon=True)
        self._thread.start()

    def __call__(self) -> int:
        return self._number

    def close(self) -> None:
        self._closed.set()
        # A heartbeat that still runs could write after `leave`, or hold a connection of a closed ledger.
        self._thread.join(_LONGEST_HEARTBEAT_SECONDS)
        with suppress(DPXPlainError):
            self._processes.leave(self._id)

    def refresh(self) -> None:
        """Sends a heartbeat, which writes to the ledger, and counts again."""
        self._number = max(1, self._processes.count(self._id))

    def _watch(self) -> None:
        while not self._closed.wait(_SECONDS_BETWEEN_COUNTS):
            for task in (self.refresh, *self._tasks):
                with suppress(DPXPlainError):  # the database may be away for a moment
                    task()


def check_rate(buckets: Buckets, key: str) -> None:
    """Takes a token. Raises an error with the time to wait if there is none."""
    if seconds := buckets.take(key):
        raise too_many(seconds)


# -- Size limits and failures ------------------------------------------------------------------------------
#
# A charged request that runs out of memory or time reveals a fact about the data without noise. So a request
# whose declared size could need too much is refused before its charge, and an analyst may have only a few
# failures.

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


def _check_pass(query: Query, family: PredicateFamily, sizes: Sizes) -> None:
    cells = pass_cells(query, family, family.schema)
    if cells > sizes.cells:
        raise ExplanationError(
            f"This request would count up to {cells:,} cells. This server has memory for {sizes.cells:,}. "
            "Nothing was charged.",
            remedy="Choose fewer attributes or conjuncts, or ask about a query with fewer groups.",
        )


def pass_cells(query: Query, family: PredicateFamily, schema: Schema) -> int:
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
    request on. Deaths of the server during the analyst's requests are no failures of theirs, and are counted
    apart, up to the same number (docs/adr/0044).
    """

    def __init__(self, failures: Failures, pool: Pool, limits: Limits) -> None:
        self._failures = failures
        self._pool = pool
        self.most = limits.failures

    def check(self, dataset: str, analyst: str) -> None:
        endings = self.counted(dataset, analyst)
        if failure_number(endings) >= self.most:
            raise too_many_failures()
        if self.blocks(endings):
            raise too_many_crashes()

    def blocks(self, endings: Counter[Ending]) -> bool:
        """Whether nothing more is measured for an analyst with these endings."""
        return max(failure_number(endings), endings[Ending.DIED]) >= self.most

    def counted(self, dataset: str, analyst: str) -> Counter[Ending]:
        """The failures and deaths that count now, by how the requests ended."""
        running, failed = self._pool.running_entries, self._pool.failed_entries
        return self._failures.counted(dataset, analyst, running=running, failed=failed)
