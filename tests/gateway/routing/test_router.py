"""The router: each command reaches its session, and only if its sender may see that session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dragoman.gateway.config.model import Limits
from dragoman.gateway.ingress import Ingress
from dragoman.gateway.link import Link
from dragoman.gateway.routing.router import Router
from dragoman.gateway.session.normal_form import NormalForm
from dragoman.mappings.canonical.commands import ListSessions, SetGoal
from dragoman.mappings.canonical.events import TextDelta
from dragoman.mappings.canonical.unions import Unmapped
from dragoman.mappings.dialect import Burst
from tests.gateway.in_memory import LIMITS, NEVER, in_memory_gateway
from tests.gateway.listed import listed
from tests.gateway.pod_messages import (
    CANCEL,
    FINISHED,
    answer_entry,
    delta,
    problem,
    run,
    snapshot,
    status,
    took,
    user_entry,
)
from tests.gateway.routing.counted_route import CountedRoute
from tests.gateway.smooth_client_messages import (
    CONVERSATION,
    CREATE,
    Frame,
    accepted,
    answer,
    ask,
    error,
    history,
    opened,
    reply,
    token,
)
from tests.gateway.steps_of_queue import count_in_steps
from tests.gateway.talked import begun, talked
from tests.idle import settle

# -- which session -----------------------------------------------------------------------------------


async def test_a_client_that_only_connects_gets_no_frame_and_causes_no_dial() -> None:
    async with in_memory_gateway() as made:
        await made.connects("a").receives("a")
        assert made.dialled == 0


async def test_an_input_on_a_new_connection_attaches_to_the_session_that_it_names() -> None:
    async with in_memory_gateway() as made:
        await (
            talked(made)
            .leaves("a")
            .connects("b")
            .submits("b", "r2", "Back")
            .pod_sends(*took("Back"), delta("Welcome"), *FINISHED)
            .receives("b", accepted("r2"), token("r2", "Welcome"), answer("r2", "Welcome"))
        )


async def test_a_client_that_left_is_attached_to_no_session() -> None:
    async with in_memory_gateway() as made:
        await made.opens("a").opens("b").leaves("a").pod_sends(delta("x")).receives("b", token("$t", "x"))
        assert list(made.session.delivery.attachments) == ["b"]


# -- who may see it ----------------------------------------------------------------------------------


async def test_a_foreign_session_is_not_listed() -> None:
    listing = {"action": "list_conversations", "requestId": "l"}
    async with in_memory_gateway(share="owner") as made:
        await (
            talked(made)
            .connects("eve", principal="eve")
            .sends("eve", listing)
            .receives("eve", reply("l", conversations=[]))
            .sends("a", listing)
            .receives(
                "a", reply("l", conversations=[{"conversationId": CONVERSATION, "title": "Hi", "messageCount": 2}])
            )
        )


# -- lists -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("query", "found"), [("", 1), ("hI", 1), ("nothing like it", 0)])
async def test_a_filtered_list_has_the_sessions_whose_title_contains_the_words(query: str, found: int) -> None:
    async with in_memory_gateway() as made:
        await talked(made)
        assert len(listed(made.router, ListSessions(request="l", query=query)).sessions) == found


async def test_a_list_dials_the_single_backend_and_is_answered_after_its_description() -> None:
    async with in_memory_gateway() as made:
        listing = {"action": "list_conversations", "requestId": "l"}
        await made.connects("a").sends("a", listing).receives("a")
        assert made.dialled == 1
        made.time.passes(LIMITS.open_deadline)
        await made.script().receives("a", reply("l", conversations=[]))


async def test_a_session_in_which_nobody_spoke_is_not_listed() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .sends("a", {"action": "list_conversations", "requestId": "l"})
            .receives("a", reply("l", conversations=[]))
        )


# -- what needs no session ---------------------------------------------------------------------------


async def test_a_ping_is_answered_without_a_session() -> None:
    async with in_memory_gateway() as made:
        await (
            made.connects("a")
            .sends("a", {"action": "ping", "requestId": "p"})
            .receives("a", {"type": "pong", "requestId": "p", "timestamp": made.time.clock() // 10**6})
        )
        assert made.dialled == 0


async def test_each_command_gets_one_answer_when_they_come_in_one_piece() -> None:
    async with in_memory_gateway() as made:
        await (
            made.connects("a")
            .sends("a", {"action": "ping", "requestId": "p"}, CREATE, history("h"), ask("get_session", "g"))
            .receives("a", {"type": "pong", "requestId": "p"}, opened("open"), opened("g"))
            .pod_sends(snapshot())
            .receives("a", reply("h", messages=[]))
        )


async def test_the_history_of_a_pod_is_answered_once_the_pod_has_told_it() -> None:
    """A real pod needs a second and more to write a snapshot of a thousand runs."""
    async with in_memory_gateway() as made:
        await (
            made.connects("a")
            .sends("a", CREATE, history("h"))
            .receives("a", opened("open"))
            .pod_sends(snapshot(user_entry("Hi"), answer_entry("Hello")))
            .receives("a", reply("h", messages=[{"content": {"text": "Hello"}}, {"content": {"text": "Hi"}}]))
        )


async def test_a_history_that_a_pod_does_not_tell_is_answered_in_time() -> None:
    async with in_memory_gateway() as made:
        await made.connects("a").sends("a", CREATE, history("h")).receives("a", opened("open"))
        await made.time.elapses(LIMITS.open_deadline)
        await made.script().receives("a", reply("h", messages=[]))


async def test_an_unknown_command_is_answered() -> None:
    async with in_memory_gateway() as made:
        await made.connects("a")
        made.router.receive(
            made.clients["a"].link, [Burst(items=[Unmapped(dialect="x", tag="dance", raw="{}", request="u")])]
        )
        await settle()
        await made.script().receives("a", error("u", "UNSUPPORTED_ACTION"))


async def test_a_command_that_a_pod_cannot_execute_is_refused_with_its_reason() -> None:
    async with in_memory_gateway() as made:
        await made.opens("a")
        link = made.clients["a"].link
        made.router.receive(link, [Burst(items=[SetGoal(request="n", session=CONVERSATION, objective="win")])])
        await settle()
        await made.script().receives("a", error("n", "UNSUPPORTED_ACTION")).pod_receives()


async def test_pings_are_answered_while_the_backend_is_away() -> None:
    async with in_memory_gateway(limits=Limits(backoff_first=NEVER, backoff_max=NEVER)) as made:
        made.refusals = Limits().unsent_commands
        await (
            made.opens("a")
            .sends("a", {"action": "ping", "requestId": "p"})
            .receives("a", {"type": "pong", "requestId": "p"})
        )


# -- what the route allows ---------------------------------------------------------------------------


async def test_a_shared_session_is_seen_and_driven_by_everybody() -> None:
    listing = {"action": "list_conversations", "requestId": "l"}
    async with in_memory_gateway(share="all") as made:
        await (
            talked(made)
            .connects("eve", principal="eve")
            .sends("eve", listing)
            .receives(
                "eve", reply("l", conversations=[{"conversationId": CONVERSATION, "title": "Hi", "messageCount": 2}])
            )
            .submits("eve", "r2", "Me too")
            .pod_sends(*took("Me too"), delta("Fine"), *FINISHED)
            .receives("eve", accepted("r2"), token("r2", "Fine"), answer("r2", "Fine"))
            .receives("a", token("$turn", "Fine"), answer("$turn", "Fine"))
        )


async def test_a_turn_whose_last_client_leaves_is_cancelled_if_the_route_says_so() -> None:
    async with in_memory_gateway(on_last_detach="cancel") as made:
        await (
            made.opens("a")
            .opens("b")
            .submits("a", "r1", "Hi")
            .pod_sends(*took("Hi"), delta("Hel"))
            .receives("a", accepted("r1"), token("r1", "Hel"))
            .receives("b", token("$turn", "Hel"))
            .leaves("a")
            .pod_receives()
            .leaves("b")
            .pod_receives(CANCEL)
            .pod_sends(problem("internal", "Cancelled"), status("idle"))
            .sees("the turn is over", lambda: made.session.state.turn is None)
        )


async def test_the_turn_of_a_pando_client_goes_on_when_the_last_other_client_leaves() -> None:
    async with in_memory_gateway(on_last_detach="cancel") as made:
        await made.opens("a")
        caller = made.join("v", dialect="pando", calls=True)
        caller.calls({"method": "message.send", "params": {"session_id": made.session.state.id, "content": "Hi"}})
        await settle()
        await (
            made.script()
            .pod_receives(run("Hi"))
            .pod_sends(*took("Hi"), delta("Hel"))
            .receives("a", token("$turn", "Hel"))
            .receives("v", {"id": "1", "result": {"ok": True}})
            .leaves("a")
            .pod_receives()
        )


async def test_no_cancel_is_sent_if_no_turn_is_open() -> None:
    async with in_memory_gateway(on_last_detach="cancel") as made:
        await made.opens("a").leaves("a").pod_receives()


async def test_a_turn_that_does_not_end_without_clients_is_ended_after_the_deadline() -> None:
    async with in_memory_gateway(on_last_detach="cancel") as made:
        await (
            begun(made, "Hel")
            .leaves("a")
            .pod_receives(CANCEL)
            .passes(Limits().cancel_deadline)
            .sees("the turn is over", lambda: made.session.state.turn is None)
        )


@pytest.mark.parametrize(("shutdown", "reaches"), [("client", []), ("backend", [{"method": "shutdown"}])])
async def test_a_shutdown_reaches_the_backend_only_if_the_route_says_so(shutdown: str, reaches: list[Frame]) -> None:
    async with in_memory_gateway(shutdown=shutdown) as made:
        await made.opens("a")
        made.join("tui", dialect="pod").sends({"method": "shutdown"})
        await settle()
        assert made.pod.news() == reaches
        assert made.clients["tui"].news()[-1] == {"event": "shutdown"}
        assert not made.clients["tui"].link.alive
        assert made.shutdowns == ["tui"]
        assert made.clients["a"].link.alive


MODELS = {"jsonrpc": "2.0", "id": 7, "method": "app/models", "params": {}}


async def test_requests_about_no_session_use_a_backend_connection_of_their_own() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = made.join("editor", dialect="codewhale")
        for _ in range(2):
            await client.says(MODELS)
            asked = [frame for frame in made.pod.news() if frame["method"] == "app/models"]
            await made.pod.says(
                {"jsonrpc": "2.0", "id": asked[0]["id"], "result": {"ok": True, "data": {"models": []}}}
            )
            (answer,) = client.news()
            assert (answer["id"], answer["result"]["data"]) == (7, {"models": []})
        assert made.dialled == 1
        assert made.router.sessions == [], "it is nobody's session"


async def test_a_request_without_a_backend_form_is_refused_without_a_session() -> None:
    async with in_memory_gateway() as made:
        client = made.join("editor", dialect="codewhale")
        await client.says(MODELS)
        (answer,) = client.news()
        assert answer["result"]["ok"] is False, "a client shall not think that the server is old"
        assert answer["result"]["data"]["error"] == "pods are configured by files, not by their clients"
        assert made.dialled == 0


@pytest.mark.parametrize("upstream", ["pod", "smooth", "codewhale"])
async def test_a_write_into_a_store_is_refused_before_a_backend_of_another_dialect(upstream: str) -> None:
    """docs/translation.md, rule 3.19."""
    async with in_memory_gateway(upstream=upstream) as made:
        client = made.join("viewer", dialect="pando", calls=True)
        params = {"method": "DeleteFile", "params": "f"}
        await client.says({"jsonrpc": "2.0", "id": "1", "method": "db.write", "params": params})
        (answer,) = client.news()
        assert answer["error"]["code"] == -32000
        assert answer["error"]["message"] == "dbproxy: METHOD_NOT_FOUND (DeleteFile): there is no database here"
        assert made.dialled == 0


async def test_a_client_without_a_session_is_disconnected_when_it_sends_shutdown() -> None:
    async with in_memory_gateway() as made:
        client = made.join("editor", dialect="codewhale")
        await client.says({"jsonrpc": "2.0", "id": 1, "method": "shutdown"})
        assert client.news() == [{"jsonrpc": "2.0", "id": 1, "result": {"ok": True, "status": "stopped"}}]
        assert not client.link.alive
        assert made.shutdowns == ["editor"]


# -- listeners -------------------------------------------------------------------------------------------


async def test_subscribers_learn_when_a_session_is_claimed_runs_and_rests() -> None:
    told: list[tuple[str, str]] = []
    async with in_memory_gateway() as made:
        made.router.watch(lambda session: told.append((session.state.owner, session.state.status)))
        await talked(made).leaves("a").passes(Limits().session_ttl)
    assert told == [("local", "idle"), ("local", "running"), ("local", "idle"), ("local", "idle")]


async def test_a_pod_listener_leads_to_the_single_session_of_its_backend() -> None:
    ingress = Ingress(endpoint="pod+unix:/x")
    async with in_memory_gateway() as made:
        assert made.router.find_listener_session(ingress) is None
        assert made.router._listener_session(made.join("a", ingress=ingress).link) is made.session
        assert made.router.find_listener_session(ingress) is made.session


async def test_turns_that_end_together_end_in_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    number = 12
    route = CountedRoute()
    links = [route.connect(f"c{index}") for index in range(number)]
    for link in links:
        route.open_session(link).receive([Burst(items=[TextDelta(text="a")])])
    ended = count_in_steps(monkeypatch, NormalForm, "cut")
    await route.router.end_turns(links, "this route is not served any more")
    assert not route.router.busy
    assert (sum(ended), max(ended) <= 4) == (number, True), ended


def lagging(monkeypatch: pytest.MonkeyPatch) -> tuple[Router, list[Iterator[None]], Link]:
    """Return a router, the work that it leaves to the test, and a link that lags in one session."""
    route, waiting = CountedRoute(), list[Iterator[None]]()
    link = route.connect("slow")
    link.behind[route.open_session(link).state.id] = None
    monkeypatch.setattr(Link, "add_work", lambda _link, work: waiting.append(work))
    return route.router, waiting, link


def test_a_link_waits_once_for_its_slices_and_again_when_they_are_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    router, waiting, link = lagging(monkeypatch)
    router.drained(link)
    router.drained(link)
    assert len(waiting) == 1
    assert list(waiting[0]) == []
    router.drained(link)
    assert len(waiting) == 2


def test_a_link_that_is_gone_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    router, _waiting, link = lagging(monkeypatch)
    router.drained(link)
    router.gone(link)
    assert not router._catching_up


async def test_a_turn_goes_on_from_its_beginning_under_the_id_that_a_pando_client_chooses_during_it() -> None:
    """A viewer shows streamed text only after `llm.start` (docs/dialects/pando.md, section 4)."""
    chosen = "0b0e9b0e-0000-4000-8000-000000000001"
    row = {"method": "CreateSession", "params": {"id": chosen, "title": "Atlas"}}
    async with in_memory_gateway() as made:
        await begun(made, "On")
        subscriber, viewer = made.join("subscriber", dialect="pando"), made.join("viewer", dialect="pando", calls=True)
        await viewer.says({"id": "1", "method": "db.write", "params": row})
        await made.pods[-1].says(delta("more"), *FINISHED)
        told = [(f["topic"], f["payload"].get("token")) for f in subscriber.news() if chosen in f["payload"].values()]
        assert [part for part in told if part[0].startswith("llm.")] == [
            ("llm.start", None),
            ("llm.token", "On"),
            ("llm.token", "more"),
            ("llm.end", None),
        ]
