"""What results share: rows that were released and charged for, and the way to the truth for the curator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from dpxplain.errors import CuratorOnly
from dpxplain.explanation.choice import FamilyChoice
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
        """What was paid for all of it."""
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
    """True values. Never shown to an analyst; displaying it shows a warning too."""

    title: str
    rows: list[Record]
    shaped_by: tuple[str, ...] = ()

    def records(self) -> list[Record]:
        return self.rows


@runtime_checkable
class TruthTeller(Protocol):
    """A data set that also reveals what is true, here or at a server.

    The parameters are an `Answer`, `Answers`, a `Question` and an `Explanation`, which import this module.
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
        remedy="Analysts work with released values; the curator opens the data with curator=True.",
    )
