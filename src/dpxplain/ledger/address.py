"""Finds the ledger to use, by one rule for the library, every command and the server.

A path means a SQLite file, `postgresql://` a database. Any other text that looks like a database address or a
password raises an error, which does not repeat the text.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

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
_OTHER_SCHEMES = (
    *("psql", "pgsql", "mysql", "mariadb", "mssql", "oracle", "duckdb", "jdbc"),
    *("file", "http", "https"),
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30})(:/|:|//)")  # Path("x://y") is x:/y
_PASSWORD = re.compile(r"(password|passwd|pwd)\s*=", re.IGNORECASE)
_KEYWORDS = re.compile(r"\s*(host|hostaddr|port|dbname|user|password|service)\s*=")


@dataclass(frozen=True)
class LedgerAddress:
    """Where a ledger is, and whether its first use may create it."""

    place: str = field(repr=False)
    """A path or a postgresql:// address, which may hold a password."""
    is_workspace: bool = False
    """Whether this is a workspace's own file, which is created on first use. Other ledgers need --create."""
    folder: Path | None = None
    """The folder of the server's configuration, if there is one."""
    configured_anchor: str | None = None
    """The configuration's `anchor`, as written there."""

    @property
    def anchor(self) -> str | None:
        """The anchor file, or "off"; None means that it is beside a SQLite ledger."""
        if variable := os.environ.get(ANCHOR_VARIABLE):
            return variable
        if self.folder is None or self.configured_anchor == OFF:
            return self.configured_anchor
        if self.configured_anchor is not None:
            return str(self.folder / self.configured_anchor)
        return str(self.folder / ANCHOR_FILE) if database_address(self.place) is not None else None

    @property
    def is_unused(self) -> bool:
        """Whether it is the ledger of a workspace that was never used, so that nothing was spent in it."""
        if not self.is_workspace:
            return False
        from dpxplain.ledger.anchor_guard import anchor_path

        path = Path(self.place)
        traces = (path, journal_of(path), anchor_path(path, self.anchor))
        return not any(trace.exists() for trace in traces if trace is not None)


def find_ledger(
    named: str | None = None,
    *,
    workspace: str | Path | None = None,
    configured: LedgerAddress | None = None,
) -> LedgerAddress:
    """The address of the ledger to use.

    Returns the first of these that is given: `--ledger`; `--workspace`; DPXPLAIN_LEDGER; the ledger of
    `serve CONFIG`; DPXPLAIN_WORKSPACE; the ledger of a server.toml in the current folder; .dpxplain in the
    current folder. A ledger that belongs to that server always uses the server's anchor.
    """
    if named:
        return _with_servers_anchor(_named(named), configured)
    if workspace is not None:
        return _with_servers_anchor(_in_workspace(workspace), configured)
    if variable := os.environ.get(LEDGER_VARIABLE):
        return _with_servers_anchor(_named(variable), configured)
    if configured is not None:
        return configured
    if folder := os.environ.get(WORKSPACE_VARIABLE):
        return _with_servers_anchor(_in_workspace(folder), None)
    return _of_configuration(Path(CONFIGURATION)) or _in_workspace(WORKSPACE)


def workspace_folder(workspace: str | Path | None = None) -> Path:
    """Where last.json and encoded tables are: the folder named, else DPXPLAIN_WORKSPACE, else .dpxplain."""
    return Path(os.environ.get(WORKSPACE_VARIABLE) or WORKSPACE if workspace is None else workspace)


def configured_ledger(ledger: str, folder: Path, anchor: str | None = None) -> LedgerAddress:
    """The `ledger` of a configuration in `folder`. The first `serve` creates the default ledger."""
    check_configured(ledger)
    if database_address(ledger) is not None:
        return LedgerAddress(ledger, folder=folder, configured_anchor=anchor)
    is_default = folder / ledger == folder / DEFAULT_LEDGER
    return LedgerAddress(str(folder / ledger), is_default, folder, anchor)


def check_configured(ledger: str) -> None:
    """Raises if the `ledger` of a configuration is not a valid address, or holds a password."""
    if database_address(ledger) is not None and _holds_password(_POSTGRES.sub("", ledger.strip(), count=1)):
        raise SchemaError(
            "The configuration file must not contain the ledger's password.",
            remedy=f"Remove the address from the file, and set {LEDGER_VARIABLE} in the environment.",
        )


def database_address(place: str | Path) -> str | None:
    """The postgresql:// address, or None if it is a path. Raises for other schemes, naming only the scheme.

    >>> database_address("postgres://host/budgets"), database_address("budgets.sqlite")
    ('postgresql://host/budgets', None)
    """
    text = str(place).strip()
    if _POSTGRES.match(text):
        _, _, beyond_host = re.sub(r"[/?#]", " ", _POSTGRES.sub("", text, count=1)).partition(" ")
        if text.count("@") > 1 or "@" in beyond_host:  # the driver would take half a password for the host
            raise _unreadable_address()
        return _POSTGRES.sub("postgresql://", text, count=1)
    scheme = _SCHEME.match(text.lstrip("'\" "))
    if scheme and _is_scheme(*scheme.groups()):
        raise _unknown_scheme(scheme[1])
    if "://" in text or _KEYWORDS.match(text) or _holds_password(_without_known_folders(text)):
        raise _unreadable_address()
    return None


