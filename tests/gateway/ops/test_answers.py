"""The answers of the ops port, made without a port."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from dragoman.adapters.meter import Meter
from dragoman.gateway.app import App
from dragoman.gateway.config.check import load
from dragoman.gateway.config.model import ConfigFile
from dragoman.gateway.endpoint import parse
from dragoman.gateway.ingress import Ingress
from dragoman.gateway.ops.answers import config_in_force, session_detail
from dragoman.gateway.ops.gateway_loop import SLICE
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical.values import SessionSummary

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
