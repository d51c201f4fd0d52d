"""What decides that a repeated request is free, and what is stored for it: one literal per kind of plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from golden_tables import REQUESTS, ledger_rows, opened

from golden import check, normal, stored_payload

RELEASED = """
SELECT kind, key, subject, description, charge_units, spends, request, version, declarations, payload
FROM releases JOIN entries ON entries.id = releases.entry ORDER BY entries.id DESC LIMIT 1
"""


@pytest.mark.parametrize("group", REQUESTS)
def test_requests_keep_their_keys_and_their_stored_releases(group: str, tmp_path: Path) -> None:
    requests, keys, releases = REQUESTS[group], {}, {}
    with opened(tmp_path, *requests.changes, **requests.options) as session:
        for name, ask in requests.asked.items():
            ask(session)
            # The last release is the request's own; an explanation pays for its answer before.
            [row] = ledger_rows(tmp_path, RELEASED)
            keys[name] = [row["kind"], row["key"], *filter(None, [row["subject"]])]
            releases[name] = stored(row)
    check("request_keys", keys, group)
    check("stored_releases", releases, group)


def stored(row: dict[str, Any]) -> dict[str, Any]:
    """A release, and what its request determines of its entry; keys have a record of their own."""
    content = {name: value for name, value in row.items() if name not in ("key", "subject")}
    content |= {name: json.loads(row[name]) for name in ("spends", "request") if row[name]}
    return normal(content | {"payload": stored_payload(row["payload"])})
