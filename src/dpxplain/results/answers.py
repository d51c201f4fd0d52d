"""Answers to several values in one SELECT: an `Answer` for each aggregate, and values computed from them.

`PlannedQuery` is any query before it is paid for; its price levels say what Rough, Good and Sharp buy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from typing_extensions import TypedDict

from dpxplain.errors import BadRequest, ExplanationError, QueryRefused, QuestionError
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.charge import Budget, EntryId, Request, Spend
from dpxplain.model.column import DomainValue
from dpxplain.model.contrast import Contrast, judge
from dpxplain.model.display import Charted, Finding, Record
from dpxplain.model.expression import aggregates_of, formula_text, quoted_name, renumbered
from dpxplain.model.groups import Groups
from dpxplain.model.hardening import Frozen
from dpxplain.model.query import VARIANCES, Aggregate, Output, Query, Statement
from dpxplain.model.release import AnswerRelease, AnswersRelease, Released
from dpxplain.model.schema import Schema
from dpxplain.phases.answer_query import QueriesPlan, QueryPlan, canonical, plan_queries, plan_query
from dpxplain.phases.assess import Assessment
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.explain_marginals import TYPICAL_ROWS
from dpxplain.phases.measure import read_quality
from dpxplain.privacy.formulas import DEFAULT_FORMULA_METHOD
from dpxplain.privacy.formulas import METHODS as FORMULA_METHODS
from dpxplain.privacy.intervals import DEFAULT_METHOD, METHODS, Interval
from dpxplain.results.answer import Answer
from dpxplain.results.base import (
    PRICE_NAMES,
    USUAL_QUERY,
    Planned,
    ReleasedRows,
    Truth,
    checked_arguments,
    ladder,
    require_curator,
)
from dpxplain.results.combination import FormulaValues, arrangement, finite, rounded, selection
from dpxplain.results.preview import PlannedPreparation, QueriesPreview, QueryPreview
from dpxplain.results.question import Question, RatioQuestion
from dpxplain.results.released_answer import AnswerRow, plain_value, query_request
from dpxplain.sql.parse import parse
from dpxplain.sql.source import refuse_where
from dpxplain.words import numbers
from dpxplain.words.declarations import shaped_by
from dpxplain.words.numbers import PLAIN, Unit
from dpxplain.words.prices import Price
from dpxplain.words.sentences import in_percent, unselected_note

# -- Answers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AnswersRow:
    """One group's released values, by the names of the SELECT list: `row["AVG(pay)"].estimate`."""

    group: tuple[DomainValue, ...]
    label: str
    values: Mapping[str, AnswerRow]

    def __getitem__(self, name: str) -> AnswerRow:
        return self.values[name]


