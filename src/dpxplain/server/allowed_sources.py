"""Which files and databases a schema at a server may point at, and what tells two sources apart."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

from dpxplain.engines.opening import database_identities, is_listed
from dpxplain.engines.source_kinds import find_files
from dpxplain.errors import SchemaError, SourceError
from dpxplain.model.joined_schema import all_parts
from dpxplain.model.schema import Schema, is_database
from dpxplain.server.schema_text import check_source


def check_allowed(schema: Schema, folder: Path, home: Path, databases: tuple[str, ...]) -> None:
    """Refuses files outside `home` and databases that are not listed: curators edit schemas from afar."""
    source = source_of(schema, folder)
    sources = [table.source for table in schema.tables.values()]
    sources += [table.source for table in schema.private.values()]
    files = [source for source in sources if source and not is_database(source)]
    _check_inside([folder / file for file in files], home)
    if not isinstance(source, str):
        _check_inside(source, home)
    elif not is_listed(source, schema, databases):
        # The server's own password would be sent to whatever host an address names.
        raise SourceError(
            "table.source: names a database that this server is not configured for.",
            remedy="Add its address, as it stands there, to databases in the server's configuration.",
        )


def _check_inside(source: Path | list[Path], home: Path) -> None:
    """Refuses sources outside `home`, after links and globs are followed."""
    named = [source] if isinstance(source, Path) else source
    paths = [Path(match) for path in named for match in find_files(path) or [str(path)]]
    if not all(path.resolve().is_relative_to(home.resolve()) for path in paths):
        raise SourceError(
            "A source lies outside the server's data folder.",
            remedy="Name a file inside it, relative to the schema's own folder.",
        )


def source_of(schema: Schema, folder: Path) -> str | Path | list[Path]:
    check_source(schema)
    source = schema.table.paths(folder)
    if source is None:
        raise SchemaError("table.source: is missing.", remedy="Say where the data lie.")
    return source


def identities(schema: Schema, folder: Path) -> frozenset[Hashable]:
    """Device and inode of the source's files, whatever names and links lead to them; or a table's place."""
    source = source_of(schema, folder)
    if isinstance(source, str):
        return frozenset(database_identities(source, all_parts(schema)))
    files = [folder / table.source for table in schema.private.values() if table.source]
    paths = (Path(match) for named in (source, files) for match in find_files(named))
    return frozenset((status.st_dev, status.st_ino) for status in (path.stat() for path in paths))
