"""Limits connections of clients that send without end, too slowly or not at all, or do not read the response.

Uvicorn limits none of these: a request's head may have any length, and it waits for a client without end.
"""

from __future__ import annotations

from asyncio import Transport

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64_000
SECONDS_BETWEEN_LOOKS = 30.0
_LEAST_BYTES = 30_000  # between two checks, while the client has to send or to read


class BoundedConnection(HttpToolsProtocol):
    """Closes a connection if the request's head is too long, or if the client keeps the server waiting."""

    _is_sending = True  # whether the client is expected to send, as before its first byte
    _was_sending = False  # whether it was sending the same request at the last check
    _in_head = True
    _head = _received = _unread = 0
    _has_read = False

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._next_look = self.loop.call_later(SECONDS_BETWEEN_LOOKS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self._next_look.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._is_sending = True
        self._received += len(data)
        self._head += len(data)
        super().data_received(data)
        if self._in_head and self._head > MOST_HEAD_BYTES and not self.transport.is_closing():
            if self._is_answering:  # the client would take a refusal for the response that it awaits
                self.transport.abort()
            else:
                self.send_400_response("The request's header is too long.")

    def on_headers_complete(self) -> None:
        self._in_head, self._has_read = False, True  # unread bytes now belong to another response
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_sending = self._was_sending = False
        self._in_head, self._head = True, 0
        super().on_message_complete()

    def resume_writing(self) -> None:
        self._has_read = True
        super().resume_writing()

    @property
    def _is_answering(self) -> bool:
        """Whether a request has arrived completely and its response has not been sent yet."""
        cycle = self.cycle
        return cycle is not None and not cycle.more_body and not cycle.response_complete

    def _look(self) -> None:
        unread = self.transport.get_write_buffer_size()
        is_slow_reader = 0 < self._unread <= unread + _LEAST_BYTES and unread > 0 and not self._has_read
        is_awaited = self._was_sending and not self.flow.read_paused and not self._is_answering
        is_slow_sender = is_awaited and self._received < _LEAST_BYTES
        if is_slow_reader or is_slow_sender:
            self.transport.abort()
            return
        self._received, self._unread, self._has_read = 0, unread, False
        self._was_sending = self._is_sending
        self._next_look = self.loop.call_later(SECONDS_BETWEEN_LOOKS, self._look)
