"""What was asked about released groups, and what they say of it: the free part of a question."""

from __future__ import annotations

from dpxplain.model.contrast import Contrast, Ratio, Verdict
from dpxplain.model.display import Charted
from dpxplain.model.hardening import Frozen
from dpxplain.phases.assess_question import Assessment
from dpxplain.phases.dataset import OpenDataset
from dpxplain.privacy.intervals import DEFAULT_METHOD, Interval, check_asked_confidence
from dpxplain.results.base import AnswerLike
from dpxplain.results.formats import PLAIN, POINTS, Unit, as_given
from dpxplain.results.sentences import finding, finding_in_general, measured, question_text


class AskedQuestion(Frozen, Charted):
    """Weighted groups of an answer with their estimate, interval and verdict, in words too."""

    def __init__(
        self,
        contrast: Contrast,
        answer: AnswerLike,
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
        """What the question's number is called: the gap of two groups, the value of other weights."""
        return measured(self.contrast)

    @property
    def unit(self) -> Unit:
        """In which unit the question's number is written: of two shares, percentage points."""
        is_gap = self.ratio is None and self.measured == "gap" and self.contrast.at_least == 0
        return POINTS if is_gap and self.answer.in_percent else PLAIN

    @property
    def ratio(self) -> Ratio | None:
        """What is divided by what, where the question is about that."""
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
    def finding(self) -> str:
        """The verdict in plain words."""
        return finding(
            self.labels,
            self.contrast,
            self.interval,
            self.verdict,
            self.confidence,
            self.answer.subject,
            self.measured,
            self.unit,
        )

    @property
    def general_finding(self) -> str:
        """What holds in the population, in plain words; empty where that was not asked."""
        if self.in_general is None:
            return self.answer.not_general if self.population else ""
        return finding_in_general(self.in_general, self.contrast, self.confidence, self.measured, self.unit)

    @property
    def shaped_by(self) -> tuple[str, ...]:
        """The declarations that shaped the numbers, as sentences."""
        return self.answer.shaped_by

    @property
    def note(self) -> str:
        """Said when the released values point the other way than the question (SPEC 2, item 8)."""
        constant = self.contrast.at_least
        if self.estimate >= constant:
            return ""
        width = self.interval[1] - self.interval[0]
        released = self.unit.number(self.estimate, min(width, 10 * (constant - self.estimate)))
        below = f"the released value is {released}, below {as_given(constant)}."
        return f"The question runs against the released order: {below}"

    @property
    def relative_to(self) -> float | None:
        """What influences are divided by for display, or None where that would be meaningless.

        The released gap, times the smallest noisy group count for averages (SPEC 1). When noise could
        have made the gap or the count zero, the quotient says nothing (SPEC 2, item 7).
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
