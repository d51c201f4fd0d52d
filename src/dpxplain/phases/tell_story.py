"""Breaks a gap down: the condition estimated to explain most, within its rows the next, and what remains.

A story is read from stored marginals of single conditions, pairs and triples at no cost. Otherwise, one
preparation of all of them is paid for, and reserved in full before data are read (docs/proofs/story.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpxplain.errors import ExplanationError
from dpxplain.explanation.family import Conjunctions, Family
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.charge import Entry, Request
from dpxplain.model.groups import Groups
from dpxplain.model.hardening import plain
from dpxplain.model.predicate import Predicate
from dpxplain.model.release import PreparedRelease, Released
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.explain_marginals import released_groups
from dpxplain.phases.plan import ExplanationTerms
from dpxplain.phases.prepare_answer import (
    Preparation,
    Preparations,
    StoredPreparation,
    plan_preparation,
)
from dpxplain.privacy.intervals import NoisyMean
from dpxplain.privacy.marginals.estimates import Estimates, IntArray, estimate
from dpxplain.privacy.marginals.story_gaps import (
    Gap,
    RowsOfGroups,
    all_rows,
    estimated_influences,
    expected_mean_gap_margin,
    gap_among,
    rows_with,
    rows_without,
)
from dpxplain.privacy.normal import normal_quantile

MOST_LEVELS = 3
USUAL_LEVELS = 2
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
    """What a story needs: one family of conjunctions per level, stored or to be prepared together."""

    terms: ExplanationTerms  # of the first level
    families: tuple[Family, ...]
    preparation: Preparation | None
    stored: tuple[StoredPreparation, ...] | None

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
        z = -normal_quantile(self._failure(last) / 2.0)
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
            return self._told([part.release for part in self.stored], entries, free=True)
        preparation = self.preparation
        assert preparation is not None
        assert request is not None

        def tell(prepared: Released[PreparedRelease]) -> ReleasedStory:
            levels = self._levels(preparation.family, prepared.value)
            return self._told(levels, (prepared.entry,), prepared.free)

        look = ("story", len(self.terms.contrast.groups))
        return dataset.find_or_measure(preparation, request, tell, look, found)

    def _told(
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
            step = max(steps, key=lambda step: step.preference)
            lines.append(step.line)
            if not step.line.is_clear:
                break
            codes, among, parent = codes | step.added, step.inside, step.line.inside
        return whole, tuple(lines)

    def _step(
        self, e: Estimates, family: Family, index: int, added: Codes, among: RowsOfGroups, parent: Gap,
        influence: float,
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
        noise = -normal_quantile(failure / 2.0) * rest.count_scale
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

    def _levels(self, whole: Family, prepared: PreparedRelease) -> list[PreparedRelease]:
        groups = Groups.of(self.terms.query, whole.schema).size
        return [
            prepared.only([whole.positions[identity] for identity in family.positions], groups)
            for family in self.families
        ]


def children(family: Family, codes: Codes) -> Iterator[tuple[int, Codes]]:
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

    def family(number: int, *, nested: bool = False) -> Family:
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
    family: Callable[[int], Family],
    levels: Iterable[int],
    *,
    needs_all: bool,
) -> StoryPlan:
    """The plan of as many levels as are prepared."""
    families: list[Family] = []
    stored: list[StoredPreparation] = []
    for number in levels:
        try:
            level = family(number)
        except ExplanationError:  # more conjunctions than are handled, so nobody prepared them
            break
        if (prepared := preparations.find(level)) is None:
            break
        families.append(level)
        stored.append(prepared)
    if not stored or (needs_all and len(stored) < max(levels)):
        raise ExplanationError(
            "This story is not prepared, so you must give a price.",
            remedy="Pay once with story(rho=0.1), or prepare the answer with nested conjunctions "
            '("conjuncts": 2, "nested": true). Then its stories and explanations are free.',
        )
    return StoryPlan(terms, tuple(families), None, tuple(stored))
