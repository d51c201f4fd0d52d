"""Objects that stay as they were made.

What an analyst holds says which query, groups and weights a release is about. Sensitivities follow from
that, so it must not be changed between being checked and being measured.
"""

from __future__ import annotations


class Frozen:
    """Attributes are set while the object is made, and never again; `freeze` ends the making."""

    _frozen = False

    def freeze(self) -> None:
        object.__setattr__(self, "_frozen", True)

    def __setattr__(self, name: str, value: object) -> None:
        if self._frozen:
            raise AttributeError(f"{type(self).__name__} cannot be changed.")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed.")
