"""Seeded repetitions of the three phases, which the experiments' cells compute.

True counts are read once per question, and each repetition draws noise from a seed. The product's own
mechanisms draw their tables with `SeededNoise`; the paper's are in published.py. Nothing here is private.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from dpxplain.phases.explain import true_influences, true_scores
from dpxplain.phases.plan import ExplanationOptions
from dpxplain.privacy.intervals import NoisyMeans, weighted_means_intervals
from dpxplain.privacy.mechanisms.noise import SeededNoise
from dpxplain.privacy.sensitivity import family_sensitivity, influence_sensitivity
from experiments import tables
from experiments.published import Drawn, FloatArray, IntArray, draw, question_intervals, top_k
from experiments.questions import QUESTIONS, PaperQuestion

RHO_QUERY, RHO_TOP_K, RHO_INFLUENCE, RHO_RANK = 0.1, 0.5, 0.5, 1.0  # the paper's defaults
DEFAULT_RHOS = (RHO_TOP_K, RHO_INFLUENCE, RHO_RANK)
K, CONFIDENCE = 5, 0.95

PUBLISHED, CORRECTED, VECTOR, MARGINALS = "as published", "corrected one-shot", "vector", "marginals"
EVERY = "noise on every candidate"
MECHANISMS = (PUBLISHED, CORRECTED, VECTOR, MARGINALS)

Rhos = tuple[float, float, float]


@dataclass(frozen=True)
class Case:
    """A question on an open table, with its true values."""

    asked: PaperQuestion
    question: Any
    conjuncts: int

    @property
    def dataset(self) -> Any:
        return self.question._dataset

    @cached_property
    def plan(self) -> Any:
        """Any plan of the question. Only its terms are used, which have the sensitivities' parameters."""
        return self.plan_of("one-shot", K, 1.0)

    def plan_of(self, mechanism: str, k: int, rho: float, confidence: float = CONFIDENCE, **how: Any) -> Any:
        choice = self.asked.choice(self.conjuncts)
        return self.question.plan_explain(
            ExplanationOptions(choice, k, rho, mechanism, confidence, **how)
        ).plan

    @cached_property
    def influence(self) -> FloatArray:
        """The true influence of every predicate, in the column's unit."""
        terms = self.plan.terms
        true = true_influences(terms.query, terms.contrast, terms.family, self.dataset).reveal()
        dense = np.zeros(terms.family.size)
        dense[true.active] = true.influence
        return dense * terms.unit

    @cached_property
    def rank(self) -> IntArray:
        """1 + the number of predicates with a higher influence."""
        return 1 + np.searchsorted(np.sort(-self.influence), -self.influence, side="left")

    def name_of(self, predicate: int) -> str:
        return str(self.plan.terms.family.predicate(int(predicate)))

    @cached_property
    def totals(self) -> tuple[FloatArray, FloatArray]:
        """The true numbers of rows and sums of the question's groups."""
        terms = self.plan.terms
        totals, groups = self.dataset.totals(terms.query).reveal(), list(terms.contrast.groups)
        return totals.count[groups].astype(float), totals.total[groups] * terms.unit

    @property
    def gap(self) -> float:
        """The true gap, Σ w·value."""
        counts, sums = self.totals
        values = sums / counts if self.plan.terms.kind == "avg" else counts
        return float(np.dot(self.plan.terms.contrast.weights, values))

    @property
    def relative_to(self) -> float:
        """The divisor of relative influences: the true gap, for averages times the smallest group's rows."""
        return abs(self.gap) * (self.totals[0].min() if self.plan.terms.kind == "avg" else 1.0)

    def sensitivity(self, *, paper: bool) -> float:
        terms = self.plan.terms
        return terms.unit * influence_sensitivity(
            terms.kind, terms.contrast.weights, *terms.bounds, paper=paper
        )

    @property
    def family_sensitivity(self) -> float:
        terms = self.plan.terms
        return terms.unit * family_sensitivity(
            terms.kind, terms.contrast.weights, *terms.bounds, overlap=terms.family.overlap
        )


