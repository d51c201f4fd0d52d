"""Printing: results to stdout; progress, hints, warnings and errors to stderr.

Markup is off everywhere, because a group may be called "[bold]". With --json, stdout is one JSON document and
stderr has one JSON object per line, whose "kind" says what it is.
"""

from __future__ import annotations

import io
import json
import logging
import math
import os
import shlex
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar, copy_context
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from dpxplain.errors import BadRequest, BudgetExhausted, DPXPlainError, InternalError, QueryRefused
from dpxplain.model.display import as_json

if TYPE_CHECKING:
    from rich.status import Status

    from dpxplain.words.prices import Price

# -- Output ------------------------------------------------------------------------------------------------


class PipeClosed(Exception):
    """The reader of stdout has exited, as in `dpxplain history | head`."""


class Declined(Exception):
    """The user was asked whether to spend, and said no."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise PipeClosed


OUT = _Console(highlight=False, markup=False, emoji=False)
ERR = _Console(stderr=True, highlight=False, markup=False, emoji=False)


_json_streams = ContextVar("json_streams", default=False)


@contextmanager
def json_streams(on: bool) -> Iterator[None]:
    """Context manager: if `on`, output to stderr is JSON while the block runs."""
    before = _json_streams.set(on)
    try:
        yield
    finally:
        _json_streams.reset(before)


def is_json() -> bool:
    """Whether output to stderr is JSON."""
    return _json_streams.get()


def emit(kind: str, **fields: object) -> None:
    """Prints a JSON object on a line of stderr."""
    ERR.out(json.dumps(_finite({"kind": kind} | fields), ensure_ascii=False), highlight=False)


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def show(result: object, *, notes: bool = False) -> None:
    """Prints a result as a table, with its notes if they are asked for."""
    from dpxplain.render.terminal import renderable

    OUT.print(renderable(result, notes=notes, hint="More: --notes"))


def show_json(payload: object) -> None:
    """Prints a result as JSON."""
    typer.echo(json.dumps(_finite(payload), ensure_ascii=False, indent=2, allow_nan=False))


@contextmanager
def help_as_json(is_json: bool) -> Iterator[None]:
    """Prints the help text that the block would print on stdout as JSON instead."""
    if not is_json:
        yield
        return
    text = io.StringIO()
    with redirect_stdout(text):
        yield
    show_json({"kind": "help", "text": text.getvalue()})


def fields_of(record: object, names: str) -> dict[str, Any]:
    """The named fields of a record without a list of public fields. Fields added later are not printed."""
    return {name: getattr(record, name) for name in names.split()}


def _finite(value: Any) -> Any:
    """The value as plain JSON, with null for infinity and NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else _finite(as_json(value))


def present(
    result: Any,
    payload: Callable[[], object],
    format: Format,
    truth: Any = None,
    *,
    notes: bool = False,
) -> None:
    """Prints a result in the chosen format; with `truth`, true values beside it and a warning."""
    if truth is not None:
        warn("Not private: true values are shown because of --curator. Do not pass this output on.")
    if format is Format.JSON:
        show_json(payload())
    elif format is Format.CSV:
        typer.echo((result if truth is None else truth).to_csv(), nl=False)
    else:
        show(result, notes=notes)
        if truth is not None:
            OUT.print()
            show(truth)


def note(text: str) -> None:
    if is_json():
        emit("note", message=text)
    else:
        ERR.print(text, style="dim")


class _Notes(logging.Handler):
    """Shows log records as notes of the running command, whichever thread they come from."""

    def __init__(self) -> None:
        super().__init__()
        self._context = copy_context()

    def emit(self, record: logging.LogRecord) -> None:
        self._context.copy().run(note, record.getMessage())


@contextmanager
def log_as_notes() -> Iterator[None]:
    """Prints what the library logs as notes while the block runs."""
    handler, logger = _Notes(), logging.getLogger("dpxplain")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def warn(text: str) -> None:
    if is_json():
        emit("warning", message=text)
    else:
        ERR.print(text, style="bold yellow")


def program() -> str:
    """The command to type; a path if `dpxplain` is not on PATH, as under `make demo`."""
    executable = Path(sys.argv[0])
    if executable.name != "dpxplain" or shutil.which("dpxplain") is not None:
        return "dpxplain"
    return min(str(executable), os.path.relpath(executable), key=len)


def suggest(introduction: str, *words: str) -> None:
    """Prints a command to try next, at a terminal only."""
    if ERR.is_terminal and OUT.is_terminal and not is_json():
        ERR.print(
            Text.assemble((f"{introduction} ", "dim"), (shlex.join([program(), *words]), "cyan")),
            soft_wrap=True,
        )


def amount(rho: float) -> str:
    """ρ as text, short and exact enough to be typed back.

    >>> amount(0.30000000000000004), amount(5.0)
    ('0.3', '5')
    """
    return f"{rho:.12g}"


def price_in_words(price: Price) -> str:
    """The price in ρ and in ε, and the budget left after it."""
    from dpxplain.words.prices import epsilon_at

    if price.free and not price.rho:
        return "Price: free, this answer is prepared."
    if price.free:
        return "Price: free, this was asked before and its answer is stored."
    in_epsilon = f"ρ {amount(price.rho)} ({epsilon_at(price.epsilon, price.delta)})"
    if not price.affordable:
        return f"Price: {in_epsilon}, more than the ρ {amount(price.remaining)} left."
    return (
        f"Price: {in_epsilon} of the ρ {amount(price.remaining)} left. "
        f"ρ {amount(price.remaining_after)} will remain."
    )


