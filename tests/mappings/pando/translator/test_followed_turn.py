"""The turn of a session at a primary: its text, and how its end is found."""

from __future__ import annotations

import pytest
from msgspec import structs

from dragoman.mappings.canonical import Event, events
from dragoman.mappings.canonical.values import Message, SessionSummary
from dragoman.mappings.dialect import Burst
from dragoman.mappings.pando.translator.followed_session import FollowedSession
from dragoman.mappings.pando.translator.followed_sessions import FollowedSessions
from dragoman.mappings.pando.translator.followed_turn import Interrupt
from dragoman.mappings.pando.translator.known_messages import ECHOES_MAX
from dragoman.mappings.pando.translator.output import TEXT_MAX, LatestCall
from dragoman.mappings.pando.translator.silence import TURN_QUIET
from dragoman.mappings.pando.vocabulary import keep
from dragoman.mappings.rfc3339 import NS

END = events.TurnEnded(end="completed")
QUIET = int(TURN_QUIET * NS)
DONE = [events.TurnResult(end="completed"), events.StatusChanged(status="idle")]


def echo(text: str) -> events.MessageAppended:
    return events.MessageAppended(message=Message(role="user", text=text))


def test_the_oldest_input_whose_echo_never_came_is_forgotten() -> None:
    session = FollowedSession(LatestCall())
    for number in range(ECHOES_MAX + 1):
        session.note_input(str(number))
    assert session.turn.take_event(echo("0"), 0) == [echo("0")]
    assert session.turn.take_event(echo("1"), 0) == []


def test_a_text_that_is_too_long_to_be_kept_is_not_repaired() -> None:
    session = FollowedSession(LatestCall())
    session.turn.take_event(events.TextDelta(text="x" * (TEXT_MAX + 1)), 0)
    session.turn.take_event(END, 0)
    assert session.take_list([Message(role="assistant", text="y", id="m")], 0) == DONE


def system(id: str, text: str = "no model") -> events.MessageAppended:
    return events.MessageAppended(message=Message(role="system", text=text, id=id))


def answer(id: str, text: str) -> Message:
    return Message(role="assistant", text=text, id=id)


WHY = [events.ErrorReported(cause="internal", text="no model"), events.StatusChanged(status="idle")]


@pytest.mark.parametrize(
    ("streamed", "listed"),
    [("", []), ("", None), ("Hel", [answer("m", "Hel")]), ("Hel", [answer("a", "Hel")]), ("", [answer("m", "")])],
    ids=["no answer", "no list", "the answer that it broke off", "another id", "an answer without text"],
)
def test_a_system_message_right_before_the_end_is_the_cause_of_a_failed_turn(
    streamed: str, listed: list[Message]
) -> None:
    """A failed turn has its cause in a system message, which is not stored, then `llm.end` (docs/translation.md, rule
    3.6). A gateway as primary gives it the id of the answer. Its own backend may list the answer under another id.
    """
    session = FollowedSession(LatestCall())
    session.turn.begin(0)
    said = session.turn.take_event(events.TextDelta(text=streamed), 0) if streamed else []
    assert session.turn.take_event(system("m"), 0) == []
    assert session.turn.take_event(END, 0) == []
    assert session.take_list(listed, 0)[-2:] == WHY
    assert not session.turn.is_open
    assert system("m") not in said


@pytest.mark.parametrize("streamed", ["", "Hel"])
def test_a_stored_answer_that_only_repeats_the_cause_is_no_answer(streamed: str) -> None:
    """The backend of a gateway as the primary stores it: the smooth server in Rust."""
    session = FollowedSession(LatestCall())
    session.turn.begin(0)
    said = session.turn.take_event(events.TextDelta(text=streamed), 0) if streamed else []
    session.turn.take_event(system("m"), 0)
    session.turn.take_event(END, 0)
    stored = [INPUT, answer("r", "This reply failed before it finished (no model).")]
    _missed_input, *told = session.take_list(stored, 0)
    assert told == WHY
    assert len(said) == (2 if streamed else 0)


def test_an_answer_that_was_streamed_may_repeat_a_system_message() -> None:
    session = FollowedSession(LatestCall())
    session.turn.take_event(events.TextDelta(text="I see: no model"), 0)
    session.turn.take_event(system("m"), 0)
    session.turn.take_event(END, 0)
    stored = [answer("a", "I see: no model"), system("m").message]
    assert session.take_list(stored, 0) == [system("m"), *DONE]


