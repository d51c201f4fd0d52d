"""OpenDP's constructors, imported when a measurement is built: they load slower than most commands run.

Not opendp.prelude: it would import polars, sklearn and more, which takes half a second and is not needed.
"""

from opendp import domains, measurements, measures, metrics
from opendp.mod import enable_features

enable_features("contrib")

__all__ = ["domains", "measurements", "measures", "metrics"]
