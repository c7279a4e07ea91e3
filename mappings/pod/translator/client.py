"""The peer is a pod. It answers without ids: which command of ours an event answers is found by pending.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from dragoman.mappings.canonical import Batch, Command, Event, SessionState
from dragoman.mappings.canonical import commands as ask
from dragoman.mappings.canonical import events as say
from dragoman.mappings.canonical.values import Cause, Failure
from dragoman.mappings.dialect import Burst, Clock, Frame, Loss, NewId, Step
from dragoman.mappings.losses import Losses
from dragoman.mappings.pod import wire
from dragoman.mappings.pod.directions import FROM_SERVER
from dragoman.mappings.pod.from_canonical.commands import FROM_COMMAND
from dragoman.mappings.pod.from_canonical.events import problem
from dragoman.mappings.pod.segments import attachments
from dragoman.mappings.pod.translator.pending import PENDING_MAX, TRACKED, PendingMethod, PendingMethods
from dragoman.mappings.pod.vocabulary import BAD_METHOD
from dragoman.mappings.rules import Emulated, Nothing


class ClientTranslator:
    """The peer is a pod."""

    view = ""

    def __init__(self, clock: Clock, new_id: NewId) -> None:
        self._status = "idle"
        self._pending = PendingMethods()
        self._losses = Losses(FROM_COMMAND)
        self._foreign = 0
        self._seen: dict[type, Callable[[Any], tuple[say.Event, ...]]] = {
            say.HistorySnapshot: self._snapshot,
            say.MessageAppended: self._message,
            say.TurnResult: self._result,
            say.ErrorReported: self._error,
            say.StatusChanged: self._state,
            say.Alert: self._alert,
            say.CompactionDone: self._compacted,
            say.CompactionFailed: self._compacted,
            say.CompletionsListed: self._listed,
            say.SessionsListed: self._listed,
            say.PodInspected: self._listed,
            say.PodAttached: self._listed,
        }
        self._special = frozenset(self._seen)

    @property
    def has_pending_replies(self) -> bool:
        """A backend that says no more is gone."""
        return False

    def opened(self) -> Step[Event]:
        """Say nothing: the pod shows itself. What it had not answered on a connection before this it never will."""
        self._pending.take_all()
        self._status = "idle"
        return Step()

    def receive(self, frames: Sequence[Frame]) -> Step[Event]:
        """The pod's events, with what answers a command of ours given that command's request."""
        step: Step[Event] = Step()
        FROM_SERVER.receive(frames, step)
        for burst in step.bursts:
            items = burst.items
            if not self._special.isdisjoint(map(type, items)):
                items[:] = [said for item in items for said in self._seen.get(type(item), _as_it_is)(item)]
                if not items:  # a pod has no request ids, so that there is one burst
                    step.bursts = []
        if self._foreign:
            step.losses.append(Loss(kind="ErrorReported", why="answer to another client", count=self._foreign))
            self._foreign = 0
        return step

    def send(self, items: Sequence[Command]) -> Step[Event]:
        """Commands as methods; what a pod cannot be asked is refused at once."""
        step: Step[Event] = Step()
        answers: list[say.Event] = []
        for command in items:
            answers += self._ask(command, step)
        step.losses += self._losses.take()
        if answers:
            step.bursts.append(Burst(items=answers))
        return step

    def attach(self, state: SessionState, request: str = "") -> Step[Event]:
        """A pod is shown nothing."""
        return Step()

    def on_delivered(self, batch: Batch) -> Step[Event]:
        """A pod waits for nothing of its own."""
        return Step()

    def can_be_asked(self, question: Event) -> bool:
        """A pod is asked nothing."""
        return False

    def closed(self, cause: str) -> Step[Event]:
        """Nothing is said to the pod; what it has not answered it never will."""
        text = f"the connection to the pod ended: {cause}"
        lost = [r for entry in self._pending.take_all() for r in _reply(entry.request, "upstream_lost", text)]
        return Step(bursts=[Burst(items=list(lost))] if lost else [])

    def _ask(self, command: Any, step: Step[Event]) -> tuple[say.Event, ...]:
        """Write one command and remember what waits for its answer; or answer it."""
        kind = type(command)
        if kind is ask.SubmitInput and attachments(command.segments):
            return _reply(command.request, "unsupported", "a pod takes no images or files by URL")
        if kind in TRACKED and self._pending.is_full():
            return _reply(command.request, "busy", f"{PENDING_MAX} commands wait for the pod's answer")
        entry = FROM_COMMAND.entries[kind]
        messages = FROM_COMMAND.functions[kind](command, self._losses)
        if not messages and not isinstance(entry.fidelity, Emulated):
            why = entry.fidelity.why if isinstance(entry.fidelity, Nothing) else "it has no such method"
            return _reply(command.request, "unsupported", f"a pod cannot be asked this: {why}")
        step.frames += [wire.METHODS.encode(message) for message in messages]
        # A paused pod says nothing to `pause`; notes and shutdown have no answer at all
        # (docs/dialects/pod.md, section 8).
        if kind not in TRACKED or (kind is ask.PauseTurn and self._status == "paused"):
            return _done(command.request)
        self._pending.add_command(command, running=self._status == "running")
        return ()

    # -- what an event of the pod answers ---------------------------------------------------------------

    def _snapshot(self, event: say.HistorySnapshot) -> tuple[say.Event, ...]:
        if event.status is not None:
            self._status = event.status
        return (event,)

    def _message(self, event: say.MessageAppended) -> tuple[say.Event, ...]:
        if event.message.role != "user" or self._pending.match_echo(event.message.segments) is None:
            return (event,)
        return self._accepted()  # the session adds the user's message itself, once

    def _state(self, event: say.StatusChanged) -> tuple[say.Event, ...]:
        self._status = event.status
        pending = self._pending
        if event.status != "running":
            return (event, *(r for entry in pending.end_run() for r in _too_late(entry)))
        pending.begin_run()
        accepted = self._accepted()
        if accepted:
            return (*accepted, event)
        resumed = pending.take_oldest(ask.ResumeTurn)
        return (event, *(_done(resumed.request) if resumed is not None else ()))

    def _accepted(self) -> tuple[say.Event, ...]:
        run = self._pending.take_accepted_run()
        return (say.TurnAccepted(request=run.request),) if run is not None else ()

    def _result(self, event: say.TurnResult) -> tuple[say.Event, ...]:
        stopped = self._pending.take_oldest(*STOPPED_BY.get(event.end, ()))
        return (event, *(_done(stopped.request) if stopped is not None else ()))

    def _error(self, event: say.ErrorReported) -> tuple[say.Event, ...]:
        code = problem(event).data.code
        pending = self._pending
        if code == "not_running" and pending.late:
            pending.late -= 1  # of a stop that its run's own end has answered
            return ()
        # What is invalid in a running run is its own input: it answers nothing that waits.
        refused = None if code == "invalid_request" and self._status == "running" else pending.take_refused(code)
        if refused is not None:
            if refused.kind is ask.CancelTurn and refused.running:
                return _done(refused.request)
            return _reply(refused.request, event.cause, event.text, event)
        if self._belongs_to_others(code, event.text):
            self._foreign += 1
            return ()
        return (event,)

    def _belongs_to_others(self, code: str, text: str) -> bool:
        """Whether an error that answers nothing of ours answers another client."""
        if code == "invalid_request":
            return self._status != "running"  # in a run it may be its cause: an invalid workflow slug
        if code == "internal":
            return text.startswith(BAD_METHOD)
        return code in ("already_running", "not_running", "not_paused")

    def _alert(self, event: say.Alert) -> tuple[say.Event, ...]:
        # A compact that there is nothing to do for is answered with this alert alone (docs/dialects/pod.md, section 8).
        if event.source == "compactor" and self._status != "running":
            return self._compacted(event)
        return (event,)

    def _compacted(self, event: say.Event) -> tuple[say.Event, ...]:
        # Done or failed, the command was carried out; the event itself tells everybody what came of it.
        entry = self._pending.take_oldest(ask.Compact)
        return (event, *(_done(entry.request) if entry is not None else ()))

    def _listed(self, event: Any) -> tuple[say.Event, ...]:
        entry = self._pending.take_oldest(ANSWER_TO[type(event)])
        if entry is None:
            self._foreign += 1
            return ()
        return (structs.replace(event, request=entry.request),)


STOPPED_BY: dict[str, tuple[type, ...]] = {
    "cancelled": (ask.CancelTurn,),
    "paused": (ask.PauseTurn,),
    "rolled_back": (ask.CancelTurn, ask.PauseTurn),
}
"""Which stop a run's end is the answer to."""

ANSWER_TO: dict[type, type] = {
    say.CompletionsListed: ask.ListCompletions,
    say.SessionsListed: ask.ListSessions,
    say.PodInspected: ask.GetSession,
    say.PodAttached: ask.ResumeSession,
}


def _as_it_is(event: say.Event) -> tuple[say.Event, ...]:
    return (event,)


def _done(request: str) -> tuple[say.Event, ...]:
    """The answer "done"; a command without a request asked for none."""
    return (say.Reply(request=request),) if request else ()


def _reply(request: str, cause: Cause, text: str, event: say.ErrorReported | None = None) -> tuple[say.Event, ...]:
    failure = Failure(cause=cause, text=text, ext=event.ext if event is not None else None)
    return (say.Reply(request=request, failure=failure),) if request else ()


def _too_late(entry: PendingMethod) -> tuple[say.Event, ...]:
    """A stop that its run's own end was faster than: cancelled is as good as done, paused it is not."""
    if entry.kind is ask.CancelTurn:
        return _done(entry.request)
    return _reply(entry.request, "not_running", "the run ended before it could be paused")
