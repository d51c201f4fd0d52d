"""Where data are: on this machine or at a server."""

from __future__ import annotations


def is_address(source: object) -> bool:
    """Whether the data are at a server.

    >>> is_address("https://host/adult"), is_address("adult.parquet")
    (True, False)
    """
    return isinstance(source, str) and source.lower().startswith(("https://", "http://"))