def test_a_system_message_before_the_end_of_a_turn_with_an_answer_is_no_cause() -> None:
    session = FollowedSession(LatestCall())
    session.turn.take_event(events.TextDelta(text="Hello"), 0)
    note = system("of its own")
    session.turn.take_event(note, 0)
    session.turn.take_event(END, 0)
    assert session.take_list([answer("m", "Hello"), note.message], 0) == [note, *DONE]


@pytest.mark.parametrize(
    "then", [events.TextDelta(text="Hello"), system("next"), None], ids=["text", "system", "silence"]
)
def test_a_system_message_in_a_turn_is_passed_on_with_the_next_event(then: Event | None) -> None:
    session = FollowedSession(LatestCall())
    session.turn.take_event(events.TextDelta(text="He"), 0)
    assert session.turn.take_event(system("m"), 0) == []
    told = session.turn.take_event(then, 0) if then is not None else session.turn.check_time(NS)
    assert told == [system("m"), *([then] if isinstance(then, events.TextDelta) else [])]


def test_an_interrupted_turn_is_cancelled_whatever_the_system_message_sends() -> None:
    session = FollowedSession(LatestCall())
    session.turn.begin(0)
    session.turn.interrupt = Interrupt(accepted=True)
    session.turn.take_event(system("m"), 0)
    session.turn.take_event(END, 0)
    assert session.take_list([], 0) == [system("m"), events.TurnResult(end="cancelled"), DONE[1]]


def test_a_failure_counts_also_if_the_next_turn_begins_before_the_list_comes() -> None:
    session = FollowedSession(LatestCall())
    session.turn.begin(0)
    session.turn.take_event(system("m"), 0)
    session.turn.take_event(END, 0)
    assert session.turn.take_event(events.TextDelta(text="Next"), 0)[:2] == WHY


def severed(*listed: Message, published: tuple[Event, ...] = ()) -> list[Event]:
    """Return what a turn tells if for 3 s over a new connection its messages stay the same."""
    session = FollowedSession(LatestCall())
    session.turn.begin(0, "hi")
    for event in published:
        session.turn.take_event(event, 0)
    session.note_reconnected(NS)
    asked = [session.list_call.wanted]
    assert session.take_list(listed, NS) == []
    for now in (4 * NS - 1, 4 * NS):
        session.turn.check_time(now)
        asked.append(session.list_call.wanted)
    assert asked == [True, False, True], "the turn may have ended before the primary had subscribed us"
    told = session.take_list(listed, 4 * NS)
    session.turn.check_time(4 * NS + 3 * NS)
    assert not session.list_call.wanted, "the list is not asked for again and again"
    return told


INPUT = Message(role="user", text="hi", id="u")
RESULT = Message(role="system", text="", id="t", ext=keep(role="tool"))  # a pando stores results of tools without text
STORED = INPUT, answer("m", "Done.")
CALL = events.ToolCallStarted(call="c", name="look")
LOOKS = events.TextDelta(text="I look."), CALL


def test_a_turn_that_ended_before_a_new_subscription_is_over_once_its_answer_is_stored() -> None:
    assert severed(*STORED)[-2:] == DONE


@pytest.mark.parametrize(
    "listed",
    [[INPUT], [INPUT, answer("m", "I look."), RESULT], [INPUT, answer("m", "I look."), RESULT, answer("n", "")]],
)
def test_a_turn_whose_answer_is_not_stored_goes_on_over_a_new_connection(listed: list[Message]) -> None:
    assert severed(*listed) == []


@pytest.mark.parametrize(
    ("published", "first"),
    [(LOOKS, "I look."), ((CALL,), ""), (LOOKS[:1], "I look.")],
    ids=["text and a call", "a call", "text"],
)
def test_a_turn_is_over_if_the_answer_after_its_tool_call_is_stored(published: tuple[Event, ...], first: str) -> None:
    told = severed(INPUT, answer("m", first), RESULT, answer("n", "Done."), published=published)
    assert events.TextDelta(text="Done.") in told
    assert told[-2:] == DONE


@pytest.mark.parametrize(
    ("published", "listed"),
    [
        ((CALL,), STORED),
        (LOOKS, [INPUT, answer("m", "I look.")]),
        (LOOKS, [INPUT, answer("m", "I look."), RESULT]),
        (LOOKS, [INPUT, answer("m", "I look."), RESULT, answer("n", "")]),
        ((events.TextDelta(text="First."), *LOOKS), [INPUT, answer("m", "First."), RESULT, answer("n", "I look.")]),
        ((events.TextDelta(text="irst."), *LOOKS), [INPUT, answer("m", "First."), RESULT, answer("n", "I look.")]),
    ],
    ids=[
        "the call is in the last row",
        "the text before the call is the last row",
        "the result is the last row",
        "the last row is still empty",
        "the text before the second call is the last row",
        "a part of the text was never published",
    ],
)
def test_a_turn_with_an_open_tool_call_goes_on_over_a_new_connection(
    published: tuple[Event, ...], listed: list[Message]
) -> None:
    assert severed(*listed, published=published) == []


