"""The results of phase 3: the explanation table, the table by a custom influence, and the story of a gap."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dpxplain.errors import DPXPlainError, ExplanationError
from dpxplain.explanation.custom import CustomInfluence
from dpxplain.explanation.family import PredicateFamily
from dpxplain.model.charge import EntryId, Request, Spend, rho_of_units, spend_units
from dpxplain.model.contrast import Verdict
from dpxplain.model.display import Charted, Displayed, Finding, Record, Tabular, check_report_name, renderer
from dpxplain.model.hardening import Frozen
from dpxplain.model.process import cached_property, stoppable_steps
from dpxplain.model.query import FilterPredicate, Predicate, filter_columns
from dpxplain.model.release import ExplanationRelease, FoldedLine, PreparedRelease, Released, ReleasedLine
from dpxplain.phases.dataset import Lookup, OpenDataset
from dpxplain.phases.explain_custom import CustomPlan, CustomRelease, plan_custom
from dpxplain.phases.explain_marginals import (
    TABLE_ROWS,
    TYPICAL_ROWS,
    ReleasedStory,
    StoryLine,
    StoryPlan,
    plan_marginals,
)
from dpxplain.phases.plan import ExplanationOptions, ExplanationPlan
from dpxplain.privacy.intervals import Interval
from dpxplain.privacy.marginals.inference import Gap
from dpxplain.results.base import Planned, ReleasedRows, Row, Truth, ends_record, require_curator
from dpxplain.results.preview import CustomPreview, ExplanationPreview
from dpxplain.results.released_answer import AskedQuestion
from dpxplain.words import numbers
from dpxplain.words.declarations import Counting
from dpxplain.words.findings import (
    ASSOCIATION,
    Effect,
    EffectName,
    Explained,
    StoryStep,
    effect_name,
    explanation_finding,
    story_finding,
)
from dpxplain.words.prices import PREPARED, Price, cost
from dpxplain.words.sentences import (
    GENERAL_USE,
    MAY_MISS,
    ORDER_PRICE,
    STORY_ADVICE,
    STORY_ORDER,
    TABLE_DIFFERS,
    UNMATCHED,
    Advice,
    Circumstances,
    advice,
    condition_label,
    condition_phrase,
    enough_rho,
    folded_note,
    influence_note,
    mechanism_note,
    promise,
)

# -- Explanation -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FoldedCondition:
    """A condition that says nearly the same as the row that it is folded under."""

    predicate: Predicate | FilterPredicate
    same_rows: Interval | None
    """The rows that meet both, as a share of those that meet either; None if only the structure is known."""


@dataclass(frozen=True)
class ExplanationRow:
    """One condition, with intervals for its influence, relative influence and rank."""

    predicate: Predicate | FilterPredicate
    estimate: float  # noisy influence, the middle of its interval
    influence: Interval
    relative_influence: Interval | None  # None if the released gap is too uncertain to divide by
    rank: tuple[int, int]
    index: int  # in the family
    gap_without: Interval | None = None  # the question's value without these rows, if it is estimated
    folded: tuple[FoldedCondition, ...] = ()  # other conditions that the row stands for
    share_removed: Interval | None = None
    """The share of the gap that disappears without these rows: 1 is all of it; below 0, the gap widens. None
    if the mechanism does not estimate it, or if there may be no gap."""
    share_estimate: float | None = None  # rows are sorted by it
    effect: EffectName = "unclear"  # on the gap, judged by the interval of the share or else the influence

    @property
    def is_unclear(self) -> bool:
        """Whether its interval contains zero, so that these rows may shrink or widen the gap."""
        return self.effect == "unclear"


Release = TypeVar("Release", ExplanationRelease, CustomRelease)


class PredicateRows(ReleasedRows[Release, Row]):
    """Conditions that explain a question, as planned and released."""

    question: AskedQuestion
    plan: ExplanationPlan | CustomPlan

    @property
    def confidence(self) -> float:
        return self.release.confidence

    @property
    def spends(self) -> tuple[Spend, ...]:
        return self.plan.spends

    @property
    def family_size(self) -> int:
        return self.plan.family.size

    @property
    def shaped_by(self) -> tuple[str, ...]:
        """The declarations that shaped the numbers, as sentences."""
        return (*self.question.shaped_by, UNMATCHED)

    def __getitem__(self, position: int) -> Row:
        return self.rows[position]


class Explanation(Frozen, Charted, PredicateRows[ExplanationRelease, ExplanationRow]):
    """The k selected conditions, sorted by the share of the gap that they remove, or else by influence.

    >>> import dpxplain as dpx
    >>> sql = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
    >>> answer = dpx.example("adult").query(sql, rho=0.1)
    >>> table = answer.why("Married-civ-spouse", "Never-married").explain(k=3, rho=2.0)
    >>> len(table), table.family_size
    (3, 103)
    """

    def __init__(
        self,
        question: AskedQuestion,
        plan: ExplanationPlan,
        released: Released[ExplanationRelease],
        dataset: OpenDataset,
        *,
        request: Mapping[str, Any],
    ) -> None:
        self.question = question
        self.plan: ExplanationPlan = plan
        super().__init__(released)
        self.request = request  # as the history keeps it
        self._dataset = dataset
        rows = self._read_rows()
        self.by_influence = all(row.share_removed is None for row in rows)
        self.rows = tuple(sorted(rows, key=_paper_order if self.by_influence else _by_share))
        self.freeze()

    @property
    def releases(self) -> tuple[EntryId, ...]:
        """What it was read off besides the answer: its own entry, and that of a sharper verdict."""
        return tuple(dict.fromkeys((*self.question.releases, self.entry.address)))

    @property
    def sharper(self) -> bool:
        """Whether `read_from` leaves out a more precise preparation."""
        if self.mechanism != "marginals":
            return self.question.sharper
        return self.question.preparations.leaves_out_sharper(self.plan.family)

    @property
    def mechanism(self) -> str:
        return self.release.mechanism

    @property
    def distinct(self) -> bool:
        """Whether conditions that say nearly the same are folded under one row."""
        return self.plan.terms.distinct

    @property
    def relative(self) -> bool:
        """Whether relative influences are meaningful here."""
        return self.question.relative_to is not None

    def records(self) -> list[Record]:
        return [
            {
                "predicate": str(row.predicate),
                **ends_record("influence", row.influence),
                **ends_record("relative_influence", row.relative_influence),
                **ends_record("rank", row.rank),
                **ends_record("gap_without", row.gap_without),
                "folded": "; ".join(str(condition.predicate) for condition in row.folded),
                **ends_record("share_removed", row.share_removed),
                "effect": row.effect,
            }
            for row in self.rows
        ]

    def sorted_by_influence(self) -> Explanation:
        """The same table with influence and rank in place of the share removed, in the paper's order."""
        other = copy(self)
        object.__setattr__(other, "by_influence", True)
        object.__setattr__(other, "rows", tuple(sorted(self.rows, key=_paper_order)))
        return other

    @property
    def finding(self) -> Finding:
        """The conditions that explain the gap: headline and support, a caveat, and notes."""
        return self.finding_with(self.advice)

    def finding_with(self, advised: Advice | None) -> Finding:
        """The finding with this advice, so that whoever needs both reads the budget once."""
        counting, explained = self.question.answer.counting, self.explained
        if advised is not None:
            explained = replace(explained, advice=advised.text)
        return explanation_finding(explained, counting.caveat, self._notes(counting))

    @property
    def explained(self) -> Explained:
        """The question and the effect of each condition, for use in sentences."""
        return Explained(
            asked=replace(self.question.comparison, general=None, general_refusal=""),
            gap=self.release.gap,
            effects=tuple(map(self.effect_of, self.rows)),
        )

    def effect_of(self, row: ExplanationRow) -> Effect:
        """The effect of leaving out a condition's rows, for use in sentences."""
        return Effect(
            name=condition_phrase(row.predicate, self.plan.family.schema),
            effect=row.effect,
            influence=row.influence,
            share=row.share_removed,
            without=row.gap_without,
            middle=row.share_estimate,
            is_first=row.rank == (1, 1),
        )

    def label_of(self, row: ExplanationRow) -> str:
        """The name of a row's condition in tables."""
        return condition_label(row.predicate, self.plan.family.schema)

    def folded_text(self, row: ExplanationRow) -> str:
        """The conditions folded under a row, in a sentence; empty if there are none."""
        if not row.folded:
            return ""
        schema = self.plan.family.schema
        names = [condition_label(condition.predicate, schema) for condition in row.folded]
        return folded_note(names, [c.same_rows for c in row.folded if c.same_rows is not None])

    @property
    def order_note(self) -> str:
        """The price of a clear order, in a sentence; empty if the order is clear or the price too high."""
        known = [row.influence if self.by_influence else row.share_removed for row in self.rows]
        clear = [ends for row, ends in zip(self.rows, known, strict=True) if ends and row.effect != "unclear"]
        enough = enough_rho(self.rho, clear) if self.rho > 0 and len(clear) > 1 else None
        remaining = None if enough is None else self._remaining()
        if enough is None or remaining is None or enough > remaining:
            return ""
        return ORDER_PRICE.format(rho=numbers.rho(enough))

    def _remaining(self) -> float | None:
        """The remaining budget; None if it cannot be read, for example without a connection."""
        try:
            return self._dataset.ledger.budget(self._dataset.name).remaining
        except DPXPlainError:
            return None

    @property
    def advice(self) -> Advice | None:
        """What to try if no condition clearly explains a real gap; None if there is no need."""
        if self.question.verdict is not Verdict.REAL or not all(row.is_unclear for row in self.rows):
            return None
        family = self.plan.family
        columns = [_columns(row.predicate) for row in self.rows]
        known = Circumstances(
            spent=self.rho,
            remaining=self._remaining(),
            conditions=self.family_size,
            columns=tuple(names[0] for names in columns),
            values={name: len(family.schema.column(name).domain or ()) for name in family.attributes},
            conjuncts=max(map(len, columns), default=1),
        )
        return advice([row.share_removed or row.influence for row in self.rows], known)

    def _notes(self, counting: Counting) -> tuple[str, ...]:
        question, kind = self.question, self.question.answer.statement.query.aggregate.kind
        notes = (
            ASSOCIATION if counting.caveat else "",
            question.note,
            question.sharpened,
            promise(self.confidence, self.family_size, together=self.mechanism == "marginals"),
            influence_note(kind, question.measured, is_relative=self.relative),
            MAY_MISS if self.k_may_miss else "",
            *(f"{self.label_of(row)}. {self.folded_text(row)}" for row in self.rows if row.folded),
            self._cost_note(),
            mechanism_note(self.mechanism, self.plan.reason, self.plan.lower_share),
            *counting.sentences,
            UNMATCHED,
            *((question.answer.general_basis, GENERAL_USE) if question.in_general is not None else ()),
        )
        return tuple(note for note in notes if note)

    @property
    def k_may_miss(self) -> bool:
        """Whether a condition that was left out may rank before one that is shown."""
        return len(self.rows) < self.family_size and any(row.rank[1] > len(self.rows) for row in self.rows)

    def _cost_note(self) -> str:
        if self.mechanism != "marginals":
            return cost(self.rho, self.spends, self.free)
        if self.free:
            return f"{PREPARED} Preparing it cost {numbers.rho(self.rho)}."
        return f"{cost(self.rho, self.spends)} Every further explanation of this answer is free."

    def save(self, path: str | Path) -> Path:
        """Write the finding, its chart, question and table as one self-contained HTML file."""
        check_report_name(Path(path))
        return Path(renderer("report").save_report(self, path))

    def truth(self) -> Truth:
        """Curator only: true influence and rank of the conditions in the table."""
        return require_curator(self._dataset).table_truth(self)

    def _read_rows(self) -> list[ExplanationRow]:
        divisor = self.question.relative_to
        return [
            ExplanationRow(
                predicate=self.plan.family.predicate(line.predicate),
                estimate=line.influence,
                influence=line.influence_interval,
                relative_influence=None
                if divisor is None
                else (line.influence_interval[0] / divisor, line.influence_interval[1] / divisor),
                rank=line.rank,
                index=line.predicate,
                gap_without=line.gap_without_interval,
                folded=tuple(map(self._condition, line.folded)),
                share_removed=self._share_removed(line),
                share_estimate=line.share_removed,
                effect=effect_name(self._share_removed(line), line.influence_interval, self.question.verdict),
            )
            for line in stoppable_steps(self.plan.lines(self.release))
        ]

    def _share_removed(self, line: ReleasedLine) -> Interval | None:
        return None if self.question.verdict is Verdict.UNCLEAR else line.share_removed_interval

    def _condition(self, folded: FoldedLine) -> FoldedCondition:
        predicate = self.plan.family.predicate(folded.predicate)
        if folded.kept is not None and isinstance(predicate, Predicate):
            predicate = Predicate(tuple(predicate.conditions[position] for position in folded.kept))
        return FoldedCondition(predicate, folded.same_rows)


