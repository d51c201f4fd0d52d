"""What a browser may not do while a test looks on: complain, break the policy, or ask another host."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Request, WebError

# Chromium tells the console of a violation, too; this names the directive.
TELL_VIOLATIONS = """document.addEventListener('securitypolicyviolation', (event) =>
  console.error(`policy: ${event.effectiveDirective} refused ${event.blockedURI} at ${event.sourceFile}`));"""


class Watch:
    """Collects complaints and the hosts that were asked, of all pages of one context."""

    def __init__(self, context: BrowserContext, server: str, expected: Iterable[str]) -> None:
        self._server = urlsplit(server).netloc
        self._expected = [re.compile(pattern) for pattern in expected]
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        context.add_init_script(TELL_VIOLATIONS)
        context.on("console", self._console)
        context.on("weberror", self._error)
        context.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._note(f"{message.text} ({message.location['url']})")

    def _error(self, error: WebError) -> None:
        self._note(f"uncaught: {error.error}")

    def _note(self, text: str) -> None:
        if not any(pattern.search(text) for pattern in self._expected):
            self.complaints.append(text)

    def _request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme in ("http", "https", "ws", "wss"):
            self.hosts.add(address.netloc)

    def assert_calm(self) -> None:
        assert not self.complaints, self.complaints
        assert self.hosts <= {self._server}, f"asked other hosts: {self.hosts - {self._server}}"
