"""Every pair of dialects, as client and as backend: each is compared with the table of table.py.

The backend is the demo backend, served in the backend's dialect; it plays the same scripts in all of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path

import pytest

from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from dragoman.mappings.fidelity import Cell, matrix
from tests.dialects import parts
from tests.pairs.gateway import bridged, serving
from tests.pairs.table import DIALECTS, LISTEN, PAIRS, ROWS, must_see
from tests.pairs.turn_clients import TurnClient, join
from tests.peers.processes import running
from tests.reserved_ports import reserved_port

QUESTION = "Where is my order?"
ANSWER = (
    "Let me look that up. Order A-1042 has shipped with Kestrel and should reach you on Thursday — 木曜日に届きます。"
)
THOUGHT = "The user asks about an order. I should look it up before I answer."
USED = (812 + 901, 41 + 24)
LIMITS = Limits(drain_deadline=0.5, snapshot_wait=10.0, backoff_first=0.05, backoff_max=0.2, reconnect_grace=0.2)

pairs = pytest.mark.parametrize(("client", "backend"), PAIRS)


@asynccontextmanager
async def gateway(client: str, upstream: str, folder: Path) -> AsyncIterator[tuple[TurnClient, str]]:
    """Run a gateway before a backend with a client of one dialect; yield the client and the address for
    further ones.
    """
    listen = LISTEN[client].format(folder=folder / "atlas")
    async with bridged(upstream, listen=listen, limits=LIMITS) as (_, url), join(client, url) as peer:
        yield peer, url


@asynccontextmanager
async def pair(client: str, backend: str, folder: Path) -> AsyncIterator[tuple[TurnClient, str]]:
    """Run a gateway between a client of one dialect and the demo backend in another."""
    for name in ("backend", "atlas"):
        (folder / name).mkdir()
    app = demo_backend(parse(LISTEN[backend].format(folder=folder / "backend")))
    async with serving(app) as (upstream,), gateway(client, upstream, folder) as joined:
        yield joined


@pairs
async def test_a_streamed_turn_arrives_as_the_table_says_and_a_second_one_after_it(
    client: str, backend: str, tmp_path: Path
) -> None:
    def whole(what: str, value: object, nothing: object) -> object:
        return value if must_see(what, client, backend) == "whole" else nothing

    async with pair(client, backend, tmp_path) as (peer, _):
        seen = await peer.turn(QUESTION)
        assert seen.text == whole("text", ANSWER, "")
        assert seen.thought == whole("reasoning", THOUGHT, "")
        assert seen.calls == whole("calls", ["lookup_order"], [])
        assert seen.results == whole("results", 1, 0)
        assert seen.usage == whole("usage", USED, None)
        assert seen.end == must_see("an answer ends", client, backend)
        second = await peer.turn("Thank you!")
        assert second.text.startswith("You are welcome.")
        assert second.end == must_see("an answer ends", client, backend)


@pairs
async def test_messages_are_in_the_history_and_the_session_is_in_the_list(
    client: str, backend: str, tmp_path: Path
) -> None:
    async with pair(client, backend, tmp_path) as (peer, _):
        assert await peer.history() == []
        await peer.turn("retry")
        assert await peer.history() == [("user", "retry"), ("assistant", "The second try worked.")]
        (title,) = await peer.listed()
        if client == "pod":
            assert title == ("demo" if backend == "pod" else "atlas"), "a pod is known by its name"
        elif client == "pando" and backend != "pod":
            assert title == "New Session", "with this title the client opened it"
        else:
            assert title == "retry", "what was said first"


@pairs
async def test_a_failing_turn_ends_once_and_the_next_one_works(client: str, backend: str, tmp_path: Path) -> None:
    async with pair(client, backend, tmp_path) as (peer, _):
        seen = await peer.turn("fail please")
        assert (seen.text, seen.end) == ("I was about to say", must_see("a failure ends", client, backend))
        assert (await peer.turn("retry")).text == "The second try worked."


@pairs
async def test_a_cancelled_turn_ends_once_and_the_next_one_works(client: str, backend: str, tmp_path: Path) -> None:
    async with pair(client, backend, tmp_path) as (peer, _):
        seen = await peer.turn("slow please", cancel_after=2)
        assert seen.end == must_see("a cancel ends", client, backend)
        assert seen.text.startswith("0 1 ")
        assert (await peer.turn("retry")).text == "The second try worked."


@pairs
async def test_a_question_is_asked_and_its_answer_continues_the_turn(client: str, backend: str, tmp_path: Path) -> None:
    async with pair(client, backend, tmp_path) as (peer, _):
        asked = await peer.turn("approve please")
        assert asked.text.startswith("That takes a refund. I ask before I write.")
        words = asked.text.endswith("Answer approve or deny.")
        assert words == (must_see("a question is", client, backend) == "words")
        assert asked.end == must_see("a question ends", client, backend)
        rest = await peer.approve()
        assert (rest.text, rest.results) == (" Done: 42.00 EUR are on their way back.", 1)
        assert rest.end == must_see("an answer ends", client, backend)


@pairs
async def test_an_input_is_refused_while_a_turn_is_open(client: str, backend: str, tmp_path: Path) -> None:
    async with pair(client, backend, tmp_path) as (peer, _):
        await peer.begin("slow please", tokens=1)
        assert await peer.refused("too early") == parts(client).busy
        await peer.cancel()
        assert (await peer.finish()).text.startswith("0 ")
        assert "too early" not in [text for _, text in await peer.history()]


@pairs
async def test_two_thousand_tokens_arrive_in_order(client: str, backend: str, tmp_path: Path) -> None:
    async with pair(client, backend, tmp_path) as (peer, _):
        assert (await peer.turn("count 2000")).text == "".join(f"{n} " for n in range(2000))


@pairs
async def test_a_backend_that_dies_fails_the_turn_and_is_used_again_after_its_return(
    client: str, backend: str, tmp_path: Path
) -> None:
    for name in ("backend", "atlas"):
        (tmp_path / name).mkdir()
    with reserved_port(neighbours=1) as port:
        endpoint = LISTEN[backend].format(folder=tmp_path / "backend").replace(":0", f":{port}")
        async with running("demo-backend", endpoint) as first, gateway(client, endpoint, tmp_path) as (peer, _):
            await peer.begin("slow please", tokens=2)
            await first.kill()
            seen = await peer.finish()
            assert seen.text.startswith("0 1 ")
            assert seen.end == must_see("a loss ends", client, backend)
            async with serving(demo_backend(parse(endpoint))):
                if client == "smooth":
                    peer.client.oracle.forgotten = True
                if must_see("a new backend", client, backend) == "used":
                    told, _, answer = (await peer.turn("retry")).text.rpartition("\n\n")
                    assert answer == "The second try worked."
                    assert told.startswith("[") or not told, "a line before it says that the context is lost"
                else:
                    assert await peer.refused("retry") == parts(client).unknown_session, (
                        "it does not have this conversation"
                    )


@pytest.mark.parametrize("backend", DIALECTS)
async def test_messages_that_a_codewhale_client_sends_at_once_are_each_answered(backend: str, tmp_path: Path) -> None:
    async with pair("codewhale", backend, tmp_path) as (peer, _):
        requests = [await peer.client.say("retry") for _ in range(3)]
        assert ["result" in await peer.client.answer(request) for request in requests] == [True] * 3


async def test_a_backend_in_this_process_answers_messages_that_a_codewhale_client_sends_at_once(tmp_path: Path) -> None:
    app = demo_backend(parse(f"codewhale+unix:{tmp_path}/sock"))
    async with serving(app) as (endpoint,), join("codewhale", endpoint.partition("+")[2]) as peer:
        requests = [await peer.client.say("retry") for _ in range(3)]
        assert ["result" in await peer.client.answer(request) for request in requests] == [True] * 3


@pytest.mark.parametrize("backend", DIALECTS)
async def test_a_pod_client_is_greeted_by_the_name_of_its_folder(backend: str, tmp_path: Path) -> None:
    async with pair("pod", backend, tmp_path) as (peer, _):
        name, data = peer.client.events[0]
        assert name == "snapshot"
        assert data["greeting"]["pod_name"] == ("demo" if backend == "pod" else "atlas")
        assert peer.client.names().count("snapshot") == 1


# -- the table and the matrix say the same ------------------------------------------------------------

CELLS = {(c.canonical, c.target, c.source): c for c in matrix(list(registry.dialects().values()))}
KINDS = {"text": "TextDelta", "reasoning": "ReasoningDelta", "calls": "ToolCallStarted", "results": "ToolCallFinished"}


def cell(canonical: str, client: str, backend: str) -> Cell | None:
    """Return the fidelity of an event between this pair; None if no such backend ever sends it."""
    return CELLS.get((canonical, client, backend))


def test_the_table_has_a_row_for_each_pair() -> None:
    missing = [pair for pair in PAIRS if pair not in ROWS]
    assert not missing, f"write these rows of TABLE in tests/pairs/table.py: {missing}"
    assert list(ROWS) == PAIRS


def test_events_in_the_table_are_delivered_by_the_matrix() -> None:
    for (client, backend), (what, canonical) in product(PAIRS, KINDS.items()):
        found = cell(canonical, client, backend)
        arrives = found is not None and found.kind != "none"
        assert arrives == (must_see(what, client, backend) == "whole"), (client, backend, what)


def test_a_question_has_a_form_if_it_is_exact_in_the_matrix() -> None:
    for client, backend in PAIRS:
        found = cell("ApprovalRequested", client, backend)
        form = found is not None and found.kind == "exact"
        assert form == (must_see("a question is", client, backend) == "form"), (client, backend)


def test_the_matrix_declares_turn_ends_that_clients_see_as_another_end() -> None:
    """Pando clients see another end, because a pando reports only that a run is over."""
    for client, backend in PAIRS:
        found = cell("TurnEnded", client, backend)
        assert found is not None, (client, backend)
        told = must_see("a cancel ends", client, backend) == "cancelled"
        assert told or backend == "pando" or "end" in found.detail.removeprefix("without ").split(", "), client
