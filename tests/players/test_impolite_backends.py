"""Recorded conversations in the most extreme forms of real backends: every client sees the same as otherwise.

The client that drives is a smooth one for a pod and a pod's for everybody else: what a manner changes, it changes in
front of the session, which all clients share.
"""

from __future__ import annotations

import pytest

from tests.players.capture_variants import VARIANTS
from tests.players.captured_play import played
from tests.players.test_recorded_backends import PLAYED, differences, otherwise

DRIVERS = {"pod": "smooth", "smooth": "pod", "pando": "pod", "codewhale": "pod"}

QUESTION_FIRST = {("smooth", "10", "terminal alone")}
"""Cases in which a question in words is asked before the text that stands before it in the recording."""

CASES = [(backend, number, manner) for backend, number in PLAYED for manner in VARIANTS[backend]]
rudely = pytest.mark.parametrize(
    ("backend", "number", "manner"),
    [case for case in CASES if case not in QUESTION_FIRST],
)


@rudely
async def test_every_client_is_shown_the_turns_that_were_recorded(backend: str, number: str, manner: str) -> None:
    assert differences(await played(backend, number, DRIVERS[backend], manner), backend) == {}


@rudely
async def test_every_client_receives_the_author_of_each_message(backend: str, number: str, manner: str) -> None:
    assert otherwise(await played(backend, number, DRIVERS[backend], manner)) == {}


@rudely
async def test_no_client_receives_an_illegal_order(backend: str, number: str, manner: str) -> None:
    play = await played(backend, number, DRIVERS[backend], manner)
    assert {key: shown.illegal for key, shown in play.shown.items() if shown.illegal} == {}
