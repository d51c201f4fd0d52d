"""The data sets that are open, each by its schema file; an edited file is followed without a restart.

Every process looks at the files' times, so an edit made through one is seen by all. A file that became wrong
is left aside and the data set stays open as it was, under the declarations everybody knows.
"""

from __future__ import annotations

import glob
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.errors import BadRequest, DPXPlainError, SchemaError, SourceError
from dpxplain.model.schema import Schema
from dpxplain.phases.dataset import OpenDataset
from dpxplain.privacy.mechanisms.noise import OpenDPNoise
from dpxplain.server.declaring import check_source, file_name, schema_of, write_whole
from dpxplain.server.problems import changed, not_found

if TYPE_CHECKING:
    from dpxplain.ledger.ledger import SQLLedger

LOG = logging.getLogger("dpxplain.server")
_BETWEEN_LOOKS = 1.0  # seconds between two looks at the folders

Mark = tuple[int, int]


@dataclass
class Declared:
    """One schema file and what came of opening it."""

    file: Path
    mark: Mark
    problem: BadRequest | None = None
    name: str = ""
    dataset: OpenDataset | None = None
    data: frozenset[tuple[int, int]] = frozenset()
    """Which files its source is."""


class Registry:
    """Opens what the configuration names; `get` gives the data set as it is declared now."""

    def __init__(
        self,
        places: tuple[Path, ...],
        ledger: SQLLedger,
        *,
        data_folder: Path | None = None,
        memory: str | None = None,
        editable: bool = True,
    ) -> None:
        self._places = places
        self._ledger = ledger
        self._data_folder = data_folder
        self._memory = memory
        self.editable = editable
        self._known: dict[Path, Declared] = {}
        self._lock = threading.RLock()
        self._swapping = threading.Lock()  # held while a charge is written, and while a data set is replaced
        self._looked = -float("inf")
        for file in self._files():
            declared = self._follow(file)
            if declared is not None and declared.problem is not None:
                raise declared.problem
        if not self._known:
            raise SchemaError(
                "There is no schema file in the configured datasets.",
                remedy="Put a schema there; draft one with: dpxplain schema init DATA_FILE",
            )

    @property
    def all(self) -> list[OpenDataset]:
        """Every open data set, by name."""
        self._look(at_once=False)
        opened = [d.dataset for d in list(self._known.values()) if d.dataset is not None]
        return sorted(opened, key=lambda dataset: dataset.name)

    def get(self, name: str) -> OpenDataset:
        if self._named(name) is None:
            self._look(at_once=False)
        self._look_at(name)
        found = self._named(name)
        if found is None or found.dataset is None:
            raise not_found("data set")
        return found.dataset

    @contextmanager
    def holding(self, dataset: OpenDataset) -> Iterator[None]:
        """While the block runs, what is declared stays as it is; refused if it has changed already."""
        self._look_at(dataset.name)
        with self._swapping:
            found = self._named(dataset.name)
            if found is None or found.dataset is not dataset:
                raise changed()
            yield

    def declared(self) -> list[Declared]:
        self._look(at_once=True)
        return sorted(self._known.values(), key=lambda one: (one.name, one.file.name))

    def file_of(self, name: str) -> Path:
        found = self._named(name)
        if found is None:
            raise not_found("data set")
        return found.file

    def put(self, text: str, *, name: str | None) -> OpenDataset:
        """Declare the data set `name` anew, or a new one; its data are opened before anything changes."""
        schema = schema_of(text)
        with self._lock:
            file = self._new_file(schema.table.name) if name is None else self.file_of(name)
            after = Declared(file, (0, 0), name=schema.table.name)
            self._check_name(after, self._known.get(file))
            dataset = self._opened(after, schema)
            write_whole(file, text)
            after.mark = _mark(file) or (0, 0)
            with self._swapping:
                self._known[file] = after
            return dataset

    def _new_file(self, name: str) -> Path:
        """Where a new data set's schema belongs."""
        folder = next((place for place in self._places if place.is_dir()), None)
        if folder is None:
            raise BadRequest(
                "This server has a fixed list of schema files.",
                remedy="Configure a folder as datasets, to add to it.",
            )
        file = folder / file_name(name)
        if file.exists():
            raise BadRequest(
                "There is a schema file of that name.", remedy="Edit it, or choose another name."
            )
        return file

    def open(self, schema: Schema, folder: Path) -> OpenDataset:
        """Open the data that a schema in `folder` points at; nothing is registered or charged."""
        if self.editable:  # otherwise the one user may open any file anyway
            _check_inside(schema, folder, self._data_folder or folder)
        engine = DuckDBEngine(_source(schema, folder), schema, memory=self._memory)
        dataset = OpenDataset(schema, engine, self._ledger, OpenDPNoise())
        dataset.request_key()  # hashes the declarations now, once for all the copies that callers work on
        return dataset

    def _files(self) -> Iterator[Path]:
        for place in self._places:
            yield from sorted(place.glob("*.toml")) if place.is_dir() else [place]

    def _named(self, name: str) -> Declared | None:
        matching = (d for d in list(self._known.values()) if d.name == name and d.dataset is not None)
        return next(matching, None)

    def _look(self, *, at_once: bool) -> None:
        """Notice new and edited files."""
        with self._lock:
            if not at_once and time.monotonic() - self._looked < _BETWEEN_LOOKS:
                return
            self._looked = time.monotonic()
            files = list(self._files())
            with self._swapping:
                for gone in self._known.keys() - set(files):
                    del self._known[gone]
            for file in files:
                if file not in self._known or _mark(file) != self._known[file].mark:
                    self._follow(file)

    def _look_at(self, name: str) -> None:
        """Notice that this data set's file was edited."""
        found = self._named(name)
        if found is not None and _mark(found.file) != found.mark:
            self._follow(found.file)

    def _opened(self, after: Declared, schema: Schema) -> OpenDataset:
        """Its data are read before anything is written down."""
        after.data = _identities(schema, after.file.parent)
        self._check_data(after)
        dataset = after.dataset = self.open(schema, after.file.parent)
        self._ledger.promises.keep(after.name, schema.privacy)
        self._ledger.open_dataset(after.name, schema.privacy.rho, schema.privacy.delta)
        return dataset

    def _follow(self, file: Path) -> Declared | None:
        with self._lock:
            mark, before = _mark(file), self._known.get(file)
            if mark is None or (before is not None and before.mark == mark):
                return before
            after = Declared(file, mark)
            try:
                schema = Schema.load(file)
                after.name = schema.table.name
                self._check_name(after, before)
                self._opened(after, schema)
            except DPXPlainError as error:
                after.problem = (
                    error if isinstance(error, BadRequest) else SourceError("It cannot be opened.")
                )
                LOG.warning("%s is not taken over: %s", file.name, type(error).__name__)
                if before is not None:
                    after.name, after.dataset, after.data = before.name, before.dataset, before.data
            with self._swapping:
                self._known[file] = after
            return after

    def _check_data(self, after: Declared) -> None:
        """Two budgets on the same people would protect them by their sum, which nobody has declared."""
        for file, other in self._known.items():
            if file != after.file and other.dataset is not None and other.data & after.data:
                raise SchemaError(
                    f"table.source: the data set {other.name} has the same file, and a budget for it.",
                    remedy="Ask both of that data set. If the two budgets may add up, copy the file.",
                )

    def _check_name(self, after: Declared, before: Declared | None) -> None:
        if before is not None and before.dataset is not None and before.name != after.name:
            raise SchemaError(
                f"The data set {before.name} cannot be renamed: its budget is kept under its name.",
                remedy="Keep table.name, or declare a new data set in a new file.",
            )
        others = (d for file, d in self._known.items() if file != after.file and d.dataset is not None)
        if any(other.name == after.name for other in others):
            raise SchemaError(
                f"Two schema files declare a table {after.name}.", remedy="Give each table its own name."
            )


def _check_inside(schema: Schema, folder: Path, home: Path) -> None:
    """Wherever links and globs lead, the data lie in the folder that is meant for them."""
    source = _source(schema, folder)
    lying = [Path(found) for found in glob.glob(str(source))] or [source]
    if not all(path.resolve().is_relative_to(home.resolve()) for path in lying):
        raise SourceError(
            "table.source: lies outside the server's data folder.",
            remedy="Name a file inside it, relative to the schema's own folder.",
        )


def _source(schema: Schema, folder: Path) -> Path:
    if schema.table.source is None:
        raise SchemaError("table.source: is missing.", remedy="Say where the data lie.")
    check_source(schema)
    return folder / schema.table.source


def _identities(schema: Schema, folder: Path) -> frozenset[tuple[int, int]]:
    """Of the files that a source names, under whichever names and links."""
    found = (Path(name) for name in glob.glob(str(_source(schema, folder))))
    return frozenset((status.st_dev, status.st_ino) for status in (path.stat() for path in found))


def _mark(file: Path) -> Mark | None:
    """Changes whenever the file does."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
