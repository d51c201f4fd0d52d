"""Phase 3's choices: the mechanism, the ρ for a wanted precision, and the best split of ρ.

Three mechanisms plan the same explanation from public quantities (docs/specification.md, section 6). `auto`
takes a stored preparation, which is free, or else the mechanism that predicts the narrowest table. Every
interval of every mechanism narrows with √ρ, so the price of a wanted width can be found by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpxplain.errors import ExplanationError
from dpxplain.model.budget import LARGEST_RHO
from dpxplain.model.hardening import plain
from dpxplain.model.release import ExplanationLine
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.explain_marginals import MarginalsExplanation, plan_marginals
from dpxplain.phases.explain_scored import (
    OneShotExplanation,
    Split,
    VectorExplanation,
    plan_one_shot,
    plan_vector,
)
from dpxplain.phases.plan import ExplanationPlan, ExplanationTerms
from dpxplain.phases.prepare_answer import find_prepared
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


def plan_explanation(
    terms: ExplanationTerms,
    dataset: OpenDataset,
    mechanism: str = "auto",
    split: Split = DEFAULT_SPLIT,
    lower_share: float = LOWER_SHARE,
) -> ExplanationPlan:
    """Calibrate the mechanism, or for `auto` all of them, and take the best; reads no data."""
    planners: dict[str, Callable[[], _Plan]] = {
        "one-shot": lambda: plan_one_shot(terms, split, lower_share),
        "vector": lambda: plan_vector(terms),
        "marginals": lambda: plan_marginals(terms, dataset),
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
    one_shot = planners["one-shot"]()
    shares = one_shot.split, one_shot.lower_share
    if shares != (DEFAULT_SPLIT, LOWER_SHARE) or terms.sensitivity == "paper":
        return replace(one_shot, reason="chosen automatically: no other mechanism has these options")
    plans = [one_shot]
    for other in ("vector", "marginals"):
        try:
            plan = planners[other]()
        except ExplanationError:  # the family is too large, or ρ too small, for it
            continue
        if plan.rho == 0.0:
            return replace(plan, reason="prepared before")
        if not isinstance(plan, MarginalsExplanation) or plan.preparation.cells <= MOST_CELLS_UNASKED:
            plans.append(plan)
    why = "it predicts the narrowest table" if len(plans) > 1 else "the others are too large for this request"
    return replace(min(plans, key=lambda plan: plan.imprecision), reason=f"chosen automatically: {why}")


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
    dataset: OpenDataset,
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
        plans.append(rho_for_margin(terms, dataset, goal.relative * relative_to, mechanism))
    if goal.ranks is not None:
        plans.append(rho_for_ranks(terms, dataset, goal.ranks))
    if goal.precision is not None:
        plans.append(rho_for_precision(terms, dataset, goal.precision, mechanism))
    if not plans:
        raise ExplanationError(
            "You named no precision.", remedy="Pass relative=0.02, ranks=3 or precision=0.9."
        )
    return max(plans, key=lambda plan: plan.rho)


def rho_for_margin(
    terms: ExplanationTerms, dataset: OpenDataset, margin: float, mechanism: str = "auto"
) -> ExplanationPlan:
    """The cheapest plan whose influence intervals are predicted within ± margin."""
    margin = plain(margin)
    return _cheapest(terms, dataset, mechanism, lambda plan: plan.influence_margin / margin)


def rho_for_ranks(terms: ExplanationTerms, dataset: OpenDataset, width: int) -> ExplanationPlan:
    """The cheapest preparation whose k rank intervals are predicted to span at most `width` on average.

    Needs influences that are released already: an earlier, cheaper preparation of the same answer.
    """
    width = plain(width)
    lines = _released_lines(terms, dataset, terms.family.size, "How wide ranks will be")
    influence = np.array([line.influence for line in lines])

    def excess(plan: ExplanationPlan) -> float:
        near = np.abs(influence[: terms.k, None] - influence[None, :]) <= plan.rank_resolution
        return (float(near.sum(axis=1).mean()) - 1.0) / max(width, 1e-9)

    return _cheapest(terms, dataset, "marginals", excess)


def rho_for_precision(
    terms: ExplanationTerms, dataset: OpenDataset, precision: float, mechanism: str = "auto"
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
    lines = _released_lines(terms, dataset, terms.family.size, "How many of the true k will be shown")
    terms = replace(terms, distinct=False)
    doubtful = sum(line.rank[1] > terms.k for line in lines[: terms.k])
    rivals = sum(line.rank[0] <= terms.k for line in lines[terms.k :])
    if min(doubtful, rivals) <= wrong:
        return plan_marginals(replace(terms, rho=_BARELY), dataset)
    influence = [line.influence for line in lines]
    cheapest = _cheapest(
        terms,
        dataset,
        mechanism,
        lambda plan: 1.0 if most_wrong(influence, terms.k, plan.shortfall) <= wrong else 2.0,
    )
    if mechanism not in ("auto", "marginals"):
        return cheapest
    prepared = plan_marginals(replace(terms, rho=cheapest.rho), dataset)
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
    terms: ExplanationTerms, dataset: OpenDataset, k: int, unknown: str
) -> tuple[ExplanationLine, ...]:
    """The k highest influences by an earlier preparation; raises if there is none."""
    prepared = find_prepared(terms.query, terms.family, dataset)
    if prepared is None:
        raise ExplanationError(
            f"{unknown} depends on how close the influences are, which is not known yet.",
            remedy="First prepare the answer with a small budget, for example answer.prepare(rho=0.01).",
        )
    whole = replace(terms, k=k, rho=prepared.worth, distinct=False)
    return plan_marginals(whole, dataset).read(prepared.release).lines


def _cheapest(
    terms: ExplanationTerms,
    dataset: OpenDataset,
    mechanism: str,
    excess: Callable[[ExplanationPlan], float],
) -> ExplanationPlan:
    """The cheapest plan whose `excess` is at most 1, by bisection, since `excess` falls with ρ."""

    def plan(rho: float) -> ExplanationPlan:
        # Priced as if nothing were stored: a plan that is free already tells no price.
        priced = plan_explanation(replace(terms, rho=rho), dataset, mechanism)
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
