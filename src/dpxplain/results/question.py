"""Phase 2's result as an analyst holds it: what was asked, whether it is real, and the way to explain it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

from dpxplain.errors import ExplanationError
from dpxplain.explanation.choice import FamilyChoice, Predicates, eligible_attributes
from dpxplain.explanation.custom import CustomInfluence
from dpxplain.explanation.family import Family
from dpxplain.model.contrast import Contrast, Ratio, Verdict
from dpxplain.model.display import Charted
from dpxplain.model.hardening import Frozen
from dpxplain.phases.assess_question import Assessment
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.explain_answer import best_split, plan_explanation, rho_for
from dpxplain.phases.explain_scored import Split
from dpxplain.phases.plan import ExplanationTerms, SensitivityChoice, check_terms
from dpxplain.phases.prepare_answer import find_prepared
from dpxplain.privacy.intervals import DEFAULT_METHOD, Interval, check_asked_confidence
from dpxplain.privacy.mechanisms.one_shot import DEFAULT_SPLIT
from dpxplain.results.arguments import checked_arguments
from dpxplain.results.base import Truth, require_curator
from dpxplain.results.custom_explanation import CustomExplanation, explain_by, plan_by
from dpxplain.results.explanation import Explanation, PlannedExplanation
from dpxplain.results.formats import number
from dpxplain.results.links import AnswerLike
from dpxplain.results.preview import CustomPreview, ExplanationPreview
from dpxplain.results.requests import explain_request
from dpxplain.results.sentences import finding, finding_in_general, measured, question_text, subject


class Question(Frozen, Charted):
    """Why is a group's value above another's, and is it really?

    >>> import dpxplain as dpx
    >>> sql = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
    >>> answer = dpx.example("adult").query(sql, rho=0.1)
    >>> question = answer.why("Married-civ-spouse", "Never-married")
    >>> question.verdict
    <Verdict.REAL: 'real'>
    """

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
        named = subject(self.answer.statement.query, self.answer.schema)
        return finding(self.labels, self.contrast, self.interval, self.verdict, self.confidence, named)

    @property
    def general_finding(self) -> str:
        """What holds in the population, in plain words; empty where that was not asked."""
        if self.in_general is None:
            return self.answer.not_general if self.population else ""
        return finding_in_general(self.in_general, self.contrast, self.confidence, self.measured)

    @property
    def shaped_by(self) -> tuple[str, ...]:
        """The declarations that shaped the numbers, as sentences."""
        return self.answer.shaped_by

    @property
    def note(self) -> str:
        """Said when the released values point the other way than the question (SPEC 2, item 8)."""
        if self.estimate >= self.contrast.at_least:
            return ""
        released = number(self.estimate, self.interval[1] - self.interval[0])
        below = f"the released value is {released}, below {number(self.contrast.at_least)}."
        return f"The question runs against the released order: {below}"

    @overload
    def explain(
        self,
        k: int = ...,
        rho: float | None = ...,
        *,
        mechanism: str = ...,
        attributes: Sequence[str] | None = ...,
        conjuncts: int | None = ...,
        exclude: Sequence[str] = ...,
        predicates: Predicates | None = ...,
        confidence: float | None = ...,
        split: Split | Literal["best"] = ...,
        sensitivity: SensitivityChoice = ...,
        distinct: bool | None = ...,
        influence: None = ...,
    ) -> Explanation: ...

    @overload
    def explain(
        self,
        k: int = ...,
        rho: float | None = ...,
        *,
        attributes: Sequence[str] | None = ...,
        conjuncts: int | None = ...,
        exclude: Sequence[str] = ...,
        predicates: Predicates | None = ...,
        confidence: float | None = ...,
        influence: CustomInfluence,
    ) -> CustomExplanation: ...

    @checked_arguments
    def explain(
        self,
        k: int = 5,
        rho: float | None = None,
        *,
        mechanism: str = "auto",
        attributes: Sequence[str] | None = None,
        conjuncts: int | None = None,
        exclude: Sequence[str] = (),
        predicates: Predicates | None = None,
        confidence: float | None = None,
        split: Split | Literal["best"] = DEFAULT_SPLIT,
        sensitivity: SensitivityChoice = "tight",
        distinct: bool | None = None,
        influence: CustomInfluence | None = None,
    ) -> Explanation | CustomExplanation:
        """The k most influential predicates, for `rho`. Asking the identical thing again is free.

        After `answer.prepare(rho=...)`, leave `rho` out: every question on that answer is free.

        By default predicates are equalities over all attributes; `conjuncts=2` takes pairs of them,
        `attributes` and `exclude` choose columns, and `predicates` takes conditions as SQL text or recipes
        such as `dpx.ranges("age")`, `dpx.thresholds()`, `dpx.differs("sex")` and
        `dpx.either("pickup_zone", "dropoff_zone")`. `distinct` folds conditions that say nearly the same
        under one row (`row.folded`), by default where conditions have several columns. `influence`
        replaces the paper's influence by another, such as `dpx.RatioInfluence()`.
        """
        choice = FamilyChoice(attributes, conjuncts, exclude, predicates)
        if influence is not None:
            _refuse_mechanism(mechanism, split, sensitivity)
            family = self._family(choice)
            return explain_by(influence, self, family, self._dataset, k=k, rho=rho, confidence=confidence)
        return self.plan_explain(choice, k, rho, mechanism, confidence, split, sensitivity, distinct).run()

    @overload
    def preview(
        self,
        k: int = ...,
        rho: float | None = ...,
        *,
        mechanism: str = ...,
        attributes: Sequence[str] | None = ...,
        conjuncts: int | None = ...,
        exclude: Sequence[str] = ...,
        predicates: Predicates | None = ...,
        confidence: float | None = ...,
        split: Split | Literal["best"] = ...,
        sensitivity: SensitivityChoice = ...,
        distinct: bool | None = ...,
        influence: None = ...,
    ) -> ExplanationPreview: ...

    @overload
    def preview(
        self,
        k: int = ...,
        rho: float | None = ...,
        *,
        attributes: Sequence[str] | None = ...,
        conjuncts: int | None = ...,
        exclude: Sequence[str] = ...,
        predicates: Predicates | None = ...,
        confidence: float | None = ...,
        influence: CustomInfluence,
    ) -> CustomPreview: ...

    @checked_arguments
    def preview(
        self,
        k: int = 5,
        rho: float | None = None,
        *,
        mechanism: str = "auto",
        attributes: Sequence[str] | None = None,
        conjuncts: int | None = None,
        exclude: Sequence[str] = (),
        predicates: Predicates | None = None,
        confidence: float | None = None,
        split: Split | Literal["best"] = DEFAULT_SPLIT,
        sensitivity: SensitivityChoice = "tight",
        distinct: bool | None = None,
        influence: CustomInfluence | None = None,
    ) -> ExplanationPreview | CustomPreview:
        """What `explain` would cost and how precise its table would be. Spends nothing."""
        choice = FamilyChoice(attributes, conjuncts, exclude, predicates)
        if influence is not None:
            _refuse_mechanism(mechanism, split, sensitivity)
            family = self._family(choice)
            plan = plan_by(influence, self, family, self._dataset, k=k, rho=rho, confidence=confidence)
            return CustomPreview.of(plan, self.text, self._dataset)
        return self.plan_explain(
            choice, k, rho, mechanism, confidence, split, sensitivity, distinct
        ).preview()

    @checked_arguments
    def rho_for(
        self,
        *,
        relative: float | None = None,
        ranks: int | None = None,
        precision: float | None = None,
        k: int = 5,
        mechanism: str = "auto",
        attributes: Sequence[str] | None = None,
        conjuncts: int | None = None,
        exclude: Sequence[str] = (),
        predicates: Predicates | None = None,
        confidence: float | None = None,
    ) -> float:
        """The ρ needed for relative influences within ± `relative` (0.02 is ±2%), or ranks within `ranks`.

        Or for a `precision`: the share of the k shown that are among the true k. Spends nothing. The last two
        depend on how close influences lie: an earlier preparation tells; 0 means: explain from it.
        """
        family = self._family(FamilyChoice(attributes, conjuncts, exclude, predicates))
        terms = self._terms(family, k, 1.0, confidence, "tight")
        margin = None
        if relative is not None:
            if self.relative_to is None or not relative > 0:
                raise ExplanationError(
                    "A relative width needs a positive number and a gap that is not lost in noise.",
                    remedy="Ask the query with more budget first.",
                )
            margin = relative * self.relative_to
        return rho_for(terms, self._dataset, mechanism, margin, ranks, precision)

    def truth(
        self,
        attributes: Sequence[str] | None = None,
        conjuncts: int | None = None,
        exclude: Sequence[str] = (),
        predicates: Predicates | None = None,
    ) -> Truth:
        """Curator only: true influence and rank of every predicate."""
        return self.truth_of(FamilyChoice(attributes, conjuncts, exclude, predicates))

    def truth_of(self, choice: FamilyChoice) -> Truth:
        """Curator only: `truth` of a family that is chosen already."""
        return require_curator(self._dataset).question_truth(self, choice)

    @property
    def prepared(self) -> bool:
        """Whether explaining it by the usual predicates is free."""
        query = self.answer.statement.query
        if self.answer.no_influence or not eligible_attributes(self.answer.schema, query):
            return False
        return find_prepared(query, self._family(FamilyChoice()), self._dataset) is not None

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

    def plan_explain(
        self,
        choice: FamilyChoice,
        k: int = 5,
        rho: float | None = None,
        mechanism: str = "auto",
        confidence: float | None = None,
        split: Split | Literal["best"] = DEFAULT_SPLIT,
        sensitivity: SensitivityChoice = "tight",
        distinct: bool | None = None,
    ) -> PlannedExplanation:
        """What `explain` will do, to be priced and carried out later. Spends nothing."""
        family = self._family(choice)
        price = self._prepared_rho(family, mechanism) if rho is None else rho
        terms = self._terms(family, k, price, confidence, sensitivity, distinct)
        shares = best_split(k, family.size, terms.confidence) if split == "best" else split
        plan = plan_explanation(terms, self._dataset, mechanism, shares)
        if rho is None and plan.rho:  # a split or sensitivity that what is prepared does not know
            raise _needs_a_price()
        return PlannedExplanation(self, plan, explain_request(self, plan, choice), self._dataset)

    def _family(self, choice: FamilyChoice) -> Family:
        if self.answer.no_influence:
            raise self.answer.unexplained()
        return self._dataset.family(self.answer.statement.query, choice)

    def _terms(
        self,
        family: Family,
        k: int,
        rho: float,
        confidence: float | None,
        sensitivity: SensitivityChoice,
        distinct: bool | None = None,
    ) -> ExplanationTerms:
        return check_terms(
            self.answer.statement.query,
            self.contrast,
            family,
            self.answer.release,
            k=k,
            rho=rho,
            confidence=self.confidence if confidence is None else confidence,
            sensitivity=sensitivity,
            distinct=distinct,
            ratio=None if self.ratio is None else (self.ratio, self.estimate),
        )

    def _prepared_rho(self, family: Family, mechanism: str) -> float:
        """What was paid for a preparation that answers this for free; without one, a price is needed."""
        prepared = find_prepared(self.answer.statement.query, family, self._dataset)
        if prepared is None or mechanism not in ("auto", "marginals"):
            raise _needs_a_price()
        return prepared.worth


def _refuse_mechanism(mechanism: str, split: object, sensitivity: str) -> None:
    if mechanism != "auto" or split != DEFAULT_SPLIT or sensitivity != "tight":
        raise ExplanationError(
            "An influence of your own has a mechanism of its own.",
            remedy="Leave mechanism, split and sensitivity out.",
        )


def _needs_a_price() -> ExplanationError:
    return ExplanationError(
        "This explanation is not prepared, so it needs a price.",
        remedy="Pass rho=0.5, or prepare the answer once: answer.prepare(rho=0.5).",
    )
