"""Pando clients see a session under the id that a pando client chose, in front of a backend of each dialect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from tests.pairs.gateway import DEADLINE, bridged, serving
from tests.pairs.pando_client import NOBODY, PandoClient, RefusalError
from tests.pairs.pod_client import PodClient
from tests.pairs.table import DIALECTS, LISTEN
from tests.pairs.test_pairs import LIMITS

OWN = "Ours/1"  # no UUID: an id is only ever an opaque string (docs/dialects/pando.md, section 7)
UNKNOWN = "0b0e9b0e-0000-4000-8000-00000000dead"
NO_ROWS = "sql: no rows in result set"

backends = pytest.mark.parametrize("backend", DIALECTS)


@asynccontextmanager
async def viewer(backend: str, folder: Path) -> AsyncIterator[PandoClient]:
    """Connect a pando client without a session to a gateway before the demo backend."""
    (folder / "backend").mkdir()
    demo = demo_backend(parse(LISTEN[backend].format(folder=folder / "backend")))
    async with (
        asyncio.timeout(DEADLINE),
        serving(demo) as (upstream, *_),
        bridged(upstream, listen=LISTEN["pando"], limits=LIMITS) as (_, address),
        PandoClient.connected(address, session="") as client,
    ):
        yield client


@asynccontextmanager
async def two_gateways(between: str, listen: str, folder: Path) -> AsyncIterator[tuple[str, str]]:
    """Serve the demo pod through two gateways, joined by the dialect `between`; yield the address of each."""
    (folder / "backend").mkdir()
    demo = demo_backend(parse(LISTEN["pod"].format(folder=folder / "backend")))
    async with (
        asyncio.timeout(DEADLINE),
        serving(demo) as (upstream, *_),
        bridged(upstream, listen=LISTEN[between].format(folder=folder), limits=LIMITS) as (_, inner),
        bridged(f"{between}+{inner}", listen=LISTEN[listen].format(folder=folder), limits=LIMITS) as (_, outer),
    ):
        yield inner, outer


async def create(client: PandoClient, id: str = OWN) -> dict[str, Any]:
    """Return the row of a session that the client opens under its own id."""
    params = {
        "id": id,
        "parent_session_id": NOBODY,
        "title": "Mine",
        "message_count": 0,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "cost": 0,
    }
    row: dict[str, Any] = await client.write("CreateSession", params)
    client.session = id
    return row


async def rename(client: PandoClient, title: str) -> dict[str, Any]:
    """Return the row after UpdateSession."""
    params = {
        "id": OWN,
        "title": title,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "summary_message_id": NOBODY,
        "cost": 0,
    }
    row: dict[str, Any] = await client.write("UpdateSession", params)
    return row


@pytest.mark.parametrize("backend", ["smooth", "codewhale"])
async def test_a_session_has_the_title_of_its_creation_if_the_backend_keeps_none(backend: str, tmp_path: Path) -> None:
    async with viewer(backend, tmp_path) as client:
        row = await create(client)
        session = await client.call("session.get", session_id=OWN)
        assert (row["title"], session["title"]) == ("Mine", "Mine")


@backends
async def test_an_id_chosen_by_a_client_is_answered_published_and_accepted(backend: str, tmp_path: Path) -> None:
    async with viewer(backend, tmp_path) as client:
        row = await create(client)
        assert row["id"] == OWN
        await client.heard()
        await client.turn("Where is my order?")
        assert {"llm.token", "session.update", "session.activated"} <= set(client.topics())
        runs = [payload for topic, payload in client.told if topic.startswith(("llm.", "tool."))]
        assert {payload["session_id"] for payload in runs} == {OWN}
        assert (await client.call("session.get", session_id=OWN))["id"] == OWN
        assert [row["id"] for row in await client.call("session.list")] == [OWN]
        assert [row["id"] for row in (await client.call("state.sync"))["sessions"]] == [OWN]
        said = await client.call("message.list", session_id=OWN)
        assert [m["role"] for m in said] == ["user", "assistant"]
        assert await client.call("session.interrupt", session_id=OWN) == {"ok": True}


@backends
async def test_an_id_that_is_in_use_is_a_conflict(backend: str, tmp_path: Path) -> None:
    async with viewer(backend, tmp_path) as client:
        await create(client)
        with pytest.raises(RefusalError, match=r"dbproxy: CONFLICT \(CreateSession\): ") as refused:
            await create(client)
        assert refused.value.code == -32000


@backends
async def test_an_endless_id_is_refused_and_an_empty_one_replaced(backend: str, tmp_path: Path) -> None:
    async with viewer(backend, tmp_path) as client:
        with pytest.raises(RefusalError, match=r"dbproxy: INVALID_PARAMS \(CreateSession\): "):
            await create(client, "x" * 100_000)
        assert (await create(client, ""))["id"]


@backends
async def test_an_update_is_answered_with_the_full_row(backend: str, tmp_path: Path) -> None:
    async with viewer(backend, tmp_path) as client:
        opened = await create(client)
        await client.heard()
        await client.turn("Where is my order?")
        row = await rename(client, "Ours")
        assert row.keys() == opened.keys()
        assert (row["id"], row["title"], row["message_count"]) == (OWN, "Ours", 2)
        assert 0 < row["created_at"] <= row["updated_at"]


@backends
async def test_activating_an_unknown_session_is_refused(backend: str, tmp_path: Path) -> None:
    async with viewer(backend, tmp_path) as client:
        with pytest.raises(RefusalError, match=f"session.activate: {NO_ROWS}") as refused:
            await client.call("session.activate", session_id=UNKNOWN)
        assert refused.value.code == -32000


@backends
async def test_a_deleted_session_is_gone_and_a_failed_delete_is_reported(backend: str, tmp_path: Path) -> None:
    async with viewer(backend, tmp_path) as client:
        await create(client)
        await client.heard()
        await client.turn("Where is my order?")
        if backend == "pod":  # it is one session, and goes on
            with pytest.raises(RefusalError, match=r"dbproxy: \w+ \(DeleteSession\): "):
                await client.write("DeleteSession", OWN)
            assert [row["id"] for row in await client.call("session.list")] == [OWN]
            return
        assert await client.write("DeleteSession", OWN) is None
        assert await client.call("session.list") == []
        with pytest.raises(RefusalError, match=NO_ROWS):
            await client.call("session.get", session_id=OWN)


async def test_all_chosen_ids_of_the_single_session_of_a_pod_are_accepted_and_the_first_is_shown(
    tmp_path: Path,
) -> None:
    async with viewer("pod", tmp_path) as client:
        await create(client)
        assert (await create(client, "Ours/2"))["id"] == OWN, "who chose the first id waits for it"
        assert (await client.call("session.get", session_id="Ours/2"))["id"] == OWN
        client.session = "Ours/2"
        await client.say("Where is my order?")
        await client.until(lambda: "llm.end" in [topic for topic, _ in client.told])
        ends = [payload["session_id"] for topic, payload in client.told if topic == "llm.end"]
        assert ends == [OWN]


async def test_the_session_of_a_pod_is_published_as_deleted_under_the_id_that_it_had_before_one_was_chosen(
    tmp_path: Path,
) -> None:
    async with viewer("pod", tmp_path) as client:
        (row,) = await client.call("session.list")
        client.session = row["id"]
        await client.heard()
        await create(client)
        await client.until(lambda: "session.deleted" in [topic for topic, _ in client.told])
        ends = [payload["id"] for topic, payload in client.told if topic == "session.deleted"]
        assert ends == [row["id"]]


async def test_a_pod_client_in_front_of_two_gateways_follows_the_session_whose_id_another_client_chooses(
    tmp_path: Path,
) -> None:
    async with (
        two_gateways("pando", "pod", tmp_path) as (middle, address),
        PodClient.connected(address.removeprefix("unix:")) as pod,
        PandoClient.connected(middle, session="") as client,
    ):
        await pod.turn("Where is my order?")
        rotations = pod.names().count("segment_rotated")
        await create(client)
        await pod.until(lambda: pod.names().count("segment_rotated") > rotations)
        await pod.turn("Where is my order?")


@pytest.mark.parametrize("between", ["smooth", "codewhale"])
async def test_an_id_chosen_for_a_conversation_that_another_gateway_had_open_is_accepted(
    between: str, tmp_path: Path
) -> None:
    async with (
        two_gateways(between, "pando", tmp_path) as (_, address),
        PandoClient.connected(address, session="") as client,
    ):
        await create(client)
        await create(client, "Ours/2")
        assert (await client.call("session.get", session_id="Ours/2"))["id"] == OWN, "a pod is one session"


async def test_a_session_titled_by_the_name_of_its_pod_is_retitled_by_its_first_input(
    tmp_path: Path,
) -> None:
    async with viewer("pod", tmp_path) as client:
        await create(client)
        assert await client.call("message.list", session_id=OWN) == [], "the pod has told its name by now"
        await create(client, "")
        client.session = OWN
        await client.heard()
        await client.turn("Where is my order?")
        assert [row["title"] for row in await client.call("session.list")] == ["Where is my order?"]