def _paper_order(row: ExplanationRow) -> tuple[float, int]:
    """Sorts by the upper bound of relative influence, ties by the upper bound of rank.

    See docs/specification.md, the order of a table.
    """
    return -row.influence[1], row.rank[1]


def _by_share(row: ExplanationRow) -> tuple[bool, float, tuple[float, int]]:
    """Sorts by the share removed, which the table shows. Rows without a known share come last."""
    share = None if row.share_removed is None else row.share_estimate
    return share is None, -(share or 0.0), _paper_order(row)


def _columns(predicate: Predicate | FilterPredicate) -> list[str]:
    """The columns that a condition names."""
    if isinstance(predicate, Predicate):
        return [condition.column for condition in predicate.conditions]
    return sorted(filter_columns(predicate.condition))


class PlannedExplanation(Frozen):
    """An explanation of a question, planned and not yet paid for."""

    def __init__(
        self, question: AskedQuestion, plan: ExplanationPlan, request: Request, dataset: OpenDataset
    ) -> None:
        self.question = question
        self.plan = plan
        self.request = request
        self._dataset = dataset
        self._lookup = Lookup(dataset, partial(plan.find, dataset))
        self.freeze()

    @property
    def key(self) -> str:
        """Identity of the request."""
        return self.plan.key(self._dataset)

    @property
    def is_stored(self) -> bool:
        """Whether running it is free, because the releases that it needs are stored."""
        return self._lookup.find() is not None

    def preview(self) -> ExplanationPreview:
        price = Price.of(self.plan, self._dataset, free=self.is_stored)
        return ExplanationPreview.of(self.plan, self.question, price)

    def run(self, dataset: OpenDataset | None = None) -> Explanation:
        """Finds the stored result or measures it, in the planned data set or the same caller's view of it."""
        dataset = (dataset or self._dataset).joining(self._dataset.schema.joined)
        body = self.request.body or {}
        return self.plan.explain(
            dataset,
            self.request,
            lambda released: Explanation(
                self._sharpened(released), self.plan, released, dataset, request=body
            ),
            self._lookup.found,
        )

    def _sharpened(self, released: Released[ExplanationRelease]) -> AskedQuestion:
        """The question with the gap from the table, so that both show the same gap."""
        better = self.plan.gap(released.value, self.question.confidence, self.question.method)
        return self.question.sharpened_by(better, released.entry)


