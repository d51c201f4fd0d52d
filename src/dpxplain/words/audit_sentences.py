"""Turns a record of the audit log into a sentence. An action without a sentence is shown by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dpxplain.ledger.protocol import AuditRecord
from dpxplain.model.charge import rho_of_units

TRUTH_VIEWED = "truth viewed"
_KINDS = {
    "query": "a query",
    "prepare": "a preparation",
    "explain": "an explanation",
    "quality": "data quality",
    "discover": "a discovery",
    "tune": "tuning",
}
# A single-user server has no login, and writes these without an actor.
_BY_OWNER = ("reserved", "released", "cancelled")

Row = Mapping[str, Any]


def audit_sentence(record: AuditRecord, token_names: Mapping[str, str]) -> str:
    """The sentence: who did what.

    `token_names` maps token ids to names. A token that was made a moment ago may not be among them yet.
    """
    if record.action == "token revoked":
        id = record.details["revocation"]["token"]
        token = f"{token_names[id]}'s token" if id in token_names else "a token"
        return f"{_actor(record)} revoked {token} ({id})."
    predicate = _PREDICATES.get(record.action)
    of_dataset = f" ({record.dataset})" if record.dataset else ""
    return f"{_actor(record)} {predicate(record) if predicate else record.action + of_dataset}."


def _actor(record: AuditRecord) -> str:
    if record.actor and record.actor != "local owner":
        return record.actor
    return "The local owner" if record.actor or record.action in _BY_OWNER else "The server"


def _reserved(record: AuditRecord) -> str:
    entry = _row(record, "entry")
    kind = _KINDS.get(entry.get("kind", ""), entry.get("kind"))
    return (
        f"spent {_rho(entry.get('charge_units'))} on {record.dataset} for {kind}: {entry.get('description')}"
    )


def _granted(record: AuditRecord, verb: str = "set") -> str:
    grant = _row(record, "grant")
    until = _until(grant) if verb == "set" else ""
    return (
        f"{verb} the allowance of {grant.get('analyst')} on {record.dataset} to "
        f"{_rho(grant.get('limit_units'))}{until}{_because(grant)}"
    )


def _topped_up(record: AuditRecord) -> str:
    if _row(record, "grant").get("analyst"):
        return _granted(record, "raised")
    limit = _row(record, "limit")
    return f"raised the budget of {record.dataset} to {_limit(limit)}{_because(limit)}"


def _sharing(verb: str) -> Callable[[AuditRecord], str]:
    def predicate(record: AuditRecord) -> str:
        share = _row(record, "share")
        reader = "everyone" if share.get("reader") == "*" else share.get("reader")
        owner = share.get("owner") or "the local owner"
        return f"{verb} {reader} read {owner}'s history on {record.dataset}{_because(share)}"

    return predicate


def _made(token: Row) -> str:
    return f"made a token for {token.get('name')} as {token.get('role')}{_until(token)}"


def _loss_charged(record: AuditRecord) -> str:
    entry = _row(record, "entry")
    analyst = entry.get("analyst") or "the local owner"
    return f"charged {analyst} {_rho(entry.get('charge_units'))} on {record.dataset} for lost records"


def _truth_viewed(record: AuditRecord) -> str:
    if "schema" in record.details:
        return f"compared a schema of {record.dataset or 'a new data set'} with its true rows"
    beside = next(
        (f", beside {n} {record.details[n]}" for n in ("explanation", "answer") if n in record.details), ""
    )
    return f"looked at true values of {record.dataset}{beside}"


_ENDINGS = {
    "server stopped": "the server was stopped",
    "database lost": "the database with the data was shut down, or its table was locked",
    "ledger lost": "the ledger could not be reached or written",
    "cut off": "the connection to the database with the data broke",
    "cancelled": "it was cancelled",
    "failed": "it failed",
}

_PREDICATES: dict[str, Callable[[AuditRecord], str]] = {
    "data set opened": lambda record: (
        f"opened {record.dataset} with a budget of {_limit(_row(record, 'limit'))}"
    ),
    "budget request declined": lambda record: f"declined a request for more budget on {record.dataset}",
    "data file removed": lambda record: f"removed the data file {record.details.get('file')}",
    "data file uploaded": lambda record: f"uploaded the data file {record.details.get('file')}",
    "budget asked for": lambda record: f"asked for ρ {record.details.get('rho')} more on {record.dataset}",
    "limit changed": lambda record: (
        f"changed the declared budget of {record.dataset} to {_limit(_row(record, 'limit'))}"
    ),
    "delta changed": lambda record: f"changed δ of {record.dataset} to {_row(record, 'limit').get('delta')}",
    "reserved": _reserved,
    "released": lambda record: (
        f"got the result of request {_row(record, 'release').get('entry')} on {record.dataset}"
    ),
    "cancelled": lambda record: f"cancelled request {record.details.get('entry')} on {record.dataset}",
    "allowance granted": _granted,
    "topped up": _topped_up,
    "shared": _sharing("let"),
    "unshared": _sharing("stopped letting"),
    "token created": lambda record: _made(_row(record, "token")),
    "signed in": lambda _: "signed in with a browser",
    "browser sessions ended": lambda record: (
        f"ended the browser sessions of {record.details.get('name')} ({record.details.get('sessions')})"
    ),
    TRUTH_VIEWED: _truth_viewed,
    "schema edited": lambda record: f"edited the schema of {record.dataset}",
    "data set declared": lambda record: f"declared the data set {record.dataset}",
    "data version opened": lambda record: (
        f"opened version {_row(record, 'version').get('version')!r} of {record.dataset}"
    ),
    "ledger upgraded": lambda _: "upgraded the ledger",
    "loss charged": _loss_charged,
    "loss declared": lambda record: f"declared that the ledger lost records{_because(record.details)}",
    "ledger restored": lambda record: f"restored a backup with {record.details.get('records')} records",
    "interrupted": lambda record: (
        f"found that request {record.details.get('entry')} on {record.dataset} was interrupted: "
        f"{_ENDINGS.get(record.details.get('ending', ''), 'its process died')}. The charge stays"
    ),
    "taken over": lambda record: (
        f"repeated request {record.details.get('entry')} on {record.dataset}, which was charged but not "
        "answered"
    ),
}


def _row(record: AuditRecord, name: str) -> Row:
    """The ledger row of this name in the record, or an empty one."""
    row = record.details.get(name)
    return row if isinstance(row, Mapping) else {}


def _rho(units: Any) -> str:
    return f"ρ {rho_of_units(units or 0):,.6g}"


def _limit(row: Row) -> str:
    return _rho((row.get("declared_units") or 0) + (row.get("top_up_units") or 0))


def _because(row: Row) -> str:
    return f", because: {row['reason']}" if row.get("reason") else ""


def _until(row: Row) -> str:
    """The expiry to the minute, in UTC as the ledger stores it."""
    return f" until {str(row['expires'])[:16].replace('T', ' ')} UTC" if row.get("expires") else ""
