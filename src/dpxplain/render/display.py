"""How a result shows itself: text in a terminal, HTML in a notebook."""

from __future__ import annotations


class Displayed:
    """Prints well and renders in a notebook; both only read what was released."""

    def __init_subclass__(cls) -> None:
        # A dataclass would write its own __repr__ otherwise, without warnings and with every row.
        cls.__repr__ = Displayed.__str__  # type: ignore[assignment, method-assign]

    def __str__(self) -> str:
        from dpxplain.render.terminal import as_text

        return as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from dpxplain.render.notebook import as_html

        return as_html(self)
