"""Phase 1's result as an analyst holds it: noisy values with intervals, and the way to ask why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Protocol

from dpxplain.errors import ExplanationError, QuestionError
from dpxplain.explanation.family_choice import FamilyChoice, Predicates
from dpxplain.model.charge import Spend
from dpxplain.model.contrast import Contrast
from dpxplain.model.display import Charted, Record
from dpxplain.model.groups import Groups
from dpxplain.model.hardening import Frozen
from dpxplain.model.output_formula import rounded
from dpxplain.model.query import Query, Statement
from dpxplain.model.release import AnswerRelease, Released
from dpxplain.model.schema import DomainValue, Schema, label
from dpxplain.phases.assess_population import PopulationReading
from dpxplain.phases.assess_question import Assessment, assess, group_estimates
from dpxplain.phases.dataset import OpenDataset
from dpxplain.privacy.intervals import DEFAULT_METHOD, Interval, check_asked_confidence
from dpxplain.results.argument_errors import checked_arguments
from dpxplain.results.base import ReleasedRows, Truth, require_curator
from dpxplain.results.combination import Arithmetic, Combination, ReleasedValues
from dpxplain.results.computed_values import Having, arrangement, selection
from dpxplain.results.prepared import PlannedPreparation, PreparationPreview, Prepared, plan_prepared
from dpxplain.results.quality import bought_quality
from dpxplain.results.question import Question
from dpxplain.results.ratio_question import RatioQuestion, ratio_of
from dpxplain.results.sentences import shaped_by, subject
from dpxplain.results.titles import aggregate_words, in_percent, is_share


class RowValues(Protocol):
    """Makes a group's value to compute with."""

    def value(self, group: int, label: str) -> Combination: ...


@dataclass(frozen=True)
class AnswerRow(Arithmetic):
    """One group's released value. Computes: `answer["A"] / answer["B"] - 1` has an interval too, for free."""

    group: tuple[DomainValue, ...]
    label: str
    estimate: float
    interval: Interval
    scale: float  # standard deviation of the privacy noise, to first order for averages; NaN if computed
    in_general: Interval | None = field(default=None, kw_only=True)  # of the population, where that is asked
    _index: int = field(kw_only=True, repr=False, compare=False)
    _values: RowValues = field(kw_only=True, repr=False, compare=False)

    @property
    def number(self) -> int:
        """Its place among the declared groups."""
        return self._index

    @property
    def released(self) -> Combination:
        """The value to compute with; made when it is needed, as most rows are only looked at."""
        return self._values.value(self._index, self.label)


