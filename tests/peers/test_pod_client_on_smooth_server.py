"""The pod's terminal client before the real smooth server: the server's questions reach a pod's user in words.

On the wire a question ends the client's run, not the turn (docs/translation.md, rule 3.3): text_delta and text_done
with the question's words, run_end{paused}, status{paused}. The next input that answers it is echoed, and what remains
of the turn is a run of its own: user_message, status{running}, invoke_start, turn_start, ... run_end{finished},
status{idle}.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dragoman.gateway.config.model import Limits
from tests.pairs.gateway import LIMITS, bridged
from tests.pairs.pod_terminal_client import PodTerminalClient
from tests.peers.smooth_server import RealServer, serving, verified_only

AGENT = str(uuid4())
PATIENCE = 20.0  # seconds for a whole conversation: the server is scripted


@asynccontextmanager
async def room(
    folder: Path, limits: Limits = LIMITS, **parts: Any
) -> AsyncIterator[tuple[RealServer, PodTerminalClient]]:
    """Run a server, the gateway as a pod before it, and a terminal client."""
    (folder / "atlas").mkdir()
    listen = f"pod+unix:{folder}/atlas/sock"
    async with (
        asyncio.timeout(PATIENCE),
        serving(**parts) as server,
        bridged(f"{server.endpoint}?agent={AGENT}", listen=listen, limits=limits) as (_, address),
        PodTerminalClient.started(address.removeprefix("unix:")) as tui,
    ):
        yield server, tui


async def sends(tui: PodTerminalClient, text: str, status: str = "idle") -> int:
    """Type a line and wait until the pod is idle; return the position before its answer."""
    mark = len(tui.events)
    await tui.enter(text)
    await tui.rests(mark, status)
    return mark


async def asked(tui: PodTerminalClient, text: str) -> str:
    """Type a line that causes a question; return the question's text."""
    mark = await sends(tui, text, "paused")
    return question(tui, mark)


def question(tui: PodTerminalClient, mark: int) -> str:
    """Return the text of the question that ended the last run, and assert that the run ended as for a question."""
    ending = tui.events[-4:]
    assert [name for name, _ in ending] == ["text_delta", "text_done", "run_end", "status"], tui.since(mark)
    assert (ending[2][1], ending[3][1]) == ({"result": "paused"}, {"status": "paused"})
    words = ending[1][1]["text"]
    assert isinstance(words, str)
    assert words.endswith(ending[0][1]["text"])
    return words


def echoed(tui: PodTerminalClient, mark: int, words: str) -> None:
    """Assert that a whole run with this input follows `mark`."""
    names = [name for name in tui.since(mark) if name != "invoke_start"]
    assert names[:3] == ["user_message", "status", "turn_start"]
    assert tui.events[mark][1] == {"segments": [{"kind": "text", "content": words}]}
    assert tui.events[mark + 1][1] == {"status": "running"}
    assert names[-2:] == ["run_end", "status"]
    assert tui.events[-2][1] == {"result": "finished"}


def answered(tui: PodTerminalClient, mark: int, words: str) -> None:
    """Assert that the rest of a turn follows `mark`, as a run that begins with the echoed answer."""
    echoed(tui, mark, words)
    assert tui.since(mark)[2] == "invoke_start"


def refusal(tui: PodTerminalClient, mark: int) -> tuple[str, str]:
    """Return code and text of the only error after `mark`."""
    (error,) = [data for name, data in tui.events[mark:] if name == "error"]
    return error["code"], error["message"]


# -- without questions ------------------------------------------------------------------------------


async def test_a_turn_streams(tmp_path: Path) -> None:
    async with room(tmp_path) as (server, tui):
        server.model.push_text("Hello from the engine!")
        mark = await sends(tui, "hello there")
        echoed(tui, mark, "hello there")
        names = tui.since(mark)
        assert names.count("text_delta") > 1, "it streams"
        assert tui.text(mark) == "Hello from the engine!"
        (done,) = [data["text"] for name, data in tui.events[mark:] if name == "text_done"]
        assert done == "Hello from the engine!"


async def test_a_tool_call_is_shown_with_its_result(tmp_path: Path) -> None:
    async with room(tmp_path) as (server, tui):
        server.model.push_tool_call("c1", "lookup_order", '{"id": "123"}').push_text("It has shipped.")
        mark = await sends(tui, "where is order 123?")
        (call,) = [data for name, data in tui.events[mark:] if name == "tool_call_done"]
        (result,) = [data for name, data in tui.events[mark:] if name == "tool_result"]
        assert (call["name"], json.loads(call["arguments"])) == ("lookup_order", {"id": "123"})
        assert (result["id"], result["is_error"]) == (call["id"], False)
        assert "Order 123 shipped." in (result.get("output"), result["summary"])
        assert tui.warnings == []


