"""Every error DPXPlain raises on purpose.

    DPXPlainError
    ├── BadRequest                 the caller can mend it (CLI exit code 2)
    │   ├── SchemaError            the declared schema is wrong or contradicts the source
    │   ├── SourceError            the data cannot be opened
    │   │   ├── LedgerUnavailable  the ledger cannot be reached, read or written
    │   │   └── SourceLost         the database of the data broke off while it was read
    │   ├── DataChanged            the data are not those that were answered from before
    │   ├── LedgerBehind           the ledger may not know all that was spent; only the curator can go on
    │   ├── QueryRefused           the SQL is not one we answer; carries its position
    │   ├── QuestionError          the question does not fit the answer
    │   ├── ExplanationError       k, attributes or predicates do not fit the question
    │   ├── CuratorOnly            a true value was asked for without being the curator
    │   ├── Denied                 a server does not know the token, or has nothing of that name for it
    │   └── Unavailable            a server is busy, too often asked, or gone; ask again later
    ├── BudgetExhausted            the data set's budget does not cover the request (exit code 3)
    └── InternalError              a bug in DPXPlain (exit code 1)
        └── ChargeTakenOver        another process measures under this charge; its release is waited for

A message says what is wrong, where, and how to mend it. It never carries a value of the data.
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
        """One shape for every error, as shown by `--json` and by the server."""
        return {"code": self.code(), "message": self.problem, "remedy": self.remedy, "position": None}

    def pointed_sql(self) -> list[str]:
        """Lines that point at the offending words, if the error has a place."""
        return []

    @classmethod
    def code(cls) -> str:
        """What programs go by.

        >>> BudgetExhausted.code()
        'budget_exhausted'
        """
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


def _sentences(error: DPXPlainError) -> list[str]:
    """What IPython shows of a refusal instead of a traceback: the sentences, and the caller's own line."""
    own = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_PACKAGE)]
    where = f"(line {own[-1].lineno}: {own[-1].line})" if own and own[-1].line else ""
    lines = [f"{type(error).__name__}: {error.problem}", *error.pointed_sql(), error.remedy, where]
    return [line for line in lines if line]


class BadRequest(DPXPlainError):
    """Something the caller can mend; nothing was spent."""

    _render_traceback_ = _sentences  # the name that IPython looks for


class SchemaError(BadRequest):
    """The declared schema is malformed or contradicts the source.

    `mistakes` has every refused key with what is wrong; `place` is the line and column, counted from 1, where
    a text stops being TOML.
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

    The sentence names the ledger, for whoever keeps it; a server tells its callers neither. `kind` is one of
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
    """The database of the data broke off while it was read.

    `is_shut_down` says that the database gave a reason of its own. Without one, its session may have been
    ended because it ran out of memory, which the data may decide.
    """

    def __init__(self, problem: str, *, remedy: str = "", is_shut_down: bool) -> None:
        self.is_shut_down = is_shut_down
        super().__init__(problem, remedy=remedy)


class DataChanged(BadRequest):
    """The data are not those that this version's answers were given on; only the curator can go on."""

    @classmethod
    def of(cls, dataset: str, *, charged: bool = False) -> DataChanged:
        """The same error whatever has changed: more would tell about the data."""
        charge = "The charge stays." if charged else "Nothing was charged."
        return cls(
            f"The data of {dataset!r} may not be those of the answers so far, so nothing is answered until "
            f"the curator has looked. {charge}",
            remedy="Only the curator can go on: see dpxplain data status, or declare a new version in the "
            "schema's [table].",
        )


class LedgerBehind(BadRequest):
    """The ledger may not know all that was spent, so nothing is charged; only the curator can go on."""

    @classmethod
    def of(cls) -> LedgerBehind:
        """The same error whatever was lost: more would tell about other people's requests."""
        return cls(
            "The ledger may not know everything that was spent, so nothing new is measured until the curator "
            "has looked. Nothing was charged.",
            remedy="Stored answers stay free. Only the curator can go on: see dpxplain ledger status.",
        )


class QueryRefused(BadRequest):
    """The SQL is outside what can be answered privately. `line` and `column` count from 1."""

    def __init__(
        self,
        problem: str,
        *,
        remedy: str = "",
        sql: str = "",
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        self.what = problem  # without the position
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


class ExplanationError(BadRequest):
    """The explanation asked for does not fit the question."""


class CuratorOnly(BadRequest):
    """A true value was asked for by someone who is not the curator."""


class Denied(BadRequest):
    """A server does not accept the token, or has nothing of that name for its holder."""


class Unavailable(BadRequest):
    """A server cannot answer now: it is busy, was asked too often, or cannot be reached."""


class BudgetExhausted(DPXPlainError):
    """The remaining budget does not cover the request; nothing was spent."""

    _render_traceback_ = _sentences


class InternalError(DPXPlainError):
    """A bug in DPXPlain. Carries no data, so it is safe to report."""


class ChargeTakenOver(InternalError):
    """Another process took over the charge of this one, which had been silent for too long."""