# -- Custom influence --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CustomRow:
    """One condition, with intervals for its influence and rank. An infinite end means: nothing is known."""

    predicate: Predicate | FilterPredicate
    influence: Interval
    rank: tuple[int, int]
    index: int  # in the family


class CustomExplanation(Displayed, PredicateRows[CustomRelease, CustomRow]):
    """The k selected conditions, sorted by the upper bound of their rank, then of their influence."""

    def __init__(self, question: AskedQuestion, plan: CustomPlan, released: Released[CustomRelease]) -> None:
        self.question = question
        self.plan = plan
        super().__init__(released)
        rows = [
            CustomRow(
                plan.family.predicate(line.predicate),
                (-math.inf if low is None else low, math.inf if high is None else high),
                line.rank,
                line.predicate,
            )
            for line in released.value.lines
            for low, high in (line.influence,)
        ]
        # Influences are coarse here, so ranks say more about the order.
        self.rows = tuple(sorted(rows, key=lambda row: (row.rank[1], -row.influence[1], row.rank[0])))

    def records(self) -> list[Record]:
        return [
            {
                "predicate": str(row.predicate),
                "influence_low": row.influence[0] if math.isfinite(row.influence[0]) else None,
                "influence_high": row.influence[1] if math.isfinite(row.influence[1]) else None,
                **ends_record("rank", row.rank),
            }
            for row in self.rows
        ]


