"""A data set at a server: the same session, answers, questions and tables, with the data elsewhere.

`client` plans from public declarations, and asks the server for releases, budget and history.
"""
