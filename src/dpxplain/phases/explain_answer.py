"""Phase 3: the k predicates that matter most, with private intervals of influence and rank (SPEC 6).

Three mechanisms plan the same explanation from public quantities; `auto` takes what is prepared already,
which is free, or else the one that predicts the narrowest table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dpxplain.errors import ExplanationError
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
from dpxplain.privacy.mechanisms.one_shot import DEFAULT_SPLIT

MOST_CELLS_UNASKED = 300_000  # a second of noise and inference, 4 MB stored; more only by name
MECHANISMS = ("one-shot", "vector", "marginals")
_Plan = OneShotExplanation | VectorExplanation | MarginalsExplanation


def plan_explanation(
    terms: ExplanationTerms, dataset: OpenDataset, mechanism: str = "auto", split: Split = DEFAULT_SPLIT
) -> ExplanationPlan:
    """Calibrate the mechanism, or for `auto` all of them, and take the best; reads no data."""
    planners: dict[str, Callable[[], _Plan]] = {
        "one-shot": lambda: plan_one_shot(terms, split),
        "vector": lambda: plan_vector(terms),
        "marginals": lambda: plan_marginals(terms, dataset),
    }
    if isinstance(mechanism, str) and mechanism in planners:
        return planners[mechanism]()
    if mechanism != "auto":
        raise ExplanationError(
            f"There is no mechanism {mechanism!r}.",
            remedy=f"Choose auto or one of: {', '.join(MECHANISMS)}.",
        )
    one_shot = planners["one-shot"]()
    if one_shot.split != DEFAULT_SPLIT or terms.sensitivity == "paper":
        return replace(one_shot, reason="auto took it: no other has such a split or sensitivity")
    plans = [one_shot]
    for other in ("vector", "marginals"):
        try:
            plan = planners[other]()
        except ExplanationError:  # the family is too large for it
            continue
        if plan.rho == 0.0:
            return replace(plan, reason="prepared before")
        if not isinstance(plan, MarginalsExplanation) or plan.preparation.cells <= MOST_CELLS_UNASKED:
            plans.append(plan)
    why = "it predicted the narrowest table" if len(plans) > 1 else "the others would release too much"
    return replace(min(plans, key=lambda plan: plan.imprecision), reason=f"auto took it: {why}")
