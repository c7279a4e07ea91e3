"""Small parts of a session: its context, its groups of clients, its commands with titles, and its runs of events."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from structlog.testing import capture_logs

from dragoman.gateway.session.commands import ADDRESSED, answers_command
from dragoman.gateway.session.context import SessionContext
from dragoman.gateway.session.runs import Runs
from dragoman.mappings.canonical import Event, OpenTurn, SessionState
from dragoman.mappings.canonical.commands import ListSessions
from dragoman.mappings.canonical.events import Alert, Heartbeat, HistorySnapshot, StatusChanged, TextDelta, TurnEnded
from dragoman.mappings.canonical.values import Origin
from tests.gateway import smooth_server_messages as server
from tests.gateway.codewhale_messages import answers, line, shown
from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.listed import listed
from tests.gateway.session.test_text_stream import streaming
from tests.gateway.smooth_client_messages import CONVERSATION, error, reply

# -- context -----------------------------------------------------------------------------------------


def test_a_line_has_the_id_that_the_session_has_now_and_its_owner() -> None:
    parts: dict[str, Any] = dict.fromkeys(SessionContext.__struct_fields__)
    state = SessionState(id="provisional")
    context = SessionContext(**{**parts, "state": state})
    state.id, state.owner = "named by its backend", "token:alice"
    with capture_logs() as logs:
        context.log.info("idle")
    assert (logs[0]["session"], logs[0]["principal"]) == ("named by its backend", "token:alice")


# -- groups ------------------------------------------------------------------------------------------


async def test_a_client_that_leaves_closes_the_stream() -> None:
    async with in_memory_gateway() as made:
        await streaming(made)
        made.session.delivery.detach(made.clients["a"].link)
        assert made.session.delivery.groups.streamed is None


# -- commands ----------------------------------------------------------------------------------------


def test_only_a_requested_history_answers_a_request() -> None:
    assert answers_command(HistorySnapshot(items=(), request="r"))
    assert not answers_command(HistorySnapshot(items=()))
    assert not answers_command(TextDelta(text="a"))


def test_every_event_with_a_request_id_goes_to_one_link() -> None:
    named = {kind for kind in get_args(Event) if "request" in kind.__struct_fields__ and kind is not Heartbeat}
    assert {kind.__name__ for kind in named} == {kind.__name__ for kind in ADDRESSED}


THREAD = "thread-0198c3a1-0000-4000-8000-0000000000d1"


async def test_an_archived_thread_leaves_the_list_until_it_is_unarchived() -> None:
    """A list of archived threads contains it (docs/dialects/codewhale.md, section 2.3, and captures/codewhale/06)."""
    async with in_memory_gateway(upstream="codewhale") as made:
        client = made.join("editor", dialect="codewhale")
        client.sends(line(1, "thread/start"))
        await answers(made, "thread/start", **shown(THREAD, "started"))
        (session,) = made.router.sessions
        assert not session.state.archived
        client.sends(line(2, "thread/archive", thread_id=THREAD))
        await answers(made, "thread/archive", thread_id=THREAD, status="archived")
        assert listed(made.router, ListSessions(), silent=True).sessions == ()
        (row,) = listed(made.router, ListSessions(archived=True), silent=True).sessions
        assert row.archived
        client.sends(line(3, "thread/unarchive", thread_id=THREAD))
        await answers(made, "thread/unarchive", thread_id=THREAD, status="unarchived")
        assert len(listed(made.router, ListSessions(), silent=True).sessions) == 1
        assert [frame["result"]["status"] for frame in client.news()] == ["started", "archived", "unarchived"]


async def test_the_gateway_keeps_titles_for_a_backend_that_does_not() -> None:
    async with in_memory_gateway() as made:
        rename = {"action": "rename_conversation", "requestId": "n", "conversationId": CONVERSATION, "title": "New"}
        await (
            made.opens("a")
            .sends("a", rename)
            .receives("a", reply("n", conversationId=CONVERSATION, title="New"))
            .pod_receives()
        )
        assert made.session.state.title == "New"


@pytest.mark.parametrize(("dialect", "title"), [("codewhale", "New"), ("smooth", "")])
async def test_titles_that_a_smooth_server_cannot_change_are_kept_for_clients_of_other_dialects(
    dialect: str, title: str
) -> None:
    """The servers in Python and TypeScript have no `rename_conversation` (docs/dialects/smooth.md, section 3)."""
    conversation = server.CONVERSATION
    rename, answered = {
        "codewhale": (
            line(1, "thread/set_name", thread_id=f"thread-{conversation}", name="New"),
            {"id": 1, "result": {"status": "ok"}},
        ),
        "smooth": (
            {"action": "rename_conversation", "requestId": "n", "conversationId": conversation, "title": "New"},
            error("n", "UNSUPPORTED_ACTION"),
        ),
    }[dialect]
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            made.asks_server("p", "Hi")
            .server_sends(server.taken("$t"))
            .connects("c", dialect=dialect)
            .sends("c", rename)
            .server_receives({"action": "rename_conversation", "requestId": "$r", "title": "New"})
            .server_sends(server.problem("$r", "UNSUPPORTED_ACTION"))
            .receives("c", answered)
            .ignores("p")
        )
        assert made.session.state.title == title


# -- runs --------------------------------------------------------------------------------------------


OURS = Origin(link="smooth-1", request="r1")


def runs_of(state: SessionState) -> Runs:
    runs = Runs(state, lambda: "t1", sends_model_turns=True)
    runs.begin(7)
    return runs


def test_a_turn_begins_and_ends_a_run() -> None:
    state = SessionState(id="s")
    runs = runs_of(state)
    runs.emit(StatusChanged(status="running"))
    runs.open_turn(OURS)
    runs.emit(TextDelta(text="x"))
    runs.end_turn(TurnEnded(end="completed", text="x", message="m"))
    runs.emit(Alert(level="warn", source="pod", text="late"))
    assert [(run.turn, run.origin, len(run.events), run.ended) for run in runs.finish()] == [
        ("", Origin(), 1, False),
        ("t1", OURS, 2, True),
        ("", Origin(), 1, False),
    ]


def test_a_new_origin_begins_a_run_in_the_same_turn() -> None:
    state = SessionState(id="s", turn=OpenTurn(id="t1", message="m"))
    runs = runs_of(state)
    runs.emit(TextDelta(text="x"))
    assert state.turn is not None
    state.turn.origin = OURS
    runs.split()
    runs.emit(TextDelta(text="y"))
    assert [(run.turn, run.origin) for run in runs.finish()] == [("t1", Origin()), ("t1", OURS)]


def test_each_step_begins_with_the_open_turn() -> None:
    state = SessionState(id="s", turn=OpenTurn(id="t1", message="m"))
    runs = runs_of(state)
    runs.emit(TextDelta(text="x"))
    runs.begin(8)
    assert runs.finish() == []
    runs.begin(9)
    runs.emit(TextDelta(text="y"))
    assert [run.events for run in runs.finish()] == [[TextDelta(text="y")]]
