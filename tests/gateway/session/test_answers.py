"""Which events go to the link that asked, and what an answer leaves behind."""

from __future__ import annotations

from typing import Any, get_args

from gateway.routing.roster import listing
from gateway.session.answers import ADDRESSED, answers_one
from gateway.session.history import summary
from mappings.canonical import Event
from mappings.canonical.commands import ListSessions
from mappings.canonical.events import Heartbeat, HistorySnapshot, TextDelta
from tests.gateway.stage import Stage, settle, stage


def test_a_history_that_was_asked_for_answers_and_one_that_is_told_does_not() -> None:
    assert answers_one(HistorySnapshot(items=(), request="r"))
    assert not answers_one(HistorySnapshot(items=()))
    assert not answers_one(TextDelta(text="a"))


def test_every_event_with_a_request_is_addressed() -> None:
    named = {kind for kind in get_args(Event) if "request" in kind.__struct_fields__ and kind is not Heartbeat}
    assert {kind.__name__ for kind in named} - {"Unmapped"} == {kind.__name__ for kind in ADDRESSED}


THREAD = "thread-0198c3a1-0000-4000-8000-0000000000d1"


def line(id: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def thread(status: str = "running") -> dict[str, Any]:
    return {
        "id": THREAD, "preview": "New conversation", "ephemeral": True, "model_provider": "deepseek", "created_at": 1,
        "updated_at": 1, "status": status, "cwd": "/src", "cli_version": "0.9.10", "source": "interactive",
    }  # fmt: skip


async def answers(made: Stage, method: str, result: dict[str, Any]) -> None:
    """The backend answers the newest request of this method."""
    await settle()
    asked = [frame for frame in made.pods[0].frames() if frame["method"] == method][-1]
    made.pods[0].says(
        {"jsonrpc": "2.0", "id": asked["id"], "result": {"threads": [], "events": [], "data": {}} | result}
    )
    await settle()


async def test_a_thread_that_is_archived_leaves_the_list_until_it_is_fetched_back() -> None:
    """codewhale sheet, section 2.3, and captures/codewhale/06: an archived thread says so where it is asked for."""
    async with stage(upstream="codewhale") as made:
        client = made.join("editor", dialect="codewhale")
        client.says(line(1, "thread/start"))
        await answers(made, "thread/start", {"thread_id": THREAD, "status": "started", "thread": thread()})
        session = made.router.sessions[0]
        assert not session.state.archived
        client.says(line(2, "thread/archive", thread_id=THREAD))
        await answers(made, "thread/archive", {"thread_id": THREAD, "status": "archived"})
        assert listing([summary(session.state)], ListSessions(), silent=True).sessions == ()
        (row,) = listing([summary(session.state)], ListSessions(archived=True), silent=True).sessions
        assert row.archived
        client.says(line(3, "thread/unarchive", thread_id=THREAD))
        await answers(made, "thread/unarchive", {"thread_id": THREAD, "status": "unarchived"})
        assert len(listing([summary(session.state)], ListSessions(), silent=True).sessions) == 1
        assert [frame["result"]["status"] for frame in client.news()] == ["started", "archived", "unarchived"]
