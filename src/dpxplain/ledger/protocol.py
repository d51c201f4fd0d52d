"""The protocol that phases use of a ledger, the records that a ledger returns, and the check of what people
type into it: names, reasons and times.

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
from typing import Any, Protocol

from dpxplain.errors import BadRequest, LedgerUnavailable
from dpxplain.model.budget import Budget
from dpxplain.model.charge import Charge, Ending, Entry, EntryId, HistoryPage
from dpxplain.model.confidential import ContentDigest

EVERYONE = "*"
"""The reader with whom something is shared when it is shared with all."""


class LedgerView(Protocol):
    """The readable part of a ledger: budgets, entries and releases, here or at a server.

    Either the whole ledger, or one analyst's account on it: then `budget` is theirs, and only their own
    entries and those shared with them are seen.
    """

    def budget(self, dataset: str) -> Budget:
        """The budget at this moment."""
        ...

    def find(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        """The earliest release of the identical request."""
        ...

    def get(self, dataset: str, entry: EntryId) -> tuple[Entry, str] | None:
        """The release with this number; None if there is none, or the entry was never released."""
        ...

    def history_page(self, dataset: str, before: EntryId | None = None, limit: int = 100) -> HistoryPage:
        """The newest entries before the one with this number, at most `limit` and at most a page of them."""
        ...

    def history(self, dataset: str) -> list[Entry]:
        """Every entry, oldest first, read page by page; only for lists that people read."""
        ...

    def entry(self, dataset: str, id: EntryId) -> Entry | None:
        """The entry with this number, released or not."""
        ...

    def latest(self, dataset: str, kind: str, version: str | None = None) -> Entry | None:
        """The newest released entry of this kind, and of this version of the data or an unrecorded one."""
        ...

    def preparations(self, dataset: str, subject: str) -> list[Entry]:
        """Released preparations of the query with this identity, oldest first.

        Those of older versions, which stored no identity, are among them whatever they belong to.
        """
        ...

    def discovered(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        """The discovery with this key, whoever paid for it: what was found is in everybody's schema.

        None at a server's client, which gets the schema with it from the server.
        """
        ...

    def spent_delta(self, dataset: str, column: str | None = None, *, besides: str = "") -> float:
        """The δ that discoveries of all analysts have spent, or those of a column; infinite after a loss.

        The charge that the request with the key `besides` would take over is left out.
        At a server's client always 0: the server, which knows all charges, checks δ before it charges.
        """
        ...

    def close(self) -> None:
        """Let go of the database; closing twice is harmless, and closing an account does nothing."""


class Ledger(LedgerView, Protocol):
    """A ledger that can be charged, safe to share between threads and processes.

    An analyst's account also keeps to their allowance.
    """

    def open_dataset(self, dataset: str, limit: float, delta: float) -> None:
        """Register the data set, or record a changed limit as an entry of kind "limit"."""

    def reserve(self, dataset: str, charge: Charge) -> Entry:
        """Charge its ρ for good and return its entry, or raise BudgetExhausted and charge nothing.

        The shares of its spends may not add up to more than its ρ.
        """
        ...

    def reserve_once(self, dataset: str, charge: Charge) -> Entry | None:
        """Like `reserve`, but None if this account's identical request is being measured or was released.

        An entry of the identical request whose ending keeps the charge is returned instead of a new one.
        Whoever gets an entry ends it by `release`, or by `abandon` if nothing comes of it.
        """
        ...

    def is_measured(self, dataset: str, key: str) -> bool:
        """Whether some process that is alive measures this account's request now."""
        ...

    def abandon(self, entry: int, ending: Ending = Ending.FAILED) -> None:
        """End the entry in this row without a release, and record why. Its charge stays.

        Requests no longer wait for it. The identical request takes it over if the ending keeps the charge.
        """

    def release(self, entry: int, payload: str) -> None:
        """Store the released JSON text, once, with the entry in this row.

        Raises ChargeTakenOver if another process measures under the entry by now.
        """


