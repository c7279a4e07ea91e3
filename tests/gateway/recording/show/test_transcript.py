from __future__ import annotations

from typing import Any, get_args

from msgspec import Raw

from dragoman.gateway import registry
from dragoman.gateway.recording.format import UP, CommandLine, EventLine, FrameLine, Line
from dragoman.gateway.recording.reader import Missing, open_recording
from dragoman.gateway.recording.show.projected import find_losses
from dragoman.gateway.recording.show.transcript import TranscriptEntry, kind_of, transcript
from dragoman.mappings.canonical import Event, events
from dragoman.mappings.canonical.commands import CancelTurn
from dragoman.mappings.canonical.unions import Unmapped
from dragoman.mappings.canonical.values import Failure, Message, SessionSummary, Text, Usage
from tests.gateway.recording.lines import FROZEN
from tests.samples import full


def told(*events: Any, turn: str = "t") -> list[tuple[str, str, str]]:
    lines: list[Line] = [
        EventLine(seq=seq, t=seq * 10, cursor=f"1:{seq}", turn=turn, event=event) for seq, event in enumerate(events, 1)
    ]
    return [
        (entry.kind, entry.name if entry.kind in ("tool", "result") else "", entry.text)
        for entry in transcript(lines)
        if entry.kind != "detail"
    ]


HIDDEN_DETAILS = {
    *(events.RunStarted, events.ModelContinuation, events.StateSnapshot, events.TurnResult, events.SessionActivated),
    *(events.StatusChanged, events.UsageReported, events.CompactionStarted, events.CompactionDone, events.MemoryWork),
    *(events.McpStartup, events.GoalCleared, events.LifecycleReport, events.StoreChanged, events.Heartbeat),
}
"""Events that the transcript shows only on request, beside answers and those that only count steps of the model."""


def test_each_kind_of_event_is_shown_or_hidden_on_purpose() -> None:
    others = [kind for kind in get_args(Event) if kind.answers == "never" and not kind.bookkeeping]
    lines = [EventLine(seq=1, t=10, cursor="1:1", turn="t", event=full(kind)) for kind in others]
    hidden = {type(line.event) for line in lines if kind_of(line) == "detail"}
    new = [kind.__name__ for kind in hidden - HIDDEN_DETAILS]
    assert not new, f"give these a text in gateway/recording/show/transcript.py, or hide them in HIDDEN_DETAILS: {new}"
    assert hidden == HIDDEN_DETAILS


def test_the_frozen_recording_reads_like_a_conversation() -> None:
    entries = [entry for entry in transcript(open_recording(FROZEN / "v4.jsonl").lines()) if entry.kind != "detail"]
    assert [(entry.kind, entry.turn, entry.text) for entry in entries] == [
        ("asked", 0, "Grüße 🦀"),
        ("input", 1, "Grüße 🦀"),
        ("tool", 1, '{"path":"notes.md"}'),
        ("result", 1, "one\ntwo"),
        ("text", 1, "Two lines."),
        ("end", 1, "completed · 12 tokens in, 4 tokens out"),
        ("command", 0, ""),
        ("reply", 0, "not_running: no turn is in progress"),
        ("loss", 0, "too large: 20000000 bytes, over the limit of 16777216"),
    ]
    assert [entry.redacted for entry in entries if entry.kind == "text"] == [True]


def test_a_text_block_has_the_time_of_its_first_delta() -> None:
    lines: list[Line] = [
        EventLine(seq=4, t=100, cursor="1:0", turn="t", event=events.TextDelta(text="a")),
        EventLine(seq=5, t=200, cursor="1:1", turn="t", event=events.TextDelta(text="b")),
        EventLine(seq=6, t=300, cursor="1:2", turn="t", event=events.TextDone(text="ab")),
    ]
    assert list(transcript(lines)) == [TranscriptEntry(seq=4, t=100, kind="text", turn=1, text="ab")]


