"""Where the encoded rows of an open data set are: in memory, in a file, or nowhere but in the source.

The choice follows from the declarations, the sizes of the files and the memory limit, and from no value.
"""

from __future__ import annotations

from typing import Literal

from dpxplain.engines.source_files import FileSource
from dpxplain.errors import SchemaError
from dpxplain.model.memory_limit import bytes_of
from dpxplain.model.schema import Schema

Place = Literal["memory", "stream", "file"]

_TEXT_GROWTH = 2  # bytes of encoded rows for each byte of a text file, at most about so many
_GROWTH = 8  # of a compressed file; where all rows are alike it can be more


def storage_place(schema: Schema, source: object, memory: str | None) -> Place:
    """As declared; by default in memory if the encoded rows probably take no more than half of the limit.

    Tables that are in memory already are copied there: their owner may change them between two passes.
    """
    if not isinstance(source, FileSource):
        return "memory"
    declared = schema.table.storage
    if declared == "stream" and schema.privacy.unit != "row":
        raise SchemaError(
            'table.storage = "stream" needs unit = "row" where the data are files: the rows of a person are '
            "chosen once, so they have to be kept.",
            remedy='Say storage = "file" or "memory".',
        )
    if declared != "auto":
        return declared
    if 2 * encoded_size(source) <= bytes_of(memory):
        return "memory"
    if schema.table.cache:
        return "file"
    # Without the curator's word no row is written to disk; and the rows of a person have to be kept.
    return "stream" if schema.privacy.unit == "row" else "memory"


def encoded_size(source: FileSource) -> int:
    """A guess, from the sizes of the files alone, of how many bytes their encoded rows would take."""
    return sum(
        size * (_TEXT_GROWTH if name.lower().endswith((".csv", ".tsv", ".jsonl", ".ndjson")) else _GROWTH)
        for name, size in source.sizes()
    )
