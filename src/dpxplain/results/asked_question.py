"""The free part of a question: what was asked about released groups, what their values say, and the requests
that ask the same again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.charge import EntryId, Request
from dpxplain.model.column import DomainValue, label
from dpxplain.model.contrast import Contrast, Ratio, Verdict
from dpxplain.model.display import Charted, Finding
from dpxplain.model.hardening import Frozen
from dpxplain.phases.assess import Assessment
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.plan import ExplanationPlan
from dpxplain.privacy.intervals import DEFAULT_METHOD, Interval, check_asked_confidence
from dpxplain.results.released_answer import ReleasedAnswer
from dpxplain.words.findings import AskedComparison, comparison_finding
from dpxplain.words.numbers import PERCENT, PLAIN, POINTS, Unit, level
from dpxplain.words.sentences import (
    GENERAL_USE,
    SINGLE_INTERVAL,
    finding_in_general,
    group_name,
    measured,
    question_text,
    question_title,
)

# -- Asked question ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Earlier:
    """A question's estimate and interval before a preparation made them more precise."""

    estimate: float
    interval: Interval
    preparation: EntryId


class AskedQuestion(ABC, Frozen, Charted):
    """A question about weighted groups of an answer: estimate, interval and verdict, also in words."""

    earlier: Earlier | None = None

    def __init__(
        self,
        contrast: Contrast,
        answer: ReleasedAnswer,
        dataset: OpenDataset,
        *,
        confidence: float,
        method: str = DEFAULT_METHOD,
        population: bool = False,
    ) -> None:
        assessment = answer.assess(contrast, check_asked_confidence(confidence), method)
        self._contrast = contrast
        self.answer = answer
        self.confidence = confidence
        self.method = method
        self.estimate: float = assessment.estimate
        self.interval: Interval = assessment.interval
        self.verdict: Verdict = assessment.verdict
        self.population = population
        self.in_general: Assessment | None = None
        if population and not answer.not_general:
            self.in_general = answer.reading.assess(contrast, confidence)
        self._dataset = dataset
        self.freeze()

    def sharpened_by(self, better: Assessment | None, preparation: EntryId) -> Self:
        """This question with the more precise number of a preparation; itself if `better` is None.

        A verdict for the population comes from the answer alone, so a question with one stays as it is.
        """
        if better is None or self.in_general is not None:
            return self
        first = self.earlier or Earlier(self.estimate, self.interval, preparation)
        other = copy(self)
        for name, value in (vars(better) | {"earlier": replace(first, preparation=preparation)}).items():
            object.__setattr__(other, name, value)
        return other

    @property
    def sharpened(self) -> str:
        """The number before a preparation made it more precise, in a sentence; empty if none did."""
        if self.earlier is None:
            return ""
        low, high = self.earlier.interval
        was, ends = self.unit.number(self.earlier.estimate, high - low), self.unit.open_interval(low, high)
        return (
            f"The {self.measured} was {was} ({ends}) before the preparation (no. {self.earlier.preparation}) "
            "made it more precise."
        )

    @property
    def contrast(self) -> Contrast:
        """The weighted groups. Read only: sensitivities follow from it."""
        return self._contrast

    @property
    def labels(self) -> list[str]:
        """The names of the groups asked about."""
        return [self.answer.groups.label(group) for group in self.contrast.groups]

    @property
    def measured(self) -> str:
        """The name of the question's number: "gap" between two groups, "value" for other weights."""
        return measured(self.contrast)

    @property
    def unit(self) -> Unit:
        """The unit of the question's number: for two shares, percentage points."""
        if self.ratio is not None:
            return PERCENT if self.ratio.is_share else PLAIN
        if not self.answer.in_percent:
            return self.answer.unit
        return POINTS if self.measured == "gap" else PERCENT if self.is_one_value else PLAIN

    @property
    def is_one_value(self) -> bool:
        """Whether it asks about the value of one group as it is, not about a weighted sum."""
        return self.ratio is None and self.contrast.weights == (1.0,)

    @property
    def ratio(self) -> Ratio | None:
        """What is divided by what, if the question is about a ratio or share; otherwise None."""
        return None

    @property
    def asked_weights(self) -> list[tuple[int, float]]:
        """The groups and their weights, as they were asked."""
        return list(zip(self.contrast.groups, self.contrast.weights, strict=True))

    @property
    def text(self) -> str:
        """The question in plain words."""
        return question_text(self.answer.expression, self.labels, self.contrast)

    @property
    def title(self) -> str:
        """The question as a heading, in the words of the schema: "Why is A above B? (Average income)"."""
        return question_title(self.group_names, self.contrast, self.ratio, self.answer.measure)

    @property
    def group_names(self) -> tuple[str, ...]:
        """The names of the groups asked about, with labels in place of values if they are declared."""
        answer = self.answer
        return tuple(group_name(answer.groups, group, answer.schema) for group, _ in self.asked_weights)

    @property
    def comparison(self) -> AskedComparison:
        """The compared groups and their released numbers, from which findings are written."""
        general = self.in_general
        return AskedComparison(
            groups=self.group_names,
            estimate=self.estimate,
            interval=self.interval,
            verdict=self.verdict,
            confidence=self.confidence,
            measured=self.measured,
            constant=self.contrast.at_least if self.ratio is None else self.ratio.at_least,
            unit=self.unit,
            value=self.answer.measure,
            general=None if general is None else (general.interval, general.verdict),
            general_refusal=self.general_finding if self.population and general is None else "",
        )

    @property
    def finding(self) -> Finding:
        """Whether the gap is real: headline and support, a caveat, and notes."""
        counting = self.answer.counting
        general = (self.answer.general_basis, GENERAL_USE) if self.in_general is not None else ()
        notes = (
            self.note,
            self.sharpened,
            SINGLE_INTERVAL.format(level(self.confidence)),
            *counting.sentences,
            *general,
        )
        return comparison_finding(self.comparison, counting.caveat, [note for note in notes if note])

    @property
    def general_finding(self) -> str:
        """What holds in the population, in plain words; empty if that was not asked."""
        if self.in_general is None:
            return self.answer.not_general if self.population else ""
        return finding_in_general(self.in_general, self.contrast, self.confidence, self.measured, self.unit)

    @property
    def shaped_by(self) -> tuple[str, ...]:
        """The declarations that shaped the numbers, as sentences."""
        return self.answer.shaped_by

    @property
    def note(self) -> str:
        """A note if the released values point the other way than the question.

        See docs/specification.md, questions against the released order.
        """
        constant = self.contrast.at_least
        if self.estimate >= constant:
            return ""
        width = self.interval[1] - self.interval[0]
        released = self.unit.number(self.estimate, min(width, 10 * (constant - self.estimate)))
        below = f"the noisy value is {released}, below {self.unit.given(constant)}."
        return f"The answer shows the opposite: {below}"

    @property
    @abstractmethod
    def prepared(self) -> bool:
        """Whether explaining it by the default conditions is free."""

    @property
    def relative_to(self) -> float | None:
        """The number that influences are divided by for display, or None if that would be meaningless.

        The released gap, times the smallest noisy group count for averages. When noise could have made the
        gap or the count zero, the quotient says nothing (docs/specification.md, relative influence).
        """
        constant = self.contrast.at_least
        gap = abs(self.estimate - constant)
        if self.interval[0] <= constant <= self.interval[1]:
            return None
        return self._times_rows(gap)

    def _times_rows(self, gap: float) -> float | None:
        release, kind = self.answer.release, self.answer.statement.query.aggregate.kind
        if release.noisy_count is None or kind != "avg":
            return gap
        smallest = min(release.noisy_count[group] for group in self.contrast.groups)
        if release.count_scale is None or smallest <= 3 * release.count_scale:
            return None
        return gap * smallest


