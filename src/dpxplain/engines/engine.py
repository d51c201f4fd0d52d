"""The protocol of every engine: one grouped pass over the rows that the declared schema admits.

An engine answers in codes and whole numbers, cell by cell or densely. It never raises an error that depends
on a value, and never prints one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # some need NumPy, and here all are for annotations only
    from dpxplain.model.confidential import Confidential, ContentDigest
    from dpxplain.model.grouped_pass import AnyGrouped
    from dpxplain.model.query import Query
    from dpxplain.model.schema import Schema
    from dpxplain.model.schema_fit import FitCounts, FitQuestion
    from dpxplain.model.unknown_column import ValueCounts

__all__ = ["Engine", "JoinedEngines", "Recognised", "Source"]

Recognised = Callable[[str], bool]
"""Whether files in this state (path, size, times) were read in full before and had the right content."""


class Source(Protocol):
    """The source of one open data set."""

    def check_readable(self) -> None:
        """Refuses, before anything is charged, a source that a first pass could not read."""
        ...

    def state(self) -> str | None:
        """Path, size and times of its files; None if a change could go unnoticed, or if it has no files."""
        ...

    def digest(self) -> ContentDigest | None:
        """The digest of the content that was read; None if it was changed before it could be computed."""
        ...

    def is_replaced(self, fits: Callable[[ContentDigest], bool]) -> bool:
        """Whether the content has changed since it was read; `fits` recognises what was read by digest."""
        ...

    def present_state(self) -> str | None:
        """What `state` would be if the source was opened now."""
        ...


class JoinedEngines(Protocol):
    """The engines of private tables that are joined to a data set's own."""

    def joined(self, schema: Schema, *, rehearsed: bool = False) -> Engine:
        """The engine of the joined rows that the schema declares. May read them: called after the charge.

        A rehearsed one is for rehearsals only, and reads no row.
        """
        ...

    def close(self) -> None: ...


class Engine(Protocol):
    """One open data set.

    A `rehearsed` pass is the same statement over no rows: the engine prepares it with the rights that it has,
    and what would fail whatever the rows are fails there, before anything is charged.

    If the privacy unit has several rows, the engine keeps at most `privacy.max_rows` of each unit when it
    opens, and leaves out rows without a unit, because several of them may belong to one person.
    """

    schema: Schema
    is_live: bool
    """Whether others may change its table, or the rights to it, between two passes."""

    @property
    def source(self) -> Source:
        """What was read, to tell whether it has changed."""
        ...

    def check_unchanged(self) -> None:
        """Refuses a live table whose columns, or the right to read them, changed since it was opened.

        Reads no row. A statement that was rehearsed before can still be prepared if this passes.
        """
        ...

    def grouped(
        self, query: Query, subsets: tuple[tuple[str, ...], ...], *, rehearsed: bool = False
    ) -> Confidential[AnyGrouped]:
        """Counts and sums by group and by each attribute subset, in one pass; `()` gives the totals."""
        ...

    def fit(self, asked: FitQuestion, *, rehearsed: bool = False) -> Confidential[FitCounts]:
        """Counts the kept rows in each category, and privacy units by their number of rows."""
        ...

    def value_counts(
        self, column: str, longest: int, *, rehearsed: bool = False
    ) -> Confidential[ValueCounts]:
        """How many units have each value of a text column, by at most max_rows values of each unit.

        Which of a unit's values count depends on that unit's values alone. NULL and values of more than
        `longest` characters are left out.
        """
        ...

    def close(self) -> None: ...
