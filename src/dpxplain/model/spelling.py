"""Unknown words in a declaration, a configuration or a request, and what they may have meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel

_LONGEST = 200  # comparing takes time with the square of the length, and a word may have any length


def similar(word: str, candidates: Iterable[str], n: int = 1) -> list[str]:
    """Up to `n` candidates that look like the word, ignoring case; the most similar one first.

    >>> similar("jfk", ["EWR", "JFK"]), similar("neighbors", ["rho", "neighbours"]), similar("x", ["rho"])
    (['JFK'], ['neighbours'], [])
    """
    folded: dict[str, str] = {}
    for candidate in candidates:
        folded.setdefault(candidate.casefold(), candidate)
    return [folded[near] for near in get_close_matches(word[:_LONGEST].casefold(), folded, n=n)]


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """`Did you mean ...?` if a candidate is similar, else nothing.

    >>> did_you_mean("jfk", ["EWR", "JFK"]), did_you_mean("x", ["EWR"])
    ("Did you mean 'JFK'?", '')
    """
    near = similar(word, candidates)
    return f"Did you mean {near[0]!r}?" if near else ""


# Words from other tools, for keys that are spelt differently here.
_OTHER_WORDS = {
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
    keys = _known(model, path)
    other = _OTHER_WORDS.get(last.casefold())
    if near := [other] if other in keys else similar(last, keys):
        return f"is not a known key (did you mean {near[0]!r}?)"
    return f"is not a known key (known keys: {', '.join(keys)})" if keys else "is not a known key"


def _known(model: type[BaseModel], path: Iterable[str]) -> list[str]:
    """The keys of the model at the end of the path; none if the path leaves the models."""
    current: type[BaseModel] | None = model
    names = iter(path)
    for name in names:
        field = None if current is None else current.model_fields.get(name)
        if field is None:
            return []
        if get_origin(field.annotation) is dict:
            next(names, None)  # the dict's own key
        current = next(_models(field.annotation), None)
    return [] if current is None else [n for n, f in current.model_fields.items() if not f.exclude]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a type, such as the Column of dict[str, Column]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