class PlannedCustomExplanation(Planned[CustomRelease, CustomExplanation]):
    """An explanation by a custom influence, planned and not yet paid for."""

    plan: CustomPlan

    def __init__(self, question: AskedQuestion, plan: CustomPlan, dataset: OpenDataset) -> None:
        super().__init__(plan, Request(question.text), dataset)
        self.question = question
        self.freeze()

    def show(self, released: Released[CustomRelease]) -> CustomExplanation:
        return CustomExplanation(self.question, self.plan, released)

    def preview(self) -> CustomPreview:
        price = Price.of(self.plan, self._dataset, free=self.is_stored)
        return CustomPreview.of(self.plan, self.question.text, price)


def plan_by(
    influence: CustomInfluence,
    question: AskedQuestion,
    family: PredicateFamily,
    dataset: OpenDataset,
    options: ExplanationOptions,
) -> PlannedCustomExplanation:
    """Plans an explanation by a custom influence, which always has a price."""
    if options.rho is None:
        raise ExplanationError(
            "A prepared answer does not cover custom influence functions, so this needs a price.",
            remedy="Pass rho=0.5.",
        )
    plan = plan_custom(
        dataset,
        question.answer.statement.query,
        question.contrast,
        family,
        influence,
        options.k,
        options.rho,
        question.confidence if options.confidence is None else options.confidence,
    )
    return PlannedCustomExplanation(question, plan, dataset)