@lru_cache(maxsize=4)
def _session(data: str, rows: int) -> Any:
    session = tables.open_session(data, rows)
    dataset: Any = session._dataset
    counted: dict[Any, Any] = {}
    count = dataset.marginals

    def count_once(query: Any, family: Any) -> Any:
        """Keep the counts: the product asks once and does not keep them, but each repetition asks again."""
        key = (str(query), family.key)
        if key not in counted:
            counted[key] = count(query, family)
        return counted[key]

    dataset.marginals = count_once
    return session


@lru_cache(maxsize=64)
def case(name: str, rows: int, conjuncts: int = 1) -> Case:
    asked = QUESTIONS[name]
    return ask(asked, rows, 0, RHO_QUERY, conjuncts)


def ask(asked: PaperQuestion, rows: int, seed: int, rho: float = RHO_QUERY, conjuncts: int = 1) -> Case:
    """Run Phases 1 and 2 with the noise of one seed."""
    session = _session(asked.data, rows)
    session._dataset.noise = SeededNoise(seed)
    answer = session.query(asked.sql, rho=rho)
    return Case(asked, answer.why(asked.contrast, at_least=0), conjuncts)


def drawing(
    case: Case, rows: int, mechanism: str, rhos: Rhos, k: int, confidence: float
) -> Callable[[int], Drawn]:
    """A function that draws a table from a seed."""
    if mechanism == PUBLISHED:
        influence, sensitivity = case.influence, case.sensitivity(paper=True)
        return lambda seed: draw(
            influence, sensitivity, k, rhos, confidence, np.random.default_rng([7, seed])
        )
    if mechanism in (CORRECTED, VECTOR):
        how = {"split": rhos} if mechanism == CORRECTED else {}
        kind = "one-shot" if mechanism == CORRECTED else "vector"
        plan = case.plan_of(kind, k, sum(rhos), confidence, **how)
        scores = true_scores(plan.terms, plan.scoring, case.dataset)

        def from_scores(seed: int) -> Drawn:
            lines = plan.draw(scores, SeededNoise(seed))
            centre = np.array([line.score for line in lines]) * plan.scoring.per_score
            first, last = np.array([line.rank for line in lines]).T
            chosen = np.array([line.predicate for line in lines])
            return Drawn(chosen, centre - plan.influence_margin, centre + plan.influence_margin, first, last)

        return from_scores

    def from_marginals(seed: int) -> Drawn:
        fresh = ask(
            case.asked, rows, seed, RHO_QUERY, case.conjuncts
        )  # its table uses the answer's noise too
        fresh.dataset.noise = SeededNoise(2**31 + seed)  # the same state even if the answer was stored before
        plan = fresh.plan_of("marginals", k, sum(rhos), confidence)
        lines = plan.read(plan.preparation.measure(fresh.dataset)).lines
        low, high = np.array([line.influence_interval for line in lines]).T
        first, last = np.array([line.rank for line in lines]).T
        return Drawn(np.array([line.predicate for line in lines]), low, high, first, last)

    return from_marginals


def _own(question: str) -> int:
    """The first seed of a question, so no two questions share their noise."""
    return 10_000 * (1 + list(QUESTIONS).index(question))


