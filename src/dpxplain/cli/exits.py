"""Errors as text, as JSON, and as an exit code.

An unexpected exception may quote the data, so its text is never shown; --debug shows its type and place.
"""

from __future__ import annotations

import traceback
from pathlib import Path

import typer
from rich.cells import cell_len
from rich.text import Text

from dpxplain.cli.screen import ERR, Declined, emit
from dpxplain.errors import BadRequest, BudgetExhausted, DPXPlainError, InternalError, QueryRefused

OK, INTERNAL, BAD_REQUEST, EXHAUSTED, WARNED, VIOLATED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
BROKEN = BAD_REQUEST  # a ledger that is broken or behind its anchor
PIPE_CLOSED = 141  # what a shell reports for a command whose reader has exited

_MARGIN = "  "


def report(error: BaseException, *, as_json: bool, debug: bool) -> int:
    """Prints the error on stderr and returns the exit code."""
    if isinstance(error, Declined | KeyboardInterrupt | typer.Abort) and as_json:
        emit("interrupted", message=_interruption(error))
        return INTERRUPTED
    if isinstance(error, Declined | KeyboardInterrupt | typer.Abort):
        # At the end of input Typer aborts a prompt, with the cursor still on the prompt's line.
        ERR.print(("\n" if isinstance(error, typer.Abort) else "") + _interruption(error), style="yellow")
        return INTERRUPTED
    ours = _as_dpxplain_error(error)
    where = _place(error) if debug and not isinstance(ours, BadRequest | BudgetExhausted) else ""
    if as_json:
        emit("error", **ours.to_dict() | ({"debug": where} if where else {}))
    else:
        _print_error(ours, where)
    return _code(ours)


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


def _code(error: DPXPlainError) -> int:
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


def _place(error: BaseException) -> str:
    """The type of an error and the file and line that raised it; never its text."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "dpxplain" in Path(frame.filename).parts]
    spots = dict.fromkeys(f"{Path(f.filename).name}:{f.lineno}" for f in (*ours[-1:], *frames[-1:]))
    return f"{type(error).__name__} at {', '.join(spots)}"
