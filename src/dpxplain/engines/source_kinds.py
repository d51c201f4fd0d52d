"""Tells what kind of source a path names and which files belong to it. Opens no data file.

Only this module lists the supported kinds of files, and the errors for other kinds.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dpxplain.errors import SourceError

FileKind = Literal["parquet", "csv", "json lines", "arrow", "duckdb"]

_KINDS: dict[str, FileKind] = {
    ".parquet": "parquet", ".pq": "parquet",
    ".csv": "csv", ".tsv": "csv", ".csv.gz": "csv", ".tsv.gz": "csv",
    ".jsonl": "json lines", ".ndjson": "json lines", ".jsonl.gz": "json lines", ".ndjson.gz": "json lines",
    ".feather": "arrow", ".arrow": "arrow", ".ipc": "arrow",
    ".duckdb": "duckdb", ".ddb": "duckdb",
}  # fmt: skip
_TABLE_MARK = "::"  # file.duckdb::table
_SCHEME = re.compile(r"(?:^|/)([A-Za-z][A-Za-z0-9+.-]+):/{1,2}")  # joining paths gives folder/s3:/bucket
_HANDED_OVER = "Read the data with pandas, Polars or DuckDB, and pass the DataFrame or relation."
_READ = "Use Parquet, CSV, JSON lines, Feather or a DuckDB file, or pass a DataFrame."
_STORES = {
    "s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss", "wasbs", "hdfs", "hf", "r2", "ftp", "sftp",
}  # fmt: skip
_OTHER_FILES = {
    ".xlsx": "an Excel workbook", ".xls": "an Excel workbook", ".ods": "a spreadsheet",
    ".sas7bdat": "a SAS table", ".xpt": "a SAS file", ".sav": "an SPSS file", ".dta": "a Stata file",
    ".rds": "an R object", ".rdata": "an R workspace", ".json": "a JSON document, not JSON lines",
    ".orc": "an ORC file", ".avro": "an Avro file", ".db": "a database file", ".sqlite": "an SQLite database",
    ".zip": "an archive", ".gz": "a compressed file", ".pkl": "a Python pickle",
}  # fmt: skip


@dataclass(frozen=True)
class SourceFiles:
    """The files of one source, all of one kind; `table` is the table named in a DuckDB file."""

    kind: FileKind
    files: tuple[str, ...]
    table: str | None = None


def is_path(source: object) -> bool:
    """Whether a source is a path, or a list of paths."""
    if isinstance(source, list | tuple):
        return bool(source) and all(isinstance(part, str | Path) for part in source)
    return isinstance(source, str | Path)


def local_files(source: Any) -> Any | None:
    """The paths or globs of a source that is read from files here; None for a table in memory.

    An Arrow dataset of all rows of local files counts as those files.
    """
    if is_path(source):
        return source
    system = getattr(source, "filesystem", None)
    if type(source).__module__ != "pyarrow._dataset" or getattr(system, "type_name", None) != "local":
        return None
    files = list(source.files)
    if not files or source.count_rows() < _all_rows(source, files):  # the dataset has a filter
        return None
    return files


def _all_rows(dataset: Any, files: list[str]) -> int:
    from pyarrow import dataset as arrow

    unfiltered = arrow.dataset(files, schema=dataset.schema, format=dataset.format)
    return int(unfiltered.count_rows())


def is_address(source: object) -> bool:
    """Whether the source is the address of a DPXPlain server.

    >>> is_address("https://host/adult"), is_address("adult.parquet")
    (True, False)
    """
    return isinstance(source, str) and source.lower().startswith(("https://", "http://"))


def is_spark(source: object) -> bool:
    """Whether a source is for Spark: its address, a DataFrame, a session, or a session with a table's name.

    >>> is_spark("sc://host:15002"), is_spark("spark://host:7077::db.flights"), is_spark("flights.parquet")
    (True, True, False)
    """
    if isinstance(source, tuple) and len(source) == 2 and isinstance(source[1], str):
        source = source[0]
    if isinstance(source, str):
        return source.lower().startswith(("spark://", "sc://"))
    return is_spark_frame(source) or _is_of_spark(source, "SparkSession")


def is_spark_frame(source: object) -> bool:
    """Whether a source is a Spark DataFrame; does not import Spark."""
    return _is_of_spark(source, "DataFrame")


def _is_of_spark(source: object, name: str) -> bool:
    return any(
        kind.__module__.startswith("pyspark.sql") and kind.__name__ == name for kind in type(source).__mro__
    )


def find_files(source: str | Path | Sequence[str | Path]) -> list[str]:
    """The files named by a path, glob or file::table, or by a list of these. Does not check their kind.

    The name of a file that exists is never a glob: "e[1].csv" is that file, not "e1.csv".
    """
    paths = [source] if isinstance(source, str | Path) else source
    names = [file_and_table(str(path))[0] for path in paths]
    return [file for name in names for file in ([name] if os.path.exists(name) else sorted(glob.glob(name)))]


def source_files(source: str | Path | Sequence[str | Path]) -> SourceFiles:
    """The files of a source. Raises if a file is missing, the kinds differ, or a kind is not supported."""
    if isinstance(source, str | Path):
        return _each_once(_files_of(str(source)))
    if not all(map(find_files, source)):
        # The list may be data passed by mistake, so the message does not repeat it.
        raise SourceError(
            "One of the paths in the list does not exist.", remedy="Check each path in the list."
        )
    parts = [_files_of(str(path)) for path in source]
    kinds = {part.kind for part in parts}
    if len(kinds) > 1:
        raise SourceError(
            f"The paths name files of different kinds: {', '.join(sorted(kinds))}.",
            remedy="Give files of one kind and with the same columns.",
        )
    files = tuple(dict.fromkeys(file for part in parts for file in part.files))
    if parts[0].kind == "duckdb" and len(files) > 1:
        raise SourceError(
            "You named several DuckDB files.",
            remedy="Name one file. Put the tables that you need into it and join them there.",
        )
    return _each_once(SourceFiles(parts[0].kind, files, parts[0].table))


def _each_once(source: SourceFiles) -> SourceFiles:
    """Raises if a file is named twice, by a link or by two spellings: each row would count twice."""
    identities = {(status.st_dev, status.st_ino) for status in map(os.stat, source.files)}
    if len(identities) < len(source.files):
        raise SourceError(
            "The source names the same file twice, through a link or in two spellings.",
            remedy="Name each file once.",
        )
    return source


def _files_of(path: str) -> SourceFiles:
    name, table = file_and_table(path)
    files = find_files(path)
    scheme = _SCHEME.search(path)
    if not files and scheme is not None:
        raise _unsupported_scheme(scheme[1].lower())
    if not files:
        raise SourceError(
            f"There is no file {name}.", remedy="Check the path. Patterns such as data/*.parquet work too."
        )
    suffixes = {_suffix(file) for file in files}
    kinds = {_KINDS.get(suffix) for suffix in suffixes}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None:
        raise _unread(name, suffixes)
    return SourceFiles(kind, tuple(files), table)


def file_and_table(path: str) -> tuple[str, str | None]:
    """The file and the table of file.duckdb::table."""
    name, mark, table = path.rpartition(_TABLE_MARK)
    return (name, table) if mark and _KINDS.get(_suffix(name)) == "duckdb" else (path, None)


def _suffix(file: str) -> str:
    """The file name's ending that tells the kind, such as .csv.gz rather than .gz."""
    suffixes = [suffix.lower() for suffix in Path(file).suffixes[-2:]]
    candidates = ("".join(suffixes), *reversed(suffixes))
    return next((suffix for suffix in candidates if suffix in _KINDS), suffixes[-1] if suffixes else "")


def _unread(path: str, suffixes: set[str]) -> SourceError:
    suffix = next(iter(suffixes)) if len(suffixes) == 1 else None
    if suffix is None:
        return SourceError(f"{path} names files of different kinds.", remedy="Name files of one kind.")
    if suffix in _OTHER_FILES:
        return SourceError(f"{path} is {_OTHER_FILES[suffix]}, which is not supported.", remedy=_HANDED_OVER)
    return SourceError(f"{path} is not a supported kind of file.", remedy=_READ)


def _unsupported_scheme(scheme: str) -> SourceError:
    if scheme in ("http", "https"):
        return SourceError(
            "DPXPlain does not open files at a web address.",
            remedy="Download the file first. Only a DPXPlain server has an address such as "
            "https://host/data-set.",
        )
    if scheme in _STORES:
        return SourceError(
            f"Object storage ({scheme}://) is not supported.",
            remedy="Copy the files to this computer, or read them with pandas, Polars or DuckDB and pass "
            "the DataFrame or relation.",
        )
    if scheme == "file":
        return SourceError("Name a file by its path alone, without file://.", remedy="Remove file://.")
    return SourceError(f"Databases at {scheme}:// are not supported.", remedy=_HANDED_OVER)
