"""The users' inputs: one at a time, none empty, and each begins the turn that the backend accepted for it."""

from __future__ import annotations

from dragoman.gateway.config.model import Limits
from tests.gateway.in_memory import InMemoryGateway, Script, in_memory_gateway
from tests.gateway.pod_messages import CANCEL, FINISHED, delta, done, echo, problem, run, say, snapshot, status, took
from tests.gateway.smooth_client_messages import accepted, answer, cancel, cancelled, error, send, token


def pods(made: InMemoryGateway, *names: str) -> Script:
    """Connect pod clients to a pod."""
    script = made.script()
    for name in names:
        script.joins(name, dialect="pod")
    script.pod_says(snapshot())
    for name in names:
        script.gets(name, say("snapshot"))
    return script


async def test_an_empty_input_is_refused_before_it_is_sent() -> None:
    async with in_memory_gateway() as made:
        await (
            pods(made, "p")
            .says("p", run(" \n"), {"method": "run", "params": {"input": []}})
            .gets("p", say("error", code="invalid_request"), say("error", code="invalid_request"))
            .pod_gets()
            .done()
        )


async def test_an_accepted_input_of_a_pod_client_is_shown_to_all_clients() -> None:
    async with in_memory_gateway() as made:
        await (
            pods(made, "p", "q")
            .says("p", run("Hi"))
            .pod_gets(run("Hi"))
            .gets("p")
            .gets("q")
            .pod_says(*took("Hi"))
            .gets("p", echo("Hi"), status("running"))
            .gets("q", echo("Hi"), status("running"))
            .done()
        )


async def test_a_second_input_is_busy_while_the_first_waits() -> None:
    async with in_memory_gateway() as made:
        await (
            pods(made, "p", "q")
            .says("p", run("Hi"))
            .says("q", run("Me too"))
            .pod_gets(run("Hi"))
            .gets("q", say("error", code="already_running"))
            .done()
        )


async def test_an_input_refused_by_the_backend_no_longer_waits() -> None:
    async with in_memory_gateway() as made:
        await (
            pods(made, "p")
            .says("p", run("Hi"))
            .pod_gets(run("Hi"))
            .pod_says(problem("already_running", "no"))
            .gets("p", say("error", code="already_running"))
            .says("p", run("Again"))
            .pod_gets(run("Again"))
            .done()
        )
        assert made.session.inputs.waiting


async def test_an_input_repeated_after_it_was_given_up_is_accepted_for_its_second_sending() -> None:
    async with in_memory_gateway() as made:
        await (
            made.script()
            .opens("a")
            .says("a", send("r1", "Hi"))
            .passes(Limits().accept_deadline)
            .gets("a", error("r1", "INTERNAL_ERROR"))
            .says("a", send("r2", "Hi"))
            .pod_gets(run("Hi"), run("Hi"))
            .pod_says(*took("Hi"), delta("Hello"), done("Hello"), *FINISHED)
            .gets("a", accepted("r2"), token("r2", "Hello"), answer("r2", "Hello"))
            .done()
        )
        assert [m.text for m in made.session.state.messages()] == ["Hi", "Hello"]


async def test_an_input_cancelled_by_force_before_its_acceptance_is_a_turn_to_its_client() -> None:
    async with in_memory_gateway() as made:
        await (
            made.script()
            .opens("a")
            .says("a", send("r1", "Hi"), cancel("r1"))
            .pod_gets(run("Hi"), CANCEL)
            .passes(Limits().cancel_deadline)
            .gets("a", accepted("r1"), cancelled("r1"))
            .done()
        )
        assert made.session.inputs.waiting == ""
