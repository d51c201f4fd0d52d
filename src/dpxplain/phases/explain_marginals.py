"""Explanations and stories read from a prepared answer, at no further cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpxplain.errors import ExplanationError
from dpxplain.explanation.distinct import ReleasedCells
from dpxplain.explanation.family import Conjunctions, PredicateFamily
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.charge import Entry, Request, Spend
from dpxplain.model.contrast import Contrast, Ratio, judge
from dpxplain.model.groups import Groups
from dpxplain.model.hardening import plain
from dpxplain.model.process import cached_property
from dpxplain.model.query import Predicate
from dpxplain.model.release import (
    ExplanationRelease,
    FloatArray,
    FoldedLine,
    IntArray,
    PreparedRelease,
    Released,
    ReleasedLine,
)
from dpxplain.phases.assess import Assessment
from dpxplain.phases.dataset import OpenDataset, Show, T
from dpxplain.phases.plan import ExplanationPlan, ExplanationTerms
from dpxplain.phases.prepare import Preparation, Preparations, StoredPreparation, plan_preparation
from dpxplain.privacy.calibration import failure_quantile
from dpxplain.privacy.intervals import DEFAULT_METHOD, Interval, NoisyMean
from dpxplain.privacy.marginals.estimates import Estimates, PreparedGroups, estimate
from dpxplain.privacy.marginals.inference import (
    ComparedGroups,
    Gap,
    MarginalCells,
    MarginalForecast,
    RowsOfGroups,
    all_rows,
    combined_gap,
    estimated_influences,
    expected_mean_gap_margin,
    gap_among,
    infer,
    predict,
    rows_with,
    rows_without,
)

# -- Explanations ------------------------------------------------------------------------------------------


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
        is_expected = self._forecast.is_trusted or self.terms.kind != "avg"
        return self._forecast.change_margin if is_expected else None

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
        halved = replace(
            self.terms,
            k=self.terms.family.size,
            confidence=(1.0 + self.terms.confidence) / 2.0,
            distinct=False,
        )
        above = self._table(halved, prepared)
        below = self._table(replace(halved, contrast=divisor), prepared)
        numerators = {line.predicate: line for line in above.lines}
        divisors = {line.predicate: line for line in below.lines}

        def of(line: ReleasedLine) -> ReleasedLine:
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
        lines = tuple(replace(line, folded=folded.get(line.predicate, ())) for line in table.lines)
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


# -- Stories -----------------------------------------------------------------------------------------------
#
# A story breaks a gap down: the condition estimated to explain most, within its rows the next, and what
# remains. It is read from stored marginals of single conditions, pairs and triples at no cost. Otherwise, one
# preparation of all of them is paid for, and reserved in full before data are read (docs/proofs/story.md).

MOST_LEVELS = 3
USUAL_LEVELS = 2
TABLE_ROWS = 5  # of the table beside a story
TYPICAL_ROWS = 1_000  # of a group, where precision depends on its size

Codes = dict[str, int]  # a conjunction: which declared value each of its columns has


@dataclass(frozen=True)
class StoryLine:
    """One step: a further condition, the gap among the rows that meet it, and among those that do not."""

    predicate: Predicate  # with the conditions of all steps before
    condition: Predicate  # the step's own
    inside: Gap
    rest: Gap
    is_clear: bool  # leaving its rows out lowers the number by more than noise explains


@dataclass(frozen=True)
class _Step:
    """A candidate for the next line of a story."""

    line: StoryLine
    added: Codes
    inside: RowsOfGroups
    influence: float | None
    """None for counts and sums if only noise may remain of a group: the influence may then be noise too."""

    @property
    def preference(self) -> tuple[bool, bool, float]:
        """Sort key: clear steps first, then by influence; steps without one come last, by the gap inside."""
        if self.influence is None:
            return self.line.is_clear, False, self.line.inside.estimate
        return self.line.is_clear, True, self.influence


def _first(steps: Sequence[_Step]) -> _Step:
    """Of the steps with the largest influence, the clear one that leaves the smallest gap, as in a table."""
    in_table = sorted(
        (step for step in steps if step.influence is not None), key=lambda step: -(step.influence or 0.0)
    )[:TABLE_ROWS]
    clear = [step for step in in_table if step.line.is_clear]
    if clear:
        return min(clear, key=lambda step: step.line.rest.estimate)
    return _most_influential(steps)


def _most_influential(steps: Sequence[_Step]) -> _Step:
    return max(steps, key=lambda step: step.preference)


@dataclass(frozen=True)
class ReleasedStory:
    """The gap and the steps, of which only the last may be unclear: noise ended the story there."""

    gap: Gap
    lines: tuple[StoryLine, ...]
    entries: tuple[Entry, ...]  # of the preparations it was read from: one or several
    free: bool
    private: bool


@dataclass(frozen=True)
class StoryPlan:
    """The families of a story's conjunctions, one per level, stored or to be prepared together."""

    terms: ExplanationTerms  # of the first level
    families: tuple[PredicateFamily, ...]
    preparation: Preparation | None
    stored: tuple[StoredPreparation, ...] | None
    sharper: bool = False  # whether a more precise or deeper preparation was left out

    @property
    def margins(self) -> tuple[float, float]:
        """Half the expected widths of the intervals of a number of rows and of a gap, at the last step.

        For a gap of averages, which depends on the number of rows, each group has `TYPICAL_ROWS`.
        """
        last, weights = len(self.families) - 1, self.terms.contrast.weights
        noise: Preparation | PreparedRelease | None = self.preparation
        if self.stored:
            noise = self.stored[-1].release
        assert noise is not None
        z = failure_quantile(self._failure(last))
        rows = z * noise.count_scale * math.sqrt(len(weights))
        if self.terms.kind == "count":
            return rows, z * noise.count_scale * math.hypot(*weights)
        assert noise.total_scale is not None
        if self.terms.kind == "sum":
            return rows, z * noise.total_scale * math.hypot(*weights)
        low, high = (bound * self.terms.unit for bound in self.terms.bounds)
        # Half-way out from the middle of the bounds, as in the preview of an average.
        total = TYPICAL_ROWS * (high - low) / 4
        group = NoisyMean(total, TYPICAL_ROWS, noise.total_scale, noise.count_scale, low, high)
        return rows, expected_mean_gap_margin(np.array(weights), group, self._failure(last))

    def run(
        self,
        dataset: OpenDataset,
        request: Request | None,
        found: Released[PreparedRelease] | None = None,
    ) -> ReleasedStory:
        """Reads the story from stored preparations, which is free; or first reserves, measures and stores.

        `found` is the release of `preparation`, if it was found before.
        """
        if self.stored:
            dataset.check_data()
            # Levels may share an entry, whose price was paid once.
            entries = tuple({part.entry.id: part.entry for part in self.stored}.values())
            return self._released_story([part.release for part in self.stored], entries, free=True)
        preparation = self.preparation
        assert preparation is not None
        assert request is not None

        def show_story(prepared: Released[PreparedRelease]) -> ReleasedStory:
            levels = self._levels(preparation.family, prepared.value)
            return self._released_story(levels, (prepared.entry,), prepared.free)

        look = ("story", len(self.terms.contrast.groups))
        return dataset.find_or_measure(preparation, request, show_story, look, found)

    def _released_story(
        self, levels: Sequence[PreparedRelease], entries: tuple[Entry, ...], free: bool
    ) -> ReleasedStory:
        gap, lines = self.read(levels)
        private = self.terms.answer.private and all(release.private for release in levels)
        return ReleasedStory(gap, lines, entries, free, private)

    def read(self, levels: Sequence[PreparedRelease]) -> tuple[Gap, tuple[StoryLine, ...]]:
        """The whole gap and the steps; post-processing of what was released."""
        lines: list[StoryLine] = []
        terms, weights = self.terms, np.array(self.terms.contrast.weights)
        codes: Codes = {}
        for number, (family, release) in enumerate(zip(self.families, levels, strict=True)):
            # Later levels leave Phase 1 out, so that their noise is independent of all that came before.
            e = estimate(released_groups(terms, release, with_answer=number == 0))
            failure = self._failure(number)
            if number == 0:
                among = all_rows(e)
                whole = parent = gap_among(e, weights, among, failure)
            candidates = list(children(family, codes))
            if not candidates:
                break
            indices: IntArray = np.array([index for index, _ in candidates], dtype=np.int64)
            influences = estimated_influences(e, weights, among, indices)
            steps = [
                self._step(e, family, index, added, among, parent, float(influence))
                for (index, added), influence in zip(candidates, influences, strict=True)
            ]
            step = _first(steps) if number == 0 else _most_influential(steps)
            lines.append(step.line)
            if not step.line.is_clear:
                break
            codes, among, parent = codes | step.added, step.inside, step.line.inside
        return whole, tuple(lines)

    def _step(
        self, e: Estimates, family: PredicateFamily, index: int, added: Codes, among: RowsOfGroups,
        parent: Gap, influence: float,
    ) -> _Step:  # fmt: skip
        predicate, number, is_average = family.predicate(index), self.families.index(family), e.kind == "avg"
        assert isinstance(predicate, Predicate)
        weights, failure = np.array(self.terms.contrast.weights), self._failure(number)
        inside = rows_with(e, index)
        rest = rows_without(e, index) if number == 0 else among.without(inside)
        gap, gap_of_rest = (gap_among(e, weights, rows, failure) for rows in (inside, rest))
        # Counts and sums of the parts add up. For averages, the two intervals must lie apart.
        clear = gap_of_rest.interval[1] < parent.interval[0] if is_average else gap.interval[0] > 0
        own = Predicate(tuple(part for part in predicate.conditions if part.column in added))
        noise = failure_quantile(failure) * rest.count_scale
        return _Step(
            StoryLine(predicate, own, gap, gap_of_rest, clear),
            added,
            inside,
            influence if is_average or rest.count.min() > noise else None,
        )

    def _failure(self, number: int) -> float:
        """The error probability of one statement: levels share 1 − γ evenly, and so do a level's statements.

        These are a gap and a number of rows: for all rows; for the rows that meet each conjunction; and for
        the rows that fail only one of its conditions, the latest one, which may be any of them.
        """
        conditions = number + 1
        statements = 2 + 2 * (1 + conditions) * self.families[number].size
        return (1.0 - self.terms.confidence) / len(self.families) / statements

    def _levels(self, whole: PredicateFamily, prepared: PreparedRelease) -> list[PreparedRelease]:
        groups = Groups.of(self.terms.query, whole.schema).size
        return [
            prepared.only([whole.positions[identity] for identity in family.positions], groups)
            for family in self.families
        ]


