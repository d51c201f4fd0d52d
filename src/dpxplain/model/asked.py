"""What a person asked for, as it goes into the history: in words, and as a request that asks it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Asked:
    """`request` has the shape of the server's REST requests; None where nobody else could ask the same.

    >>> Asked("why?", {"answer": 3, "k": 5}).only("answer").request
    {'answer': 3}
    """

    words: str
    request: Mapping[str, Any] | None = None

    def only(self, *names: str) -> Asked:
        """A smaller request that is part of this one."""
        if self.request is None:
            return self
        return replace(self, request={name: self.request[name] for name in names})
