"""Sizes of memory as curators write them, such as "4GB"."""

from __future__ import annotations

import os
import re

from dpxplain.errors import BadRequest

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s?([KMGT])(i?)B")
_NEARLY_A_SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*([KMGT])?(?:i?B)?", re.IGNORECASE)
_DECIMAL = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def check_size(value: object) -> str | None:
    """The size as it was written; raises ValueError, with a suggestion if possible, if it is not a size."""
    if value is None or (isinstance(value, str) and _SIZE.fullmatch(value)):
        return value
    near = _NEARLY_A_SIZE.fullmatch(str(value))
    hint = f'; did you mean "{near[1]}{(near[2] or "G").upper()}B"?' if near else ""
    raise ValueError(
        'must be text with a number and a unit, such as "4GB"; units are KB, MB, GB, TB, KiB, MiB, GiB '
        f"and TiB{hint}"
    )


def memory_limit(memory: str | None) -> str | None:
    """The limit that was given, or else the environment's."""
    try:
        return check_size(memory or os.environ.get("DPXPLAIN_MEMORY") or None)
    except ValueError as error:
        raise BadRequest(
            f"A memory limit {error}.", remedy='Pass memory="4GB", or set DPXPLAIN_MEMORY.'
        ) from None


def bytes_of(memory: str | None) -> int:
    """A checked size in bytes; without one, DuckDB's default of four fifths of the machine's memory.

    >>> bytes_of("1.5GB"), bytes_of("2 KiB")
    (1500000000, 2048)
    """
    if memory is None:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 4 // 5
    parts = _SIZE.fullmatch(memory)
    assert parts is not None  # it was checked
    return int(float(parts[1]) * (_BINARY if parts[3] else _DECIMAL)[parts[2]])
