"""The users' inputs: one at a time, none empty, and each begins the turn that the backend accepted for it."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.gateway.config.model import Limits
from dragoman.gateway.session.delivery import Delivery
from dragoman.gateway.session.normal_form import NormalForm
from dragoman.mappings.canonical import Batch
from dragoman.mappings.canonical.events import TurnEnded
from tests.gateway.in_memory import NEVER, InMemoryGateway, Script, in_memory_gateway
from tests.gateway.pod_messages import CANCEL, FINISHED, delta, done, echo, run, say, snapshot, status, took
from tests.gateway.smooth_client_messages import accepted, answer, cancel, cancelled, error, send, token
from tests.gateway.smooth_server_messages import stopped, taken


def pods(made: InMemoryGateway, *names: str) -> Script:
    """Connect pod clients to a pod."""
    script = made.script()
    for name in names:
        script = script.connects(name, dialect="pod")
    script = script.pod_sends(snapshot())
    for name in names:
        script = script.receives(name, say("snapshot"))
    return script


async def test_an_empty_input_is_refused_before_it_is_sent() -> None:
    async with in_memory_gateway() as made:
        await (
            pods(made, "p")
            .sends("p", run(" \n"), {"method": "run", "params": {"input": []}})
            .receives("p", say("error", code="invalid_request"), say("error", code="invalid_request"))
            .pod_receives()
        )


async def test_an_accepted_input_of_a_pod_client_is_shown_to_all_clients() -> None:
    async with in_memory_gateway() as made:
        await (
            pods(made, "p", "q")
            .sends("p", run("Hi"))
            .pod_receives(run("Hi"))
            .receives("p")
            .receives("q")
            .pod_sends(*took("Hi"))
            .receives("p", echo("Hi"), status("running"))
            .receives("q", echo("Hi"), status("running"))
        )


async def test_a_second_input_is_busy_while_the_first_waits() -> None:
    async with in_memory_gateway() as made:
        await (
            pods(made, "p", "q")
            .sends("p", run("Hi"))
            .sends("q", run("Me too"))
            .pod_receives(run("Hi"))
            .receives("q", say("error", code="already_running"))
        )


async def test_a_smooth_input_is_refused_once_the_gateway_stops_because_its_turn_could_not_end() -> None:
    async with in_memory_gateway() as made:
        await made.opens("a")
        made.services.stop.set()
        refused = made.script().sends("a", send("r1", "Hi")).receives("a", error("r1", "INTERNAL_ERROR"))
        await refused.pod_receives()


async def test_a_pod_input_is_refused_once_the_gateway_stops_because_its_turn_could_not_end() -> None:
    async with in_memory_gateway() as made:
        await pods(made, "p")
        made.services.stop.set()
        text = "the gateway stops, and begins no further turn"
        refused = made.script().sends("p", run("Hi")).receives("p", say("error", code="internal", message=text))
        await refused.pod_receives()


async def test_a_fault_of_ours_as_a_turn_begins_fails_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(NormalForm, "accept", fail)
    async with in_memory_gateway(upstream="smooth", limits=Limits(backoff_first=NEVER, backoff_max=NEVER)) as made:
        await (
            made.asks_server("p", "Hi")
            .server_sends(taken("$t"))
            .receives("p", say("error", code="internal", message="the connection to the backend was lost"))
        )


async def test_a_fault_of_ours_as_a_turn_ends_disconnects_the_clients_that_wait_for_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deliver = Delivery.deliver

    def fail_at_end(delivery: Delivery, batch: Batch, **more: Any) -> Any:
        if type(batch.events[-1]) is TurnEnded:
            raise RuntimeError("a fault")
        return deliver(delivery, batch, **more)

    async with in_memory_gateway(upstream="smooth", limits=Limits(backoff_first=NEVER, backoff_max=NEVER)) as made:
        monkeypatch.setattr(Delivery, "deliver", fail_at_end)
        asked = made.asks_server("p", "Hi").server_sends(taken("$t"), stopped("$t"))
        await asked.receives("p", echo("Hi"), status("running"), say("turn_start"))
        assert not made.clients["p"].link.alive


async def test_an_input_repeated_after_it_was_given_up_is_accepted_for_its_second_sending() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .sends("a", send("r1", "Hi"))
            .passes(Limits().accept_deadline)
            .receives("a", error("r1", "INTERNAL_ERROR"))
            .sends("a", send("r2", "Hi"))
            .pod_receives(run("Hi"), run("Hi"))
            .pod_sends(*took("Hi"), delta("Hello"), done("Hello"), *FINISHED)
            .receives("a", accepted("r2"), token("r2", "Hello"), answer("r2", "Hello"))
        )
        assert [m.text for m in made.session.state.messages()] == ["Hi", "Hello"]


async def test_an_input_cancelled_by_force_before_its_acceptance_is_a_turn_to_its_client() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .sends("a", send("r1", "Hi"), cancel("r1"))
            .pod_receives(run("Hi"), CANCEL)
            .passes(Limits().cancel_deadline)
            .receives("a", accepted("r1"), cancelled("r1"))
        )
        assert made.session.in_flight.input == ""
