"""The client's side of a link with a pod. Answers have no request ids: pending.py finds the command of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, get_args

from msgspec import structs

from dragoman.mappings.canonical import Command, Event, commands, events
from dragoman.mappings.canonical.values import Failure, PastRun, Status, attachments
from dragoman.mappings.codec import MALFORMED
from dragoman.mappings.dialect import (
    Alarm,
    Burst,
    Clock,
    DeltaType,
    Frame,
    Loss,
    NewId,
    Step,
    TextReader,
    TextSink,
    Translator,
)
from dragoman.mappings.handlers import Handlers, handler
from dragoman.mappings.losses import Losses
from dragoman.mappings.pod.directions import FROM_SERVER
from dragoman.mappings.pod.from_canonical.commands import FROM_COMMAND
from dragoman.mappings.pod.from_canonical.events import problem
from dragoman.mappings.pod.translator.pending import PENDING_MAX, TRACKED, PendingMethod, PendingMethods
from dragoman.mappings.pod.vocabulary import BAD_METHOD
from dragoman.mappings.pod.wire import methods
from dragoman.mappings.pod.wire.codecs import EVENTS, METHODS
from dragoman.mappings.pod.wire.events import TextDelta, ThinkingDelta
from dragoman.mappings.rules import Emulated

CONTENT = frozenset(kind for kind in get_args(Event) if kind.of_a_turn) - {events.TurnResult, events.ErrorReported}
"""Events that open a turn if none is open; the end of an empty block does not."""

FAILURES = frozenset(("provider_error", "tool_error", "internal"))
"""Codes of errors that end a run, or that are about something else than a command."""

NO_ATTACHMENTS = Failure(
    cause="unsupported", text="a pod takes no images or files by URL, only files below `file_roots`"
)
TOO_MANY_WAIT = Failure(cause="busy", text=f"{PENDING_MAX} commands wait for the pod's answer")
OVER = Failure(cause="not_running", text="the run ended before it could be paused")

LATE_QUIET = 0.25
"""Seconds of silence after which content of a pod that is not running ends the turn that it opened."""


class ClientTranslator(Translator[Event, Command]):
    """The protocol state of a link with a pod; we are its client."""

    def __init__(self, clock: Clock, new_id: NewId, monotonic: Clock) -> None:
        self._status: Status = "idle"
        self._is_late = False  # content came after the status that ended its run
        self._compaction_failed = False  # its `error` comes next
        self._result: tuple[Event, ...] = ()  # of the run, until the status that ends it
        self._summary = (0, 0)  # the time and the number of items with which the segment of a compacted log begins
        self._pending = PendingMethods()
        self._losses = Losses()
        self._foreign = 0

    def opened(self) -> Step[Event]:
        """Return an empty step, because a pod sends first; forget the commands of an earlier connection."""
        self._pending.take_all()
        self._status, self._is_late, self._result = "idle", False, ()
        return Step()

    def receive(self, frames: Sequence[Frame]) -> Step[Event]:
        """Read the pod's events; an event that answers our command gets the request id of that command."""
        step: Step[Event] = Step()
        FROM_SERVER.receive(frames, step)
        for burst in step.bursts:
            items = burst.items
            handlers = self._HANDLERS
            if not handlers.keys().isdisjoint(map(type, items)):
                items[:] = [
                    event for item in items for event in (self._handle(item) if type(item) in handlers else (item,))
                ]
                if not items:  # a pod has no request ids, so there is one burst
                    step.bursts = []
                    break
            is_over = self._status != "running" and type(items[-1]) is not events.StatusChanged
            if is_over and not CONTENT.isdisjoint(map(type, items)):
                self._await_status(items, step)
            if self._pending.entries and events.ModelTurnStarted in map(type, items):
                # The pod has dropped the stops that came before this turn (docs/dialects/pod.md, section 8).
                step.frames += [STOP_FRAMES[kind] for kind in self._pending.repeat_stops()]
        for fault in step.faults:
            if _is_status(fault.value) and self._status == "running":  # a running pod can only have stopped
                step.bursts.append(Burst(items=[*self._handle(events.StatusChanged(status="idle"))]))
        if self._foreign:
            step.losses.append(Loss(kind="ErrorReported", why="answer to another client", count=self._foreign))
            self._foreign = 0
        return step

    def send(self, items: Sequence[Command]) -> Step[Event]:
        """Write commands as methods; answer a command without a form in pod with a failed Reply."""
        step: Step[Event] = Step()
        answers: list[Event] = []
        for command in items:
            answers += self._write_command(command, step)
        step.losses += self._losses.take_losses()
        if answers:
            step.bursts.append(Burst(items=answers))
        return step

    def text_reader(self, delta: DeltaType) -> TextReader | None:
        """Return a fast reader for further pieces, which never answer a command; None if they are late."""
        return None if self._is_late else READERS[delta]

    def closed(self, cause: str) -> Step[Event]:
        """Answer all pending commands with a failure."""
        failure = Failure(cause="upstream_lost", text=f"the connection to the pod ended: {cause}")
        lost = [reply for entry in self._pending.take_all() for reply in _reply(entry.request, failure)]
        return Step(bursts=[Burst(items=lost)] if lost else [])

    # -- to the server ----------------------------------------------------------------------------------

    def _write_command(self, command: Any, step: Step[Event]) -> tuple[Event, ...]:
        """Write one command and keep it until its answer comes, or return the answer at once."""
        kind = type(command)
        if kind is commands.SubmitInput and attachments(command.segments):
            return _reply(command.request, NO_ATTACHMENTS)
        if kind in TRACKED and self._pending.is_full():
            return _reply(command.request, TOO_MANY_WAIT)
        messages = FROM_COMMAND.functions[kind](command, self._losses)
        if not messages and not isinstance(FROM_COMMAND.entries[kind].fidelity, Emulated):
            return _reply(command.request, FROM_COMMAND.refusal_of(kind))
        step.frames += [METHODS.encode(message) for message in messages]
        # A paused pod does not answer `pause`; notes and shutdown never have an answer
        # (docs/dialects/pod.md, section 8).
        if kind not in TRACKED or (kind is commands.PauseTurn and self._status == "paused"):
            return _reply(command.request)
        self._pending.add_command(command, running=self._status == "running")
        return ()

    # -- from the server: content of a pod that is not running ------------------------------------------

    def _await_status(self, items: Sequence[Event], step: Step[Event]) -> None:
        """Start a timer for a silence, if content after the last status has opened a turn."""
        for item in reversed(items):
            if type(item) is events.StatusChanged:
                return
            if _opens_turn(item):
                self._is_late = True
                step.alarm = Alarm(LATE_QUIET, self._end_late)
                return

    def _end_late(self) -> Step[Event]:
        """Emit the last status of the pod again, which ends a turn that late content has opened."""
        if not self._is_late:
            return Step()
        self._is_late = False
        return Step(bursts=[Burst(items=[events.StatusChanged(status=self._status)])])

    # -- from the server: events that may answer a command ----------------------------------------------

    def _handle(self, event: Event) -> tuple[Event, ...]:
        """Return the events that a received event becomes, after the result that waited for it."""
        result, self._result = self._result, ()
        return (*result, *self._HANDLERS[type(event)](self, event))

    def _on_snapshot(self, event: events.HistorySnapshot) -> tuple[Event, ...]:
        if event.status is not None:
            self._status = event.status
        began, count = self._summary
        begins = event.items[0].at if event.items and event.compacted else 0
        if event.rotated and begins and begins == began and len(event.items) > count:
            # Not a compaction: a gateway sends the same segment again, with runs that it has not sent before.
            return (structs.replace(event, runs=(PastRun(first=count, last=len(event.items)),)),)
        self._summary = begins, event.runs[0].first if event.runs else len(event.items)
        return (event,)

    def _on_message(self, event: events.MessageAppended) -> tuple[Event, ...]:
        run = self._pending.take_accepted_run(event.message.segments) if event.message.role == "user" else None
        if run is None:
            return (event,)
        return (events.TurnAccepted(request=run.request),)  # the session adds the user's message itself, once

    def _on_status(self, event: events.StatusChanged) -> tuple[Event, ...]:
        self._status, self._is_late, self._compaction_failed = event.status, False, False
        pending = self._pending
        if event.status != "running":
            if not pending.entries:
                return (event,)
            return (event, *(r for entry in pending.end_run() for r in _too_late(entry)))
        pending.begin_run()
        resumed = pending.take_oldest(commands.ResumeTurn)
        return (event, *(_reply(resumed.request) if resumed is not None else ()))

    def _on_result(self, event: events.TurnResult) -> tuple[Event, ...]:
        # A client may send its next run as soon as it has read this result. So the result waits for the next event,
        # the status that ends the run: a pod writes a file in between, and here the next run would be refused as busy.
        passed_on: tuple[Event, ...] = (event,)
        if self._status == "running":
            passed_on, self._result = (), passed_on
        if not self._pending.entries:
            return passed_on
        stopped = self._pending.take_oldest(*STOPPED_BY.get(event.end, ()))
        return (*passed_on, *(_reply(stopped.request) if stopped is not None else ()))

    def _on_error(self, event: events.ErrorReported) -> tuple[Event, ...]:
        code = problem(event).data.code
        pending = self._pending
        if code == "not_running" and pending.late:
            pending.late -= 1  # this error is about a stop that the end of its run has already answered
            return ()
        # While a run is open, this error is about the input of that run: it answers no pending command.
        refused = None if code == "invalid_request" and self._status == "running" else pending.take_refused(code)
        if refused is None and self._refuses_run(code, event.text):
            refused = pending.take_oldest(commands.SubmitInput)
        self._compaction_failed = False
        if refused is not None:
            if refused.kind is commands.CancelTurn and refused.running:
                return _reply(refused.request)
            return _reply(refused.request, Failure(cause=event.cause, text=event.text, ext=event.ext))
        if self._belongs_to_others(code, event.text):
            self._foreign += 1
            return ()
        return (event,)

    def _refuses_run(self, code: str, text: str) -> bool:
        """Return True if an error can only be about a run that the pod has not begun.

        A real pod refuses a run with other codes. A gateway whose backend is gone has no other answer.
        """
        is_bad_line = code == "internal" and text.startswith(BAD_METHOD)
        return code in FAILURES and self._status != "running" and not self._compaction_failed and not is_bad_line

    def _belongs_to_others(self, code: str, text: str) -> bool:
        """Return True if an error that matches none of our commands is the answer to another client."""
        if code == "invalid_request":
            return self._status != "running"  # during a run it may be the run's failure: an invalid workflow slug
        if code == "internal":
            return text.startswith(BAD_METHOD)
        return code in ("already_running", "not_running", "not_paused")

    def _on_alert(self, event: events.Alert) -> tuple[Event, ...]:
        # If there is nothing to compact, this alert is the only answer (docs/dialects/pod.md, section 8).
        if event.source == "compactor" and self._status != "running":
            return self._on_compacted(event)
        return (event,)

    def _on_compacted(self, event: Event) -> tuple[Event, ...]:
        # The command was executed, with success or not: this event tells all clients the result.
        self._compaction_failed = self._compaction_failed or type(event) is events.CompactionFailed
        entry = self._pending.take_oldest(commands.Compact)
        return (event, *(_reply(entry.request) if entry is not None else ()))

    def _on_answer(
        self, event: events.CompletionsListed | events.SessionsListed | events.PodInspected | events.PodAttached
    ) -> tuple[Event, ...]:
        entry = self._pending.take_oldest(ANSWER_TO[type(event)])
        if entry is None:
            self._foreign += 1
            return ()
        return (structs.replace(event, request=entry.request),)

    _HANDLERS: ClassVar[Handlers[ClientTranslator, [], tuple[Event, ...]]] = dict(
        [
            handler(events.HistorySnapshot, _on_snapshot),
            handler(events.MessageAppended, _on_message),
            handler(events.TurnResult, _on_result),
            handler(events.ErrorReported, _on_error),
            handler(events.StatusChanged, _on_status),
            handler(events.Alert, _on_alert),
            handler(events.CompactionDone, _on_compacted),
            handler(events.CompactionFailed, _on_compacted),
            handler(events.CompletionsListed, _on_answer),
            handler(events.SessionsListed, _on_answer),
            handler(events.PodInspected, _on_answer),
            handler(events.PodAttached, _on_answer),
        ]
    )
    """The methods for events that may answer a command, by event type."""


