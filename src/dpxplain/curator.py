"""The curator's view: true values beside the released ones. Not private, and marked as such.

Only a data set opened with `curator=True` has this view. An analyst's objects cannot reach it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpxplain.explanation.family import PredicateFamily
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.explanation.influence import group_index, values_without
from dpxplain.model.contrast import Contrast
from dpxplain.model.display import Record
from dpxplain.model.expression import evaluate
from dpxplain.model.groups import BIN, Groups
from dpxplain.model.query import VARIANCES, Aggregate, Histogram, Quantile, Query
from dpxplain.model.release import FloatArray, IntArray
from dpxplain.phases.answer_query import measured_grid
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.explain import true_influences
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers, FormulaAnswer, unused_name
from dpxplain.results.base import Truth, TruthTeller
from dpxplain.results.explanation import Explanation, ExplanationRow
from dpxplain.results.question import Question
from dpxplain.results.released_answer import AskedQuestion


@dataclass(frozen=True)
class TruthColumns:
    """The column names of an answer's truth, by their role."""

    selected: tuple[str, ...]
    low: str
    high: str
    noise_scale: str | None  # None if the answer has several aggregates
    general: tuple[str, str] | None  # None unless intervals for the population were asked for
    true: str
    covered: str

    @classmethod
    def of(cls, record: Record) -> TruthColumns | None:
        """The columns of a row of `answer_truth` or `answers_truth`; None for other truths.

        The columns that we add come last, in a fixed order. They are recognised by position, because a query
        may use any name.
        """
        *released, true, covered = record
        if covered.rstrip("_") != "covered":
            return None
        general = (released.pop(-2), released.pop()) if released[-1].endswith("in_general_high") else None
        noise_scale = released.pop() if released[-1].endswith("noise_scale") else None
        *selected, low, high = released
        return cls(tuple(selected), low, high, noise_scale, general, true, covered)


