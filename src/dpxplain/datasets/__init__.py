"""Data to start with: the bundled Adult table and its schema, and a generator of made-up flights.

Nothing here is private: Adult is published, the flights are made up. CREDITS.md names the sources.
"""

from __future__ import annotations

from pathlib import Path

from dpxplain.errors import BadRequest

_FOLDER = Path(__file__).parent
_BUNDLED = ("adult.parquet", "adult.toml")


def path(name: str) -> Path:
    """The path of a bundled file.

    >>> path("adult.toml").name
    'adult.toml'
    >>> path("iris.toml")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    dpxplain.errors.BadRequest: There is no bundled file 'iris.toml'. Choose one of: ...
    """
    if name not in _BUNDLED:
        raise BadRequest(
            f"There is no bundled file {name!r}.", remedy=f"Choose one of: {', '.join(_BUNDLED)}."
        )
    return _FOLDER / name
