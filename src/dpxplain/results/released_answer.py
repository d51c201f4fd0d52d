"""The free part of an answer and of a question: released values, what they say about the groups compared, and
the requests that ask the same again. `Answer` and `Question` add what can be bought.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Self

from dpxplain.errors import ExplanationError
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.charge import Entry, EntryId, Request, Spend
from dpxplain.model.column import DomainValue, label
from dpxplain.model.contrast import Contrast, Ratio, Verdict
from dpxplain.model.display import Charted, Finding, Record
from dpxplain.model.groups import Groups
from dpxplain.model.hardening import Frozen
from dpxplain.model.process import cached_property
from dpxplain.model.query import Query, Statement
from dpxplain.model.release import AnswerRelease, Released
from dpxplain.model.schema import Schema
from dpxplain.phases.answer_query import measured_grid
from dpxplain.phases.assess import Assessment, PopulationReading, assess, group_estimates
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.measure import read_quality
from dpxplain.phases.plan import ExplanationPlan
from dpxplain.phases.prepare import Preparations
from dpxplain.privacy.intervals import DEFAULT_METHOD, Interval, check_asked_confidence
from dpxplain.results.base import ReleasedRows
from dpxplain.results.combination import (
    Arithmetic,
    Combination,
    FormulaValues,
    Having,
    ReleasedValues,
    arrangement,
    rounded,
    selection,
)
from dpxplain.words.declarations import Counting
from dpxplain.words.findings import (
    THESE_DATA,
    AnsweredGroup,
    AskedComparison,
    answer_finding,
    comparison_finding,
)
from dpxplain.words.numbers import PERCENT, PLAIN, POINTS, Figures, Unit, level
from dpxplain.words.sentences import (
    EACH_INTERVAL,
    GENERAL_USE,
    SINGLE_INTERVAL,
    aggregate_words,
    capped,
    finding_in_general,
    group_name,
    in_percent,
    is_share,
    measured,
    question_text,
    question_title,
    value_words,
)

# -- Released values ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AnswerRow(Arithmetic):
    """One group's released value. Arithmetic is free: `answer["A"] / answer["B"] - 1` has an interval too."""

    group: tuple[DomainValue, ...]
    label: str
    estimate: float
    interval: Interval
    scale: float  # standard deviation of the privacy noise, to first order for averages; NaN if computed
    in_general: Interval | None = field(default=None, kw_only=True)  # for the population, if that was asked
    is_unknown: bool = field(default=False, kw_only=True)  # e.g. the average of a group that may be empty
    number: int = field(kw_only=True, repr=False, compare=False)  # its position among the declared groups
    _values: ReleasedValues | FormulaValues = field(kw_only=True, repr=False, compare=False)

    @property
    def known_values(self) -> tuple[float | None, float | None, float | None]:
        """The estimate and the ends of its interval, for exports; all None if nothing is known."""
        return (None, None, None) if self.is_unknown else (self.estimate, *self.interval)

    @property
    def released(self) -> Combination:
        """The value as a `Combination`. Made on demand, because most rows are only looked at."""
        return self._values.value(self.number, self.label)


