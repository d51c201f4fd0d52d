"""Phase 1's result for several aggregates in one SELECT: an ordinary `Answer` for each, side by side."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from dpxplain.errors import QuestionError
from dpxplain.model.charge import Spend
from dpxplain.model.display import Charted, Record
from dpxplain.model.finding import Finding
from dpxplain.model.groups import Groups
from dpxplain.model.hardening import Frozen
from dpxplain.model.query import VARIANCES, Query, Statement
from dpxplain.model.release import AnswerRelease, AnswersRelease, Released
from dpxplain.model.schema import DomainValue, Schema
from dpxplain.phases.answer_query import canonical
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.measure_quality import read_quality
from dpxplain.privacy.intervals import DEFAULT_METHOD
from dpxplain.results.answer import Answer
from dpxplain.results.argument_errors import checked_arguments
from dpxplain.results.base import ReleasedRows, Truth, require_curator
from dpxplain.results.computed_values import arrangement, selection
from dpxplain.results.formula_answer import FormulaAnswer, computed_answer
from dpxplain.results.question import Question
from dpxplain.results.ratio_question import RatioQuestion
from dpxplain.results.released_answer import AnswerRow, plain_value
from dpxplain.words.declarations import shaped_by
from dpxplain.words.questions import unselected_note


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
        every = range(self.groups.size)
        measured = [
            Answer(
                statement.alone(number),
                Released(by_query[query], self.entry, self.free),
                dataset,
                confidence=confidence,
                order=every,
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
        """What HAVING left out, and which measured aggregates are not shown, in sentences."""
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
    ) -> Question:
        """The question of `Answer.why` about one value; `of` names it if there are several. Free."""
        return self._part(of).why(
            group, other, at_least=at_least, confidence=confidence, method=method, population=population
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
    ) -> RatioQuestion:
        """The question of `Answer.why_ratio` about one value; `of` names it if there are several. Free."""
        return self._part(of).why_ratio(
            group, other, at_least=at_least, confidence=confidence, method=method, population=population
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
            for end, bound in zip(("low", "high"), ends, strict=True):
                record[unused(f"{output.name}_{end}", used_names | record.keys())] = bound
            if value.in_general is not None:
                for end, bound in zip(("low", "high"), value.in_general, strict=True):
                    record[unused(f"{output.name}_in_general_{end}", used_names | record.keys())] = bound
        return record


def _moments(query: Query, releases: Mapping[Query, AnswerRelease]) -> AnswerRelease | None:
    """The release of a variance of the same column: it shows how much an average varies between samples."""
    column = query.aggregate.column
    aggregates = (other.aggregate for other in releases if other.aggregate.column == column)
    varied = next((aggregate for aggregate in aggregates if aggregate.kind in VARIANCES), None)
    return None if varied is None else releases[replace(query, aggregate=varied)]


def unused(name: str, names: Collection[str]) -> str:
    """The name for a column that we add, changed if a selected column already has it.

    >>> unused("n_low", {"n"}), unused("n_low", {"n", "n_low"})
    ('n_low', 'n_low_')
    """
    while name in names:
        name += "_"
    return name
