"""A data set at a server: the same session, answers, questions and tables, with the data elsewhere.

wire        HTTP: addresses, the token, errors back into exceptions, jobs
ledger      budget, history and releases as the server tells them
dataset     plans are made here from public declarations; what reads data is asked of the server
"""
