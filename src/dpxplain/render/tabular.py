"""Results as tables of plain records, for pandas, polars, Arrow, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Record = dict[str, Any]


class Tabular(ABC):
    """Anything that is a table of records with the same keys."""

    @abstractmethod
    def records(self) -> list[Record]:
        """One plain dict per row, in the order shown."""

    def to_arrow(self) -> pyarrow.Table:
        import pyarrow

        return pyarrow.Table.from_pylist(self.records())

    def to_pandas(self) -> pandas.DataFrame:
        import pandas

        return pandas.DataFrame.from_records(self.records())

    def to_polars(self) -> polars.DataFrame:
        import polars

        return polars.DataFrame(self.records(), infer_schema_length=None)

    def to_json(self) -> str:
        return json.dumps(self.records(), ensure_ascii=False, indent=2)

    def to_csv(self) -> str:
        rows = self.records()
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()
