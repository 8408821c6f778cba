"""uvicorn's HTTP/1.1, with limits for the head of a request and the time of its body, which uvicorn does not have."""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD: Final = 64 << 10
"""Bytes of a request's first line and headers."""

HEAD_S: Final = 20.0
"""Seconds for a client to send them."""

BODY_S: Final = 20.0
"""Seconds for a client to send the next `BODY_PART` bytes of a body, or its end."""

BODY_PART: Final = 64 << 10


class _HeadTooLargeError(Exception):
    """The parser turns it into an error of its own, and uvicorn answers that with 400."""


class Protocol(HttpToolsProtocol):
    """Refuses a head that is too large, and closes connections that send a head or a body too slowly."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._left = MAX_HEAD
        self._in_head = True
        self._of_part = 0
        self._timer: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # noqa: D102
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: D102
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:  # noqa: D102
        in_head = self._in_head
        super().data_received(data)
        if in_head and self._in_head:
            self._left -= len(data)
            if self._left < 0 and not self.transport.is_closing():
                self.send_400_response(f"The head of the request is larger than {MAX_HEAD:,} bytes.")

    def on_message_begin(self) -> None:  # noqa: D102
        super().on_message_begin()
        if not self._in_head:
            self._await_head()

    def on_headers_complete(self) -> None:  # noqa: D102
        self._in_head = False
        self._stop_timer()
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > MAX_HEAD:
            raise _HeadTooLargeError
        super().on_headers_complete()
        self._await_part()

    def on_body(self, body: bytes) -> None:  # noqa: D102
        super().on_body(body)
        self._of_part += len(body)
        if self._of_part >= BODY_PART:
            self._stop_timer()
            self._await_part()

    def on_message_complete(self) -> None:  # noqa: D102
        self._stop_timer()
        super().on_message_complete()

    def _await_head(self) -> None:
        self._in_head, self._left = True, MAX_HEAD
        self._timer = self.loop.call_later(HEAD_S, self._close)

    def _await_part(self) -> None:
        self._of_part = 0
        self._timer = self.loop.call_later(BODY_S, self._close_unless_paused)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _close_unless_paused(self) -> None:
        if self.flow.read_paused:  # it is not the client that is slow
            self._await_part()
        else:
            self._close()

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
