"""The result of phase 2: whether a gap or a ratio is real, and the methods to explain it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, overload

from dpxplain.errors import DPXPlainError, ExplanationError, QuestionError
from dpxplain.explanation.custom import CustomInfluence
from dpxplain.explanation.distinct import is_folded_by_default
from dpxplain.explanation.family import PredicateFamily
from dpxplain.explanation.family_choice import FamilyChoice, Predicates, eligible_attributes
from dpxplain.model.charge import EntryId, Spend
from dpxplain.model.contrast import Contrast, Ratio
from dpxplain.model.hardening import plain_number
from dpxplain.model.process import cached_property
from dpxplain.phases.assess import assess_ratio, known_divisor, linear_question
from dpxplain.phases.dataset import Lookup, OpenDataset
from dpxplain.phases.explain import PrecisionGoal, best_split, may_be_prepared, plan_explanation, plan_for
from dpxplain.phases.explain_marginals import StoryPlan, assess_prepared, not_covered, plan_story
from dpxplain.phases.plan import (
    ExplanationOptions,
    ExplanationPlan,
    ExplanationTerms,
    SensitivityChoice,
    Split,
    check_terms,
)
from dpxplain.phases.prepare import Preparations, StoredPreparation
from dpxplain.privacy.intervals import DEFAULT_METHOD, Interval, check_asked_confidence
from dpxplain.privacy.mechanisms.ranking import DEFAULT_SPLIT, LOWER_SHARE
from dpxplain.results.base import (
    USUAL_EXPLANATION,
    USUAL_PREPARATION,
    Truth,
    asked_rho,
    checked_arguments,
    ladder,
    require_curator,
)
from dpxplain.results.explanation import (
    CustomExplanation,
    Explanation,
    PlannedCustomExplanation,
    PlannedExplanation,
    PlannedStory,
    Story,
    StoryPreview,
    plan_by,
)
from dpxplain.results.preview import CustomPreview, ExplanationPreview
from dpxplain.results.released_answer import AskedQuestion, ReleasedAnswer, explain_request, prepare_request
from dpxplain.words.sentences import ratio_text

# -- Question ----------------------------------------------------------------------------------------------


class Question(AskedQuestion):
    """Why is a group's value above another's, and is it really?

    >>> import dpxplain as dpx
    >>> sql = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
    >>> answer = dpx.example("adult").query(sql, rho=0.1)
    >>> question = answer.why("Married-civ-spouse", "Never-married")
    >>> question.verdict
    <Verdict.REAL: 'real'>
    """

    @overload
    def explain(
        self,
        k: int = ...,
        rho: float | None = ...,
        *,
        epsilon: float | None = ...,
        mechanism: str = ...,
        attributes: Sequence[str] | None = ...,
        conjuncts: int | None = ...,
        exclude: Sequence[str] = ...,
        predicates: Predicates | None = ...,
        confidence: float | None = ...,
        split: Split | Literal["best"] = ...,
        sensitivity: SensitivityChoice = ...,
        distinct: bool | None = ...,
        lower_share: float = ...,
        influence: None = ...,
    ) -> Explanation: ...

    @overload
    def explain(
        self,
        k: int = ...,
        rho: float | None = ...,
        *,
        epsilon: float | None = ...,
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
        epsilon: float | None = None,
        mechanism: str = "auto",
        attributes: Sequence[str] | None = None,
        conjuncts: int | None = None,
        exclude: Sequence[str] = (),
        predicates: Predicates | None = None,
        confidence: float | None = None,
        split: Split | Literal["best"] = DEFAULT_SPLIT,
        sensitivity: SensitivityChoice = "tight",
        distinct: bool | None = None,
        lower_share: float = LOWER_SHARE,
        influence: CustomInfluence | None = None,
    ) -> Explanation | CustomExplanation:
        """The k most influential conditions, for `rho` or `epsilon`. Asking the same again is free.

        After `answer.prepare(rho=...)`, leave out both: explanations by the prepared conditions are free.

        By default, a condition is one declared value or bin of one attribute, for all attributes.
        `conjuncts=2` uses pairs of these; `attributes` and `exclude` choose columns. `predicates` takes
        conditions as SQL text, or recipes such as `dpx.ranges("age")`, `dpx.thresholds()`,
        `dpx.differs("sex")` and `dpx.either("pickup_zone", "dropoff_zone")`. `distinct` folds conditions that
        say nearly the same under one row (`row.folded`); by default it does so if conditions have several
        columns. For the paper's mechanism (`one-shot`), `split` divides ρ between choosing, influences and
        ranks, and `lower_share` (η in the paper) is the part of the ranks' ρ for their lower bounds.
        `influence` replaces the paper's influence with another, such as `dpx.RatioInfluence()`.
        """
        choice = FamilyChoice(attributes, conjuncts, exclude, predicates)
        options = ExplanationOptions(
            choice, k, rho, mechanism, confidence, split, sensitivity, distinct, lower_share, epsilon
        )
        return self._plan(options, influence).run()

    @overload
    def preview(
        self,
        k: int = ...,
        rho: float | None = ...,
        *,
        epsilon: float | None = ...,
        mechanism: str = ...,
        attributes: Sequence[str] | None = ...,
        conjuncts: int | None = ...,
        exclude: Sequence[str] = ...,
        predicates: Predicates | None = ...,
        confidence: float | None = ...,
        split: Split | Literal["best"] = ...,
        sensitivity: SensitivityChoice = ...,
        distinct: bool | None = ...,
        lower_share: float = ...,
        influence: None = ...,
    ) -> ExplanationPreview: ...

    @overload
    def preview(
        self,
        k: int = ...,
        rho: float | None = ...,
        *,
        epsilon: float | None = ...,
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
        epsilon: float | None = None,
        mechanism: str = "auto",
        attributes: Sequence[str] | None = None,
        conjuncts: int | None = None,
        exclude: Sequence[str] = (),
        predicates: Predicates | None = None,
        confidence: float | None = None,
        split: Split | Literal["best"] = DEFAULT_SPLIT,
        sensitivity: SensitivityChoice = "tight",
        distinct: bool | None = None,
        lower_share: float = LOWER_SHARE,
        influence: CustomInfluence | None = None,
    ) -> ExplanationPreview | CustomPreview:
        """What `explain` would cost and how precise its table would be. Spends nothing."""
        choice = FamilyChoice(attributes, conjuncts, exclude, predicates)
        options = ExplanationOptions(
            choice, k, rho, mechanism, confidence, split, sensitivity, distinct, lower_share, epsilon
        )
        return self._plan(options, influence).preview()

    @checked_arguments
    def story(
        self,
        rho: float | None = None,
        *,
        epsilon: float | None = None,
        levels: int | None = None,
        attributes: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        confidence: float | None = None,
    ) -> Story:
        """Break the gap down step by step: the condition that explains most, then the next within its rows.

        Each step also shows what remains; there are at most three `levels`. `rho` or `epsilon` pays once for
        all conjunctions of up to two (or `levels`) conditions. After that, every story and every such
        explanation of the answer is free. Leave out both to use only what is prepared.
        """
        choice = FamilyChoice(attributes, None, exclude)
        return self.plan_story(choice, rho, levels, confidence, epsilon).run()

    @checked_arguments
    def preview_story(
        self,
        rho: float | None = None,
        *,
        epsilon: float | None = None,
        levels: int | None = None,
        attributes: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        confidence: float | None = None,
    ) -> StoryPreview:
        """What `story` would cost as a whole, and how precise it would be. Spends nothing."""
        choice = FamilyChoice(attributes, None, exclude)
        return self.plan_story(choice, rho, levels, confidence, epsilon).preview()

    def plan_story(
        self,
        choice: FamilyChoice,
        rho: float | None = None,
        levels: int | None = None,
        confidence: float | None = None,
        epsilon: float | None = None,
    ) -> PlannedStory:
        """Plan `story` without running it, to price it or run it later. Spends nothing."""
        if self.ratio is not None:
            raise ExplanationError(
                "Only a difference has a story, not a ratio or a share.",
                remedy="Use explain(), which shows the ratio without the rows of each condition. Or ask for "
                'the story of a difference, answer.why("A", "B"), or of a multiple, '
                'answer.why({"A": 1, "B": -2}).',
            )
        choice = choice.in_schema_order(self._dataset.schema)

        def plan_at(rho: float | None) -> StoryPlan:
            price = 1.0 if rho is None else rho
            options = ExplanationOptions(choice, k=1, confidence=confidence, distinct=False)
            terms = self._terms(self._family(choice), options, price)
            return plan_story(terms, self._dataset, self.preparations, choice, levels, rho)

        def spends_at(rho: float) -> tuple[Spend, ...]:
            preparation = plan_at(rho).preparation
            return () if preparation is None else preparation.spends

        plan = plan_at(asked_rho(rho, epsilon, self._dataset, spends_at))
        request = None
        if plan.preparation is not None:
            nested = replace(choice, conjuncts=len(plan.families), nested=True)
            request = prepare_request(self.answer, plan.preparation.rho, nested)
        return PlannedStory(self, plan, request, self._dataset)

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

        Or for a `precision`: the share of the k shown that are among the true k. Spends nothing. `ranks` and
        `precision` depend on how close the influences are, so they need an earlier preparation. For a
        `precision`, 0 means that this preparation is enough: explain from it for free.
        """
        choice = FamilyChoice(attributes, conjuncts, exclude, predicates)
        options = ExplanationOptions(choice, k, mechanism=mechanism, confidence=confidence)
        return self._cheapest(PrecisionGoal(relative, ranks, precision), options).rho

    def plan_for(self, goal: PrecisionGoal, options: ExplanationOptions) -> PlannedExplanation:
        """The planned explanation at the price that `rho_for` returns, by the mechanism of that price."""
        cheapest = self._cheapest(goal, options)
        return self.plan_explain(replace(options, rho=cheapest.rho or None, mechanism=cheapest.mechanism))

    def _cheapest(self, goal: PrecisionGoal, options: ExplanationOptions) -> ExplanationPlan:
        family = self._family(options.choice.in_schema_order(self._dataset.schema))
        terms = self._terms(family, options, 1.0)
        return plan_for(goal, terms, self.preparations.find(family), self.relative_to, options.mechanism)

    def truth(
        self,
        attributes: Sequence[str] | None = None,
        conjuncts: int | None = None,
        exclude: Sequence[str] = (),
        predicates: Predicates | None = None,
    ) -> Truth:
        """Curator only: true influence and rank of every condition."""
        return self.truth_of(FamilyChoice(attributes, conjuncts, exclude, predicates))

    def truth_of(self, choice: FamilyChoice) -> Truth:
        """Curator only: `truth` for a choice of conditions."""
        return require_curator(self._dataset).question_truth(self, choice)

    @property
    def prepared(self) -> bool:
        """Whether explaining it by the default conditions is free."""
        return self._default_preparation.find() is not None

    def with_preparation(self) -> Question:
        """This question with the number from Phase 1 and a stored preparation together, if there is one.

        The number stays that of Phase 1 if the ledger cannot be read, the data have changed, or explanations
        refuse the weights.
        """
        try:
            found = self._default_preparation.find()
            if found is None:
                return self
            family, stored = found
            terms = self._terms(family, ExplanationOptions(k=1, distinct=False), stored.worth)
        except DPXPlainError:
            return self
        better = assess_prepared(terms, stored.release, self.confidence, self.method)
        return self.sharpened_by(better, stored.entry)

    @property
    def sharper(self) -> bool:
        if self.read_from is None or self.ratio is not None or self.in_general is not None:
            return False
        family = self._default_family
        return family is not None and self.preparations.leaves_out_sharper(family)

    @cached_property
    def _default_preparation(self) -> Lookup[tuple[PredicateFamily, StoredPreparation]]:
        """Looks up the preparation for the default conditions."""
        return Lookup(self._dataset, self._find_default_preparation)

    @property
    def _default_family(self) -> PredicateFamily | None:
        """The default conditions; None if the answer cannot be explained."""
        query = self.answer.statement.query
        if self.answer.no_influence or not eligible_attributes(self.answer.schema, query):
            return None
        return self._family(FamilyChoice())

    def _find_default_preparation(self) -> tuple[PredicateFamily, StoredPreparation] | None:
        family = self._default_family
        stored = None if family is None else self.preparations.find(family)
        return None if family is None or stored is None else (family, stored)

    @cached_property
    def preparations(self) -> Preparations:
        return Preparations(self.answer.statement.query, self._dataset, self.read_from)

    def plan_explain(self, options: ExplanationOptions) -> PlannedExplanation:
        """Plan `explain` without running it, to price it or run it later. Spends nothing."""

        def spends_at(rho: float) -> tuple[Spend, ...]:
            return self.plan_explain(replace(options, rho=rho, epsilon=None)).plan.spends

        asked = asked_rho(options.rho, options.epsilon, self._dataset, spends_at)
        mechanism, split = options.mechanism, options.split
        choice = options.choice.in_schema_order(self._dataset.schema)
        family = self._family(choice)
        stored = self.preparations.find(family) if may_be_prepared(mechanism) else None
        price = asked
        if price is None:
            if stored is None:
                raise self._needs_a_price()
            price = stored.worth
        terms = self._terms(family, options, price)
        shares = best_split(terms.k, family.size, terms.confidence) if split == "best" else split
        plan = plan_explanation(terms, stored, mechanism, shares, options.lower_share)
        if asked is None and plan.rho:  # the preparation does not cover these options
            raise self._needs_a_price()
        return PlannedExplanation(self, plan, explain_request(self, plan, choice), self._dataset)

    def _plan(
        self, options: ExplanationOptions, influence: CustomInfluence | None
    ) -> PlannedExplanation | PlannedCustomExplanation:
        if influence is None:
            return self.plan_explain(options)
        _refuse_mechanism(options)
        family = self._family(options.choice.in_schema_order(self._dataset.schema))

        def plan_at(rho: float | None) -> PlannedCustomExplanation:
            return plan_by(influence, self, family, self._dataset, replace(options, rho=rho))

        def spends_at(rho: float) -> tuple[Spend, ...]:
            return plan_at(rho).plan.spends

        return plan_at(asked_rho(options.rho, options.epsilon, self._dataset, spends_at))

    def _family(self, choice: FamilyChoice) -> PredicateFamily:
        if self.answer.no_influence:
            raise self.answer.unexplained()
        return self._dataset.family(self.answer.statement.query, choice)

    def _terms(self, family: PredicateFamily, options: ExplanationOptions, rho: float) -> ExplanationTerms:
        """The checked terms of an explanation at a price."""
        confidence, distinct = options.confidence, options.distinct
        return check_terms(
            ExplanationTerms(
                self.answer.statement.query,
                self.contrast,
                family,
                self.answer.release,
                options.k,
                rho,
                confidence=self.confidence if confidence is None else confidence,
                sensitivity=options.sensitivity,
                distinct=is_folded_by_default(family) if distinct is None else distinct,
                ratio=None if self.ratio is None else (self.ratio, self.estimate),
            )
        )

    def _needs_a_price(self) -> ExplanationError:
        """The error for an explanation that is neither prepared nor paid for, with the cost of either."""
        if self.read_from is not None:
            return not_covered()
        limit = self._dataset.ledger.budget(self._dataset.name).limit
        _, alone, _ = ladder(USUAL_EXPLANATION, limit)
        _, once, _ = ladder(USUAL_PREPARATION, limit)
        return ExplanationError(
            f"This explanation is not prepared, so it needs a price: about ρ {alone:g} for this "
            f"question only, or about ρ {once:g} once for all questions on this answer.",
            remedy=f"Pass rho={alone:g}, or prepare the answer: answer.prepare(rho={once:g}).",
        )


