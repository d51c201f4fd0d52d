"""The command line: commands over Session, with results on stdout and everything else on stderr.

command_line         all commands by name; runs one, and turns whatever it raises into a sentence and a code
ask_commands         query, why, preview, prepare, compute, explain, ratio, story, budget, history, quality,
                     discover
demo                 demo, sample, experiment
schema_commands      schema init, check, tune; data; schema_draft and metadata write the drafted TOML
admin_commands       token, allow, serve
ledger_commands      ledger create, status, backup, restore, declare-loss; audit show, verify, anchor, privacy
options              names, meaning and grouping of the options, and what the shell offers after a Tab
workspace            from options and words to a session, a question and a priced request
read_only_workspace  opens a workspace without the data
screen               printed results, progress and notes; errors as sentences, JSON and exit codes
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

# Imports create hundreds of thousands of objects that live to the end. Searching them for garbage after every
# 700 allocations takes an eighth of a command's time.
_ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000


def main() -> NoReturn:
    """The `dpxplain` command."""
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    # Pydantic would read the metadata of every installed package to find plugins for itself.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from dpxplain.cli.command_line import main

    code = main(sys.argv[1:])
    if "duckdb" not in sys.modules:  # otherwise its binding would report every remaining object as a leak
        gc.freeze()  # the interpreter need not search the remaining objects at exit
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code; never raises."""
    from dpxplain.cli.command_line import run

    return run(arguments)


__all__ = ["main", "run"]
