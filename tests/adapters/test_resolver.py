"""The resolver of HTTP connections."""

from __future__ import annotations

import socket

import pytest

from dragoman.adapters.resolver import LookupResolver


async def test_a_name_is_resolved_to_the_numbers_of_all_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = (socket.SOCK_STREAM, 6, "")
    answers = [
        (socket.AF_INET, *kind, ("192.0.2.7", 0)),
        (socket.AF_INET6, *kind, ("2001:db8::7", 0, 0, 0)),
    ]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: answers)
    found = await LookupResolver().resolve("a.example", 80)
    assert [(one["family"], one["host"], one["port"]) for one in found] == [
        (socket.AF_INET, "192.0.2.7", 80),
        (socket.AF_INET6, "2001:db8::7", 80),
    ]
