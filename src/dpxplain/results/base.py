"""What all results share: released rows, planned requests, prices in ρ or ε, checked arguments, and the
curator's access to true values.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

from dpxplain.errors import BadRequest, CuratorOnly
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.charge import UNITS_PER_RHO, Request, Spend
from dpxplain.model.display import Displayed, Record, Tabular
from dpxplain.model.hardening import Frozen, did_you_mean, plain, plain_number
from dpxplain.model.release import R, Released
from dpxplain.phases.dataset import Lookup, OpenDataset, ReleasePlan
from dpxplain.privacy.accounting import epsilon as epsilon_of
from dpxplain.privacy.accounting import rho_for_epsilon
from dpxplain.words.prices import epsilon_at, rho_and_epsilon

# -- Released rows -----------------------------------------------------------------------------------------

Row = TypeVar("Row")


class ReleasedRows(Tabular, Generic[R, Row]):
    """A table of released rows, and its line in the history."""

    rows: tuple[Row, ...]

    def __init__(self, released: Released[R]) -> None:
        self.release: R = released.value
        self.entry = released.entry  # its line in the history
        self.id = released.entry.id
        self.free = released.free

    @property
    def rho(self) -> float:
        """The ρ paid for the whole result."""
        return self.release.rho

    @property
    def private(self) -> bool:
        """False only for experiments with a seeded source of noise."""
        return self.release.private

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def ends_record(name: str, interval: tuple[float, float] | None) -> Record:
    """The ends of an interval as two columns of a record; None in both if there is no interval.

    >>> ends_record("rank", (1, 3)), ends_record("share", None)
    ({'rank_low': 1, 'rank_high': 3}, {'share_low': None, 'share_high': None})
    """
    low, high = interval or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


# -- Planned requests --------------------------------------------------------------------------------------

Result = TypeVar("Result")


class Planned(Frozen, ABC, Generic[R, Result]):
    """A request that is planned and priced, and not yet paid for; `find` and `run` return its result.

    A stored release is looked up once.
    """

    plan: ReleasePlan[R]

    def __init__(self, plan: ReleasePlan[R], request: Request, dataset: OpenDataset) -> None:
        self.plan = plan
        self.request = request
        self._dataset = dataset
        self._lookup = Lookup(dataset, self._find)

    @property
    def key(self) -> str:
        """Identity of the request."""
        return self.plan.key(self._dataset)

    @property
    def is_stored(self) -> bool:
        """Whether running it is free, because the identical request is released already."""
        return self._lookup.find() is not None

    def find(self) -> Result | None:
        """The stored result, if the identical request was made before. Free."""
        stored = self._lookup.find()
        return None if stored is None else self.show(stored)

    def run(self, dataset: OpenDataset | None = None) -> Result:
        """Finds the stored result or measures it, in the planned data set or the same caller's view of it."""
        dataset = (dataset or self._dataset).joining(self._dataset.schema.joined)
        return dataset.find_or_measure(self.plan, self.request, self.show, self.look, self._lookup.found)

    @property
    def look(self) -> Hashable:
        """The parts of the request, besides the plan, on which the result depends."""
        return None

    def _find(self) -> Released[R] | None:
        return self._dataset.find(self.plan)

    @abstractmethod
    def show(self, released: Released[R]) -> Result:
        """The result that a release is shown as."""


# -- True values -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Truth(Displayed, Tabular):
    """True values. Never shown to an analyst. Displaying them also shows a warning."""

    title: str
    rows: list[Record]
    shaped_by: tuple[str, ...] = ()

    @property
    def private(self) -> bool:
        return False

    def records(self) -> list[Record]:
        return self.rows


class TruthTeller(ABC):
    """The base of a curator's data sets, which also reveal true values, here or at a server.

    The parameters are an `Answer`, `Answers`, a `Question` and an `Explanation`. Their types are not named,
    because their modules import this one.
    """

    @abstractmethod
    def answer_truth(self, answer: Any) -> Truth: ...

    @abstractmethod
    def answers_truth(self, answers: Any) -> Truth: ...

    @abstractmethod
    def question_truth(self, question: Any, choice: FamilyChoice) -> Truth: ...

    @abstractmethod
    def table_truth(self, table: Any) -> Truth: ...


def require_curator(dataset: object) -> TruthTeller:
    """The data set, if it is a curator's; raises CuratorOnly otherwise."""
    if isinstance(dataset, TruthTeller):
        return dataset
    raise CuratorOnly(
        "True values are for the curator only.",
        remedy="Analysts work with noisy values; the curator opens the data with curator=True.",
    )


# -- Prices ------------------------------------------------------------------------------------------------
#
# A price may be asked for in ρ or in ε; usual prices are there to choose from.

PRICE_NAMES = ("Rough", "Good", "Sharp")
"""The names of three prices around a usual one. The page has the same (page/src/lib/precision.ts)."""
USUAL_QUERY, USUAL_PREPARATION, USUAL_EXPLANATION = 0.1, 0.02, 0.5
USUAL_QUALITY = USUAL_TUNING = 0.02
USUAL_DISCOVERY = 0.1
_FACTOR = 5  # from one price to the next: noise shrinks with the square root of ρ
_SHARE = 10  # the Good price is at most the whole budget divided by this, before rounding