async def test_a_pause_is_refused_and_the_turn_goes_on(tmp_path: Path) -> None:
    async with room(tmp_path) as (server, tui):
        server.shelves.clear()
        server.model.push_tool_call("c1", "lookup_order", '{"id": "1"}').push_text("Here it is.")
        await tui.enter("first")
        await tui.until(lambda: "tool_call_done" in tui.names())
        mark = len(tui.events)
        await tui.ctrl_c()
        await tui.until(lambda: "error" in tui.since(mark))
        assert refusal(tui, mark)[0] == "invalid_request"
        server.shelves.set()
        await tui.rests(mark)
        assert tui.text(mark) == "Here it is."


async def test_a_cancelled_run_ends_and_the_next_one_runs(tmp_path: Path) -> None:
    async with room(tmp_path) as (server, tui):
        server.shelves.clear()
        server.model.push_tool_call("c1", "lookup_order", '{"id": "1"}')
        await tui.enter("first")
        await tui.until(lambda: "tool_call_done" in tui.names())
        mark = len(tui.events)
        await tui.ctrl_x()
        assert (await tui.rests(mark))[-2:] == ["error", "status"]
        assert refusal(tui, mark) == ("internal", "Cancelled")
        server.model.push_text("Here I am.")
        assert tui.text(await sends(tui, "and now?")) == "Here I am."


async def test_a_shutdown_quits_the_terminal_and_not_the_server(tmp_path: Path) -> None:
    async with room(tmp_path) as (server, tui):
        await tui.ctrl_x()
        await tui.until(lambda: tui.quit)
        server.model.push_text("Still here.")
        async with PodTerminalClient.started(f"{tmp_path}/atlas/sock") as other:
            assert other.text(await sends(other, "anybody?")) == "Still here."


# -- approvals --------------------------------------------------------------------------------------


def scripted(server: RealServer, answer: str = "As you said.") -> None:
    """Let the model's next turn ask to delete a record, and then send this text."""
    server.model.push_tool_call("c1", "delete_record", '{"id": "42"}').push_text(answer)


@pytest.mark.parametrize("words", ["approve", "/approve", "  Approve "])
async def test_an_approval_lets_the_tool_run(tmp_path: Path, words: str) -> None:
    async with room(tmp_path) as (server, tui):
        scripted(server)
        told = await asked(tui, "delete record 42")
        assert "delete_record" in told
        assert "approve" in told
        assert "deny" in told
        assert server.deleted == []
        mark = await sends(tui, words)
        answered(tui, mark, words)
        assert server.deleted == ["42"]
        assert tui.text(mark) == "As you said."
        assert tui.names().count("tool_call_done") == tui.names().count("tool_result") == 1
        assert tui.warnings == []


async def test_a_denial_keeps_the_tool_from_running(tmp_path: Path) -> None:
    async with room(tmp_path) as (server, tui):
        scripted(server)
        await asked(tui, "delete record 42")
        mark = await sends(tui, "deny")
        answered(tui, mark, "deny")
        assert server.deleted == []
        (result,) = [data for name, data in tui.events[mark:] if name == "tool_result"]
        assert result["is_error"]
        assert tui.text(mark) == "As you said."


async def test_two_questions_of_one_turn_are_asked_one_after_the_other(tmp_path: Path) -> None:
    async with room(tmp_path) as (server, tui):
        server.model.push_tool_call("c1", "delete_record", '{"id": "42"}')
        server.model.push_tool_call("c2", "delete_record", '{"id": "43"}').push_text("One of them.")
        await asked(tui, "delete records 42 and 43")
        mark = await sends(tui, "approve", "paused")
        assert tui.since(mark)[:4] == ["user_message", "status", "invoke_start", "turn_start"]
        question(tui, mark)
        assert server.deleted == ["42"]
        mark = await sends(tui, "deny")
        answered(tui, mark, "deny")
        assert server.deleted == ["42"]


async def test_a_cancel_ends_question_and_turn(tmp_path: Path) -> None:
    async with room(tmp_path) as (server, tui):
        scripted(server)
        await asked(tui, "delete record 42")
        mark = len(tui.events)
        await tui.send("cancel")
        await tui.rests(mark)
        server.model.push_text("Fine.")
        mark = await sends(tui, "never mind")
        echoed(tui, mark, "never mind")
        assert server.deleted == []


async def test_a_question_ends_when_its_server_dies(tmp_path: Path) -> None:
    async with room(tmp_path) as (server, tui):
        scripted(server)
        await asked(tui, "delete record 42")
        mark = len(tui.events)
        await server.stop()
        await tui.rests(mark)
        code, text = refusal(tui, mark)
        assert code == "internal"
        assert "lost" in text
        assert server.deleted == []
        for why in ("the agent does not wait for an answer any more", "cannot be reached"):
            mark = len(tui.events)
            await tui.enter("approve")
            await tui.until(lambda mark=mark: "error" in tui.since(mark))
            assert why in refusal(tui, mark)[1]


