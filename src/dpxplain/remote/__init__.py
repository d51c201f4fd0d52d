"""A data set at a server: the same session, answers, questions and tables, with the data elsewhere.

http        addresses, certificate and token; retries; errors as exceptions
client      plans from public declarations; asks the server for releases, budget and history
"""
