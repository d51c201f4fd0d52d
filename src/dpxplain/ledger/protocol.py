"""The protocol of a ledger as phases use it, the records that it returns, and checks of the names, reasons
and times that people type.

A request is reserved before data is read and released once its answer is drawn. The charge counts from the
reservation on, so a crash between the two wastes budget at worst and never overspends it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from dpxplain.errors import BadRequest, LedgerUnavailable
from dpxplain.model.charge import Budget, Charge, Ending, Entry, EntryId, HistoryPage
from dpxplain.model.confidential import ContentDigest
from dpxplain.model.display import public

EVERYONE = "*"
"""The reader of a share with everyone."""


class LedgerView(Protocol):
    """The readable part of a ledger: budgets, entries and releases, here or at a server.

    Either the whole ledger, or one analyst's account: then `budget` is the analyst's, and only the analyst's
    own entries and those shared with them are visible.
    """

    def budget(self, dataset: str) -> Budget:
        """The budget at this moment."""

    def find(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        """The earliest release of the identical request."""

    def get(self, dataset: str, entry: EntryId) -> tuple[Entry, str] | None:
        """The release with this number; None if there is none, or the entry was never released."""

    def history_page(self, dataset: str, before: EntryId | None = None, limit: int = 100) -> HistoryPage:
        """The newest entries before the one with this number: at most `limit`, and at most a page."""

    def history(self, dataset: str) -> list[Entry]:
        """Every entry, oldest first, read page by page. Use it only for lists that people read."""

    def entry(self, dataset: str, id: EntryId) -> Entry | None:
        """The entry with this number, released or not."""

    def latest(self, dataset: str, kind: str, version: str | None = None) -> Entry | None:
        """The newest released entry of this kind and data version. Notices have no version and count too."""

    def preparations(self, dataset: str, subject: str) -> list[Entry]:
        """Released preparations of the query with this identity, oldest first."""

    def discovered(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        """The discovery with this key, whoever paid for it: everybody's schema has the values found.

        Always None at a server's client, because the server's schema has the values already.
        """

    def spent_delta(self, dataset: str, column: str | None = None, *, besides: str = "") -> float:
        """The δ that all analysts' discoveries have spent, in total or on a column; infinite after a loss.

        A charge that the request with the key `besides` would take over is left out. At a server's client it
        is always 0: the server knows all charges and checks δ before it charges.
        """

    def close(self) -> None:
        """Closes the database. Closing twice is harmless, and closing an account does nothing."""


class Ledger(LedgerView, Protocol):
    """A ledger that can be charged, safe to share between threads and processes.

    An analyst's account also keeps to their allowance.
    """

    def open_dataset(self, dataset: str, limit: float, delta: float) -> None:
        """Register the data set, or record a changed limit as an entry of kind "limit"."""

    def reserve(self, dataset: str, charge: Charge) -> Entry:
        """Charges its ρ for good and returns its entry, or raises BudgetExhausted and charges nothing.

        The charge's `spends` may not add up to more than its ρ.
        """

    def reserve_once(self, dataset: str, charge: Charge) -> Entry | None:
        """Like `reserve`, but None if this account's identical request is being measured or was released.

        If an earlier entry of the identical request ended in a way that keeps its charge, returns that entry.
        The caller must end the returned entry with `release`, or with `abandon` if there is no result.
        """

    def is_measured(self, dataset: str, key: str) -> bool:
        """Whether a living process measures this account's request now."""

    def abandon(self, entry: int, ending: Ending = Ending.FAILED) -> None:
        """Ends the entry in this row without a release, and records why. Its charge stays.

        Requests no longer wait for it. An identical request takes it over if the ending keeps the charge.
        """

    def release(self, entry: int, payload: str) -> None:
        """Stores the released JSON text with the entry in this row. An entry can be released once.

        Raises ChargeTakenOver if another process has taken over the entry.
        """


@dataclass(frozen=True)
class DataVersion:
    """One version of a data set, and the fingerprint that recognises its data. For the curator only."""

    id: int
    dataset: str
    version: str
    time: datetime
    by: str
    """The person who was charged first, or who declared the version; "" is the local owner."""
    secret: str = field(repr=False)
    fingerprint: str = field(repr=False)

    def fits(self, digest: ContentDigest) -> bool:
        """Whether the data are those of this version."""
        return hmac.compare_digest(self.fingerprint, digest.keyed(self.secret))

    def keyed_state(self, state: str) -> str:
        """The stored form of a file's state: an HMAC, which does not show the path."""
        return hmac.new(self.secret.encode(), state.encode(), hashlib.sha256).hexdigest()


class DataVersions(Protocol):
    """The versions of a ledger's data sets. A version, once opened, keeps its fingerprint for good."""

    def get(self, dataset: str, version: str) -> DataVersion | None:
        """The version; None if it was never opened."""

    def open(self, dataset: str, version: str, digest: ContentDigest, by: str = "") -> DataVersion:
        """The version. Opens it with these data unless it is open already."""

    def recognises(self, version: DataVersion, state: str) -> bool:
        """Whether files in this state were read in full before and were the version's data."""

    def remember(self, version: DataVersion, state: str) -> None:
        """Stores the state, so that files in this state are recognised as the version's data."""