class Answers(Frozen, Charted, ReleasedRows[AnswersRelease | AnswerRelease, AnswersRow]):
    """Noisy answers to several aggregates, paid for with one ρ. Iterating gives one row per group.

    >>> import dpxplain as dpx
    >>> sql = "SELECT sex, COUNT(*) AS n, AVG(high_income) FROM adult GROUP BY sex"
    >>> answers = dpx.example("adult").query(sql, rho=0.1)
    >>> answers.names
    ('n', 'AVG(high_income)')
    >>> [(row.label, round(row["n"].estimate, -3)) for row in answers]
    [('Female', 16000.0), ('Male', 33000.0)]
    >>> answers.why("Male", "Female", of="AVG(high_income)").verdict
    <Verdict.REAL: 'real'>
    """

    def __init__(
        self,
        statement: Statement,
        released: Released[AnswersRelease | AnswerRelease],
        dataset: OpenDataset,
        *,
        confidence: float,
        population: bool = False,
    ) -> None:
        self.statement = statement
        super().__init__(released)
        self.confidence = confidence
        self.population = population
        self._dataset = dataset
        self.groups = Groups.of(statement.query, dataset.schema)
        releases = self.release.answers if isinstance(self.release, AnswersRelease) else (self.release,)
        by_query = dict(zip(canonical(statement.queries), releases, strict=True))
        all_groups = range(self.groups.size)
        measured = [
            Answer(
                statement.alone(number),
                Released(by_query[query], self.entry, self.free),
                dataset,
                confidence=confidence,
                order=all_groups,
                population=population,
                moments=_moments(query, by_query),
            )
            for number, query in enumerate(statement.queries)
        ]
        self.having = selection(statement, measured, confidence)
        order = arrangement(statement, measured, self.having)
        self.measured: tuple[Answer, ...] = tuple(part.arranged(order, self.having) for part in measured)
        self.answers: tuple[Answer, ...] = tuple(
            self.measured[output.aggregate]
            if output.formula is None
            else FormulaAnswer(output, statement, self.measured, order)
            for output in statement.presentation.values
        )
        self.rows = tuple(
            AnswersRow(parts[0].group, parts[0].label, dict(zip(self.names, parts, strict=True)))
            for parts in zip(*self.answers, strict=True)
        )
        self.freeze()

    @property
    def schema(self) -> Schema:
        """The curator's schema, which is public."""
        return self._dataset.schema

    @property
    def sql(self) -> str:
        return self.statement.sql

    @property
    def spends(self) -> tuple[Spend, ...]:
        return self.entry.spends

    @property
    def notes(self) -> list[str]:
        """Sentences about groups that HAVING left out and measured aggregates that are not shown."""
        having = [] if self.having is None else self.having.sentences
        return [*having, *(unselected_note(name) for name in self.statement.unselected)]

    @property
    def names(self) -> tuple[str, ...]:
        """The values' names in the SELECT list."""
        return self.statement.names

    @property
    def finding(self) -> Finding:
        """The first value's finding, supported by the second value's headline."""
        first, *others = (answer.finding for answer in self.answers)
        notes = dict.fromkeys(note for part in (first, *others) for note in part.notes)
        support = others[0].headline if others else first.support
        return Finding(first.headline, support, first.caveat, tuple(notes))

    @property
    def shaped_by(self) -> tuple[str, ...]:
        """The declarations that shaped any of the numbers, as sentences."""
        return shaped_by(self.statement.queries, self.schema, read_quality(self._dataset))

    def __getitem__(self, name: str) -> Answer:
        """One value's answer, by its name in the SELECT list or as SQL writes it.

        Also works for values that are not selected: measured aggregates, and arithmetic between them.
        """
        for called, answers in (
            (self.names, self.answers),
            ([answer.expression for answer in self.answers], self.answers),
            (self.statement.aggregate_names, self.measured),
        ):
            if name in called:
                return answers[list(called).index(name)]
        if (computed := computed_answer(name, self.measured)) is not None:
            return computed
        raise QuestionError(
            f"{name!r} is not an aggregate of this answer.", remedy=f"Choose one of: {', '.join(self.names)}."
        )

    @checked_arguments
    def why(
        self,
        group: object,
        other: object = None,
        *,
        of: str | None = None,
        at_least: float = 0.0,
        confidence: float | None = None,
        method: str = DEFAULT_METHOD,
        population: bool | None = None,
        read_from: EntryId | Sequence[EntryId] | None = None,
    ) -> Question:
        """The question of `Answer.why` about one value; `of` names it if there are several. Free."""
        return self._part(of).why(
            group,
            other,
            at_least=at_least,
            confidence=confidence,
            method=method,
            population=population,
            read_from=read_from,
        )

    @checked_arguments
    def why_ratio(
        self,
        group: object,
        other: object = None,
        *,
        of: str | None = None,
        at_least: float | None = None,
        confidence: float | None = None,
        method: str = DEFAULT_METHOD,
        population: bool | None = None,
        read_from: EntryId | Sequence[EntryId] | None = None,
    ) -> RatioQuestion:
        """The question of `Answer.why_ratio` about one value; `of` names it if there are several. Free."""
        return self._part(of).why_ratio(
            group,
            other,
            at_least=at_least,
            confidence=confidence,
            method=method,
            population=population,
            read_from=read_from,
        )

    def _part(self, of: str | None) -> Answer:
        if of is None and len(self.answers) > 1:
            raise QuestionError(
                "This answer has several aggregates.",
                remedy=f"Choose one, for example of={self.names[0]!r}. The aggregates are: "
                f"{', '.join(self.names)}.",
            )
        return self[self.names[0] if of is None else of]

    def truth(self) -> Truth:
        """Curator only: the true values beside the released ones, one line per group and aggregate."""
        return require_curator(self._dataset).answers_truth(self)

    def records(self) -> list[Record]:
        """Each aggregate has three columns: its value, and its interval as `…_low` and `…_high`."""
        return [self._record(row) for row in self.rows]

    def columns(self) -> list[str]:
        """The column names, even if HAVING keeps no group."""
        values = {name: answer.row(0) for name, answer in zip(self.names, self.answers, strict=True)}
        first = values[self.names[0]]
        return list(self._record(AnswersRow(first.group, first.label, values)))

    def group_record(self, row: AnswersRow | AnswerRow) -> Record:
        """The selected group-by columns of one row."""
        outputs = (o for o in self.statement.presentation.outputs if o.column is not None)
        return {o.name: plain_value(row.group[self.groups.columns.index(o.column)]) for o in outputs}

    def _record(self, row: AnswersRow) -> Record:
        groups, record = self.group_record(row), Record()
        used_names = {*groups, *self.names}
        for output in self.statement.presentation.outputs:
            if output.column is not None:
                record[output.name] = groups[output.name]
                continue
            value = row[output.name]
            record[output.name], *ends = value.known_values
            for suffix, interval in (("", ends), ("_in_general", value.in_general or ())):
                for end, bound in zip(("low", "high"), interval, strict=False):
                    record[unused_name(f"{output.name}{suffix}_{end}", used_names | record.keys())] = bound
        return record


