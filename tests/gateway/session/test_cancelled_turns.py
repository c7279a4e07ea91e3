"""A cancelled turn that its backend does not end (docs/translation.md, rule 3.4)."""

from __future__ import annotations

import pytest

from dragoman.gateway.backends.upstream import Upstream
from dragoman.gateway.config.model import Limits
from tests.gateway.in_memory import InMemoryGateway, Script, in_memory_gateway
from tests.gateway.pod_messages import CANCEL, echo, problem, run, say, status
from tests.gateway.smooth_server_messages import (
    CREATED,
    acknowledged,
    answered,
    looked_up,
    page,
    read_newest,
    said,
    taken,
    told,
)

CANCELLED = (problem("internal", "Cancelled"), status("idle"))
LONG = "x" * 3_000
ENDLESS = (
    say("text_delta", text=LONG),
    say("text_done", text=LONG),
    say("error", code="invalid_request"),
    status("idle"),
)


def cut(made: InMemoryGateway) -> Script:
    """Return a pod client `p` whose turn "$t" was cancelled, and goes on at the smooth server after the deadline."""
    return (
        made.script()
        .asks_server("p", "Hi")
        .server_sends(taken("$t"))
        .receives("p", echo("Hi"), status("running"), say("turn_start"))
        .sends("p", CANCEL)
        .server_receives({"action": "cancel", "requestId": "$x"})
        .passes(Limits().cancel_deadline)
        .receives("p", *CANCELLED)
    )


async def test_the_connection_of_a_turn_that_never_ends_is_closed_and_the_next_input_gets_a_new_one() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            cut(made)
            .passes(Limits().accept_deadline - 1)
            .sends("p", run("Next"))
            .receives("p", say("error", code="already_running", message="$why"))
            .passes(1)
            .sends("p", run("Next"))
            .server_receives(looked_up())
            .server_sends(acknowledged("$get", **CREATED))
            .server_receives({"action": "cancel", "requestId": "$t"}, read_newest())
            .server_sends(page())
            .server_receives(told("$u", "Next"))
            .done()
        )
        assert len(made.pods) == 2


async def test_the_connection_stays_if_the_turn_ends_before_that() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            cut(made)
            .server_sends(answered("$t", "late"))
            .sends("p", run("Next"))
            .server_receives(told("$u", "Next"))
            .server_sends(taken("$u"))
            .receives("p", echo("Next"), status("running"), say("turn_start"))
            .passes(Limits().accept_deadline)
            .receives("p")
            .done()
        )
        assert len(made.pods) == 1


async def test_the_connection_of_an_endless_turn_is_closed_too() -> None:
    async with in_memory_gateway(upstream="smooth", limits=Limits(transcript_max=2_000)) as made:
        await (
            made.script()
            .asks_server("p", "Hi")
            .server_sends(taken("$t"), said("$t", LONG))
            .receives("p", echo("Hi"), status("running"), say("turn_start"), *ENDLESS)
            .server_receives({"action": "cancel", "requestId": "$x"})
            .server_sends(said("$t", "still here"))
            .passes(Limits().accept_deadline)
            .sends("p", run("Next"))
            .server_receives(looked_up())
            .done()
        )


async def test_a_connection_that_other_sessions_need_is_closed_a_deadline_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await cut(made).done()
        with monkeypatch.context() as patched:
            patched.setattr(Upstream, "rest", lambda _self: True)
            await made.script().passes(Limits().accept_deadline).done()
        assert made.pods[0].transport.is_open()
        await made.script().passes(Limits().accept_deadline).done()
        assert not made.pods[0].transport.is_open()