def _refuse_mechanism(options: ExplanationOptions) -> None:
    """Raises for options that belong to the library's own influence."""
    asked = (options.mechanism, options.split, options.sensitivity, options.lower_share)
    if asked != ("auto", DEFAULT_SPLIT, "tight", LOWER_SHARE):
        raise ExplanationError(
            "A custom influence function always uses its own mechanism.",
            remedy="Leave out mechanism, split, sensitivity and lower_share.",
        )


# -- Ratio question ----------------------------------------------------------------------------------------
#
# The ratio of two groups, or a group's share of the total; asked by `why_ratio`.


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
        read_from: tuple[EntryId, ...] | None = None,
    ) -> None:
        check_asked_confidence(confidence)
        reading, limits = answer.reading, _limits(ratio, answer)

        def weigh(weights: Sequence[float]) -> Interval:
            return answer.assess(Contrast(ratio.groups, tuple(weights)), confidence, method).interval

        sign = known_divisor(ratio, weigh, _divisor_name(ratio, answer), _signs(answer))
        estimates = reading.estimates(ratio.groups)
        assessment = assess_ratio(ratio, estimates, weigh, limits)
        self.ratio: Ratio = ratio
        self.contrast = linear_question(ratio, assessment.estimate, sign)
        self.answer = answer
        self.confidence = confidence
        self.method = method
        self.estimate = assessment.estimate
        self.interval = assessment.interval
        self.verdict = assessment.verdict
        self.population = population
        self.read_from = read_from
        self.in_general = None
        if population and not answer.not_general:
            sampled = reading.weigh(ratio.groups, confidence)
            self.in_general = assess_ratio(ratio, estimates, sampled, limits)
        self._dataset = dataset
        self.freeze()

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
    """The ratio of `group` to `other` or, without one, to the total of all groups.

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
    constant = plain_number(usual if at_least is None else at_least)
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
