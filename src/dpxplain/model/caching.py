"""A cached property without the lock of Python 3.11's own.

`functools.cached_property` of Python 3.11 locks the property of all objects of a class while it computes one
object's value, so one caller's long computation would hold up every other caller.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

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
