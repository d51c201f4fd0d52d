"""Fixtures for every test; each is described where it is defined."""

from postgres_server import postgres_address, postgres_server

__all__ = ["postgres_address", "postgres_server"]
