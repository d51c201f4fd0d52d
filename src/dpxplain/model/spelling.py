"""What a mistyped word may have meant, for the remedies of errors."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST = 200  # comparing takes the square of the length, and what is typed may be of any length


def similar(word: str, candidates: Iterable[str], n: int = 1) -> list[str]:
    """Up to `n` candidates that look like the word, in whatever case; the most similar one first.

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
