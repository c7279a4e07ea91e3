"""Authentication through the whole gateway, with real clients at real listeners."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from dragoman.gateway.config.access import resolve_access
from dragoman.gateway.config.model import Auth, Limits
from tests.gateway.identity.running import ALICE, AUTH, BOB, WS, gateway, shake
from tests.pairs.gateway import SmoothClient


async def test_a_client_with_a_token_is_served() -> None:
    async with gateway(WS) as (_, (url,)):
        for query, headers in (
            ("", {"Authorization": f"Bearer {ALICE}"}),
            ("", {"Authorization": f"bearer  {ALICE}"}),
            (f"?token={ALICE}", {}),
            (f"?token={ALICE}", {"Authorization": f"Bearer {ALICE}"}),
        ):
            assert (await shake(url + query, headers))[0] == 101, (query, headers)


NONE = ('Bearer realm="dragoman"', "a token is needed")
INVALID = 'Bearer realm="dragoman", error="invalid_token"'
SEVERAL = (INVALID, "this request has several tokens")
REFUSED: list[tuple[str, dict[str, str], tuple[str, str]]] = [
    ("", {}, NONE),
    ("?token=", {}, NONE),
    ("", {"Authorization": "Basic YTpi"}, NONE),
    ("?token=wrong", {}, (INVALID, "this token is not accepted")),
    (f"?token={ALICE}", {"Authorization": "Bearer wrong"}, SEVERAL),
    ("?token=wrong", {"Authorization": f"Bearer {ALICE}"}, SEVERAL),
    (f"?token={ALICE}&token=wrong", {}, SEVERAL),
    (f"?token=wrong&token={ALICE}", {}, SEVERAL),
    (f"?token={ALICE}&token=", {}, SEVERAL),
    (f"?token={ALICE}&token={BOB}", {}, SEVERAL),
]
"""A query and headers, and the challenge and the beginning of the text with which they are refused."""


async def test_a_client_without_an_accepted_token_is_refused_before_its_handshake() -> None:
    async with gateway(WS) as (app, (url,)):
        for number, (query, headers, (challenge, text)) in enumerate(REFUSED, start=1):
            status, asked, said = await shake(url + query, headers)
            assert (status, asked) == (401, challenge), (query, headers)
            assert said.startswith(text), (query, headers)
            assert app.ledger.counters["refused_client_authentication"] == number


async def test_a_refusal_waits_for_the_delay() -> None:
    limits = Limits(auth_delay=3600.0, drain_deadline=0.5)
    async with gateway(WS, limits=limits) as (_, (url,)), asyncio.TaskGroup() as group:
        asking = group.create_task(shake(url))
        assert (await shake(f"{url}?token={ALICE}"))[0] == 101, "one client's failure delays another"
        assert not asking.done()
        asking.cancel()


async def test_each_failure_is_logged_with_its_address() -> None:
    with capture_logs() as logs:
        async with gateway(WS) as (_, (url,)):
            for _attempt in range(3):
                await shake(url)
    failed = [entry for entry in logs if entry["event"] == "client not authenticated"]
    assert [entry["address"] for entry in failed] == ["127.0.0.1"] * 3


async def test_no_log_line_has_the_token_of_a_client() -> None:
    with capture_logs() as logs:
        async with gateway(WS) as (_, (url,)):
            await shake(f"{url}?token={ALICE}")
            await shake(f"{url}?token=wrong-wrong-wrong")
            await shake(f"{url}/elsewhere?token=wrong-wrong-wrong")
    assert logs
    assert not [entry for entry in logs if ALICE in str(entry) or "wrong-wrong" in str(entry)]


async def test_the_principals_of_one_person_share_their_sessions() -> None:
    async with (
        gateway(WS, principals={"ann": ("token:alice", "token:bob")}) as (_, (url,)),
        SmoothClient.connected(f"{url}?token={ALICE}") as alice,
        SmoothClient.connected(f"{url}?token={BOB}") as bob,
    ):
        assert (await bob.ask({"action": "get_session", "sessionId": alice.session}))["type"] != "error"


async def test_a_listed_user_of_a_socket_gets_its_session(tmp_path: Path) -> None:
    async with gateway(f"pod+unix:{tmp_path}/sock?uid={os.getuid()}", WS):
        reader, writer = await asyncio.open_unix_connection(f"{tmp_path}/sock")
        first = json.loads(await reader.readline())
        writer.close()
    assert first["event"] == "snapshot"


@pytest.mark.parametrize(
    ("auth", "principals", "ended"),
    [
        (Auth(tokens={"bob": BOB}), {}, True),
        (Auth(tokens={"alice": "another secret", "bob": BOB}), {}, True),
        (Auth(tokens={"carol": ALICE, "bob": BOB}), {}, True),
        (Auth(tokens={"alice": ALICE}), {}, False),
        (AUTH, {"anna": ("token:alice",)}, True),
    ],
    ids=["removed", "replaced", "of another name", "kept", "of another person"],
)
async def test_a_reload_disconnects_the_clients_whose_token_it_removes(
    auth: Auth, principals: dict[str, tuple[str, ...]], ended: bool
) -> None:
    async with gateway(WS) as (app, (url,)), SmoothClient.connected(f"{url}?token={ALICE}") as client:
        (link,) = app.links
        await app.change_config(structs.replace(app.config, auth=auth, principals=principals))
        if ended:
            await client.until(lambda: "the token was revoked" in str(client.frames))
        else:
            await client.ask({"action": "ping"})
        assert link.alive is not ended


async def test_a_reload_that_begins_to_authenticate_disconnects_the_clients_without_a_credential() -> None:
    async with gateway(WS, auth=Auth()) as (app, (url,)), SmoothClient.connected(url) as client:
        (link,) = app.links
        (route,) = app.config.routes
        await app.change_config(structs.replace(app.config, auth=AUTH, routes=(resolve_access(route, AUTH),)))
        await client.until(lambda: "this route asks for a credential now" in str(client.frames))
        assert not link.alive
