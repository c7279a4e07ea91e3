"""A client in this process, as the gateway's link sees it."""

from __future__ import annotations

from typing import get_args

import pytest

from dragoman.gateway import registry
from dragoman.gateway.backend_client.in_process import InProcessEvent, InProcessTransport, in_process_dialect
from dragoman.mappings.canonical import Batch, Event, SessionState
from dragoman.mappings.canonical.commands import Ping
from dragoman.mappings.canonical.events import ApprovalRequested, Pong, TextDelta
from dragoman.mappings.errors import DragomanError
from tests.gateway.replay.recording_builder import said
from tests.transport_reader import receive, receive_all

DIALECT = in_process_dialect(registry.dialect("pod"))


async def test_events_of_an_in_process_client_arrive_unchanged() -> None:
    transport = InProcessTransport(lambda _told: True)
    translator = DIALECT.server(lambda: 0, lambda: "id", "")
    transport.send_command(said("one", request="a"))
    transport.send_command(Ping(request="b"))
    transport.end()
    heard = translator.receive(await receive_all(transport)).bursts[0].items
    assert heard == [said("one", request="a"), Ping(request="b")]


async def test_an_in_process_client_gets_its_answers_the_session_and_all_broadcasts() -> None:
    told: list[InProcessEvent | DragomanError] = []

    def take(incoming: InProcessEvent | DragomanError) -> bool:
        told.append(incoming)
        return True

    transport = InProcessTransport(take)
    translator, projection = DIALECT.server(lambda: 0, lambda: "id", ""), DIALECT.projection("", "")
    batch = Batch(session="s", epoch=1, first_seq=0, events=[TextDelta(text="a")], turn="t")
    for frames in (
        translator.send([Pong(request="b")]).frames,
        translator.attach(SessionState(id="s"), "").frames,
        projection.copy("r").render(batch).frames,
    ):
        assert not transport.try_send(frames), "not in the middle of a step"
        await transport.send(frames)
    assert told == [
        InProcessEvent(event=Pong(request="b")),
        InProcessEvent(attached="s", names=("s",)),
        InProcessEvent(event=TextDelta(text="a"), turn="t"),
    ]


async def test_an_in_process_client_leaves_like_any_client() -> None:
    transport = InProcessTransport(lambda _told: True)
    transport.end()
    assert await receive(transport) == []
    await transport.close()
    assert not transport.peer_can_read()


def test_an_in_process_client_needs_no_questions_in_words() -> None:
    translator = DIALECT.server(lambda: 0, lambda: "id", "")
    assert translator.can_be_asked(ApprovalRequested(tool="t", description="d"))
    assert (translator.opened().frames, translator.closed("").frames, translator.view) == ([], [], "")


@pytest.mark.parametrize("like", registry.OURS)
def test_an_in_process_client_gets_every_event_whole_whatever_dialect_it_is_made_from(like: str) -> None:
    events = in_process_dialect(registry.dialect(like)).events
    assert not events.from_canonical.lossy
    assert all(events.can_write_type(kind) for kind in get_args(Event))