# -- Requests ----------------------------------------------------------------------------------------------
#
# Plain JSON, for the history and the server: sending the JSON asks the same again.

Body = dict[str, Any]


def query_request(sql: str, rho: float) -> Request:
    return Request(sql, {"sql": sql, "rho": rho})


def prepare_request(answer: ReleasedAnswer, rho: float, choice: FamilyChoice) -> Request:
    return Request(answer.sql, {**_about(answer), "rho": rho, "family": choice.to_request()})


def why_request(question: AskedQuestion) -> Body:
    groups, contrast = question.answer.groups, question.contrast
    compare = {} if question.ratio is None else {"compare": question.measured}
    return {
        **_about(question.answer),
        "weights": [
            {"group": group_request(groups.key(group)), "weight": weight}
            for group, weight in question.asked_weights
        ],
        "at_least": contrast.at_least,
        "confidence": question.confidence,
        "method": question.method,
        **compare,
        **({"population": True} if question.population else {}),
    }


def explain_request(question: AskedQuestion, plan: ExplanationPlan, choice: FamilyChoice) -> Request:
    """The request with the mechanism and price that were used, even if `auto` would choose others later."""
    terms = plan.terms
    return Request(
        question.text,
        {
            **why_request(question),
            "k": terms.k,
            "rho": terms.rho,
            "explain_confidence": terms.confidence,
            "mechanism": plan.mechanism,
            "split": plan.split,
            "lower_share": plan.lower_share,
            "sensitivity": terms.sensitivity,
            "distinct": terms.distinct,
            "family": choice.to_request(),
        },
    )


def group_request(group: Sequence[DomainValue]) -> list[str | int | bool | None]:
    """A group by its values; bins by their label."""
    return [value if isinstance(value, str | int | bool | None) else label(value) for value in group]


def _about(answer: ReleasedAnswer) -> Body:
    return {"answer": answer.id, "of": answer.expression}
