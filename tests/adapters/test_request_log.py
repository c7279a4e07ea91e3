"""aiohttp's log of an HTTP server, without its errors about malformed requests."""

from __future__ import annotations

import logging

import pytest
from aiohttp.http import HttpProcessingError

from dragoman.adapters.request_log import RequestLogger


def test_a_malformed_request_is_reported_by_its_kind_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    kinds: list[str] = []
    RequestLogger(kinds.append).exception("Error", exc_info=HttpProcessingError(message="token=s3cret"))
    assert (kinds, caplog.records) == (["HttpProcessingError"], [])


def test_any_other_error_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    kinds: list[str] = []
    with caplog.at_level(logging.ERROR):
        RequestLogger(kinds.append).exception("Unhandled exception", exc_info=ValueError("x"))
    assert kinds == []
    assert [(record.message, bool(record.exc_info)) for record in caplog.records] == [("Unhandled exception", True)]
