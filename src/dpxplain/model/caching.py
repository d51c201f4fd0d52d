"""Cached properties, and the sizes in which curators limit memory, such as "4GB"."""

from __future__ import annotations

import functools
import os
import re
from typing import TYPE_CHECKING, Any

from dpxplain.errors import BadRequest

# -- Cached properties -------------------------------------------------------------------------------------
#
# `functools.cached_property` of Python 3.11 locks the property of all objects of a class while it computes
# one object's value, so one caller's long computation would hold up every other caller.

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801 - as Python calls it
        """Computes a value once per object. Two threads may both compute it; both then see the first value.

        >>> class Square:
        ...     side = 3
        ...     @cached_property
        ...     def area(self):
        ...         print("computed")
        ...         return self.side**2
        >>> square = Square()
        >>> square.area + square.area
        computed
        18
        """

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            known = vars(instance)
            if self.attrname not in known:
                known.setdefault(self.attrname, self.func(instance))
            return known[self.attrname]


__all__ = ["cached_property"]


# -- Sizes of memory ---------------------------------------------------------------------------------------

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
