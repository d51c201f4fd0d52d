"""Which ledger is used: one rule for the library, every command and the server.

A path is a SQLite file, `postgresql://` a database; everything else that looks like the address of a database
is refused without repeating it, as it may hold a password.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from dpxplain.errors import BadRequest, SchemaError, SourceError
from dpxplain.ledger import (
    ANCHOR_FILE,
    ANCHOR_VARIABLE,
    CONFIGURATION,
    DEFAULT_LEDGER,
    LEDGER_FILE,
    OFF,
    WORKSPACE,
)

LEDGER_VARIABLE = "DPXPLAIN_LEDGER"
WORKSPACE_VARIABLE = "DPXPLAIN_WORKSPACE"

_POSTGRES = re.compile(r"postgres(ql)?(\+psycopg)?://", re.IGNORECASE)
_SCHEMES = ("postgresql", "postgres", "sqlite")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}):/")  # Path("x://y") is x:/y; a drive has one letter
_USER_AT_HOST = re.compile(r"[^/]*:[^/]*@")
_KEYWORDS = re.compile(r"\s*(host|hostaddr|port|dbname|user|password|service)\s*=")


@dataclass(frozen=True)
class LedgerAddress:
    """Where a ledger is, and whether its first use may create it."""

    place: str = field(repr=False)
    """A path or a postgresql:// address, which may hold a password."""
    is_workspace: bool = False
    """Whether it is a workspace's own file, which begins with its first use; others need --create."""
    folder: Path | None = None
    """Of the server's configuration, if there is one."""
    configured_anchor: str | None = None
    """Its `anchor`, as written there."""

    @property
    def anchor(self) -> str | None:
        """The file that remembers the log outside of the ledger, or "off"; None: beside a SQLite ledger."""
        if variable := os.environ.get(ANCHOR_VARIABLE):
            return variable
        if self.folder is None or self.configured_anchor == OFF:
            return self.configured_anchor
        if self.configured_anchor is not None:
            return str(self.folder / self.configured_anchor)
        return str(self.folder / ANCHOR_FILE) if database_address(self.place) is not None else None

    @property
    def anchoring(self) -> dict[str, Any]:
        """The fields that say where the anchor is, for another ledger under the same configuration."""
        return {"folder": self.folder, "configured_anchor": self.configured_anchor}

    @property
    def is_unused(self) -> bool:
        """Whether it is the ledger of a workspace that was never used, so that nothing was spent in it."""
        path = Path(self.place)
        traces = (path, journal_of(path), path.with_suffix(".anchor"))
        return self.is_workspace and not any(trace.exists() for trace in traces)


def find_ledger(
    named: str | None = None,
    *,
    workspace: str | Path | None = None,
    configured: LedgerAddress | None = None,
) -> LedgerAddress:
    """The ledger that is meant.

    The first of these counts: `--ledger`; `--workspace`; DPXPLAIN_LEDGER; that of `serve CONFIG`;
    DPXPLAIN_WORKSPACE; that of a server.toml in the current folder; .dpxplain in the current folder.
    """
    variable, folder = os.environ.get(LEDGER_VARIABLE), os.environ.get(WORKSPACE_VARIABLE)
    if named:
        return _named(named)
    if workspace is not None and str(workspace) not in (WORKSPACE, folder):
        return _in_workspace(workspace)
    if variable:
        beside = configured or _of_configuration(Path(CONFIGURATION))
        return _named(variable) if beside is None else replace(_named(variable), **beside.anchoring)
    if configured is not None:
        return configured
    if folder:
        return _in_workspace(folder)
    return _of_configuration(Path(CONFIGURATION)) or _in_workspace(WORKSPACE)


def configured_ledger(ledger: str, folder: Path, anchor: str | None = None) -> LedgerAddress:
    """The `ledger` of a configuration in `folder`; the default one begins with the first `serve`."""
    if "://" in ledger:
        return LedgerAddress(ledger, folder=folder, configured_anchor=anchor)
    is_default = folder / ledger == folder / DEFAULT_LEDGER
    return LedgerAddress(str(folder / ledger), is_default, folder, anchor)


