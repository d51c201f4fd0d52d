"""Compares what the product writes, keeps and sends with literals in `records/`.

A refactoring must leave every record as it is. After an intended change, `make golden` writes the records
anew, and the diff is reviewed like any other.
"""

from __future__ import annotations

import base64
import difflib
import json
import os
import re
import zlib
from array import array
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dpxplain as dpx

RECORDS = Path(__file__).parent / "records"
_WIDTH = 120
_DIGITS = 10


def check(name: str, value: Any, part: str = "") -> None:
    """Fails with a diff unless `records/{name}.json` holds exactly this value, keys in this order.

    With a `part`, the value is compared with that entry of the file.
    """
    path = RECORDS / f"{name}.json"
    recorded = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    value = json.loads(json.dumps(value))
    if os.environ.get("DPXPLAIN_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written({**recorded, part: value} if part else value) + "\n", encoding="utf-8")
        return
    before, now = written(recorded.get(part) if part else recorded), written(value)
    if now == before:
        return
    place = f"records/{name}.json" + (f": {part}" if part else "")
    diff = difflib.unified_diff(before.splitlines(), now.splitlines(), place, "now", lineterm="", n=2)
    raise AssertionError("\n".join(["If this change is intended, run `make golden`.", *diff]))


def written(value: Any, indent: int = 0) -> str:
    """The value as JSON, with a list of numbers, and whatever is short, on one line."""
    line = json.dumps(value, ensure_ascii=False)
    is_numbers = isinstance(value, list) and all(isinstance(part, int | float) for part in value)
    if not value or not isinstance(value, dict | list) or is_numbers or len(line) + indent <= _WIDTH:
        return line
    space = " " * (indent + 1)
    if isinstance(value, dict):
        lines = [
            f"{json.dumps(name, ensure_ascii=False)}: {written(part, indent + 1)}"
            for name, part in value.items()
        ]
        return "{\n" + ",\n".join(space + line for line in lines) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(space + written(part, indent + 1) for part in value) + "\n" + " " * indent + "]"


_TIME = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(\+00:00|Z)")
_TODAY = datetime.now(UTC).date()
_NEAR = re.compile("|".join(str(_TODAY + timedelta(days)) for days in (-1, 0, 1)))


def normal(value: Any, names: Mapping[str, str] | None = None) -> Any:
    """The value without what differs from run to run: the version, the times of today, and the given texts.

    `names` says what stands in the record for a path, a random id or a version. Processors differ in the last
    digits of a logarithm or a power, so numbers keep ten digits.
    """
    if isinstance(value, dict):
        return {normal(key, names): normal(part, names) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [normal(part, names) for part in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, str):
        for text, name in ({dpx.__version__: "<version>"} | dict(names or {})).items():
            value = value.replace(text, name)
        return _NEAR.sub("<date>", _TIME.sub(r"<time>\1", value))
    return value


def stored_payload(text: str) -> Any:
    """A stored release, with numbers in place of packed ones, which are base64 of compressed doubles."""
    return _unpacked(json.loads(text))


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unpacked(part) for name, part in value.items()}
    if isinstance(value, str) and len(value) > 40:
        numbers = array("d", zlib.decompress(base64.b64decode(value))).tolist()
        return {"packed": len(numbers), "first and last": [*numbers[:15], *numbers[-5:]]}
    return value
