"""What a measurement costs, as a plan states it and the ledger reserves it: budgets, charges, and the entries
of a data set's history.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any
from urllib.parse import quote, unquote

from dpxplain.errors import BadRequest
from dpxplain.model.confidential import ContentDigest
from dpxplain.model.display import Displayed, public

# -- Budget ------------------------------------------------------------------------------------------------
#
# ρ is kept in whole trillionths, so that ten times 0.1 is exactly 1 and a limit can be used to the last
# digit. With floats, a rounding error would lead to a refusal or to overspending.

UNITS_PER_RHO = 10**12
LARGEST_RHO = 1_000_000


def check_rho(rho: float, name: str = "rho") -> float:
    """The ρ as a float; raises if it cannot be used.

    >>> check_rho(0.1)
    0.1
    """
    if isinstance(rho, bool) or not isinstance(rho, int | float) or rho != rho:
        raise BadRequest(f"{name} must be a positive number, not {rho!r}.", remedy="Try rho=0.1.")
    if not 1 / UNITS_PER_RHO <= rho <= LARGEST_RHO:  # not shown, because a whole number may have any length
        raise BadRequest(
            f"{name} must be a positive number between {1 / UNITS_PER_RHO:g} and {LARGEST_RHO:,}.",
            remedy="Try rho=0.1.",
        )
    return float(rho)


def spend_units(rho: float) -> int:
    """ρ in units, rounded up: a spend is never recorded as less than it is.

    >>> spend_units(0.1) * 10 == limit_units(1.0)
    True
    """
    return int((Decimal(repr(float(rho))) * UNITS_PER_RHO).to_integral_value(ROUND_CEILING))


def limit_units(rho: float) -> int:
    """ρ in units, rounded down: a limit never allows more than it says."""
    return int((Decimal(repr(float(rho))) * UNITS_PER_RHO).to_integral_value(ROUND_FLOOR))


def rho_of_units(units: int) -> float:
    return units / UNITS_PER_RHO


def apportion(rho: float, shares: Sequence[float]) -> list[float]:
    """ρ divided by shares in whole units, by the method of the largest remainder; together ρ, never more.

    The last part also takes the rest of ρ beyond whole units.

    >>> [round(part * UNITS_PER_RHO) for part in apportion(1e-11, [1 / 3] * 3)]
    [4, 3, 3]
    """
    units, total = limit_units(rho), sum(map(Fraction, shares))
    quotas = [units * Fraction(share) / total for share in shares]
    whole = [math.floor(quota) for quota in quotas]
    by_remainder = sorted(range(len(shares)), key=lambda place: whole[place] - quotas[place])
    for place in by_remainder[: units - sum(whole)]:
        whole[place] += 1
    spent = [rho_of_units(part) for part in whole[:-1]]
    return [*spent, remainder(rho, *spent)]


def remainder(rho: float, *spent: float) -> float:
    """What is left of ρ after some parts, rounded so that all together never exceed ρ.

    >>> remainder(0.75, 0.25, 0.25)
    0.25
    >>> Fraction(remainder(0.1, 0.1 / 3)) + Fraction(0.1 / 3) <= Fraction(0.1)
    True
    """
    rest = Fraction(rho) - sum(map(Fraction, spent))
    remaining = float(rest)
    return remaining if Fraction(remaining) <= rest else math.nextafter(remaining, 0.0)


@dataclass(frozen=True)
class Budget(Displayed):
    """The limit and what was spent, at one moment: for a data set, or for one analyst on it.

    >>> Budget(limit=5.0, spent=0.5, delta=1e-6).remaining
    4.5
    >>> Budget(limit=5.0, spent=0.5, delta=1e-6, shared_remaining=0.25).remaining
    0.25
    """

    limit: float
    spent: float
    delta: float
    expires: datetime | None = None
    """The time from which nothing remains; None for never."""
    shared_remaining: float | None = None
    """The remaining ρ of the whole data set, if this budget is one analyst's own."""
    gaussian: float = 0.0
    """The part of `spent` that paid for Gaussian noise, whose ε is known exactly."""
    discovered_delta: float = 0.0
    """The δ that discoveries have spent, or may have spent, in addition to the δ at which ε is shown."""

    @property
    def total_delta(self) -> float:
        """The δ of everything that was asked: the δ at which ε is shown, plus the δ of discoveries.

        >>> Budget(limit=5.0, spent=0.5, delta=1e-6, discovered_delta=1e-6).total_delta
        2e-06
        """
        return self.delta + self.discovered_delta

    @property
    def remaining(self) -> float:
        if self.expires is not None and self.expires <= datetime.now(UTC):
            return 0.0
        own = max(0, limit_units(self.limit) - spend_units(self.spent))
        shared = own if self.shared_remaining is None else limit_units(self.shared_remaining)
        return rho_of_units(min(own, shared))


