"""The plan of a recording: its inputs, the commands on which later events depend, and its events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import UNSET, Raw, json, structs

from dragoman.gateway.recording.format import EventLine
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.replay import plan as plan_module
from dragoman.gateway.replay.plan import BLOCK, RECENT_MAX, EventStore, ReplayPlan, read_plan
from dragoman.mappings.canonical.commands import (
    AnswerApproval,
    AnswerInteraction,
    CancelTurn,
    GetHistory,
    ListCompletions,
    PauseTurn,
    ResumeTurn,
    SubmitInput,
)
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    ApprovalResolved,
    CompletionsListed,
    InteractionInvalid,
    InteractionRequired,
    InteractionResolved,
    Reply,
    TextDelta,
    TurnAccepted,
    TurnEnded,
)
from dragoman.mappings.canonical.values import Failure, Origin, flatten
from tests.gateway.recording.lines import FROZEN
from tests.gateway.replay.recording_builder import RecordingBuilder, WatchedReplay, said, types
from tests.step_counter import GROWTH, growth

REFUSED = Failure(cause="not_running", text="no turn")


def texts(plan: ReplayPlan) -> list[str]:
    return [flatten(s.input.segments) if isinstance(s.input, SubmitInput) else "" for s in plan.turns]


def commands(plan: ReplayPlan, scene: int) -> list[str]:
    return [type(passage.command).__name__ for passage in plan.turns[scene].parts]


def test_a_command_on_which_later_events_depend_begins_a_turn_part(tmp_path: Path) -> None:
    tape = RecordingBuilder().turn("one", TextDelta(text="1"), end=None)
    plan = tape.asks(CancelTurn(), Reply(request="")).ends("cancelled").plan(tmp_path)
    assert commands(plan, 1) == ["SubmitInput", "CancelTurn"]
    cancel = plan.turns[1].parts[1]
    assert isinstance(cancel.answer, Reply)
    *_, last = plan.events(cancel)
    assert isinstance(last.event, TurnEnded)
    assert last.event.end == "cancelled"


def test_a_cancel_that_came_before_the_turn_was_accepted_follows_that(tmp_path: Path) -> None:
    """A client may wait for the acceptance before it sends the cancel, as `drive` does."""
    tape = RecordingBuilder().asks(said("one")).asks(CancelTurn()).begins()
    tape.add_line(event=TurnAccepted(request="c1"), turn="turn 1", origin=Origin(link="smooth-1", request="c1"), at=1)
    plan = tape.ends("cancelled").plan(tmp_path)
    asked, cancel = plan.turns[1].parts
    assert types([line.event for line in plan.events(asked)]) == ["TurnAccepted"]
    assert types([line.event for line in plan.events(cancel)])[-1] == "TurnEnded"


def test_a_cancel_that_is_repeated_counts_once(tmp_path: Path) -> None:
    """A gateway in front of a codewhale repeats an interrupt that the child may not have heard."""
    tape = RecordingBuilder().turn("one", TextDelta(text="1"), end=None)
    tape.asks(CancelTurn(), Reply(request="")).sends(TextDelta(text="2")).asks(CancelTurn(), Reply(request=""))
    plan = tape.ends("cancelled").turn("two").plan(tmp_path)
    assert [commands(plan, scene) for scene in (1, 2)] == [["SubmitInput", "CancelTurn"], ["SubmitInput"]]
    cancel = plan.turns[1].parts[1]
    assert types([line.event for line in plan.events(cancel)])[::3] == ["TextDelta", "TurnEnded"]
    assert [type(part.command) for part in plan.others] == [CancelTurn]


def test_a_cancel_of_the_next_turn_repeats_none(tmp_path: Path) -> None:
    """No recorded client began that turn: somebody else did, at the backend."""
    tape = RecordingBuilder().turn("one", end=None).asks(CancelTurn(), Reply(request="")).ends("cancelled")
    tape.begins().sends(TurnAccepted(), TextDelta(text="2")).asks(CancelTurn(), Reply(request="")).ends("cancelled")
    plan = tape.plan(tmp_path)
    assert commands(plan, 1) == ["SubmitInput", "CancelTurn", "CancelTurn"]
    assert types([line.event for line in plan.events(plan.turns[1].parts[1])])[-1] == "TextDelta"


def test_an_answer_belongs_to_the_last_command_with_its_request_id(tmp_path: Path) -> None:
    """A smooth client sends the input and all other commands of its turn under one request id."""
    wrong, right = AnswerInteraction(question="f", declined=True), AnswerInteraction(question="f")
    invalid = InteractionInvalid(question="f", kind="k", errors=(), text="no", request="turn")
    form = InteractionRequired(question="f", kind="k", spec=Raw(b"{}"), reason="r")
    tape = RecordingBuilder().turn("one", form, end=None)
    for command, answer in ((wrong, invalid), (right, Reply(request="turn"))):
        tape.add_line(command=structs.replace(command, request="turn"), link="smooth-1")
        tape.backend(command).add_line(event=answer, link="smooth-1")
    plan = tape.sends(InteractionResolved(question="f")).ends().plan(tmp_path)
    assert [passage.answer for passage in plan.turns[1].parts] == [None, invalid, Reply(request="turn")]


@pytest.mark.parametrize(("later", "has_answer"), [(RECENT_MAX - 1, True), (RECENT_MAX, False)])
def test_an_answer_is_looked_for_among_the_last_commands_alone(later: int, has_answer: bool, tmp_path: Path) -> None:
    recording = RecordingBuilder(asks_backend=False)
    request = recording.client(ListCompletions(kind="file", prefix="a"))
    for _ in range(later):
        recording.client(ListCompletions(kind="file", prefix="b"))
    recording.add_line(event=CompletionsListed(request=request, kind="file", entries=()), link="smooth-1")
    assert (recording.plan(tmp_path).others[0].answer is not None) is has_answer


def test_refused_commands_and_those_without_effect_belong_to_no_turn(tmp_path: Path) -> None:
    tape = RecordingBuilder().turn("one", end=None).asks(PauseTurn(), Reply(request="", failure=REFUSED))
    listed = CompletionsListed(kind="file", entries=())
    plan = tape.asks(ListCompletions(kind="file", prefix="a"), listed).ends().plan(tmp_path)
    assert commands(plan, 1) == ["SubmitInput"]
    assert [type(passage.command).__name__ for passage in plan.others] == ["PauseTurn", "ListCompletions"]
    assert [type(passage.answer).__name__ for passage in plan.others] == ["Reply", "CompletionsListed"]


def test_commands_answered_by_the_gateway_are_no_part_of_the_plan(tmp_path: Path) -> None:
    plan = RecordingBuilder().asks(GetHistory()).turn("one").plan(tmp_path)
    assert plan.others == ()


@pytest.mark.parametrize("reaches", [True, False])
def test_an_input_that_is_refused_in_an_open_turn_does_not_cut_that_turn(reaches: bool, tmp_path: Path) -> None:
    tape = RecordingBuilder(asks_backend=reaches).turn("one", end=None)
    tape.asks(SubmitInput(segments=()), Reply(request="", failure=REFUSED))
    plan = tape.ends().turn("two").plan(tmp_path)
    assert texts(plan) == ["", "one", "two"]
    assert plan.turns[2].parts[0].answer is None


def test_an_input_that_is_refused_because_another_one_waits_begins_no_turn(tmp_path: Path) -> None:
    tape = RecordingBuilder(asks_backend=False)
    origin = Origin(link="smooth-1", request=tape.client(said("one")))
    tape.refused("two", Failure(cause="busy", text="a turn is in progress")).begins()
    tape.add_line(event=TurnAccepted(request=origin.request), turn="turn 1", origin=origin)
    plan = tape.sends(TextDelta(text="1")).ends().turn("three").plan(tmp_path)
    assert texts(plan) == ["", "one", "three"]


def test_commands_of_the_gateway_itself_are_no_parts(tmp_path: Path) -> None:
    asked = ApprovalRequested(tool="t", description="d", question="q1")
    tape = RecordingBuilder().turn("one", asked, end=None).backend(AnswerApproval(approved=False, question="q1"))
    plan = tape.sends(ApprovalResolved(approved=False, question="q1")).ends().plan(tmp_path)
    assert commands(plan, 1) == ["SubmitInput"]
    assert [line for line in plan.events(plan.turns[1].parts[0]) if isinstance(line.event, ApprovalResolved)]


def test_an_answer_belongs_to_the_question_that_was_open(tmp_path: Path) -> None:
    asked, resolved = ApprovalRequested(tool="t", description="d", question="q1"), ApprovalResolved(approved=True)
    tape = RecordingBuilder().turn("one", asked, end=None).asks(AnswerApproval(approved=True), Reply(request=""))
    plan = tape.sends(resolved).ends().plan(tmp_path)
    assert [passage.question for passage in plan.turns[1].parts] == ["", "q1"]


@pytest.mark.parametrize("reaches", [True, False])
def test_an_answer_in_words_is_an_input_that_begins_no_turn_and_the_log_has_its_meaning(
    reaches: bool, tmp_path: Path
) -> None:
    asked = ApprovalRequested(tool="t", description="d", question="q1")
    tape = RecordingBuilder(asks_backend=reaches).turn("one", asked, end=None)
    tape.asks(SubmitInput(segments=())).sends(ApprovalResolved(approved=True, question="q1"))
    plan = tape.ends().turn("two").plan(tmp_path)
    assert texts(plan) == ["", "one", "two"]
    assert commands(plan, 1) == ["SubmitInput", "AnswerApproval"]
    assert plan.turns[1].parts[1].command == AnswerApproval(approved=True, question="q1")
    told, *_ = plan.events(plan.turns[1].parts[1])
    assert told.event == ApprovalResolved(approved=True, question="q1")


@pytest.mark.parametrize("reaches", [True, False])
def test_a_form_that_is_filled_in_in_words_has_the_values_that_the_backend_was_sent(
    reaches: bool, tmp_path: Path
) -> None:
    asked = InteractionRequired(question="q1", kind="identity_intake", spec=Raw(b"{}"), reason="")
    tape = RecordingBuilder(asks_backend=False).turn("one", asked, end=None).asks(SubmitInput(segments=()))
    filled = AnswerInteraction(question="q1", kind="identity_intake", values=Raw(b'{"name":"Ann"}'))
    if reaches:
        tape.backend(filled)
    plan = tape.sends(InteractionResolved(question="q1")).ends().plan(tmp_path)
    answer = plan.turns[1].parts[1].command
    assert isinstance(answer, AnswerInteraction)
    assert (answer.values, answer.declined) == (filled.values if reaches else UNSET, False)


def test_a_question_that_is_denied_after_a_refused_input_has_no_answer(tmp_path: Path) -> None:
    asked = ApprovalRequested(tool="t", description="d", question="q1")
    tape = RecordingBuilder(asks_backend=False).turn("one", asked, end=None).refused("no word", REFUSED)
    plan = tape.sends(ApprovalResolved(approved=False, question="q1")).ends().plan(tmp_path)
    assert commands(plan, 1) == ["SubmitInput"]


def test_a_resume_that_shows_an_open_question_again_is_no_part(tmp_path: Path) -> None:
    asked = ApprovalRequested(tool="t", description="d", question="q1")
    tape = RecordingBuilder(asks_backend=False).turn("one", asked, end=None).asks(ResumeTurn(), Reply(request=""))
    plan = tape.sends(ApprovalResolved(approved=False, question="q1")).ends().plan(tmp_path)
    assert commands(plan, 1) == ["SubmitInput"]


def test_a_question_that_is_asked_again_and_answered_in_words_has_both_answers(tmp_path: Path) -> None:
    asked = ApprovalRequested(tool="t", description="d", question="q1")
    tape = RecordingBuilder(asks_backend=False).turn("one", asked, end=None)
    tape.asks(AnswerApproval(approved=True, question="q1")).sends(ApprovalResolved(approved=True, question="q1"), asked)
    tape.asks(SubmitInput(segments=())).sends(ApprovalResolved(approved=False, question="q1"))
    plan = tape.ends().plan(tmp_path)
    answers = [part.command for part in plan.turns[1].parts[1:]]
    assert [answer.approved for answer in answers if isinstance(answer, AnswerApproval)] == [True, False]


def test_the_cost_of_a_plan_is_proportional_to_its_turns(tmp_path: Path) -> None:
    def recorded(turns: int) -> Path:
        tape = RecordingBuilder()
        for number in range(turns):
            question = f"q{number}"
            tape.turn("one", ApprovalRequested(tool="t", description="d", question=question), end=None)
            tape.asks(AnswerApproval(approved=True, question=question), Reply(request=""))
            tape.sends(ApprovalResolved(approved=True, question=question)).ends()
            tape.sends(TurnAccepted(request="of a client that is not recorded"))
        return tape.write(tmp_path, f"{turns}.jsonl")

    def planned(path: Path) -> Callable[[], object]:
        return lambda: read_plan(open_recording(path))

    assert growth(planned, [recorded(turns) for turns in (5, 25, 50, 100)]) <= GROWTH


def test_the_replay_plan_has_the_end_of_each_turn(tmp_path: Path) -> None:
    tape = RecordingBuilder().turn("one")
    first = tape.last
    assert tape.frame().turn("two").plan(tmp_path).ends == (first, tape.last)


def test_the_frozen_recording_has_one_turn_and_a_refused_pause() -> None:
    plan = read_plan(open_recording(FROZEN / "v4.jsonl"))
    assert texts(plan) == ["", "Grüße 🦀"]
    assert read_plan(open_recording(FROZEN / "v4.jsonl.zst")).ends == plan.ends == (15,)


SMALL, LARGE = "a", "a" * (2 * BLOCK)


def stored(*texts: str) -> EventStore:
    """Return a store of these texts, whose events have the numbers 10, 20, 30 and so on."""
    store = EventStore()
    for number, text in enumerate(texts, 1):
        store.add(EventLine(seq=10 * number, t=number, cursor=f"1:{number}", turn="t", event=TextDelta(text=text)))
    store.close()
    return store


@pytest.mark.parametrize("text", [SMALL, LARGE], ids=["one block", "a block for each"])
@pytest.mark.parametrize(
    ("first", "last", "found"),
    [(0, 99, [10, 20, 30]), (10, 20, [10, 20]), (11, 29, [20]), (21, 29, []), (30, 30, [30]), (31, 99, [])],
)
def test_the_events_between_two_numbers_are_read(text: str, first: int, last: int, found: list[int]) -> None:
    lines = list(stored(text, text, text).read(first, last))
    assert [line.seq for line in lines] == found
    assert all(line.event == TextDelta(text=text) for line in lines)


def test_one_block_is_decoded_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []

    class Counting:
        def decode(self, raw: bytes) -> list[EventLine]:
            decoded.append(len(raw))
            return json.decode(raw, type=list[EventLine])

    monkeypatch.setattr(plan_module, "_EVENTS", Counting())
    count = sum(1 for _ in stored(*[SMALL] * 5_000).read(25_000, 99_999))
    assert count == 2_501
    assert max(decoded) <= BLOCK + 2_000  # the commas and brackets around events of about 90 bytes
    assert sum(decoded) < 5 * BLOCK  # 2,501 such events, and the block in which the first of them stands


def test_a_replay_needs_no_file_once_its_plan_is_made(tmp_path: Path) -> None:
    plan = RecordingBuilder().turn("one", TextDelta(text="1")).plan(tmp_path)
    (tmp_path / "tape.jsonl").unlink()
    session = WatchedReplay(plan)
    assert types(session.asks(said("one")))[-1] == "TurnEnded"
