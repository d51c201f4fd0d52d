"""Round numbers along an axis, and their labels as D3 and Vega write them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise


def ticks(low: float, high: float, count: int) -> list[float]:
    """About `count` multiples of 1, 2 or 5 times a power of ten.

    >>> ticks(-0.02, 0.46, 6), ticks(0.0, 2600.0, 6)
    ([0.0, 0.1, 0.2, 0.3, 0.4], [0.0, 500.0, 1000.0, 1500.0, 2000.0, 2500.0])
    """
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(
        (f for f, least in ((10, 50), (5, 10), (2, 2)) if rough / power >= math.sqrt(least)), 1
    )
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # Through its digits: 3 · 0.1 is not 0.3.
    return [float(f"{number * step:.12g}") + 0.0 for number in range(first, last + 1)]


def tick_labels(values: Sequence[float], form: str | None = None) -> list[str]:
    """Labels by one of D3's formats that charts use; without one, with the decimals that the step needs.

    >>> tick_labels([0.0, 0.05, 0.1]), tick_labels([-0.5, 1.0], ".3~%"), tick_labels([1, 4077], ",d")
    (['0.00', '0.05', '0.10'], ['−50%', '100%'], ['1', '4,077'])
    >>> tick_labels([-1500.0, 0.0, 0.25], ",.4~r")
    ['−1,500', '0', '0.25']
    """
    match form:
        case ".3~%":
            texts = [f"{_trimmed(f'{value * 100:.3f}')}%" for value in values]
        case ",.4~r":
            texts = [_trimmed(f"{value:,.{_decimals(value, 4)}f}") for value in values]
        case ",d":
            texts = [f"{round(value):,}" for value in values]
        case _:
            step = min((b - a for a, b in pairwise(values)), default=1.0)
            decimals = max(0, -math.floor(math.log10(step) + 1e-9))
            texts = [f"{value:,.{decimals}f}" for value in values]
    return [text.replace("-", "−") for text in texts]


def _decimals(value: float, digits: int) -> int:
    return max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
