"""The memory of a session is counted while it lives; its oldest half is dropped if the gateway runs out of memory."""

from __future__ import annotations

from functools import partial
from sys import getrefcount

import pytest
from msgspec import Raw

from dragoman.adapters.meter import STEP
from dragoman.gateway.config.model import Limits
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.services import Services
from dragoman.gateway.session.digest import summary_of
from dragoman.gateway.session.log import Log
from dragoman.gateway.session.memory import SHARED, SessionMemory
from dragoman.gateway.session.weight import of_item
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical.commands import OpenSession
from dragoman.mappings.canonical.events import OtpRequired, TextDelta
from dragoman.mappings.canonical.state import Otp, RenderedHistory
from dragoman.mappings.canonical.values import BackendInfo, Message, Origin, SessionSummary, Text
from tests.services import services
from tests.step_counter import count_steps


def unexpected() -> None:
    raise AssertionError("the session has no commands")


def holding(text: int, *, limits: Limits | None = None) -> tuple[Services, Log, SessionMemory, SessionState]:
    """Return a session with `text` characters in each of ten messages and ten batches of its log."""
    given = services(limits=limits, ledger=Ledger())
    state = SessionState(id="s")
    log = Log(state, given.limits)
    memory = SessionMemory(state, log, given, unexpected)
    for number in range(10):
        state.transcript.append(Message(id=str(number), role="user", text="x" * text))
        log.append([TextDelta(text="y" * text)], "t", Origin(), 0, text)
    memory.trim_transcript()
    return given, log, memory, state


def test_the_log_and_the_transcript_count_until_the_session_ends() -> None:
    given, log, memory, _ = holding(10 * STEP)
    assert log.size + 100 * STEP <= given.memory.used <= log.size + 101 * STEP
    memory.close()
    assert given.memory.used == 0


def test_an_emptied_log_counts_no_more() -> None:
    given, log, memory, _ = holding(10 * STEP)
    log.clear()
    memory.trim_transcript()
    assert 100 * STEP <= given.memory.used <= 101 * STEP
    log.append([TextDelta(text="y" * 50 * STEP)], "t", Origin(), 0, 50 * STEP)
    assert 150 * STEP <= given.memory.used <= 150 * STEP + 2 * STEP


def test_commands_count_and_are_dropped_if_they_are_most_of_a_session() -> None:
    given, state, dropped = services(), SessionState(id="s"), list[str]()

    def drop() -> None:
        dropped.append("commands")
        memory.count_commands(-30 * STEP)

    log = Log(state, given.limits)
    memory = SessionMemory(state, log, given, drop)
    log.append([TextDelta(text="y" * 10 * STEP)], "t", Origin(), 0, 10 * STEP)
    memory.count_commands(30 * STEP)
    assert 40 * STEP <= given.memory.used <= 42 * STEP
    memory.trim_transcript()
    assert 40 * STEP <= given.memory.used <= 42 * STEP
    given.memory.limit = 42 * STEP
    log.append([TextDelta(text="y" * 2 * STEP)], "t", Origin(), 0, 2 * STEP)
    assert (dropped, log.size >= 12 * STEP) == (["commands"], True)


LONG = "x" * 10 * STEP
FACTS = {
    "title": LONG,
    "agent": LONG,
    "backend": BackendInfo(tools=(LONG,)),
    "snapshot_ext": {"entries": Raw(LONG.encode())},
    "backend_ids": {"id": Raw(LONG.encode())},
    "chosen_ids": {"id": Raw(LONG.encode())},
    "goal": Raw(LONG.encode()),
    "listed": SessionSummary(session="s", title=LONG),
    "otp": Otp(asked=OtpRequired(tool="", description="", channels=(), auth_level=""), refused=(Text(text=LONG),)),
}


@pytest.mark.parametrize("name", FACTS)
def test_the_facts_that_a_peer_tells_of_a_session_count(name: str) -> None:
    given, _, memory, state = holding(STEP)
    before = given.memory.used
    setattr(state, name, FACTS[name])
    memory.count_commands(0)
    assert 10 * STEP <= given.memory.used - before <= 11 * STEP


def test_out_of_memory_the_history_in_the_words_of_the_backend_is_dropped_and_the_loss_is_counted() -> None:
    given, log, memory, state = holding(STEP)
    state.snapshot_ext, state.summed_up = {"entries": Raw(b"x" * 100 * STEP)}, 3
    memory.trim_transcript()
    given.memory.limit = given.memory.used
    log.append([TextDelta(text="y" * STEP)], "t", Origin(), 0, STEP)
    assert (state.snapshot_ext, state.summed_up, given.memory.used < 30 * STEP) == ({}, 0, True)
    lost = {(row.kind, row.field) for row in given.ledger.entries()}
    assert lost == {("transcript", ""), ("HistorySnapshot", "ext")}