def children(family: PredicateFamily, codes: Codes) -> Iterator[tuple[int, Codes]]:
    """The conjunctions of a family that add one condition to those in `codes`, with what each adds."""
    for part, offset in zip(family.parts, family.offsets, strict=False):
        assert isinstance(part, Conjunctions)
        added = [name for name in part.columns if name not in codes]
        if len(added) != 1 or not codes.keys() <= set(part.columns):
            continue
        (name,) = added
        for code in range(part.shape[part.columns.index(name)]):
            whole = codes | {name: code}
            index = int(np.ravel_multi_index([whole[column] for column in part.columns], part.shape))
            yield offset + index, {name: code}


def plan_story(
    terms: ExplanationTerms,
    dataset: OpenDataset,
    preparations: Preparations,
    choice: FamilyChoice,
    levels: int | None,
    rho: float | None,
) -> StoryPlan:
    """Finds stored preparations, or plans a new one; reads no data. `terms` are of the first level."""
    most = min(MOST_LEVELS, len(terms.family.parts))
    levels = plain(levels)
    if levels is not None and (type(levels) is not int or not 1 <= levels <= most):
        raise ExplanationError(
            f"levels must be a whole number from 1 to {most}, not {levels!r}.", remedy="Leave out levels."
        )
    query = terms.query

    def family(number: int, *, nested: bool = False) -> PredicateFamily:
        return dataset.family(query, replace(choice, conjuncts=number, nested=nested))

    if rho is None:
        numbers = range(1, (levels or most) + 1)
        return _prepared_story(terms, preparations, family, numbers, needs_all=bool(levels))
    depth = levels or min(USUAL_LEVELS, most)
    families, whole = tuple(family(number + 1) for number in range(depth)), family(depth, nested=True)
    preparation = plan_preparation(query, whole, terms.answer, dataset.schema, rho)
    stored = [preparations.find(level) for level in families]
    known = tuple(
        part
        for part, level in zip(stored, families, strict=True)
        # A price above the one paid asks for more precision than is stored.
        if part is not None and part.worth >= preparation.rho * len(level.parts) / len(whole.parts)
    )
    return StoryPlan(terms, families, preparation, known if len(known) == depth else None)


