"""The result of phase 2: what was asked, whether it is real, and the methods to explain it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, overload

from dpxplain.errors import DPXPlainError, ExplanationError
from dpxplain.explanation.custom import CustomInfluence
from dpxplain.explanation.distinct import is_folded_by_default
from dpxplain.explanation.family import Family
from dpxplain.explanation.family_choice import FamilyChoice, Predicates, eligible_attributes
from dpxplain.model.charge import Request, Spend
from dpxplain.phases.explain_answer import PrecisionGoal, best_split, plan_explanation, plan_for
from dpxplain.phases.explain_custom import CustomPlan
from dpxplain.phases.explain_marginals import assess_prepared
from dpxplain.phases.explain_scored import Split
from dpxplain.phases.plan import ExplanationPlan, ExplanationTerms, SensitivityChoice, check_terms
from dpxplain.phases.prepare_answer import StoredPreparation, find_prepared
from dpxplain.phases.tell_story import StoryPlan, plan_story
from dpxplain.privacy.mechanisms.one_shot import DEFAULT_SPLIT
from dpxplain.privacy.mechanisms.rank_bounds import LOWER_SHARE
from dpxplain.results.argument_errors import checked_arguments
from dpxplain.results.asked_price import USUAL_EXPLANATION, USUAL_PREPARATION, asked_rho, ladder
from dpxplain.results.asked_question import AskedQuestion
from dpxplain.results.base import Truth, require_curator
from dpxplain.results.explanation import CustomExplanation, Explanation, PlannedExplanation, plan_by
from dpxplain.results.preview import CustomPreview, ExplanationPreview
from dpxplain.results.requests import explain_request, prepare_request
from dpxplain.results.story import PlannedStory, Story, StoryPreview


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
        if influence is not None:
            _refuse_mechanism(mechanism, split, sensitivity, lower_share)
            plan = self._plan_custom(choice, influence, k, rho, confidence, epsilon)
            return self._dataset.find_or_measure(
                plan, Request(self.text), lambda released: CustomExplanation(self, plan, released)
            )
        return self.plan_explain(
            choice, k, rho, mechanism, confidence, split, sensitivity, distinct, lower_share, epsilon
        ).run()

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
        if influence is not None:
            _refuse_mechanism(mechanism, split, sensitivity, lower_share)
            plan = self._plan_custom(choice, influence, k, rho, confidence, epsilon)
            return CustomPreview.of(plan, self.text, self._dataset)
        return self.plan_explain(
            choice, k, rho, mechanism, confidence, split, sensitivity, distinct, lower_share, epsilon
        ).preview()

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
            terms = self._terms(self._family(choice), 1, price, confidence, "tight", False)
            return plan_story(terms, self._dataset, choice, levels, rho)

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
        `precision` depend on how close the influences are, so they need an earlier preparation. A result of 0
        means that this preparation is enough: explain from it for free.
        """
        choice = FamilyChoice(attributes, conjuncts, exclude, predicates)
        goal = PrecisionGoal(relative, ranks, precision)
        return self._cheapest(goal, choice, k, mechanism, confidence).rho

    def plan_for(
        self,
        goal: PrecisionGoal,
        choice: FamilyChoice,
        *,
        k: int = 5,
        mechanism: str = "auto",
        confidence: float | None = None,
    ) -> PlannedExplanation:
        """The planned explanation at the price that `rho_for` returns, by the mechanism of that price."""
        cheapest = self._cheapest(goal, choice, k, mechanism, confidence)
        return self.plan_explain(choice, k, cheapest.rho or None, cheapest.mechanism, confidence)

    def _cheapest(
        self, goal: PrecisionGoal, choice: FamilyChoice, k: int, mechanism: str, confidence: float | None
    ) -> ExplanationPlan:
        family = self._family(choice.in_schema_order(self._dataset.schema))
        terms = self._terms(family, k, 1.0, confidence, "tight")
        return plan_for(goal, terms, self._dataset, self.relative_to, mechanism)

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
        return self._usual_preparation() is not None

    def with_preparation(self) -> Question:
        """This question with the number from Phase 1 and a stored preparation together, if there is one.

        The number stays that of Phase 1 if the ledger cannot be read, the data have changed, or explanations
        refuse the weights.
        """
        try:
            found = self._usual_preparation()
            if found is None:
                return self
            family, stored = found
            terms = self._terms(family, 1, stored.worth, None, "tight", False)
        except DPXPlainError:
            return self
        better = assess_prepared(terms, stored.release, self.confidence, self.method)
        return self.sharpened_by(better, stored.entry.id)

    def _usual_preparation(self) -> tuple[Family, StoredPreparation] | None:
        query = self.answer.statement.query
        if self.answer.no_influence or not eligible_attributes(self.answer.schema, query):
            return None
        family = self._family(FamilyChoice())
        stored = find_prepared(query, family, self._dataset)
        return None if stored is None else (family, stored)

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
        lower_share: float = LOWER_SHARE,
        epsilon: float | None = None,
    ) -> PlannedExplanation:
        """Plan `explain` without running it, to price it or run it later. Spends nothing."""
        options = (mechanism, confidence, split, sensitivity, distinct, lower_share)
        asked = asked_rho(
            rho, epsilon, self._dataset, lambda rho: self.plan_explain(choice, k, rho, *options).plan.spends
        )
        ordered = choice.in_schema_order(self._dataset.schema)
        family = self._family(ordered)
        price = self._prepared_rho(family, mechanism) if asked is None else asked
        terms = self._terms(family, k, price, confidence, sensitivity, distinct)
        shares = best_split(k, family.size, terms.confidence) if split == "best" else split
        planned = plan_explanation(terms, self._dataset, mechanism, shares, lower_share)
        if asked is None and planned.rho:  # the preparation does not cover this split or sensitivity
            raise self._needs_a_price()
        return PlannedExplanation(self, planned, explain_request(self, planned, ordered), self._dataset)

    def _plan_custom(
        self,
        choice: FamilyChoice,
        influence: CustomInfluence,
        k: int,
        rho: float | None,
        confidence: float | None,
        epsilon: float | None,
    ) -> CustomPlan:
        def plan(rho: float | None) -> CustomPlan:
            family = self._family(choice.in_schema_order(self._dataset.schema))
            return plan_by(influence, self, family, self._dataset, k=k, rho=rho, confidence=confidence)

        return plan(asked_rho(rho, epsilon, self._dataset, lambda rho: plan(rho).spends))

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
        terms = ExplanationTerms(
            self.answer.statement.query,
            self.contrast,
            family,
            self.answer.release,
            k,
            rho,
            confidence=self.confidence if confidence is None else confidence,
            sensitivity=sensitivity,
            distinct=is_folded_by_default(family) if distinct is None else distinct,
            ratio=None if self.ratio is None else (self.ratio, self.estimate),
        )
        return check_terms(terms)

    def _prepared_rho(self, family: Family, mechanism: str) -> float:
        """The ρ paid for a preparation that answers this for free; raises if there is none."""
        prepared = find_prepared(self.answer.statement.query, family, self._dataset)
        if prepared is None or mechanism not in ("auto", "marginals"):
            raise self._needs_a_price()
        return prepared.worth

    def _needs_a_price(self) -> ExplanationError:
        """The error for an explanation that is neither prepared nor paid for, with the cost of either."""
        limit = self._dataset.ledger.budget(self._dataset.name).limit
        _, alone, _ = ladder(USUAL_EXPLANATION, limit)
        _, once, _ = ladder(USUAL_PREPARATION, limit)
        return ExplanationError(
            f"This explanation is not prepared, so it needs a price: about ρ {alone:g} for this "
            f"question only, or about ρ {once:g} once for all questions on this answer.",
            remedy=f"Pass rho={alone:g}, or prepare the answer: answer.prepare(rho={once:g}).",
        )


def _refuse_mechanism(mechanism: str, split: object, sensitivity: str, lower_share: object) -> None:
    if (mechanism, split, sensitivity, lower_share) != ("auto", DEFAULT_SPLIT, "tight", LOWER_SHARE):
        raise ExplanationError(
            "A custom influence function always uses its own mechanism.",
            remedy="Leave out mechanism, split, sensitivity and lower_share.",
        )
