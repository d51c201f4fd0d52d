"""Numbers and texts of the built-in types themselves.

A subclass of `int`, `float` or `str` can compare as one value and compute as another, and it can change its
mind in between. What an analyst passes is therefore taken down once, before it is checked and used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dpxplain.errors import InternalError


def plain(value: Any) -> Any:
    """The same number or text, of the built-in type itself; anything else as it is, to be refused in words.

    >>> class Odd(int):
    ...     def __float__(self): return 1e-18
    >>> float(plain(Odd(2))), plain(None)
    (2.0, None)
    """
    kind = type(value)
    # Not `float(value)` and the like: they ask the subclass. bool has no subclasses.
    if kind in (bool, int, float, str):
        return value
    if issubclass(kind, float):
        return float.__float__(value)
    if issubclass(kind, int):
        return int.__int__(value)
    return str.__str__(value) if issubclass(kind, str) else value


def plain_number(value: Any) -> float | None:
    """A finite float, or None for anything that is not such a number.

    >>> plain_number(2), plain_number(True), plain_number(10**400), plain_number("2")
    (2.0, None, None, None)
    """
    number = plain(value)
    if type(number) not in (int, float):
        return None
    try:
        made = float(number)
    except OverflowError:
        return None
    return made if made - made == 0.0 else None


def plain_numbers(values: Any) -> tuple[float, ...] | None:
    """A list or tuple of finite numbers, read once; None for anything else."""
    if not issubclass(type(values), tuple | list):
        return None
    numbers = tuple(plain_number(value) for value in values)
    return None if None in numbers else numbers  # type: ignore[return-value]


def plain_texts(values: Any) -> tuple[str, ...] | None:
    """Texts, read once; None for anything else. One text is a list of one.

    >>> plain_texts("age"), plain_texts({"age": 1}), plain_texts([1])
    (('age',), ('age',), None)
    """
    if not isinstance(values, Iterable):
        return None
    texts = (plain(values),) if isinstance(values, str) else tuple(map(plain, values))
    return texts if all(type(text) is str for text in texts) else None


def insist_on_numbers(*values: object) -> None:
    """The last check before noise is drawn; what is asked for is made plain long before."""
    if any(type(value) not in (int, float) for value in values):
        raise InternalError("A release was planned with something that is not quite a number.")
