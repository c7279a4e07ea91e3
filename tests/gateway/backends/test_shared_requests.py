"""Requests over a shared connection: answered once, and dropped with their session."""

from __future__ import annotations

from dragoman.gateway.backends.shared_requests import SharedRequest, SharedRequests
from dragoman.mappings.canonical import Event
from dragoman.mappings.dialect import Burst
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
