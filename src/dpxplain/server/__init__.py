"""The server next to the data: REST under /api/v1, the page at /, accounts and roles.

Start reading at app.py. Every request passes authenticate.py before its route. Needs the extra `[server]`.
"""
