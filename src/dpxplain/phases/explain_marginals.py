"""Explanations read from a prepared answer: any question, any k, any confidence, at no further cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpxplain.errors import ExplanationError
from dpxplain.explanation.distinct import ReleasedCells
from dpxplain.explanation.family import Conjunctions
from dpxplain.model.caching import cached_property
from dpxplain.model.charge import Request, Spend
from dpxplain.model.contrast import Contrast, Ratio, judge
from dpxplain.model.grouped_pass import IntArray
from dpxplain.model.groups import Groups
from dpxplain.model.release import (
    ExplanationLine,
    ExplanationRelease,
    FoldedLine,
    PreparedRelease,
    Released,
)
from dpxplain.phases.assess_question import Assessment
from dpxplain.phases.dataset import OpenDataset, Show, T
from dpxplain.phases.plan import ExplanationPlan, ExplanationTerms
from dpxplain.phases.prepare_answer import (
    Preparation,
    StoredPreparation,
    plan_preparation,
)
from dpxplain.privacy.intervals import DEFAULT_METHOD, Interval
from dpxplain.privacy.marginals.estimates import FloatArray
from dpxplain.privacy.marginals.forecast import ComparedGroups, MarginalCells, MarginalForecast, predict
from dpxplain.privacy.marginals.inference import PreparedGroups, combined_gap, infer


@dataclass(frozen=True)
class MarginalsExplanation(ExplanationPlan):
    """Uses the `stored` preparation, which is free; without one, explaining first makes `preparation`."""

    terms: ExplanationTerms
    preparation: Preparation
    stored: StoredPreparation | None
    mechanism: str = "marginals"
    reason: str = "asked for by name"

    @property
    def rho(self) -> float:
        return 0.0 if self.stored else self.preparation.rho

    @property
    def spends(self) -> tuple[Spend, ...]:
        return () if self.stored else self.preparation.spends

    @property
    def influence_margin(self) -> float:
        return self._forecast.influence_margin

    @property
    def rank_resolution(self) -> float:
        return self._forecast.rank_margin

    @property
    def shortfall(self) -> float:
        """Expected, not proved: the noise of an influence depends on the predicate's rows."""
        return 0.0 if self.k == self.family.size else self.rank_resolution

    @property
    def gap_margin(self) -> float | None:
        return self._forecast.gap_margin

    @property
    def smallest_clear(self) -> float | None:
        """The smallest change of the question's number that will be clear; None if nearly none will be."""
        is_told = self._forecast.trusted or self.terms.kind != "avg"
        return self._forecast.change_margin if is_told else None

    @cached_property
    def _forecast(self) -> MarginalForecast:
        terms, answer = self.terms, self.terms.answer
        low, high = (bound * terms.unit for bound in terms.bounds)
        groups = list(terms.contrast.groups)
        counts = None if answer.noisy_count is None else np.array(answer.noisy_count)[groups]
        means = None
        if terms.kind == "avg" and counts is not None and answer.noisy_sum is not None:
            means = (np.array(answer.noisy_sum)[groups] / np.maximum(counts, 1.0)).tolist()
            means = np.clip(means, (low - high) / 2, (high - low) / 2).tolist()
        doubled = 2 if terms.neighbours == "bounded" else 1
        rows = terms.rows_per_unit * doubled
        return predict(
            MarginalCells(terms.kind, low, high, len(terms.family.parts), rows),
            ComparedGroups(
                counts,
                terms.contrast.weights,
                means,
                count_scale=answer.count_scale or 0.0,
                total_scale=answer.sum_scale or 0.0,
            ),
            family_size=terms.family.size,
            rho=self.stored.worth if self.stored else self.preparation.rho,
            confidence=terms.confidence,
            count_share=self.preparation.rho_count / self.preparation.rho,
        )

    def gap(self, release: ExplanationRelease, confidence: float, method: str) -> Assessment | None:
        """The table's gap; for another confidence or method, computed again from the stored preparation."""
        if self.terms.ratio is not None or release.gap is None or release.gap_interval is None:
            return None
        if (confidence, method) == (release.confidence, DEFAULT_METHOD):
            verdict = judge(release.gap_interval, self.terms.contrast.at_least)
            return Assessment(release.gap, release.gap_interval, verdict)
        if self.stored is None:
            return None
        return assess_prepared(self.terms, self.stored.release, confidence, method)

    def key(self, dataset: OpenDataset) -> str:
        return self.preparation.key(dataset)

    def find(self, dataset: OpenDataset) -> Released[PreparedRelease] | None:
        """The preparation that was found when this was planned."""
        return None if self.stored is None else Released(self.stored.release, self.stored.entry, free=True)

    def explain(
        self,
        dataset: OpenDataset,
        request: Request,
        show: Show[ExplanationRelease, T],
        found: Released[PreparedRelease] | None = None,
    ) -> T:
        def show_table(prepared: Released[PreparedRelease]) -> T:
            return show(Released(self.read(prepared.value), prepared.entry, prepared.free))

        found = found or self.find(dataset)
        if found is not None:
            dataset.check_data()
            return show_table(found)
        terms = self.terms
        look = (len(terms.contrast.groups), terms.k, terms.distinct, terms.ratio is None)
        preparing = request.only("answer", "of", "rho", "family")
        return dataset.find_or_measure(self.preparation, preparing, show_table, look)

    def read(self, prepared: PreparedRelease) -> ExplanationRelease:
        """The table of this question; post-processing of what was released."""
        table = self._table(self.terms, prepared)
        return table if self.terms.ratio is None else self._as_ratios(*self.terms.ratio, table, prepared)

    def _as_ratios(
        self, ratio: Ratio, value: float, table: ExplanationRelease, prepared: PreparedRelease
    ) -> ExplanationRelease:
        """The table with the ratio in place of the weighted sum A − value·B that explains it.

        Without a predicate's rows the ratio is value + (A − value·B)/B. The intervals of A − value·B and of B
        hold for all predicates at once, each with half of the error probability. The share removed is left
        out: it would need both intervals for all rows as well, and so a further split of that probability.
        """
        contrast = self.terms.contrast
        positions = [ratio.groups.index(group) for group in contrast.groups]
        signed = ratio.weights(value)[positions[0]] * contrast.weights[0]
        weights = tuple(math.copysign(weight, signed) for weight in ratio.denominator if weight)
        divisor = Contrast(
            tuple(g for g, w in zip(ratio.groups, ratio.denominator, strict=True) if w), weights
        )
        sure = replace(
            self.terms,
            k=self.terms.family.size,
            confidence=(1.0 + self.terms.confidence) / 2.0,
            distinct=False,
        )
        above = self._table(sure, prepared)
        below = self._table(replace(sure, contrast=divisor), prepared)
        numerators = {line.predicate: line for line in above.lines}
        divisors = {line.predicate: line for line in below.lines}

        def of(line: ExplanationLine) -> ExplanationLine:
            over, under = numerators[line.predicate], divisors[line.predicate]
            assert over.gap_without_interval is not None
            assert under.gap_without_interval is not None
            ends = shifted_ratio(value, over.gap_without_interval, under.gap_without_interval)
            middle = value + (over.gap_without or 0.0) / (under.gap_without or math.inf)
            estimate = min(max(middle, ends[0]), ends[1])
            return replace(
                line,
                gap_without=estimate,
                gap_without_interval=ends,
                share_removed=None,
                share_removed_interval=None,
            )

        assert above.gap is not None
        assert above.gap_interval is not None
        assert below.gap is not None
        assert below.gap_interval is not None
        ends = shifted_ratio(value, above.gap_interval, below.gap_interval)
        gap = value + above.gap / below.gap if below.gap else value
        return replace(table, lines=tuple(map(of, table.lines)), gap=gap, gap_interval=ends)

    def _table(self, terms: ExplanationTerms, prepared: PreparedRelease) -> ExplanationRelease:
        groups = released_groups(terms, prepared)
        folded: dict[int, tuple[FoldedLine, ...]] = {}
        released = ReleasedCells(
            terms.family,
            tuple(part.sum(axis=0) for part in groups.cell_count),
            prepared.count_scale * math.sqrt(len(terms.contrast.groups)),
            terms.confidence,
        )

        def choose(order: IntArray) -> list[int]:
            folded.update(released.fold(order, terms.k))
            return list(folded)

        table = infer(
            groups,
            list(terms.contrast.weights),
            terms.contrast.at_least,
            terms.confidence,
            terms.k,
            self._unions(),
            choose if terms.distinct else None,
        )
        lines = tuple(
            ExplanationLine(
                predicate=line.predicate,
                influence=line.influence,
                influence_interval=line.influence_interval,
                rank=line.rank,
                gap_without=line.gap_without,
                gap_without_interval=line.gap_without_interval,
                folded=folded.get(line.predicate, ()),
                share_removed=line.share,
                share_removed_interval=line.share_interval,
            )
            for line in table.lines
        )
        return ExplanationRelease(
            rho=prepared.rho,
            mechanism=self.mechanism,
            confidence=terms.confidence,
            lines=lines,
            gap=table.gap,
            gap_interval=table.gap_interval,
            private=prepared.private and terms.answer.private,
        )

    def _unions(self) -> list[tuple[int, list[int]]] | None:
        """The cells of every predicate; None if each predicate is one cell."""
        parts = self.family.parts
        if all(isinstance(part, Conjunctions) for part in parts):
            return None
        return [
            (number, part.cells_of(index)) for number, part in enumerate(parts) for index in range(part.size)
        ]


