"""Compares what the product writes, keeps and sends with literals in `records/`.

A refactoring must leave every record as it is. After an intended change, `make golden` writes the records
anew, and the diff is reviewed like any other.
"""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parent / "records"


def check(name: str, value: Any) -> None:
    """Fails with a diff unless `records/{name}.json` holds exactly this value, keys in this order."""
    path = RECORDS / f"{name}.json"
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("DPXPLAIN_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    recorded = path.read_text(encoding="utf-8") if path.exists() else ""
    if text == recorded:
        return
    diff = difflib.unified_diff(
        recorded.splitlines(), text.splitlines(), f"records/{name}.json", "now", lineterm="", n=2
    )
    raise AssertionError("\n".join(["If this change is intended, run `make golden`.", *diff]))
