"""Questions to the user, for clients that have no form for them (docs/translation.md, rule 3.3).

A question in words ends the client's run and not the turn; its answer begins a run in which the rest of the turn
arrives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.mappings.canonical import events
from dragoman.mappings.canonical.values import Status
from dragoman.mappings.pod.segments import from_segments
from dragoman.mappings.pod.wire import contents as contents
from dragoman.mappings.pod.wire import events as wire
from dragoman.mappings.rules import Emulated, Rules

if TYPE_CHECKING:
    from dragoman.mappings.pod.projection import Projection

__all__ = ["FROM_EVENT"]

FROM_EVENT = Rules("canonical events -> pod")

Events = tuple[wire.Event, ...]

IN_WORDS = "the question in words: the run pauses, and the next input is the answer"
FROM_EVENT.carried(events.ApprovalRequested, IN_WORDS)
FROM_EVENT.carried(events.InteractionRequired, IN_WORDS)
FROM_EVENT.carried(events.InteractionInvalid, IN_WORDS)
FROM_EVENT.carried(events.OtpRequired, "the question in words; an input `code` and the number is the answer")
FROM_EVENT.carried(events.OtpSent, "words in the run")
FROM_EVENT.carried(events.OtpInvalid, "words as a run of their own")
FROM_EVENT.carried(events.OtpVerified, "the refused input, sent again")
FROM_EVENT.carried(events.ApprovalResolved, "the run that goes on")
FROM_EVENT.carried(events.InteractionResolved, "the run that goes on")


@FROM_EVENT.rule(
    events.QuestionAsked,
    produces=(wire.TextDelta, wire.TextDone, wire.TurnEnd, wire.RunEnd, wire.Status),
    fidelity=Emulated("text, and run_end{paused} where the turn waits"),
)
def question_asked(event: events.QuestionAsked, projection: Projection) -> Events:
    # It ends the client's run and not the turn; outside of any turn it is all of a run.
    words: Events = (
        wire.TextDelta(data=contents.Words(text=event.paragraph)),
        wire.TextDone(data=contents.Words(text=event.paragraph)),
    )
    if event.parked:
        projection.asked = True
        return (*words, *_run_over("paused"))
    if projection.turn:
        return words
    ended = wire.TurnEnd(data=contents.EndOfTurn(turn=projection.turns.current(None), result="finished"))
    return (*words, ended, *_run_over("finished"))


@FROM_EVENT.rule(
    events.QuestionAnswered,
    produces=(wire.UserMessage, wire.Status, wire.InvokeStart, wire.TurnStart),
    fidelity=Emulated("a run of its own"),
)
def question_answered(event: events.QuestionAnswered, projection: Projection) -> Events:
    if projection.turn and not projection.asked:
        return ()  # before this client came
    projection.asked = False
    begun = (
        wire.Status(data=contents.State(status="running")),
        wire.InvokeStart(data=contents.Invocation(kind="user_send" if event.segments else "wakeup")),
        wire.TurnStart(data=contents.Turn(turn=projection.turns.begin(event.model_turn))),
    )
    if not event.segments:
        return begun
    return (wire.UserMessage(data=contents.Segments(segments=from_segments(event.segments))), *begun)


def _run_over(result: contents.RunResult) -> Events:
    status: Status = "paused" if result == "paused" else "idle"
    return (
        wire.RunEnd(data=contents.Outcome(result=result)),
        wire.Status(data=contents.State(status=status)),
    )
