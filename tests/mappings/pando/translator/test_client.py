"""A link with a primary: calls and their answers, its sessions, and changes of the primary."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from types import FrameType
from typing import Any

import pytest

from dragoman.mappings.canonical import Command, Event, SessionState, commands, events
from dragoman.mappings.canonical.values import FileAttachment, ImageAttachment, Message, Text
from dragoman.mappings.dialect import Missed, Parts, Step
from dragoman.mappings.jsonrpc import WAITING_MAX
from dragoman.mappings.pando.to_canonical.replies import MESSAGES_MAX, SESSIONS_MAX
from dragoman.mappings.pando.translator import followed_session
from dragoman.mappings.pando.translator.client import (
    CALL_MAX,
    CHANGED_QUIET,
    CHECKED_MAX,
    NAME_MAX,
    READ_AT_ONCE,
    TICK,
    ClientTranslator,
)
from dragoman.mappings.pando.translator.followed_turn import FollowedTurn
from dragoman.mappings.pando.translator.output import CALL_SIZE, TEXT_MAX
from dragoman.mappings.pando.vocabulary import keep
from tests.mappings.pando.data import CAPTURES, captured, parts

START = 1_778_362_100 * 10**9
SECOND = 10**9


class Primary:
    """The primary behind a ClientTranslator, as a script that controls the clock."""

    def __init__(self) -> None:
        self.now = START
        self.set_forward = 0  # ns: by how much somebody has set the clock that tells times
        numbers = count(1)
        self.link = ClientTranslator(lambda: self.now + self.set_forward, lambda: f"{next(numbers)}", lambda: self.now)
        self.calls: list[dict[str, Any]] = []
        self.losses: list[str] = []
        self.counts: list[int] = []
        self.faults: list[Any] = []
        self.alarm: Any = None

    def opened(self, instance: str = "i-1") -> Primary:
        """Connect, and answer all first requests of the translator."""
        self.take_step(self.link.opened())
        self.sends("instance.ping", {"status": "ok", "instance_id": instance, "uptime": "0s"})
        self.sends("session.list", [])
        return self

    def sent(self, *commands: Command) -> list[Any]:
        return self.take_step(self.link.send(commands))

    def attached(self, session: str) -> list[Any]:
        return self.take_step(self.link.attach(SessionState(id="u", backend_ids=keep(id=session))))

    def sends(self, method: str, result: object = None, problem: dict[str, object] | None = None) -> list[Any]:
        """Answer the oldest call of this method."""
        call = next(call for call in self.calls if call["method"] == method)
        self.calls.remove(call)
        said = {"error": problem} if problem else {"result": result}
        body = json.dumps({"jsonrpc": "2.0", "id": call["id"], **said}).encode()
        return self.take_step(self.link.receive([Parts("rpc", b"", (b"", body))]))

    def publishes(self, topic: str, session: str = "s-1", instance: str = "i-1", **payload: object) -> list[Any]:
        about = {"id": session} if topic.startswith("session.") else {"session_id": session}
        envelope = {"instanceId": instance, "topic": topic, "payload": {**about, **payload}}
        frame = topic.encode() + b"\0" + json.dumps(envelope).encode()
        return self.take_step(self.link.receive([Parts("pub", b"", (frame,))]))

    def passes(self, seconds: float) -> list[Any]:
        """Let time pass, and call every alarm on the way."""
        until = self.now + int(seconds * SECOND)
        said: list[Any] = []
        while self.alarm is not None and self.due <= until:
            self.now = self.due
            alarm, self.alarm = self.alarm, None
            said += self.take_step(alarm.callback())
        self.now = until
        return said

    def asked(self) -> list[str]:
        """Return the methods of the calls that have no answer."""
        return [call["method"] for call in self.calls]

    def take_step(self, step: Step[Any]) -> list[Any]:
        self.calls += [json.loads(frame) for frame in step.frames]
        self.losses += [loss.why for loss in step.losses]
        self.counts += [loss.count for loss in step.losses]
        self.faults += step.faults
        if step.alarm is not None:
            assert self.alarm is None, "one alarm at a time"
            self.alarm, self.due = step.alarm, self.now + int(step.alarm.after * SECOND)
        self.bursts = step.bursts
        return [item for burst in step.bursts for item in burst.items]


def run(text: str = "hi", session: str = "s-1") -> commands.SubmitInput:
    return commands.SubmitInput(request="a", session=session, segments=(Text(text=text),))


def message(id: str, role: str, content: str) -> dict[str, str]:
    return {"id": id, "role": role, "content": content, "created_at": "2026-05-09T23:28:20+02:00"}


def attached() -> Primary:
    """Return a primary with a session that a client has just opened."""
    primary = Primary().opened()
    primary.attached("s-1")
    return primary


def test_a_session_that_nobody_uses_is_forgotten() -> None:
    primary = attached()
    primary.sends("message.list", [message("m1", "user", "hi")])
    primary.link.detach(SessionState(id="u", backend_ids=keep(id="s-1")))
    assert not primary.link._sessions
    assert primary.attached("s-1") == []
    assert primary.asked() == ["message.list"]


def test_the_history_of_a_session_that_was_forgotten_meanwhile_goes_nowhere() -> None:
    primary = attached()
    primary.link.detach(SessionState(id="u", backend_ids=keep(id="s-1")))
    assert primary.sends("message.list", [message("m1", "user", "hi")]) == []
    assert not primary.link._sessions


BEGUN = events.ModelTurnStarted()
IDLE = events.StatusChanged(status="idle")
DONE = [events.TurnResult(end="completed"), IDLE]


# -- calls and answers -------------------------------------------------------------------------------


def test_a_link_first_asks_for_the_primary_and_its_sessions() -> None:
    primary = Primary()
    primary.take_step(primary.link.opened())
    assert primary.asked() == ["instance.ping", "session.list"]
    row = {"id": "s-1", "title": "T", "updated_at": "2026-05-09T21:28:20Z", "message_count": 2}
    (listed,) = primary.sends("session.list", [row])
    assert isinstance(listed, events.SessionsListed)
    assert (listed.request, [s.session for s in listed.sessions]) == ("", ["s-1"])


def test_replies_are_matched_by_id_in_any_order() -> None:
    primary = Primary().opened()
    primary.sent(commands.GetSession(request="a", session="s-1"), commands.Ping(request="b"))
    (pong,) = primary.sends("instance.ping", {"status": "ok", "instance_id": "i-1", "uptime": "1s"})
    (opened,) = primary.sends("session.get", {"id": "s-1", "title": "T", "updated_at": "x", "message_count": 2})
    assert (type(pong), pong.request) == (events.Pong, "b")
    assert (type(opened), opened.request, opened.session, opened.title) == (events.SessionOpened, "a", "s-1", "T")
    assert primary.bursts[0].session == "s-1"


def test_a_reply_that_answers_no_call_is_counted() -> None:
    primary = Primary().opened()
    body = b'{"jsonrpc":"2.0","id":"stray","result":{"ok":true}}'
    assert primary.take_step(primary.link.receive([Parts("rpc", b"", (b"", body))])) == []
    assert primary.losses == ["answers no call of ours"]


def test_an_error_is_the_answer_with_its_cause() -> None:
    primary = Primary().opened()
    primary.sent(run())
    text = "message.send: agent runner not available on this instance"
    (reply,) = primary.sends("message.send", problem={"code": -32000, "message": text})
    assert (reply.request, reply.failure.cause, reply.failure.text) == ("a", "unsupported", text)


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        (commands.PauseTurn(request="a"), "unsupported"),
        (commands.Compact(request="a"), "unsupported"),
        (commands.SubmitInput(request="a", segments=(FileAttachment(name="n", url="u"),)), "unsupported"),
        (commands.SubmitInput(request="a", segments=(Text(text="x"), ImageAttachment(url="u"))), "unsupported"),
        (commands.SubmitInput(request="a", segments=()), "invalid"),
    ],
)
def test_a_command_that_a_primary_cannot_be_asked_is_refused_at_once(command: Command, cause: str) -> None:
    primary = Primary().opened()
    (reply,) = primary.sent(command)
    assert (reply.request, reply.failure.cause, primary.calls) == ("a", cause, [])


def test_the_number_of_waiting_calls_is_bounded() -> None:
    primary = Primary().opened()
    primary.sent(*[commands.Ping(request="a")] * WAITING_MAX)
    (reply,) = primary.sent(commands.Ping(request="more"))
    assert (reply.request, reply.failure.cause) == ("more", "busy")


def test_a_write_names_its_writer() -> None:
    primary = Primary().opened()
    primary.sent(commands.OpenSession(request="a", title="T"))
    (call,) = primary.calls
    assert call["params"]["meta"] == {
        "source_instance_id": "",
        "request_id": call["id"],
        "timestamp": "2026-05-09T21:28:20Z",
    }
    assert call["params"]["params"]["id"] != ""


def test_a_page_of_the_history_is_cut_out_of_all_messages_newest_first() -> None:
    primary = Primary().opened()
    listed = [message(f"m{i}", "user", str(i)) for i in range(5)]
    primary.sent(commands.GetHistory(request="a", session="s-1", limit=2))
    (page,) = primary.sends("message.list", listed)
    assert ([m.id for m in page.items], page.next_cursor) == (["m4", "m3"], "m3")
    primary.sent(commands.GetHistory(request="b", session="s-1", limit=9, cursor="m3"))
    (page,) = primary.sends("message.list", listed)
    assert ([m.id for m in page.items], page.next_cursor) == (["m2", "m1", "m0"], None)


def test_an_unknown_cursor_is_refused() -> None:
    """A smooth server answers it with VALIDATION_ERROR, or with a page (docs/dialects/smooth.md, section 5)."""
    primary = Primary().opened()
    primary.sent(commands.GetHistory(request="a", session="s-1", cursor="m9"))
    (refused,) = primary.sends("message.list", [])
    assert (refused.request, refused.failure.cause) == ("a", "invalid")


def test_a_call_without_an_answer_is_given_up_after_10_seconds() -> None:
    primary = Primary().opened()
    primary.sent(commands.GetSession(request="a", session="s-1"))
    assert primary.passes(9) == []
    (reply,) = primary.passes(6)
    assert (reply.request, reply.failure.cause) == ("a", "timeout")


def test_calls_that_wait_when_the_link_ends_are_answered() -> None:
    primary = Primary().opened()
    primary.sent(run())
    (reply,) = primary.take_step(primary.link.closed("gone"))
    assert (reply.request, reply.failure.cause) == ("a", "upstream_lost")


def test_a_session_that_is_attached_brings_its_history() -> None:
    primary = attached()
    (snapshot,) = primary.sends("message.list", [message("m1", "user", "hi"), message("m2", "assistant", "ho")])
    assert isinstance(snapshot, events.HistorySnapshot)
    assert ([item.id for item in snapshot.items if isinstance(item, Message)], snapshot.request) == (["m1", "m2"], "")
    assert primary.bursts[0].session == "s-1"


def test_a_history_that_the_primary_refuses_is_no_empty_history() -> None:
    primary = attached()
    assert primary.sends("message.list", problem={"code": -32000, "message": "no"}) == []


# -- turns -------------------------------------------------------------------------------------------


def test_only_the_newest_rows_of_a_list_are_read_and_the_others_are_counted() -> None:
    primary = Primary()
    primary.take_step(primary.link.opened())
    rows = [{"id": f"s-{n}", "title": "", "updated_at": "2026-05-09T23:28:20Z"} for n in range(SESSIONS_MAX + 2)]
    (listed,) = primary.sends("session.list", rows)
    assert [listed.sessions[0].session, listed.sessions[-1].session] == ["s-0", f"s-{SESSIONS_MAX - 1}"]
    primary.attached("s-1")
    (history,) = primary.sends("message.list", [message(f"m{n}", "user", "x") for n in range(MESSAGES_MAX + 3)])
    assert [history.items[0].id, history.items[-1].id] == ["m3", f"m{MESSAGES_MAX + 2}"]
    assert primary.counts[-2:] == [2, 3]


def test_a_publication_of_a_session_with_a_very_long_id_is_counted_and_left_out() -> None:
    primary = Primary().opened()
    assert primary.publishes("llm.token", session="s" * (NAME_MAX + 1), token="x") == []
    assert primary.asked() == []
    assert primary.losses == [f"an id of more than {NAME_MAX:,} characters"]
    primary.publishes("llm.token", session="s" * NAME_MAX, token="x")
    assert primary.asked() == ["message.list"]


def watched() -> Primary:
    """Return an idle primary with a session whose history is known."""
    primary = attached()
    primary.sends("message.list", OLD)
    return primary


def accepted() -> Primary:
    """Return a primary that accepted an input in a session with a known history."""
    primary = watched()
    primary.sent(run())
    assert primary.sends("message.send", {"ok": True}) == [events.TurnAccepted(request="a")]
    return primary


OLD = [message("m0", "user", "hi"), message("m1", "assistant", "old")]
NEW = [*OLD, message("m2", "user", "hi")]


def test_a_turn_ends_when_its_text_was_compared_with_the_store() -> None:
    primary = accepted()
    assert primary.publishes("llm.token", token="Hel") == [BEGUN, events.TextDelta(text="Hel")]
    assert primary.publishes("llm.token", token="lo") == [events.TextDelta(text="lo")]
    assert primary.publishes("llm.end") == []
    assert primary.sends("message.list", [*NEW, message("m3", "assistant", "Hello")]) == DONE


def test_an_answer_begins_once_with_or_without_llm_start() -> None:
    """A shipped primary does not publish it (docs/dialects/pando.md, section 4)."""
    silent, told = accepted(), accepted()
    assert told.publishes("llm.start") == [BEGUN]
    assert told.publishes("llm.token", token="a") == [events.TextDelta(text="a")]
    assert silent.publishes("llm.token", token="a") == [BEGUN, events.TextDelta(text="a")]
    for primary in (silent, told):
        assert primary.publishes("llm.token", token="b") == [events.TextDelta(text="b")]


def test_text_that_was_dropped_on_the_way_is_taken_from_the_store() -> None:
    primary = accepted()
    primary.publishes("llm.token", token="Hel")
    primary.publishes("llm.end")
    said = primary.sends("message.list", [*NEW, message("m3", "assistant", "Hello")])
    assert said == [events.TextDelta(text="lo"), *DONE]


CONTRADICTED = [events.Gap, events.TurnResult, events.StatusChanged, events.HistorySnapshot]


def test_text_that_the_store_contradicts_is_a_gap_and_the_history_follows() -> None:
    primary = accepted()
    primary.publishes("llm.token", token="Hlo")
    primary.publishes("llm.end")
    said = primary.sends("message.list", [*NEW, message("m3", "assistant", "Hello")])
    assert [type(item) for item in said] == CONTRADICTED
    assert said[-1].items[-1].text == "Hello"


def questioned(*questions: str) -> Primary:
    """Return a primary whose turn said `Let me see.` and ended with questions in words, each but the last answered."""
    primary = accepted()
    primary.publishes("llm.token", token="Let me see.")
    for question in questions:
        primary.publishes("llm.token", token=question)
        primary.publishes("llm.end")
        assert primary.sends("message.list", NEW) == DONE
        primary.sent(run("approve"))
        primary.sends("message.send", {"ok": True})
    return primary


QUESTION, SECOND_QUESTION = "\n\nMay I?", "Do you mean it?"


@pytest.mark.parametrize("questions", [(QUESTION,), (QUESTION, SECOND_QUESTION)])
@pytest.mark.parametrize(
    ("answer", "published", "missing"),
    [
        ("Done.", "Done.", ""),
        ("Done.", "Do", "ne."),
        ("Done.", "", "Done."),
        ("\n\nDone.", "\n\nDo", "ne."),  # as the question begins
        ("\n\nDone.", "\n\nDone.", ""),
    ],
)
def test_only_the_text_after_the_answer_to_a_question_in_words_is_compared_with_the_store(
    questions: tuple[str, ...], answer: str, published: str, missing: str
) -> None:
    """The store has the answer as one message, without the questions (docs/translation.md, rule 3.3)."""
    primary = questioned(*questions)
    primary.publishes("llm.start")
    if published:
        primary.publishes("llm.token", token=published)
    primary.publishes("llm.end")
    said = primary.sends("message.list", [*NEW, message("m3", "assistant", f"Let me see.{answer}")])
    assert said == [*([events.TextDelta(text=missing)] if missing else []), *DONE]


def test_text_after_a_question_in_words_that_the_store_contradicts_is_a_gap() -> None:
    primary = questioned(QUESTION)
    primary.publishes("llm.token", token="Dne.")
    primary.publishes("llm.end")
    said = primary.sends("message.list", [*NEW, message("m3", "assistant", "Let me see.Done.")])
    assert [type(item) for item in said] == CONTRADICTED


def test_an_answer_to_a_new_input_does_not_continue_one_that_was_never_stored() -> None:
    primary = questioned(QUESTION)
    primary.publishes("llm.start")
    primary.publishes("llm.end")
    new = [*NEW, message("m3", "user", "approve"), message("m4", "assistant", "Let me think.")]
    assert primary.sends("message.list", new) == [events.TextDelta(text="Let me think."), *DONE]


def test_a_store_that_is_behind_the_tokens_changes_nothing() -> None:
    primary = accepted()
    primary.publishes("llm.token", token="Hello")
    primary.publishes("llm.end")
    assert primary.sends("message.list", [*NEW, message("m3", "assistant", "Hel")]) == DONE


@pytest.mark.parametrize("refusal", [True, False])
def test_an_end_does_not_wait_for_a_store_that_does_not_answer(refusal: bool) -> None:
    primary = accepted()
    primary.publishes("llm.token", token="Hello")
    primary.publishes("llm.end", tokens_in=3, tokens_out=1)
    said = primary.sends("message.list", problem={"code": -32000, "message": "no"}) if refusal else primary.passes(10)
    assert said[1:] == DONE
    assert isinstance(said[0], events.UsageReported)


def test_the_next_turn_does_not_begin_before_the_last_has_ended() -> None:
    primary = accepted()
    primary.publishes("llm.end")
    assert primary.publishes("llm.token", token="x") == []
    assert primary.sends("message.list", [*NEW, message("m3", "assistant", "")]) == DONE
    assert primary.passes(2) == [BEGUN, events.TextDelta(text="x")]


@pytest.mark.parametrize("set_forward", [0, 3_600 * SECOND, -3_600 * SECOND])
def test_a_run_of_ours_ends_by_two_equal_answers_3_seconds_after_a_session_update(set_forward: int) -> None:
    primary = accepted()
    primary.publishes("llm.token", token="Hel")
    assert len(primary.publishes("session.update", message_count=4)) == 1
    stored = [*NEW, message("m3", "assistant", "Hello")]
    assert primary.sends("message.list", stored) == []
    primary.set_forward = set_forward
    assert primary.passes(2.5) == []
    assert primary.asked() == []
    primary.passes(1)
    assert primary.sends("message.list", stored) == [events.TextDelta(text="lo"), *DONE]
    assert "the end was inferred from message.list" in primary.losses


def test_text_after_a_session_update_restores_the_long_silence() -> None:
    primary = accepted()
    primary.publishes("session.update", message_count=4)
    primary.sends("message.list", NEW)
    primary.publishes("llm.token", token="Hel")
    primary.passes(14)
    assert primary.asked() == []


def test_a_run_that_began_in_the_primary_keeps_the_long_silence_after_an_update() -> None:
    """The primary updates the session after each model call, and then runs tools without publishing their start."""
    primary = Primary().opened()
    primary.publishes("llm.token", token="Hel")
    primary.sends("message.list", NEW)
    primary.publishes("session.update", message_count=4)
    primary.sends("message.list", NEW)
    primary.passes(14)
    assert primary.asked() == []


def test_a_turn_without_an_update_ends_after_two_silences() -> None:
    primary = accepted()
    stored = [*NEW, message("m3", "assistant", "Hello")]
    primary.passes(20)
    assert primary.sends("message.list", stored) == []
    primary.passes(20)
    assert primary.sends("message.list", stored) == [BEGUN, events.TextDelta(text="Hello"), *DONE]


def test_an_inferred_end_without_a_new_answer_is_a_failure() -> None:
    for stored in (OLD, NEW, [*NEW, message("m3", "assistant", "")]):
        primary = accepted()
        primary.publishes("session.update")
        primary.sends("message.list", stored)
        primary.passes(4)
        said = primary.sends("message.list", stored)
        assert [type(item) for item in said] == [events.ErrorReported, events.StatusChanged]


CANCELLED = [events.TurnResult(end="cancelled"), IDLE]
PART = [*NEW, message("m3", "assistant", "Hel")]


def interrupted() -> Primary:
    """Return a primary that works on an input and was asked to stop."""
    primary = accepted()
    primary.publishes("llm.token", token="Hel")
    primary.sent(commands.CancelTurn(request="c", session="s-1"))
    return primary


def test_an_interrupted_turn_ends_with_the_update_after_the_answer() -> None:
    primary = interrupted()
    assert primary.sends("session.interrupt", {"ok": True}) == [events.Reply(request="c")]
    assert [type(item) for item in primary.publishes("session.update")] == [events.SessionUpdated]
    assert primary.sends("message.list", PART) == CANCELLED


def test_an_interrupted_turn_ends_too_if_the_update_is_read_before_the_answer() -> None:
    """The update and the answer come on two sockets."""
    primary = interrupted()
    primary.publishes("session.update")
    assert primary.sends("session.interrupt", {"ok": True}) == [events.Reply(request="c")]
    assert primary.sends("message.list", PART) == CANCELLED


def test_an_interrupted_turn_ends_after_a_short_silence_if_no_update_comes() -> None:
    """The agent of pando v0.303.0 publishes nothing when it is interrupted; its store keeps the partial text."""
    primary = interrupted()
    primary.sends("session.interrupt", {"ok": True})
    assert primary.sends("message.list", PART) == []
    primary.passes(1)
    assert primary.sends("message.list", PART) == CANCELLED


def test_a_turn_may_be_interrupted_before_its_input_is_answered() -> None:
    primary = Primary().opened()
    primary.sent(run())
    primary.sent(commands.CancelTurn(request="c", session="s-1"))
    primary.sends("message.send", {"ok": True})
    primary.sends("session.interrupt", {"ok": True})
    primary.publishes("llm.end")
    assert primary.sends("message.list", NEW)[-2:] == CANCELLED


def test_an_interrupted_turn_that_still_publishes_has_not_ended() -> None:
    primary = interrupted()
    primary.sends("session.interrupt", {"ok": True})
    primary.sends("message.list", PART)
    assert primary.publishes("llm.token", token="lo") == [events.TextDelta(text="lo")]
    primary.passes(1)
    assert primary.sends("message.list", PART) == []


def test_a_refused_interrupt_ends_nothing() -> None:
    primary = interrupted()
    primary.publishes("session.update")
    text = "session.interrupt: agent interrupter not available on this instance"
    (refused,) = primary.sends("session.interrupt", problem={"code": -32000, "message": text})
    assert refused.failure.cause == "denied"
    assert primary.sends("message.list", PART) == []
    assert primary.publishes("llm.token", token="lo") == [events.TextDelta(text="lo")]
    primary.publishes("llm.end")
    assert primary.sends("message.list", [*NEW, message("m3", "assistant", "Hello")]) == DONE


def test_a_repeated_update_does_not_end_the_next_turn() -> None:
    """A terminal-UI primary publishes each update twice (docs/dialects/pando.md, section 4)."""
    primary = interrupted()
    primary.sends("session.interrupt", {"ok": True})
    primary.publishes("session.update")
    primary.sends("message.list", PART)
    primary.sent(run("more"))
    primary.sends("message.send", {"ok": True})
    primary.publishes("session.update")
    primary.sends("message.list", [*PART, message("m4", "user", "more")])
    assert primary.publishes("llm.token", token="ok") == [BEGUN, events.TextDelta(text="ok")]
    primary.publishes("llm.end")
    stored = [*PART, message("m4", "user", "more"), message("m5", "assistant", "ok")]
    assert primary.sends("message.list", stored) == DONE


def test_different_lists_or_text_between_them_do_not_end_the_turn() -> None:
    primary = accepted()
    primary.publishes("session.update")
    primary.sends("message.list", NEW)
    primary.passes(20)
    assert primary.sends("message.list", [*NEW, message("m3", "assistant", "He")]) == []
    primary.publishes("llm.token", token="He")
    primary.passes(20)
    assert primary.sends("message.list", [*NEW, message("m3", "assistant", "He")]) == []


def test_an_open_tool_call_stops_the_clock_for_half_an_hour() -> None:
    primary = accepted()
    primary.publishes("tool.start", tool_name="bash", call_id="c1", params="")
    primary.publishes("session.update", message_count=3)
    primary.passes(10)
    primary.sends("message.list", [*NEW, message("m3", "assistant", "")])
    for _ in range(100):  # the primary lives all the time
        primary.passes(10)
        primary.publishes("instance.heartbeat")
    assert primary.asked() == []
    for _ in range(80):
        primary.passes(10)
        primary.publishes("instance.heartbeat")
    assert primary.asked() == ["message.list"]


def test_a_call_published_twice_begins_once_and_then_has_its_input() -> None:
    primary = accepted()
    call = {"tool_name": "bash", "call_id": "c1"}
    assert primary.publishes("tool.start", **call, params="") == [BEGUN, events.ToolCallStarted(call="c1", name="bash")]
    complete = events.ToolCallArguments(call="c1", name="bash", json='{"a":1}', done=True)
    assert primary.publishes("tool.start", **call, params='{"a":1}') == [complete]
    (result,) = primary.publishes("tool.end", **call, result="ok")
    assert result == events.ToolCallFinished(call="c1", name="bash", output="ok")


def test_the_input_of_a_call_published_once_comes_before_its_result() -> None:
    primary = accepted()
    call = {"tool_name": "bash", "call_id": "c1"}
    assert primary.publishes("tool.start", **call, params="{}") == [
        BEGUN,
        events.ToolCallStarted(call="c1", name="bash"),
    ]
    said = primary.publishes("tool.end", **call, result="ok")
    assert [type(item) for item in said] == [events.ToolCallArguments, events.ToolCallFinished]


def test_open_calls_are_kept_up_to_a_limit_and_then_passed_on_at_once() -> None:
    primary = accepted()
    room = TEXT_MAX // 2 - CALL_SIZE - len("c1")

    def start(call: str, params: str) -> list[type]:
        said = primary.publishes("tool.start", tool_name="bash", call_id=call, params=params)
        return [type(event) for event in said if event != BEGUN]

    begun, passed_on = [events.ToolCallStarted], [events.ToolCallStarted, events.ToolCallArguments]
    assert [start("c1", "x" * room), start("c2", "x" * room), start("c3", "x")] == [begun, begun, passed_on]
    assert [start("c4", ""), start("c4", "")] == [begun, begun], "a call that is not kept begins again"
    primary.publishes("tool.end", tool_name="bash", call_id="c1", result="ok")
    assert [start("c5", "x" * room), start("c6", "x")] == [begun, passed_on]


def test_the_echo_of_our_input_is_dropped_once_and_inputs_of_others_are_passed_on() -> None:
    primary = accepted()
    assert primary.publishes("message.append", role="user", content="hi") == []
    assert len(primary.publishes("message.append", role="user", content="hi")) == 1
    assert primary.publishes("message.append", role="assistant", content="ho") == []
    assert primary.losses == ["the tokens carry the assistant's text"]


def test_events_before_the_answer_to_an_input_wait_for_it() -> None:
    primary = Primary().opened()
    primary.sent(run())
    assert primary.publishes("llm.start") == []
    assert primary.publishes("llm.token", token="a") == []
    taken, *rest = primary.sends("message.send", {"ok": True})
    assert (type(taken), taken.request) == (events.TurnAccepted, "a")
    assert rest == [events.ModelTurnStarted(), events.TextDelta(text="a")]
    assert primary.publishes("llm.token", token="b") == [events.TextDelta(text="b")]


def test_events_that_waited_for_a_refused_input_belong_to_another_client() -> None:
    primary = Primary().opened()
    primary.sent(run())
    assert primary.publishes("llm.token", token="a") == []
    (refused,) = primary.sends("message.send", problem={"code": -32000, "message": "message.send: busy"})
    assert type(refused) is events.Reply
    said = primary.sends("message.list", [message("m0", "user", "theirs")])
    assert [type(item) for item in said] == [events.MessageAppended, events.ModelTurnStarted, events.TextDelta]


def test_the_input_of_a_lost_call_counts_as_that_of_another_client() -> None:
    """Its client was told that the call was lost, so the input is in no history yet."""
    primary = attached()
    primary.sends("message.list", [])
    primary.sent(run())
    primary.take_step(primary.link.closed("gone"))
    primary.calls.clear()
    primary.alarm = None
    primary.opened()
    assert primary.publishes("llm.token", token="a") == []
    said = primary.sends("message.list", [message("m1", "user", "hi")])
    assert [type(item) for item in said] == [events.MessageAppended, events.ModelTurnStarted, events.TextDelta]


def test_a_run_whose_acceptance_was_lost_ends_as_soon_as_any_severed_turn() -> None:
    primary = attached()
    primary.sends("message.list", [])
    primary.sent(run())
    assert primary.publishes("llm.token", token="a") == []
    primary.take_step(primary.link.closed("gone"))
    primary.calls.clear()
    primary.alarm = None
    primary.opened().attached("s-1")
    rows = [message("m1", "user", "hi"), message("m2", "assistant", "ab")]
    primary.sends("message.list", rows)
    assert primary.sends("message.list", rows) == []
    primary.passes(4)
    assert primary.sends("message.list", rows) == [events.TextDelta(text="b"), *DONE]


def test_the_end_of_an_unseen_turn_is_counted_and_no_other_event() -> None:
    primary = watched()
    primary.publishes("message.append", role="user", content="typed", message_id="m2")
    assert primary.publishes("llm.end", session="s-9") == []
    assert primary.losses == ["the end of an unseen turn"]


def test_two_sessions_are_followed_apart() -> None:
    primary = accepted()
    primary.publishes("llm.token", token="a")
    primary.publishes("llm.token", session="s-2", token="b")
    primary.sends("message.list", [])
    assert [burst.session for burst in primary.bursts] == ["s-2"]
    primary.publishes("llm.end", session="s-2")
    (call,) = primary.calls
    assert call["params"] == {"session_id": "s-2"}


# -- what the primary's own user types ------------------------------------------------------------------


def typed(item: Any) -> str:
    """Return the text of the message that an event says a user sent."""
    assert isinstance(item, events.MessageAppended)
    assert item.message.role == "user"
    return item.message.text


def test_the_input_that_began_a_run_comes_before_it() -> None:
    """A shipped primary publishes no message.append: the store has the input when the first token is published."""
    primary = watched()
    assert primary.publishes("llm.token", token="Hel") == []
    assert primary.publishes("llm.token", token="lo") == []
    words, *run = primary.sends("message.list", [*OLD, message("m2", "user", "typed"), message("m3", "assistant", "H")])
    assert typed(words) == "typed"
    assert run == [BEGUN, events.TextDelta(text="Hel"), events.TextDelta(text="lo")]
    primary.publishes("llm.end")
    stored = [*OLD, message("m2", "user", "typed"), message("m3", "assistant", "Hello")]
    assert primary.sends("message.list", stored) == DONE


def test_each_of_several_fast_runs_has_its_own_input_and_answer() -> None:
    primary = watched()
    primary.publishes("llm.token", token="a")
    primary.publishes("llm.end")
    primary.publishes("llm.token", token="b")
    primary.publishes("llm.end")
    stored = [
        *OLD,
        message("m2", "user", "1"),
        message("m3", "assistant", "a"),
        message("m4", "user", "2"),
        message("m5", "assistant", "bc"),
    ]
    words, *run = primary.sends("message.list", stored)
    assert (typed(words), run) == ("1", [BEGUN, events.TextDelta(text="a")])
    assert primary.sends("message.list", stored) == DONE
    words, *run = primary.sends("message.list", stored)
    assert (typed(words), run) == ("2", [BEGUN, events.TextDelta(text="b")])
    assert primary.sends("message.list", stored) == [events.TextDelta(text="c"), *DONE]


AHEAD = [
    message("m2", "user", "1"),
    message("m3", "assistant", "one"),
    message("m4", "user", "2"),
    message("m5", "assistant", "two"),
]
"""A store that has a run more than was published."""


def test_a_run_has_its_own_input_if_the_store_is_a_run_ahead() -> None:
    primary = watched()
    primary.publishes("llm.token", token="one")
    primary.publishes("llm.end")
    words, *run = primary.sends("message.list", [*OLD, *AHEAD])
    assert (typed(words), run) == ("1", [BEGUN, events.TextDelta(text="one")])
    assert primary.sends("message.list", [*OLD, *AHEAD]) == DONE


def test_a_session_update_within_a_run_begins_no_other_run() -> None:
    """A primary publishes it from another task, so it may come between two pieces of text."""
    primary = watched()
    primary.publishes("llm.token", token="t")
    primary.publishes("session.update", message_count=4)
    primary.publishes("llm.token", token="wo")
    _, typed, *run = primary.sends("message.list", [*OLD, *AHEAD])
    assert isinstance(typed, events.MessageAppended)
    assert (typed.message.text, run[:2]) == ("2", [BEGUN, events.TextDelta(text="t")])


def test_a_history_ends_before_the_input_of_a_run_that_is_told_after_it() -> None:
    primary = attached()
    primary.publishes("llm.token", token="on")
    history, words, *run = primary.sends("message.list", [*OLD, *AHEAD])
    assert [item.id for item in history.items] == [one["id"] for one in OLD]
    assert (typed(words), run) == ("1", [BEGUN, events.TextDelta(text="on")])
    assert primary.sends("message.list", [*OLD, *AHEAD]) == []


def test_too_many_events_for_the_wait_for_an_answer_stay_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_session, "HELD_MAX", 2)
    primary = attached()
    primary.sends("message.list", [])
    primary.sent(run())
    told = [event for token in "abcd" for event in primary.publishes("llm.token", token=token)]
    told += primary.sends("message.send", {"queued": True})
    assert "".join(event.text for event in told if isinstance(event, events.TextDelta)) == "abcd"


def test_a_history_is_told_again_before_the_input_of_a_held_run() -> None:
    """After a reconnect the session waits for a history, also if it brings nothing new."""
    primary = attached()
    primary.sends("message.list", OLD)
    primary.attached("s-1")
    primary.publishes("llm.token", token="on")
    history, words, *run = primary.sends("message.list", [*OLD, *AHEAD])
    assert [item.id for item in history.items] == [one["id"] for one in OLD]
    assert (typed(words), run) == ("1", [BEGUN, events.TextDelta(text="on")])


def test_the_input_after_a_run_is_told_behind_it_if_the_history_had_the_input_of_the_run() -> None:
    primary = attached()
    (history,) = primary.sends("message.list", [*OLD, AHEAD[0]])
    assert history.items[-1].text == "1"
    primary.publishes("llm.token", token="one")
    assert primary.sends("message.list", [*OLD, *AHEAD[:2]]) == [BEGUN, events.TextDelta(text="one")]
    primary.publishes("llm.end")
    assert primary.sends("message.list", [*OLD, *AHEAD[:3]]) == DONE


def test_a_run_that_broke_ends_before_the_input_of_another_pando() -> None:
    """A secondary publishes nothing of its run."""
    primary = watched()
    primary.publishes("llm.token", token="one")
    broken = [*OLD, *AHEAD[:2]]
    primary.sends("message.list", broken)
    primary.passes(20)
    assert primary.sends("message.list", broken) == []
    primary.passes(20)
    *end, history = primary.sends("message.list", [*OLD, *AHEAD])
    assert end == DONE
    assert [item.id for item in history.items] == [one["id"] for one in (*OLD, *AHEAD)]


BROKE_OFF = [message("m2", "user", "first"), message("m3", "assistant", "")]


def in_a_call_without_input() -> Primary:
    """Return a primary whose run has begun a tool call, of which no input was published."""
    primary = watched()
    primary.publishes("tool.start", tool_name="bash", call_id="c", params="")
    words, *_run = primary.sends("message.list", [*OLD, *BROKE_OFF])
    assert typed(words) == "first"
    return primary


@pytest.mark.parametrize("token", ["Hel", "Hello"])
def test_text_after_a_call_without_its_input_belongs_to_the_run_of_a_further_input(token: str) -> None:
    """A primary publishes nothing if the stream of its model breaks."""
    primary = in_a_call_without_input()
    assert primary.publishes("llm.token", token=token) == []
    assert primary.publishes("llm.end") == []
    stored = [*OLD, *BROKE_OFF, message("m4", "user", "second"), message("m5", "assistant", "Hello")]
    failed = primary.sends("message.list", stored)
    assert [type(event) for event in failed] == [events.ErrorReported, events.StatusChanged]
    words, *run = primary.sends("message.list", stored)
    assert (typed(words), run) == ("second", [BEGUN, events.TextDelta(text=token)])
    rest = [] if token == "Hello" else [events.TextDelta(text="lo")]
    assert primary.sends("message.list", stored) == [*rest, *DONE]


def test_text_after_a_call_without_its_input_belongs_to_the_same_run_without_a_further_input() -> None:
    primary = in_a_call_without_input()
    primary.publishes("llm.token", token="Hel")
    assert primary.sends("message.list", [*OLD, *BROKE_OFF]) == [events.TextDelta(text="Hel")]
    assert primary.publishes("llm.token", token="lo") == [events.TextDelta(text="lo")]


def test_an_input_that_was_stored_after_its_run_is_told_before_the_end() -> None:
    primary = watched()
    primary.publishes("llm.token", token="Hello")
    assert primary.sends("message.list", OLD) == [BEGUN, events.TextDelta(text="Hello")]
    primary.publishes("llm.end")
    stored = [*OLD, message("m2", "user", "typed"), message("m3", "assistant", "Hello")]
    words, *end = primary.sends("message.list", stored)
    assert (typed(words), end) == ("typed", DONE)


def test_a_run_does_not_wait_for_a_store_that_does_not_answer() -> None:
    primary = watched()
    assert primary.publishes("llm.token", token="Hel") == []
    assert primary.passes(1) == [BEGUN, events.TextDelta(text="Hel")]
    assert primary.publishes("llm.token", token="lo") == [events.TextDelta(text="lo")]
    primary.passes(2)
    assert primary.publishes("llm.token", token="!") == []
    assert primary.passes(1) == [events.TextDelta(text="!")]
    assert primary.publishes("llm.token", token="?") == [events.TextDelta(text="?")]


@pytest.mark.parametrize("topic", ["llm.token", "tool.start"])
def test_output_after_a_silence_belongs_to_the_same_run_if_the_store_cannot_be_read(topic: str) -> None:
    primary = watched()
    primary.publishes(topic, token="Hel", tool_name="bash", call_id="c", params="")
    primary.sends("message.list", OLD)
    primary.passes(5)
    assert primary.publishes("llm.token", token="lo") == []
    refused = {"code": -32000, "message": "message.list: message service not available on this instance"}
    assert primary.sends("message.list", problem=refused) == [events.TextDelta(text="lo")]
    assert primary.asked() == []


BROKEN_OFF = [message("m2", "user", "slow one"), message("m3", "assistant", "w0 w1 ")]
"""The rows of a run that the user of a real primary cancelled; the user typed again before `turn_quiet` was over."""
NEXT = [*OLD, *BROKEN_OFF, message("m4", "user", "second"), message("m5", "assistant", "n6: echo ")]


def cancelled_by_its_user(listed: Sequence[dict[str, str]] = OLD) -> Primary:
    """Return a primary whose user cancelled a run 5 s ago; `listed` was its store before the run was seen."""
    primary = attached()
    primary.sends("message.list", listed)
    primary.publishes("llm.token", token="w0 ")
    primary.sends("message.list", [*OLD, *BROKEN_OFF])
    primary.publishes("llm.token", token="w1 ")
    primary.passes(5)
    return primary


@pytest.mark.parametrize(
    ("topic", "output"),
    [("llm.token", {"token": "n6: "}), ("tool.end", {"tool_name": "bash", "call_id": "c", "result": "x"})],
)
def test_output_after_a_silence_belongs_to_the_run_of_a_further_input(topic: str, output: dict[str, str]) -> None:
    """A released primary publishes nothing when its own user cancels a run."""
    primary = cancelled_by_its_user()
    primary.publishes("session.update")  # real ones publish it before or behind the first output
    assert primary.sends("message.list", NEXT[:-1]) == []
    assert primary.publishes(topic, **output) == []
    assert primary.publishes("llm.token", token="echo ") == []
    assert primary.sends("message.list", NEXT) == DONE
    words, begun, *said = primary.sends("message.list", NEXT)
    assert (typed(words), begun) == ("second", BEGUN)
    assert said[-1] == events.TextDelta(text="echo ")
    assert primary.publishes("llm.token", token="second ") == [events.TextDelta(text="second ")]


def test_output_after_a_silence_belongs_to_the_same_run_without_a_further_input() -> None:
    primary = cancelled_by_its_user()
    assert primary.publishes("llm.token", token="w2 ") == []
    assert primary.sends("message.list", [*OLD, *BROKEN_OFF]) == [events.TextDelta(text="w2 ")]
    assert primary.publishes("llm.token", token="w3 ") == [events.TextDelta(text="w3 ")]
    assert primary.asked() == []


def test_a_run_that_a_client_joined_ends_where_the_run_of_a_further_input_begins() -> None:
    primary = cancelled_by_its_user([*OLD, *BROKEN_OFF])
    primary.publishes("llm.token", token="n6: ")
    assert primary.sends("message.list", NEXT)[-1] == DONE[-1]
    words, *run = primary.sends("message.list", NEXT)
    assert (typed(words), run) == ("second", [BEGUN, events.TextDelta(text="n6: ")])


def test_a_primary_that_publishes_the_start_of_runs_is_not_asked_after_a_silence() -> None:
    primary = watched()
    primary.publishes("message.append", role="user", content="typed", message_id="m2")
    primary.publishes("llm.start")
    primary.passes(5)
    assert primary.publishes("llm.token", token="Hel") == [events.TextDelta(text="Hel")]
    primary.passes(5)
    assert len(primary.publishes("tool.start", tool_name="bash", call_id="c", params="")) == 1
    assert primary.asked() == []


def test_the_result_of_an_open_call_is_of_the_same_run_after_any_silence() -> None:
    primary = accepted()
    for params in ("", "{}"):
        primary.publishes("tool.start", tool_name="bash", call_id="c", params=params)
    primary.passes(5)
    assert len(primary.publishes("tool.end", tool_name="bash", call_id="c", result="x")) == 1
    assert primary.asked() == []


def test_events_that_wait_for_an_input_continue_if_ours_is_accepted() -> None:
    primary = watched()
    primary.publishes("llm.token", token="a")
    primary.sent(run())
    taken, *rest = primary.sends("message.send", {"ok": True})
    assert (type(taken), rest) == (events.TurnAccepted, [BEGUN, events.TextDelta(text="a")])
    assert primary.publishes("llm.token", token="b") == [events.TextDelta(text="b")]


def test_a_run_that_ended_before_our_input_was_accepted_is_not_its_answer() -> None:
    """A released primary refuses an input during a run, so a run that began before the input was sent is another's."""
    primary = watched()
    primary.publishes("llm.token", token="theirs")
    primary.sent(run())
    primary.publishes("llm.end")
    primary.publishes("llm.token", token="ours")
    *theirs, taken, begun, ours = primary.sends("message.send", {"ok": True})
    assert theirs == [BEGUN, events.TextDelta(text="theirs"), *DONE]
    assert (type(taken), begun, ours) == (events.TurnAccepted, BEGUN, events.TextDelta(text="ours"))
    assert primary.publishes("llm.end") == []
    rows = [*OLD, message("m2", "user", "typed"), message("m3", "assistant", "theirs")]
    rows += [message("m4", "user", "hi"), message("m5", "assistant", "ours")]
    typed_by_another, *end = primary.sends("message.list", rows)
    assert (typed(typed_by_another), end) == ("typed", DONE)


