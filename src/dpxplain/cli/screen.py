"""What people see. Results go to stdout; prices, progress, hints and warnings to stderr.

Markup is off everywhere: a group may well be called "[bold]".
"""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import typer
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from rich.status import Status

    from dpxplain.results.preview import Price


class PipeClosed(Exception):
    """Nobody reads our output any more, as in `dpxplain history | head`."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise PipeClosed


OUT = _Console(highlight=False, markup=False, emoji=False)
ERR = _Console(stderr=True, highlight=False, markup=False, emoji=False)


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class _Exportable(Protocol):
    def to_csv(self) -> str: ...


def show(result: object) -> None:
    """A result as people read it."""
    from dpxplain.render.terminal import renderable

    OUT.print(renderable(result))


def show_json(payload: object) -> None:
    """A result as programs read it."""
    typer.echo(json.dumps(_finite(payload), ensure_ascii=False, indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    """JSON has no infinity and no NaN; null stands for both."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show_csv(result: _Exportable) -> None:
    typer.echo(result.to_csv(), nl=False)


def present(result: Any, payload: Callable[[], object], format: Format, truth: Any = None) -> None:
    """A result in the chosen form; for the curator the truth beside it, marked as not private."""
    if truth is not None:
        warn("Not private: true values are shown because of --curator. Do not pass this output on.")
    if format is Format.JSON:
        show_json(payload())
    elif format is Format.CSV:
        show_csv(result if truth is None else truth)
    else:
        show(result)
        if truth is not None:
            OUT.print()
            show(truth)


def note(text: str) -> None:
    ERR.print(text, style="dim")


def warn(text: str) -> None:
    ERR.print(text, style="bold yellow")


def program() -> str:
    """How to call us again: `make demo` runs us from an environment that is not on the path."""
    called = Path(sys.argv[0])
    if called.name != "dpxplain" or shutil.which("dpxplain") is not None:
        return "dpxplain"
    return min(str(called), os.path.relpath(called), key=len)


def suggest(introduction: str, *words: str) -> None:
    """A command of ours to try next, for people only: a script has no use for advice."""
    if ERR.is_terminal and OUT.is_terminal:
        ERR.print(
            Text.assemble((f"{introduction} ", "dim"), (shlex.join([program(), *words]), "cyan")),
            soft_wrap=True,
        )


def amount(rho: float) -> str:
    """ρ to be read and typed back.

    >>> amount(0.30000000000000004), amount(5.0)
    ('0.3', '5')
    """
    return f"{rho:.12g}"


def price_in_words(price: Price) -> str:
    if price.free and not price.rho:
        return "Price: nothing, this answer is prepared, so every why on it is free."
    if price.free:
        return "Price: nothing, this was asked before and its answer is stored."
    if not price.affordable:
        return f"Price: ρ {amount(price.rho)}, more than the {amount(price.remaining)} that is left."
    return (
        f"Price: ρ {amount(price.rho)} of the {amount(price.remaining)} left; "
        f"{amount(price.remaining_after)} will remain."
    )


def approve(price: Price, *, yes: bool, format: Format) -> None:
    """Show the price and, to a person at a terminal, ask.

    A request that is too dear is the ledger's to refuse.
    """
    from dpxplain.cli.exits import Declined

    ERR.print(price_in_words(price))
    settled = price.free or not price.affordable or yes or format is Format.JSON
    if settled or not (sys.stdin.isatty() and ERR.is_terminal):
        return
    if not typer.confirm("Spent budget never comes back. Go ahead?", err=True):
        raise Declined


class Progress:
    """What a session is working on, as a spinner on stderr; silent unless a person watches."""

    def __init__(self) -> None:
        self._status: Status | None = None

    def __call__(self, stage: str) -> None:
        if self._status is not None:
            self._status.update(Text(f"{stage} ..."))

    @contextmanager
    def running(self, stage: str) -> Iterator[None]:
        """Spin while the block runs."""
        if not ERR.is_terminal:
            yield
            return
        with ERR.status(Text(f"{stage} ...")) as self._status:
            try:
                yield
            finally:
                self._status = None
