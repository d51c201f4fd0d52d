"""Random damage to JSON-like values, texts and bytes."""

from __future__ import annotations

import copy
import random
from typing import Any

ODD: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2**31,
        2**53,
        2**63,
        2**64,
        -(2**63),
        10**30,
        0.5,
        -0.0,
        1e-320,
        1e308,
        -1e308,
    ),
    *(
        float("inf"),
        float("nan"),
        "",
        " ",
        "x",
        "0",
        "NULL",
        "a" * 3000,
        "\x00",
        "\u2028",
        "é",
        "'",
        '"',
        "🙂",
        "%s{0}",
    ),
    *([], {}, [None], [[]], [0, 0], ["a", "a"], {"": 0}, {"a": {}}, "2025-02-30", "9999-12-31", "0001-01-01"),
    *("SELECT 1", "inf", "-1e999", "../../x", "http://x/", [1] * 50, "9" * 400, "1e400", "[", "\\"),
]


def mutated(value: Any, rng: random.Random, changes: int = 2) -> Any:
    """A copy of a value made of dicts and lists, with a few parts replaced, removed, renamed or added."""
    result = copy.deepcopy(value)
    for _ in range(rng.randint(1, changes)):
        places = list(_places(result))
        if not places:
            return rng.choice(ODD)
        holder, key = rng.choice(places)
        match rng.randrange(9):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[rng.choice([f"{key}x", "", "Name", "rho", "values", "\x00"])] = holder.pop(key)
            case 2 if isinstance(holder, dict):
                holder[rng.choice(["extra", "rho", "bounds", "values", "edges", "null", "of"])] = rng.choice(
                    ODD
                )
            case 3 if isinstance(holder, list):
                holder.insert(rng.randint(0, len(holder)), rng.choice([rng.choice(ODD), holder[key]]))
            case 4:
                holder[key] = copy.deepcopy(_get(rng.choice(places)))  # what stands at another place
            case 5 | 6:
                holder[key] = copy.deepcopy(rng.choice(ODD))
            case _:
                holder[key] = _tweaked(holder[key], rng)
    return result


def _tweaked(value: Any, rng: random.Random) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice(
            [-value, value + 1, value - 1, value * 10**6, value / 7, value * 1e-9, type(value)(0)]
        )
    if isinstance(value, str):
        return garbled(value, rng) if rng.random() < 0.5 else value.swapcase()
    if isinstance(value, list):
        return rng.choice([value[::-1], value * 2, value[:1]])
    return value


def _get(place: tuple[Any, Any]) -> Any:
    return place[0][place[1]]


def _places(value: Any) -> Any:
    parts: Any = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    for key, part in list(parts):
        yield value, key
        yield from _places(part)


def garbled(text: str, rng: random.Random) -> str:
    """A text with characters replaced, doubled and cut."""
    letters = list(text)
    for _ in range(rng.randint(1, 5)):
        i = rng.randrange(len(letters) + 1)
        match rng.randrange(4):
            case 0:
                letters[i : i + 1] = [rng.choice("[]{}=\"'.,\n #\\0e-_\u00e9\x00\u2028🙂")]
            case 1:
                letters[i:i] = letters[i : i + rng.randint(1, 30)]
            case 2:
                letters[i : i + rng.randint(1, 10)] = []
            case 3:
                j = rng.randrange(len(letters) + 1)
                letters[i:i] = letters[j : j + rng.randint(1, 20)]
    return "".join(letters)


def with_flipped_bits(content: bytes, rng: random.Random, most: int = 8) -> bytes:
    """The bytes with one or several bits flipped, one in two times close together."""
    damaged = bytearray(content)
    start = rng.randrange(len(damaged))
    near = rng.random() < 0.5
    for _ in range(rng.choice([1, 1, 1, most])):
        place = min(len(damaged) - 1, start + rng.randrange(64)) if near else rng.randrange(len(damaged))
        damaged[place] ^= 1 << rng.randrange(8)
    return bytes(damaged)