def refuse_forgotten_ledger(folder: Path) -> None:
    """Refuses to begin a new ledger beside one of an earlier version: budgets would begin anew."""
    if (folder / LEDGER_FILE).exists() and not (folder / DEFAULT_LEDGER).exists():
        raise SchemaError(
            f"There is a {LEDGER_FILE} beside the configuration, where earlier versions kept the ledger; "
            f"now it is {DEFAULT_LEDGER}, as for every command.",
            remedy=f'Write ledger = "{LEDGER_FILE}" under [server] to go on with it, or move it there.',
        )


def database_address(place: str | Path) -> str | None:
    """The postgresql:// address, or None if it is a path. Refuses other schemes, naming the scheme only.

    >>> database_address("postgres://host/budgets"), database_address("budgets.sqlite")
    ('postgresql://host/budgets', None)
    """
    text = str(place).strip()
    if _POSTGRES.match(text):
        return _POSTGRES.sub("postgresql://", text, count=1)
    scheme = _SCHEME.match(text.lstrip("'\""))
    if scheme and len(scheme[1]) > 1:
        raise _unknown_scheme(scheme[1])
    if "://" in text or _USER_AT_HOST.match(text) or _KEYWORDS.match(text):
        raise BadRequest(
            "The ledger's address looks like that of a database, but does not begin with postgresql://.",
            remedy="Write postgresql://user:password@host:5432/database, odd characters as %XX, or the path "
            "of a file.",
        )
    return None


def journal_of(path: Path) -> Path:
    """Where SQLite keeps what is not yet in the file."""
    return path.with_name(f"{path.name}-wal")


def missing_ledger(name: str) -> SourceError:
    """The refusal to begin a ledger that nobody asked for."""
    return SourceError(
        f"{name} does not exist. A new one would begin with nothing spent, so it is not made unasked.",
        remedy=f"Name the one that is meant (--ledger, {LEDGER_VARIABLE}, or ledger under [server]), or "
        "begin it: dpxplain ledger create, or serve --create.",
    )


def _named(place: str) -> LedgerAddress:
    """As named: a path, a database, or a server's configuration, whose ledger is meant then."""
    if database_address(place) is None and place.endswith(".toml"):
        address = _of_configuration(Path(place))
        if address is None:
            raise SchemaError(
                f"{place} is not a server's configuration: it has no [server] with datasets.",
                remedy="Name the ledger itself, or the file that dpxplain serve is started with.",
            )
        return address
    return LedgerAddress(place)


def _in_workspace(folder: str | Path) -> LedgerAddress:
    database = database_address(folder)
    if database is not None:
        raise BadRequest(
            "A workspace is a folder, not a database.", remedy=f"Name the database by {LEDGER_VARIABLE}."
        )
    if Path(folder).is_file():
        raise BadRequest(f"The workspace {str(folder)!r} is a file.", remedy="Name a folder, or a new one.")
    return LedgerAddress(str(Path(folder) / LEDGER_FILE), is_workspace=True)


def _of_configuration(file: Path) -> LedgerAddress | None:
    """The ledger of a server's configuration; None if the file is missing or is none."""
    try:
        raw: Any = tomllib.loads(file.read_text(encoding="utf-8"))
        server = raw["server"]
        server["datasets"]
        ledger, anchor = server.get("ledger"), server.get("anchor")
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    if ledger is None:
        refuse_forgotten_ledger(file.parent)
    return configured_ledger(str(ledger or DEFAULT_LEDGER), file.parent, anchor)


def _unknown_scheme(scheme: str) -> BadRequest:
    near = get_close_matches(scheme.lower(), _SCHEMES, n=1)
    if scheme.lower() in ("postgresql", "postgres"):
        return BadRequest(
            "The ledger's address has one slash after postgresql:, or stands where a folder is expected.",
            remedy=f"Write postgresql://..., as --ledger or {LEDGER_VARIABLE}.",
        )
    if near == ["sqlite"]:
        remedy = "A SQLite ledger is a plain path: leave out sqlite:// and write /folder/ledger.sqlite."
    elif near:
        remedy = "Did you mean postgresql://? It is followed by user:password@host:5432/database."
    else:
        remedy = "Use the path of a file, or postgresql://user:password@host:5432/database."
    return BadRequest(f"{scheme}:// is not an address that a ledger can have.", remedy=remedy)
