"""A question about a ratio of two groups, or about a group's share of the total; asked by `why_ratio`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpxplain.errors import QuestionError
from dpxplain.model.contrast import Contrast, Ratio
from dpxplain.model.hardening import plain, plain_number
from dpxplain.phases.assess_question import assess_ratio, known_divisor, linear_question
from dpxplain.phases.dataset import OpenDataset
from dpxplain.privacy.intervals import DEFAULT_METHOD, Interval, check_asked_confidence
from dpxplain.results.question import Question
from dpxplain.results.released_answer import ReleasedAnswer
from dpxplain.words.questions import ratio_text


class RatioQuestion(Question):
    """Why is a ratio so high, and is it really? Estimate, interval and verdict are those of the ratio.

    `explain` explains the weighted question A − r·B, where r is the released ratio.

    >>> import dpxplain as dpx
    >>> answer = dpx.example("adult").query("SELECT sex, COUNT(*) FROM adult GROUP BY sex", rho=0.5)
    >>> ratio, share = answer.why_ratio("Male", "Female"), answer.why_ratio("Male")
    >>> round(ratio.estimate, 2), ratio.verdict, round(share.estimate, 2)
    (2.02, <Verdict.REAL: 'real'>, 0.67)
    """

    def __init__(
        self,
        ratio: Ratio,
        answer: ReleasedAnswer,
        dataset: OpenDataset,
        *,
        confidence: float,
        method: str = DEFAULT_METHOD,
        population: bool = False,
    ) -> None:
        check_asked_confidence(confidence)
        reading, limits = answer.reading, _limits(ratio, answer)

        def weigh(weights: Sequence[float]) -> Interval:
            return answer.assess(Contrast(ratio.groups, tuple(weights)), confidence, method).interval

        sign = known_divisor(ratio, weigh, _divisor_name(ratio, answer), _signs(answer))
        estimates = reading.estimates(ratio.groups)
        assessment = assess_ratio(ratio, estimates, weigh, limits)
        self._ratio = ratio
        self._contrast = linear_question(ratio, assessment.estimate, sign)
        self.answer = answer
        self.confidence = confidence
        self.method = method
        self.estimate = assessment.estimate
        self.interval = assessment.interval
        self.verdict = assessment.verdict
        self.population = population
        self.in_general = None
        if population and not answer.not_general:
            sampled = reading.weigh(ratio.groups, confidence)
            self.in_general = assess_ratio(ratio, estimates, sampled, limits)
        self._dataset = dataset
        self.freeze()

    @property
    def ratio(self) -> Ratio:
        """What is divided by what. Read only: sensitivities follow from it."""
        return self._ratio

    @property
    def labels(self) -> list[str]:
        """The groups' names; for a share, only the group whose share it is."""
        groups = (self.ratio.group,) if self.ratio.is_share else self.ratio.groups
        return [self.answer.groups.label(group) for group in groups]

    @property
    def measured(self) -> str:
        return "share" if self.ratio.is_share else "ratio"

    @property
    def asked_weights(self) -> list[tuple[int, float]]:
        if self.ratio.is_share:
            return [(self.ratio.group, 1.0)]
        return [(self.ratio.group, 1.0), (self.ratio.divisor[0], -1.0)]

    @property
    def text(self) -> str:
        return ratio_text(self.answer.expression, self.labels, self.ratio)

    @property
    def relative_to(self) -> float | None:
        """The divided group's value, times the smallest noisy count for averages; None if lost in noise."""
        if self.interval[0] <= 0.0 <= self.interval[1]:
            return None
        return self._times_rows(abs(self.answer.row(self.ratio.group).estimate))


def ratio_of(answer: ReleasedAnswer, group: object, other: object, at_least: float | None) -> Ratio:
    """What is divided by what: `group` by `other` or, without one, by the total of all groups.

    The total includes the declared groups that the WHERE excludes, which add only noise. Without them the
    released share would change. It is part of the key of a stored explanation, which would be charged again.
    """
    groups = answer.groups
    first = groups.find(tuple(group) if isinstance(group, list) else group)
    if other is None and not groups.has_null:
        divisor, usual = tuple(range(groups.size)), 1.0 / len(groups.remaining)
        if answer.statement.query.aggregate.kind == "avg" or len(groups.remaining) < 2:
            raise QuestionError(
                "A share needs the total of at least two groups. Averages do not add up to a total.",
                remedy='Ask for COUNT or SUM, or for the ratio of two groups: why_ratio("A", "B").',
            )
    else:
        divisor, usual = (groups.find(tuple(other) if isinstance(other, list) else other),), 1.0
        if divisor[0] == first:
            raise QuestionError("A group cannot be divided by itself.", remedy="Name two groups.")
    constant = plain_number(usual if at_least is None else plain(at_least))
    if constant is None:
        raise QuestionError("A ratio is compared with a finite number.", remedy="Write at_least=2.")
    return Ratio(first, divisor, constant)


def _divisor_name(ratio: Ratio, answer: ReleasedAnswer) -> str:
    if ratio.is_share:
        return f"The total of {answer.expression}"
    return f"{answer.expression} of {answer.groups.label(ratio.divisor[0])}"


def _signs(answer: ReleasedAnswer) -> list[int]:
    """The signs that a value other than 0 can have, according to the declarations."""
    aggregate = answer.statement.query.aggregate
    if aggregate.kind == "count":
        return [1]
    grid = answer.schema.column(aggregate.column or "").grid
    return [sign for sign, is_possible in ((1, grid.high > 0), (-1, grid.low < 0)) if is_possible]


def _limits(ratio: Ratio, answer: ReleasedAnswer) -> Interval:
    """The range of the ratio according to the declarations: values of one sign have ratios of at least 0."""
    if len(_signs(answer)) > 1:
        return -math.inf, math.inf
    return 0.0, (1.0 if ratio.is_share else math.inf)
