"""The server next to the data: REST under /api/v1, the page at /, and who may do what.

app.py puts it together and is the place to start reading; every request passes gate.py before a route sees
it. Needs the extra `[server]`.
"""
