"""Random legal sessions through every pair of dialects, in memory; random_session.py has the invariants.

DRAGOMAN_EXAMPLES=5000 python -m pytest tests/pairs/test_random_sessions.py

is a longer run, other each time.
"""

from __future__ import annotations

import asyncio
import logging
import os

import pytest
import structlog
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.dialects import parts
from tests.gateway.in_memory import InMemoryGateway
from tests.pairs.random_session import VERBS, RandomSession, Step, limits
from tests.pairs.table import DIALECTS

LONGER = int(os.environ.get("DRAGOMAN_EXAMPLES", "0"))
WEIGHTS = {"play": 12, "answer": 2, "speak": 4, "join": 2, "stall": 2, "cancel": 2}

STEPS = st.lists(
    st.tuples(
        st.sampled_from([verb for verb in VERBS for _ in range(WEIGHTS.get(verb, 1))]),
        st.integers(0, 3),
        st.integers(0, 39),
    ),
    min_size=10,
    max_size=60,
)


@pytest.fixture(autouse=True)
def quiet() -> None:
    """Turn off the log, because there are thousands of sessions."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


async def played(client: str, backend: str, steps: list[Step], log_max: int) -> None:
    """Run a session: connect a client of the pair's own dialect, then run the steps."""
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        stage = InMemoryGateway(
            group, limits(log_max), "coalesce", parts(backend).upstream, keeps=False
        )  # one connection at a time
        session = RandomSession(stage, parts(backend).random_backend())
        try:
            session.connect_client(client)
            await session.rest()
            for step in steps:
                await session.step(step)
            await session.finish_and_compare()
        finally:
            for one in session.clients:
                one.peer.transport.reading.set()
            await stage.end()


@pytest.mark.timeout(900 if LONGER else 60)
@pytest.mark.parametrize("backend", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
@settings(
    max_examples=LONGER or 50,
    derandomize=not LONGER,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
)
@given(steps=STEPS, log_max=st.sampled_from([65_536, 24]))
def test_a_random_session_is_shown_completely_and_in_order(
    client: str, backend: str, steps: list[Step], log_max: int
) -> None:
    asyncio.run(played(client, backend, steps, log_max))


async def test_the_words_about_a_lost_context_are_not_counted_as_events_of_the_log() -> None:
    """A random session found it: a stream is open, its backend dies, and the next input is told of it."""
    steps: list[Step] = [("play", 0, 1), *[("play", 0, 0)] * 6, ("lose", 0, 0), ("speak", 0, 0), ("play", 0, 0)]
    await played("smooth", "smooth", steps, 65_536)


async def test_a_client_is_told_of_a_lost_context_in_words_that_are_no_part_of_the_answer() -> None:
    """A random session found it: the turn that tells it fails, so no terminal text shows what its text was."""
    play: Step = ("play", 0, 0)
    lost: list[Step] = [play, ("play", 0, 1), ("lose", 0, 0)]
    await played("pod", "smooth", [*lost, play, ("join", 0, 0), ("speak", 0, 0), play, play], 65_536)


async def test_a_client_that_is_behind_is_not_shown_a_question_in_the_middle_of_what_it_missed() -> None:
    """A random session found it: a pod client does not read, and asks for the question again by `resume`."""
    play: Step = ("play", 0, 0)
    behind: list[Step] = [play, ("answer", 0, 0), ("stall", 0, 0), play, play, ("play", 2, 14), ("play", 1, 6)]
    await played("pod", "smooth", [*behind, ("play", 0, 1), play, ("resume", 0, 0)], 65_536)
