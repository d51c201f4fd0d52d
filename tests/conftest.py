"""Fixtures and hooks for every test; each is described where it is defined."""

import pytest

from postgres_server import postgres_address, postgres_server
from repeatable import pytest_fixture_setup, pytest_runtest_call, pytest_runtest_protocol

__all__ = [
    "postgres_address",
    "postgres_server",
    "pytest_fixture_setup",
    "pytest_runtest_call",
    "pytest_runtest_protocol",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that use PostgreSQL or the browser are marked by the fixtures they ask for."""
    for item in items:
        names = getattr(item, "fixturenames", ())
        if "postgres_server" in names:
            item.add_marker("database")
        if "browser" in names:
            item.add_marker("browser")
