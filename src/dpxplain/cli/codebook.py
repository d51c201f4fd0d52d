"""Reads a code book: columns with their values and labels, as CSV or YAML. It is public knowledge."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpxplain.errors import BadRequest, SourceError

_COLUMN = ("column", "variable", "name", "field")
_VALUE = ("value", "code", "values")
_LABEL = ("label", "description", "meaning", "text")
_WHOLE = re.compile(r"-?[0-9]{1,15}")
_TRUTHS = {"true": True, "false": False, "1": True, "0": False}
_LOW, _HIGH = ("low", "min", "minimum", "lower"), ("high", "max", "maximum", "upper")


@dataclass
class CodedColumn:
    """What a code book says about one column."""

    label: str = ""
    values: dict[str, str] = field(default_factory=dict)  # each value as text, with its label
    bounds: tuple[float, float] | None = None

    @property
    def has_domain(self) -> bool:
        """Whether the code book says which values the column can have."""
        return bool(self.values or self.bounds)

    def typed_values(self, kind: str) -> list[bool | int | str]:
        """The values as a column of this kind holds them: codes such as 01 are numbers only among numbers."""
        texts = list(self.values)
        typed: list[bool | int | str] = [*texts]
        if kind == "true or false" and {text.lower() for text in texts} <= _TRUTHS.keys():
            typed = [_TRUTHS[text.lower()] for text in texts]
        elif kind == "numbers" and all(_WHOLE.fullmatch(text) for text in texts):
            typed = [int(text) for text in texts]
        if len(set(typed)) < len(typed):
            repeated = next(text for text, value in zip(texts, typed, strict=True) if typed.count(value) > 1)
            raise BadRequest(
                f"The code book lists {repeated!r} twice for one column.",
                remedy="List each code once. 1 and 01 are the same number.",
            )
        return typed

    def value_labels(self, kind: str) -> dict[str, str]:
        """The labels, by value as a schema writes it."""
        labelled = zip(self.typed_values(kind), self.values.values(), strict=True)
        return {_text(value): text for value, text in labelled if text}


Codebook = Mapping[str, CodedColumn]


def read_codebook(path: Path) -> Codebook:
    """The code book of a file that ends in .csv, .tsv, .yaml or .yml."""
    kind = path.suffix.lower()
    if kind not in (".csv", ".tsv", ".yaml", ".yml"):
        raise BadRequest(
            f"{path} is not a code book: its name must end in .csv, .tsv, .yaml or .yml.",
            remedy='Use a CSV file with the columns "column", "value" and "label", or a YAML file.',
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise BadRequest(f"Cannot read {path}.", remedy="Name an existing file in UTF-8.") from None
    book = _from_yaml(text, path) if kind in (".yaml", ".yml") else _from_csv(text, path, kind)
    if not book:
        raise BadRequest(
            f"The code book {path} is empty.", remedy="Add lines with a column, a value and a label."
        )
    return book


def check_names(book: Codebook, names: Collection[str]) -> None:
    """Raises if the code book is for another table."""
    if book and book.keys().isdisjoint(names):
        raise SourceError(
            "None of the columns in the code book is in the data.",
            remedy="Write the column names as in the data, including upper and lower case.",
        )


def _from_csv(text: str, path: Path, kind: str) -> Codebook:
    lines = text.splitlines()
    delimiter = "\t" if kind == ".tsv" else max(",;\t", key=(lines or [""])[0].count)
    reader = csv.DictReader(lines, delimiter=delimiter)
    names = {str(name).strip().lower(): name for name in reader.fieldnames or ()}
    column = _first(names, _COLUMN)
    if column is None or not {*_VALUE, *_LABEL, *_LOW} & names.keys():
        raise BadRequest(
            f"The first line of {path} does not name the columns of a code book.",
            remedy='The first line must contain "column", and also "value", "label", or "low" and "high".',
        )
    book: dict[str, CodedColumn] = {}
    for row in reader:

        def cell(accepted_names: tuple[str, ...], row: Mapping[str, Any] = row) -> str:
            return str(row.get(_first(names, accepted_names) or "") or "").strip()

        coded = book.setdefault(cell(_COLUMN), CodedColumn())
        if cell(_VALUE):
            coded.values[cell(_VALUE)] = cell(_LABEL)
        else:
            coded.label = cell(_LABEL) or coded.label
        if cell(_LOW) and cell(_HIGH):
            coded.bounds = _finite_bounds(cell(_LOW), cell(_HIGH), path)
    book.pop("", None)
    return book


def _from_yaml(text: str, path: Path) -> Codebook:
    import yaml  # type: ignore[import-untyped]

    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError:
        raise BadRequest(f"{path} is not valid YAML.", remedy="Correct the code book.") from None
    columns = raw.get("columns", raw) if isinstance(raw, dict) else None
    if not isinstance(columns, dict):
        raise BadRequest(
            f"{path} is not a code book: it does not list columns by name.",
            remedy="Write each column's name with its values or label.",
        )
    return {str(name): _coded(entry, path) for name, entry in columns.items()}


def _coded(entry: Any, path: Path) -> CodedColumn:
    if isinstance(entry, str) or entry is None:
        return CodedColumn(label=entry or "")
    if isinstance(entry, list):
        return CodedColumn(values={_text(value): "" for value in entry})
    if not isinstance(entry, dict):
        raise BadRequest(
            f"{path} is not a code book: a column in it has neither values nor a label.",
            remedy="Give each column its values or a label.",
        )
    if not {"values", "label", "bounds", "description"} & entry.keys():
        return CodedColumn(values={_text(value): str(label or "") for value, label in entry.items()})
    values, bounds = entry.get("values") or {}, entry.get("bounds")
    listed = values.items() if isinstance(values, dict) else ((value, "") for value in values)
    return CodedColumn(
        label=str(entry.get("label") or entry.get("description") or ""),
        values={_text(value): str(label or "") for value, label in listed},
        bounds=_finite_bounds(bounds[0], bounds[1], path)
        if isinstance(bounds, list) and len(bounds) == 2
        else None,
    )


def _finite_bounds(low: Any, high: Any, path: Path) -> tuple[float, float]:
    try:
        bounds = float(low), float(high)
    except (TypeError, ValueError):
        bounds = (1.0, 0.0)
    if not (bounds[0] < bounds[1] and math.isfinite(bounds[1] - bounds[0])):
        raise BadRequest(
            f"{path} has wrong bounds. Bounds are two finite numbers, the lower one first.",
            remedy="Correct the bounds in the code book.",
        )
    return bounds


def _first(names: Mapping[str, str], accepted_names: tuple[str, ...]) -> str | None:
    return next((names[name] for name in accepted_names if name in names), None)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
