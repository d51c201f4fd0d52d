"""Protects what sensitivities follow from, so that nothing changes between the check of a request and its
measurement; and suggests corrections for unknown words.

Sensitivities follow from the schema, the query and the numbers an analyst passes. `plain` strips subclasses
of built-in types, `Frozen` protects result objects and `Declared` the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn, get_args, get_origin

from pydantic import BaseModel, ConfigDict

from dpxplain.errors import InternalError
from dpxplain.model.process import cached_property

# -- Fixed values ------------------------------------------------------------------------------------------

UNCHANGEABLE = "A declared schema cannot be changed."


def plain(value: Any) -> Any:
    """The value as an exact `bool`, `int`, `float` or `str`; a value of any other type is returned unchanged.

    A subclass can compare as one number and compute as another, and differ from call to call.

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
        value = float(number)
    except OverflowError:
        return None
    return value if value - value == 0.0 else None


def plain_numbers(values: Any) -> tuple[float, ...] | None:
    """The finite numbers of a list or tuple, iterated once; None for anything else."""
    if not issubclass(type(values), tuple | list):
        return None
    numbers = tuple(plain_number(value) for value in values)
    return None if None in numbers else numbers  # type: ignore[return-value]


def plain_texts(values: Any) -> tuple[str, ...] | None:
    """The texts as a tuple, iterated once; None for anything else. A single text gives a tuple of one.

    >>> plain_texts("age"), plain_texts({"age": 1}), plain_texts([1])
    (('age',), ('age',), None)
    """
    if not isinstance(values, Iterable):
        return None
    texts = (plain(values),) if isinstance(values, str) else tuple(map(plain, values))
    return texts if all(type(text) is str for text in texts) else None


def require_exact_numbers(*values: object) -> None:
    """Raises unless every value is an exact `int` or `float`: the last check before noise is drawn."""
    if any(type(value) not in (int, float) for value in values):
        raise InternalError("A release was planned with something that is not quite a number.")


class Frozen:
    """Base of the objects an analyst holds: attributes cannot be set once `freeze` was called.

    They say which query, groups and weights a release is about, so they must not change between being
    checked and being measured.
    """

    _frozen = False

    def freeze(self) -> None:
        object.__setattr__(self, "_frozen", True)

    def __setattr__(self, name: str, value: object) -> None:
        if self._frozen:
            raise AttributeError(f"{type(self).__name__} cannot be changed.")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed.")


class Declared(BaseModel):
    """Base of the schema's models: immutable where pydantic's `frozen` is not.

    `frozen` still lets callers assign a cached property and call `__init__` or `__setstate__` again. A caller
    who could change a declaration could lower the noise.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, ignored_types=(cached_property,))

    def __init__(self, /, **declared: Any) -> None:
        self._require_uninitialised()
        super().__init__(**declared)

    # As with pydantic's own __init__, nested models are then validated without calling it.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def __setstate__(self, state: dict[Any, Any]) -> None:
        self._require_uninitialised()
        super().__setstate__(state)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(UNCHANGEABLE)

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(UNCHANGEABLE)

    def _require_uninitialised(self) -> None:
        if vars(self):
            raise TypeError(UNCHANGEABLE)


# -- Spelling ----------------------------------------------------------------------------------------------
#
# Unknown words in a declaration, a configuration or a request, and what they may have meant.

_LONGEST_WORD = 200  # comparing takes time with the square of the length, and a word may have any length


def similar(word: str, candidates: Iterable[str], n: int = 1) -> list[str]:
    """Up to `n` candidates that look like the word, ignoring case; the most similar one first.

    >>> similar("jfk", ["EWR", "JFK"]), similar("neighbors", ["rho", "neighbours"]), similar("x", ["rho"])
    (['JFK'], ['neighbours'], [])
    """
    by_casefold: dict[str, str] = {}
    for candidate in candidates:
        by_casefold.setdefault(candidate.casefold(), candidate)
    return [
        by_casefold[near] for near in get_close_matches(word[:_LONGEST_WORD].casefold(), by_casefold, n=n)
    ]


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """`Did you mean ...?` if a candidate is similar, else nothing.

    >>> did_you_mean("jfk", ["EWR", "JFK"]), did_you_mean("x", ["EWR"])
    ("Did you mean 'JFK'?", '')
    """
    suggestions = similar(word, candidates)
    return f"Did you mean {suggestions[0]!r}?" if suggestions else ""


# Keys that other tools use, and the name of the same key here.
_SYNONYMS = {
    "epsilon": "rho",
    "budget": "rho",
    "categories": "values",
    "domain": "values",
    "bins": "edges",
    "range": "bounds",
    "lower": "bounds",
    "upper": "bounds",
    "min": "bounds",
    "max": "bounds",
    "path": "source",
    "file": "source",
}


def unknown_key(model: type[BaseModel], place: Sequence[int | str]) -> str:
    """The message about the last key of `place`, in the model that the other keys lead to.

    >>> from dpxplain.model.schema import Schema
    >>> unknown_key(Schema, ("privacy", "neighbors"))
    "is not a known key (did you mean 'neighbours'?)"
    >>> unknown_key(Schema, ("columns", "age", "bins"))
    "is not a known key (did you mean 'edges'?)"
    """
    *path, last = map(str, place)
    keys = _keys_at(model, path)
    other = _SYNONYMS.get(last.casefold())
    if suggestions := [other] if other in keys else similar(last, keys):
        return f"is not a known key (did you mean {suggestions[0]!r}?)"
    return f"is not a known key (known keys: {', '.join(keys)})" if keys else "is not a known key"


def _keys_at(model: type[BaseModel], path: Iterable[str]) -> list[str]:
    """The keys of the model at the end of the path; none if the path leaves the models."""
    current: type[BaseModel] | None = model
    names = iter(path)
    for name in names:
        field = None if current is None else current.model_fields.get(name)
        if field is None:
            return []
        if get_origin(field.annotation) is dict:
            next(names, None)  # the dict's own key
        current = next(_models_in(field.annotation), None)
    return [] if current is None else [n for n, f in current.model_fields.items() if not f.exclude]


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a type, such as the Column of dict[str, Column]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
