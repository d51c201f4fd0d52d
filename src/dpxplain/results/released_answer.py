"""The released values of phase 1, with intervals and in words. `Answer` adds what can be asked about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Protocol, Self

from dpxplain.errors import ExplanationError
from dpxplain.model.charge import Spend
from dpxplain.model.column import DomainValue, label
from dpxplain.model.contrast import Contrast
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
from dpxplain.privacy.intervals import Interval, check_asked_confidence
from dpxplain.results.base import ReleasedRows
from dpxplain.results.combination import (
    Arithmetic,
    Combination,
    Having,
    ReleasedValues,
    arrangement,
    rounded,
    selection,
)
from dpxplain.words.declarations import Counting
from dpxplain.words.findings import THESE_DATA, AnsweredGroup, answer_finding
from dpxplain.words.numbers import PERCENT, PLAIN, POINTS, Figures, Unit, level
from dpxplain.words.sentences import (
    EACH_INTERVAL,
    GENERAL_USE,
    aggregate_words,
    capped,
    group_name,
    in_percent,
    is_share,
    value_words,
)


class RowValues(Protocol):
    """Makes the `Combination` for a group's value."""

    def value(self, group: int, label: str) -> Combination: ...


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
    _index: int = field(kw_only=True, repr=False, compare=False)
    _values: RowValues = field(kw_only=True, repr=False, compare=False)

    @property
    def number(self) -> int:
        """The group's position among the declared groups."""
        return self._index

    @property
    def known_values(self) -> tuple[float | None, float | None, float | None]:
        """The estimate and the ends of its interval, for exports; all None if nothing is known."""
        return (None, None, None) if self.is_unknown else (self.estimate, *self.interval)

    @property
    def released(self) -> Combination:
        """The value as a `Combination`. Made on demand, because most rows are only looked at."""
        return self._values.value(self._index, self.label)


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
        self._every: Sequence[AnswerRow] | Mapping[int, AnswerRow] = self._rows()
        self.having = selection(statement, [self], confidence) if order is None else None
        order = arrangement(statement, [self], self.having) if order is None else order
        self.rows = tuple(self._every[group] for group in order)
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
        """What was charged, as in the ledger; only this aggregate's share if each was measured separately."""
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
        """How the values were counted, with the data quality if somebody has bought it."""
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
        unit = self.unit
        if self.is_count or self.in_percent:
            return figures.value(row.estimate)
        return unit.about(row.estimate, row.interval[1] - row.interval[0])

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
        """What HAVING left out, in sentences."""
        return [] if self.having is None else self.having.sentences

    def __getitem__(self, group: object) -> AnswerRow:
        """A group's value, by name. Also works for groups that HAVING or LIMIT does not show."""
        return self._every[self.groups.find(group)]

    def row(self, index: int) -> AnswerRow:
        """A group's value, by its number among the declared groups."""
        return self._every[index]

    def arranged(self, order: Sequence[int], having: Having | None) -> Self:
        """This answer with these groups shown, in this order."""
        other = copy(self)
        object.__setattr__(other, "having", having)
        object.__setattr__(other, "rows", tuple(self._every[group] for group in order))
        return other

    def assess(self, contrast: Contrast, confidence: float, method: str) -> Assessment:
        """What the released values say about a question. Free."""
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
        for name, value in (own | _general_record(row)).items():
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
                is_unknown=self._says_nothing(estimated[1]),
                _index=index,
                _values=values,
            )
            for index, (key, text, estimated, ends) in enumerate(named)
        )

    def _says_nothing(self, interval: Interval) -> bool:
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


def _general_record(row: AnswerRow) -> Record:
    if row.in_general is None:
        return {}
    return {"in_general_low": row.in_general[0], "in_general_high": row.in_general[1]}


def plain_value(value: DomainValue) -> str | int | bool | None:
    """A declared value for exports: bins and dates as text, NULL as None."""
    return value if isinstance(value, str | int | bool | None) else label(value)