@public("AllowancePayload", "analyst limit spent remaining expires reason by time")
@dataclass(frozen=True)
class Allowance:
    """What one analyst may spend, and has spent, on one data set."""

    analyst: str
    limit: float
    spent: float
    remaining: float
    """0 after expiry; never more than the data set has left."""
    expires: datetime | None
    reason: str
    by: str
    time: datetime | None
    """The time of the grant; None without a grant, when the analyst may spend what everyone may."""


@public("SharePayload", "owner reader reason by time")
@dataclass(frozen=True)
class Share:
    """`reader` (or everyone) may see what `owner` asked of the data set."""

    dataset: str
    owner: str
    reader: str
    reason: str
    by: str
    time: datetime


@public("AuditRecord", "id time actor action dataset details previous hash")
@dataclass(frozen=True)
class AuditRecord:
    """One link of the log: `hash` covers everything in it and, through `previous`, everything before it."""

    id: int
    time: datetime
    actor: str
    action: str
    dataset: str | None
    details: Mapping[str, Any]
    previous: str
    hash: str


@public("AuditVerified", "records head problems intact")
@dataclass(frozen=True)
class AuditReport:
    """What a verification found. Note `head` elsewhere: later it shows whether the log's end was cut off."""

    records: int
    head: str
    problems: list[str]

    @property
    def intact(self) -> bool:
        return not self.problems


@dataclass(frozen=True)
class Identity:
    """The person that a token belongs to."""

    name: str
    role: str
    """"analyst" or "curator"."""
    expires: datetime
    token: str | None
    """The id of the token, or of the token that opened the session; None for a token of the OIDC issuer."""
    session: str | None = None
    """The id of the browser session, if the caller signed in with one."""
    issuer: str | None = None
    """The OIDC issuer who vouches for the name; None for a token of the ledger."""


@public("TokenPayload", "id name role created expires by revoked maker")
@dataclass(frozen=True)
class Token:
    """A token as the curator sees it. Only its holder knows its text."""

    id: str
    name: str
    role: str
    created: datetime
    expires: datetime
    by: str
    revoked: datetime | None
    maker: str | None
    """The curator's token that was used to make it; None if a command made it."""


@dataclass(frozen=True)
class Job:
    """Work that outlives its request; any server process can report its state."""

    id: str
    dataset: str
    owner: str
    kind: Literal["prepare", "explain"]
    request: Mapping[str, Any]
    state: Literal["queued", "running", "done", "failed", "cancelled", "lost"]
    """Lost: its process was not heard of lately."""
    stage: str
    error: Mapping[str, Any] | None
    entry: int | None
    """The row of the entry whose release is the result."""
    cancel_asked: bool
    created: datetime
    heard: datetime
    """The time of its process's last heartbeat."""


UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""Raised by a stored text, time or JSON that the ledger cannot have written, such as NaN or bytes."""


def exhausted_delta(declared: float) -> BadRequest:
    """The error for a discovery that the declared δ does not cover."""
    return BadRequest(
        f"The declared δ of {declared:g} is too small for this discovery. Nothing was charged.",
        remedy="The curator can list the column's values. A larger [privacy] delta would allow it, but "
        "weakens the privacy promise.",
    )


def damaged(name: str) -> LedgerUnavailable:
    """The error for a ledger with rows that the ledger itself cannot have written."""
    return LedgerUnavailable(
        f"{name} is damaged.",
        remedy="Restore it from a backup (dpxplain ledger restore). If it is a SQLite file that cannot be "
        "opened, first move it away with its journal. A new ledger would forget what was spent.",
        kind="damaged",
    )


@contextmanager
def damage_explained(name: str = "The ledger") -> Iterator[None]:
    """Context manager or decorator for code that reads stored rows. Reports an unreadable row as damage."""
    try:
        yield
    except UNREADABLE:
        raise damaged(name) from None  # not chained, because the original message may quote the row


LONGEST_NAME = 200
OIDC_PREFIX = "oidc:"
"""The prefix of names that come from an OIDC issuer. The ledger's own tokens never have it."""
LOCAL_OWNER = "local owner"
"""The audit log's name for the only user of a server without a login."""


def check_name(name: str) -> str:
    """The name, if an analyst may have it; raises otherwise.

    >>> check_name("ann@example.org")
    'ann@example.org'
    """
    if not name or name in (EVERYONE, LOCAL_OWNER) or len(name) > LONGEST_NAME or name != name.strip():
        raise BadRequest(
            f"{name[:LONGEST_NAME]!r} cannot be an analyst's name.",
            remedy=f"Use up to {LONGEST_NAME} characters, without spaces at the ends, and not '*' alone.",
        )
    return name


def check_reason(reason: str) -> str:
    if not reason.strip():
        raise BadRequest("Give a reason. The audit log records it.", remedy="Say why, in a few words.")
    return reason


def utc_text(time: datetime) -> str:
    """A moment as the ledger writes it.

    >>> utc_text(datetime.fromisoformat("2030-01-01T01:00+01:00"))
    '2030-01-01T00:00:00+00:00'
    """
    if time.utcoffset() is None:
        raise BadRequest("The expiry time has no time zone.", remedy="Add one, such as UTC.")
    return time.astimezone(UTC).isoformat()
