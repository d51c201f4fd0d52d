"""What results share: released rows, the curator's access to true values, and protocols of other results.

An `Answer` makes a `Question`, which makes an `Explanation`. The protocols let a question refer to its
answer, and an explanation to its question, without an import cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from dpxplain.errors import CuratorOnly, ExplanationError
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.charge import EntryId, Spend
from dpxplain.model.contrast import Contrast, Ratio, Verdict
from dpxplain.model.display import Displayed, Record, Tabular
from dpxplain.model.finding import Finding
from dpxplain.model.groups import Groups
from dpxplain.model.query import Query, Statement
from dpxplain.model.release import AnswerRelease, R, Released
from dpxplain.model.schema import Schema

if TYPE_CHECKING:
    from dpxplain.phases.assess_population import PopulationReading
    from dpxplain.phases.assess_question import Assessment
    from dpxplain.privacy.intervals import Interval
    from dpxplain.words.declarations import Counting
    from dpxplain.words.findings import Comparison
    from dpxplain.words.numbers import Unit

Row = TypeVar("Row")


class ReleasedRows(Tabular, Generic[R, Row]):
    """A table of released rows, and its line in the history."""

    rows: tuple[Row, ...]

    def __init__(self, released: Released[R]) -> None:
        self.release: R = released.value
        self.entry = released.entry  # its line in the history
        self.id = released.entry.id
        self.free = released.free

    @property
    def rho(self) -> float:
        """The ρ paid for the whole result."""
        return self.release.rho

    @property
    def private(self) -> bool:
        """False only for experiments with a seeded source of noise."""
        return self.release.private

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Truth(Displayed, Tabular):
    """True values. Never shown to an analyst. Displaying them also shows a warning."""

    title: str
    rows: list[Record]
    shaped_by: tuple[str, ...] = ()

    @property
    def private(self) -> bool:
        return False

    def records(self) -> list[Record]:
        return self.rows


@runtime_checkable
class TruthTeller(Protocol):
    """A data set that also reveals true values, here or at a server.

    The parameters are an `Answer`, `Answers`, a `Question` and an `Explanation`. Their types are not named,
    because their modules import this one.
    """

    def answer_truth(self, answer: Any) -> Truth: ...

    def answers_truth(self, answers: Any) -> Truth: ...

    def question_truth(self, question: Any, choice: FamilyChoice) -> Truth: ...

    def table_truth(self, table: Any) -> Truth: ...


def require_curator(dataset: object) -> TruthTeller:
    """The data set, if it is a curator's; raises CuratorOnly otherwise."""
    if isinstance(dataset, TruthTeller):
        return dataset
    raise CuratorOnly(
        "True values are for the curator only.",
        remedy="Analysts work with noisy values; the curator opens the data with curator=True.",
    )


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
    def queries(self) -> list[Query]: ...

    @property
    def value_words(self) -> str: ...

    @property
    def measure(self) -> str: ...

    @property
    def counting(self) -> Counting: ...

    @property
    def unit(self) -> Unit: ...

    @property
    def in_percent(self) -> bool: ...

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

    def sharpened_by(self, better: Assessment | None, preparation: EntryId) -> QuestionLike: ...

    @property
    def sharpened(self) -> str: ...

    @property
    def contrast(self) -> Contrast: ...

    @property
    def unit(self) -> Unit: ...

    @property
    def ratio(self) -> Ratio | None: ...

    @property
    def labels(self) -> list[str]: ...

    @property
    def asked_weights(self) -> list[tuple[int, float]]: ...

    @property
    def text(self) -> str: ...

    @property
    def finding(self) -> Finding: ...

    @property
    def comparison(self) -> Comparison: ...

    @property
    def title(self) -> str: ...

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
