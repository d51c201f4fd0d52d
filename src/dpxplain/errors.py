"""Every error DPXPlain raises on purpose.

    DPXPlainError
    ├── BadRequest                 the caller can fix it (CLI exit code 2)
    │   ├── SchemaError            the schema is wrong or contradicts the source
    │   ├── SourceError            the data cannot be opened
    │   │   ├── LedgerUnavailable  the ledger cannot be reached, read or written
    │   │   └── SourceLost         the connection to the data's database broke while it was read
    │   ├── DataChanged            the data differ from those that earlier answers used
    │   ├── LedgerBehind           the ledger looks older than its last known state; the curator must look
    │   ├── QueryRefused           the SQL cannot be answered privately; has a position
    │   ├── QuestionError          the question does not fit the answer
    │   │   └── UnknownMeasurement the answer has no stored measurement with this number
    │   ├── ExplanationError       k, attributes or conditions do not fit the question
    │   ├── CuratorOnly            only the curator may see true values
    │   ├── Denied                 the server did not accept the token, or there is no access to the data set
    │   └── Unavailable            the server is busy or unreachable, or had too many requests; try again
    ├── BudgetExhausted            the remaining budget does not cover the request (exit code 3)
    └── InternalError              a bug in DPXPlain (exit code 1)
        └── ChargeTakenOver        another process took over this charge and will release its result

A message says what is wrong, where, and how to fix it. It never contains a value from the data.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LEDGER_FAILURES = ("unreachable", "busy", "disk", "rights", "gone", "damaged", "clock")

_PACKAGE = str(Path(__file__).parent)


class DPXPlainError(Exception):
    """The root: catch this to catch everything DPXPlain raises on purpose."""

    def __init__(self, problem: str, *, remedy: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem} {remedy}".strip())

    def to_dict(self) -> dict[str, Any]:
        """The error as a dict, in the shape that `--json` and the server show."""
        return {"code": self.code(), "message": self.problem, "remedy": self.remedy, "position": None}

    def pointed_sql(self) -> list[str]:
        """The line of SQL with carets under the words at fault; empty if the error has no position."""
        return []

    @classmethod
    def code(cls) -> str:
        """The error's name for programs.

        >>> BudgetExhausted.code()
        'budget_exhausted'
        """
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


def _ipython_lines(error: DPXPlainError) -> list[str]:
    """The lines that IPython shows instead of a traceback: the sentences, and the caller's own line."""
    own = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_PACKAGE)]
    where = f"(line {own[-1].lineno}: {own[-1].line})" if own and own[-1].line else ""
    lines = [f"{type(error).__name__}: {error.problem}", *error.pointed_sql(), error.remedy, where]
    return [line for line in lines if line]


class BadRequest(DPXPlainError):
    """Something the caller can fix. Nothing was spent, unless the message says that the charge stays."""

    _render_traceback_ = _ipython_lines  # the name that IPython looks for


class SchemaError(BadRequest):
    """The declared schema is malformed or contradicts the source.

    `mistakes` lists every refused key with the reason. `place` is the line and column, counted from 1, where
    the text stops being valid TOML.
    """

    def __init__(
        self,
        problem: str,
        *,
        remedy: str = "",
        mistakes: Sequence[tuple[str, str]] = (),
        place: tuple[int, int] | None = None,
    ) -> None:
        self.mistakes = tuple(mistakes)
        self.place = place
        super().__init__(problem, remedy=remedy)


class SourceError(BadRequest):
    """The data cannot be opened."""


class LedgerUnavailable(SourceError):
    """The ledger cannot be reached, read or written.

    The message names the ledger, for the operator; a server does not pass it on. `kind` is one of
    `LEDGER_FAILURES`.
    """

    def __init__(self, problem: str, *, remedy: str = "", kind: str = "unreachable") -> None:
        assert kind in LEDGER_FAILURES
        self.kind = kind
        super().__init__(problem, remedy=remedy)

    @property
    def may_pass(self) -> bool:
        """Whether waiting may help."""
        return self.kind != "damaged"


class SourceLost(SourceError):
    """The connection to the data's database broke while it was read.

    `is_shut_down` is true if the database gave a reason, such as a shutdown. Otherwise it may have run out
    of memory, which depends on the data.
    """

    def __init__(self, problem: str, *, remedy: str = "", is_shut_down: bool) -> None:
        self.is_shut_down = is_shut_down
        super().__init__(problem, remedy=remedy)


class DataChanged(BadRequest):
    """The data may have changed since this version's earlier answers. Only the curator can fix it."""

    @classmethod
    def of(cls, dataset: str, *, charged: bool = False) -> DataChanged:
        """The same error whatever has changed: details would reveal something about the data."""
        charge = "The charge stays." if charged else "Nothing was charged."
        return cls(
            f"The data of {dataset!r} may have changed since the earlier answers, so new queries are "
            f"blocked. {charge}",
            remedy="Only the curator can fix this: see dpxplain data status, or declare a new version in "
            "the schema's [table].",
        )


class LedgerBehind(BadRequest):
    """The ledger looks older than its last known state, so nothing is charged.

    Only the curator can fix it.
    """

    @classmethod
    def of(cls) -> LedgerBehind:
        """The same error whatever was lost: details would reveal other people's requests."""
        return cls(
            "This ledger looks older than its last known state, so new queries are blocked. Nothing was "
            "charged.",
            remedy="Stored answers stay free. Only the curator can fix this: see dpxplain ledger status.",
        )


class QueryRefused(BadRequest):
    """The SQL cannot be answered privately. `line` and `column` count from 1."""

    def __init__(
        self,
        problem: str,
        *,
        remedy: str = "",
        sql: str = "",
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        self.reason = problem  # without the position, which `problem` has
        self.sql = sql
        self.start = start
        self.end = end
        self.line: int | None = None
        self.column: int | None = None
        if start is not None:
            before = sql[:start]
            self.line = before.count("\n") + 1
            self.column = start - (before.rfind("\n") + 1) + 1
            problem = f"line {self.line}, column {self.column}: {problem}"
        super().__init__(problem, remedy=remedy)

    def pointed_sql(self) -> list[str]:
        if self.start is None or self.line is None or self.column is None:
            return []
        line = "".join(c if c.isprintable() else " " for c in self.sql.split("\n")[self.line - 1])
        carets = "^" * max(1, min((self.end or self.start + 1) - self.start, len(line) - self.column + 1))
        return [f"  {line}", f"  {' ' * (self.column - 1)}{carets}"]

    def to_dict(self) -> dict[str, Any]:
        position = {"line": self.line, "column": self.column, "start": self.start, "end": self.end}
        return super().to_dict() | {"position": position if self.start is not None else None}


class QuestionError(BadRequest):
    """The question does not fit the released answer."""


class UnknownMeasurement(QuestionError):
    """The answer has no stored measurement with this number, or it belongs to somebody else."""


class ExplanationError(BadRequest):
    """The explanation asked for does not fit the question."""


class CuratorOnly(BadRequest):
    """Only the curator may see true values."""


class Denied(BadRequest):
    """The server did not accept the token, or you have no access to this data set."""


class Unavailable(BadRequest):
    """The server cannot answer now: it is busy, had too many requests, or cannot be reached."""


class BudgetExhausted(DPXPlainError):
    """The remaining budget does not cover the request; nothing was spent."""

    _render_traceback_ = _ipython_lines


class InternalError(DPXPlainError):
    """A bug in DPXPlain. Carries no data, so it is safe to report."""


class ChargeTakenOver(InternalError):
    """Another process took over the charge, because this one showed no sign of life for too long."""
