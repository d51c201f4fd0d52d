"""Completions for the Tab key: public words only, read from the schema and the ledger.

On an error there are no completions, because a message would appear in the middle of the command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from dpxplain.model.schema import Schema
    from dpxplain.results.answer import Answer
    from dpxplain.results.answers import Answers

DEFAULT_SCHEMA = "dpxplain.toml"
_NEEDS_NO_QUOTES = re.compile(r"[\w.+-]+")


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    """The groups of the answer that the command would be about, also by the labels of their values."""
    with suppress(Exception), _answer(ctx) as answer:
        return _beginning(incomplete, [*(row.label for row in answer), *answer.groups.value_labels])
    return []


def complete_aggregate(ctx: typer.Context, incomplete: str) -> list[str]:
    from dpxplain.results.answers import Answers

    with suppress(Exception), _answer(ctx) as answer:
        return _beginning(incomplete, answer.names if isinstance(answer, Answers) else [answer.value_name])
    return []


def complete_columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Columns to explain with; after a comma, one more."""
    before, comma, word = incomplete.rpartition(",")
    with suppress(Exception):
        names = [name for name in _schema(_schema_file(ctx)).discrete() if name not in before.split(",")]
        return [f"{before}{comma}{name}" for name in _beginning(word, names)]
    return []


def complete_example(incomplete: str) -> list[str]:
    return _beginning(incomplete, ["adult"])


def _beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    """The words with this beginning, except those that the shell would split."""
    return [word for word in words if word.startswith(incomplete) and _NEEDS_NO_QUOTES.fullmatch(word)]


def _schema_file(ctx: typer.Context) -> Path:
    from dpxplain.datasets import path as bundled

    example = ctx.params.get("example")
    return Path(ctx.params.get("schema") or (bundled(f"{example}.toml") if example else DEFAULT_SCHEMA))


def _schema(file: Path) -> Schema:
    from dpxplain.engines.public_tables import with_public_tables
    from dpxplain.model.schema import Schema

    return with_public_tables(Schema.load(file), file.parent)


@contextmanager
def _answer(ctx: typer.Context) -> Iterator[Answer | Answers]:
    from dpxplain.cli.read_only_workspace import read_only_session

    file = _schema_file(ctx)
    with read_only_session(_schema(file), file.parent, ctx.params.get("workspace")) as session:
        yield session.answer(ctx.params.get("answer"))
