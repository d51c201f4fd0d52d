"""What a result knows of the results it came from, so that none imports a module that imports it.

An `Answer` makes a `Question`, which makes an `Explanation`; these protocols are the way back.
"""

from __future__ import annotations

from typing import Protocol

from dpxplain.errors import ExplanationError
from dpxplain.model.charge import EntryId, Spend
from dpxplain.model.contrast import Contrast, Ratio, Verdict
from dpxplain.model.groups import Groups
from dpxplain.model.query import Statement
from dpxplain.model.release import AnswerRelease
from dpxplain.model.schema import Schema
from dpxplain.phases.assess_population import PopulationReading
from dpxplain.phases.assess_question import Assessment
from dpxplain.privacy.intervals import Interval


class RowLike(Protocol):
    """One group's released value."""

    @property
    def estimate(self) -> float: ...


class AnswerLike(Protocol):
    """The `Answer` that a question is about."""

    statement: Statement
    release: AnswerRelease
    id: EntryId
    free: bool
    confidence: float
    groups: Groups

    @property
    def schema(self) -> Schema: ...

    @property
    def sql(self) -> str: ...

    @property
    def rho(self) -> float: ...

    @property
    def private(self) -> bool: ...

    @property
    def spends(self) -> tuple[Spend, ...]: ...

    @property
    def value_name(self) -> str: ...

    @property
    def shaped_by(self) -> tuple[str, ...]: ...

    @property
    def expression(self) -> str: ...

    @property
    def no_influence(self) -> str: ...

    @property
    def not_general(self) -> str: ...

    @property
    def general_basis(self) -> str: ...

    def assess(self, contrast: Contrast, confidence: float, method: str) -> Assessment: ...

    @property
    def reading(self) -> PopulationReading: ...

    def row(self, index: int) -> RowLike: ...

    def unexplained(self) -> ExplanationError: ...


class QualityLike(Protocol):
    """How much of the data the declarations touch, where that was bought."""

    id: EntryId
    confidence: float

    def share(self, column: str, domain: str, category: str) -> Interval:
        """The share of rows in a category of `model.fit.Partition`."""
        ...

    def most_left_out(self, column: str, domain: str) -> float:
        """The most rows that no group of this column has."""
        ...

    @property
    def units_above(self) -> Interval:
        """The share of privacy units with more than max_rows rows."""
        ...

    @property
    def rows_lost(self) -> Interval:
        """The rows that max_rows leaves out; the upper end is infinite where nothing bounds it."""
        ...


class QuestionLike(Protocol):
    """The `Question` that an explanation answers."""

    answer: AnswerLike
    confidence: float
    method: str
    estimate: float
    interval: Interval
    verdict: Verdict
    population: bool
    in_general: Assessment | None

    @property
    def contrast(self) -> Contrast: ...

    @property
    def ratio(self) -> Ratio | None: ...

    @property
    def labels(self) -> list[str]: ...

    @property
    def asked_weights(self) -> list[tuple[int, float]]: ...

    @property
    def text(self) -> str: ...

    @property
    def finding(self) -> str: ...

    @property
    def general_finding(self) -> str: ...

    @property
    def note(self) -> str: ...

    @property
    def prepared(self) -> bool: ...

    @property
    def measured(self) -> str: ...

    @property
    def relative_to(self) -> float | None: ...

    @property
    def shaped_by(self) -> tuple[str, ...]: ...
