"""What results can do: be sent as JSON, print, render in a notebook, draw a chart, export their rows."""

from __future__ import annotations

import csv
import importlib
import io
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NotRequired, TypeVar, get_args, get_type_hints

from dpxplain.errors import BadRequest

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

# -- Public fields -----------------------------------------------------------------------------------------
#
# Each record that is sent as JSON lists its public fields; a field that is not listed is never sent.

T = TypeVar("T")

PUBLIC: dict[type, tuple[str, ...]] = {}
"""The public fields of every record that may be sent, in the order in which they are sent."""

_SENT_AS = {datetime: str, datetime | None: str | None}


def public(name: str, fields: str, *, description: str = "") -> Callable[[type[T]], type[T]]:
    """Decorator of a record: these fields and properties are sent. One with "?" is left out if it is None.

    `name` and `description` are those of the record in the server's OpenAPI document.
    """

    def decorate(record: type[T]) -> type[T]:
        def openapi_schema(cls: type, _source: Any, handler: Any) -> Any:
            return handler.generate_schema(_typed_dict(cls, name, description))

        PUBLIC[record] = tuple(fields.split())
        record.__get_pydantic_core_schema__ = classmethod(openapi_schema)  # type: ignore[attr-defined]
        return record

    return decorate


def public_fields(record: object) -> dict[str, Any]:
    """The public fields of a record, by name. Raises TypeError for a record that does not list any."""
    if type(record) not in PUBLIC:
        raise TypeError(f"{type(record).__name__} does not list public fields, so it is not sent.")
    values = {name: getattr(record, name.rstrip("?")) for name in PUBLIC[type(record)]}
    return {name.rstrip("?"): value for name, value in values.items() if value is not None or name[-1] != "?"}


def as_json(value: object) -> Any:
    """The `default` of `json.dumps`, which calls it for each value that is not plain JSON."""
    return value.isoformat() if isinstance(value, datetime) else public_fields(value)


def _typed_dict(record: type, name: str, description: str) -> Any:
    """The type of the JSON object that is sent, for the OpenAPI document."""
    from typing_extensions import TypedDict  # pydantic reads the standard one from Python 3.12 on

    hints = get_type_hints(record)
    types = {}
    for field in PUBLIC[record]:
        plain_name = field.rstrip("?")
        hint = hints.get(plain_name) or get_type_hints(getattr(record, plain_name).fget)["return"]
        hint = _SENT_AS.get(hint, hint)
        if field != plain_name:
            hint = NotRequired[get_args(hint)[0]]  # without None
        types[plain_name] = hint
    shape: Any = TypedDict(name, types)  # type: ignore[misc]
    shape.__doc__ = description or None
    shape.__module__ = record.__module__
    return shape


# -- Displayed results -------------------------------------------------------------------------------------


def renderer(name: str) -> ModuleType:
    """The module of `dpxplain.render` with that name.

    Imported by name and on demand: renderers import results, so results must not import them, and Rich and
    Altair are loaded only when something is shown.
    """
    return importlib.import_module(f"dpxplain.render.{name}")


