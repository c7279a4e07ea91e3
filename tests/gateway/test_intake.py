"""The frames of a peer, from its transport to its translator; test_link.py has the turns of many links."""

from __future__ import annotations

import gc
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from dragoman.gateway.intake import LARGE, TEXT_DEBT, TEXT_MAX, FrameIntake
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.observability.log_throttle import FaultLog
from dragoman.gateway.outbox import Outbox
from dragoman.gateway.overload.fair_queue import STEP, STREAMED, FairQueue
from dragoman.gateway.peer import Peer
from dragoman.mappings.canonical.events import TextDelta
from dragoman.mappings.dialect import Burst, DeltaType, Frame, Step, TextReader, TextSink, Translator
from dragoman.mappings.smooth import DIALECT
from dragoman.mappings.value_count import PIECE, SLICE
from tests.memory_transport import MemoryTransport
from tests.services import services


class Told(Translator[Any, Any]):
    """A translator that reads each frame as one item, and a frame `+TEXT` as a further piece of text."""

    def receive(self, frames: Sequence[Frame]) -> Step[Any]:
        return Step(bursts=[Burst(items=list(frames))])

    def send(self, items: Sequence[Any]) -> Step[Any]:
        return Step()

    def text_reader(self, _delta: DeltaType) -> TextReader:
        def read(frame: Frame, add_text: TextSink) -> bool:
            assert isinstance(frame, bytes)
            return frame.startswith(b"+") and add_text(frame[1:].decode(), 0, "")

        return read


class Received:
    """The link of an intake, and what it was given; `limited` is True for the intake of a client."""

    log: Any = None
    delta: DeltaType = TextDelta

    def __init__(self, *, limited: bool = False) -> None:
        self.items: list[Frame] = []
        self.texts: list[str] = []
        self.ledger = Ledger()
        self.soon = deque[Callable[[], None]]()
        self.queue = FairQueue(self.soon.append)
        given, transport = services(ledger=self.ledger, queue=self.queue), MemoryTransport()
        self.outbox = Outbox(10, 100, transport, given.queue.budget)
        peer = Peer(id="l1", dialect=DIALECT, limited=limited)
        self.intake = FrameIntake(peer, transport, Told(), given, self.outbox, None, lambda _frames: True)
        faults = FaultLog("smooth", weakref.proxy(self), self.ledger.counters, given.monotonic)
        self.sink = self.intake.sink(given, self.act, faults, lambda _code, _text: None)

    def act(self, step: Step[Any]) -> None:
        self.items += [item for burst in step.bursts for item in burst.items]

    def add_text(self, text: str, _at: int, _session: str) -> bool:
        self.texts.append(text)
        return True


def test_the_link_acts_on_frames_in_the_call_that_shows_them() -> None:
    received = Received()
    assert received.sink([b"a", b"b"]) == 2
    assert received.items == [b"a", b"b"]
    assert received.intake.heard


def test_frames_of_a_link_that_is_over_are_taken_and_counted_as_lost() -> None:
    received = Received()
    received.intake.stop()
    assert received.sink([b"a", b"b"]) == 2
    assert received.items == []
    assert [(entry.kind, entry.count) for entry in received.ledger.entries()] == [("frame", 2)]


def test_frames_of_a_client_with_many_answers_to_read_stay_in_the_transport() -> None:
    received = Received(limited=True)
    received.outbox.put([b"x" * 21])
    assert received.sink([b"a"]) == 0
    received.outbox.clear()
    assert received.sink([b"a"]) == 1


def test_a_few_pieces_of_text_go_straight_to_their_session() -> None:
    received = Received()
    received.intake.stream_text(received)
    assert (received.sink([b"+Hel"]), received.sink([b"+l", b"+o"]), received.sink([b"end"])) == (1, 2, 1)
    assert (received.texts, received.items) == (["Hel", "l", "o"], [b"end"])
    many = [b"+x"] * (STREAMED + 1)
    assert received.sink(many) == len(many)
    received.intake.stream_text(None)
    received.sink([b"+more"])
    assert (received.texts, received.items) == (["Hel", "l", "o"], [b"end", *many, b"+more"])


def test_the_frames_after_pieces_of_text_in_a_read_take_the_general_path_in_their_turn() -> None:
    received = Received()
    received.intake.stream_text(received)
    assert received.sink([b"+Hello", b"end"]) == 2
    assert (received.texts, received.items) == (["Hello"], [b"end"])
    received.queue.budget.left = -STEP
    assert received.sink([b"+again", b"end"]) == 1
    assert (received.texts[-1], received.items[-1]) == ("again", b"end")


def test_data_that_the_transport_must_split_first_waits_for_a_turn_while_text_streams() -> None:
    received = Received()
    received.intake.stream_text(received)
    assert (received.sink([]), received.intake.turns.waiting) == (0, 1)


def test_a_lone_piece_of_text_does_not_wait_although_the_step_is_full() -> None:
    received = Received()
    received.intake.stream_text(received)
    received.queue.budget.left = -STEP
    assert received.sink([b"+token"]) == 1
    assert received.texts == ["token"]
    assert received.sink([b"end"]) == 0
    assert received.sink([b"+" + b"x" * TEXT_MAX]) == 0
    received.queue.budget.left = -TEXT_DEBT
    assert received.sink([b"+token"]) == 0


def test_frames_of_another_connection_wait_behind_a_large_frame_that_was_only_read() -> None:
    """A pando has two connections, and one translator."""
    received, large = Received(), bytes(LARGE)
    received.intake.stream_text(received)
    assert received.sink([large]) == 0
    received.soon.popleft()()
    assert received.sink([b"+token"]) == received.sink([b"event", b"more"]) == 0
    assert received.sink([large]) == 1
    received.soon.popleft()()
    assert received.sink([b"+token"]) == 1
    assert (received.items, received.texts) == ([large, b"+token"], [])


def test_a_large_message_of_a_client_is_counted_read_and_acted_on_in_different_steps() -> None:
    received = Received(limited=True)
    large = b'{"action":"send_message","images":[{"url":"data:,' + b"x" * (3 * PIECE * SLICE) + b'"}]}'
    taken = []
    while not received.items:
        taken.append(received.sink([large, b"next"]))
        received.soon.popleft()()
    assert taken == [0, 0, 0, 0, 1]
    assert received.sink([b"next"]) == 1
    assert received.items == [large, b"next"]


def test_the_next_step_begins_once_the_pieces_of_text_have_used_up_this_one() -> None:
    received = Received()
    received.intake.stream_text(received)
    received.sink([b"+token"])
    assert not received.soon
    received.queue.budget.left = 0
    received.sink([b"+token"])
    received.soon.popleft()()
    assert received.queue.budget.left == STEP


def test_a_closed_intake_keeps_no_link_alive() -> None:
    gc.disable()
    try:
        received = Received()
        link, intake, sink = weakref.ref(received), received.intake, received.sink
        intake.close()
        del received
        assert link() is None
        assert sink([b"late"]) == 1
    finally:
        gc.enable()