class ReleasedAnswer(Frozen, Charted, ReleasedRows[AnswerRelease, AnswerRow]):
    """Released values of one aggregate, as questions, preparations and charts read them."""

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
        self._all_rows: Sequence[AnswerRow] | Mapping[int, AnswerRow] = self._rows()
        self.having = selection(statement, [self], confidence) if order is None else None
        order = arrangement(statement, [self], self.having) if order is None else order
        self.rows = tuple(self._all_rows[group] for group in order)
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
        """The charges as in the ledger; only this aggregate's share if each was measured separately."""
        own = tuple(spend for spend in self.entry.spends if spend.of == str(self.statement.query.aggregate))
        return self.entry.spends if self.release.shares_noise or not own else own

    @property
    def value_name(self) -> str:
        """The name of the aggregate's column in the SELECT list."""
        return next(o.name for o in self.statement.presentation.outputs if o.column is None)

    @property
    def value_heading(self) -> str:
        """The heading of the aggregate's column in tables and charts, with the measured column's label."""
        aggregate = self.statement.query.aggregate
        name = aggregate.column or ""
        column = self.schema.columns.get(name)
        if column is None or self.value_name != str(aggregate):  # nothing declared, or named by the query
            return self.value_name
        if is_share(aggregate, self.schema) or column.label:
            return aggregate_words(aggregate, self.schema)
        return f"{self.value_name}{capped(aggregate, self.schema)}"

    @property
    def shaped_by(self) -> tuple[str, ...]:
        """The declarations that shaped the numbers, as sentences: what was capped, and which rows count."""
        return self.counting.sentences

    @property
    def queries(self) -> list[Query]:
        """The queries that measured the values, or the aggregates they are computed from."""
        return [self.statement.query]

    @property
    def value_words(self) -> str:
        """The name of the values in a sentence: "Average income, capped at 200,000"."""
        return value_words(self.statement.presentation.values[0], self.statement, self.schema)

    @property
    def counting(self) -> Counting:
        """The declarations behind the values, with the data quality if somebody has bought it."""
        return Counting.of(self.queries, self.schema, read_quality(self._dataset))

    @property
    def unit(self) -> Unit:
        """The unit of the values in a sentence."""
        aggregate = self.statement.query.aggregate
        if self.in_percent:
            return PERCENT
        if aggregate.column is None or aggregate.kind not in ("sum", "avg", "quantile"):
            return PLAIN
        return Unit.declared(self.schema.column(aggregate.column).unit)

    @property
    def measure(self) -> str:
        """`value_words` without the unit, for sentences whose numbers have it: "Average claim"."""
        column = self.schema.columns.get(self.statement.query.aggregate.column or "")
        unit = "" if column is None else column.unit
        return self.value_words.replace(f" ({unit})", "") if unit else self.value_words

    @property
    def finding(self) -> Finding:
        """Which groups are highest and lowest, as far as their intervals show; with notes."""
        counting = self.counting
        return answer_finding(
            self.measure,
            self._answered_groups(),
            unknown=sum(row.is_unknown for row in self.rows),
            hides_groups=len(self.rows) < len(self.groups.remaining),
            unit=POINTS if self.in_percent else self.unit,
            caveat=counting.caveat or THESE_DATA.format(level=level(self.confidence)),
            notes=(
                EACH_INTERVAL.format(level(self.confidence)),
                *counting.sentences,
                *((self.general_basis, GENERAL_USE) if self.population else ()),
            ),
        )

    def _answered_groups(self) -> list[AnsweredGroup]:
        """The groups shown whose value is known, with intervals that hold for all of them together."""
        known = [row for row in self.rows if not row.is_unknown]
        figures = Figures.of(
            [row.interval for row in known], whole=self.is_count, percent=self.in_percent
        ) or Figures(0, self.in_percent)
        return [
            AnsweredGroup(
                group_name(self.groups, row.number, self.schema),
                row.estimate,
                interval,
                self._value_text(row, figures),
                margin=(row.interval[1] - row.interval[0]) / 2,
            )
            for row, interval in zip(known, self._joint_intervals(known), strict=True)
        ]

    def _value_text(self, row: AnswerRow, figures: Figures) -> str:
        if self.is_count or self.in_percent:
            return figures.value(row.estimate)
        return self.unit.about(row.estimate, row.interval[1] - row.interval[0])

    def _joint_intervals(self, rows: Sequence[AnswerRow]) -> list[Interval]:
        """The rows' intervals, widened so that the intervals of all groups hold together (union bound).

        All groups count, not only those shown, because HAVING and LIMIT choose by the same noise.
        """
        if self.groups.size < 2:
            return [row.interval for row in rows]
        joint = 1.0 - (1.0 - self.confidence) / self.groups.size
        every = group_estimates(self.release, self.statement.query, self.schema, joint)
        return [every[row.number][1] for row in rows]

    @property
    def is_count(self) -> bool:
        """Whether the values are counts of rows or privacy units."""
        return self.statement.query.aggregate.kind in ("count", "persons")

    @property
    def in_percent(self) -> bool:
        """Whether the values are shares, which people read in percent."""
        return in_percent(self.statement.query.aggregate, self.schema)

    @property
    def expression(self) -> str:
        """The value as SQL, whatever its name in the SELECT list."""
        return str(self.statement.query.aggregate)

    @property
    def no_influence(self) -> str:
        """Why the value cannot be explained, in a sentence; empty if it can."""
        return ""

    @property
    def not_general(self) -> str:
        """Why there is no interval for the population, in a sentence; empty if there can be one."""
        return self._reading.refusal

    @property
    def general_basis(self) -> str:
        """The assumption about how much the value varies from sample to sample, in a sentence."""
        return self._reading.refusal or self._reading.basis

    @property
    def reading(self) -> PopulationReading:
        """The released values, read as a sample of a population."""
        return self._reading

    @property
    def notes(self) -> list[str]:
        """Sentences about the groups that HAVING left out."""
        return [] if self.having is None else self.having.sentences

    def __getitem__(self, group: object) -> AnswerRow:
        """A group's value, by name. Also works for groups that HAVING or LIMIT does not show."""
        return self._all_rows[self.groups.find(group)]

    def row(self, index: int) -> AnswerRow:
        """A group's value, by its number among the declared groups."""
        return self._all_rows[index]

    def arranged(self, order: Sequence[int], having: Having | None) -> Self:
        """This answer with these groups shown, in this order."""
        other = copy(self)
        object.__setattr__(other, "having", having)
        object.__setattr__(other, "rows", tuple(self._all_rows[group] for group in order))
        return other

    def assess(self, contrast: Contrast, confidence: float, method: str) -> Assessment:
        """The estimate, interval and verdict of a question, from the released values. Free."""
        return assess(self.release, self.statement.query, self._dataset.schema, contrast, confidence, method)

    def unexplained(self) -> ExplanationError:
        """The error to raise if `no_influence` says why the value cannot be explained."""
        return ExplanationError(self.no_influence, remedy="Ask about COUNT, SUM or AVG.")

    def records(self) -> list[Record]:
        return [self._record(row) for row in self.rows]

    def columns(self) -> list[str]:
        """The column names, even if HAVING keeps no group."""
        return list(self._record(self.row(0)))

    def _record(self, row: AnswerRow) -> Record:
        group = dict(zip(self.groups.columns, row.group, strict=True))
        estimate, low, high = row.known_values
        record = {
            output.name: estimate if output.column is None else plain_value(group[output.column])
            for output in self.statement.presentation.outputs
        }
        own = {"low": low, "high": high, "noise_scale": row.scale}
        if row.in_general is not None:
            own |= dict(zip(("in_general_low", "in_general_high"), row.in_general, strict=True))
        for name, value in own.items():
            while name in record:  # the query uses the name as an alias
                name = f"interval_{name}"
            record[name] = value
        return record

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
            AnswerRow(
                key,
                text,
                *estimated,
                in_general=ends,
                is_unknown=self._is_unknown(estimated[1]),
                number=index,
                _values=values,
            )
            for index, (key, text, estimated, ends) in enumerate(named)
        )

    def _is_unknown(self, interval: Interval) -> bool:
        """Whether an average's interval is everything the bounds allow: the group may have no rows."""
        aggregate = self.statement.query.aggregate
        if aggregate.kind != "avg":
            return False
        low, high = self._limits
        return interval[0] <= low and interval[1] >= high

    @cached_property
    def _limits(self) -> Interval:
        """The least and the largest average that the declarations allow."""
        grid = measured_grid(self.statement.query, self.schema)
        return grid.low * grid.unit, grid.high * grid.unit


