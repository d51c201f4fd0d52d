"""The story of a gap: a short tree of conditions, and what remains of the gap."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from dpxplain.errors import ExplanationError
from dpxplain.model.budget import rho_of_units, spend_units
from dpxplain.model.charge import Request, Spend
from dpxplain.model.display import Charted, Displayed, Record, Tabular, check_report_name, renderer
from dpxplain.model.finding import Finding
from dpxplain.model.hardening import Frozen
from dpxplain.model.release import PreparedRelease, Released
from dpxplain.phases.dataset import Lookup, OpenDataset
from dpxplain.phases.explain_marginals import plan_marginals
from dpxplain.phases.prepare_answer import Preparations
from dpxplain.phases.tell_story import TYPICAL_ROWS, ReleasedStory, StoryLine, StoryPlan
from dpxplain.privacy.marginals.story_gaps import Gap
from dpxplain.results.asked_question import AskedQuestion
from dpxplain.results.explanation import Explanation
from dpxplain.results.preview import Price
from dpxplain.words import numbers
from dpxplain.words.conditions import condition_label, condition_phrase
from dpxplain.words.declarations import Counting
from dpxplain.words.explanations import STORY_ADVICE, STORY_ORDER, UNMATCHED, promise
from dpxplain.words.findings import StoryStep, story_finding
from dpxplain.words.prices import PREPARED, cost

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
        """What the gap comes from, step by step, and what remains; with notes."""
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
            caveat=counting.caveat,
            notes=self._notes(counting),
        )

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
            lines.append(_record(level, str(step.condition), str(step.predicate), "with", step.inside))
            lines.append(_record(level, str(step.condition), str(step.predicate), "without", step.rest))
        return lines

    def save(self, path: str | Path) -> Path:
        """Write the question, its table of single conditions and the story as one HTML file. Free."""
        check_report_name(Path(path))
        return Path(renderer("report").save_report(self._table(), path, self))

    def _table(self) -> Explanation:
        """The explanation by single conditions, which the story's preparation includes."""
        terms = self.plan.terms
        stored = Preparations(terms.query, self._dataset).find(terms.family)
        plan = plan_marginals(replace(terms, k=min(5, terms.family.size), rho=_ANY_RHO), stored)
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
        "gap_low": gap.interval[0],
        "gap_high": gap.interval[1],
        "rows_low": gap.rows[0],
        "rows_high": gap.rows[1],
    }


@dataclass(frozen=True)
class StoryPreview(Displayed, Tabular):
    """What a story would cost as a whole, and how precise it would be."""

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
        told = self.plan.run(dataset, self.request, self._lookup.found)
        return Story(self.question, self.plan, told, dataset)