def test_out_of_memory_a_large_history_in_the_words_of_the_backend_is_dropped_and_no_command() -> None:
    given, state = services(ledger=Ledger()), SessionState(id="s")
    memory = SessionMemory(state, Log(state, given.limits), given, unexpected)
    state.snapshot_ext = {"entries": Raw(b"x" * 100 * STEP)}
    memory.trim_transcript()
    given.memory.limit = given.memory.used
    memory.count_commands(STEP)
    assert (state.snapshot_ext, given.memory.used < 3 * STEP) == ({}, True)


def test_a_fact_that_is_told_again_is_held_once() -> None:
    _, _, memory, state = holding(STEP)
    first, again = (BackendInfo(tools=("x" * size,)) for size in (10, 10))
    for state.backend in (first, again):
        memory.trim_transcript()
    assert getrefcount(first) == 2


def test_the_command_that_opens_a_session_again_counts_and_is_kept() -> None:
    given, state = services(), SessionState(id="s")
    log = Log(state, given.limits)
    memory = SessionMemory(state, log, given, unexpected)
    state.opening = OpenSession(agent="x" * 30 * STEP)
    for change in (STEP, -STEP):
        memory.count_commands(change)
    assert 30 * STEP <= given.memory.used <= 32 * STEP
    given.memory.limit = 32 * STEP
    for _ in range(2):
        log.append([TextDelta(text="y" * 2 * STEP)], "t", Origin(), 0, 2 * STEP)
    assert (state.opening.agent, log.size < 4 * STEP) == ("x" * 30 * STEP, True)


def test_items_beyond_transcript_max_are_not_counted() -> None:
    given, log, _, state = holding(10 * STEP, limits=Limits(transcript_max=31 * STEP))
    assert len(state.transcript) == 3
    assert given.memory.used <= 31 * STEP + log.size + STEP


def test_out_of_memory_the_oldest_half_is_dropped_and_the_loss_is_counted() -> None:
    given, log, _, state = holding(10 * STEP)
    before = given.memory.used
    given.memory.limit = before
    log.append([TextDelta(text="y" * STEP)], "t", Origin(), 0, STEP)
    assert given.memory.used < 0.6 * before
    assert [message.id for message in state.messages()] == ["5", "6", "7", "8", "9"]
    (row,) = given.ledger.entries()
    assert (row.kind, row.why, row.count) == ("transcript", "the gateway is out of memory", 5)


def rendered(size: int) -> RenderedHistory:
    return RenderedHistory(frame=b"x" * size, sources=())


def test_a_long_history_that_was_rendered_for_a_client_counts_until_the_session_changes() -> None:
    given, _, memory, state = holding(STEP)
    before = given.memory.used
    state.rendered["pod"] = rendered(SHARED)
    memory.count_rendered()
    assert given.memory.used == before + SHARED
    memory.trim_transcript()
    assert (given.memory.used, state.rendered) == (before, {})


def test_a_short_history_that_was_rendered_for_a_client_is_dropped_at_once() -> None:
    given, _, memory, state = holding(STEP)
    before = given.memory.used
    state.rendered["pod"] = rendered(SHARED - 1)
    memory.count_rendered()
    assert (given.memory.used, state.rendered) == (before, {})


@pytest.mark.parametrize("why", ["nobody is there", "out of memory"])
def test_a_rendered_history_is_dropped_without_clients_and_without_memory(why: str) -> None:
    given, log, memory, state = holding(STEP)
    state.rendered["pod"] = rendered(SHARED)
    memory.count_rendered()
    before = given.memory.used
    if why == "out of memory":
        given.memory.limit = before
        log.append([TextDelta(text="y" * STEP)], "t", Origin(), 0, STEP)
    else:
        memory.drop_rendered()
    assert (given.memory.used <= before - SHARED, state.rendered) == (True, {})


def test_the_start_of_the_open_turn_is_never_negative_after_trimming() -> None:
    ten = 10 * of_item(Message(id="0", role="user", text="x"))
    _, _, memory, state = holding(1, limits=Limits(transcript_max=ten))
    state.fresh, state.summed_up = 8, 2
    state.transcript += state.transcript[:6]
    memory.trim_transcript()
    assert (len(state.transcript), state.fresh, state.summed_up) == (10, 2, 0)


# -- a row of a list ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("title", "shown"), [("", "x"), ("Rain", "Rain")])
def test_a_session_is_listed_by_its_title_or_else_by_its_first_words(title: str, shown: str) -> None:
    _, _, memory, state = holding(1)
    state.title = title
    row = summary_of(state, memory.digest)
    assert (row.session, row.title, row.messages) == (state.id, shown, 10)


def test_the_row_of_a_session_costs_the_same_however_long_its_transcript_is() -> None:
    costs = []
    for messages in (10, 1_000):
        _, _, memory, state = holding(1)
        state.transcript += [Message(role="user", text="x")] * (messages - 10)
        summary_of(state, memory.digest)
        costs.append(count_steps(partial(summary_of, state, memory.digest)))
    assert costs[0] == costs[1]
