"""The open data set behind what a person holds: the one place where tests reach under the public face."""

from __future__ import annotations

from typing import Any


def dataset_of(held: Any) -> Any:
    """The data set of a session, an answer, a question or an explanation."""
    return held._dataset