def test_interrupted_text_is_shown_as_far_as_it_came() -> None:
    assert told(events.TextDelta(text="a"), events.ReasoningDelta(text="r")) == [
        ("text", "", "a"),
        ("reasoning", "", "r"),
    ]


def test_parallel_calls_are_shown_apart() -> None:
    assert told(
        events.ToolCallStarted(name="a", call="1"),
        events.ToolCallStarted(name="b", call="2"),
        events.ToolCallArguments(call="1", json="{"),
        events.ToolCallArguments(call="2", json='{"y":2}', done=True),
        events.ToolCallArguments(call="1", json='{"x":1}', done=True),
        events.ToolCallFinished(call="2", output="no", is_error=True),
        events.ToolOutputDelta(call="1", text="li"),
        events.ToolOutputDelta(call="1", text="ne"),
        events.ToolCallFinished(call="1", summary="yes"),
    ) == [
        ("tool", "a", '{"x":1}'),
        ("tool", "b", '{"y":2}'),
        ("error", "", "no"),
        ("output", "", "line"),
        ("result", "a", "yes"),
    ]


def test_a_session_that_goes_on_under_another_id_is_not_called_closed() -> None:
    summary = SessionSummary(session="s", title="Orders")
    assert told(events.SessionClosed(session=summary), events.SessionUpdated(session=summary)) == [
        ("session", "", "no longer listed under the id that it had"),
        ("session", "", "Orders"),
    ]


def test_questions_answers_losses_and_ends_are_shown() -> None:
    assert told(
        events.ApprovalRequested(tool="rm", description="all of it"),
        events.ApprovalResolved(approved=False),
        events.InteractionRequired(question="q", kind="form", spec=Raw(b'{"a":1}'), reason="why"),
        events.InteractionResolved(question="q"),
        events.Gap(text="context lost", count=3),
        Unmapped(dialect="pod", tag="new", raw="{}"),
        events.TurnEnded(end="rolled_back", failure=Failure(cause="timeout", text="too slow")),
    ) == [
        ("question", "", "rm: all of it"),
        ("answer", "", "denied"),
        ("question", "", 'form {"a":1}: why'),
        ("answer", "", "submitted"),
        ("loss", "", "context lost (3)"),
        ("loss", "", "unknown pod message 'new'"),
        ("end", "", "rolled back · timeout: too slow"),
    ]


def test_turns_are_numbered_and_events_outside_of_them_are_not() -> None:
    message = Message(role="user", text="hi", segments=(Text(text="hi"),))
    lines: list[Line] = [
        EventLine(seq=seq, t=0, cursor="1:0", turn=turn, event=events.MessageAppended(message=message))
        for seq, turn in enumerate(["", "a", "b", "a"], 1)
    ]
    assert [entry.turn for entry in transcript(lines)] == [0, 1, 2, 1]


def test_commands_of_clients_are_distinguished_from_those_to_the_backend() -> None:
    lines: list[Line] = [
        CommandLine(seq=1, t=0, cursor="1:0", link="pod-1", command=CancelTurn()),
        CommandLine(seq=2, t=0, cursor="1:0", link=UP, command=CancelTurn()),
        FrameLine(seq=3, t=0, link=UP, dir="send", dialect="pod", text="{}"),
    ]
    assert [(entry.kind, entry.link, entry.name) for entry in transcript(lines)] == [
        ("command", "pod-1", "cancel_turn"),
        ("asked", "up", "cancel_turn"),
    ]


def test_missing_items_are_shown_as_a_loss_in_their_place() -> None:
    lines: list[Line] = [
        EventLine(seq=seq, t=seq * 10, cursor=f"1:{seq}", turn="t", event=events.TextDone(text=str(seq)))
        for seq in (4, 5, 9)
    ]
    gaps = [Missing(2, "of before"), Missing(4, "part 0 is missing"), Missing(8, "3 lines were not recorded")]
    assert [(entry.kind, entry.text, entry.t) for entry in transcript(lines, gaps)] == [
        ("loss", "part 0 is missing", 40),
        ("text", "4", 40),
        ("text", "5", 50),
        ("loss", "3 lines were not recorded", 90),
        ("text", "9", 90),
    ]


