"""Fixtures and hooks for every test; each is described where it is defined."""

import pytest

import repeatable
from postgres_server import postgres_address, postgres_server

__all__ = ["postgres_address", "postgres_server"]


def pytest_configure(config: pytest.Config) -> None:
    # Not imported as hooks of this file: pytest would not call them for fixtures of the whole session.
    config.pluginmanager.register(repeatable)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that use PostgreSQL or the browser are marked by the fixtures they ask for."""
    for item in items:
        names = getattr(item, "fixturenames", ())
        if "postgres_server" in names:
            item.add_marker("database")
        if "browser" in names:
            item.add_marker("browser")