def tables_drawn(
    *, question: str, rows: int, mechanism: str, rhos: list[float], k: int, confidence: float, conjuncts: int,
    runs: int,
) -> list[dict[str, Any]]:  # fmt: skip
    """Means over the repetitions of precision@k, interval widths and coverage."""
    asked = case(question, rows, conjuncts)
    table_of = drawing(asked, rows, mechanism, (rhos[0], rhos[1], rhos[2]), k, confidence)
    points = []
    for seed in range(runs):
        table = table_of(_own(question) + seed)
        true, rank = asked.influence[table.chosen], asked.rank[table.chosen]
        slack = 1e-9 * np.abs(true)
        points.append(
            (
                np.mean(rank <= k),
                np.mean(table.high - table.low) / asked.relative_to,
                np.mean(table.last - table.first),
                np.mean((table.low - slack <= true) & (true <= table.high + slack)),
                np.mean((table.first <= rank) & (rank <= table.last)),
                table.overspent,
            )
        )
    names = ("precision", "influence_width", "rank_width", "influence_covered", "rank_covered", "overspent")
    means = dict(zip(names, np.mean(points, axis=0).tolist(), strict=True))
    return [{"question": question, "mechanism": mechanism, "runs": runs} | means]


def selections(
    *, question: str, rows: int, mechanism: str, rho: float, k: int, conjuncts: int, runs: int
) -> list[dict[str, Any]]:
    """Precision@k for `rho` in total, spent on selection only; vector and marginals draw a whole table."""
    if mechanism in (VECTOR, MARGINALS):
        third = rho / 3
        whole = tables_drawn(
            question=question, rows=rows, mechanism=mechanism, rhos=[third, third, rho - 2 * third], k=k,
            confidence=CONFIDENCE, conjuncts=conjuncts, runs=runs,
        )  # fmt: skip
        return [{**line, "rho": rho, "k": k, "l": conjuncts} for line in whole]
    asked = case(question, rows, conjuncts)
    precision = []
    for seed in range(runs):
        seeded = np.random.default_rng([11, _own(question), seed])
        if mechanism == EVERY:
            scale = asked.sensitivity(paper=False) * math.sqrt(len(asked.influence) / (2 * rho))
            noisy = asked.influence + seeded.normal(0.0, scale, len(asked.influence))
            chosen = np.argsort(-noisy)[:k]
        else:
            chosen = top_k(asked.influence, asked.sensitivity(paper=mechanism == PUBLISHED), k, rho, seeded)
        precision.append(np.mean(asked.rank[chosen] <= k))
    found = {
        "question": question,
        "mechanism": mechanism,
        "runs": runs,
        "precision": float(np.mean(precision)),
    }
    return [{**found, "rho": rho, "k": k, "l": conjuncts, "predicates": len(asked.influence)}]


def full_rankings(
    *, question: str, rows: int, mechanism: str, rho: float, conjuncts: int, runs: int
) -> list[dict[str, Any]]:
    """Kendall's τ between the true order of all predicates and the released one, for `rho` in total.

    The paper's order is its top-k with k = |P|. One Gaussian release of the whole vector needs no k.
    """
    from scipy.stats import kendalltau

    asked = case(question, rows, conjuncts)
    size = len(asked.influence)
    taus = []
    for seed in range(runs):
        seeded = np.random.default_rng([13, _own(question), seed])
        if mechanism == VECTOR:
            scale = asked.family_sensitivity / math.sqrt(2 * rho)
            noisy = asked.influence + seeded.normal(0.0, scale, size)
            tau = kendalltau(noisy, asked.influence).statistic
        else:
            order = top_k(asked.influence, asked.sensitivity(paper=mechanism == PUBLISHED), size, rho, seeded)
            tau = kendalltau(-np.arange(size), asked.influence[order]).statistic
        taus.append(tau)
    return [
        {
            "question": question, "mechanism": mechanism, "rho": rho, "l": conjuncts, "runs": runs,
            "tau": float(np.mean(taus)), "predicates": size,
        }
    ]  # fmt: skip


