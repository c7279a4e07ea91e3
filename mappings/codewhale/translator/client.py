"""The client's side of a link with a codewhale server.

The sources are docs/dialects/codewhale.md, sections 1.4, 3, 5 and 11, and docs/translation.md, rule 3.20. Answers come
in the order of our requests, so a bare line belongs to the oldest turn or prompt without an answer. Other requests
print no lines, and some servers never answer them. A turn counts as accepted once its request is written, because the
server may take 15 s to begin. The result of a turn repeats its text, and the hook mirror of old releases prints events
a second time: both repetitions are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.mappings.alike import TEXT
from dragoman.mappings.canonical import Command, Event, SessionState, Unmapped, commands, events
from dragoman.mappings.canonical.values import Failure, flatten
from dragoman.mappings.codec import MALFORMED
from dragoman.mappings.codewhale import images
from dragoman.mappings.codewhale.directions import FROM_SERVER, is_blank
from dragoman.mappings.codewhale.from_canonical.commands import FROM_COMMAND
from dragoman.mappings.codewhale.from_canonical.generations import with_required_params
from dragoman.mappings.codewhale.to_canonical.frames import plain
from dragoman.mappings.codewhale.to_canonical.replies import capabilities, goal, has_interrupted, typed_answer
from dragoman.mappings.codewhale.translator.opening import Opening
from dragoman.mappings.codewhale.vocabulary import UNLOADED
from dragoman.mappings.codewhale.wire.codecs import EVENTS, REQUESTS
from dragoman.mappings.codewhale.wire.lines import ResponseDelta
from dragoman.mappings.codewhale.wire.results import Capabilities
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
from dragoman.mappings.jsonrpc import WAITING_MAX, Calls
from dragoman.mappings.losses import Losses
from dragoman.mappings.opening import LOST

PROBE = 10.0
"""Seconds between two probes while an answer is due."""

CONFIGURING = (commands.SetConfig, commands.UnsetConfig, commands.ReloadConfig)
"""Commands after which a server before 0.10.2 forgets all conversations (docs/dialects/codewhale.md, section 3)."""

NOT_RUNNING = Failure(cause="not_running", text="no turn is in progress")

EVENTS_IN_RESULTS = (events.GoalUpdated, events.GoalCleared, events.McpStartup)
"""Events that are taken from the results of requests other than turns."""

UNANSWERABLE = (events.ApprovalRequested, events.InteractionRequired, events.RunStarted)
"""Events to ignore in the result of a turn: the turn is over, so they cannot be answered any more."""

PROMPTS = (commands.SubmitInput, commands.PromptOnce)
"""Commands whose answer follows lines of text."""


class TurnInFlight(Struct, kw_only=True):
    """The state of the running turn, according to the lines so far."""

    started: bool = False
    spoke: bool = False
    stopped: bool = False
    early: commands.CancelTurn | None = None
    """A cancel that was written before the first text, so perhaps before the server could find the turn."""


class ClientTranslator(Translator[Event, Command]):
    """The protocol state of a link with a codewhale server; we are its client."""

    def __init__(self, clock: Clock, new_id: NewId, monotonic: Clock) -> None:
        self._clock = clock
        self._new_id = new_id
        numbers = count(1)
        self._pending = Calls[Command](lambda: str(next(numbers)))
        self._turn: TurnInFlight | None = None
        self._opening = Opening()
        self._takes_images = False
        self._interrupts = True  # True if the server has thread/interrupt, or until its methods are known
        self._abandoned = ""  # our id of a turn that an earlier connection left behind, to be interrupted

    def opened(self) -> Step[Event]:
        """Request the server's capabilities, which show its generation."""
        step: Step[Event] = Step(alarm=Alarm(PROBE, self._probe))
        self._write_commands([commands.GetCapabilities()], step)
        return step

    def receive(self, frames: Sequence[Frame]) -> Step[Event]:
        """Read bare lines as events of the running turn, and answers as its end or as answers to our commands."""
        step: Step[Event] = Step()
        FROM_SERVER.receive([frame for frame in frames if not is_blank(frame)], step)
        bursts, step.bursts = step.bursts, []
        for burst in bursts:
            if burst.request:
                for answer in _answers(burst.items):
                    own = burst.request
                    if own == "null" and len(self._pending) == 1 and _is_error(answer):
                        (own,) = self._pending  # the only request: an error for an unreadable one has no id
                    self._take_answer(own, answer, step)
            elif self._turn is not None and self._turn.spoke and TEXT.issuperset(map(type, burst.items)):
                _add(step, burst.items)
            else:
                _add(step, [event for item in burst.items for event in self._take_line(item, step)])
        for fault in step.faults:
            value = fault.value if isinstance(fault.value, dict) else {}
            if str(value.get("id")) in self._pending:  # an invalid answer still ends its request
                failure = Failure(cause="internal", text=f"the backend's answer cannot be read: {fault.text}"[:500])
                reply = events.Reply(request=str(value["id"]), failure=failure)
                self._take_answer(reply.request, [reply], step)
        return step

    def send(self, items: Sequence[Command]) -> Step[Event]:
        """Send commands as requests; answer a command that this server does not support with a failed Reply."""
        step: Step[Event] = Step()
        for command in items:
            refusal = self._find_refusal(command)
            if refusal is not None:
                self._answer(step, command, events.Reply(request=command.request, failure=refusal))
                continue
            now, answers = self._opening.admit_command(command)
            for answer in answers:
                self._answer(step, command, answer)
            self._write_commands(now, step)
        return step

    def attach(self, state: SessionState, request: str = "") -> Step[Event]:
        """Resume the thread that this session had on the previous server."""
        step: Step[Event] = Step()
        self._abandoned = state.abandoned or self._abandoned
        self._write_commands(self._opening.resume(state), step)
        return step

    def unfinished_turn(self) -> str:
        """Return our id of an input whose turn has not ended: behind another gateway the turn continues."""
        ours = (own for own, command in self._pending.items() if isinstance(command, commands.SubmitInput))
        return next(ours, self._abandoned)

    def may_be_closed(self) -> bool:
        """Return True if no request waits, and another server process will know the thread as well as this one."""
        return not self._pending and self._opening.is_replaceable

    def is_waiting(self) -> bool:
        return bool(self._pending)

    def serves_others(self) -> bool:
        return self._opening.serves_others

    def text_reader(self, delta: DeltaType) -> TextReader | None:
        """Return a fast reader for further text lines of the running turn; None if no turn streams text."""
        turn, decode = self._turn, EVENTS.decode_line
        if turn is None or not turn.spoke or delta is not events.TextDelta:
            return None

        def read_text(frame: Frame, add_text: TextSink) -> bool:
            try:
                message = decode(frame)  # type: ignore[arg-type]  # other frames raise
            except MALFORMED:
                return False
            if type(message) is not ResponseDelta or message.channel == "reasoning":
                return False
            return self._turn is turn and add_text(message.delta, 0, "")

        return read_text

    def closed(self, cause: str) -> Step[Event]:
        """Fail the commands that have no answer; write nothing, because the server's stdin closes."""
        failure = Failure(cause="upstream_lost", text=f"the backend ended: {cause}")
        lost: list[Event] = [
            events.Reply(request=command.request, failure=failure)
            for command in self._pending.drain()
            if command.request and not isinstance(command, commands.SubmitInput)
        ]
        return Step(bursts=[Burst(items=lost)] if lost else [])

    # -- to the server ----------------------------------------------------------------------------------

    def _probe(self) -> Step[Event]:
        """Write a blank line while an answer is due. A server that hangs at its exit ends when it reads a line."""
        return Step(frames=[b""] if self._pending else [], alarm=Alarm(PROBE, self._probe))

    def _find_refusal(self, command: Command) -> Failure | None:
        if not FROM_COMMAND.entries[type(command)].produces:
            return FROM_COMMAND.refusal_of(type(command))
        if self._pending.full:
            return Failure(cause="busy", text=f"{WAITING_MAX} requests wait for the backend's answer")
        if isinstance(command, CONFIGURING) and self._opening.session and not self._opening.resumes_context:
            return Failure(cause="busy", text="not changed: the backend would forget its open conversation")
        if isinstance(command, commands.CancelTurn):
            if not self._interrupts:
                return Failure(cause="unsupported", text="this release of codewhale cannot interrupt a turn")
            is_known = self._turn is not None or self._opening.holds(commands.SubmitInput)
            return None if is_known or self._opening.session else NOT_RUNNING
        if not isinstance(command, commands.SubmitInput):
            return None
        if not flatten(command.segments):
            return Failure(cause="invalid", text="the input is empty")
        return Failure(cause="busy", text="a turn is already in progress") if self._turn is not None else None

    def _write_commands(self, written: Sequence[Command], step: Step[Event]) -> None:
        for command in written:
            refusal = None  # the abilities of the server are known when its thread is open
            if isinstance(command, commands.SubmitInput):
                refusal = images.refusal(command.segments, takes_images=self._takes_images)
            if refusal is not None:
                self._answer(step, command, events.Reply(request=command.request, failure=refusal))
                continue
            own = self._pending.new_id()
            losses = Losses()
            messages = FROM_COMMAND.functions[type(command)](replace(command, request=own), losses)
            step.losses += losses.take_losses()
            if not messages:
                failure = FROM_COMMAND.refusal_of(type(command))
                self._answer(step, command, events.Reply(request=command.request, failure=failure))
                continue
            step.frames += [REQUESTS.encode(with_required_params(message, self._new_id)) for message in messages]
            self._pending[own] = command
            if isinstance(command, commands.SubmitInput):
                self._turn = TurnInFlight()
                self._opening.note_input()
                self._answer(step, command, events.TurnAccepted(request=command.request))
            elif isinstance(command, commands.CancelTurn) and self._turn is not None:
                self._pending[own] = cancel = replace(command, request="")
                self._turn.stopped = True
                self._turn.early = None if self._turn.spoke else cancel
                self._answer(step, command, events.Reply(request=command.request))

    def _answer(self, step: Step[Event], command: Command, event: Event) -> None:
        if command.request:
            step.bursts.append(Burst(items=[event], request=command.request))

    # -- from the server --------------------------------------------------------------------------------

    def _take_line(self, item: Event, step: Step[Event]) -> list[Event]:
        """Return the events of a bare line if a turn waits for its answer, else count a loss."""
        oldest = next((command for command in self._pending.values() if isinstance(command, PROMPTS)), None)
        turn = self._turn
        if isinstance(item, events.LifecycleReport | Unmapped):
            return [item]
        if isinstance(oldest, commands.PromptOnce):
            return []  # its result repeats the text
        if oldest is None or turn is None:
            step.losses.append(Loss(kind=type(item).__name__, why="a line outside of any turn"))
            return []
        if isinstance(item, events.TurnResult):
            return []  # this line also comes after a failure; only the answer has the end of the turn
        if turn.early is not None and isinstance(item, events.ModelTurnStarted | events.TextDelta):
            self._write_commands([turn.early], step)  # a server ignores the interrupt of a turn that it has not begun
        if isinstance(item, events.ModelTurnStarted):
            first, turn.started = not turn.started, True
            return [item] if first else []
        if isinstance(item, events.TextDelta):
            turn.spoke, turn.early = True, None
        return [item]

    def _take_answer(self, own: str, items: Sequence[Event], step: Step[Event]) -> None:
        """Act on the answer to one request: the last of `items`. The others are the events of the frames in it."""
        command = self._pending.pop(own, None)
        if command is None:
            step.losses += [Loss(kind=type(item).__name__, why="answers no request of ours") for item in items]
        elif isinstance(command, commands.SubmitInput):
            if command.request and _must_be_repeated(items) and not (self._turn and self._turn.stopped):
                self._write_commands([replace(command, request="")], step)  # a second refusal counts
            else:
                _add(step, self._end_turn(items, step))
        else:
            *inside, last = items
            new = [plain(item) for item in inside if isinstance(item, EVENTS_IN_RESULTS)]
            reply = last if isinstance(last, events.Reply) else events.Reply(request="")
            self._take_reply(command, reply, new, step)

    def _take_reply(self, command: Command, reply: events.Reply, new: list[Event], step: Step[Event]) -> None:
        """Pass on the events that the frames of an answer have (`told`), then the answer to the command."""
        match command:
            case commands.CancelTurn():
                _add(step, new)
                if command.request:  # else it was answered when it was written
                    failure = reply.failure or (None if has_interrupted(reply.result) else NOT_RUNNING)
                    self._answer(step, command, events.Reply(request=command.request, failure=failure))
                return
            case commands.ResumeSession():
                new = [*new, *goal(reply.result)]
            case commands.GetCapabilities():
                self._note_server(capabilities(reply.result))
        answer = typed_answer(command, reply, self._clock()) or replace(reply, request=command.request)
        now, answers = self._opening.take_answer(command, answer)
        _add(step, [*new, *filter(_for_somebody, answers)])
        if self._abandoned and self._opening.session:
            self._abandoned = ""
            now = [*([commands.CancelTurn(session=self._opening.session)] if self._interrupts else []), *now]
        self._write_commands(now, step)

    def _note_server(self, known: Capabilities | None) -> None:
        self._interrupts = self._interrupts if known is None else "thread/interrupt" in known.methods
        server = known or Capabilities(methods=[])
        self._opening.note_server(server)
        self._takes_images = server.turn_image_inputs is True

    def _end_turn(self, items: Sequence[Event], step: Step[Event]) -> list[Event]:
        """Return the events of the result's frames that no line has reported, then the end of the turn."""
        turn, self._turn = self._turn or TurnInFlight(), None
        *inside, last = items
        new: list[Event] = []
        for item in inside:
            if isinstance(item, UNANSWERABLE):
                step.losses.append(Loss(kind=type(item).__name__, why="nothing waits for the answer"))
            elif isinstance(item, events.ErrorReported) and item.text == LOST and self._opening.resumes_context:
                new.append(events.Gap(text=LOST, context=True))  # another gateway reports it in this form
            elif not (isinstance(item, events.TextDelta) and turn.spoke):
                new.append(plain(item))
        if new and not turn.started:
            new.insert(0, events.ModelTurnStarted())
        failure = last.failure if isinstance(last, events.Reply) else None
        if failure is not None and not turn.stopped:
            return [*new, events.TurnEnded(end="failed", failure=failure)]
        end = last.end if isinstance(last, events.TurnEnded) else "cancelled" if failure is not None else "completed"
        return [*new, events.TurnEnded(end=end)]


def _answers(items: Sequence[Event]) -> Iterator[Sequence[Any]]:
    """Split the items of a burst into one group for each answer; a server should send one answer for each id."""
    start = 0
    for end, item in enumerate(items, start=1):
        if isinstance(item, events.Reply | events.TurnEnded):
            yield items[start:end]
            start = end
    if start < len(items):
        yield items[start:]


def _must_be_repeated(items: Sequence[Any]) -> bool:
    """Return True if the server refused an input only because it had unloaded the thread, which is loaded now."""
    return _is_error(items) and UNLOADED in items[-1].failure.text


def _is_error(items: Sequence[Event]) -> bool:
    return isinstance(items[-1], events.Reply) and items[-1].failure is not None


def _add(step: Step[Event], items: list[Event]) -> None:
    if items:
        step.bursts.append(Burst(items=items))


def _for_somebody(answer: Event) -> bool:
    """Return True if an answer must be passed on: it has a request id, or it reports that a thread is open."""
    return bool(getattr(answer, "request", "")) or isinstance(answer, events.SessionOpened | events.Gap)