class CuratorDataset(OpenDataset, TruthTeller):
    """An open data set that also reveals true values."""

    def answer_truth(self, answer: Answer) -> Truth:
        """The true value of every group shown, and whether the released interval covers it."""
        true = self._true_values(answer)
        rows = []
        for released, row in zip(answer.records(), answer.rows, strict=True):
            value = true[answer.groups.find(row.group)]
            own = {"true": value, "covered": _covers(row.interval, value)}
            rows.append(released | {unused_name(key, released): part for key, part in own.items()})
        return Truth("True values beside the released ones", rows, answer.shaped_by)

    def answers_truth(self, answers: Answers) -> Truth:
        """The true values of several aggregates, one line per group and aggregate."""
        true = {answer.value_name: self._true_values(answer) for answer in answers.answers}
        rows = []
        for row in answers:
            groups = answers.group_record(row)
            for name, released in row.values.items():
                value = true[name][answers.groups.find(row.group)]
                own = {
                    "aggregate": name,
                    "value": released.estimate,
                    "low": released.interval[0],
                    "high": released.interval[1],
                    "true": value,
                    "covered": _covers(released.interval, value),
                }
                rows.append(groups | {unused_name(key, groups): part for key, part in own.items()})
        return Truth("True values beside the released ones", rows, answers.shaped_by)

    def _true_values(self, answer: Answer) -> list[float | None]:
        """The true value of every declared group; None for an average over no rows or a division by 0."""
        if not isinstance(answer, FormulaAnswer):
            return self._true_aggregates(answer.statement.query)
        columns = [self._true_aggregates(query) for query in answer.statement.queries]
        return [evaluate(answer.output.value, values) for values in zip(*columns, strict=True)]

    def _true_aggregates(self, query: Query) -> list[float | None]:
        if query.aggregate.kind in VARIANCES:
            return self._true_variances(query)
        if isinstance(query.aggregate, Quantile):
            return self._true_quantiles(query, query.aggregate)
        totals = self.totals(query).reveal()
        if query.aggregate.kind in ("count", "persons"):
            return [float(n) for n in totals.count]
        sums = totals.total * measured_grid(query, self.schema).unit
        return [
            float(s) if query.aggregate.kind == "sum" else (float(s / n) if n else None)
            for s, n in zip(sums, totals.count, strict=True)
        ]

    def _true_quantiles(self, query: Query, quantile: Quantile) -> list[float | None]:
        """The quantile of each group's values on the grid; None without values or numeric bounds."""
        groups, column = Groups.of(query, self.schema), self.schema.column(str(quantile.column))
        if not column.is_summable:
            return [None] * groups.size
        each = replace(query, aggregate=Histogram("quantile", quantile.column, 1))
        grouped = self._open_engine.grouped(each, ((),)).reveal()
        index = group_index(grouped, groups)
        quantiles: list[float | None] = []
        for group in range(groups.size):
            rows = (index == group) & (grouped.codes[BIN] > 0)
            steps = grouped.codes[BIN][rows] - 1 + column.grid.low
            place = _quantile(steps, grouped.count[rows], quantile.level) if len(steps) else None
            quantiles.append(None if place is None else place * column.grid.unit)
        return quantiles

    def _true_variances(self, query: Query) -> list[float | None]:
        """The variance or standard deviation of each group; None for a group with too few rows."""
        kind, column = query.aggregate.kind, query.aggregate.column
        grid = measured_grid(query, self.schema)
        sums = self.totals(replace(query, aggregate=Aggregate("avg", column))).reveal()
        squares = self.totals(replace(query, aggregate=Aggregate("var_pop", column))).reveal()
        values: list[float | None] = []
        for n, total, squared in zip(sums.count, sums.total, squares.total, strict=True):
            rows = int(n) - (1 if kind.endswith("samp") else 0)
            if rows < 1:
                values.append(None)
                continue
            centred = (2 * int(total) - (grid.low + grid.high) * int(n)) * grid.unit / 2
            variance = max(0.0, (int(squared) * grid.square_unit - centred**2 / int(n)) / rows)
            values.append(math.sqrt(variance) if kind.startswith("stddev") else variance)
        return values

    def question_truth(self, question: Question, choice: FamilyChoice) -> Truth:
        """True influence and rank of every condition in the family, the highest influence first."""
        family = self.family(question.answer.statement.query, choice)
        influence, rank = self._influences(question, family)
        order = np.argsort(rank)
        rows = [
            {
                "predicate": str(family.predicate(int(i))),
                "influence": float(influence[i]),
                "rank": int(rank[i]),
            }
            for i in order
        ]
        return Truth(f"True influence of {family.size:,} conditions", rows, question.shaped_by)

    def table_truth(self, table: Explanation) -> Truth:
        """True influence and rank of each condition in the table, and whether the intervals cover them.

        Also the true gap without the condition's rows, if the table estimates that gap.
        """
        influence, rank = self._influences(table.question, table.plan.family)
        without = self._values_without(table) if table.release.gap is not None else None
        rows = [
            released
            | {
                "true_influence": float(influence[row.index]),
                "true_rank": int(rank[row.index]),
                "influence_covered": _covers(row.influence, float(influence[row.index])),
                "rank_covered": _covers(row.rank, int(rank[row.index])),
            }
            | _gap_truth(row, without)
            for released, row in zip(table.records(), table.rows, strict=True)
        ]
        return Truth("True influences and ranks beside the released intervals", rows, table.shaped_by)

    def _values_without(self, table: Explanation) -> list[float | None]:
        """The question's true value without the rows of each condition; None if it is not defined."""
        question = table.question
        if question.ratio is None:
            return self._sums_without(table, question.contrast)
        ratio = question.ratio
        above, below = (
            self._sums_without(table, Contrast(ratio.groups, weights))
            for weights in (ratio.numerator, ratio.denominator)
        )
        return [a / b if a is not None and b else None for a, b in zip(above, below, strict=True)]

    def _sums_without(self, table: Explanation, contrast: Contrast) -> list[float | None]:
        query = table.question.answer.statement.query
        family, kind = table.plan.family, query.aggregate.explained
        data = self.question_cells(query, family, contrast.groups).reveal()
        none = np.zeros((len(contrast.groups), 1), dtype=np.int64)
        whole = replace(data, predicate_count=none, predicate_total=none)
        value = np.full(family.size, values_without(kind, contrast.weights, whole)[0])  # with no row left out
        value[data.active] = values_without(kind, contrast.weights, data)
        unit = 1.0 if kind == "count" else measured_grid(query, self.schema).unit
        return [None if np.isnan(v) else float(v * unit) for v in value]

    def _influences(self, question: AskedQuestion, family: PredicateFamily) -> tuple[FloatArray, IntArray]:
        """True influence and rank of every condition. Ties keep the family's order."""
        query = question.answer.statement.query
        true = true_influences(query, question.contrast, family, self).reveal()
        influence = np.zeros(family.size)
        influence[true.active] = true.influence
        rank = np.empty(family.size, dtype=np.int64)
        rank[np.argsort(-influence, kind="stable")] = np.arange(1, family.size + 1)
        unit = 1.0 if query.aggregate.kind == "count" else measured_grid(query, self.schema).unit
        return influence * unit, rank


def _gap_truth(row: ExplanationRow, without: list[float | None] | None) -> Record:
    if without is None:
        return {}
    covered = None if row.gap_without is None else _covers(row.gap_without, without[row.index])
    return {"true_gap_without": without[row.index], "gap_without_covered": covered}


def _covers(interval: tuple[float, float], value: float | None) -> bool | None:
    return None if value is None else bool(interval[0] <= value <= interval[1])


def _quantile(values: IntArray, counts: IntArray, level: float) -> float:
    """The quantile of `values`, each repeated `counts` times. Uses memory for the distinct values only."""
    order = np.argsort(values)
    last_places = np.cumsum(counts[order]) - 1
    place = level * last_places[-1]
    below, above = values[order][np.searchsorted(last_places, [math.floor(place), math.ceil(place)])]
    return float(below + (above - below) * (place - math.floor(place)))
