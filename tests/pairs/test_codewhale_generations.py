"""A listener of the seed's generation, live, against docs/dialects/codewhale.md, section 10 and the capture of a
real one.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from dragoman.mappings.codewhale.vocabulary import SEED
from tests.mappings.codewhale.data import VECTORS, captured_answers
from tests.oracle.codewhale import CodewhaleOracle
from tests.pairs.codewhale_client import CodewhaleClient
from tests.pairs.gateway import bridged, serving

GHOST = "thread-ghost"
REAL = {answer["id"]: answer for answer in captured_answers("13") if "id" in answer}
"""Request id -> the answer of a real seed."""


@asynccontextmanager
async def seed(folder: Path) -> AsyncIterator[CodewhaleClient]:
    """Connect a client to a listener of the seed's generation before the demo backend, and begin a thread."""
    listen = f"codewhale@{SEED}+unix:{folder}/front"
    async with (
        serving(demo_backend(parse(f"pod+unix:{folder}/pod"))) as (upstream,),
        bridged(upstream, listen=listen) as (_, url),
        CodewhaleClient.connected(url.removeprefix("unix:"), "") as client,
    ):
        client.oracle = CodewhaleOracle(SEED)
        client.thread = (await client.call("thread/start"))["thread_id"]
        yield client


def text(result: dict[str, Any]) -> str:
    """Return the text that a client of the seed shows: that of the result, without the lines beside it."""
    frames = result["events"]
    return "".join(f["delta"] for f in frames if f["event"] == "response_delta" and "channel" not in f)


async def test_a_turn_has_its_text_in_the_result_and_its_lines_are_the_hook_mirror(tmp_path: Path) -> None:
    async with seed(tmp_path) as client:
        start = len(client.lines)
        answer = await client.answer(await client.say("retry"))
        assert text(answer["result"]) == "The second try worked."
        name = f"{client.thread}:{len('retry')}"
        bare = [line for line in client.lines[start:] if "type" in line]
        assert bare == [
            {"type": "response_start", "response_id": name},
            {"type": "response_end", "response_id": name},
        ]
        assert {frame["response_id"] for frame in answer["result"]["events"]} == {name}
        assert list(answer["result"]) == list(REAL[3]["result"])
        again = await client.answer(await client.say("héé"))
        assert again["result"]["events"][0]["response_id"] == f"{client.thread}:5", "bytes, not characters"


async def test_reasoning_and_tools_are_beside_the_text(tmp_path: Path) -> None:
    async with seed(tmp_path) as client:
        answer = await client.answer(await client.say("Where is my order?"))
        assert text(answer["result"]).startswith("Let me look that up.")
        channels = [f.get("channel", "text") for f in answer["result"]["events"] if f["event"] == "response_delta"]
        assert {"reasoning", "text"} == set(channels)
        names = [f["tool_name"] for f in answer["result"]["events"] if f["event"] == "tool_call_start"]
        assert names == ["lookup_order"]


async def test_a_failure_is_an_error_after_the_end_of_its_response(tmp_path: Path) -> None:
    async with seed(tmp_path) as client:
        answer = await client.answer(await client.say("fail please"))
        assert answer["error"]["code"] == -32603
        assert text((await client.answer(await client.say("retry")))["result"]) == "The second try worked."


async def test_the_capabilities_of_a_seed_are_those_of_a_real_one(tmp_path: Path) -> None:
    async with seed(tmp_path) as client:
        assert await client.call("capabilities") == REAL[1]["result"]
        assert len(REAL[1]["result"]["methods"]) == 28
        vectors = {row["name"]: json.loads(row["wire"])["result"] for row in VECTORS if row["name"].startswith("res.")}
        assert await client.call("thread/capabilities") == vectors["res.thread.capabilities.seed"]
        app = await client.call("app/capabilities")
        assert app["data"] | {"config_path": ""} == vectors["res.app.capabilities.seed"]["data"] | {"config_path": ""}
        interrupt = await client.ask("thread/interrupt", thread_id=client.thread)
        assert interrupt["error"] == REAL[13]["error"]
        progress = await client.ask("thread/request", kind="goal_record_progress", thread_id=client.thread)
        assert progress["error"] == REAL[14]["error"]


@pytest.mark.parametrize(
    ("method", "params", "code", "message"),
    [
        ("app/config/reload", {}, -32601, "unsupported method: app/config/reload"),
        ("app/request", {"kind": "config_reload"}, -32602, "unknown variant `config_reload`, expected one of "),
        (
            "app/request",
            {"kind": "submit_user_input", "request_id": "r", "answers": []},
            -32602,
            "unknown variant `submit_user_input`, expected one of ",
        ),
    ],
)
async def test_methods_of_later_generations_are_unknown(
    method: str, params: dict[str, Any], code: int, message: str, tmp_path: Path
) -> None:
    async with seed(tmp_path) as client:
        error = (await client.ask(method, **params))["error"]
        assert (error["code"], error["message"][: len(message)]) == (code, message)


async def test_a_thread_that_is_missing_is_a_result(tmp_path: Path) -> None:
    missing = json.loads(next(row["wire"] for row in VECTORS if row["name"] == "res.thread.missing"))["result"]
    del missing["approval_policy"]  # which was asked for there
    async with seed(tmp_path) as client:
        for method in ("thread/resume", "thread/fork"):
            assert await client.call(method, thread_id=GHOST) == missing | {"thread_id": GHOST}


async def test_stdin_is_not_read_while_a_turn_runs(tmp_path: Path) -> None:
    """A shutdown waits for the turn, which runs to its end (section 1.4)."""
    async with seed(tmp_path) as client:
        turn = await client.say("count 500")
        last = await client.send("shutdown")
        assert (await client.answer(last))["result"] == {"ok": True, "status": "stopped"}
        assert text((await client.answer(turn))["result"]) == "".join(f"{n} " for n in range(500))
