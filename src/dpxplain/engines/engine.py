"""The protocol of every engine: one grouped pass over the rows that the declared schema admits.

An engine answers in codes and whole numbers, as a list of cells or as dense arrays. It never raises an error
that depends on a value, and never prints a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # only for annotations; some of these modules import NumPy
    from dpxplain.model.column import ValueCounts
    from dpxplain.model.confidential import Confidential, ContentDigest
    from dpxplain.model.groups import AnyGrouped
    from dpxplain.model.query import Query, Subsets
    from dpxplain.model.schema import Schema
    from dpxplain.model.schema_fit import FitCounts, FitQuestion

Recognised = Callable[[str], bool]
"""Whether files in this state (path, size, times) were read in full before and had the right content."""


class DataSource(Protocol):
    """The source of one open data set."""

    def check_readable(self) -> None:
        """Raises if a first pass could not read the source. Called before anything is charged."""
        ...

    def state(self) -> str | None:
        """Path, size and times of its files; None if a change could go unnoticed, or if it has no files."""
        ...

    def digest(self) -> ContentDigest | None:
        """The digest of the content that was read; None if this changed before it could be digested."""
        ...

    def is_replaced(self, fits: Callable[[ContentDigest], bool]) -> bool:
        """Whether the content changed since it was read; `fits` recognises the digest of what was read."""
        ...

    def present_state(self) -> str | None:
        """The `state` that the source would have if it was opened now."""
        ...


class JoinedEngines(Protocol):
    """Opens engines for private tables that are joined to a data set's own table."""

    def joined(self, schema: Schema, *, rehearsed: bool = False) -> Engine:
        """The engine of the joined rows that the schema declares. May read rows, so call it after the charge.

        A rehearsed engine is for rehearsals only, and reads no row.
        """
        ...

    def close(self) -> None: ...


class Engine(Protocol):
    """One open data set.

    A `rehearsed` pass is the same statement over no rows. The engine prepares it with its present rights, so
    an error that does not depend on the rows occurs there, before anything is charged.

    If the privacy unit has several rows, the engine keeps at most `privacy.max_rows` of each unit when it
    opens, and leaves out rows without a unit, because several of them may belong to one person.
    """

    schema: Schema
    is_live: bool
    """Whether others may change the engine's table, or the rights to it, between two passes."""

    @property
    def source(self) -> DataSource:
        """The source that was read; it can tell whether it has changed."""
        ...

    def check_unchanged(self) -> None:
        """Raises if a live table's columns, or the right to read them, changed since it was opened.

        Reads no row. If this passes, a statement that was rehearsed before can still be prepared.
        """
        ...

    def grouped(self, query: Query, subsets: Subsets, *, rehearsed: bool = False) -> Confidential[AnyGrouped]:
        """Counts and sums by group and by each attribute subset, in one pass; `()` gives the totals."""
        ...

    def fit(self, asked: FitQuestion, *, rehearsed: bool = False) -> Confidential[FitCounts]:
        """Counts the kept rows in each category, and privacy units by their number of rows."""
        ...

    def value_counts(
        self, column: str, longest: int, *, rehearsed: bool = False
    ) -> Confidential[ValueCounts]:
        """How many units have each value of a text column, counting at most max_rows values of each unit.

        Which of a unit's values count depends on that unit's values alone. NULL and values of more than
        `longest` characters are left out.
        """
        ...

    def close(self) -> None: ...