# -- Charge ------------------------------------------------------------------------------------------------

LARGEST_NUMBER = 2**63 - 1
"""The largest number of an entry."""


class Event(StrEnum):
    """The vocabulary of the audit chain: which kind of noise was paid for, on what.

    Compatibility: once released, a name keeps its meaning and its accounting for ever. A mechanism that
    measures something else, or is accounted for differently, gets a new name. Readers show an unknown name
    as it is written, because a newer version may have added it.
    """

    COUNTS = "gaussian.counts"
    SUMS = "gaussian.sums"
    SQUARES = "gaussian.squares"
    PERSONS = "gaussian.persons"
    BINS = "gaussian.bins"
    CELL_COUNTS = "gaussian.cell-counts"
    CELL_SUMS = "gaussian.cell-sums"
    ALL_INFLUENCES = "gaussian.all-influences"
    CHOSEN_INFLUENCES = "gaussian.chosen-influences"
    TOP_K = "gumbel.top-k"
    INFLUENCES = "gaussian.influences"
    RANK_SEARCH = "gaussian.rank-search"
    TOP_K_BY_DISTANCE = "gumbel.top-k-by-distance"
    INFLUENCE_SEARCH_BY_DISTANCE = "gaussian.influence-search-by-distance"
    RANK_SEARCH_BY_DISTANCE = "gaussian.rank-search-by-distance"
    FIT_COUNTS = "gaussian.fit-counts"
    UNIT_COUNTS = "gaussian.unit-counts"
    VALUES = "gaussian.values-above-threshold"


WORDS = {
    Event.COUNTS: "counts (Gaussian)",
    Event.SUMS: "sums (Gaussian)",
    Event.SQUARES: "sums of squares (Gaussian)",
    Event.PERSONS: "privacy units (Gaussian)",
    Event.BINS: "histogram (Gaussian)",
    Event.CELL_COUNTS: "counts of all cells (Gaussian)",
    Event.CELL_SUMS: "sums of all cells (Gaussian)",
    Event.ALL_INFLUENCES: "all influences (Gaussian)",
    Event.CHOSEN_INFLUENCES: "the k chosen, afresh (Gaussian)",
    Event.TOP_K: "top-k selection (Gumbel)",
    Event.INFLUENCES: "influences (Gaussian)",
    Event.RANK_SEARCH: "ranks (noisy binary search)",
    Event.TOP_K_BY_DISTANCE: "top-k selection by distance (Gumbel)",
    Event.INFLUENCE_SEARCH_BY_DISTANCE: "influences by distance (noisy binary search)",
    Event.RANK_SEARCH_BY_DISTANCE: "ranks by distance (noisy binary search)",
    Event.FIT_COUNTS: "rows that fit each declaration (Gaussian)",
    Event.UNIT_COUNTS: "units by their number of rows (Gaussian)",
    Event.VALUES: "values above a threshold (Gaussian)",
}

_SEARCHES = frozenset({Event.RANK_SEARCH, Event.INFLUENCE_SEARCH_BY_DISTANCE, Event.RANK_SEARCH_BY_DISTANCE})
LARGEST_FINE_SEARCH = 128.0
"""The largest ρ at which the noise of a search has a σ of at least 2^16 lattice points: one unit moves its
leads by at least 2^20 of them, and 2^20/√(2·128) = 2^16. The noise of other Gaussian events always has such
a σ, except `VALUES`, whose noise is on whole numbers."""


@public("SpendPayload", "event of mechanism rho")
@dataclass(frozen=True)
class Spend:
    """One event's share of a charge, as planned and as written into the ledger.

    >>> print(Spend(Event.COUNTS, 0.1, of="AVG(pay)"))
    AVG(pay): counts (Gaussian)
    """

    event: str
    rho: float
    of: str = ""
    """The aggregate it is for, if a SELECT has several."""

    @property
    def is_gaussian(self) -> bool:
        """Whether all of it paid for Gaussian noise on a fine lattice (docs/proofs/epsilon.md, section 2).

        >>> Spend(Event.COUNTS, 0.1).is_gaussian, Spend(Event.TOP_K, 0.1).is_gaussian
        (True, False)
        """
        if self.event not in WORDS or not self.event.startswith("gaussian.") or self.event == Event.VALUES:
            return False
        return self.event not in _SEARCHES or self.rho <= LARGEST_FINE_SEARCH

    @property
    def mechanism(self) -> str:
        """The event in words."""
        return str(self)

    def __str__(self) -> str:
        words = WORDS[Event(self.event)] if self.event in WORDS else self.event
        return f"{self.of}: {words}" if self.of else words

    def to_row(self) -> list[Any]:
        """The values that the ledger stores."""
        return [str(self.event), self.rho, *([self.of] if self.of else [])]

    @classmethod
    def from_row(cls, row: list[Any]) -> Spend:
        """Reads the values that the ledger stores.

        >>> Spend.from_row(["gaussian.counts", 0.1, "COUNT(*)"])
        Spend(event='gaussian.counts', rho=0.1, of='COUNT(*)')
        """
        event, rho, of = (*row, "")[:3]
        return cls(event, rho, of)


