"""Fixtures and hooks for every test; each is described where it is defined."""

import pytest

import repeatable
from postgres_server import postgres_address, postgres_server
from shared_statements import share_compiled_statements
from spark_server import spark_cluster, spark_session

__all__ = ["postgres_address", "postgres_server", "spark_cluster", "spark_session"]


def pytest_configure(config: pytest.Config) -> None:
    # Not imported as hooks of this file: pytest would not call them for fixtures of the whole session.
    config.pluginmanager.register(repeatable)
    share_compiled_statements()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that use PostgreSQL, Spark or the browser are marked by the fixtures they ask for.

    A fixture with a parameter "postgres" asks for the server only when it runs.
    """
    for item in items:
        names = getattr(item, "fixturenames", ())
        parameters = getattr(item, "callspec", None)
        if "postgres_server" in names or (parameters and "postgres" in parameters.id.split("-")):
            item.add_marker("database")
        if {"spark_session", "spark_cluster"} & set(names):
            item.add_marker("spark")
            item.add_marker(pytest.mark.xdist_group("spark"))  # one JVM, not one per worker
        if "spark_cluster" in names:
            item.add_marker("slow")  # six JVMs; those of one JVM are marked where they are, all but a few
        if "browser" in names:
            item.add_marker("browser")