# -- Story -------------------------------------------------------------------------------------------------
#
# A short tree of conditions, and what remains of the gap.

_ANY_RHO = 1e-9  # less than any preparation costs


class Story(Frozen, Charted, Tabular):
    """A gap step by step: the condition that explains most, the next one within its rows, and what remains.

    The story ends before a condition that noise might have chosen (`ends_in_noise`).

    >>> import dpxplain as dpx
    >>> sql = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
    >>> question = dpx.example("adult").query(sql, rho=0.1).why("Married-civ-spouse", "Never-married")
    >>> story = question.story(rho=0.5)
    >>> len(story.steps) >= 1, question.story().free
    (True, True)
    """

    def __init__(
        self, question: AskedQuestion, plan: StoryPlan, release: ReleasedStory, dataset: OpenDataset
    ) -> None:
        self.question = question
        self.plan = plan
        self.gap: Gap = release.gap
        self.steps: tuple[StoryLine, ...] = tuple(line for line in release.lines if line.is_clear)
        self.ends_in_noise = len(self.steps) < len(release.lines)
        self.entries = release.entries
        self.id = release.entries[-1].id
        self.free = release.free
        self._private = release.private
        self._dataset = dataset
        self.freeze()

    @property
    def releases(self) -> tuple[EntryId, ...]:
        """What it was read off besides the answer: its preparations, and that of a sharper verdict."""
        addresses = (entry.address for entry in self.entries)
        return tuple(dict.fromkeys((*self.question.releases, *addresses)))

    @property
    def sharper(self) -> bool:
        """Whether `read_from` leaves out a more precise preparation, or one with more levels."""
        return self.plan.sharper

    @property
    def rho(self) -> float:
        """The total ρ of the preparations that the story uses."""
        return rho_of_units(sum(spend_units(entry.rho) for entry in self.entries))

    @property
    def spends(self) -> tuple[Spend, ...]:
        return tuple(spend for entry in self.entries for spend in entry.spends)

    @property
    def confidence(self) -> float:
        """The confidence with which all intervals of the story hold together."""
        return self.plan.terms.confidence

    @property
    def levels(self) -> int:
        """The largest number of steps that the story could have."""
        return len(self.plan.families)

    @property
    def private(self) -> bool:
        """False only for experiments with a seeded source of noise."""
        return self._private

    @property
    def shaped_by(self) -> tuple[str, ...]:
        """The declarations that shaped the numbers, as sentences."""
        return (*self.question.shaped_by, UNMATCHED)

    @property
    def finding(self) -> Finding:
        """The conditions behind the gap, step by step, and the gap that remains; with notes."""
        steps = [
            StoryStep(self.phrase(step), step.inside.interval, step.rest.interval) for step in self.steps
        ]
        asked = replace(self.question.comparison, general=None, general_refusal="")
        counting = self.question.answer.counting
        return story_finding(
            asked,
            self.gap.estimate,
            steps,
            ends_in_noise=self.ends_in_noise,
            advice=STORY_ADVICE,
            differs=self._difference,
            caveat=counting.caveat,
            notes=self._notes(counting),
        )

    @cached_property
    def _difference(self) -> str:
        """In what the table of single conditions differs from the first step; empty if it begins with it."""
        try:
            first = self._single_conditions()[0] if self.steps else None
        except DPXPlainError:  # the table is lost in noise, or the ledger cannot be read
            return ""
        if first is None or first.predicate == self.steps[0].predicate:
            return ""
        return TABLE_DIFFERS.format(condition_phrase(first.predicate, self._dataset.schema))

    def phrase(self, step: StoryLine) -> str:
        """A step's own condition, as part of a sentence."""
        return condition_phrase(step.condition, self._dataset.schema)

    def label(self, step: StoryLine) -> str:
        """A step's own condition, as a line of the tree."""
        return condition_label(step.condition, self._dataset.schema)

    def _notes(self, counting: Counting) -> tuple[str, ...]:
        prices = " and ".join(numbers.rho(entry.rho) for entry in self.entries)
        prices += f", together {numbers.rho(self.rho)}" if len(self.entries) > 1 else ""
        paid = f"{cost(self.rho, self.spends)} Every further story and explanation of it is free."
        notes = (
            self.question.note,
            promise(self.confidence, sum(family.size for family in self.plan.families), together=True),
            STORY_ORDER,
            f"{PREPARED} Preparing it cost {prices}." if self.free else paid,
            *counting.sentences,
            UNMATCHED,
        )
        return tuple(note for note in notes if note)

    def records(self) -> list[Record]:
        """One line for all rows, then two for each step: the rows that meet its condition, and the others."""
        lines = [_record(0, "all rows", "", "all", self.gap)]
        for level, step in enumerate(self.steps, 1):
            for rows, gap in (("with", step.inside), ("without", step.rest)):
                lines.append(_record(level, str(step.condition), str(step.predicate), rows, gap))
        return lines

    def save(self, path: str | Path) -> Path:
        """Write the question, its table of single conditions and the story as one HTML file. Free."""
        check_report_name(Path(path))
        return Path(renderer("report").save_report(self._single_conditions(), path, self))

    def _single_conditions(self) -> Explanation:
        """The explanation by single conditions, which the story's preparation includes."""
        terms = self.plan.terms
        stored = self.question.preparations.find(terms.family)
        plan = plan_marginals(replace(terms, k=min(TABLE_ROWS, terms.family.size), rho=_ANY_RHO), stored)
        if plan.stored is None:  # nothing is charged for a report
            raise ExplanationError(
                "The story's first step is lost in noise.",
                remedy="A larger ρ would show it.",
            )
        return plan.explain(
            self._dataset,
            Request(self.question.text, {}),
            lambda released: Explanation(self.question, plan, released, self._dataset, request={}),
        )