def plain_value(value: DomainValue) -> str | int | bool | None:
    """A declared value for exports: bins and dates as text, NULL as None."""
    return value if isinstance(value, str | int | bool | None) else label(value)


# -- Questions about the values ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Earlier:
    """A question's estimate and interval before a preparation made them more precise."""

    estimate: float
    interval: Interval
    preparation: Entry


class AskedQuestion(ABC, Frozen, Charted):
    """A question about weighted groups of an answer: estimate, interval and verdict, also in words."""

    contrast: Contrast
    """The weighted groups. Sensitivities follow from it."""
    ratio: Ratio | None = None
    """The groups that are divided, if the question is about a ratio or share."""
    earlier: Earlier | None = None
    read_from: tuple[EntryId, ...] | None
    """The stored releases that may be read besides the answer; None reads the sharpest."""

    def __init__(
        self,
        contrast: Contrast,
        answer: ReleasedAnswer,
        dataset: OpenDataset,
        *,
        confidence: float,
        method: str = DEFAULT_METHOD,
        population: bool = False,
        read_from: tuple[EntryId, ...] | None = None,
    ) -> None:
        assessment = answer.assess(contrast, check_asked_confidence(confidence), method)
        self.contrast = contrast
        self.answer = answer
        self.confidence = confidence
        self.method = method
        self.estimate: float = assessment.estimate
        self.interval: Interval = assessment.interval
        self.verdict: Verdict = assessment.verdict
        self.population = population
        self.read_from = read_from
        self.in_general: Assessment | None = None
        if population and not answer.not_general:
            self.in_general = answer.reading.assess(contrast, confidence)
        self._dataset = dataset
        self.freeze()

    def sharpened_by(self, better: Assessment | None, preparation: Entry) -> Self:
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
        preparation = f"the preparation (no. {self.earlier.preparation.id})"
        return f"The {self.measured} was {was} ({ends}) before {preparation} made it more precise."

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
        """Whether the question is about the value of one group, not about a weighted sum."""
        return self.ratio is None and self.contrast.weights == (1.0,)

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
        """The verdict for the population, in plain words; empty if nobody asked about it."""
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
    def releases(self) -> tuple[EntryId, ...]:
        """What its number was read off besides the answer: `read_from` of the same question for ever."""
        return () if self.earlier is None else (self.earlier.preparation.address,)

    @property
    @abstractmethod
    def sharper(self) -> bool:
        """Whether `read_from` leaves out a more precise preparation of the default conditions."""

    @property
    @abstractmethod
    def preparations(self) -> Preparations:
        """The stored preparations of its answer that may be read."""

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
    return list(map(plain_value, group))


def _about(answer: ReleasedAnswer) -> Body:
    return {"answer": answer.id, "of": answer.expression}