def gaussian_units(charged: int, spends: Iterable[Spend]) -> int:
    """How much of a charge, in the ledger's units, certainly paid for Gaussian noise.

    All of it if every share did. Otherwise the shares that did, rounded down. The rest counts as another
    mechanism, so the privacy shown is never better than the true one.

    >>> top_k = Spend(Event.TOP_K, 0.1)
    >>> gaussian_units(3 * 10**11, [Spend(Event.COUNTS, 0.1)] * 2 + [top_k]), gaussian_units(10, [])
    (200000000000, 0)
    """
    shares = list(spends)
    gaussian = [Fraction(share.rho) for share in shares if share.is_gaussian]
    if shares and len(gaussian) == len(shares):
        return charged
    return min(charged, math.floor(sum(gaussian) * UNITS_PER_RHO))


def gaussian_part(rho: float, spends: Iterable[Spend]) -> float:
    """The ρ of Gaussian noise: `gaussian_units` as an amount."""
    return rho_of_units(gaussian_units(spend_units(rho), spends))


def spends(*parts: tuple[Event, float]) -> tuple[Spend, ...]:
    """The shares of a plan, without the events that cost nothing."""
    return tuple(Spend(event, rho) for event, rho in parts if rho > 0)


@dataclass(frozen=True)
class Request:
    """What a person asked for: in words, and as JSON that asks the same again.

    `body` has the shape of the server's REST requests; None if nobody else could ask the same.

    >>> Request("why?", {"answer": 3, "k": 5}).only("answer").body
    {'answer': 3}
    """

    words: str
    body: Mapping[str, Any] | None = None

    def only(self, *names: str) -> Request:
        """The request with only these fields."""
        if self.body is None:
            return self
        return replace(self, body={name: self.body[name] for name in names})


@dataclass(frozen=True)
class DataState:
    """The data that a charge is about to be measured on."""

    version: str
    """As the curator declares it."""
    digest: ContentDigest | None
    """None if the data were recognised as the version's without being read again."""


@dataclass(frozen=True)
class Charge:
    """What the ledger reserves: `rho`, which stays spent, divided among the events of `spends`."""

    kind: str
    """"query", "prepare", "explain", "quality", "discover" or "tune"."""
    key: str
    """Identity of the request: an equal key means that a stored release answers it."""
    request: Request
    rho: float
    spends: tuple[Spend, ...] = ()
    subject: str | None = None
    """Identity of the query that a preparation belongs to, so that it is found without its key."""
    data: DataState | None = None
    """The data to measure. The charge is refused if their version belongs to other data."""
    declarations: str | None = None
    """The hash of the schema that its sensitivities follow from, for the audit chain."""


EntryId = int | str
"""The number of an entry as one analyst knows it: a whole number for their own, and "3@ann" for ann's."""
NOTICE_OWNER = "*"
"""The owner, in place of a name, in the numbers of notices for everybody."""


def written_id(number: int, owner: str) -> str:
    """An entry's number with its owner, as text for requests and URL paths.

    >>> written_id(3, "ann@example.org"), written_id(3, "r&d/ann")
    ('3@ann@example.org', '3@r%26d%2Fann')
    """
    return f"{number}@{quote(owner, safe='@*. ')}"


def read_id(id: EntryId) -> tuple[int, str | None] | None:
    """The entry's number, and its owner if the text names one; None if the text is no entry number.

    >>> read_id(3), read_id("3"), read_id("3@ann"), read_id("3@"), read_id("ann"), read_id("3@%00")
    ((3, None), (3, None), (3, 'ann'), (3, ''), None, None)
    """
    if isinstance(id, int):
        return (id, None) if 0 < id <= LARGEST_NUMBER else None
    digits, at, owner = id.partition("@")
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits[:20]) <= LARGEST_NUMBER):
        return None
    name = unquote(owner)
    if not name.isprintable():  # nobody has such a name, and databases refuse NUL
        return None
    return int(digits), name if at else None