class Answer(Frozen, Charted, ReleasedRows[AnswerRelease, AnswerRow]):
    """A noisy answer for every declared group.

    >>> import dpxplain as dpx
    >>> answer = dpx.example("adult").query("SELECT sex, COUNT(*) FROM adult GROUP BY sex", rho=0.1)
    >>> [row.label for row in answer]
    ['Female', 'Male']
    >>> abs(answer["Female"].estimate - 16_192) < 50
    True
    """

    def __init__(
        self,
        statement: Statement,
        released: Released[AnswerRelease],
        dataset: OpenDataset,
        *,
        confidence: float,
        order: Sequence[int] | None = None,
        population: bool = False,
        moments: AnswerRelease | None = None,
    ) -> None:
        """`order` lists the groups to show; without it the statement's HAVING, ORDER BY and LIMIT decide.

        `population` adds intervals for the population; `moments` is the release of a variance of the column.
        """
        self.statement = statement
        super().__init__(released)
        self.confidence = check_asked_confidence(confidence)
        self._dataset = dataset
        self.groups = Groups.of(statement.query, dataset.schema)
        self.population = population
        self._reading = PopulationReading(self.release, statement.query, dataset.schema, moments)
        self._every: Sequence[AnswerRow] | Mapping[int, AnswerRow] = self._rows()
        self.having = selection(statement, [self], confidence) if order is None else None
        order = arrangement(statement, [self], self.having) if order is None else order
        self.rows = tuple(self._every[group] for group in order)
        self.freeze()

    @property
    def schema(self) -> Schema:
        """What the curator declared; public."""
        return self._dataset.schema

    @property
    def sql(self) -> str:
        return self.statement.sql

    @property
    def spends(self) -> tuple[Spend, ...]:
        """What was charged, as the ledger keeps it; the own share where aggregates were measured apart."""
        own = tuple(spend for spend in self.entry.spends if spend.of == str(self.statement.query.aggregate))
        return self.entry.spends if self.release.shares_noise or not own else own

    @property
    def value_name(self) -> str:
        """The name of the aggregate's column in the SELECT list."""
        return next(o.name for o in self.statement.presentation.outputs if o.column is None)

    @property
    def value_heading(self) -> str:
        """The aggregate's column as tables and charts call it: with the label of what it measures."""
        aggregate = self.statement.query.aggregate
        name = aggregate.column or ""
        column = self.schema.columns.get(name)
        if column is None or self.value_name != str(aggregate):  # nothing declared, or named by the query
            return self.value_name
        if is_share(aggregate, self.schema):
            return aggregate_words(aggregate, self.schema)
        return self.value_name.replace(f"({name}", f"({column.heading(name)}", 1)

    @property
    def shaped_by(self) -> tuple[str, ...]:
        """The declarations that shaped the numbers, as sentences: what was clamped, and which rows count."""
        return shaped_by(self.queries, self.schema, bought_quality(self._dataset))

    @property
    def queries(self) -> list[Query]:
        """The aggregates that its values are, or are computed from."""
        return [self.statement.query]

    @property
    def subject(self) -> str:
        """What its values are, where their name alone would promise too much: "clamped averages"."""
        return subject(self.statement.query, self.schema)

    @property
    def in_percent(self) -> bool:
        """Whether its values are shares, which people read in percent."""
        return in_percent(self.statement.query.aggregate, self.schema)

    @property
    def expression(self) -> str:
        """The value as SQL writes it, whatever its name."""
        return str(self.statement.query.aggregate)

    @property
    def no_influence(self) -> str:
        """Why the value cannot be explained, in a sentence; empty where it can."""
        return ""

    @property
    def not_general(self) -> str:
        """Why nothing is said of the population, in a sentence; empty where something can be."""
        return self._reading.refusal

    @property
    def general_basis(self) -> str:
        """How far the value is taken to vary from draw to draw, in a sentence."""
        return self._reading.refusal or self._reading.basis

    @property
    def reading(self) -> PopulationReading:
        """The released values, read as a sample of a population."""
        return self._reading

    @property
    def notes(self) -> list[str]:
        """What HAVING left out, in sentences."""
        return [] if self.having is None else self.having.sentences

    def __getitem__(self, group: object) -> AnswerRow:
        """A group's value, by name; also of a group that HAVING or LIMIT does not show."""
        return self._every[self.groups.find(group)]

    def row(self, index: int) -> AnswerRow:
        """A group's value, by its number among the declared groups."""
        return self._every[index]

    def arranged(self, order: Sequence[int], having: Having | None) -> Answer:
        """This answer with these groups shown, in this order."""
        other = copy(self)
        object.__setattr__(other, "having", having)
        object.__setattr__(other, "rows", tuple(self._every[group] for group in order))
        return other

    def assess(self, contrast: Contrast, confidence: float, method: str) -> Assessment:
        """What the released values say about a question. Free."""
        return assess(self.release, self.statement.query, self._dataset.schema, contrast, confidence, method)

    def unexplained(self) -> ExplanationError:
        """The refusal of an explanation, where `no_influence` says why."""
        return ExplanationError(self.no_influence, remedy="Ask about COUNT, SUM or AVG.")

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
    ) -> Question:
        """Why is `group` above `other`? Or, with a dict of weights, why is their sum at least so much?

        A group is named as it is printed, "Male, White" for two columns, or by its values: ("Male", "White").
        Free: works on what was released already. `population` adds a verdict on what holds in general, by
        default where the answer was asked with it.
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
        return Question(
            self._contrast(weights, at_least),
            self,
            self._dataset,
            confidence=self.confidence if confidence is None else confidence,
            method=method,
            population=self.population if population is None else population,
        )

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
    ) -> RatioQuestion:
        """Why is `group` so high as a multiple of `other`? Without `other`: as a share of the total?

        The verdict is whether the ratio is above `at_least`: by default 1, and an even share of the total.
        Free: works on what was released already.
        """
        self._check_ratio()
        return RatioQuestion(
            ratio_of(self, group, other, at_least),
            self,
            self._dataset,
            confidence=self.confidence if confidence is None else confidence,
            method=method,
            population=self.population if population is None else population,
        )

    def _check_ratio(self) -> None:
        self._check_explainable()

    @checked_arguments
    def prepare(
        self,
        rho: float,
        *,
        attributes: Sequence[str] | None = None,
        conjuncts: int | None = None,
        exclude: Sequence[str] = (),
        predicates: Predicates | None = None,
    ) -> Prepared:
        """Prepare once, ask freely: spend `rho` now, and every later `why(...).explain()` on this answer,
        for any groups, weights, k and confidence, costs nothing.
        """
        choice = FamilyChoice(attributes, conjuncts, exclude, predicates)
        return self.plan_prepare(rho, choice).run()

    @checked_arguments
    def preview_prepare(
        self,
        rho: float,
        *,
        attributes: Sequence[str] | None = None,
        conjuncts: int | None = None,
        exclude: Sequence[str] = (),
        predicates: Predicates | None = None,
    ) -> PreparationPreview:
        """What `prepare` would cost, and how noisy its cells would be. Spends nothing."""
        choice = FamilyChoice(attributes, conjuncts, exclude, predicates)
        return self.plan_prepare(rho, choice).preview()

    def plan_prepare(self, rho: float, choice: FamilyChoice) -> PlannedPreparation:
        """What `prepare` will do, to be priced and carried out later. Spends nothing."""
        self._check_explainable()
        return plan_prepared(self, rho, choice, self._dataset)

    def _check_explainable(self) -> None:
        aggregate = self.statement.query.aggregate
        if not aggregate.has_influence:
            raise QuestionError(
                f"{aggregate} is answered, but has no influence to explain: removing rows moves it in a way "
                "that counts and sums of the rows do not tell.",
                remedy='Compare released values, which is free: answer["A"] - answer["B"] has an interval. '
                "To ask why, ask for COUNT, SUM or AVG.",
            )

    def truth(self) -> Truth:
        """Curator only: the true values beside the released ones."""
        return require_curator(self._dataset).answer_truth(self)

    def records(self) -> list[Record]:
        return [self._record(row) for row in self.rows]

    def columns(self) -> list[str]:
        """Also where HAVING keeps no group."""
        return list(self._record(self.row(0)))

    def _record(self, row: AnswerRow) -> Record:
        group = dict(zip(self.groups.columns, row.group, strict=True))
        record = {
            output.name: row.estimate if output.column is None else plain_value(group[output.column])
            for output in self.statement.presentation.outputs
        }
        own = {"low": row.interval[0], "high": row.interval[1], "noise_scale": row.scale}
        for name, value in (own | _general_record(row)).items():
            while name in record:  # an alias of the query
                name = f"interval_{name}"
            record[name] = value
        return record

    def _contrast(self, weights: Mapping[object, float], at_least: float) -> Contrast:
        by_group: dict[int, float] = {}
        for name, weight in weights.items():
            index = self.groups.find(name)
            # Beyond these sizes products of weights, values and noise would leave the range of floats.
            if not _is_number(weight) or not (weight == 0 or 1e-9 < abs(weight) < 1e9) or index in by_group:
                raise QuestionError(
                    f"The weight of {name!r} must be one number of a usual size.",
                    remedy='Write {"A": 1, "B": -1}.',
                )
            if weight:
                by_group[index] = float(weight)
        if not by_group or not _is_number(at_least) or not abs(at_least) < float("inf"):
            raise QuestionError(
                "A question needs at least one group with a weight, and a finite constant.",
                remedy='Write answer.why("A", "B") or answer.why({"A": 1, "B": -10}, at_least=0).',
            )
        return Contrast(tuple(by_group), tuple(by_group.values()), float(at_least))

    def _rows(self) -> tuple[AnswerRow, ...]:
        """Every declared group, shown or not."""
        query, schema = self.statement.query, self._dataset.schema
        estimates = group_estimates(self.release, query, schema, self.confidence)
        digits = next(output.digits for output in self.statement.presentation.values)
        if digits is not None:
            estimates = [(*rounded(value, ends, digits), scale) for value, ends, scale in estimates]
        values = ReleasedValues(self.entry, self.release, query, schema, self.confidence)
        general: list[Interval | None] = [None] * len(estimates)
        if self.population and not self.not_general:
            general = [*self._reading.intervals(self.confidence)]
            if digits is not None:
                general = [rounded(0.0, ends, digits)[1] for ends in general if ends is not None]
        named = zip(self.groups.keys, self.groups.labels, estimates, general, strict=True)
        return tuple(
            AnswerRow(key, text, *estimated, in_general=ends, _index=index, _values=values)
            for index, (key, text, estimated, ends) in enumerate(named)
        )


def _general_record(row: AnswerRow) -> Record:
    if row.in_general is None:
        return {}
    return {"in_general_low": row.in_general[0], "in_general_high": row.in_general[1]}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def plain_value(value: DomainValue) -> str | int | bool | None:
    """A declared value as exports hold it: bins by their label, NULL as NULL."""
    return value if isinstance(value, str | int | bool | None) else label(value)
