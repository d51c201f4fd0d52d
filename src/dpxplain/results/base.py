"""What results share: released rows, and the curator's access to true values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dpxplain.errors import CuratorOnly
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.display import Displayed, Record, Tabular
from dpxplain.model.release import R, Released

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


class TruthTeller(ABC):
    """The base of a curator's data sets, which also reveal true values, here or at a server.

    The parameters are an `Answer`, `Answers`, a `Question` and an `Explanation`. Their types are not named,
    because their modules import this one.
    """

    @abstractmethod
    def answer_truth(self, answer: Any) -> Truth: ...

    @abstractmethod
    def answers_truth(self, answers: Any) -> Truth: ...

    @abstractmethod
    def question_truth(self, question: Any, choice: FamilyChoice) -> Truth: ...

    @abstractmethod
    def table_truth(self, table: Any) -> Truth: ...


def require_curator(dataset: object) -> TruthTeller:
    """The data set, if it is a curator's; raises CuratorOnly otherwise."""
    if isinstance(dataset, TruthTeller):
        return dataset
    raise CuratorOnly(
        "True values are for the curator only.",
        remedy="Analysts work with noisy values; the curator opens the data with curator=True.",
    )