class Progress:
    """The session's current stage on stderr: a spinner at a terminal, a line per stage with --json."""

    def __init__(self) -> None:
        self._status: Status | None = None
        self._stage = ""

    def __call__(self, stage: str) -> None:
        if is_json():
            self._emit(stage)
        elif self._status is not None:
            self._status.update(Text(f"{stage} ..."))

    @contextmanager
    def running(self, stage: str) -> Iterator[None]:
        """Spins while the block runs."""
        if is_json():
            self._emit(stage)
        if is_json() or not ERR.is_terminal:
            yield
            return
        with ERR.status(Text(f"{stage} ...")) as self._status:
            try:
                yield
            finally:
                self._status = None

    def _emit(self, stage: str) -> None:
        """Prints the stage as JSON, unless it is the one printed last."""
        if stage != self._stage:
            self._stage = stage
            emit("progress", stage=stage)


# -- Errors and exit codes ---------------------------------------------------------------------------------
#
# An unexpected exception may quote the data, so its text is never shown; --debug shows its type and place.

OK, INTERNAL, BAD_REQUEST, EXHAUSTED, WARNED, VIOLATED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
BROKEN = BAD_REQUEST  # a ledger that is broken or behind its anchor
PIPE_CLOSED = 141  # what a shell reports for a command whose reader has exited

_MARGIN = "  "


def report(error: BaseException, *, as_json: bool, debug: bool) -> int:
    """Prints the error on stderr and returns the exit code."""
    if isinstance(error, Declined | KeyboardInterrupt | typer.Abort):
        if as_json:
            emit("interrupted", message=_interruption(error))
        else:
            # At the end of input Typer aborts a prompt, with the cursor still on the prompt's line.
            ERR.print(("\n" if isinstance(error, typer.Abort) else "") + _interruption(error), style="yellow")
        return INTERRUPTED
    ours = _as_dpxplain_error(error)
    where = _error_place(error) if debug and not isinstance(ours, BadRequest | BudgetExhausted) else ""
    if as_json:
        emit("error", **ours.to_dict() | ({"debug": where} if where else {}))
    else:
        _print_error(ours, where)
    return _exit_code(ours)


def _as_dpxplain_error(error: BaseException) -> DPXPlainError:
    if isinstance(error, DPXPlainError):
        return error
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "dpxplain"
        message = error.format_message()
        return BadRequest(message, remedy=_usage_remedy(message, command) or f"See: {command} --help")
    return InternalError(
        "DPXPlain failed unexpectedly. The error message is not shown, because it could quote the data.",
        remedy="Add --debug to see the type of the error and where it happened, and report both.",
    )


def _usage_remedy(message: str, command: str) -> str:
    """The remedy for an option in ε where only ρ is accepted: ε is for requests."""
    mistake, _, offered = message.partition("(")
    if "--eps" in mistake and "--epsilon" not in offered:
        return (
            "Budgets and limits are given as --rho, because ρ adds up over requests and ε does not. "
            "ε = 1 at δ = 1e-6 is --rho 0.0243. dpxplain budget shows both."
        )
    return ""


def _exit_code(error: DPXPlainError) -> int:
    if isinstance(error, BudgetExhausted):
        return EXHAUSTED
    return BAD_REQUEST if isinstance(error, BadRequest) else INTERNAL


def _print_error(error: DPXPlainError, where: str) -> None:
    ERR.print(Text.assemble(("Error: ", "bold red"), error.problem))
    if isinstance(error, QueryRefused) and error.start is not None:
        ERR.print(pointer(error, ERR.width), soft_wrap=True)
    if error.remedy:
        ERR.print(error.remedy)
    if where:
        ERR.print(where, style="dim")


def pointer(error: QueryRefused, width: int) -> Text:
    """The line of the SQL with carets under the words that the error is about."""
    assert error.start is not None
    assert error.line is not None
    assert error.column is not None
    # A tab or other unprintable character becomes one space, so that the caret stays aligned.
    line = "".join(c if c.isprintable() else " " for c in error.sql.split("\n")[error.line - 1])
    start = min(error.column - 1, len(line))
    length = max(1, (error.end or error.start + 1) - error.start)
    end = max(start + 1, min(start + length, len(line)))
    number = f"{error.line} | " if "\n" in error.sql.strip() else ""
    room = max(20, width - len(_MARGIN) - len(number) - 2)
    # A long line is cut to the part around the caret.
    first = 0 if cell_len(line) <= room else max(0, min(start - room // 3, len(line) - room))
    excerpt = line[first : first + room]
    indent = " " * (len(number) + cell_len(line[first:start]))
    carets = "^" * max(1, min(cell_len(line[start:end]), room - cell_len(line[first:start])))
    return Text.assemble(_MARGIN, (number, "dim"), excerpt, "\n", _MARGIN, indent, (carets, "bold red"))


def _interruption(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted. If the request had begun, its charge stays; see dpxplain history."
    return "Cancelled. Nothing was spent."


def _error_place(error: BaseException) -> str:
    """The type of an error and the file and line that raised it; never its text."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "dpxplain" in Path(frame.filename).parts]
    spots = dict.fromkeys(f"{Path(f.filename).name}:{f.lineno}" for f in (*ours[-1:], *frames[-1:]))
    return f"{type(error).__name__} at {', '.join(spots)}"
