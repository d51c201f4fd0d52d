"""Errors with a remedy for arguments that a public function does not take, or that are missing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from dpxplain.errors import BadRequest
from dpxplain.model.spelling import did_you_mean

P = ParamSpec("P")
T = TypeVar("T")

_EPSILONS = ("eps", "ε")  # too short to be recognised by their letters


def checked_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator: wrong arguments raise BadRequest with a remedy instead of Python's TypeError."""
    signature = inspect.signature(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            raise _misuse(function.__name__, signature, args, kwargs) from None
        return function(*args, **kwargs)

    return checked


def _misuse(
    name: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> BadRequest:
    parameters = {n: p for n, p in signature.parameters.items() if n != "self"}
    by_place = args[1:] if "self" in signature.parameters else args
    positional = [n for n, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    for keyword in kwargs:
        if keyword not in parameters:
            meant = "epsilon" if keyword in _EPSILONS else keyword
            listed = f"It takes {', '.join(parameters)}."
            return BadRequest(
                f"{name} takes no argument {keyword!r}.", remedy=did_you_mean(meant, parameters) or listed
            )
    if len(by_place) > len(positional):
        keyword_only = ", ".join(n for n in parameters if n not in positional)
        return BadRequest(
            f"{name} takes at most {len(positional)} positional arguments, not {len(by_place)}.",
            remedy=f"Write the others as name=value: {keyword_only}."
            if keyword_only
            else "Leave the others out.",
        )
    twice = [n for n in positional[: len(by_place)] if n in kwargs]
    if twice:
        return BadRequest(f"{name} was given {twice[0]} twice.", remedy="Give it once.")
    required = [n for n, p in parameters.items() if p.default is p.empty]
    missing = [n for n in required if n not in kwargs and n not in positional[: len(by_place)]]
    return BadRequest(
        f"{name} needs {' and '.join(missing)}.", remedy=f"Write {name}({', '.join(required)})."
    )