STOP_FRAMES: dict[type, bytes] = {
    commands.CancelTurn: METHODS.encode(methods.Cancel()),
    commands.PauseTurn: METHODS.encode(methods.Pause()),
}

STOPPED_BY: dict[str, tuple[type, ...]] = {
    "cancelled": (commands.CancelTurn,),
    "paused": (commands.PauseTurn,),
    "rolled_back": (commands.CancelTurn, commands.PauseTurn),
}
"""The result of a run's end -> the commands that it answers."""

ANSWER_TO: dict[type, type] = {
    events.CompletionsListed: commands.ListCompletions,
    events.SessionsListed: commands.ListSessions,
    events.PodInspected: commands.GetSession,
    events.PodAttached: commands.ResumeSession,
}


def _reader_of(kind: type[TextDelta | ThinkingDelta]) -> TextReader:
    """Return a reader that passes the text of such lines to the sink; it returns False for any other frame."""

    def read_text(frame: Frame, add_text: TextSink) -> bool:
        try:
            message = EVENTS.decode(frame)  # type: ignore[arg-type]  # other frames raise
        except MALFORMED:
            return False
        return isinstance(message, kind) and add_text(message.data.text, 0, "")

    return read_text


READERS: dict[DeltaType, TextReader] = {
    events.TextDelta: _reader_of(TextDelta),
    events.ReasoningDelta: _reader_of(ThinkingDelta),
}


def _opens_turn(event: Event) -> bool:
    """Return True if an event opens a turn if none is open: content, but not the end of an empty block."""
    return type(event) in CONTENT and not (isinstance(event, events.TextDone | events.ReasoningDone) and not event.text)


def _is_status(value: object) -> bool:
    """Return True if the JSON of a line that could not be read is a `status` event."""
    return isinstance(value, dict) and value.get("event") == "status"


def _reply(request: str, failure: Failure | None = None) -> tuple[Event, ...]:
    """Return the reply to a command, or nothing for a command without a request."""
    return (events.Reply(request=request, failure=failure),) if request else ()


def _too_late(entry: PendingMethod) -> tuple[Event, ...]:
    """Return the answer to a stop that came after the end of its run: success for cancel, failure for pause."""
    if entry.kind is commands.CancelTurn:
        return _reply(entry.request)
    return _reply(entry.request, OVER)
