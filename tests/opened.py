"""The few places where tests of several rooms reach under the public face."""

from __future__ import annotations

from typing import Any

import pytest

from dpxplain.engines import source_state


def dataset_of(held: Any) -> Any:
    """The data set of a session, an answer, a question or an explanation."""
    return held._dataset


def connection_of(engine: Any) -> Any:
    """The DuckDB connection of an engine, with its tables and its settings."""
    return engine._connection


def settle_files(monkeypatch: pytest.MonkeyPatch, seconds: int = 0) -> None:
    """A file counts as settled this long after its last change, whose time cannot be set back."""
    monkeypatch.setattr(source_state, "_SETTLED_NS", seconds * 10**9)
