"""Phase 3: plans an explanation by the mechanism asked for or the best one, or for a wanted precision.

Three mechanisms plan the same explanation from public quantities (docs/specification.md, section 6). Two of
them, here, score influences; the third reads a prepared answer (`explain_marginals.py`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpxplain.errors import ExplanationError
from dpxplain.explanation.distinct import (
    MOST_NESTING_WORK,
    can_nest,
    fold_implied,
    nested_with,
    nesting_work,
)
from dpxplain.explanation.family import PredicateFamily
from dpxplain.explanation.influence import influences, scores
from dpxplain.model.charge import LARGEST_RHO, Charge, Request, Spend
from dpxplain.model.confidential import Confidential
from dpxplain.model.contrast import Contrast
from dpxplain.model.hardening import plain, plain_number, plain_numbers
from dpxplain.model.process import stoppable_steps
from dpxplain.model.query import Query, query_shape
from dpxplain.model.release import ExplanationRelease, FloatArray, IntArray, Released, ReleasedLine
from dpxplain.phases.dataset import OpenDataset, Show, T
from dpxplain.phases.explain_marginals import MarginalsExplanation, plan_marginals
from dpxplain.phases.plan import ExplanationPlan, ExplanationTerms, Split
from dpxplain.phases.prepare import StoredPreparation
from dpxplain.privacy.calibration import (
    LARGEST_SCALE,
    gaussian_scale,
    rank_probes,
    rank_slack,
    rounded_up,
    top_k_scale,
    two_sided_quantile,
)
from dpxplain.privacy.mechanisms.noise import NoiseSource
from dpxplain.privacy.mechanisms.ranking import (
    DEFAULT_SPLIT,
    LOWER_SHARE,
    OneShotPlan,
    Selected,
    VectorPlan,
    release_vector,
    select_and_measure,
)
from dpxplain.privacy.mechanisms.samplers import FamilyScores
from dpxplain.privacy.sensitivity import (
    SCORE_GRID,
    SCORE_SENSITIVITY,
    SCORE_SLACK,
    family_sensitivity,
    influence_sensitivity,
)

# -- Scored mechanisms -------------------------------------------------------------------------------------
#
# One-shot is the paper's: select, measure, bound the ranks. Vector releases all influences at once
# (docs/specification.md, mechanisms).

_LEAST_SHARE = 1e-6  # of either rank bound: a part that rounds to nothing would not be paid for
LARGEST_VECTOR = 1_000_000  # every predicate is released, so each needs a noise draw


@dataclass(frozen=True)
class Scoring:
    """score = round(influence · 2^20 / sensitivity), so one privacy unit moves it by at most 2^20 + slack."""

    sensitivity: float  # of one influence, in grid units of the aggregated column (rows for COUNT)
    per_score: float  # influence per score, in the unit of the column

    @classmethod
    def of(cls, terms: ExplanationTerms) -> Scoring:
        per_row = influence_sensitivity(
            terms.kind,
            terms.contrast.weights,
            *terms.bounds,
            paper=terms.sensitivity == "paper",
            neighbours=terms.neighbours,
        )
        sensitivity = per_row * terms.rows_per_unit
        return cls(sensitivity, sensitivity / SCORE_GRID * terms.unit)


@dataclass(frozen=True)
class ActiveInfluences:
    """True influences, in grid units, of the listed predicates: all, or those that some row satisfies."""

    active: IntArray
    influence: FloatArray


def true_influences(
    query: Query, contrast: Contrast, family: PredicateFamily, dataset: OpenDataset
) -> Confidential[ActiveInfluences]:
    """Influence of every predicate of the family; those not listed have influence 0."""
    dataset.progress(f"Counting {family.size:,} conditions in one pass")
    cells = dataset.question_cells(query, family, contrast.groups)
    kind, weights, middle = query.aggregate.explained, contrast.weights, 0
    if kind == "avg":
        assert query.aggregate.column is not None
        grid = dataset.schema.column(query.aggregate.column).grid
        middle = grid.low + grid.high
    return cells.map(lambda data: ActiveInfluences(data.active, influences(kind, weights, data, middle)))


def true_scores(
    terms: ExplanationTerms, scoring: Scoring, dataset: OpenDataset
) -> Confidential[FamilyScores]:
    true = true_influences(terms.query, terms.contrast, terms.family, dataset)
    return true.map(
        lambda t: FamilyScores(t.active, scores(t.influence, scoring.sensitivity), terms.family.size)
    )


class ScoredPlan(ExplanationPlan):
    """A mechanism that releases scores of influences and stores its table (one-shot, vector)."""

    scoring: Scoring

    @property
    @abstractmethod
    def score_scale(self) -> float:
        """σ of each released score."""

    @abstractmethod
    def draw(self, scores: Confidential[FamilyScores], noise: NoiseSource) -> list[Selected]:
        """Choose and measure k predicates under privacy."""

    @property
    def influence_margin(self) -> float:
        """Half the width of an influence interval; its slack covers the rounding of scores."""
        reach = two_sided_quantile(self.confidence) * self.score_scale + SCORE_SLACK
        return reach * self.scoring.per_score

    def _influence_of(self, difference: float) -> float:
        """A difference of two scores as influence, with slack because both are rounded."""
        return (difference + 2 * SCORE_SLACK) * self.scoring.per_score if difference else 0.0

    def measure(self, dataset: OpenDataset) -> ExplanationRelease:
        scores = true_scores(self.terms, self.scoring, dataset)
        dataset.progress("Choosing and measuring explanations under privacy")
        lines, margin = [], self.influence_margin
        for line in stoppable_steps(self.draw(scores, dataset.noise)):
            influence = line.score * self.scoring.per_score
            interval = (influence - margin, influence + margin)
            lines.append(ReleasedLine(line.predicate, influence, interval, line.rank))
        return ExplanationRelease(
            rho=self.rho,
            mechanism=self.mechanism,
            confidence=self.confidence,
            lines=tuple(lines),
            influence_scale=self.score_scale * self.scoring.per_score,
            private=dataset.noise.private,
        )

    @property
    def shape(self) -> Hashable:
        terms = self.terms
        return query_shape(terms.query), terms.family.key, len(terms.contrast.groups), terms.k, terms.distinct

    def charge(self, dataset: OpenDataset, request: Request) -> Charge:
        return Charge("explain", self.key(dataset), request, self.rho, self.spends)

    def read(self, text: str) -> ExplanationRelease:
        return ExplanationRelease.from_json(text)

    def lines(self, release: ExplanationRelease) -> tuple[ReleasedLine, ...]:
        return fold_implied(self.family, release.lines) if self.terms.distinct else release.lines

    def find(self, dataset: OpenDataset) -> Released[ExplanationRelease] | None:
        return dataset.find(self)

    def explain(
        self,
        dataset: OpenDataset,
        request: Request,
        show: Show[ExplanationRelease, T],
        found: Released[ExplanationRelease] | None = None,
    ) -> T:
        return dataset.find_or_measure(self, request, show, found=found)


@dataclass(frozen=True)
class OneShotExplanation(ScoredPlan):
    terms: ExplanationTerms
    scoring: Scoring
    one_shot: OneShotPlan
    mechanism: str = "one-shot"
    reason: str = "asked for by name"
    split: Split | None = DEFAULT_SPLIT
    lower_share: float | None = LOWER_SHARE

    @property
    def spends(self) -> tuple[Spend, ...]:
        return self.one_shot.spends

    @property
    def score_scale(self) -> float:
        return self.one_shot.influence_scale

    @property
    def rank_resolution(self) -> float:
        return self.one_shot.rank_resolution(self.confidence) * self.scoring.per_score

    def key(self, dataset: OpenDataset) -> str:
        selection = ["distinct"] if self.selects_distinct else []
        return self.terms.key(dataset, self.mechanism, self.one_shot.identity, *selection)

    @property
    def shortfall(self) -> float:
        return self._influence_of(self.one_shot.shortfall(self.confidence, distinct=self.selects_distinct))

    @property
    def rank_reach(self) -> tuple[float, float]:
        below, above = map(self._influence_of, self.one_shot.rank_reach(self.confidence))
        return below, above

    @property
    def selects_distinct(self) -> bool:
        return self.terms.distinct and can_nest(self.family)

    def draw(self, scores: Confidential[FamilyScores], noise: NoiseSource) -> list[Selected]:
        repeated_by = partial(nested_with, self.family) if self.selects_distinct else None
        return select_and_measure(scores, self.one_shot, self.confidence, noise, repeated_by)


def check_shares(terms: ExplanationTerms, split: Split, lower_share: float) -> tuple[Split, float]:
    """The split of ρ and the lower share as plain numbers; raises if one-shot cannot use them."""
    shares = usable_split(split)
    if shares is None:
        raise ExplanationError(
            "split must be three positive numbers (select, influence, rank), none of them more than a "
            f"million times another, not {split!r}.",
            remedy="Use split=(1, 1, 2).",
        )
    lower = plain_number(lower_share)
    if lower is None or not _LEAST_SHARE <= lower <= 1 - _LEAST_SHARE:
        raise ExplanationError(
            f"lower_share must be a number between 0 and 1, such as 0.1, not {lower_share!r}.",
            remedy="Leave out lower_share. A tenth of the ρ for ranks then goes to their lower bounds, as in "
            "the paper.",
        )
    if terms.distinct and terms.k * nesting_work(terms.family) > MOST_NESTING_WORK:
        raise ExplanationError(
            f"Comparing each of {terms.k:,} conditions with all {terms.family.size:,} takes too long.",
            remedy="Use a smaller k, fewer conditions, or distinct=False.",
        )
    return shares, lower


def plan_one_shot(terms: ExplanationTerms, split: Split, lower_share: float) -> OneShotExplanation:
    shares, lower = check_shares(terms, split, lower_share)
    scoring = Scoring.of(terms)
    one_shot = OneShotPlan.share(
        k=terms.k,
        family_size=terms.family.size,
        sensitivity=SCORE_SENSITIVITY,
        rho=terms.rho,
        split=shares,
        lower_share=lower,
    )
    # The selection multiplies the scale by a logarithm of the family's size, at most 20.
    if not one_shot.largest_scale * 32 <= LARGEST_SCALE:
        raise too_small(terms)
    return OneShotExplanation(terms, scoring, one_shot, split=shares, lower_share=lower)


def too_small(terms: ExplanationTerms) -> ExplanationError:
    return ExplanationError(
        f"rho={terms.rho!r} is too small for k={terms.k} conditions.",
        remedy="Use a larger rho or a smaller k.",
    )


def usable_split(split: object) -> Split | None:
    """The three shares; None if one is so small that its part would round to nothing and not be paid for."""
    shares = plain_numbers(split)
    if shares is None or len(shares) != 3:
        return None
    usable = all(1e-100 < part < 1e100 for part in shares) and max(shares) <= 1e6 * min(shares)
    return (shares[0], shares[1], shares[2]) if usable else None


@dataclass(frozen=True)
class VectorExplanation(ScoredPlan):
    terms: ExplanationTerms
    scoring: Scoring
    vector: VectorPlan
    mechanism: str = "vector"
    reason: str = "asked for by name"

    @property
    def spends(self) -> tuple[Spend, ...]:
        return self.vector.spends

    @property
    def score_scale(self) -> float:
        return self.vector.fresh_scale

    @property
    def rank_resolution(self) -> float:
        return self.vector.rank_resolution(self.confidence) * self.scoring.per_score

    @property
    def shortfall(self) -> float:
        return self._influence_of(self.vector.shortfall(self.confidence))

    @property
    def rank_reach(self) -> tuple[float, float]:
        """Scores in a rank interval differ by at most one resolution with noise, so by two without it."""
        reach = self._influence_of(2 * self.vector.rank_resolution(self.confidence))
        return reach, reach

    def key(self, dataset: OpenDataset) -> str:
        return self.terms.key(dataset, self.mechanism, self.vector)

    def draw(self, scores: Confidential[FamilyScores], noise: NoiseSource) -> list[Selected]:
        return release_vector(scores, self.vector, self.confidence, noise)


def plan_vector(terms: ExplanationTerms) -> VectorExplanation:
    if terms.sensitivity == "paper":
        raise ExplanationError(
            "The vector mechanism is not in the paper, so it has no published sensitivity.",
            remedy="Use mechanism='one-shot' with sensitivity='paper'.",
        )
    if terms.family.size > LARGEST_VECTOR:
        raise ExplanationError(
            f"This mechanism measures every condition, and {terms.family.size:,} conditions are too many for "
            "it.",
            remedy="Use mechanism='one-shot', or fewer attributes or conjuncts.",
        )
    scoring = Scoring.of(terms)
    together = terms.rows_per_unit * family_sensitivity(
        terms.kind,
        terms.contrast.weights,
        *terms.bounds,
        overlap=terms.family.overlap,
        neighbours=terms.neighbours,
    )
    # Rounding moves each score by its slack, in the worst case all of them (docs/proofs/sensitivity.md).
    of_all = SCORE_GRID * (together / scoring.sensitivity) + SCORE_SLACK * math.sqrt(terms.family.size)
    half = terms.rho / 2
    plan = VectorPlan(
        terms.k, terms.family.size, SCORE_SENSITIVITY, rounded_up(of_all), terms.rho - half, half
    )
    if not max(plan.all_scale, plan.fresh_scale) <= LARGEST_SCALE:
        raise too_small(terms)
    return VectorExplanation(terms, scoring, plan)


# -- Mechanism and price -----------------------------------------------------------------------------------
#
# `auto` takes a stored preparation, which is free, or else the mechanism that predicts the narrowest table.
# Every interval of every mechanism narrows with √ρ, so the price of a wanted width can be found by bisection.

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
    """The plan of the least ρ that reaches all goals.

    Only for a `precision` is that ρ 0 where the stored preparation is enough. For other goals it is the price
    that would reach them if nothing were stored.
    """
    plans = []
    if goal.relative is not None:
        if relative_to is None or not goal.relative > 0:
            raise ExplanationError(
                "relative must be a positive number, and the gap must be larger than its noise.",
                remedy="Pass a number such as 0.02. If the gap is too noisy, first repeat the query with a "
                "larger budget.",
            )
        margin = plain(goal.relative * relative_to)
        plans.append(_cheapest(terms, stored, mechanism, lambda plan: plan.influence_margin <= margin))
    if goal.ranks is not None:
        plans.append(rho_for_ranks(terms, stored, goal.ranks))
    if goal.precision is not None:
        plans.append(rho_for_precision(terms, stored, goal.precision, mechanism))
    if not plans:
        raise ExplanationError(
            "You named no precision.", remedy="Pass relative=0.02, ranks=3 or precision=0.9."
        )
    return max(plans, key=lambda plan: plan.rho)


def rho_for_ranks(terms: ExplanationTerms, stored: StoredPreparation | None, width: int) -> ExplanationPlan:
    """The cheapest preparation whose k rank intervals are predicted to span at most `width` on average.

    Needs influences that are released already: an earlier, cheaper preparation of the same answer.
    """
    width = plain(width)
    influence = np.array([line.influence for line in _all_lines(terms, stored, "How wide ranks will be")])

    def is_narrow(plan: ExplanationPlan) -> bool:
        near = np.abs(influence[: terms.k, None] - influence[None, :]) <= plan.rank_resolution
        return float(near.sum(axis=1).mean()) - 1.0 <= max(width, 1e-9)

    return _cheapest(terms, stored, "marginals", is_narrow)


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
    lines = _all_lines(terms, stored, "How many of the true k will be shown")
    terms = replace(terms, distinct=False)
    doubtful = sum(line.rank[1] > terms.k for line in lines[: terms.k])
    rivals = sum(line.rank[0] <= terms.k for line in lines[terms.k :])
    if min(doubtful, rivals) <= wrong:
        return plan_marginals(replace(terms, rho=_BARELY), stored)
    influence = [line.influence for line in lines]
    cheapest = _cheapest(
        terms, stored, mechanism, lambda plan: most_wrong(influence, terms.k, plan.shortfall) <= wrong
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


def _all_lines(
    terms: ExplanationTerms, stored: StoredPreparation | None, unknown: str
) -> tuple[ReleasedLine, ...]:
    """All influences by the stored preparation, the highest first; raises if there is none."""
    if stored is None:
        raise ExplanationError(
            f"{unknown} depends on how close the influences are, which is not known yet.",
            remedy="First prepare the answer with a small budget, for example answer.prepare(rho=0.01).",
        )
    whole = replace(terms, k=terms.family.size, rho=stored.worth, distinct=False)
    return plan_marginals(whole, stored).read(stored.release).lines


def _cheapest(
    terms: ExplanationTerms,
    stored: StoredPreparation | None,
    mechanism: str,
    reaches_goal: Callable[[ExplanationPlan], bool],
) -> ExplanationPlan:
    """The cheapest plan that reaches the goal, by bisection: so does every plan of a larger ρ."""

    def plan(rho: float) -> ExplanationPlan:
        # Priced as if nothing were stored: a plan that is free already tells no price.
        priced = plan_explanation(replace(terms, rho=rho), stored, mechanism)
        return replace(priced, stored=None) if isinstance(priced, MarginalsExplanation) else priced

    low, high = 1e-9, 1e4
    if not reaches_goal(plan(high)):
        raise ExplanationError(
            "No reasonable budget reaches this precision.",
            remedy="Ask for wider intervals or ranks, a lower precision, or another k.",
        )
    while high / low > 1 + _CLOSE:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if reaches_goal(plan(middle)) else (middle, high)
    return plan(min(high, LARGEST_RHO))


def best_split(k: int, family_size: int, confidence: float) -> Split:
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
