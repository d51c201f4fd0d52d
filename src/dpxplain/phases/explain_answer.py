"""Phase 3: the k predicates that matter most, with private intervals of influence and rank (SPEC 6).

Three mechanisms plan the same request from public quantities; `auto` takes what is prepared already,
which is free, or else the one that predicts the narrowest table.
"""

from __future__ import annotations

from collections.abc import Callable

from dpxplain.errors import ExplanationError
from dpxplain.model.release import ExplanationRelease
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.explain_marginals import MarginalsExplanation, plan_marginals
from dpxplain.phases.explain_one_shot import Split, plan_one_shot
from dpxplain.phases.explain_vector import plan_vector
from dpxplain.phases.plan import ExplanationPlan
from dpxplain.phases.request import ExplanationRequest
from dpxplain.privacy.mechanisms.one_shot import DEFAULT_SPLIT

MOST_CELLS_UNASKED = 200_000  # a few seconds of noise; more cells are released only by name
MECHANISMS = ("one-shot", "vector", "marginals")


def plan_explanation(
    request: ExplanationRequest, dataset: OpenDataset, mechanism: str = "auto", split: Split = DEFAULT_SPLIT
) -> ExplanationPlan:
    """Calibrate the mechanism, or for `auto` all of them, and take the best; reads no data."""
    planners: dict[str, Callable[[], ExplanationPlan]] = {
        "one-shot": lambda: plan_one_shot(request, split),
        "vector": lambda: plan_vector(request),
        "marginals": lambda: plan_marginals(request, dataset),
    }
    if mechanism in planners:
        return planners[mechanism]()
    if mechanism != "auto":
        raise ExplanationError(
            f"There is no mechanism {mechanism!r}.",
            remedy=f"Choose auto or one of: {', '.join(MECHANISMS)}.",
        )
    one_shot = planners["one-shot"]()
    if split != DEFAULT_SPLIT or request.sensitivity == "paper":
        return one_shot  # only the paper's mechanism knows these
    plans = [one_shot]
    for other in ("vector", "marginals"):
        try:
            plan = planners[other]()
        except ExplanationError:  # the family is too large for it
            continue
        if not isinstance(plan, MarginalsExplanation) or plan.preparation.cells <= MOST_CELLS_UNASKED:
            plans.append(plan)
    prepared = [plan for plan in plans if plan.rho == 0.0]
    return prepared[0] if prepared else min(plans, key=lambda plan: plan.imprecision)


def explain_answer(
    plan: ExplanationPlan, dataset: OpenDataset, description: str
) -> tuple[ExplanationRelease, int, bool]:
    """The release, its entry in the ledger, and whether it cost nothing."""
    return plan.explain(dataset, description)