def test_an_answer_that_was_stored_after_the_first_list_ends_a_severed_turn() -> None:
    session = FollowedSession(LatestCall())
    session.turn.begin(0, "hi")
    session.turn.take_event(LOOKS[1], 0)
    session.note_reconnected(NS)
    rows = [INPUT, answer("m", ""), RESULT, answer("n", "Done.")]
    assert [session.take_list(rows[:2], NS), session.take_list(rows, 4 * NS)] == [[], []]
    session.turn.check_time(7 * NS)
    assert session.list_call.wanted
    assert session.take_list(rows, 7 * NS)[-2:] == DONE


def test_a_row_without_text_behind_the_last_answer_is_no_answer() -> None:
    session = FollowedSession(LatestCall())
    session.turn.begin(0)
    rows = [*STORED, RESULT, answer("n", "")]
    assert session.take_list(rows, 0) == []
    assert session.take_list(rows, QUIET)[-2:] == [
        events.ErrorReported(cause="internal", text="the run ended without an answer"),
        DONE[1],
    ]


def updated(messages: int) -> events.SessionUpdated:
    return events.SessionUpdated(session=SessionSummary(session="s", messages=messages))


UPDATE = updated(2)
FAILED = [
    events.ErrorReported(cause="internal", text="the run ended without an answer"),
    events.StatusChanged(status="idle"),
]


def in_a_call(input: str | None = "hi") -> FollowedSession:
    """Return a turn whose only tool call is open, and whose session was updated 1 s after its beginning."""
    session = FollowedSession(LatestCall())
    session.turn.begin(0, input)
    session.turn.take_event(CALL, 0)
    session.turn.take_event(UPDATE, NS)
    return session


def asks_at(session: FollowedSession, second: float) -> bool:
    """Return True if the list is wanted at this time, and not before."""
    session.turn.check_time(int(second * NS) - 1)
    early = session.list_call.wanted
    session.turn.check_time(int(second * NS))
    return session.list_call.wanted and not early


@pytest.mark.parametrize(("input", "quiet"), [("hi", 3.0), (None, 15.0)], ids=["our run", "a run of the primary"])
def test_a_run_that_failed_in_a_tool_call_ends_after_a_session_update_once_the_results_are_stored(
    input: str | None, quiet: float
) -> None:
    session = in_a_call(input)
    rows = [INPUT, answer("m", "I look."), RESULT]
    assert asks_at(session, 4)
    assert session.take_list(rows, 4 * NS) == []
    assert asks_at(session, 4 + quiet)
    assert session.take_list(rows, int((4 + quiet) * NS))[-2:] == FAILED


def test_a_tool_call_without_stored_results_goes_on_after_a_session_update() -> None:
    session = in_a_call()
    rows = [INPUT, answer("m", "I look.")]
    assert asks_at(session, 4)
    assert session.take_list(rows, 4 * NS) == []
    session.turn.check_time(1000 * NS)
    assert not session.list_call.wanted
    session.turn.take_event(UPDATE, 1000 * NS)
    assert asks_at(session, 1003)


def test_a_failure_that_is_published_ends_a_turn_with_an_open_tool_call() -> None:
    session = in_a_call()
    session.turn.take_event(system("m"), 2 * NS)
    session.turn.take_event(END, 2 * NS)
    assert session.list_call.wanted
    assert session.take_list([INPUT, answer("m", "I look.")], 2 * NS)[-2:] == WHY


def test_a_run_that_failed_unseen_ends_when_the_results_of_its_call_are_stored() -> None:
    session = FollowedSession(LatestCall())
    session.turn.begin(0, "hi")
    session.turn.take_event(CALL, 0)
    session.note_reconnected(NS)
    rows = [INPUT, answer("m", "I look."), RESULT]
    assert session.take_list(rows, NS) == []
    assert asks_at(session, 4)
    assert session.take_list(rows, 4 * NS) == []
    assert asks_at(session, 16)
    assert session.take_list(rows, 16 * NS)[-2:] == FAILED


ARGUED = events.ToolCallArguments(call="c", name="look", json="{}", done=True)
BROKEN = [INPUT, answer("m", "I look.")]
"""The rows of a run of the primary whose stream broke behind a call: a pando stores calls beside the text."""