def _moments(query: Query, releases: Mapping[Query, AnswerRelease]) -> AnswerRelease | None:
    """The release of a variance of the same column: it shows how much an average varies between samples."""
    column = query.aggregate.column
    aggregates = (other.aggregate for other in releases if other.aggregate.column == column)
    varied = next((aggregate for aggregate in aggregates if aggregate.kind in VARIANCES), None)
    return None if varied is None else releases[replace(query, aggregate=varied)]


def unused_name(name: str, names: Collection[str]) -> str:
    """The name for a column that we add, changed if a selected column already has it.

    >>> unused_name("n_low", {"n"}), unused_name("n_low", {"n", "n_low"})
    ('n_low', 'n_low_')
    """
    while name in names:
        name += "_"
    return name


# -- Computed values ---------------------------------------------------------------------------------------
#
# A value computed from released aggregates, such as SUM(a) / COUNT(*), cannot be explained. It is
# post-processing: the intervals are those of arithmetic on released values (`results.combination`).

_MOST_COMPARED = 200  # groups


class FormulaAnswer(Answer):
    """One computed value per group; `parts` are the answers that it is computed from."""

    output: Output
    parts: tuple[Answer, ...]
    _values: FormulaValues

    def __init__(
        self, output: Output, statement: Statement, parts: Sequence[Answer], order: Sequence[int]
    ) -> None:
        values = FormulaValues(output.value, parts)
        all_rows = _ComputedRows(values, parts[0], output.digits)
        vars(self).update(
            vars(parts[0]),  # all parts have the same entry, groups, HAVING, confidence and data set
            statement=statement.computing(output),
            output=output,
            parts=tuple(parts),
            rows=tuple(all_rows[group] for group in order),
            _values=values,
            _all_rows=all_rows,
        )

    @property
    def rho(self) -> float:
        return self.entry.rho

    @property
    def spends(self) -> tuple[Spend, ...]:
        return self.entry.spends

    @property
    def queries(self) -> list[Query]:
        return [part.statement.query for part in self._used_parts]

    @property
    def unit(self) -> Unit:
        """No unit, because a formula may multiply and divide units."""
        return PLAIN

    @property
    def is_count(self) -> bool:
        return False

    def _joint_intervals(self, rows: Sequence[AnswerRow]) -> list[Interval]:
        """Intervals that hold together, as in `Answer`; infinite ones for more than `_MOST_COMPARED` rows."""
        if len(rows) > _MOST_COMPARED:
            return [(-math.inf, math.inf)] * len(rows)
        joint = 1.0 - (1.0 - self.confidence) / self.groups.size
        return [self._values.value(row.number).interval_by(DEFAULT_FORMULA_METHOD, joint) for row in rows]

    @property
    def in_percent(self) -> bool:
        """False: a value computed from shares need not be a share."""
        return False

    @property
    def expression(self) -> str:
        return self.statement.text_of(self.output.value)

    @property
    def not_general(self) -> str:
        return (
            f"There is no “in general” interval for {self.expression}, because it is computed from noisy "
            "values."
        )

    @property
    def general_basis(self) -> str:
        return self.not_general

    @property
    def no_influence(self) -> str:
        return f"{self.expression} is computed from noisy values. Only COUNT, SUM and AVG can be explained."

    def assess(self, contrast: Contrast, confidence: float, method: str) -> Assessment:
        if method not in METHODS:
            raise QuestionError(
                f"There is no interval method {method!r}.", remedy=f"Choose one of: {', '.join(METHODS)}."
            )
        terms = [
            weight * self._values.value(group)
            for group, weight in zip(contrast.groups, contrast.weights, strict=True)
        ]
        total = sum(terms[1:], terms[0])
        ends = total.interval_by(method if method in FORMULA_METHODS else DEFAULT_FORMULA_METHOD, confidence)
        return Assessment(finite(total.estimate, ends), ends, judge(ends, contrast.at_least))

    def _check_explainable(self) -> None:
        """Allows every formula: released values can be compared. `unexplained` refuses explanations."""

    def _check_ratio(self) -> None:
        raise QuestionError(
            f"{self.expression} is itself computed from other values. You can ask about ratios of COUNT, SUM "
            "and AVG only.",
            remedy='Divide two values of the answer for free: answer["A"] / answer["B"] has an interval.',
        )

    def plan_prepare(
        self, rho: float | None, choice: FamilyChoice, epsilon: float | None = None
    ) -> PlannedPreparation:
        raise self.unexplained()

    def unexplained(self) -> ExplanationError:
        parts = " or ".join(part.expression for part in self._used_parts if not part.no_influence)
        instead = f"a value that it is computed from: {parts}" if parts else "COUNT, SUM or AVG"
        return ExplanationError(self.no_influence, remedy=f"Ask why about {instead}.")

    @property
    def _used_parts(self) -> list[Answer]:
        return [self.parts[number] for number in sorted(aggregates_of(self.output.value))]


