"""Records that are sent as JSON. Each lists its public fields; a field that is not listed is never sent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NotRequired, TypeVar, get_args, get_type_hints

T = TypeVar("T")

PUBLIC: dict[type, tuple[str, ...]] = {}
"""The public fields of every record that may be sent, in the order in which they are sent."""

_AS_SENT = {datetime: str, datetime | None: str | None}


def public(name: str, fields: str, *, description: str = "") -> Callable[[type[T]], type[T]]:
    """Decorator of a record: these fields and properties are sent. One with "?" is left out if it is None.

    `name` and `description` are those of the record in the server's OpenAPI document.
    """

    def decorate(record: type[T]) -> type[T]:
        def in_openapi(cls: type, _source: Any, handler: Any) -> Any:
            return handler.generate_schema(_typed_dict(cls, name, description))

        PUBLIC[record] = tuple(fields.split())
        record.__get_pydantic_core_schema__ = classmethod(in_openapi)  # type: ignore[attr-defined]
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
        hint = _AS_SENT.get(hint, hint)
        if field != plain_name:
            hint = NotRequired[get_args(hint)[0]]  # without None
        types[plain_name] = hint
    shape: Any = TypedDict(name, types)  # type: ignore[misc]
    shape.__doc__ = description or None
    shape.__module__ = record.__module__
    return shape
