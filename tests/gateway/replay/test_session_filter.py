"""Of a connection that carries many sessions the frames of one come through, and those of none."""

from __future__ import annotations

from dragoman.adapters.base import CloseReason
from dragoman.gateway import registry
from dragoman.gateway.replay.session_filter import SessionFilter
from dragoman.mappings.dialect import Frame, Missed, Oversize, Parts
from tests.memory_transport import MemoryTransport
from tests.transport_reader import receive

REPLY = b'{"jsonrpc":"2.0","id":"1","result":{"ok":true}}'


def token(session: str) -> bytes:
    return b'llm.token\0{"topic":"llm.token","payload":{"session_id":"%s","token":"x"}}' % session.encode()


def filtered(names: tuple[str, ...] = ("ours",)) -> tuple[MemoryTransport, SessionFilter]:
    made = MemoryTransport()
    return made, SessionFilter(made, registry.dialect("pando"), names.__contains__)


async def test_frames_of_other_sessions_do_not_come_through() -> None:
    made, filtered_transport = filtered()
    made.say(token("theirs"), token("ours"), REPLY, token("theirs"))
    assert list(await receive(filtered_transport)) == [token("ours"), REPLY]


async def test_frames_are_looked_at_as_they_come_from_the_socket() -> None:
    made, filtered_transport = filtered()
    published = [Parts("pub", b"", (token(name),)) for name in ("theirs", "ours")]
    made.say(*published)
    assert list(await receive(filtered_transport)) == published[1:]


async def test_where_nothing_is_left_the_next_frames_are_waited_for() -> None:
    made, filtered_transport = filtered()
    made.say(token("theirs"))
    made.say(token("ours"))
    assert list(await receive(filtered_transport)) == [token("ours")]


async def test_what_names_no_session_or_cannot_be_read_is_the_translator_s_to_judge() -> None:
    made, filtered_transport = filtered()
    frames: list[Frame] = [b"nonsense", Oversize(2, 1), Missed("pub", 3), b'instance.heartbeat\0{"payload":{}}']
    made.say(*frames)
    assert list(await receive(filtered_transport)) == frames


async def test_before_there_is_a_session_nothing_of_any_comes_through() -> None:
    made, filtered_transport = filtered(())
    made.say(token("ours"), REPLY)
    assert list(await receive(filtered_transport)) == [REPLY]


async def test_the_end_and_all_that_is_sent_are_the_transport_s() -> None:
    made, filtered_transport = filtered()
    made.hang_up()
    assert list(await receive(filtered_transport)) == []
    assert filtered_transport.try_send([b"1"])
    await filtered_transport.send([b"2"])
    assert made.got == [b"1", b"2"]
    made.half_closed = True
    assert filtered_transport.peer_can_read()
    await filtered_transport.close(CloseReason.GOING_AWAY, "bye")
    assert (filtered_transport.peer, made.closed) == ("memory", CloseReason.GOING_AWAY)
