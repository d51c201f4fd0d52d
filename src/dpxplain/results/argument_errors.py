"""A sentence with the remedy for arguments that a public function does not take, or lacks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from dpxplain.errors import BadRequest
from dpxplain.model.hardening import plain_number
from dpxplain.model.spelling import did_you_mean
from dpxplain.privacy.accounting import rho_within

P = ParamSpec("P")
T = TypeVar("T")

_EPSILONS = ("epsilon", "eps", "ε")
_SMALLEST, _LARGEST = 1e-3, 1e3  # an ε beyond these was hardly meant


def checked_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """The function, with a refusal that helps instead of Python's TypeError."""
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
        if keyword in _EPSILONS and "rho" in parameters:
            return _epsilon(name, kwargs[keyword], args[0])
        if keyword not in parameters:
            listed = f"It takes {', '.join(parameters)}."
            return BadRequest(
                f"{name} takes no argument {keyword!r}.", remedy=did_you_mean(keyword, parameters) or listed
            )
    if len(by_place) > len(positional):
        keyword_only = ", ".join(n for n in parameters if n not in positional)
        return BadRequest(
            f"{name} takes at most {len(positional)} arguments without their name, not {len(by_place)}.",
            remedy=f"Write the others as name=value: {keyword_only}."
            if keyword_only
            else "Leave out the others.",
        )
    twice = [n for n in positional[: len(by_place)] if n in kwargs]
    if twice:
        return BadRequest(f"{name} was given {twice[0]} twice.", remedy="Give it once.")
    required = [n for n, p in parameters.items() if p.default is p.empty]
    missing = [n for n in required if n not in kwargs and n not in positional[: len(by_place)]]
    if "rho" in missing:
        return BadRequest(
            f"{name} needs rho, the privacy budget to spend.",
            remedy=f"Pass rho=0.1, say; {_free_look(name)} tells what that buys, and spends nothing.",
        )
    return BadRequest(
        f"{name} needs {' and '.join(missing)}.", remedy=f"Write {name}({', '.join(required)})."
    )


def _free_look(name: str) -> str:
    return {"query": "preview(sql, rho=0.1)", "prepare": "preview_prepare(rho=0.1)"}.get(name, "a preview")


def _epsilon(name: str, epsilon: object, owner: Any) -> BadRequest:
    """Refuses ε, with the ρ that comes to it at the declared δ."""
    delta = owner._dataset.schema.privacy.delta
    number = plain_number(epsilon)
    target = number if number is not None and _SMALLEST <= number <= _LARGEST else 1.0
    return BadRequest(
        f"{name} takes rho (zero-concentrated differential privacy), not epsilon: ρ adds up over requests, "
        "ε does not.",
        remedy=f"Pass rho={rho_within(target, delta):g}, which is ε = {target:g} at the schema's "
        f"δ = {delta:g}; the budget shows both.",
    )
