"""The link that publishes to everybody: heartbeats, announcements, the shutdown."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Raw, structs

from dragoman.mappings.canonical import SessionState, events
from dragoman.mappings.canonical.values import Message
from dragoman.mappings.dialect import Instance, Parts
from dragoman.mappings.pando.translator.publication import HEARTBEAT, PublicationTranslator
from tests.mappings.pando.data import value

START = 1_778_362_100 * 10**9
INSTANCE = Instance(id="us", started_at=START)


class Clock:
    now = START

    def __call__(self) -> int:
        return self.now


def link(clock: Clock) -> PublicationTranslator:
    return PublicationTranslator(clock, lambda: "id", INSTANCE)


def payload(frame: bytes, topic: str) -> Any:
    said, envelope = value(frame)
    assert (said, envelope["topic"], envelope["instanceId"]) == (topic, topic, "us")
    return envelope["payload"]


def test_the_first_heartbeat_comes_after_5_seconds_and_then_each_asks_for_the_next() -> None:
    clock = Clock()
    step = link(clock).opened()
    assert step.frames == []
    for uptime in ("5s", "10s"):
        assert step.alarm is not None
        assert step.alarm.after == HEARTBEAT == 5.0
        clock.now += 5 * 10**9
        step = step.alarm.callback()
        pulse = payload(step.frames[0], "instance.heartbeat")
        assert (pulse["instance_id"], pulse["uptime"], pulse["started_at"]) == ("us", uptime, "2026-05-09T21:28:20Z")


def test_a_session_is_not_announced_while_nobody_subscribes() -> None:
    unheard = PublicationTranslator(Clock(), lambda: "id", structs.replace(INSTANCE, topics=set()))
    assert unheard.attach(SessionState(id="s", title="T", opened_at=START)).frames == []


def test_a_session_is_announced_once_it_is_attached() -> None:
    clock = Clock()
    publication = link(clock)
    state = SessionState(id="s", title="T", opened_at=START, transcript=[Message(role="user", text="hi")])
    (frame,) = publication.attach(state).frames
    assert payload(frame, "session.update") == {
        "id": "s",
        "title": "T",
        "updated_at": "2026-05-09T21:28:20Z",
        "message_count": 1,
    }


def test_a_heartbeat_counts_the_current_sessions() -> None:
    sessions = ["one", "other"]
    publication = PublicationTranslator(
        Clock(), lambda: "id", structs.replace(INSTANCE, sessions=lambda: len(sessions))
    )
    for count in (2, 1):
        alarm = publication.opened().alarm
        assert alarm is not None
        assert payload(alarm.callback().frames[0], "instance.heartbeat")["session_count"] == count
        sessions.pop()


def test_closing_publishes_the_shutdown() -> None:
    (frame,) = link(Clock()).closed("the gateway stops").frames
    assert payload(frame, "instance.shutdown") == {"instance_id": "us", "reason": "graceful shutdown"}


def test_a_change_of_the_store_is_published() -> None:
    """The messages are captured from a real primary after a write (docs/dialects/pando.md, section 4)."""
    change = {
        "instance_id": "i-1",
        "path": "/srv/work",
        "topic": "db.file.created",
        "payload": {"method": "CreateFile"},
        "timestamp": "2026-11-21T00:54:45Z",
    }
    said = events.StoreChanged(topic="db.file.created", change=Raw(json.dumps(change).encode()))
    (frame,) = link(Clock()).send([said]).frames
    assert payload(frame, "db.file.created") == change


def test_answers_are_not_published_and_frames_of_subscribers_are_faults() -> None:
    publication = link(Clock())
    step = publication.send([events.Reply(request="r")])
    assert (step.frames, [loss.kind for loss in step.losses]) == ([], ["Reply"])
    assert [fault.code for fault in publication.receive([Parts("pub", b"", (b"x",))]).faults] == ["invalid"]