def journal_of(path: Path) -> Path:
    """The path of SQLite's journal, which holds changes that are not yet in the file."""
    return path.with_name(f"{path.name}-wal")


def missing_ledger(name: str) -> SourceError:
    """The error for a ledger that does not exist."""
    return SourceError(
        f"{name} does not exist. A new ledger starts with nothing spent, so DPXPlain creates one only when "
        "you ask for it.",
        remedy=f"Name the right ledger (--ledger, {LEDGER_VARIABLE}, or ledger under [server]), or create a "
        "new one: dpxplain ledger create, or serve --create.",
    )


def _named(place: str) -> LedgerAddress:
    """The named ledger: a path, a database, or the ledger of a server's configuration."""
    if database_address(place) is None and place.endswith(".toml"):
        address = _of_configuration(Path(place))
        if address is None:
            raise SchemaError(
                f"{place} is not a server's configuration: it has no [server] with datasets.",
                remedy="Name the ledger itself, or the configuration file that you start dpxplain serve "
                "with.",
            )
        return address
    return LedgerAddress(place)


def _with_servers_anchor(address: LedgerAddress, configured: LedgerAddress | None) -> LedgerAddress:
    """The address, with the anchor of the server that is configured here if it is that server's ledger."""
    if address.folder is not None:
        return address
    try:
        server = configured or _of_configuration(Path(CONFIGURATION))
        variable = os.environ.get(LEDGER_VARIABLE)
        served = _named(variable) if variable else server
    except BadRequest:  # the server's ledger cannot be found, so it is not the named one
        return address
    if server is None or served is None or _identity(served.place) != _identity(address.place):
        return address
    return replace(address, folder=server.folder, configured_anchor=server.configured_anchor)


def _identity(place: str) -> object:
    """A key that is equal for two addresses of the same ledger, whatever their user, password or options."""
    database = database_address(place)
    if database is None:
        return Path(place).resolve()
    try:
        parts = urlsplit(database)
        options = dict(parse_qsl(parts.query))
        host = options.get("host") or unquote(parts.hostname or "")
        port = options.get("port") or str(parts.port or 5432)
    except ValueError:  # several hosts
        return database
    return host, port, options.get("dbname") or unquote(parts.path.strip("/"))


def _in_workspace(folder: str | Path) -> LedgerAddress:
    database = database_address(folder)
    if database is not None:
        raise BadRequest(
            "A workspace is a folder, not a database.",
            remedy=f"Set {LEDGER_VARIABLE} to the address of the database.",
        )
    if Path(folder).is_file():
        raise BadRequest(
            f"The workspace {str(folder)!r} is a file.", remedy="Name an existing or a new folder."
        )
    return LedgerAddress(str(Path(folder) / LEDGER_FILE), is_workspace=True)


def _of_configuration(file: Path) -> LedgerAddress | None:
    """The ledger of a server's configuration; None if the file is missing or not a configuration."""
    try:
        raw: Any = tomllib.loads(file.read_text(encoding="utf-8"))
        server = raw["server"]
        server["datasets"]
        ledger, anchor = server.get("ledger"), server.get("anchor")
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return configured_ledger(str(ledger or DEFAULT_LEDGER), file.parent, anchor)


def _is_scheme(name: str, separator: str) -> bool:
    """Whether a text begins with a scheme; a folder's name may have a colon, and a drive has one letter."""
    if separator == ":/":
        return len(name) > 1
    is_nearly_ours = bool(get_close_matches(name.lower(), _SCHEMES, n=1, cutoff=0.8))
    return is_nearly_ours or name.lower() in _OTHER_SCHEMES


def _holds_password(text: str) -> bool:
    """Whether a text may hold a password, as in user:password@host or password=..., also encoded as %XX."""
    decoded = unquote(text)
    return 0 <= decoded.find(":") < decoded.rfind("@") or _PASSWORD.search(decoded) is not None


def _without_known_folders(text: str) -> str:
    """An absolute path without its existing folders, which cannot be part of an address; else the text."""
    path = Path(text)
    if not path.is_absolute() or text.startswith("//"):
        return text
    # Not Path.is_dir, which may raise an error that quotes the path.
    existing = (parent for parent in path.parents if os.path.isdir(parent))
    return str(path.relative_to(next(existing, path.anchor)))


def _unreadable_address() -> BadRequest:
    return BadRequest(
        "The ledger's address looks like a database address, but is not a valid postgresql:// address.",
        remedy="Write postgresql://user:password@host:5432/database, with special characters as %XX (@ as "
        "%40), or the path of a file.",
    )


def _unknown_scheme(scheme: str) -> BadRequest:
    similar_schemes = get_close_matches(scheme.lower(), _SCHEMES, n=1)
    if scheme.lower() in ("postgresql", "postgres"):
        return BadRequest(
            "The ledger's address needs two slashes after postgresql:, and cannot be given as a folder.",
            remedy=f"Write postgresql://... and pass it as --ledger or {LEDGER_VARIABLE}.",
        )
    if similar_schemes == ["sqlite"]:
        remedy = "For SQLite, give the path alone, without sqlite://, such as /folder/ledger.sqlite."
    elif similar_schemes:
        remedy = "Did you mean postgresql://user:password@host:5432/database?"
    else:
        remedy = "Use the path of a file, or postgresql://user:password@host:5432/database."
    return BadRequest(f"{scheme}:// is not an address for a ledger.", remedy=remedy)
