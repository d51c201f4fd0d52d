"""A proxy before PostgreSQL that breaks off at the COMMIT of a chosen transaction, before or after it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"  # a simple query, as psycopg sends it


class BreakingProxy:
    """Passes everything on, until the transaction that writes to a chosen table is committed."""

    def __init__(self, socket_path: str) -> None:
        self._path = socket_path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.breaks = 0
        self._table = b""
        self._after = False
        self._then: Callable[[], None] = lambda: None
        self._lock = threading.Lock()

    def arm(self, table: str, *, after: bool, then: Callable[[], None]) -> None:
        """Break off once, and call `then` before the client notices."""
        self._table, self._after, self._then = f"INSERT INTO {table} ".encode(), after, then

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _connect(self, client: socket.socket) -> None:
        muted, replied = threading.Event(), threading.Event()
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            server.connect(self._path)

            def replies() -> None:
                with suppress(OSError):
                    while content := server.recv(65_536):
                        if muted.is_set():
                            replied.set()
                        else:
                            client.sendall(content)
                    client.shutdown(socket.SHUT_RDWR)

            threading.Thread(target=replies, daemon=True).start()
            writes = False
            while content := client.recv(65_536):
                writes = writes or (bool(self._table) and self._table in content)
                if COMMIT in content:
                    if writes and self._fire():
                        muted.set()
                        if self._after:
                            server.sendall(content)
                            assert replied.wait(60)
                        self._then()
                        return
                    writes = False
                server.sendall(content)

    def _fire(self) -> bool:
        with self._lock:
            armed, self._table = bool(self._table), b""
            self.breaks += armed
            return armed


@contextmanager
def breaking_proxy(socket_path: str) -> Iterator[BreakingProxy]:
    proxy = BreakingProxy(socket_path)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join(60)
