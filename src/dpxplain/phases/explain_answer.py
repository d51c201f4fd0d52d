"""Phase 3's choices: the mechanism, the ρ for a wanted precision, and the best split of ρ.

Three mechanisms plan the same explanation from public quantities (docs/specification.md, section 6). `auto`
takes a stored preparation, which is free, or else the mechanism that predicts the narrowest table. Every
interval of every mechanism narrows with √ρ, so the price of a wanted width can be found by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from dpxplain.errors import ExplanationError
from dpxplain.model.budget import LARGEST_RHO
from dpxplain.model.hardening import plain
from dpxplain.model.release import ExplanationLine
from dpxplain.phases.explain_marginals import MarginalsExplanation, plan_marginals
from dpxplain.phases.explain_scored import (
    OneShotExplanation,
    VectorExplanation,
    check_shares,
    plan_one_shot,
    plan_vector,
)
from dpxplain.phases.plan import ExplanationPlan, ExplanationTerms, Split
from dpxplain.phases.prepare_answer import StoredPreparation
from dpxplain.privacy.calibration import (
    gaussian_scale,
    rank_probes,
    rank_slack,
    top_k_scale,
    two_sided_quantile,
)
from dpxplain.privacy.mechanisms.one_shot import DEFAULT_SPLIT
from dpxplain.privacy.mechanisms.rank_bounds import LOWER_SHARE

MOST_CELLS_UNASKED = 300_000  # a second of noise and inference, 4 MB stored; more only if asked by name
MECHANISMS = ("one-shot", "vector", "marginals")
_Plan = OneShotExplanation | VectorExplanation | MarginalsExplanation


def may_be_prepared(mechanism: str) -> bool:
    """Whether a mechanism reads stored preparations, so that they must be found before it is planned."""
    return mechanism in ("auto", "marginals")


def plan_explanation(
    terms: ExplanationTerms,
    stored: StoredPreparation | None,
    mechanism: str = "auto",
    split: Split = DEFAULT_SPLIT,
    lower_share: float = LOWER_SHARE,
) -> ExplanationPlan:
    """Calibrate the mechanism, or for `auto` take the best; reads nothing.

    `stored` is the preparation that was found for these conditions; None if there is none, or if it does not
    matter.
    """
    planners: dict[str, Callable[[], _Plan]] = {
        "one-shot": lambda: plan_one_shot(terms, split, lower_share),
        "vector": lambda: plan_vector(terms),
        "marginals": lambda: plan_marginals(terms, stored),
    }
    if isinstance(mechanism, str) and mechanism in planners:
        if mechanism != "one-shot" and plain(lower_share) != LOWER_SHARE:
            raise ExplanationError(
                f"The mechanism {mechanism!r} does not use lower_share.",
                remedy="Leave out lower_share, or use mechanism='one-shot'.",
            )
        return planners[mechanism]()
    if mechanism != "auto":
        raise ExplanationError(
            f"There is no mechanism {mechanism!r}.",
            remedy=f"Choose auto or one of: {', '.join(MECHANISMS)}.",
        )
    shares = check_shares(terms, split, lower_share)
    if shares != (DEFAULT_SPLIT, LOWER_SHARE) or terms.sensitivity == "paper":
        only = plan_one_shot(terms, split, lower_share)
        return replace(only, reason="chosen automatically: no other mechanism has these options")
    marginals: MarginalsExplanation | None = None
    vector: VectorExplanation | None = None
    with suppress(ExplanationError):  # the family is too large, or ρ too small, for it
        marginals = plan_marginals(terms, stored)
    if marginals is not None and marginals.stored is not None:
        return replace(marginals, reason="prepared before")
    with suppress(ExplanationError):
        vector = plan_vector(terms)
    plans: list[_Plan] = [plan_one_shot(terms, split, lower_share)]
    if vector is not None:
        plans.append(vector)
    if marginals is not None and marginals.preparation.cells <= MOST_CELLS_UNASKED:
        plans.append(marginals)
    why = "it predicts the narrowest table" if len(plans) > 1 else "the others are too large for this request"
    priced = [replace(plan, reason=f"chosen automatically: {why}") for plan in plans]
    return min(priced, key=lambda plan: plan.imprecision)


_BARELY = 1e-9  # ρ; less than any preparation costs
_CLOSE = 1e-3  # relative; prices are not asked for more exactly


@dataclass(frozen=True)
class PrecisionGoal:
    """The precision to find a price for: one of these goals, or several."""

    relative: float | None = None  # influences within this share of the gap
    ranks: int | None = None  # places between the ends of a rank interval, on average
    precision: float | None = None  # the share of the k shown that are among the true k


def plan_for(
    goal: PrecisionGoal,
    terms: ExplanationTerms,
    stored: StoredPreparation | None,
    relative_to: float | None,
    mechanism: str = "auto",
) -> ExplanationPlan:
    """The plan of the least ρ that reaches all goals. It is 0 only for a `precision` that is prepared."""
    plans = []
    if goal.relative is not None:
        if relative_to is None or not goal.relative > 0:
            raise ExplanationError(
                "relative must be a positive number, and the gap must be larger than its noise.",
                remedy="Pass a number such as 0.02. If the gap is too noisy, first repeat the query with a "
                "larger budget.",
            )
        plans.append(rho_for_margin(terms, stored, goal.relative * relative_to, mechanism))
    if goal.ranks is not None:
        plans.append(rho_for_ranks(terms, stored, goal.ranks))
    if goal.precision is not None:
        plans.append(rho_for_precision(terms, stored, goal.precision, mechanism))
    if not plans:
        raise ExplanationError(
            "You named no precision.", remedy="Pass relative=0.02, ranks=3 or precision=0.9."
        )
    return max(plans, key=lambda plan: plan.rho)


def rho_for_margin(
    terms: ExplanationTerms, stored: StoredPreparation | None, margin: float, mechanism: str = "auto"
) -> ExplanationPlan:
    """The cheapest plan whose influence intervals are predicted within ± margin."""
    margin = plain(margin)
    return _cheapest(terms, stored, mechanism, lambda plan: plan.influence_margin / margin)


def rho_for_ranks(terms: ExplanationTerms, stored: StoredPreparation | None, width: int) -> ExplanationPlan:
    """The cheapest preparation whose k rank intervals are predicted to span at most `width` on average.

    Needs influences that are released already: an earlier, cheaper preparation of the same answer.
    """
    width = plain(width)
    lines = _released_lines(terms, stored, terms.family.size, "How wide ranks will be")
    influence = np.array([line.influence for line in lines])

    def excess(plan: ExplanationPlan) -> float:
        near = np.abs(influence[: terms.k, None] - influence[None, :]) <= plan.rank_resolution
        return (float(near.sum(axis=1).mean()) - 1.0) / max(width, 1e-9)

    return _cheapest(terms, stored, "marginals", excess)


def rho_for_precision(
    terms: ExplanationTerms, stored: StoredPreparation | None, precision: float, mechanism: str = "auto"
) -> ExplanationPlan:
    """The cheapest plan that leaves at most the share 1 − precision of the k shown outside the true k.

    Judged by the plan's shortfall at the influences that an earlier preparation estimated
    (docs/proofs/utility.md, theorem 4). Returns that preparation, which is free, if its ranks promise the
    precision or it cost as much. The precision is that of the choice before folding.
    """
    precision = plain(precision)
    if not 0 < precision <= 1:
        raise ExplanationError(
            f"precision must be above 0 and at most 1, not {precision!r}.",
            remedy="Pass a number such as 0.9: the share of the k conditions shown that should be among the "
            "true top k.",
        )
    wrong = math.floor(terms.k * (1 - precision) + 1e-9)
    lines = _released_lines(terms, stored, terms.family.size, "How many of the true k will be shown")
    terms = replace(terms, distinct=False)
    doubtful = sum(line.rank[1] > terms.k for line in lines[: terms.k])
    rivals = sum(line.rank[0] <= terms.k for line in lines[terms.k :])
    if min(doubtful, rivals) <= wrong:
        return plan_marginals(replace(terms, rho=_BARELY), stored)
    influence = [line.influence for line in lines]
    cheapest = _cheapest(
        terms,
        stored,
        mechanism,
        lambda plan: 1.0 if most_wrong(influence, terms.k, plan.shortfall) <= wrong else 2.0,
    )
    if mechanism not in ("auto", "marginals"):
        return cheapest
    prepared = plan_marginals(replace(terms, rho=cheapest.rho), stored)
    return prepared if prepared.rho == 0.0 else cheapest


def most_wrong(influence: Sequence[float], k: int, shortfall: float) -> int:
    """The most of the k shown predicates that may not be among the k with the highest influence.

    A wrongly shown predicate is at most `shortfall` below the k-th; a missed one is at most that far above
    the one after the k-th.

    >>> [most_wrong([9.0, 8.0, 3.5, 3.0, 1.0], 2, shortfall) for shortfall in (1.0, 4.6, 9.0)]
    [0, 1, 2]
    """
    if k >= len(influence):
        return 0
    ordered = np.sort(influence)[::-1]
    missed = int(np.sum(ordered[:k] <= ordered[k] + shortfall))
    added = int(np.sum(ordered[k:] >= ordered[k - 1] - shortfall))
    return min(missed, added)


def _released_lines(
    terms: ExplanationTerms, stored: StoredPreparation | None, k: int, unknown: str
) -> tuple[ExplanationLine, ...]:
    """The k highest influences by the stored preparation; raises if there is none."""
    if stored is None:
        raise ExplanationError(
            f"{unknown} depends on how close the influences are, which is not known yet.",
            remedy="First prepare the answer with a small budget, for example answer.prepare(rho=0.01).",
        )
    whole = replace(terms, k=k, rho=stored.worth, distinct=False)
    return plan_marginals(whole, stored).read(stored.release).lines


def _cheapest(
    terms: ExplanationTerms,
    stored: StoredPreparation | None,
    mechanism: str,
    excess: Callable[[ExplanationPlan], float],
) -> ExplanationPlan:
    """The cheapest plan whose `excess` is at most 1, by bisection, since `excess` falls with ρ."""

    def plan(rho: float) -> ExplanationPlan:
        # Priced as if nothing were stored: a plan that is free already tells no price.
        priced = plan_explanation(replace(terms, rho=rho), stored, mechanism)
        return replace(priced, stored=None) if isinstance(priced, MarginalsExplanation) else priced

    low, high = 1e-9, 1e4
    if excess(plan(high)) > 1:
        raise ExplanationError(
            "No reasonable budget reaches this precision.",
            remedy="Ask for wider intervals or ranks, a lower precision, or another k.",
        )
    while high / low > 1 + _CLOSE:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if excess(plan(middle)) <= 1 else (middle, high)
    return plan(min(high, LARGEST_RHO))


def best_split(k: int, family_size: int, confidence: float) -> tuple[float, float, float]:
    """The split of one-shot's ρ (select, influence, rank) with the smallest sum of its three errors.

    Each error is a constant over √ρ of its part: how far below the top a chosen predicate may lie, half an
    influence interval, and the slack of a rank probe. Σ aᵢ/√ρᵢ is least for ρᵢ in proportion to aᵢ^(2/3).

    >>> [round(share, 2) for share in best_split(5, 103, 0.95)]
    [0.28, 0.16, 0.57]
    """
    k, probes = plain(k), max(1, rank_probes(family_size))
    errors = (
        top_k_scale(1.0, k, 1.0) * math.log(max(2, family_size)),
        two_sided_quantile(confidence) * gaussian_scale(math.sqrt(k), 1.0),
        rank_slack(gaussian_scale(2.0, (1 - LOWER_SHARE) / (k * probes)), probes, (1 + confidence) / 2),
    )
    shares = [error ** (2 / 3) for error in errors]
    return (shares[0] / sum(shares), shares[1] / sum(shares), shares[2] / sum(shares))