class _ComputedRows(dict[int, AnswerRow]):
    """The rows of a computed value, made when they are needed."""

    def __init__(self, values: FormulaValues, first: Answer, digits: int | None) -> None:
        super().__init__()
        self._values, self._first, self._digits = values, first, digits

    def __missing__(self, group: int) -> AnswerRow:
        estimate, ends = self._values.estimated(group)
        if self._digits is not None:
            estimate, ends = rounded(estimate, ends, self._digits)
        like = self._first.row(group)
        row = AnswerRow(
            like.group,
            like.label,
            estimate,
            ends,
            math.nan,
            is_unknown=math.isinf(ends[0]) and math.isinf(ends[1]),
            number=group,
            _values=self._values,
        )
        self[group] = row
        return row


def computed_answer(text: str, measured: Sequence[Answer]) -> FormulaAnswer | None:
    """The answer for SQL arithmetic over measured aggregates; None if the text is anything else."""
    first = measured[0]
    table = quoted_name(first.schema.table.name)
    try:
        statement = parse(f"SELECT {text}\n FROM {table}", first.schema)
    except QueryRefused:
        return None
    available = [part.statement.query.aggregate for part in measured]
    values = statement.presentation.values
    is_value = len(values) == len(statement.presentation.outputs) == 1 and statement.query.where is None
    aggregates = [query.aggregate for query in statement.queries]
    if not is_value or any(aggregate not in available for aggregate in aggregates):
        return None
    formula = renumbered(values[0].value, [available.index(aggregate) for aggregate in aggregates])
    whole = replace(first.statement, more=tuple(available[1:]))
    output = Output(formula_text(formula, list(map(str, available))), None, -1, formula, values[0].digits)
    order = [first.groups.find(row.group) for row in first.rows]
    return FormulaAnswer(output, whole, measured, order)


