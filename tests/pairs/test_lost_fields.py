"""The loss ledger names what a client or a backend of another dialect does not get, once each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.app import App
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.demo.script import load
from dragoman.gateway.endpoint import parse
from tests.pairs.codewhale_client import CodewhaleClient
from tests.pairs.gateway import SmoothClient, bridged, serving
from tests.pairs.pando_client import PandoClient
from tests.pairs.table import DIALECTS, LISTEN, PAIRS
from tests.pairs.turn_clients import TurnClient, join

AUTH = {"userId": "u", "signature": "00", "timestamp": 1}
SETTINGS = ("approval_policy", "base_instructions", "developer_instructions", "model", "personality", "sandbox")
PARENT = {"String": "00000000-0000-4000-8000-000000000001", "Valid": True}
ANSWER = """\
{"type":"text_delta","text":"See the page."}
{"type":"turn_ended","end":"completed","ext":{"smooth.citations":[{"id":"1","title":"T","snippet":"s","score":1}]}}
"""

LOST = {
    "smooth": {kind: ["metadata", "ext.authContext"] for kind in ("OpenSession", "ResumeSession")},
    "codewhale": {
        "OpenSession": ["ext.params.model_provider"],
        "SubmitInput": ["ext.allowed_tools"],
        "ResumeSession": [f"ext.params.{name}" for name in SETTINGS],
    },
    "pando": {"OpenSession": ["ext.row"]},
}
"""Client -> kind of a command -> the fields that only servers of its own dialect get."""


async def use_smooth_fields(url: str) -> None:
    async with SmoothClient.connected(url) as client:
        create = {
            "action": "create_conversation_session",
            "agentId": client.session,
            "authContext": AUTH,
            "metadata": {"a": 1},
        }
        opened = await client.ask(create)
        await client.ask({**create, "conversationId": opened["data"]["conversationId"]})


async def use_codewhale_fields(url: str) -> None:
    async with CodewhaleClient.connected(url.removeprefix("unix:")) as client:
        thread = (await client.call("thread/start", model_provider="p"))["thread_id"]
        assert "result" in await client.ask("thread/message", thread_id=thread, input="retry", allowed_tools=[])
        await client.call("thread/resume", thread_id=thread, **dict.fromkeys(SETTINGS, "x"))


async def use_pando_fields(url: str) -> None:
    async with PandoClient.connected(url) as client:
        row: dict[str, Any] = {"id": "00000000-0000-4000-8000-000000000002", "title": "t", "parent_session_id": PARENT}
        await client.write("CreateSession", row)


USES = {"smooth": use_smooth_fields, "codewhale": use_codewhale_fields, "pando": use_pando_fields}


@pytest.mark.parametrize(("client", "backend"), [(one, other) for one, other in PAIRS if one in USES])
async def test_a_command_names_the_fields_that_its_backend_does_not_get(
    client: str, backend: str, tmp_path: Path
) -> None:
    for name in ("backend", "atlas"):
        (tmp_path / name).mkdir()
    app = demo_backend(parse(LISTEN[backend].format(folder=tmp_path / "backend")))
    listen = LISTEN[client].format(folder=tmp_path / "atlas")
    async with serving(app) as (upstream,), bridged(upstream, listen=listen) as (gateway, url):
        await USES[client](url)
        fields = {
            row.kind: row.field for row in gateway.ledger.partial() if (row.source, row.target) == (client, backend)
        }
    if client == backend:
        assert fields == {}
    for kind, lost in LOST[client].items() if client != backend else ():
        assert set(lost) <= set(fields[kind].split(", ")), kind


@asynccontextmanager
async def joined(folder: Path, backend: str, client: str, script: str) -> AsyncIterator[tuple[App, TurnClient]]:
    """Yield a gateway in front of a backend that answers with this script, and a client of the gateway."""
    for name in ("backend", "atlas"):
        (folder / name).mkdir()
    (folder / "script.jsonl").write_text(script)
    app = demo_backend(parse(LISTEN[backend].format(folder=folder / "backend")), load(folder / "script.jsonl"))
    listen = LISTEN[client].format(folder=folder / "atlas")
    async with (
        serving(app) as (upstream,),
        bridged(upstream, listen=listen) as (gateway, url),
        join(client, url) as peer,
    ):
        yield gateway, peer


def fields_lost(gateway: App, *kinds: str) -> list[tuple[str, str]]:
    """Return the kind and field of each loss of these kinds, as often as it was counted."""
    rows = [*gateway.ledger.entries(), *gateway.ledger.partial()]
    return sorted((row.kind, field) for row in rows if row.kind in kinds for field in row.field.split(", ") * row.count)


@pytest.mark.parametrize("client", DIALECTS)
async def test_an_answer_names_its_citations_that_a_client_does_not_get(client: str, tmp_path: Path) -> None:
    async with joined(tmp_path, "smooth", client, ANSWER) as (gateway, peer):
        assert (await peer.turn("hi")).text == "See the page."
        lost = [row.target for row in gateway.ledger.partial() if "ext.citations" in row.field]
    assert lost == [client] * (client != "smooth")


FAILED = """\
{"type":"text_delta","text":"No"}
{"type":"turn_ended","end":"failed","failure":\
{"cause":"internal","text":"out of paper","ext":{"smooth.code":"PAPER_JAM","smooth.details":{"tray":2}}}}
""".replace("\\\n", "")


@pytest.mark.parametrize("client", DIALECTS)
async def test_a_failure_names_once_its_code_and_details_that_a_client_does_not_get(
    client: str, tmp_path: Path
) -> None:
    async with joined(tmp_path, "smooth", client, FAILED) as (gateway, peer):
        assert (await peer.turn("hi")).end in ("failed", "completed")  # a pando has one end
        lost = [field for _, field in fields_lost(gateway, "ErrorReported", "TurnEnded") if field.startswith("ext.")]
    assert lost == ["ext.code", "ext.details"] * (client != "smooth")


CAUSES = {
    ("pod", "model_failed"): [],
    ("pod", "rate_limited"): [("ErrorReported", "cause")],
    ("codewhale", "model_failed"): [("ErrorReported", "cause")],
}
"""Client, and the cause of a failure -> what is lost. A pod has one code for both causes of its model."""


@pytest.mark.parametrize(("client", "cause"), CAUSES)
async def test_the_cause_of_a_failure_is_lost_once_and_only_if_the_client_s_code_does_not_tell_it(
    client: str, cause: str, tmp_path: Path
) -> None:
    script = f'{{"type":"turn_ended","end":"failed","failure":{{"cause":"{cause}","text":"no"}}}}\n'
    async with joined(tmp_path, "smooth", client, script) as (gateway, peer):
        assert (await peer.turn("hi")).end == "failed"
        assert fields_lost(gateway, "ErrorReported", "TurnEnded") == CAUSES[client, cause]


USED = """\
{"type":"text_delta","text":"a"}
{"type":"turn_ended","end":"completed","usage":{"input_tokens":3,"output_tokens":4}}
"""


async def test_the_usage_of_a_turn_is_lost_once(tmp_path: Path) -> None:
    async with joined(tmp_path, "smooth", "codewhale", USED) as (gateway, peer):
        await peer.turn("hi")
        assert fields_lost(gateway, "UsageReported", "TurnEnded") == [("UsageReported", "")]


LIMITED = """\
{"type":"text_delta","text":"a"}
{"type":"turn_ended","end":"limit_reached"}
"""


@pytest.mark.parametrize("client", ["smooth", "codewhale"])
async def test_an_end_without_a_form_is_lost_once(client: str, tmp_path: Path) -> None:
    async with joined(tmp_path, "pod", client, LIMITED) as (gateway, peer):
        await peer.turn("hi")
        assert fields_lost(gateway, "TurnResult", "TurnEnded") == [("TurnEnded", "end")]


CALLS = """\
{"type":"reasoning_started"}
{"type":"reasoning_delta","text":"thought"}
{"type":"reasoning_done","text":"thought"}
{"type":"tool_call_started","call":"c","name":"ls"}
{"type":"tool_call_arguments","call":"c","name":"ls","json":"{}","done":true}
{"type":"tool_call_finished","call":"c","name":"ls","summary":"one","output":"one line"}
{"type":"text_delta","text":"a"}
{"type":"turn_ended","end":"completed"}
"""


async def test_fields_of_calls_that_wait_for_a_result_are_named(tmp_path: Path) -> None:
    async with joined(tmp_path, "pod", "codewhale", CALLS) as (gateway, peer):
        await peer.turn("hi")
        lost = fields_lost(gateway, "ToolCallArguments", "ToolCallFinished")
    assert lost == [("ToolCallArguments", "call"), ("ToolCallFinished", "call"), ("ToolCallFinished", "summary")]


@pytest.mark.parametrize("client", ["smooth", "pando", "codewhale"])
async def test_a_history_names_its_items_that_a_client_is_not_shown(client: str, tmp_path: Path) -> None:
    async with joined(tmp_path, "pod", client, CALLS) as (gateway, peer):
        await peer.turn("hi")
        shown = len(await peer.history())
        rows = [(row.field, row.count) for row in gateway.ledger.entries() if row.field.startswith("items.")]
    assert shown == 2
    assert sorted(rows) == [("items.reasoning", 1), ("items.tool_call", 1), ("items.tool_result", 1)]


@pytest.mark.parametrize("backend", ["pod", "codewhale"])
async def test_an_opening_loses_what_the_client_said_and_nothing_that_the_gateway_adds(
    backend: str, tmp_path: Path
) -> None:
    async with joined(tmp_path, backend, "pando", ANSWER) as (gateway, _peer):
        assert fields_lost(gateway, "OpenSession") == [("OpenSession", "title")]


async def test_a_title_reaches_a_backend_that_keeps_all_of_it(tmp_path: Path) -> None:
    async with joined(tmp_path, "codewhale", "smooth", ANSWER) as (gateway, peer):
        await peer.turn("hi")
        (row,) = (await peer.client.ask({"action": "list_conversations"}))["data"]["conversations"]
        rename = {"action": "rename_conversation", "conversationId": row["conversationId"], "title": "t" * 61}
        assert (await peer.client.ask(rename))["status"] == 200
        (row,) = (await peer.client.ask({"action": "list_conversations"}))["data"]["conversations"]
        assert (row["title"], fields_lost(gateway, "RenameSession")) == ("t" * 61, [])


async def test_a_title_that_a_smooth_server_cuts_is_counted(tmp_path: Path) -> None:
    async with joined(tmp_path, "smooth", "codewhale", ANSWER) as (gateway, peer):
        await peer.turn("hi")
        thread = (await peer.client.call("thread/list"))["threads"][0]["id"]
        await peer.client.call("thread/set_name", thread_id=thread, name="t" * 61)
        assert fields_lost(gateway, "RenameSession") == [("RenameSession", "title")]


@pytest.mark.parametrize("backend", ["pod", "pando", "codewhale"])
async def test_a_model_that_a_backend_does_not_get_is_counted_once_and_a_refused_image_not_at_all(
    backend: str, tmp_path: Path
) -> None:
    async with joined(tmp_path, backend, "smooth", ANSWER) as (gateway, peer):
        say = {"action": "send_message", "sessionId": peer.client.session, "message": "hi"}
        refused = await peer.client.ask({**say, "images": [{"url": "http://127.0.0.1/a.png"}]})
        request = await peer.client.send({**say, "model": "m"})
        await peer.client.until(lambda: any(end["requestId"] == request for end in peer.client.terminals()))
        assert refused["type"] == "error"
        assert fields_lost(gateway, "SubmitInput") == [("SubmitInput", "model")]
