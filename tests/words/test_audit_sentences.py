"""Records of the audit log as the curator reads them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from dpxplain.ledger.protocol import AuditRecord
from dpxplain.words.audit_sentences import audit_sentence

TOKENS = {"t1": "bob"}


def sentence(action: str, details: Mapping[str, Any], actor: str = "carol", dataset: str = "people") -> str:
    record = AuditRecord(1, datetime(2026, 1, 1, tzinfo=UTC), actor, action, dataset, details, "", "")
    return audit_sentence(record, TOKENS)


GRANT = {"analyst": "alice", "limit_units": 350_000_000_000, "reason": "a second look"}
LIMIT = {"declared_units": 1_000_000_000_000, "top_up_units": 500_000_000_000}
SHARE = {"owner": "", "reader": "*", "reason": ""}


@pytest.mark.parametrize(
    ("action", "details", "expected"),
    [
        (
            "topped up",
            {"grant": GRANT},
            "raised the allowance of alice on people to ρ 0.35, because: a second look",
        ),
        ("topped up", {"limit": LIMIT}, "raised the budget of people to ρ 1.5"),
        (
            "allowance granted",
            {"grant": GRANT | {"expires": "2026-03-01T23:59:59+00:00", "reason": ""}},
            "set the allowance of alice on people to ρ 0.35 until 2026-03-01 23:59 UTC",
        ),
        ("shared", {"share": SHARE}, "let everyone read the local owner's history on people"),
        ("truth viewed", {"answer": 3}, "looked at true values of people, beside answer 3"),
        ("token revoked", {"revocation": {"token": "t1"}}, "revoked bob's token (t1)"),
        ("token revoked", {"revocation": {"token": "t9"}}, "revoked a token (t9)"),
        ("cancelled", {"entry": 7}, "cancelled request 7 on people"),
        ("truth viewed", {"schema": "x"}, "compared a schema of people with its true rows"),
        ("data file removed", {"file": "gone.csv"}, "removed the data file gone.csv"),
        (
            "browser sessions ended",
            {"sessions": 1, "name": "oidc:oscar"},
            "ended the browser sessions of oidc:oscar (1)",
        ),
        ("moon phase", {}, "moon phase (people)"),
    ],
)
def test_a_record_says_who_did_what(action: str, details: Mapping[str, Any], expected: str) -> None:
    assert sentence(action, details) == f"carol {expected}."


def test_a_schema_may_be_compared_before_its_data_set_has_a_name() -> None:
    assert sentence("truth viewed", {"schema": "x"}, dataset="") == (
        "carol compared a schema of a new data set with its true rows."
    )


def test_a_record_without_an_actor_is_by_the_server_or_by_the_one_local_user() -> None:
    assert sentence("ledger upgraded", {}, "") == "The server upgraded the ledger."
    assert sentence("interrupted", {"entry": 7}, "") == (
        "The server found that request 7 on people was interrupted: its process died. The charge stays."
    )
    entry = {"kind": "query", "charge_units": 100_000_000_000, "description": "SELECT 1"}
    assert (
        sentence("reserved", {"entry": entry}, "")
        == "The local owner spent ρ 0.1 on people for a query: SELECT 1."
    )