def test_a_published_input_is_not_asked_for() -> None:
    primary = watched()
    primary.publishes("message.append", role="user", content="typed", message_id="m2")
    assert primary.publishes("llm.token", token="Hel") == [BEGUN, events.TextDelta(text="Hel")]
    assert primary.asked() == []
    primary.publishes("llm.end")
    stored = [*OLD, message("m2", "user", "typed"), message("m3", "assistant", "Hel")]
    assert primary.sends("message.list", stored) == DONE
    primary.sent(run())  # the next run has another input
    primary.sends("message.send", {"ok": True})
    primary.publishes("llm.token", token="Hel")
    primary.publishes("llm.end")
    stored += [message("m4", "user", "hi"), message("m5", "assistant", "Hello")]
    assert primary.sends("message.list", stored) == [events.TextDelta(text="lo"), *DONE]


def test_our_own_input_is_not_repeated_though_the_primary_stores_it_with_context() -> None:
    primary = accepted()
    primary.publishes("llm.token", token="Hello")
    primary.publishes("llm.end")
    stored = [*OLD, message("m2", "user", "hi\n\n<context>a file</context>"), message("m3", "assistant", "Hello")]
    assert primary.sends("message.list", stored) == DONE


def test_an_unseen_run_is_sent_as_history_before_the_input_of_the_next_run() -> None:
    primary = watched()
    primary.publishes("llm.token", token="b")
    missed = [*OLD, message("m2", "user", "1"), message("m3", "assistant", "a")]
    stored = [*missed, message("m4", "user", "2"), message("m5", "assistant", "")]
    history, typed, *run = primary.sends("message.list", stored)
    assert isinstance(history, events.HistorySnapshot)
    assert [item.id for item in history.items if isinstance(item, Message)] == ["m0", "m1", "m2", "m3"]
    assert isinstance(typed, events.MessageAppended)
    assert typed.message.text == "2"
    assert run == [BEGUN, events.TextDelta(text="b")]


