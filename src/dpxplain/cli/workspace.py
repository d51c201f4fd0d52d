"""From options to a session: one that can measure, or a read-only one that opens no data."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dpxplain.cli import options as o
from dpxplain.cli.completion import DEFAULT_SCHEMA
from dpxplain.cli.screen import Progress
from dpxplain.datasets import path as bundled
from dpxplain.engines.source_kinds import is_address
from dpxplain.errors import BadRequest, SchemaError
from dpxplain.ledger.place import WORKSPACE

if TYPE_CHECKING:
    from dpxplain.cli.read_only import WorkspaceLedger
    from dpxplain.model.schema import Schema
    from dpxplain.session import Session


@dataclass(frozen=True)
class Place:
    """Options that say where the data set, its schema and its workspace are."""

    data: o.Data = None
    schema: o.SchemaFile = None
    example: o.Example = None
    workspace: o.Workspace = WORKSPACE

    @cached_property
    def server(self) -> str | None:
        """The URL, if the data set is at a server: --data https://host/data-set."""
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
            with self.read_only_session() as session:
                return session.schema
        return Schema.load(self.schema_file)

    @property
    def source(self) -> str | Path | None:
        """The data: `--data`, or else the schema's table.source, relative to the schema's folder."""
        if self.data is not None:
            return self.data
        source = self.declared.table.source
        return None if source is None else self.schema_file.parent / source

    @property
    def words(self) -> list[str]:
        """The options that name this place again, for suggested commands."""
        options = {"--example": self.example, "--schema": self.schema, "--data": self.data}
        if self.workspace != WORKSPACE:
            options["--workspace"] = self.workspace
        return [word for option, value in options.items() if value is not None for word in (option, value)]

    @contextmanager
    def measuring_session(self, progress: Progress, *, curator: bool = False) -> Iterator[Session]:
        """A session on the data, which can spend."""
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
    def read_only_session(self) -> Iterator[Session]:
        """A session on earlier releases and on prices. Reads no data and cannot spend."""
        from dpxplain.cli.read_only import read_only_session
        from dpxplain.session import connect

        if self.server is not None:
            with connect(self.server) as session:
                yield session
            return
        with read_only_session(self.declared, self.workspace, self.source) as session:
            yield session

    @contextmanager
    def ledger(self) -> Iterator[Session | WorkspaceLedger]:
        """Budget and history only, of the workspace or of the server."""
        from dpxplain.cli.read_only import open_workspace_ledger

        if self.server is not None:
            with self.read_only_session() as session:
                yield session
            return
        opened = open_workspace_ledger(self.declared, self.workspace)
        with closing(opened.ledger):
            yield opened

    @property
    def _last_answers(self) -> Path:
        return Path(self.workspace) / "last.json"

    @property
    def last_answer(self) -> int | None:
        """The number of the answer shown last; an older one after a query was repeated."""
        with suppress(OSError, ValueError, AttributeError):
            number = json.loads(self._last_answers.read_text(encoding="utf-8")).get(self.declared.table.name)
            return number if isinstance(number, int) else None
        return None

    def remember(self, answer: int) -> None:
        """Makes `answer` the default of why and explain. A file that cannot be written is ignored."""
        with suppress(OSError):
            numbers: dict[str, int] = {}
            with suppress(OSError, ValueError, TypeError):
                numbers = dict(json.loads(self._last_answers.read_text(encoding="utf-8")))
            draft = self._last_answers.with_suffix(f".{os.getpid()}.tmp")
            draft.write_text(json.dumps(numbers | {self.declared.table.name: answer}), encoding="utf-8")
            draft.replace(self._last_answers)