# -- Planned query -----------------------------------------------------------------------------------------

MOST_COMPUTED = 10_000  # groups: each formula and its interval are computed one by one


class PlannedQuery(Planned[AnswerRelease | AnswersRelease, Answer | Answers]):
    """A query for one or several aggregates, planned and priced, and not yet paid for."""

    plan: QueryPlan | QueriesPlan

    def __init__(
        self,
        statement: Statement,
        plan: QueryPlan | QueriesPlan,
        request: Request,
        confidence: float,
        dataset: OpenDataset,
        population: bool = False,
    ) -> None:
        super().__init__(plan, request, dataset)
        self.statement = statement
        self.confidence = confidence
        self.population = population
        self.freeze()

    @classmethod
    def of(
        cls,
        statement: Statement,
        rho: float,
        confidence: float,
        dataset: OpenDataset,
        population: bool = False,
    ) -> PlannedQuery:
        plan = (
            plan_queries(statement.queries, dataset.schema, rho)
            if statement.more
            else plan_query(statement.query, dataset.schema, rho)
        )
        planned = cls(statement, plan, query_request(statement.sql, rho), confidence, dataset, population)
        if planned.group_count > MOST_COMPUTED and statement.is_computed:
            raise QueryRefused(
                f"HAVING and arithmetic work for at most {MOST_COMPUTED:,} groups. This query has "
                f"{planned.group_count:,}.",
                remedy="Group by fewer columns. Or ask for the aggregates alone, and compute with the "
                "answer's rows.",
            )
        return planned

    @property
    def schema(self) -> Schema:
        """The schema that the query was planned under, with the columns of joined tables."""
        return self._dataset.schema

    @property
    def groups(self) -> Groups:
        return Groups.of(self.statement.query, self._dataset.schema)

    @property
    def group_count(self) -> int:
        """The number of groups that are measured, including groups that the WHERE excludes."""
        return self.groups.size

    def check_shown(self) -> PlannedQuery:
        """Returns the query itself; raises if the WHERE excludes every group, so the answer has no rows."""
        groups = self.groups
        if not groups.remaining:
            columns = ", ".join(groups.columns)
            raise refuse_where(
                self.statement.sql,
                f"The WHERE condition excludes every listed group of {columns}, so the answer would have no "
                "rows.",
                "Change the condition, or group by another column.",
            )
        return self

    @property
    def look(self) -> Hashable:
        return self.statement.presentation, self.population

    def show(self, released: Released[AnswerRelease | AnswersRelease]) -> Answer | Answers:
        """The release as the statement shows it."""
        if self.statement.is_table:
            return Answers(
                self.statement,
                released,
                self._dataset,
                confidence=self.confidence,
                population=self.population,
            )
        assert isinstance(released.value, AnswerRelease)
        single = Released(released.value, released.entry, released.free)
        return Answer(
            self.statement, single, self._dataset, confidence=self.confidence, population=self.population
        )

    def preview(self) -> QueryPreview | QueriesPreview:
        plan, sql = self.plan, self.statement.sql
        price = Price.of(plan, self._dataset, free=self.is_stored)
        size = len(self.groups.remaining)
        parts = [
            QueryPreview.of(
                plan.measurement.expected_noise(query), sql, size, price, self._dataset, self.confidence
            )
            for query in self.statement.queries
        ]
        if not self.statement.is_table:
            return parts[0]
        named_parts = tuple(zip(self.statement.measured_names, parts, strict=True))
        notes = tuple(map(unselected_note, self.statement.unselected))
        return QueriesPreview(price, sql, size, self.confidence, named_parts, notes)


# -- Price levels ------------------------------------------------------------------------------------------
#
# The precision is in the query's own unit, and follows from declarations alone.

_IN_A_GROUP = f" in a group of {TYPICAL_ROWS:,}"