def test_a_history_read_during_a_run_has_no_part_of_the_answer() -> None:
    primary = watched()
    primary.publishes("llm.token", token="Hel")
    primary.sends("message.list", [*OLD, message("m2", "user", "typed")])
    primary.attached("s-1")
    (history,) = primary.sends("message.list", [*OLD, message("m2", "user", "typed"), message("m3", "assistant", "He")])
    assert [item.id for item in history.items] == ["m0", "m1", "m2"]


# -- who speaks --------------------------------------------------------------------------------------


def test_another_instance_ends_open_turns_and_is_asked_for_everything() -> None:
    primary = accepted()
    primary.publishes("llm.token", token="Hel")
    primary.sent(commands.GetSession(request="q", session="s-1"))
    said = primary.publishes("instance.heartbeat", instance="i-2")
    assert [type(item) for item in said] == [events.Reply, events.Heartbeat]
    assert primary.asked()[-2:] == ["session.list", "message.list"]
    said += primary.passes(TICK)
    assert [type(item) for item in said[2:]] == [events.ErrorReported, events.StatusChanged]
    assert (said[0].failure.cause, said[2].cause) == ("upstream_lost", "upstream_lost")


def test_two_primaries_that_publish_in_turns_are_asked_once_in_a_tick_and_once_more_when_one_is_quiet() -> None:
    primary = Primary().opened()
    for asked in (1, 2):
        for number in range(100):
            primary.publishes("instance.heartbeat", instance=f"i-{number % 2}")
        assert primary.asked() == ["session.list"] * asked
        primary.passes(TICK)
    primary.passes(CHANGED_QUIET)
    assert primary.asked() == ["session.list"] * 3


