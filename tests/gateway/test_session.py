"""Small parts of a session: its context, its groups of clients, and its commands."""

from __future__ import annotations

from typing import Any, get_args

from structlog.testing import capture_logs

from dragoman.gateway.session.commands import ADDRESSED, answers_command
from dragoman.gateway.session.context import SessionContext
from dragoman.mappings.canonical import Event, SessionState
from dragoman.mappings.canonical.commands import ListSessions
from dragoman.mappings.canonical.events import Heartbeat, HistorySnapshot, TextDelta
from tests.gateway.codewhale_messages import answers, line, shown
from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.listed import listed
from tests.gateway.session.test_text_stream import streaming

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
