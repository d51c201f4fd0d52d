"""Charts as Altair objects, for a notebook's user to change, combine and save."""

from __future__ import annotations

from functools import cache
from typing import Any

from dpxplain.errors import BadRequest
from dpxplain.render.charts import chart

_REMEDY = "pip install 'dpxplain[charts]'. Printed tables and reports have their charts without it."


def altair_chart(result: object) -> Any:
    """The result's chart as the kind of `altair.Chart` that it is."""
    try:
        import altair
    except ImportError:
        raise BadRequest("A chart object needs Altair, which is not installed.", remedy=_REMEDY) from None
    spec = chart(result)
    kinds = {"layer": altair.LayerChart, "hconcat": altair.HConcatChart, "vconcat": altair.VConcatChart}
    kind = next(kind for key, kind in kinds.items() if key in spec)
    return _offline(kind).from_dict(spec, validate=False)


@cache
def _offline(kind: type[Any]) -> type[Any]:
    """The same kind of chart, which a notebook shows as SVG: Altair's own way fetches scripts from a network.

    A renderer that the user chose (`altair.renderers.enable`) stays in force.
    """

    def show(self: Any, *args: Any, **options: Any) -> Any:
        import altair
        import vl_convert

        if altair.renderers.active != "default":
            return kind._repr_mimebundle_(self, *args, **options)
        return {"image/svg+xml": vl_convert.vegalite_to_svg(self.to_dict())}

    return type(kind.__name__, (kind,), {"_repr_mimebundle_": show})
