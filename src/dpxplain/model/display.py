"""Base of everything that prints well and renders in a notebook."""

from __future__ import annotations

import importlib
from types import ModuleType


def renderer(name: str) -> ModuleType:
    """The module of `dpxplain.render` with that name.

    By name and on demand: renderers import what they draw, so that must not import them; and nobody waits
    for Rich or Altair who shows nothing.
    """
    return importlib.import_module(f"dpxplain.render.{name}")


class Displayed:
    """Prints well and renders in a notebook; both only read what was released."""

    def __init_subclass__(cls) -> None:
        # A dataclass would write its own __repr__ otherwise, without warnings and with every row.
        cls.__repr__ = Displayed.__str__  # type: ignore[assignment, method-assign]

    def __str__(self) -> str:
        return str(renderer("terminal").as_text(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return str(renderer("notebook").as_html(self))