def test_a_few_turns_of_a_primary_that_was_replaced_end_at_once() -> None:
    primary, sessions = Primary().opened(), {f"s-{n}" for n in range(2 * CHECKED_MAX)}
    for session in sessions:
        primary.publishes("llm.token", session=session, token="a")
        primary.sends("message.list", [])
    primary.publishes("instance.heartbeat", instance="i-2")
    ended = []
    for _ in range(2):
        alarm, primary.alarm = primary.alarm, None
        assert alarm is not None
        primary.take_step(alarm.callback())
        ended.append([burst.session for burst in primary.bursts])
    assert [len(some) for some in ended] == [CHECKED_MAX, CHECKED_MAX]
    assert {session for some in ended for session in some} == sessions


def test_the_turn_of_the_next_primary_begins_behind_the_end_of_the_lost_one() -> None:
    primary = Primary().opened()
    primary.publishes("llm.token", token="old")
    primary.sends("message.list", [])
    said = primary.publishes("llm.token", instance="i-2", token="new")
    said += primary.sends("message.list", [message("m1", "user", "hi")])
    lost = events.ErrorReported(cause="upstream_lost", text="the primary was replaced by another")
    assert said[:2] == [lost, IDLE]
    assert said[-2:] == [BEGUN, events.TextDelta(text="new")]


