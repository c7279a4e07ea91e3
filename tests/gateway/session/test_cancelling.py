"""Cancelling a turn (translation.md 3.4): asked of the backend, and done without it when it cannot or does not."""

from __future__ import annotations

from gateway.config.model import Limits
from tests.gateway.pod_words import CANCEL, echo, problem, run, say, snapshot, status, took
from tests.gateway.server_words import CREATED, acknowledged, answered, create, said, stopped, taken, told
from tests.gateway.server_words import problem as refused
from tests.gateway.stage import Script, Stage, stage

CANCELLED = (problem("internal", "Cancelled"), status("idle"))


def begun(made: Stage) -> Script:
    """A pod client `p` whose turn runs at a pod."""
    return (
        made.script()
        .joins("p", dialect="pod")
        .pod_says(snapshot())
        .gets("p", say("snapshot"))
        .says("p", run("Hi"))
        .pod_gets(run("Hi"))
        .pod_says(*took("Hi"))
        .gets("p", echo("Hi"), status("running"))
    )


def begun_at_server(made: Stage) -> Script:
    """A pod client `p` whose turn "$t" runs at a smooth server."""
    return (
        made.script()
        .joins("p", dialect="pod")
        .gets("p", say("snapshot"))
        .says("p", run("Hi"))
        .server_gets(create("$open"))
        .server_says(acknowledged("$open", **CREATED))
        .server_gets(told("$t", "Hi"))
        .server_says(taken("$t"))
        .gets("p", echo("Hi"), status("running"), say("turn_start"))
    )


async def test_without_a_turn_there_is_nothing_to_cancel() -> None:
    async with stage() as made:
        await (
            made.script()
            .joins("p", dialect="pod")
            .pod_says(snapshot())
            .gets("p", say("snapshot"))
            .says("p", CANCEL)
            .gets("p", say("error", code="not_running"))
            .pod_gets()
            .done()
        )


async def test_a_pod_clients_cancel_is_the_sessions() -> None:
    async with stage() as made:
        await (
            begun(made)
            .joins("q", dialect="pod")
            .gets("q", say("snapshot"))
            .says("q", CANCEL)
            .pod_gets(CANCEL)
            .pod_says(*CANCELLED)
            .gets("p", *CANCELLED)
            .gets("q", *CANCELLED)
            .done()
        )
        assert made.time.waiting == []


async def test_the_first_cancel_holds_the_deadline_for_all() -> None:
    async with stage() as made:
        await (
            begun(made)
            .says("p", CANCEL)
            .passes(Limits().cancel_deadline - 1)
            .says("p", CANCEL)
            .pod_gets(CANCEL, CANCEL)
            .passes(1)
            .gets("p", *CANCELLED)
            .done()
        )


async def test_a_backend_without_cancel_is_left_to_itself_and_busy_until_it_has_ended() -> None:
    async with stage(upstream="smooth") as made:
        await (
            begun_at_server(made)
            .says("p", CANCEL)
            .server_gets({"action": "cancel", "requestId": "$x"})
            .server_says(refused("$x", "UNSUPPORTED_ACTION"))
            .gets("p", *CANCELLED)
            .server_says(said("$t", "still here"))
            .says("p", run("Next"))
            .gets("p", say("error", code="already_running", message="$why"))
            .server_gets()
            .server_says(answered("$t", "still here"))
            .says("p", run("Next"))
            .server_gets(told("$u", "Next"))
            .done()
        )
        assert made.losses("TextDelta") == 1


async def test_a_pause_is_a_cancel_where_the_route_says_so() -> None:
    async with stage(upstream="smooth", pause="cancel") as made:
        await (
            begun_at_server(made)
            .says("p", {"method": "pause"})
            .server_gets({"action": "cancel"})
            .server_says(stopped("$t"))
            .gets("p", *CANCELLED)
            .done()
        )


async def test_a_pause_is_refused_toward_a_backend_that_has_none() -> None:
    async with stage(upstream="smooth") as made:
        await (
            begun_at_server(made)
            .says("p", {"method": "pause"})
            .gets("p", say("error", code="invalid_request", message="this backend cannot pause; cancel instead"))
            .server_gets()
            .done()
        )
