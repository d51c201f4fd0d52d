"""What every response says to a browser: fetch nothing from elsewhere, frame nothing, remember nothing."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

API = "/api/"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# Charts and the API's documentation set styles on elements; that is all that 'unsafe-inline' is for.

ALWAYS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=(), browsing-topics=()",
}
HSTS = "max-age=31536000"


class SecurityHeaders:
    """Adds them to every response, also to errors; a route's own header wins."""

    def __init__(self, app: ASGIApp, *, secure: bool) -> None:
        self._app = app
        self._always = ALWAYS | ({"Strict-Transport-Security": HSTS} if secure else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._always.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store" if path.startswith(API) else "no-cache")
            await send(message)

        await self._app(scope, receive, with_headers)