def test_ids_in_payloads_do_not_name_the_publisher() -> None:
    primary = Primary().opened()
    primary.publishes("instance.heartbeat", instance_id="tcp://127.0.0.1:40000")
    assert primary.asked() == []


def test_a_silent_primary_is_pinged_and_then_given_up() -> None:
    primary = Primary().opened()
    primary.passes(15)
    assert primary.asked() == ["instance.ping"]
    assert primary.faults == []
    primary.passes(10)
    assert [(fault.code, fault.can_continue) for fault in primary.faults] == [("too_slow", False)]


def test_the_silence_of_a_primary_counts_from_the_beginning_of_a_connection() -> None:
    primary = Primary().opened()
    primary.alarm, primary.now = None, primary.now + 60 * SECOND  # a connection has ended, and the next one begins
    primary.take_step(primary.link.opened())
    primary.passes(14)
    assert primary.faults == []


def test_a_primary_that_answers_a_ping_is_kept() -> None:
    primary = Primary().opened()
    for _ in range(10):
        primary.passes(15)
        primary.sends("instance.ping", {"status": "ok", "instance_id": "i-1", "uptime": "9s"})
    assert primary.faults == []


@pytest.mark.parametrize("jump", [3600, -3600])
def test_a_jump_of_the_clock_is_no_silence_of_the_primary_and_fails_no_call(jump: int) -> None:
    primary = Primary().opened()
    primary.sent(run())
    alarm, primary.alarm = primary.alarm, None
    primary.now += jump * SECOND  # so it does if this process was stopped
    assert primary.take_step(alarm.callback()) == []
    primary.passes(CALL_MAX - 2 * TICK)
    assert primary.asked() == ["message.send"]
    assert primary.faults == []
    (refused,) = primary.passes(TICK)
    assert refused.failure.cause == "timeout"


