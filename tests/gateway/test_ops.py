"""Small parts of the ops port: queries, answers, and the connections of its clients."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from dragoman.adapters.meter import Meter
from dragoman.gateway.app import App
from dragoman.gateway.config.check import load
from dragoman.gateway.config.model import ConfigFile
from dragoman.gateway.endpoint import parse
from dragoman.gateway.ingress import Ingress
from dragoman.gateway.ops import admin, server
from dragoman.gateway.ops.answers import config_in_force, session_detail
from dragoman.gateway.ops.gateway_loop import SLICE
from dragoman.gateway.ops.queries import SessionQuery, parse_query
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical.values import SessionSummary
from tests.gateway.ops.running import OpsClient, operated
from tests.pairs.gateway import DEADLINE

# -- queries -----------------------------------------------------------------------------------------


def parsed(query: str) -> SessionQuery:
    return parse_query(make_mocked_request("GET", f"/sessions?{query}"), SessionQuery)


def test_the_parameters_of_a_query_are_read_as_their_types() -> None:
    assert parsed("limit=7&state=idle&sort=-memory") == SessionQuery(limit=7, state="idle", sort="-memory")


@pytest.mark.parametrize("query", ["limit=0", "limit=many", "colour=red", "sort=colour", "route=a&route=b"])
def test_a_refusal_names_what_is_wrong(query: str) -> None:
    with pytest.raises(web.HTTPBadRequest) as caught:
        parsed(query)
    assert query.partition("=")[0] in str(caught.value.text)


def test_a_refusal_of_a_word_names_the_words_that_are_known() -> None:
    with pytest.raises(web.HTTPBadRequest) as caught:
        parsed("state=closed")
    assert caught.value.text == "state 'closed' is not one of idle, running, paused"


# -- answers -----------------------------------------------------------------------------------------


TEXT = """
[[route]]
name = "r"
listen = ["pod+unix:s"]
upstream = "smooth+ws://h:1/ws?token=hidden-in-a-token&agent=shown"
env = ["LICENCE=${file:licence}"]
[auth]
tokens = { alice = "hidden-token-of-alice" }
[recording]
path = "recordings/"
[recording.redact]
salt = "hidden-in-the-salt"
"""


async def test_the_configuration_in_force_has_the_keys_of_a_file_and_no_secret(tmp_path: Path) -> None:
    (tmp_path / "licence").write_text("hidden-in-a-file", "utf-8")
    file = tmp_path / "config.toml"
    file.write_text(TEXT, "utf-8")
    file.chmod(0o600)
    shown = (await config_in_force(App(load(file)))).config
    assert b"hidden" not in msgspec.json.encode(shown)
    assert shown.keys() == {field.encode_name for field in msgspec.structs.fields(ConfigFile)}
    assert shown["route"][0]["upstream"] == "smooth+ws://h:1/ws?token=***&agent=shown"
    assert shown["limits"]["links"] == 10_000


async def test_the_clients_of_a_session_are_read_in_slices() -> None:
    def link(number: int) -> Any:
        facts = {"dialect": SimpleNamespace(name="pod"), "peer": "unix", "principal": "local", "ingress": Ingress()}
        return SimpleNamespace(
            id=str(number), **facts, sessions={}, outbox=SimpleNamespace(size=0), behind={}, meter=Meter()
        )

    links = [link(number) for number in range(10 * SLICE)]
    session = SimpleNamespace(
        state=SessionState(id="s"),
        delivery=SimpleNamespace(attachments={one.id: None for one in links}),
        presence=SimpleNamespace(links=[]),
        summary=lambda: SessionSummary(session="s", title="", updated_at=0, messages=0, status="idle"),
        is_busy=False,
        memory=SimpleNamespace(counted=0),
    )
    route = SimpleNamespace(name="r", upstream=parse("pod+unix:/pod"))
    gateway: Any = SimpleNamespace(routers=[SimpleNamespace(route=route, sessions=[session])], links=links)
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(session_detail(gateway, "s"))
        steps = 0
        while not asked.done():
            steps += 1
            await asyncio.sleep(0)
    detail = asked.result()
    assert detail is not None
    assert (len(detail.links), steps >= 10) == (len(links), True)
    assert await session_detail(gateway, "other") is None


# -- connections -------------------------------------------------------------------------------------


@asynccontextmanager
async def strangers(port: OpsClient, number: int) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Open connections that send the beginning of a request, and nothing more."""
    place = urlsplit(port.url)
    opened = [await asyncio.open_connection(place.hostname, place.port) for _ in range(number)]
    for _, writer in opened:
        writer.write(b"GET /livez HTT")
    try:
        yield [reader for reader, _ in opened]
    finally:
        for _, writer in opened:
            writer.close()


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Wait for the end of a connection; it is reset if the server had not read all of it."""
    with contextlib.suppress(ConnectionResetError):
        return await reader.read() == b""
    return True


async def test_connections_without_a_request_keep_no_probe_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 4)
    async with operated() as port, strangers(port, 12) as readers:
        assert (await port.ask("/livez"))[0] == 200
        async with asyncio.timeout(DEADLINE):
            assert await is_closed(readers[0]), "the oldest was closed"


async def test_few_connections_stay_open_while_descriptors_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SHORT_MAX", 4)
    monkeypatch.setattr(server, "descriptor_shortage", lambda: "too many open files")
    async with operated() as port, strangers(port, 12) as readers, asyncio.timeout(DEADLINE):
        for reader in readers[:8]:
            assert await is_closed(reader)
        assert (await port.ask("/livez"))[0] == 200


async def test_a_connection_without_a_whole_request_is_closed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_MAX", 0.01)
    async with operated() as port, strangers(port, 1) as readers, asyncio.timeout(DEADLINE):
        assert await is_closed(readers[0])


async def test_a_request_without_its_body_is_refused_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "BODY_DEADLINE", 0.01)
    async with operated() as port:
        place = urlsplit(port.url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(b"PUT /log-level HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        async with asyncio.timeout(DEADLINE):
            assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 408 Request Timeout\r\n"
        writer.close()
