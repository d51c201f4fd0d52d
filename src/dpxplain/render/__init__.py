"""How results look: terminal text, notebook HTML, charts, reports. Displaying never spends.

Importing the package registers the view of every type of result.
"""

from dpxplain.render import views_prices, views_results

__all__ = ["views_prices", "views_results"]
