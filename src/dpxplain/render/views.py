"""The view of any result, by its type."""

from __future__ import annotations

from dpxplain.model.budget import Budget
from dpxplain.model.schema import Schema
from dpxplain.render.layout import View, view


def view_of(result: object) -> View:
    """What a result shows.

    The modules imported here register their views; those of results take longer to import than a budget
    takes to print.
    """
    if isinstance(result, Budget | list | Schema):
        from dpxplain.render import views_account  # noqa: F401
    else:
        from dpxplain.render import views_check, views_prices, views_quality, views_results  # noqa: F401
    return view(result)
