"""The audit log: which actions it has, who did them, and how they ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from structlog.testing import capture_logs

from dragoman.gateway.app import App
from dragoman.gateway.config.access import resolve_access
from dragoman.gateway.config.model import Config, Limits, Route
from dragoman.gateway.endpoint import parse
from dragoman.gateway.observability import audit, logs
from dragoman.gateway.observability.audit import VALUE_MAX
from tests.conformance.fake_smooth import FakeSmooth
from tests.gateway.identity.running import ALICE, AUTH, BOB, WS, shake
from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.smooth_client_messages import CREATE, ask
from tests.idle import settle
from tests.pairs.gateway import SmoothClient, serving

LIMITS = Limits(auth_delay=0.0, drain_deadline=0.1)
Lines = list[MutableMapping[str, Any]]


def of(lines: Lines, action: str) -> Lines:
    """Return the lines about an action."""
    return [line for line in lines if line.get("action") == action]


@asynccontextmanager
async def audited(**options: Any) -> AsyncIterator[tuple[str, Lines]]:
    """Serve a route whose clients are alice and bob; yield its address and the log."""
    with capture_logs() as lines:
        async with FakeSmooth.serving() as backend:
            route = Route(name="test", listen=(parse(WS),), upstream=parse(backend.url), **options)
            app = App(Config(routes=(resolve_access(route, AUTH),), limits=LIMITS, auth=AUTH))
            async with serving(app) as endpoints:
                yield endpoints[0].partition("+")[2], lines


async def test_a_session_that_a_client_opens_is_one_line_for_open_and_one_for_attach() -> None:
    async with audited() as (url, lines), SmoothClient.connected(f"{url}?token={ALICE}"):
        (opened,), (attached,) = of(lines, "open"), of(lines, "attach")
        assert (opened["principal"], opened["outcome"]) == ("token:alice", "done")
        assert opened["session"] == attached["session"]
        assert opened["link"] == attached["link"]


async def test_a_client_that_opens_its_own_session_again_causes_no_line() -> None:
    with capture_logs() as lines:
        async with in_memory_gateway() as made:
            await made.opens("a")
            for number in range(5):
                made.clients["a"].sends(CREATE | {"requestId": f"again-{number}"})
            await settle()
            assert len(made.clients["a"].news()) == 5
    assert len(of(lines, "open")) == len(of(lines, "attach")) == 1


async def test_an_answer_and_a_cancel_are_lines_with_their_client() -> None:
    async with audited() as (url, lines), SmoothClient.connected(f"{url}?token={ALICE}") as client:
        await client.say("confirm")
        await client.until(lambda: any(frame["type"] == "write_confirmation_required" for frame in client.frames))
        await client.ask({"action": "confirm_tool_action", "sessionId": client.session, "approved": True})
        await client.until(client.terminals)
        await client.say("hold")
        await client.until(lambda: client.frames[-1].get("status") == 202)
        await client.send({"action": "cancel", "sessionId": client.session})
        await client.until(lambda: any(frame["type"] == "cancelled" for frame in client.frames))
        (answer,), (cancel,) = of(lines, "answer"), of(lines, "cancel")
        assert (answer["principal"], answer["outcome"]) == ("token:alice", "approved")
        assert (cancel["principal"], cancel["outcome"]) == ("token:alice", "done")


async def test_an_answer_to_no_question_of_this_gateway_is_audited_as_an_answer_to_the_backend() -> None:
    async with audited() as (url, lines), SmoothClient.connected(f"{url}?token={ALICE}") as client:
        await client.ask({"action": "confirm_tool_action", "sessionId": client.session, "approved": True})
        (line,) = of(lines, "answer")
        assert (line["principal"], line["outcome"], line["question"]) == ("token:alice", "approved", "")


async def test_an_access_to_a_foreign_session_is_audited_with_both_principals() -> None:
    async with (
        audited() as (url, lines),
        SmoothClient.connected(f"{url}?token={ALICE}") as owner,
        SmoothClient.connected(f"{url}?token={BOB}") as other,
    ):
        await other.ask({"action": "get_session", "sessionId": owner.session})
        line = of(lines, "refusal")[0]
        assert (line["principal"], line["outcome"]) == ("token:bob", "the session belongs to another principal")
        assert line["session"] == of(lines, "open")[0]["session"]


async def test_the_line_about_a_foreign_session_is_written_after_the_answer() -> None:
    with capture_logs() as lines:
        async with in_memory_gateway(share="owner") as made:
            await made.opens("a").connects("eve", principal="eve")
            eve = made.clients["eve"]
            await eve.says(ask("confirm_tool_action", "r", approved=True))
            assert (len(eve.news()), of(lines, "refusal")) == (1, [])
            made.time.passes(0)
            assert [line["principal"] for line in of(lines, "refusal")] == ["eve"]


async def test_a_command_without_its_role_is_a_refusal() -> None:
    async with audited(roles={"*": ("watch", "open")}) as (url, lines):
        async with SmoothClient.connected(f"{url}?token={ALICE}") as client:
            await client.ask({"action": "send_message", "sessionId": client.session, "message": "hi"})
        (line,) = of(lines, "refusal")
        assert (line["outcome"], line["command"]) == ("needs the role `send`", "SubmitInput")


async def test_a_failed_authentication_is_a_refusal_without_the_token() -> None:
    async with audited() as (url, lines):
        assert (await shake(f"{url}?token=no-such-token-here"))[0] == 401
        (line,) = of(lines, "refusal")
        assert line["address"] == "127.0.0.1"
        assert "no-such-token" not in str(lines)


def test_a_line_repeats_only_the_beginning_of_a_long_value() -> None:
    with capture_logs() as lines:
        audit.refuse("somebody", "x" * 1_000_000, session="y" * 1_000_000, command="GetSession")
    (line,) = lines
    assert line["outcome"] == "x" * VALUE_MAX + "..."
    assert line["session"] == "y" * VALUE_MAX + "..."
    assert line["command"] == "GetSession"


def test_a_line_below_the_level_of_the_audit_log_is_not_written() -> None:
    with capture_logs() as lines:
        audit.note("open", "operator")
        logs.LEVEL.change(components={"audit": "warning"})
        audit.note("close", "operator")
    assert [line["action"] for line in lines] == ["open"]