@dataclass(frozen=True)
class DataVersion:
    """One version of a data set, and what its data are recognised by. For the curator only."""

    id: int
    dataset: str
    version: str
    time: datetime
    by: str
    """Who was charged first, or declared it; "" is the local owner."""
    secret: str = field(repr=False)
    fingerprint: str = field(repr=False)

    def fits(self, digest: ContentDigest) -> bool:
        """Whether the data are those of this version."""
        return hmac.compare_digest(self.fingerprint, digest.keyed(self.secret))

    def keyed_state(self, state: str) -> str:
        """The state of a file as it is stored: an HMAC, which does not show the path."""
        return hmac.new(self.secret.encode(), state.encode(), hashlib.sha256).hexdigest()


class DataVersions(Protocol):
    """The versions of a ledger's data sets. A version, once opened, keeps its fingerprint for good."""

    def get(self, dataset: str, version: str) -> DataVersion | None:
        """The version, if it was opened."""
        ...

    def open(self, dataset: str, version: str, digest: ContentDigest, by: str = "") -> DataVersion:
        """The version, opened with these data unless it is open already."""
        ...

    def has_charges_of_unknown_data(self, dataset: str) -> bool:
        """Whether there are charges, and all are of a time when ledgers did not keep fingerprints."""
        ...

    def recognises(self, version: DataVersion, state: str) -> bool:
        """Whether files in this state were read in full before and were the version's data."""
        ...

    def remember(self, version: DataVersion, state: str) -> None:
        """From now on files in this state are recognised as the version's data."""


@dataclass(frozen=True)
class Allowance:
    """What one analyst may spend on one data set, and did."""

    analyst: str
    limit: float
    spent: float
    remaining: float
    """0 after expiry; never more than the data set has left."""
    expires: datetime | None
    reason: str
    by: str
    time: datetime | None
    """When it was granted; None for an analyst who spends what the server allows everyone."""


@dataclass(frozen=True)
class Share:
    """`reader` (or everyone) may see what `owner` asked of the data set."""

    dataset: str
    owner: str
    reader: str
    reason: str
    by: str
    time: datetime


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


@dataclass(frozen=True)
class AuditReport:
    """What a verification found. Note `head` down elsewhere: it proves later that no tail was cut off."""

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
    """The id of the token, or of the one that opened the session; None for a token of the OIDC issuer."""
    session: str | None = None
    """The id of the browser session, if the caller signed in with one."""
    issuer: str | None = None
    """The OIDC issuer who vouches for the name; None for a token of the ledger."""


@dataclass(frozen=True)
class Token:
    """A token as the curator sees it; its text is known to its holder only."""

    id: str
    name: str
    role: str
    created: datetime
    expires: datetime
    by: str
    revoked: datetime | None
    maker: str | None
    """The curator's token that it was made with; None for one made by a command."""


@dataclass(frozen=True)
class Job:
    """Work that outlives a request, so that any server process can tell of it."""

    id: str
    dataset: str
    owner: str
    kind: str
    request: Mapping[str, Any]
    state: str
    """"queued", "running", "done", "failed", "cancelled"; "lost" when its process was not heard of lately."""
    stage: str
    error: Mapping[str, Any] | None
    entry: int | None
    """The row of the entry whose release is the result."""
    cancel_asked: bool
    created: datetime
    heard: datetime
    """When its process last gave a sign of life."""


# What reading a stored text, time or JSON raises when its characters were changed.
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, IndexError)


def exhausted_delta(declared: float) -> BadRequest:
    """The refusal of a discovery that the declared δ does not cover."""
    return BadRequest(
        f"The declared δ of {declared:g} is too small for this discovery. Nothing was charged.",
        remedy="List the column's values in the schema. A larger [privacy] delta would allow it, but "
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
    """Context manager or decorator of code that reads stored rows: one that cannot be read is damaged."""
    try:
        yield
    except _UNREADABLE:
        raise damaged(name) from None  # not chained: the message may quote the row


LONGEST_NAME = 200
FOREIGN = "oidc:"
"""The prefix of names that come from an OIDC issuer. The ledger's own tokens never have it."""
LOCAL_OWNER = "local owner"
"""What the audit log calls the one user of a server without a login."""


def check_name(name: str) -> str:
    """A usable name of an analyst.

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