def test_messages_that_were_dropped_unread_are_a_gap_and_everything_is_asked_again() -> None:
    primary = accepted()
    (gap,) = primary.take_step(primary.link.receive([Missed("pub", 7)]))
    assert (type(gap), gap.count) == (events.Gap, 7)
    assert primary.asked() == ["session.list", "message.list"]
    assert primary.losses == ["came faster than it was read"]


def test_messages_that_were_dropped_unread_are_a_gap_in_an_open_turn_without_a_client() -> None:
    primary = Primary().opened()
    primary.sent(run())
    primary.sends("message.send", {"ok": True})
    (gap,) = primary.take_step(primary.link.receive([Missed("pub", 7)]))
    assert (type(gap), gap.count) == (events.Gap, 7)
    assert primary.asked() == ["session.list"], "only a session with a client has its history read again"


def test_thousands_of_sessions_are_read_a_few_at_once_and_leave_room_for_a_client() -> None:
    primary = Primary().opened()
    for number in range(WAITING_MAX + 2):
        primary.attached(f"s-{number}")
    primary.take_step(primary.link.receive([Missed("pub", 7)]))
    assert primary.asked() == ["message.list"] * READ_AT_ONCE + ["session.list"]
    assert primary.sent(commands.Ping(request="a")) == [], "the call of a client is not refused"
    read = 0
    while "message.list" in primary.asked():
        primary.sends("message.list", [])
        read += 1
    assert read >= WAITING_MAX + 2


