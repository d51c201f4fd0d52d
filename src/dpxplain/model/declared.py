"""What a declaration is made of: models that nobody changes once they are made.

Sensitivities follow from declarations, so whoever could change one could thin out the noise. pydantic's
`frozen` lets a cached property be assigned and `__init__` be called again; here neither is possible.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pydantic import BaseModel, ConfigDict

UNCHANGEABLE = "A declared schema cannot be changed."


class Declared(BaseModel):
    """A frozen model, really."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    def __init__(self, /, **declared: Any) -> None:
        self._insist_on_new()
        super().__init__(**declared)

    # Nested models are then filled without calling it, as with pydantic's own.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def __setstate__(self, state: dict[Any, Any]) -> None:
        self._insist_on_new()
        super().__setstate__(state)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(UNCHANGEABLE)

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(UNCHANGEABLE)

    def _insist_on_new(self) -> None:
        if vars(self):
            raise TypeError(UNCHANGEABLE)
