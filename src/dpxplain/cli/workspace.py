"""From options to a session: with the data when something will be measured, without when nothing can be."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpxplain.cli.screen import Progress
from dpxplain.errors import BadRequest, SchemaError

if TYPE_CHECKING:
    from dpxplain.model.schema import Schema
    from dpxplain.session import Session

DEFAULT_SCHEMA = "dpxplain.toml"
DEFAULT_WORKSPACE = ".dpxplain"


@dataclass(frozen=True)
class Place:
    """Where the data set, its declaration and its workspace are, as said on the command line."""

    data: str | None
    schema: str | None
    example: str | None
    workspace: str

    @cached_property
    def server(self) -> str | None:
        """The address, if the data set is at a server: --data https://host/data-set."""
        from dpxplain.session import is_address

        if not is_address(self.data):
            return None
        if self.schema is not None or self.example is not None:
            raise BadRequest(
                "A data set at a server comes with the server's own schema.",
                remedy="Leave out --schema and --example (also as DPXPLAIN_SCHEMA).",
            )
        return self.data

    @cached_property
    def schema_file(self) -> Path:
        from dpxplain.datasets import path as bundled

        if self.example is not None:
            if self.schema is not None or self.data is not None:
                raise BadRequest(
                    "--example comes with its own data and schema.",
                    remedy="Leave out --example, or --data and --schema (also as DPXPLAIN_DATA and _SCHEMA).",
                )
            return bundled(f"{self.example}.toml")
        if self.schema is None and not Path(DEFAULT_SCHEMA).exists():
            raise SchemaError(
                f"No schema was named, and there is no {DEFAULT_SCHEMA} here.",
                remedy="Pass --schema FILE.toml (or set DPXPLAIN_SCHEMA), draft one with: dpxplain schema "
                "init DATA_FILE, or try the bundled data with --example adult.",
            )
        return Path(self.schema or DEFAULT_SCHEMA)

    @cached_property
    def declared(self) -> Schema:
        from dpxplain.model.schema import Schema

        if self.server is not None:
            with self.recalling() as session:
                return session.schema
        return Schema.load(self.schema_file)

    @property
    def source(self) -> str | Path | None:
        """The data: as given, or where the schema says, which is relative to the schema's own folder."""
        if self.data is not None:
            return self.data
        named = self.declared.table.source
        return None if named is None else self.schema_file.parent / named

    @property
    def words(self) -> list[str]:
        """The same place on another command line, for commands that are suggested."""
        named = {"--example": self.example, "--schema": self.schema, "--data": self.data}
        if self.workspace != DEFAULT_WORKSPACE:
            named["--workspace"] = self.workspace
        return [word for option, value in named.items() if value is not None for word in (option, value)]

    @contextmanager
    def reading(self, progress: Progress, *, curator: bool = False) -> Iterator[Session]:
        """A session that can measure."""
        from dpxplain.session import connect

        if self.server is not None:
            with connect(self.server, curator=curator, progress=progress) as session:
                yield session
            return
        source = self.source
        if source is None:
            raise SchemaError(
                "No data were given.", remedy="Pass --data PATH, or set table.source in the schema."
            )
        with progress.running(f"Opening {self.declared.table.name}"):
            session = connect(
                source, self.declared, workspace=self.workspace, curator=curator, progress=progress
            )
        with session:
            yield session

    @contextmanager
    def recalling(self) -> Iterator[Session]:
        """A session on what was released before, and on prices. Reads no data and can spend nothing."""
        from dpxplain.cli.recall import recall
        from dpxplain.session import connect

        if self.server is not None:
            with connect(self.server) as session:
                yield session
            return

        with recall(self.declared, self.workspace) as session:
            yield session

    @property
    def _last_answers(self) -> Path:
        return Path(self.workspace) / "last.json"

    @property
    def last_answer(self) -> int | None:
        """The number of the answer looked at last, which a repeated, stored query makes an older one."""
        with suppress(OSError, ValueError, AttributeError):
            number = json.loads(self._last_answers.read_text(encoding="utf-8")).get(self.declared.table.name)
            return number if isinstance(number, int) else None
        return None

    def remember(self, answer: int) -> None:
        """Make `answer` the one that why and explain speak of. A convenience, so failing is no failure."""
        with suppress(OSError):
            known: dict[str, int] = {}
            with suppress(OSError, ValueError, TypeError):
                known = dict(json.loads(self._last_answers.read_text(encoding="utf-8")))
            draft = self._last_answers.with_suffix(f".{os.getpid()}.tmp")
            draft.write_text(json.dumps(known | {self.declared.table.name: answer}), encoding="utf-8")
            draft.replace(self._last_answers)


def columns_named(texts: Sequence[str] | None, declared: Schema) -> list[str] | None:
    """`--attributes a,b`; a column whose own name has a comma is taken whole."""
    if not texts:
        return None
    named = [[text] if text in declared.columns else text.split(",") for text in texts]
    return [name.strip() if name not in declared.columns else name for part in named for name in part]


def family_named(
    declared: Schema,
    attributes: Sequence[str] | None,
    exclude: Sequence[str] | None,
    conjuncts: int | None,
    predicates: Sequence[str] | None,
) -> dict[str, Any]:
    """Which predicates a command is about; the library checks them."""
    return {
        "attributes": columns_named(attributes, declared),
        "exclude": columns_named(exclude, declared) or (),
        "conjuncts": conjuncts,
        "predicates": predicates_named(predicates, declared),
    }


def predicates_named(texts: Sequence[str] | None, declared: Schema) -> list[Any] | None:
    """`--predicates`: a kind with its columns, such as ranges:age, or a SQL condition."""
    if not texts:
        return None
    from dpxplain.explanation.recipes import read

    return [read(text, declared) for text in texts]