class Ending(StrEnum):
    """Why a charge ended without a release, as the audit log records it (docs/adr/0044)."""

    STOPPED = "server stopped"
    """The operator stopped the server."""
    DATABASE_LOST = "database lost"
    """The data's database was shut down, another session there crashed, or one had locked the table."""
    LEDGER_LOST = "ledger lost"
    """The ledger could not be reached, or its disk was full."""
    CUT_OFF = "cut off"
    """The connection to the data's database broke without a reason: memory may have run out there."""
    DIED = "process died"
    """The measuring process gave no more signs of life."""
    CANCELLED = "cancelled"
    FAILED = "failed"
    """Everything else, such as a time limit, memory, or a defect of the program."""

    @property
    def counts(self) -> bool:
        """Whether the data may have caused it, so that an analyst may see it only so often."""
        return self not in (Ending.STOPPED, Ending.DATABASE_LOST, Ending.LEDGER_LOST)

    @property
    def keeps_charge(self) -> bool:
        """Whether the identical request takes over the charge, and costs nothing more."""
        return self not in (Ending.CANCELLED, Ending.FAILED)


def failure_number(endings: Counter[Ending]) -> int:
    """How many of an analyst's counted endings are failures of their requests.

    A death of the server is not: it has a limit of its own, because the data may have caused it too.

    >>> failure_number(Counter({Ending.DIED: 1, Ending.FAILED: 2}))
    2
    """
    return endings.total() - endings[Ending.DIED]


_FAILURE_WORDS = {
    Ending.FAILED: ("1 request failed", "{} requests failed"),
    Ending.CANCELLED: ("1 request was cancelled", "{} requests were cancelled"),
    Ending.CUT_OFF: ("1 request was cut off by the database", "{} requests were cut off by the database"),
    Ending.DIED: ("the server died once", "the server died {} times"),
}


def failure_words(failures: Mapping[Ending, int]) -> str:
    """The failures of an analyst, and the deaths of the server under their requests, in words.

    >>> failure_words({Ending.DIED: 1, Ending.FAILED: 2})
    '2 requests failed; the server died once'
    """
    numbers = [(words, failures.get(ending, 0)) for ending, words in _FAILURE_WORDS.items()]
    return "; ".join(
        once if number == 1 else often.format(number) for (once, often), number in numbers if number
    )


@dataclass(frozen=True)
class Entry:
    """One line of a data set's history. Everything in it is public."""

    id: EntryId
    time: datetime
    """When it was reserved, in UTC."""
    kind: str
    """The kind of its charge, or "loss"; the kinds "limit", "top-up" and "grant" are free."""
    description: str
    rho: float
    spends: tuple[Spend, ...]
    state: str
    """"reserved": running or interrupted, charged all the same; "released": the answer is stored."""
    key: str
    """Identity of the request: an equal key means the stored release answers it."""
    analyst: str = ""
    """Who asked; "" is the local owner."""
    request: Mapping[str, Any] | None = None
    """What was asked, as public JSON, so that it can be asked again."""
    version: str | None = None
    """The declared version of the data that it was measured on; None for notices and for lost records."""
    total_rho: float = field(default=0.0, compare=False)
    """In a history, the cost of all lines up to this one. 0 if the entry was looked up by itself."""
    row: int = field(default=0, compare=False)
    """Its place among the entries of all analysts, for the ledger itself and its curator; 0 at a client."""

    @property
    def identity(self) -> str:
        """Its number and its owner, the same for every reader."""
        return self.id if isinstance(self.id, str) else written_id(self.id, self.analyst)

    def is_named(self, id: EntryId) -> bool:
        """Whether `id` is its number as its reader knows it, or its number and owner."""
        return read_id(id) in (read_id(self.id), read_id(self.identity))

    @property
    def address(self) -> EntryId:
        """Its number as text for links, valid for everybody who may see it."""
        return self.identity if self.analyst else self.id


@dataclass(frozen=True)
class HistoryPage:
    """Consecutive lines of a history, the oldest first."""

    entries: list[Entry]
    older: EntryId | None
    """The next older page has the lines before this number; None if this page is the oldest."""


ReadPage = Callable[[EntryId | None], HistoryPage]
"""Reads the newest page of lines before the one with this number; None reads the newest of all."""


def history_pages(read: ReadPage) -> Iterator[HistoryPage]:
    """All pages, the newest first, each read when it is asked for."""
    page = read(None)
    yield page
    while page.older is not None:
        page = read(page.older)
        yield page


def whole_history(read: ReadPage) -> list[Entry]:
    """All lines, the oldest first."""
    pages = list(history_pages(read))
    return [entry for page in reversed(pages) for entry in page.entries]


class History(list[Entry], Displayed):
    """A list of the ledger's entries, the oldest first, that prints as a table."""