class PriceLevel(TypedDict):
    """A price to compare. `margin` says how far off its figures may be, in their unit; empty if unknown."""

    rho: float
    free: bool
    affordable: bool
    margin: str


def query_levels(plan: Callable[[float], PlannedQuery], prices: Sequence[float]) -> list[PriceLevel]:
    """The margin that each price buys for a query."""
    planned = [plan(rho) for rho in prices]
    previews = [(query, query.preview()) for query in planned]
    return [level_of(preview.price, query_margin(query, preview)) for query, preview in previews]


def level_of(price: Price, margin: str) -> PriceLevel:
    return PriceLevel(rho=price.rho, free=price.free, affordable=price.affordable, margin=margin)


def missing_price(plan: Callable[[float], PlannedQuery], budget: Budget) -> BadRequest:
    """The error for a query without a price, which says what Rough, Good and Sharp would buy."""
    prices = ladder(USUAL_QUERY, budget.limit)
    levels = [_choice(level, budget) for level in query_levels(plan, prices)]
    levels[1:] = [text.replace(_IN_A_GROUP, "") for text in levels[1:]]  # the same as in the first
    choices = " ".join(f"{name}: {text}." for name, text in zip(PRICE_NAMES, levels, strict=True))
    good = prices[1]
    return BadRequest(
        f"How precise should it be? {choices}",
        remedy=f"Ask again with a price, such as rho={good:g} (on the command line --rho {good:g}). "
        "Nothing was spent.",
    )


def _choice(level: PriceLevel, budget: Budget) -> str:
    if level["free"]:
        price = "free, because it was asked before"
    elif level["affordable"]:
        price = numbers.rho(level["rho"])
    else:
        return f"{numbers.rho(level['rho'])}, more than the {numbers.rho(budget.remaining)} left"
    return f"{price}, {level['margin']}" if level["margin"] else price


def query_margin(planned: PlannedQuery, preview: QueryPreview | QueriesPreview) -> str:
    """The margins of a group's values, in their own units; '' if they depend on more than the noise."""
    parts = [part for _, part in preview.parts] if isinstance(preview, QueriesPreview) else [preview]
    schema = planned.schema
    texts = []
    for query, part in zip(planned.statement.queries, parts, strict=True):
        margin, where = typical_margin(part)
        if margin is not None and math.isfinite(margin):
            texts.append(f"±{in_unit(margin, query.aggregate, schema)}{where}")
    return ", ".join(dict.fromkeys(texts))


def in_unit(margin: float, aggregate: Aggregate, schema: Schema) -> str:
    """A margin with the unit of the aggregate.

    >>> people = Schema.load({"table": {"name": "p"}, "privacy": {"rho": 1}, "columns": {
    ...     "rich": {"bounds": [0, 1], "step": 1, "label": "high income"},
    ...     "pay": {"bounds": [0, 9], "unit": "dollars"}}})
    >>> in_unit(0.0123, Aggregate("avg", "rich"), people), in_unit(3.1, Aggregate("avg", "pay"), people)
    ('1.23 percentage points', '3.1 dollars')
    >>> in_unit(12.3, Aggregate("count", None), people)
    '13 rows'
    """
    if aggregate.kind == "count":
        return f"{math.ceil(margin):,} rows"
    if aggregate.kind == "persons":
        return f"{math.ceil(margin):,} {numbers.clean(schema.privacy.unit)}s"
    if in_percent(aggregate, schema):
        return f"{numbers.number(margin * 100)} percentage points"
    unit = schema.column(aggregate.column).unit if aggregate.column else ""
    squared = " squared" if unit and aggregate.kind.startswith("var") else ""
    return f"{numbers.number(margin)}{f' {numbers.clean(unit)}{squared}' if unit else ''}"


def typical_margin(preview: QueryPreview) -> tuple[float | None, str]:
    """The margin for any group, or for a group of typical size, and words that say which of the two."""
    if preview.margin is not None:
        return preview.margin, ""
    by_size = dict(preview.margin_by_group_size)
    return by_size.get(TYPICAL_ROWS), _IN_A_GROUP
