"""Over a shared connection each answer goes to what asked, and each piece of text to the session that it names."""

from __future__ import annotations

from dragoman.gateway.backends.demultiplexing import SharedRequest, SharedRequests, SharedTexts
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import ReasoningDelta, TextDelta
from dragoman.mappings.dialect import Burst, DeltaType
from tests.gateway.in_memory import in_memory_gateway


async def test_a_request_is_taken_once() -> None:
    requests = SharedRequests()
    requests.add("r", SharedRequest(answer=lambda _answer: None))
    assert requests.take("r") is not None
    assert requests.take("r") is None


async def test_an_answer_to_a_session_that_has_ended_is_dropped() -> None:
    async with in_memory_gateway() as made:
        told: list[Burst[Event]] = []
        requests = SharedRequests()
        requests.add("r", SharedRequest(answer=told.append, session=made.session))
        requests.drop_session(made.session)
        request = requests.take("r")
        assert request is not None
        assert request.session is None
        request.answer(Burst(items=[]))
        assert told == []


async def test_a_session_whose_requests_were_answered_leaves_nothing_behind() -> None:
    async with in_memory_gateway() as made:
        requests = SharedRequests()
        requests.add("r", SharedRequest(answer=lambda _answer: None, session=made.session))
        requests.take("r")
        assert not any(vars(requests).values())


class Block:
    def __init__(self, delta: DeltaType = TextDelta) -> None:
        self.delta = delta
        self.texts: list[str] = []

    def add_text(self, text: str, _at: int, _session: str) -> bool:
        self.texts.append(text)
        return True


def test_a_piece_of_a_session_that_streams_no_more_is_not_taken() -> None:
    texts, one = SharedTexts(), Block()
    texts.note("s1", one)
    texts.note("s1", None)
    assert not texts.add_text("a", 0, "s1")


def test_a_piece_of_text_does_not_go_to_open_reasoning() -> None:
    texts, one = SharedTexts(), Block(ReasoningDelta)
    texts.note("s1", one)
    assert not texts.add_text("a", 0, "s1")


def test_no_sink_is_kept_once_they_are_cleared() -> None:
    texts, one = SharedTexts(), Block()
    texts.note("s1", one)
    texts.clear()
    assert not texts.add_text("a", 0, "s1")