def assess_prepared(
    terms: ExplanationTerms, prepared: PreparedRelease, confidence: float, method: str
) -> Assessment:
    """The assessment by Phase 1 and a preparation together; post-processing of released values."""
    contrast = terms.contrast
    gap, interval = combined_gap(released_groups(terms, prepared), list(contrast.weights), confidence, method)
    return Assessment(gap, interval, judge(interval, contrast.at_least))


def released_groups(
    terms: ExplanationTerms, prepared: PreparedRelease, *, with_answer: bool = True
) -> PreparedGroups:
    """The released cells of the question's groups, and Phase 1's values of these groups if `with_answer`."""
    answer, chosen = terms.answer, list(terms.contrast.groups)
    groups = Groups.of(terms.query, terms.family.schema).size
    low, high = (bound * terms.unit for bound in terms.bounds)

    def first(values: Sequence[float] | None) -> FloatArray | None:
        return None if values is None or not with_answer else np.array(values)[chosen]

    totals = None
    if prepared.noisy_total is not None:
        totals = tuple(part[chosen] for part in prepared.per_part(prepared.noisy_total, groups))
    return PreparedGroups(
        kind=terms.kind,
        low=low,
        high=high,
        count=first(answer.noisy_count),
        count_scale=answer.count_scale,
        total=first(answer.noisy_sum),
        total_scale=answer.sum_scale,
        cell_count=tuple(part[chosen] for part in prepared.per_part(prepared.noisy_count, groups)),
        cell_count_scale=prepared.count_scale,
        cell_total=totals,
        cell_total_scale=prepared.total_scale,
    )


