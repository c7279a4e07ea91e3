"""The publication of a session."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from msgspec import structs

from dragoman.mappings.canonical import Batch, Event, events
from dragoman.mappings.canonical.values import End, Failure, Message, SessionSummary, Text, Usage
from dragoman.mappings.dialect import Instance, Rendered
from dragoman.mappings.pando.projection import Projection
from tests.mappings.pando.data import value

SESSION = "0192f0e8-4d84-7d6e-a000-0000000000aa"
AT = 1_778_362_100_123_000_000
US = Instance(id="us", started_at=AT - 65 * 10**9)


def rendered(projection: Projection, *events: Event, turn: str = "t") -> Rendered:
    return projection.render(Batch(session=SESSION, epoch=1, first_seq=0, events=list(events), turn=turn, at=AT))


def published(projection: Projection, *events: Event, turn: str = "t") -> list[tuple[str, dict[str, Any]]]:
    """Return topic and payload of the messages that a projection publishes for these events."""
    found = []
    for frame in rendered(projection, *events, turn=turn).frames:
        topic, envelope = value(frame)
        assert (envelope["topic"], envelope["instanceId"]) == (topic, "us")
        assert envelope["timestamp"] == "2026-05-09T21:28:20.123Z"
        found.append((topic, envelope["payload"]))
    return found


def user(text: str) -> events.MessageAppended:
    return events.MessageAppended(message=Message(role="user", text=text, id="m"))


def test_a_turn_is_published_in_its_order_with_one_start() -> None:
    turn = published(
        Projection(instance=US),
        events.TurnAccepted(request="r"),
        user("hi"),
        events.StatusChanged(status="running"),
        events.ModelTurnStarted(index=0),
        events.TextDelta(text="a"),
        events.TextDone(text="a"),
        events.ToolCallStarted(call="c", name="bash"),
        events.ToolCallArguments(call="c", name="bash", json="{}", done=True),
        events.ToolCallFinished(call="c", name="bash", summary="s"),
        events.ModelTurnStarted(index=1),
        events.TurnResult(end="completed"),
        events.TurnEnded(end="completed", text="a", usage=Usage(input_tokens=3, output_tokens=1)),
    )
    assert turn == [
        ("message.append", {"session_id": SESSION, "message_id": "m", "role": "user", "content": "hi"}),
        ("llm.start", {"session_id": SESSION}),
        ("llm.token", {"session_id": SESSION, "token": "a"}),
        ("tool.start", {"session_id": SESSION, "tool_name": "bash", "call_id": "c", "params": ""}),
        ("tool.start", {"session_id": SESSION, "tool_name": "bash", "call_id": "c", "params": "{}"}),
        (
            "tool.end",
            {"session_id": SESSION, "tool_name": "bash", "call_id": "c", "is_error": False, "result": "s"},
        ),
        ("llm.end", {"session_id": SESSION, "tokens_in": 3, "tokens_out": 1}),
    ]


def test_a_publication_without_subscribers_encodes_nothing_and_keeps_its_state() -> None:
    topics: set[bytes] = set()
    projection = Projection(instance=structs.replace(US, topics=topics))
    described = SessionSummary(session=SESSION, title="T", messages=4)
    assert published(projection, events.SessionUpdated(session=described), user("no"), events.ModelTurnStarted()) == []
    write = projection.text_writer(events.TextDelta)
    assert write is not None
    assert write("a", AT) == []
    topics.add(b"llm.")
    assert [topic for topic, _ in published(projection, events.ModelTurnStarted(), events.TextDelta(text="b"))] == [
        "llm.token"
    ]
    assert write("c", AT) != []
    said = dict(published(projection, events.TurnEnded(end="rolled_back")))
    assert (said["session.update"]["title"], said["session.update"]["message_count"]) == ("T", 4)


def test_each_turn_has_its_start() -> None:
    projection = Projection(instance=US)
    for turn in ("t1", "t2"):
        assert [t for t, _ in published(projection, events.ModelTurnStarted(), turn=turn)] == ["llm.start"]


TURN_WITHOUT_ITS_START: dict[str, list[Event]] = {
    "text": [events.TextDelta(text="a"), events.TextDelta(text="b")],
    "much text": [events.TextDelta(text=str(n)) for n in range(40)],
    "a call": [events.ToolCallStarted(call="c", name="look"), events.TextDelta(text="b")],
    "the result of an earlier call": [events.ToolCallFinished(call="c", name="look", summary="s")],
    "its end alone": [events.TurnEnded(end="completed")],
    "its failure alone": [events.TurnEnded(end="failed")],
}


@pytest.mark.parametrize("turn", TURN_WITHOUT_ITS_START.values(), ids=TURN_WITHOUT_ITS_START)
def test_a_turn_whose_start_was_not_told_has_one_llm_start_before_all_else(turn: list[Event]) -> None:
    """A viewer shows nothing without it (docs/dialects/pando.md, section 4)."""
    projection = Projection(instance=US)
    assert projection.text_writer(events.TextDelta) is None, "the first piece is not written by itself"
    topics = [topic for topic, _ in published(projection, *turn)]
    assert topics[0] == "llm.start"
    assert topics.count("llm.start") == 1


def test_an_answer_starts_a_run_only_if_its_question_ended_one() -> None:
    """A viewer may clear its view at each `llm.start`; a subscriber that comes late was not told of the question."""
    told, late = Projection(instance=US), Projection(instance=US)
    for projection in (told, late):
        published(projection, events.ModelTurnStarted())
    published(told, events.QuestionAsked(question="q", text="Do it?", parked=True))
    answered = events.QuestionAnswered(question="q")
    assert [topic for topic, _ in published(told, answered)] == ["llm.start"]
    assert published(late, answered) == []


def test_each_answer_in_words_has_an_id_of_its_own() -> None:
    """A viewer may tell messages apart by their ids."""
    answers = [events.QuestionAnswered(question="q", number=n, segments=(Text(text="yes"),)) for n in (1, 2)]
    said = published(Projection(instance=US), *answers)
    assert len({payload["message_id"] for topic, payload in said if topic == "message.append"}) == 2


TOPICS_OF_END: dict[str, list[str]] = {
    "completed": ["llm.end"],
    "limit_reached": ["llm.end"],
    "cancelled": ["llm.end"],
    "paused": ["llm.end"],
    "failed": ["message.append", "llm.end"],
    "rolled_back": ["llm.end", "session.update"],
}


@pytest.mark.parametrize("end", get_args(End))
def test_each_turn_end_has_its_form(end: End) -> None:
    failure = Failure(cause="model_failed", text="the model is gone") if end == "failed" else None
    projection = Projection(instance=US)
    published(projection, events.ModelTurnStarted())
    said = published(projection, events.TurnEnded(end=end, failure=failure, message="m9"))
    assert [topic for topic, _ in said] == TOPICS_OF_END[end]
    if end == "failed":
        cause = {"session_id": SESSION, "message_id": "m9", "role": "system", "content": "the model is gone"}
        assert said[0][1] == cause


def test_a_turn_that_is_rolled_back_takes_its_message_out_of_the_count() -> None:
    projection = Projection(instance=US)
    described = SessionSummary(session=SESSION, title="T", messages=4)
    published(projection, events.SessionUpdated(session=described), user("no"))
    said = dict(published(projection, events.TurnEnded(end="rolled_back")))
    assert (said["session.update"]["title"], said["session.update"]["message_count"]) == ("T", 4)


def test_an_error_inside_a_turn_is_no_message_by_itself() -> None:
    assert published(Projection(instance=US), events.ErrorReported(cause="internal", text="x")) == []


def test_reasoning_and_internal_events_are_counted_and_not_published() -> None:
    done = rendered(
        Projection(instance=US), events.ReasoningDelta(text="x"), events.Alert(level="warn", source="pod", text="x")
    )
    assert (done.frames, {loss.kind for loss in done.losses}) == ([], {"ReasoningDelta", "Alert"})


def test_a_system_message_is_published_with_its_role() -> None:
    (said,) = published(Projection(instance=US), events.MessageAppended(message=Message(role="system", text="note")))
    assert said[1]["role"] == "system"


def test_a_heartbeat_without_report_names_the_instance_and_its_uptime() -> None:
    (said,) = published(Projection(instance=US), events.Heartbeat())
    assert (said[1]["instance_id"], said[1]["uptime"], said[1]["session_count"]) == ("us", "1m5s", 0)


def test_a_copy_is_independent() -> None:
    projection = Projection(instance=US)
    published(projection, events.ModelTurnStarted())
    twin = projection.copy()
    assert published(twin, events.ModelTurnStarted()) == []
    published(projection, user("x"), turn="t2")
    assert published(twin, events.ModelTurnStarted()) == []


def test_an_answer_to_one_caller_is_not_published() -> None:
    answers = (events.TurnAccepted(request="r"), events.Reply(request="r"), events.Pong(request="r"))
    assert published(Projection(instance=US), *answers) == []


def test_an_error_for_which_its_turn_does_not_fail_is_counted_as_lost() -> None:
    projection = Projection(instance=US)
    first, last = (events.ErrorReported(cause="internal", text=text) for text in ("first", "last"))
    failed = events.TurnEnded(end="failed", failure=Failure(cause="internal", text="last"))
    assert [loss.sample for loss in rendered(projection, first, last, failed).losses] == [first]
    assert rendered(projection, last, turn="t2").losses == []
    copy = projection.copy()
    assert [loss.sample for loss in rendered(projection, events.TurnEnded(end="completed"), turn="t2").losses] == [last]
    assert [loss.sample for loss in rendered(copy, events.StatusChanged(status="idle"), turn="").losses] == [last]
