"""What people type into the ledger, checked: names, reasons and times."""

from __future__ import annotations

from datetime import UTC, datetime

from dpxplain.errors import BadRequest
from dpxplain.ledger.protocol import EVERYONE

LONGEST_NAME = 200
FOREIGN = "oidc:"
"""How names begin that an OIDC issuer vouches for; no token of ours has one."""
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
            remedy=f"Use up to {LONGEST_NAME} characters, not '*' alone, no spaces around.",
        )
    return name


def check_reason(reason: str) -> str:
    if not reason.strip():
        raise BadRequest("A reason is needed: it goes into the audit log.", remedy="Say why, in a few words.")
    return reason


def utc_text(time: datetime) -> str:
    """A moment as the ledger writes it.

    >>> utc_text(datetime.fromisoformat("2030-01-01T01:00+01:00"))
    '2030-01-01T00:00:00+00:00'
    """
    if time.utcoffset() is None:
        raise BadRequest("The time of expiry has no time zone.", remedy="Add one, such as UTC.")
    return time.astimezone(UTC).isoformat()