def test_a_session_that_a_client_opens_is_read_before_those_that_are_read_again() -> None:
    primary = Primary().opened()
    names = [f"s-{number}" for number in range(READ_AT_ONCE + 2)]
    for session in names:
        primary.attached(session)
    for _ in names:
        primary.sends("message.list", [])
    for session in names:  # over a new connection
        primary.attached(session)
    for session in ("new", "newer"):
        primary.attached(session)
    for _ in range(3):
        primary.sends("message.list", [])
    assert [call["params"]["session_id"] for call in primary.calls[-3:]] == ["new", "newer", names[-2]]


def test_sessions_that_clients_open_are_read_in_the_order_of_the_clients() -> None:
    primary = Primary().opened()
    names = [f"s-{number}" for number in range(READ_AT_ONCE + 3)]
    for session in names:
        primary.attached(session)
    for _ in range(3):
        primary.sends("message.list", [])
    assert [call["params"]["session_id"] for call in primary.calls] == names[3:]


def changed(primary: Primary, topic: str) -> None:
    """Publish that a secondary has written to the store."""
    primary.publishes(topic, instance_id="i-2", path="/srv", payload={"method": "UpdateMessage"})


def test_sessions_and_watched_histories_are_read_again_when_another_pando_pauses_behind_an_answer() -> None:
    primary = watched()
    for topic in ("db.session.updated", "db.message.created", "db.message.updated"):
        changed(primary, topic)
        primary.passes(1)
        assert primary.asked() == []
    primary.passes(2)
    assert primary.asked() == ["session.list", "message.list"]
    primary.sends("session.list", [])
    primary.sends("message.list", OLD)
    primary.passes(5)
    assert primary.asked() == [], "once for each pause"