def shifted_ratio(value: float, above: Interval, below: Interval) -> Interval:
    """The interval of value + a/b for a and b in their intervals; unbounded if b may be 0 or less.

    >>> shifted_ratio(2.0, (-4.0, 2.0), (2.0, 4.0)), shifted_ratio(2.0, (1.0, 2.0), (-1.0, 4.0))
    ((0.0, 3.0), (-inf, inf))
    """
    if below[0] <= 0.0:
        return -math.inf, math.inf
    quotients = [a / b for a in above for b in below]
    return value + min(quotients), value + max(quotients)


def plan_marginals(terms: ExplanationTerms, stored: StoredPreparation | None) -> MarginalsExplanation:
    """Plans to read the `stored` preparation if it is precise enough, and otherwise to make one."""
    if terms.sensitivity == "paper":
        raise ExplanationError(
            "The marginals mechanism is not in the paper, so it has no published sensitivity.",
            remedy="Use mechanism='one-shot' with sensitivity='paper'.",
        )
    preparation = plan_preparation(terms.query, terms.family, terms.answer, terms.family.schema, terms.rho)
    # A higher price than was paid asks for more precision than is stored.
    usable = stored is not None and stored.worth >= terms.rho
    return MarginalsExplanation(terms, preparation, stored if usable else None)
