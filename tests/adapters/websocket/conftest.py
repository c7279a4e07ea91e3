"""Both ways of writing, for every test that asks for `write_path`."""

from __future__ import annotations

import pytest

from dragoman.adapters.websocket.transport import BatchWriter


@pytest.fixture(params=["batched", "framewise"])
def write_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with aiohttp as it is, and with an aiohttp without the names that corking needs."""
    path = str(request.param)
    if path == "framewise":
        monkeypatch.setattr(BatchWriter, "possible", staticmethod(lambda protocol: False))
    return path
