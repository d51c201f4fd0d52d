"""A query that is planned and priced, and not yet paid for."""

from __future__ import annotations

from collections.abc import Hashable

from dpxplain.errors import QueryRefused
from dpxplain.model.charge import Request
from dpxplain.model.groups import Groups
from dpxplain.model.query import Statement
from dpxplain.model.release import AnswerRelease, AnswersRelease, Released
from dpxplain.model.schema import Schema
from dpxplain.phases.answer_query import QueriesPlan, QueryPlan, plan_queries, plan_query
from dpxplain.phases.dataset import OpenDataset
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers
from dpxplain.results.planned import Planned
from dpxplain.results.preview import Price, QueriesPreview, QueryPreview
from dpxplain.results.requests import query_request
from dpxplain.sql.source import refuse_where
from dpxplain.words.questions import unselected_note

MOST_COMPUTED = 10_000  # groups: each formula and its interval are computed one by one


class PlannedQuery(Planned[AnswerRelease | AnswersRelease, Answer | Answers]):
    """A query for one or several aggregates."""

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
            QueryPreview.of(plan.expected(query), sql, size, price, self._dataset, self.confidence)
            for query in self.statement.queries
        ]
        if not self.statement.is_table:
            return parts[0]
        named_parts = tuple(zip(self.statement.measured_names, parts, strict=True))
        notes = tuple(map(unselected_note, self.statement.unselected))
        return QueriesPreview(price, sql, size, self.confidence, named_parts, notes)