def _prepared_story(
    terms: ExplanationTerms,
    preparations: Preparations,
    family: Callable[[int], PredicateFamily],
    levels: Iterable[int],
    *,
    needs_all: bool,
) -> StoryPlan:
    """The plan of as many levels as are prepared."""
    families: list[PredicateFamily] = []
    stored: list[StoredPreparation] = []
    sharper = False
    for number in levels:
        try:
            level = family(number)
        except ExplanationError:  # more conjunctions than are handled, so nobody prepared them
            break
        sharper = sharper or preparations.leaves_out_sharper(level)
        if (prepared := preparations.find(level)) is None:
            break
        families.append(level)
        stored.append(prepared)
    if not stored or (needs_all and len(stored) < max(levels)):
        if preparations.named is not None:
            raise not_covered()
        raise ExplanationError(
            "This story is not prepared, so you must give a price.",
            remedy="Pay once with story(rho=0.1), or prepare the answer with nested conjunctions "
            '("conjuncts": 2, "nested": true). Then its stories and explanations are free.',
        )
    return StoryPlan(terms, tuple(families), None, tuple(stored), sharper)


def not_covered() -> ExplanationError:
    """The error for conditions that none of the named preparations has."""
    return ExplanationError(
        "The measurements named do not cover these conditions.",
        remedy="Name others, or none to read the sharpest that is stored.",
    )
