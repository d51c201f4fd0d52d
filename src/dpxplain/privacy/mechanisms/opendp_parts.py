"""OpenDP's constructors, imported when a measurement is built: they load slower than most commands run.

Not opendp.prelude: it would import polars, sklearn and more, half a second that nobody needs.
"""

from opendp import domains, measurements, measures, metrics
from opendp.mod import enable_features

enable_features("contrib")

__all__ = ["domains", "measurements", "measures", "metrics"]