def ladder(usual: float, limit: float) -> tuple[float, float, float]:
    """The prices Rough, Good and Sharp: at most about a fiftieth, a tenth and a half of the budget.

    >>> ladder(0.1, 5.0), ladder(0.1, 0.4)
    ((0.02, 0.1, 0.5), (0.008, 0.04, 0.2))
    """
    good = min(usual, limit / _SHARE) if limit > 0 else usual
    rough, good, sharp = (float(f"{rho:.1g}") for rho in (good / _FACTOR, good, good * _FACTOR))
    return rough, good, sharp


def asked_rho(
    rho: float | None,
    epsilon: float | None,
    dataset: OpenDataset,
    spends_at: Callable[[float], Iterable[Spend]],
) -> float | None:
    """The price in ρ: `rho` as it is, or the largest ρ within `epsilon`; None if neither was given.

    `spends_at` gives the request's spends at a price. If all of them pay for Gaussian noise, ρ comes from the
    exact curve of that noise, otherwise from the conversion that holds for every mechanism. `rho` is checked
    later, when the request is planned.
    """
    if epsilon is None:
        return None if rho is None else plain(rho)
    if rho is not None:
        raise BadRequest("Both rho and epsilon were given.", remedy="Give the price as one of them.")
    target, delta = plain_number(epsilon), dataset.schema.privacy.delta
    if target is None or target <= 0:
        raise BadRequest("epsilon must be a positive number.", remedy="Try epsilon=0.5.")
    price = rho_for_epsilon(target, delta, is_gaussian=True)
    if price is None or not all(spend.is_gaussian for spend in spends_at(price)):
        price = rho_for_epsilon(target, delta, is_gaussian=False)
    if price is None:
        least = 1 / UNITS_PER_RHO
        raise BadRequest(
            "epsilon is too small: the least that can be spent is "
            f"{rho_and_epsilon(least, epsilon_of(least, delta), delta)}.",
            remedy="Try epsilon=0.5.",
        )
    return price


PlannedRequest = TypeVar("PlannedRequest", bound="Planned[Any, Any]")


def planned_at_price(
    plan_at: Callable[[float], PlannedRequest],
    rho: float | None,
    epsilon: float | None,
    dataset: OpenDataset,
    name: str,
    usual: float,
) -> PlannedRequest:
    """The request at its price in ρ or ε; without one, raises and names a usual price.

    `name` is the public method.
    """
    price = asked_rho(rho, epsilon, dataset, lambda rho: plan_at(rho).plan.spends)
    if price is not None:
        return plan_at(price)
    budget = dataset.ledger.budget(dataset.name)
    _, good, _ = ladder(usual, budget.limit)
    preview = f"preview_{name}(rho={good:g})"
    raise BadRequest(
        f"{name} needs a price, as rho or as epsilon.",
        remedy=f"For example, pass rho={good:g}, which is "
        f"{epsilon_at(epsilon_of(good, budget.delta), budget.delta)}. "
        f"{preview} shows the precision and spends nothing.",
    )


# -- Argument errors ---------------------------------------------------------------------------------------
#
# Errors with a remedy for arguments that a public function does not take, or that are missing.

P = ParamSpec("P")
T = TypeVar("T")
_EPSILONS = ("eps", "ε")  # too short to be recognised by their letters


def checked_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator: wrong arguments raise BadRequest with a remedy instead of Python's TypeError."""
    signature = inspect.signature(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            raise _misuse(function.__name__, signature, args, kwargs) from None
        return function(*args, **kwargs)

    return checked


def _misuse(
    name: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> BadRequest:
    parameters = {n: p for n, p in signature.parameters.items() if n != "self"}
    by_place = args[1:] if "self" in signature.parameters else args
    positional = [n for n, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    for keyword in kwargs:
        if keyword not in parameters:
            meant = "epsilon" if keyword in _EPSILONS else keyword
            listed = f"It takes {', '.join(parameters)}."
            return BadRequest(
                f"{name} takes no argument {keyword!r}.", remedy=did_you_mean(meant, parameters) or listed
            )
    if len(by_place) > len(positional):
        keyword_only = ", ".join(n for n in parameters if n not in positional)
        return BadRequest(
            f"{name} takes at most {len(positional)} positional arguments, not {len(by_place)}.",
            remedy=f"Write the others as name=value: {keyword_only}."
            if keyword_only
            else "Leave the others out.",
        )
    twice = [n for n in positional[: len(by_place)] if n in kwargs]
    if twice:
        return BadRequest(f"{name} was given {twice[0]} twice.", remedy="Give it once.")
    required = [n for n, p in parameters.items() if p.default is p.empty]
    missing = [n for n in required if n not in kwargs and n not in positional[: len(by_place)]]
    return BadRequest(
        f"{name} needs {' and '.join(missing)}.", remedy=f"Write {name}({', '.join(required)})."
    )
