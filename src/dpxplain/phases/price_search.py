"""From the precision wanted to the ρ needed, and from ρ to its best split. Public quantities only.

Every interval of every mechanism narrows with √ρ, so what a plan predicts at one price tells the price of
any other width. How many predicates a rank interval spans depends on how close influences lie to each
other, which is data; it is predicted only from influences that are released already.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dpxplain.errors import ExplanationError
from dpxplain.model.budget import LARGEST_RHO
from dpxplain.model.hardening import plain
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.explain_answer import plan_explanation
from dpxplain.phases.explain_marginals import MarginalsExplanation, plan_marginals
from dpxplain.phases.plan import ExplanationPlan, ExplanationTerms
from dpxplain.phases.prepare_answer import find_prepared
from dpxplain.privacy.calibration import (
    gaussian_scale,
    rank_probes,
    rank_slack,
    top_k_scale,
    two_sided_quantile,
)
from dpxplain.privacy.mechanisms.rank_bounds import LOWER_SHARE

_CLOSE = 1e-3  # relative; prices are not asked for more exactly


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
    prepared = find_prepared(terms.query, terms.family, dataset)
    if prepared is None:
        raise ExplanationError(
            "How wide ranks will be depends on how close influences lie, which nothing released says yet.",
            remedy="Prepare the answer with a little budget first, for example answer.prepare(rho=0.01).",
        )
    everything = plan_marginals(replace(terms, k=terms.family.size, rho=prepared.worth), dataset)
    influence = np.array([line.influence for line in everything.read(prepared.release).lines])

    def excess(plan: ExplanationPlan) -> float:
        near = np.abs(influence[: terms.k, None] - influence[None, :]) <= plan.rank_resolution
        return (float(near.sum(axis=1).mean()) - 1.0) / max(width, 1e-9)

    return _cheapest(terms, dataset, "marginals", excess)


def _cheapest(
    terms: ExplanationTerms,
    dataset: OpenDataset,
    mechanism: str,
    excess: Callable[[ExplanationPlan], float],
) -> ExplanationPlan:
    """Bisection on the price: `excess` of a plan falls with ρ, and is wanted at most 1."""

    def plan(rho: float) -> ExplanationPlan:
        # Priced as if nothing were stored: a plan that is free already tells no price.
        made = plan_explanation(replace(terms, rho=rho), dataset, mechanism)
        return replace(made, stored=None) if isinstance(made, MarginalsExplanation) else made

    low, high = 1e-9, 1e4
    if excess(plan(high)) > 1:
        raise ExplanationError(
            "No reasonable budget gives that precision.", remedy="Ask for wider intervals or ranks."
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
    [0.27, 0.15, 0.58]
    """
    k, probes = plain(k), max(1, rank_probes(family_size))
    errors = (
        top_k_scale(1.0, k, 1.0) * math.log(max(2, family_size)),
        two_sided_quantile(confidence) * gaussian_scale(math.sqrt(k), 1.0),
        rank_slack(gaussian_scale(2.0, (1 - LOWER_SHARE) / (k * probes)), probes, (1 + confidence) / 2),
    )
    shares = [error ** (2 / 3) for error in errors]
    return (shares[0] / sum(shares), shares[1] / sum(shares), shares[2] / sum(shares))
