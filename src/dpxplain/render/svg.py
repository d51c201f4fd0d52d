"""Charts as SVG texts, drawn without a browser and without a network."""

from __future__ import annotations

from dpxplain.errors import BadRequest
from dpxplain.render.charts import Spec


def to_svg(spec: Spec) -> str:
    """The chart as an SVG text."""
    try:
        import vl_convert
    except ImportError:
        raise BadRequest(
            "Charts need vl-convert, which is not installed.", remedy="pip install 'dpxplain[charts]'."
        ) from None
    return str(vl_convert.vegalite_to_svg(spec))
