"""Report HTTP requests that aiohttp cannot parse by a callback; aiohttp itself logs a traceback for each of them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from aiohttp.http import HttpProcessingError
from aiohttp.log import server_logger


class RequestLogger(logging.LoggerAdapter[logging.Logger]):
    """aiohttp's logger of one HTTP server. It calls `bad_request` with the kind of each malformed request.

    The text of such an error quotes the request, which may contain a token, so it is not passed on.
    """

    def __init__(self, bad_request: Callable[[str], None]) -> None:
        super().__init__(server_logger, {})
        self._bad_request = bad_request

    def log(self, level: int, msg: object, *args: object, **options: Any) -> None:
        """Log anything but a malformed request."""
        error = options.get("exc_info")
        if isinstance(error, HttpProcessingError):
            self._bad_request(type(error).__name__)
        else:
            super().log(level, msg, *args, **options)