def broken_off(*said: Event) -> FollowedSession:
    """Return a turn of a released primary whose last event, at 10 s, is a part of a call."""
    session = FollowedSession(LatestCall())
    session.turn.take_event(events.TextDelta(text="I look."), 5 * NS)
    for event in said:
        session.turn.take_event(event, 10 * NS)
    return session


@pytest.mark.parametrize(("said", "quiet"), [((CALL, ARGUED), 15), ((CALL,), 120)], ids=["whole input", "a part"])
def test_a_run_whose_stream_broke_in_a_call_ends_without_a_session_update_before_the_call_ran(
    said: tuple[Event, ...], quiet: int
) -> None:
    session = broken_off(*said)
    assert asks_at(session, 10 + quiet)
    assert session.take_list(BROKEN, (10 + quiet) * NS) == []
    assert asks_at(session, 10 + 2 * quiet)
    assert session.take_list(BROKEN, (10 + 2 * quiet) * NS)[-2:] == FAILED


def result(call: str) -> events.ToolCallFinished:
    return events.ToolCallFinished(call=call, name="look", output="x")


OTHER = structs.replace(CALL, call="d"), structs.replace(ARGUED, call="d")


def test_a_run_ends_whose_stream_broke_in_a_call_soon_after_another_call() -> None:
    """The session.update less than 2 s before the broken call was for the call before it."""
    assert asks_at(broken_off(CALL, ARGUED, UPDATE, result("c"), *OTHER), 25)


def test_one_of_several_calls_still_runs_when_another_has_ended() -> None:
    session = broken_off(CALL, ARGUED, *OTHER, UPDATE, result("c"))
    session.turn.check_time(1000 * NS)
    assert not session.list_call.wanted


def test_the_update_of_a_new_session_is_not_for_its_first_call() -> None:
    session = FollowedSession(LatestCall())
    session.turn.take_event(updated(0), 9 * NS)
    session.turn.take_event(CALL, 10 * NS)
    session.turn.take_event(ARGUED, 10 * NS)
    assert asks_at(session, 25)


def test_the_update_at_the_end_of_a_run_is_not_for_a_call_of_the_next() -> None:
    session = FollowedSession(LatestCall())
    for event in (events.TextDelta(text="Hello"), UPDATE, END):
        session.turn.take_event(event, 9 * NS)
    session.take_list([INPUT, answer("m", "Hello")], 9 * NS)
    session.turn.take_event(CALL, 10 * NS)
    session.turn.take_event(ARGUED, 10 * NS)
    assert asks_at(session, 25)


def test_a_call_of_a_primary_that_publishes_the_start_of_turns_needs_no_session_update() -> None:
    session = FollowedSession(LatestCall())
    for event in (events.ModelTurnStarted(), CALL, ARGUED):
        session.turn.take_event(event, 10 * NS)
    session.turn.check_time(1000 * NS)
    assert not session.list_call.wanted


def test_a_question_about_the_text_of_a_lost_turn_ends_no_later_turn() -> None:
    session = FollowedSession(LatestCall())
    session.turn.take_event(CALL, 0)
    text = events.TextDelta(text="old")
    assert session.hold_event(Burst(items=[text]), text, 0), "a list must tell whose it is"
    session.turn.end_lost()
    session.turn.take_event(events.TextDelta(text="new"), 1)
    later = Message(role="user", text="later", id="u2")
    assert session.take_list([INPUT, answer("a1", "old"), later, answer("a2", "new")], 2) == []
    assert session.turn.is_open


LOOK: list[Event] = [
    events.TextDelta(text="I look."),
    UPDATE,
    events.ToolCallFinished(call="c", name="bash", output="found"),
]
"""A model turn of a pando v0.3 with a model of OpenAI: nothing is published between session.update and tool.end."""


def after_a_hidden_call(listed: list[Message], *, updated: bool = True) -> FollowedSession:
    """Return a turn of the primary with a call that was published when it ended, and text 20 s later.

    At 21 s the session is updated, and these rows are read.
    """
    session = FollowedSession(LatestCall())
    for second, event in enumerate(LOOK):
        session.turn.take_event(event, second * NS)
    session.turn.take_event(events.TextDelta(text="Once more."), 20 * NS)
    if updated:
        session.turn.take_event(UPDATE, 21 * NS)
    assert session.take_list(listed, 21 * NS) == []
    return session


SAID_TWICE = [INPUT, answer("m", "I look."), RESULT, answer("n", "Once more.")]


