"""A query that is planned and priced, and not yet paid for."""

from __future__ import annotations

from dpxplain.errors import QueryRefused
from dpxplain.model.charge import Request
from dpxplain.model.groups import Groups
from dpxplain.model.hardening import Frozen
from dpxplain.model.query import Statement
from dpxplain.model.release import AnswerRelease, AnswersRelease, Released
from dpxplain.model.schema import Schema
from dpxplain.phases.answer_query import QueriesPlan, QueryPlan, plan_queries, plan_query
from dpxplain.phases.dataset import OpenDataset
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers
from dpxplain.results.preview import Price, QueriesPreview, QueryPreview
from dpxplain.results.requests import query_request
from dpxplain.sql.source import refuse_where
from dpxplain.words.questions import unselected_note

MOST_COMPUTED = 10_000  # groups: each formula and its interval are computed one by one


class PlannedQuery(Frozen):
    """A query for one or several aggregates; `find` and `run` return the answer, `preview` its price."""

    def __init__(
        self,
        statement: Statement,
        plan: QueryPlan | QueriesPlan,
        request: Request,
        confidence: float,
        dataset: OpenDataset,
        population: bool = False,
    ) -> None:
        self.statement = statement
        self.plan = plan
        self.request = request
        self.confidence = confidence
        self.population = population
        self._dataset = dataset
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
    def key(self) -> str:
        """Identity of the request."""
        return self.plan.key(self._dataset)

    @property
    def schema(self) -> Schema:
        """The schema that the query was planned under, with the columns of joined tables."""
        return self._dataset.schema

    @property
    def groups(self) -> Groups:
        return Groups.of(self.statement.query, self._dataset.schema)

    @property
    def group_count(self) -> int:
        """How many groups are measured, including those that the WHERE excludes."""
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

    def find(self) -> Answer | Answers | None:
        """The stored answer, if the identical query was asked before. Free."""
        if isinstance(self.plan, QueriesPlan):
            several = self._dataset.find(self.plan)
            return None if several is None else self.answer_of(several)
        stored = self._dataset.find(self.plan)
        return None if stored is None else self.answer_of(stored)

    def run(self, dataset: OpenDataset | None = None) -> Answer | Answers:
        """Finds the stored result or measures it, in the planned data set or another caller's view of it."""
        dataset = (dataset or self._dataset).joining(self.schema.joined)
        look = (self.statement.presentation, self.population)
        if isinstance(self.plan, QueriesPlan):
            return dataset.find_or_measure(self.plan, self.request, self.answer_of, look)
        return dataset.find_or_measure(self.plan, self.request, self.answer_of, look)

    def answer_of(self, released: Released[AnswerRelease] | Released[AnswersRelease]) -> Answer | Answers:
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
        stored = self._dataset.ledger.find(self._dataset.name, plan.key(self._dataset)) is not None
        price = Price.of(plan, self._dataset, free=stored)
        size = len(self.groups.remaining)
        parts = [
            QueryPreview.of(plan.expected(query), sql, size, price, self._dataset, self.confidence)
            for query in self.statement.queries
        ]
        if not self.statement.is_table:
            return parts[0]
        named_parts = tuple(zip(self.statement.measured_names, parts, strict=True))
        notes = tuple(map(unselected_note, self.statement.unselected))
        return QueriesPreview(price, sql, size, self.confidence, named_parts, notes)