class Displayed:
    """Prints well and renders in a notebook. Both only read what was released."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # A dataclass would write its own __repr__ otherwise, without warnings and with every row.
        cls.__repr__ = Displayed.__str__  # type: ignore[assignment, method-assign]

    def __str__(self) -> str:
        return str(renderer("terminal").as_text(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return str(renderer("notebook").as_html(self))


Record = dict[str, Any]
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


class Charted(Displayed):
    """A displayed result that also has a chart."""

    def chart(self) -> Any:
        """An Altair chart of the released values with their intervals. Spends nothing."""
        return renderer("charts").altair_chart(self)


class Tabular(ABC):
    """A table of records with the same keys.

    Exports include `shaped_by`, which says how the numbers were counted, and a mark if the numbers are not
    private: in the metadata of pandas and Arrow, as keys in JSON, and as the last columns in CSV. A polars
    frame has no place for either: keep `result.shaped_by` and `result.private` beside it.
    """

    @abstractmethod
    def records(self) -> list[Record]:
        """One plain dict per row, in the order shown."""

    @property
    def shaped_by(self) -> tuple[str, ...]:
        """The declarations that shaped the numbers, as sentences."""
        return ()

    @property
    def private(self) -> bool:
        """Whether exports need no mark; false for true values and for results with seeded noise."""
        return True

    def columns(self) -> list[str]:
        """The names of the columns. Empty without rows, unless the result knows its columns anyway."""
        return list(next(iter(self.records()), {}))

    def to_arrow(self) -> pyarrow.Table:
        import pyarrow

        about = {name: json.dumps(value, ensure_ascii=False) for name, value in self._metadata().items()}
        return pyarrow.Table.from_pylist(self.records()).replace_schema_metadata(about or None)

    def to_pandas(self) -> pandas.DataFrame:
        frame: pandas.DataFrame = _optional("pandas").DataFrame.from_records(
            self.records(), columns=self.columns()
        )
        frame.attrs.update(self._metadata())
        return frame

    def to_polars(self) -> polars.DataFrame:
        frame: polars.DataFrame = _optional("polars").DataFrame(self.records(), infer_schema_length=None)
        return frame

    def _metadata(self) -> Record:
        """The metadata of an export: the mark of numbers that are not private, and how they were counted."""
        mark: Record = {} if self.private else {"private": False}
        return mark | ({"shaped_by": list(self.shaped_by)} if self.shaped_by else {})

    def to_json(self) -> str:
        content = self._metadata() | {"shaped_by": self.shaped_by}
        if (confidence := getattr(self, "confidence", None)) is not None:
            content["confidence"] = confidence
        content["rows"] = _without_infinities(self.records())
        return json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False)

    def to_csv(self) -> str:
        """The rows as CSV. Text that a spreadsheet would run as a formula gets an apostrophe in front."""
        header = self.columns()
        about = {} if self.private else {"not_private": "true"}
        if self.shaped_by:
            about["shaped_by"] = " ".join(self.shaped_by)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(map(_without_formula, [*header, *about] if header else []))
        writer.writerows(
            map(_without_formula, [*map(row.get, header), *about.values()]) for row in self.records()
        )
        return text.getvalue()


def _without_infinities(value: Any) -> Any:
    """The value with None in place of NaN and infinity, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _without_infinities(part) for name, part in value.items()}
    return list(map(_without_infinities, value)) if isinstance(value, list | tuple) else value


def _without_formula(cell: object) -> object:
    """A cell of a CSV file, with an apostrophe before text that a spreadsheet would run as a formula.

    >>> _without_formula("=1+1"), _without_formula("-5"), _without_formula("- none"), _without_formula(-5.0)
    ("'=1+1", '-5', "'- none", -5.0)
    """
    is_formula = isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell)
    return f"'{cell}" if is_formula else cell


def _optional(package: str) -> ModuleType:
    """A package that a table is exported to, which may not be installed."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as missing:
        raise BadRequest(
            f"to_{package}() needs {missing.name or package}, which is not installed.",
            remedy=f"Install it with: pip install {package}. Without it there are records(), to_arrow(), "
            "to_csv() and to_json().",
        ) from None


def check_report_name(path: Path) -> None:
    """Refuses a file name for a report that promises a format other than HTML."""
    if path.suffix.lower() not in ("", ".html", ".htm"):
        raise BadRequest(
            f"Reports are HTML files, so the name cannot end in {path.suffix}.",
            remedy=f"Name the file {path.stem}.html. Word processors can open it too. For the table "
            "alone, use to_csv(), to_json(), to_pandas(), to_polars() or to_arrow().",
        )


# -- Finding -----------------------------------------------------------------------------------------------
#
# What a result says in a few words, which every interface shows first.


@public(
    "FindingPayload",
    "headline support caveat notes",
    description="The answer first: what every face shows before anything else.",
)
@dataclass(frozen=True)
class Finding:
    """A headline, what supports it, the one caveat that matters most, and notes on request.

    Prints as headline and support:

    >>> print(Finding("Mostly storms.", "Without them the gap is gone.", "About these rows only."))
    Mostly storms. Without them the gap is gone.
    """

    headline: str  # one sentence of at most 25 words
    support: str = ""  # at most two sentences
    caveat: str = ""  # one line of at most 15 words
    notes: tuple[str, ...] = ()  # everything else

    def __str__(self) -> str:
        return f"{self.headline} {self.support}".rstrip()