def judgements(
    *, question: str, rows: int, method: str, rho: float, runs: int, confidence: float = CONFIDENCE
) -> list[dict[str, Any]]:
    """How often Phase 2 judges the question rightly, and how often its interval holds the true gap.

    By the paper's rule a question is valid only if its whole interval is positive.
    """
    asked = case(question, rows)
    terms = asked.plan.terms
    counts, sums = asked.totals
    low, high = (bound * terms.unit for bound in terms.bounds)
    seeded = np.random.default_rng([17, _own(question), round(1e6 * rho)])
    if method == "image, as published":
        lowest, highest = question_intervals(counts, sums, high, rho, confidence, runs, seeded)
    else:
        scale = 1 / math.sqrt(rho)
        centred = sums - counts * (low + high) / 2
        released = NoisyMeans(
            noisy_sum=centred + seeded.normal(0.0, (high - low) / 2 * scale, (runs, 2)),
            noisy_count=counts + seeded.normal(0.0, scale, (runs, 2)),
            sum_scale=np.full(2, (high - low) / 2 * scale),
            count_scale=np.full(2, scale),
            low=np.full(2, low),
            high=np.full(2, high),
        )
        lowest, highest = weighted_means_intervals(released, np.array([1.0, -1.0]), confidence, method)
    valid = lowest > 0
    finite = np.isfinite(highest)
    return [
        {
            "question": question, "method": method, "rho": rho, "runs": runs, "valid": asked.gap > 0,
            "smallest_group": int(counts.min()), "gap": asked.gap,
            "correct": float(np.mean(valid == (asked.gap > 0))),
            "covered": float(np.mean((lowest <= asked.gap) & (asked.gap <= highest))),
            "width": float(np.median(highest - lowest)) if finite.all() else math.inf,
        }
    ]  # fmt: skip


def shown_table(
    *, question: str, rows: int, mechanism: str, rhos: list[float], seed: int, k: int = K
) -> list[dict[str, Any]]:
    """One drawn table beside the truth, a row per line, sorted as in the paper."""
    asked = case(question, rows)
    table = drawing(asked, rows, mechanism, (rhos[0], rhos[1], rhos[2]), k, CONFIDENCE)(seed)
    order = np.lexsort((table.last, -table.high))
    return [
        {
            "question": question, "mechanism": mechanism, "seed": seed,
            "predicate": asked.name_of(table.chosen[i]),
            "low": table.low[i] / asked.relative_to, "high": table.high[i] / asked.relative_to,
            "first": int(table.first[i]), "last": int(table.last[i]),
            "true": asked.influence[table.chosen[i]] / asked.relative_to,
            "true_rank": int(asked.rank[table.chosen[i]]),
        }
        for i in order
    ]  # fmt: skip


def answers_shown(*, question: str, rows: int, rho: float, seed: int) -> list[dict[str, Any]]:
    """Phase 1 with one seed: the released and the true value of every group."""
    asked = QUESTIONS[question]
    session = _session(asked.data, rows)
    session._dataset.noise = SeededNoise(seed)
    answer = session.query(asked.sql, rho=rho)
    totals = session._dataset.totals(answer.statement.query).reveal()
    lines = []
    for number in range(answer.groups.size):
        group = answer.groups.label(number)
        released = answer[group]
        lines.append(
            {
                "question": question, "group": group, "seed": seed, "rows": int(totals.count[number]),
                "released": released.estimate, "low": released.interval[0], "high": released.interval[1],
                "true": float(totals.total[number] / totals.count[number]),
            }
        )  # fmt: skip
    return lines


def question_shown(*, question: str, rows: int, rho: float, seed: int) -> list[dict[str, Any]]:
    """Phases 1 and 2 with one seed through the public classes, beside the truth."""
    asked = ask(QUESTIONS[question], rows, seed, rho)
    counts, sums = asked.totals
    released = asked.question
    low, high = released.interval
    terms = asked.plan.terms
    return [
        {
            "question": question, "seed": seed, "estimate": released.estimate, "low": low, "high": high,
            "verdict": released.verdict.value, "true_gap": asked.gap,
            "first_group": counts[0], "second_group": counts[1],
            "first_value": sums[0] / counts[0] if terms.kind == "avg" else counts[0],
            "second_value": sums[1] / counts[1] if terms.kind == "avg" else counts[1],
        }
    ]  # fmt: skip