def _record(level: int, condition: str, predicate: str, rows: str, gap: Gap) -> Record:
    return {
        "level": level,
        "condition": condition,
        "predicate": predicate,
        "rows": rows,
        "gap": gap.estimate,
        **ends_record("gap", gap.interval),
        **ends_record("rows", gap.rows),
    }


@dataclass(frozen=True)
class StoryPreview(Displayed, Tabular):
    """The price of a whole story, and its expected precision."""

    price: Price
    question: str
    levels: int
    predicates: int  # conjunctions that its steps choose from
    confidence: float
    rows_margin: float  # half the width of a number of rows' interval, at the last step
    gap_margin: float  # the same for the gap among these rows; for averages, with `rows_in_group` per group
    rows_in_group: int | None  # None if the margin is the same for any number of rows
    measured: str = "gap"
    unit: numbers.Unit = numbers.PLAIN  # of the gap

    def records(self) -> list[Record]:
        return [
            {
                "rho": self.price.rho,
                "remaining_after": self.price.remaining_after,
                "levels": self.levels,
                "predicates": self.predicates,
                "rows_margin": self.rows_margin,
                "gap_margin": self.gap_margin,
                "rows_in_group": self.rows_in_group,
            }
        ]


class PlannedStory(Frozen):
    """A story of a question, planned and not yet paid for."""

    def __init__(
        self, question: AskedQuestion, plan: StoryPlan, request: Request | None, dataset: OpenDataset
    ) -> None:
        self.question = question
        self.plan = plan
        self.request = request  # for the preparation that pays for it; None if it is prepared
        self._dataset = dataset
        self._lookup = Lookup(dataset, self._find)
        self.freeze()

    def _find(self) -> Released[PreparedRelease] | None:
        assert self.plan.preparation is not None
        return self._dataset.find(self.plan.preparation)

    def preview(self) -> StoryPreview:
        plan, remaining = self.plan, self._dataset.ledger.budget(self._dataset.name).remaining
        price = Price(0.0, (), remaining, free=True, delta=self._dataset.schema.privacy.delta)
        if not plan.stored:
            assert plan.preparation is not None
            is_stored = self._lookup.find() is not None
            price = Price.of(plan.preparation, self._dataset, free=is_stored)
        rows_margin, gap_margin = plan.margins
        return StoryPreview(
            price,
            self.question.text,
            len(plan.families),
            sum(family.size for family in plan.families),
            plan.terms.confidence,
            rows_margin,
            gap_margin,
            TYPICAL_ROWS if plan.terms.kind == "avg" else None,
            self.question.measured,
            self.question.unit,
        )

    def run(self, dataset: OpenDataset | None = None) -> Story:
        """Finds or measures what the story needs, and returns the story."""
        dataset = (dataset or self._dataset).joining(self._dataset.schema.joined)
        release = self.plan.run(dataset, self.request, self._lookup.found)
        return Story(self.question, self.plan, release, dataset)