def test_a_second_hidden_call_with_the_id_of_the_first_begins_a_call() -> None:
    """Some models number the calls of each answer from 0."""
    session = FollowedSession(LatestCall())
    for second, event in enumerate(LOOK):
        session.turn.take_event(event, second * NS)
    assert session.turn.take_event(LOOK[-1], 4 * NS) == [events.ToolCallStarted(call="c", name="bash"), LOOK[-1]]


def test_a_turn_goes_on_during_a_call_that_is_published_when_it_ends() -> None:
    session = after_a_hidden_call(SAID_TWICE)
    session.turn.check_time(1000 * NS)
    assert not session.list_call.wanted
    other = events.ToolCallFinished(call="d", name="bash", output="found")
    assert session.turn.take_event(other, 1000 * NS) == [other]
    assert session.take_list([*SAID_TWICE, RESULT], 1001 * NS) == []
    assert asks_at(session, 1016)
    assert session.take_list([*SAID_TWICE, RESULT], 1016 * NS)[-2:] == FAILED, "the run ended after the call"


@pytest.mark.parametrize(
    ("listed", "updated", "quiet"),
    [(SAID_TWICE, False, 120), ([*SAID_TWICE[:-1], answer("n", "Once more. All of it.")], True, 15)],
    ids=["no session.update: the model may write an input", "text was not published, so llm.end may be lost too"],
)
def test_a_turn_without_signs_of_a_hidden_call_ends_after_the_silence(
    listed: list[Message], updated: bool, quiet: int
) -> None:
    session = after_a_hidden_call(listed, updated=updated)
    assert asks_at(session, 21 + quiet)
    assert session.take_list(listed, (21 + quiet) * NS)[-2:] == DONE


def titled(title: str, messages: int) -> events.SessionUpdated:
    return events.SessionUpdated(session=SessionSummary(session="s", title=title, messages=messages))


BEGUN = titled("New Session", 0)
TITLED = titled("Greeting", 2)


@pytest.mark.parametrize(
    ("updates", "is_open"),
    [
        ([(BEGUN, 1.0), (titled("New Session", 2), 2.0)], True),
        ([(BEGUN, 1.0), (TITLED, 2.0), (TITLED, 2.1)], False),
        ([(BEGUN, 1.0), (TITLED, 2.0), (TITLED, 2.1), (TITLED, 2.9)], True),
        ([(TITLED, 2.9)], True),
    ],
    ids=["the answer is complete", "the title is new, and told twice", "title, then the answer", "a stored session"],
)
def test_the_first_call_of_a_primary_is_open_after_an_update_that_brings_no_title(
    updates: list[tuple[Event, float]], is_open: bool
) -> None:
    session = FollowedSession(LatestCall())
    session.turn.take_event(events.TextDelta(text="I look."), int(2.5 * NS))
    for event, second in updates:
        session.turn.take_event(event, int(second * NS))
    rows = [INPUT, answer("m", "I look.")]
    assert session.take_list(rows, 3 * NS) == []
    session.turn.check_time(18 * NS)
    assert session.list_call.wanted is not is_open


@pytest.mark.parametrize(
    ("listed", "quiet"),
    [([INPUT, answer("m", "I look.")], 30 * 60), ([INPUT, answer("m", "I look."), RESULT, answer("n", "")], 120)],
    ids=["another call of the same answer", "the model thinks before its next answer"],
)
def test_a_silence_behind_the_result_of_a_hidden_call_does_not_end_the_turn(listed: list[Message], quiet: int) -> None:
    session = FollowedSession(LatestCall())
    for second, event in enumerate(LOOK):
        session.turn.take_event(event, second * NS)
    assert session.take_list(listed, 2 * NS) == []
    assert asks_at(session, 2 + quiet)


def test_a_model_may_think_behind_the_result_of_any_call() -> None:
    session = broken_off(CALL, ARGUED, UPDATE, result("c"))
    assert session.take_list([*BROKEN, RESULT, answer("n", "")], 11 * NS) == []
    assert asks_at(session, 11 + 120)


def test_a_model_may_write_the_input_of_a_call_that_is_hidden_in_any_session_of_its_primary() -> None:
    sessions = FollowedSessions()
    for event in LOOK:
        sessions.follow("s").turn.take_event(event, 0)
    for session, quiet in ("t", 120), ("u", 15):
        sessions.follow(session).turn.take_event(events.TextDelta(text="I look."), NS)
        assert asks_at(sessions[session], 16)
        assert sessions[session].take_list(BROKEN, 16 * NS) == []
        assert asks_at(sessions[session], 16 + quiet)
        sessions.lose_turns()  # another primary answers
