"""What decides that a repeated request is free, and what is stored for it: one literal per kind of plan."""

from __future__ import annotations

import base64
import json
import zlib
from array import array
from pathlib import Path
from typing import Any

import pytest
from golden_tables import REQUESTS, ledger_rows, opened

from golden import check, normal

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
    content |= {name: json.loads(row[name]) for name in ("spends", "request", "payload") if row[name]}
    return normal(content | {"payload": unpacked(content["payload"])})


def unpacked(value: Any) -> Any:
    """A payload with the packed numbers in place of their text: base64 of compressed doubles."""
    if isinstance(value, dict):
        return {name: unpacked(part) for name, part in value.items()}
    if isinstance(value, str) and len(value) > 40:
        numbers = array("d", zlib.decompress(base64.b64decode(value))).tolist()
        return {"packed": len(numbers), "first and last": [*numbers[:15], *numbers[-5:]]}
    return value