def test_only_an_answer_given_in_words_is_shown_with_its_words() -> None:
    segments = (Text(text="approve"),)
    assert told(events.QuestionAnswered(segments=segments), events.QuestionAnswered()) == [("words", "", "approve")]


def client(seq: int = 1) -> FrameLine:
    return FrameLine(seq=seq, t=0, link="pod-1", dir="receive", dialect="pod", text="{}")


def test_losses_of_text_pieces_are_shown_once_with_their_row() -> None:
    told: list[Any] = [
        events.ToolOutputDelta(call="c", text="a"),
        events.ToolOutputDelta(call="c", text="b"),
        events.UsageReported(usage=Usage(cost_usd=0.5)),
    ]
    lines: list[Line] = [client()]
    lines += [EventLine(seq=n, t=n, cursor=f"1:{n}", turn="t", event=event) for n, event in enumerate(told, 2)]
    entries = list(transcript(lines, losses=find_losses("s", lines, registry.dialect)))
    assert [(entry.kind, [text.split(":")[0] for text in entry.lost]) for entry in entries] == [
        ("output", ["pod clients do not get it"]),
        ("detail", ["pod clients get it without usage.cost_usd"]),
    ]


def test_a_loss_of_pieces_and_of_their_end_is_shown_once() -> None:
    frame = FrameLine(seq=1, t=0, link="smooth-1", dir="receive", dialect="smooth", text="{}")
    told = [
        events.ToolCallArguments(call="c", name="ls", json="{}"),
        events.ToolCallArguments(call="c", name="ls", json="{}", done=True),
    ]
    lines: list[Line] = [frame]
    lines += [EventLine(seq=n, t=n, cursor=f"1:{n}", turn="t", event=event) for n, event in enumerate(told, 2)]
    (entry,) = transcript(lines, losses=find_losses("s", lines, registry.dialect))
    assert (entry.kind, entry.lost) == ("tool", ("smooth clients get it without call",))


def test_a_loss_at_the_end_of_a_recording_is_shown() -> None:
    event = events.ToolOutputDelta(call="c", text="a")
    lines: list[Line] = [client(), EventLine(seq=2, t=5, cursor="1:2", turn="t", event=event)]
    (entry,) = transcript(lines, losses=find_losses("s", lines, registry.dialect))
    assert (entry.kind, len(entry.lost)) == ("output", 1)


def test_a_piece_has_the_kind_of_the_entry_to_which_it_belongs() -> None:
    def kind(event: Any, link: str = "") -> str:
        return kind_of(EventLine(seq=1, t=0, cursor="1:0", link=link, event=event))

    assert kind(events.TextDelta(text="a")) == kind(events.TextDone(text="a")) == "text"
    assert kind(events.ToolCallStarted(name="ls")) == "tool"
    assert kind(events.ToolCallFinished(is_error=True)) == "error"
    assert kind(events.TurnEnded(end="completed")) == "end"
    assert kind(events.StatusChanged(status="idle")) == "detail"
    assert kind(events.Reply(request="r"), link="pod-1") == "reply"
    assert kind_of(CommandLine(seq=1, t=0, cursor="1:0", link=UP, command=CancelTurn())) == "asked"


def test_a_loss_is_not_shown_below_a_command_in_between() -> None:
    lines: list[Line] = [
        client(),
        EventLine(seq=2, t=5, cursor="1:2", turn="t", event=events.ToolOutputDelta(call="c", text="a")),
        CommandLine(seq=3, t=6, cursor="1:3", link=UP, command=CancelTurn()),
        EventLine(seq=4, t=7, cursor="1:3", turn="t", event=events.ToolCallFinished(call="c", output="a")),
    ]
    entries = transcript(lines, losses=find_losses("s", lines, registry.dialect))
    assert [(entry.kind, len(entry.lost)) for entry in entries] == [("output", 1), ("asked", 0), ("result", 0)]
