"""uvicorn's HTTP/1.1 with a limit for the head of a request, which uvicorn does not have."""

from __future__ import annotations

from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD: Final = 64 << 10
"""Bytes of a request's first line and headers."""


class _HeadTooLargeError(Exception):
    """The parser turns it into an error of its own, and uvicorn answers that with 400."""


class Protocol(HttpToolsProtocol):
    """Refuses a head that is too large, as soon as so much of it came in."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._left = MAX_HEAD
        self._in_head = True

    def data_received(self, data: bytes) -> None:  # noqa: D102
        in_head = self._in_head
        super().data_received(data)
        if in_head and self._in_head:
            self._left -= len(data)
            if self._left < 0 and not self.transport.is_closing():
                self.send_400_response(f"The head of the request is larger than {MAX_HEAD:,} bytes.")

    def on_message_begin(self) -> None:  # noqa: D102
        super().on_message_begin()
        self._in_head = True
        self._left = MAX_HEAD

    def on_headers_complete(self) -> None:  # noqa: D102
        self._in_head = False
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > MAX_HEAD:
            raise _HeadTooLargeError
        super().on_headers_complete()