# -- one-time codes ---------------------------------------------------------------------------------


IDENTITY = '{"fields": [{"key": "email", "required": true}], "reason": "to know who you are"}'


async def test_a_right_code_sends_the_refused_input_again(tmp_path: Path) -> None:
    """The server sends its code to the address that the user gave in a form (docs/dialects/smooth.md, section 6)."""
    parts = verified_only(AGENT)
    async with room(tmp_path, **parts) as (server, tui):
        server.model.push_tool_call("c0", "request_identity_intake", IDENTITY).push_text("Hello Ann.")
        await asked(tui, "hello")
        await sends(tui, "ann@example.com")
        server.model.push_tool_call("c1", "lookup_order", '{"id": "123"}').push_text("Please verify.")
        mark = len(tui.events)
        await tui.enter("where is order 123?")
        await tui.until(lambda: "a***@example.com" in tui.text(mark) and tui.status != "running")
        assert "code" in tui.text(mark)
        mark = len(tui.events)
        await tui.enter("code 000000")
        await tui.until(lambda: "run_end" in tui.since(mark) and tui.status != "running")
        assert "wrong" in tui.text(mark), "it is asked again"
        server.model.push_tool_call("c2", "lookup_order", '{"id": "123"}').push_text("It has shipped.")
        mark = len(tui.events)
        await tui.enter("code 123456")
        await tui.until(lambda: "It has shipped." in tui.text(mark) and tui.status == "idle")
        assert parts["otp_service"].tried == ["000000", "123456"]
        said = [message["content"] for message in server.model.calls[-2].messages if message["role"] == "user"]
        assert said[-1] == "where is order 123?"


# -- forms ------------------------------------------------------------------------------------------

INTAKE = (
    '{"fields": [{"key": "name", "required": true}, {"key": "email", "required": true}],'
    ' "reason": "to send you the quote"}'
)
CHOICES = (
    '{"questions": [{"question": "Which plan fits best?", "header": "Plan",'
    ' "options": [{"label": "Starter"}, {"label": "Pro"}]}], "reason": "to route you"}'
)


def handed_in(server: RealServer) -> dict[str, Any]:
    """Return the form values that the model received."""
    results = [message["content"] for message in server.model.calls[-1].messages if message["role"] == "tool"]
    handed: dict[str, Any] = json.loads(results[-1])
    return handed


async def test_an_identity_is_asked_for_field_by_field(tmp_path: Path) -> None:
    async with room(tmp_path) as (server, tui):
        server.model.push_tool_call("c1", "request_identity_intake", INTAKE).push_text("Thank you, Ann.")
        told = await asked(tui, "a quote, please")
        assert "to send you the quote" in told
        assert "name" in told.lower()
        assert "email" in (await asked(tui, "Ann")).lower()
        mark = await sends(tui, "ann@example.com")
        answered(tui, mark, "ann@example.com")
        assert tui.text(mark) == "Thank you, Ann."
        assert handed_in(server) == {"status": "submitted", "values": {"name": "Ann", "email": "ann@example.com"}}


async def test_a_field_that_the_server_refuses_is_asked_for_again(tmp_path: Path) -> None:
    async with room(tmp_path) as (server, tui):
        server.model.push_tool_call("c1", "request_identity_intake", IDENTITY).push_text("Thank you.")
        await asked(tui, "a quote, please")
        told = await asked(tui, "not-an-address")
        assert "must be a valid email address" in told
        mark = await sends(tui, "ann@example.com")
        answered(tui, mark, "ann@example.com")
        assert handed_in(server)["values"] == {"email": "ann@example.com"}


@pytest.mark.parametrize(("tool", "arguments"), [("request_identity_intake", INTAKE), ("request_choices", CHOICES)])
async def test_skip_declines_a_form(tmp_path: Path, tool: str, arguments: str) -> None:
    async with room(tmp_path) as (server, tui):
        server.model.push_tool_call("c1", tool, arguments).push_text("No problem.")
        assert "skip" in await asked(tui, "a quote, please")
        mark = await sends(tui, "skip")
        answered(tui, mark, "skip")
        assert tui.text(mark) == "No problem."
        assert handed_in(server)["status"] == "declined"


@pytest.mark.parametrize("words", ["2", "Pro", "pro"])
async def test_a_form_choice_is_made_by_its_number_or_label(tmp_path: Path, words: str) -> None:
    async with room(tmp_path) as (server, tui):
        server.model.push_tool_call("c1", "request_choices", CHOICES).push_text("Pro it is.")
        told = await asked(tui, "i want a quote")
        assert "Which plan fits best?" in told
        assert "1" in told
        assert "Starter" in told
        assert "Pro" in told
        mark = await sends(tui, words)
        answered(tui, mark, words)
        assert tui.text(mark) == "Pro it is."
        assert handed_in(server)["values"] == {"answers": [{"header": "Plan", "options": ["Pro"]}]}
