"""The result of phase 1: noisy values with intervals, and the methods to ask why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpxplain.errors import QuestionError, UnknownMeasurement
from dpxplain.explanation.family_choice import FamilyChoice, Predicates
from dpxplain.model.charge import EntryId
from dpxplain.model.contrast import Contrast
from dpxplain.model.hardening import plain, plain_number
from dpxplain.phases.prepare import Preparations
from dpxplain.privacy.intervals import DEFAULT_METHOD
from dpxplain.results.base import (
    USUAL_PREPARATION,
    Truth,
    checked_arguments,
    planned_at_price,
    require_curator,
)
from dpxplain.results.preview import PlannedPreparation, PreparationPreview, Prepared, plan_prepared
from dpxplain.results.question import Question, RatioQuestion, ratio_of
from dpxplain.results.released_answer import ReleasedAnswer


class Answer(ReleasedAnswer):
    """A noisy answer for every declared group that the WHERE does not exclude.

    >>> import dpxplain as dpx
    >>> answer = dpx.example("adult").query("SELECT sex, COUNT(*) FROM adult GROUP BY sex", rho=0.1)
    >>> [row.label for row in answer]
    ['Female', 'Male']
    >>> abs(answer["Female"].estimate - 16_192) < 50
    True
    """

    @checked_arguments
    def why(
        self,
        group: object,
        other: object = None,
        *,
        at_least: float = 0.0,
        confidence: float | None = None,
        method: str = DEFAULT_METHOD,
        population: bool | None = None,
        read_from: EntryId | Sequence[EntryId] | None = None,
    ) -> Question:
        """Why is `group` above `other`? Or, with a dict of weights, why is the sum at least `at_least`?

        Name a group as it is printed, "Male, White" for two columns, or by its values: ("Male", "White").
        Free: uses only what was released already, including a preparation of the answer. `population` adds a
        verdict for the population; by default it does so if the answer was asked with `population`.

        The question, its explanations and its stories are read off the sharpest preparations stored. So a
        later preparation may change them. `read_from` names those to read instead, by their numbers.

        >>> import dpxplain as dpx
        >>> answer = dpx.example("adult").query("SELECT sex, COUNT(*) FROM adult GROUP BY sex", rho=0.1)
        >>> coarse, fine = answer.prepare(rho=0.01), answer.prepare(rho=0.5)
        >>> answer.why("Male", "Female").explain().rho
        0.5
        >>> table = answer.why("Male", "Female", read_from=coarse.id).explain()
        >>> table.rho, table.sharper, table.releases == (coarse.id,)
        (0.01, True, True)
        """
        self._check_explainable()
        group, other = (tuple(side) if isinstance(side, list) else side for side in (group, other))
        if isinstance(group, Mapping):
            weights = group
        else:
            first = self.groups.find(group)
            weights = {group: 1.0}
            if other is not None or self.groups.has_null:
                if self.groups.find(other) == first:
                    raise QuestionError("A group cannot be compared with itself.", remedy="Name two groups.")
                weights[other] = -1.0
        question = Question(
            self._contrast(weights, at_least),
            self,
            self._dataset,
            confidence=self.confidence if confidence is None else confidence,
            method=method,
            population=self.population if population is None else population,
            read_from=self._named(read_from),
        )
        return question.with_preparation()

    @checked_arguments
    def why_ratio(
        self,
        group: object,
        other: object = None,
        *,
        at_least: float | None = None,
        confidence: float | None = None,
        method: str = DEFAULT_METHOD,
        population: bool | None = None,
        read_from: EntryId | Sequence[EntryId] | None = None,
    ) -> RatioQuestion:
        """Why is `group` so high as a multiple of `other`? Without `other`: as a share of the total?

        The verdict says whether the ratio is above `at_least`. The default is 1 for a ratio, and an even
        share for a share of the total. Free: uses only what was released already. `read_from` is as in `why`.
        """
        self._check_ratio()
        return RatioQuestion(
            ratio_of(self, group, other, at_least),
            self,
            self._dataset,
            confidence=self.confidence if confidence is None else confidence,
            method=method,
            population=self.population if population is None else population,
            read_from=self._named(read_from),
        )

    def _check_ratio(self) -> None:
        self._check_explainable()

    def _named(self, releases: EntryId | Sequence[EntryId] | None) -> tuple[EntryId, ...] | None:
        """The numbers of stored releases to read. Raises if one of them is not about this answer."""
        if releases is None:
            return None
        named = (releases,) if isinstance(releases, int | str) else tuple(map(plain, releases))
        prepared = Preparations(self.statement.query, self._dataset).entries if named else []
        for id in named:
            is_number = isinstance(id, int | str)
            if not is_number or not (any(entry.is_named(id) for entry in prepared) or self._explained_by(id)):
                raise UnknownMeasurement(
                    f"Answer {self.id} has no measurement number {id!r}.",
                    remedy="Leave out the number to read the sharpest measurement that is stored.",
                )
        return named

    def _explained_by(self, id: EntryId) -> bool:
        """Whether the number is that of an explanation of this answer that was paid for by itself."""
        entry = self._dataset.ledger.entry(self._dataset.name, id)
        if entry is None or entry.kind != "explain" or entry.request is None:
            return False
        return self.entry.is_named(entry.request["answer"])

    @checked_arguments
    def prepare(
        self,
        rho: float | None = None,
        *,
        epsilon: float | None = None,
        attributes: Sequence[str] | None = None,
        conjuncts: int | None = None,
        exclude: Sequence[str] = (),
        predicates: Predicates | None = None,
    ) -> Prepared:
        """Prepare the answer once for `rho` (or `epsilon`), so that later explanations of it are free.

        This covers every `why(...).explain()` on this answer by the prepared conditions, for any groups,
        weights, k and confidence.
        """
        choice = FamilyChoice(attributes, conjuncts, exclude, predicates)
        return self.plan_prepare(rho, choice, epsilon).run()

    @checked_arguments
    def preview_prepare(
        self,
        rho: float | None = None,
        *,
        epsilon: float | None = None,
        attributes: Sequence[str] | None = None,
        conjuncts: int | None = None,
        exclude: Sequence[str] = (),
        predicates: Predicates | None = None,
    ) -> PreparationPreview:
        """What `prepare` would cost, and how noisy its cells would be. Spends nothing."""
        choice = FamilyChoice(attributes, conjuncts, exclude, predicates)
        return self.plan_prepare(rho, choice, epsilon).preview()

    def plan_prepare(
        self, rho: float | None, choice: FamilyChoice, epsilon: float | None = None
    ) -> PlannedPreparation:
        """Plan `prepare` without running it, to price it or run it later. Spends nothing."""
        self._check_explainable()

        def plan_at(rho: float) -> PlannedPreparation:
            return plan_prepared(self, rho, choice, self._dataset)

        return planned_at_price(plan_at, rho, epsilon, self._dataset, "prepare", USUAL_PREPARATION)

    def _check_explainable(self) -> None:
        aggregate = self.statement.query.aggregate
        if not aggregate.has_influence:
            raise QuestionError(
                f"{aggregate} cannot be explained: the effect of leaving rows out cannot be computed from "
                "counts and sums.",
                remedy='Compare two groups for free: answer["A"] - answer["B"] has an interval. '
                "For an explanation, ask for COUNT, SUM or AVG.",
            )

    def truth(self) -> Truth:
        """Curator only: the true values beside the released ones."""
        return require_curator(self._dataset).answer_truth(self)

    def _contrast(self, weights: Mapping[object, float], at_least: float) -> Contrast:
        by_group: dict[int, float] = {}
        for name, weight in weights.items():
            index, number = self.groups.find(name), plain_number(weight)
            # Beyond these sizes products of weights, values and noise would leave the range of floats.
            if number is None or not (number == 0 or 1e-9 < abs(number) < 1e9) or index in by_group:
                raise QuestionError(
                    f"The weight of {name!r} must be a single number that is not extremely large or small.",
                    remedy='Write {"A": 1, "B": -1}.',
                )
            if number:
                by_group[index] = number
        constant = plain_number(at_least)
        if not by_group or constant is None:
            raise QuestionError(
                "A question needs at least one group with a weight, and a finite constant.",
                remedy='Write answer.why("A", "B") or answer.why({"A": 1, "B": -10}, at_least=0).',
            )
        return Contrast(tuple(by_group), tuple(by_group.values()), constant)