def test_sessions_are_read_again_when_a_message_was_deleted() -> None:
    primary = watched()
    changed(primary, "db.message.deleted")
    primary.passes(3)
    assert primary.asked() == ["session.list", "message.list"]


def test_the_history_of_a_session_in_a_turn_is_not_read_because_another_pando_has_written() -> None:
    primary = watched()
    primary.sent(run())
    primary.sends("message.send", {"ok": True})
    changed(primary, "db.session.updated")
    primary.passes(3)
    assert primary.asked() == ["session.list"]


def test_an_answer_that_another_pando_is_writing_is_not_read() -> None:
    primary = watched()
    changed(primary, "db.message.updated")
    primary.passes(5)
    assert primary.asked() == []


# -- real conversations ------------------------------------------------------------------------------


def test_captured_turns_have_the_text_and_the_order_of_the_store() -> None:
    """A shipped primary does not publish its user's input. It stored three of four turns; there is no gap."""
    path = next(path for path in CAPTURES if path.stem.startswith("02-"))
    stored = [json.loads(frames[-1])["result"] for _, way, frames in captured(path) if way == "s2c"][-1]
    spoken = [i for i, m in enumerate(stored) if m["role"] == "assistant" and m["content"]]  # the first is from before
    primary = Primary().opened("3f1c9c1e-7a55-4d0b-8a52-6b1f0f3f2d11")
    primary.attached("5b0c6a0e-2f7d-4c57-9a34-0c1d2e3f4a5b")
    primary.sends("message.list", stored[: spoken[0] + 1])
    answers = [*spoken[1:], len(stored)]
    said: list[Any] = []
    for frames in [frames for _, way, frames in captured(path) if way == "pub"]:
        said += primary.take_step(primary.link.receive([parts(frames)]))
        while "message.list" in primary.asked():
            is_end = frames[0].startswith("llm.end")
            said += primary.sends("message.list", stored[: answers[0] + is_end])
            answers = answers[is_end:]
    order = [
        item.message.text if isinstance(item, events.MessageAppended) else ""
        for item in said
        if isinstance(item, events.MessageAppended | events.ModelTurnStarted)
    ]
    assert order == ["Fix parse_wait()", "", "中文总结一下日志问题", "", "torture list", "", ""]
    assert sum(isinstance(item, events.TurnResult) for item in said) == 4
    assert not [item for item in said if isinstance(item, events.Gap | events.ErrorReported)]
    text = "".join(item.text for item in said if isinstance(item, events.TextDelta))
    assert text.startswith("".join(stored[i]["content"] for i in spoken[1:]))


CALLS_OF_A_FAULT = 6
"""Python calls for a published message that is not JSON: a primary may send very many."""


def test_a_message_that_is_not_json_costs_few_calls() -> None:
    primary = Primary().opened()
    few, many = (
        calls_of(partial(primary.link.receive, [Parts("pub", b"", (b"llm.token\0x",))] * number))
        for number in (10, 110)
    )
    assert (many - few) / 100 <= CALLS_OF_A_FAULT


def calls_of(work: Callable[[], object]) -> int:
    """Count the Python calls of `work`, those of other packages too."""
    calls: list[str] = []

    def note(frame: FrameType, what: str, _argument: object) -> None:
        if what == "call":
            calls.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return len(calls)


def test_an_alarm_checks_a_bounded_number_of_sessions_and_the_next_one_follows_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[FollowedTurn] = []

    def check(following: FollowedTurn, _now: int) -> list[Event]:
        checked.append(following)
        return []

    monkeypatch.setattr(FollowedTurn, "check_time", check)
    primary = Primary().opened()
    for number in range(2 * CHECKED_MAX + 1):
        primary.publishes("llm.token", session=f"s-{number}", token="Hi")
    found = []
    for _ in range(4):
        alarm, primary.alarm = primary.alarm, None
        primary.now += int(alarm.after * SECOND)
        primary.take_step(alarm.callback())
        found.append((alarm.after, len(checked)))
    assert found == [(TICK, CHECKED_MAX), (0, 2 * CHECKED_MAX), (0, 2 * CHECKED_MAX + 1), (TICK, 3 * CHECKED_MAX + 1)]


def test_calls_without_an_answer_fail_in_parts() -> None:
    primary = Primary().opened()
    primary.sent(*[commands.Ping()] * (CHECKED_MAX + 1))
    primary.passes(CALL_MAX - TICK)
    pending = [len(primary.link._pending)]
    for _ in range(2):
        alarm, primary.alarm = primary.alarm, None
        primary.take_step(alarm.callback())
        pending.append(len([call for call in primary.link._pending.values() if call.at == 0]))
    assert pending == [CHECKED_MAX + 1, 1, 0]
