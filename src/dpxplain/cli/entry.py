"""Runs one command.

Exit codes: 0 ok, 1 internal error, 2 bad request, 3 budget exhausted; 130 interrupted, 141 reader gone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import NoReturn

from dpxplain.cli.exits import INTERNAL, INTERRUPTED, PIPE_CLOSED, PipeClosed, report
from dpxplain.errors import BadRequest


def main() -> NoReturn:
    """The `dpxplain` command."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal without ρ in its alphabet shows a question mark rather than an error.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    code = run(sys.argv[1:])
    if code == PIPE_CLOSED:
        # The reader has left; without this Python would complain while flushing at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Nothing that a command raises gets past here."""
    from typer.main import get_command

    from dpxplain.cli.main import app

    # Taken out wherever it stands, because people add it at the end of a command that just failed.
    debug = "--debug" in arguments
    words = [word for word in arguments if word != "--debug"]
    as_json = _wants_json(words)
    try:
        _check_text(words)
        outcome = get_command(app).main(words, prog_name="dpxplain", standalone_mode=False)
        sys.stdout.flush()
    except (PipeClosed, BrokenPipeError, SystemExit):  # the last is how Typer meets a closed pipe
        return PIPE_CLOSED
    except (Exception, KeyboardInterrupt) as error:
        return _reported(error, as_json, debug)
    if outcome == INTERRUPTED:  # how Typer passes Ctrl-C on
        return _reported(KeyboardInterrupt(), as_json, debug)
    return outcome if isinstance(outcome, int) else 0


def _check_text(words: Sequence[str]) -> None:
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        raise BadRequest(
            "The command line is not valid UTF-8.", remedy="Check the terminal's encoding."
        ) from None


def _reported(error: BaseException, as_json: bool, debug: bool) -> int:
    try:
        return report(error, as_json=as_json, debug=debug)
    except Exception:  # say, stderr is closed: better silent than a traceback that quotes the first error
        return INTERNAL


def _wants_json(words: Sequence[str]) -> bool:
    """Whether errors go out as JSON; asked before parsing, since parsing may be what fails."""
    return "--json" in words or "--format=json" in words or ("--format", "json") in pairwise(words)
