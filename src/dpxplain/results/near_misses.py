"""Finds undeclared values that look like a declared one: by case, spaces, accents, .0 or one letter."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_LONG_ENOUGH = 4  # codes of three letters differ by one letter on purpose


@dataclass(frozen=True)
class NearMiss:
    """An undeclared value beside the declared one that it resembles."""

    text: str
    declared: str
    difference: str


def near_misses(texts: Iterable[str], declared: Iterable[str]) -> list[NearMiss]:
    """Those of the texts that resemble a declared value, with the likeliest reason.

    >>> misses = near_misses(["Ewr", "7.0", "Bosten"], ["EWR", "7", "Boston"])
    >>> [(miss.declared, miss.difference) for miss in misses]
    [('EWR', 'upper and lower case'), ('7', 'how the number is written'), ('Boston', 'one letter')]
    """
    values = list(declared)
    plain = _by(values, _plain)
    numbers = _by(values, _number)
    misses = []
    for text in texts:
        same = plain.get(_plain(text)) or numbers.get(_number(text) or "")
        if same is not None:
            misses.append(NearMiss(text, same, _difference(text, same)))
        else:
            typo = next((value for value in values if _is_typo(_plain(text), _plain(value))), None)
            if typo is not None:
                misses.append(NearMiss(text, typo, "one letter"))
    return misses


def _by(values: list[str], form: Callable[[str], str | None]) -> dict[str, str]:
    """The values by their form; those that have none are left out."""
    return {key: value for value in reversed(values) if (key := form(value))}


def _plain(text: str) -> str:
    """Without case, accents, and the difference between spaces, hyphens and underscores."""
    letters = unicodedata.normalize("NFKD", text).casefold()
    kept = "".join(c for c in letters if not unicodedata.combining(c))
    return " ".join(kept.replace("_", " ").replace("-", " ").split())


def _number(text: str) -> str | None:
    try:
        return repr(float(text))
    except ValueError:
        return None


def _difference(text: str, declared: str) -> str:
    if text.strip() == declared.strip():
        return "spaces around it"
    if text.strip().casefold() == declared.strip().casefold():
        return "upper and lower case"
    if _number(text) is not None and _number(text) == _number(declared):
        return "how the number is written"
    folded = unicodedata.normalize("NFKD", text).casefold()
    if any(map(unicodedata.combining, folded)) != any(
        map(unicodedata.combining, unicodedata.normalize("NFKD", declared))
    ):
        return "accents"
    return "spaces, hyphens or underscores"


def _is_typo(text: str, value: str) -> bool:
    """Whether one letter was changed, added, left out, or swapped with the next."""
    if min(len(text), len(value)) < _LONG_ENOUGH or abs(len(text) - len(value)) > 1:
        return False
    if text.replace(".", "").isdigit():
        return False
    start = 0
    while start < min(len(text), len(value)) and text[start] == value[start]:
        start += 1
    a, b = text[start:], value[start:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[1::-1] == b[:2] and a[2:] == b[2:])
