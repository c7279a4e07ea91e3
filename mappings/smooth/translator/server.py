"""The server's side of a link with a smooth client (docs/dialects/smooth.md, sections 2, 3 and 6).

It refuses the commands that a server refuses, and allows one turn at a time on a connection. It remembers pending
commands, because the form of an answer depends on its command. A client may use one request id for two commands: a
confirm usually has the id of its turn. The second command then gets an id of ours, and its answer the client's id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.mappings.canonical import Batch, Command, Event, SessionState, Unmapped, commands, events
from dragoman.mappings.canonical.values import Message
from dragoman.mappings.dialect import Burst, Clock, Dialect, Frame, Loss, NewId, Oversize, Step, Translator
from dragoman.mappings.errors import PeerError
from dragoman.mappings.smooth.directions import FROM_CLIENT
from dragoman.mappings.smooth.from_canonical.context import Context, error_event
from dragoman.mappings.smooth.from_canonical.events import FROM_EVENT
from dragoman.mappings.smooth.from_canonical.replies import record_id
from dragoman.mappings.smooth.projection import MAX_EVENT, PIECE, TOO_LARGE, cut_text, fitted
from dragoman.mappings.smooth.translator.admission import admitted
from dragoman.mappings.smooth.vocabulary import (
    NOT_READ_BY_SEED,
    SEED,
    UNKNOWN_TO_SEED,
    carried,
    given,
    omits_supports,
)
from dragoman.mappings.smooth.wire import events as wire
from dragoman.mappings.smooth.wire.codecs import EVENTS
from dragoman.mappings.smooth.wire.events import CAPABILITY_OF_KIND, FORMS
from dragoman.mappings.untyped import decode_untyped

PENDING_MAX = 1024
"""Commands of one link without an answer; a further one is refused."""

REQUEST_MAX = 16_384
"""Characters of a request id: each frame has it twice, up to 6 bytes a character, beside a PIECE of text."""

ACTION_SHOWN = 80  # characters of the name of an unknown action or skill in the error

CREATE = "create_conversation_session"


class PendingReply(Struct, frozen=True, kw_only=True):
    """A command without an answer; `request` is the request id that the client sent, None if it sent none."""

    command: Command
    request: str | None


class ServerTranslator(Translator[Command, Event]):
    """The protocol state of a link with a smooth client; `generation` is the version that we speak, "" the default."""

    def __init__(self, clock: Clock, new_id: NewId, generation: str = "") -> None:
        self._clock = clock
        self._new_id = new_id
        self._seed = generation == SEED
        self._pending: dict[str, PendingReply] = {}
        self._turn: commands.SubmitInput | None = None
        self._supports: tuple[str, ...] = ()  # no set: each takes 216 bytes
        self._claimed = False  # the client declared its forms
        self._may_know_skills = True  # False if the backend is no smooth server

    @property
    def view(self) -> str:
        """Return the kinds of forms that the client cannot show, and the generation if it is the seed."""
        unshown = [kind for kind, needs in CAPABILITY_OF_KIND.items() if needs not in self._supports]
        return " ".join([*unshown, SEED] if self._seed else unshown)

    def note_backend(self, backend: Dialect) -> None:
        """Note whether the backend may know the skills that inputs name."""
        self._may_know_skills = backend.name == "smooth"

    def receive(self, frames: Sequence[Frame]) -> Step[Command]:
        """Read actions as commands; answer invalid ones with an error at once."""
        step: Step[Command] = Step()
        for frame in frames:
            read: Step[Command] = Step()
            FROM_CLIENT.receive((frame,), read)
            if self._seed and read.faults and not isinstance(frame, Oversize):
                read = self._with_agent(read)
            step.faults += read.faults
            step.losses += read.losses
            step.mended += read.mended
            step.frames += [self._refused_frame(fault) for fault in read.faults]
            for burst in read.bursts:
                for item in burst.items:
                    self._take_command(item, step)
        return step

    def send(self, items: Sequence[Event]) -> Step[Command]:
        """Write answers to this link's commands, each in the form that its command requires."""
        step: Step[Command] = Step()
        for item in items:
            self._answer(item, step)
        return step

    def attach(self, state: SessionState, request: str) -> Step[Command]:
        """Write the reply to the create or get action that asked for this session; other actions get no reply here."""
        if not self._claimed:
            self._supports = _inherited(state.opening)
        known = self._pending.get(request)
        if not request or known is None or not isinstance(known.command, commands.OpeningCommand):
            return Step()
        opened = events.SessionOpened(
            request=request,
            session=state.id,
            agent=state.agent,
            title=state.title,
            status=state.status,
            ext=state.backend_ids,
        )
        return self.send((opened,))

    def on_delivered(self, batch: Batch) -> Step[Command]:
        """Allow the next turn of this link after the end of its turn, or after a question in words to this link."""
        last = batch.events[-1]
        if type(last) is events.TurnEnded or (
            type(last) is events.QuestionAsked and last.parked and last.kind in self.view.split()
        ):
            self._turn = None
        return Step()

    def can_be_asked(self, question: Event) -> bool:
        """Return True for approvals and one-time codes, and for a form if the client declared that it can show it."""
        if not isinstance(question, events.InteractionRequired):
            return True
        needs = CAPABILITY_OF_KIND.get(question.kind)
        return needs is None or needs in self._supports

    # -- from the client --------------------------------------------------------------------------------

    def _take_command(self, item: Command, step: Step[Command]) -> None:
        if isinstance(item, Unmapped):
            request = _request_of(item.raw)
            step.losses.append(Loss(kind="Unmapped", why="unsupported action", sample=item.tag))
            step.frames.append(self._unsupported_frame(request, item.tag))
            return
        request = "" if carried(item.ext, "requestId") is not None else item.request or None
        if self._seed:
            if type(item) in UNKNOWN_TO_SEED:
                step.frames.append(self._unsupported_frame(request, UNKNOWN_TO_SEED[type(item)]))
                return
            item = self._as_seed_reads(item, step)
        if isinstance(item, commands.SubmitInput) and self._turn is not None:
            step.frames.append(self._busy_frame(request))
            return
        try:
            _echoable(item)
            command = admitted(item)
        except PeerError as fault:
            step.add_fault(fault)
            step.frames.append(self._error_frame(request, "VALIDATION_ERROR", fault.text))
            return
        if isinstance(command, commands.OpenSession | commands.ResumeSession):
            self._claim(command)
        if isinstance(command, commands.SubmitInput):
            self._begin_turn(command, request, step)
        elif isinstance(command, commands.CancelTurn):
            session = self._turn.session if self._turn is not None else command.session
            if session:  # without a turn on this link a cancel may name a session; without both it has no answer
                self._forward(msgspec.structs.replace(command, session=session), request, step)
        else:
            self._forward(command, request, step)

    def _claim(self, command: commands.OpenSession | commands.ResumeSession) -> None:
        """Note the forms that the client declares: an open without `supports` means none, a resume no change."""
        if isinstance(command, commands.OpenSession) or command.supports is not None:
            self._supports, self._claimed = _known_forms(command.supports), True

    def _with_agent(self, read: Step[Command]) -> Step[Command]:
        """Accept a create without an agent id and add a new one, as the seed did (docs/dialects/smooth.md, section 10).

        Later generations refuse such a create.
        """
        value = read.faults[0].value
        if not isinstance(value, dict) or value.get("action") != CREATE or value.get("agentId") is not None:
            return read
        again: Step[Command] = Step()
        FROM_CLIENT.receive((msgspec.json.encode(value | {"agentId": self._new_id()}),), again)
        return again

    def _as_seed_reads(self, item: Command, step: Step[Command]) -> Command:
        """Return a create without the features that came after the seed (docs/dialects/smooth.md, section 10).

        They are counted. The seed always begins a new conversation, and replaces a blank agent id by a new one.
        """
        if not isinstance(item, commands.OpenSession | commands.ResumeSession):
            return item
        later = [name for name, value in (("supports", item.supports), ("conversationId", item.session)) if value]
        step.losses += [Loss(kind=type(item).__name__, field=name, why=NOT_READ_BY_SEED) for name in later]
        agent = item.agent if item.agent.strip() else self._new_id()
        return commands.OpenSession(**{**commands.client_details(item), "agent": agent, "supports": ()})

    def _begin_turn(self, command: commands.SubmitInput, request: str | None, step: Step[Command]) -> None:
        skill = given(command.ext, "skill", str, "").strip()
        if skill and not self._may_know_skills and self._seed:
            step.losses.append(Loss(kind="SubmitInput", field="skill", why=NOT_READ_BY_SEED))
        elif skill and not self._may_know_skills:
            words = f"skill `{skill[:ACTION_SHOWN]}` is not available: the backend has no skills"
            step.frames.append(self._error_frame(request, "SKILL_NOT_FOUND", words))
            return
        if not command.request:
            # like server P: all events of the turn have the id that we made
            command = msgspec.structs.replace(command, request=self._new_id())
        self._turn = command
        step.bursts.append(Burst(items=[command], request=command.request))

    def _forward(self, command: Command, request: str | None, step: Step[Command]) -> None:
        """Pass a command to the gateway under a request id that is unique on this link."""
        taken = self._turn is not None and self._turn.request == command.request
        if len(self._pending) >= PENDING_MAX:
            words = f"more than {PENDING_MAX} requests wait for a reply"
            step.frames.append(self._error_frame(None if taken else request, "TURN_IN_PROGRESS", words))
            return
        if not command.request or taken or command.request in self._pending:
            command = msgspec.structs.replace(command, request=self._new_id())
        self._pending[command.request] = PendingReply(command=command, request=request)
        step.bursts.append(Burst(items=[command], request=command.request))

    # -- to the client ----------------------------------------------------------------------------------

    def _answer(self, item: Any, step: Step[Command]) -> None:
        known = self._pending.get(item.request)
        if not isinstance(item, Unmapped):  # an answer may follow
            self._pending.pop(item.request, None)
        request = known.request if known is not None else item.request or None
        context = self._context(request, None if known is None else known.command)
        if self._turn is not None and self._turn.request == request:
            if known is not None and isinstance(known.command, commands.CancelTurn):
                context.envelope_id = None  # without an id, the error about a refused cancel ends no turn in the client
            elif known is None and isinstance(item, events.Reply) and item.failure is not None:
                self._turn = None  # the turn was refused before it began; this error ends it in the client
        self._write(item, context, step)

    def _write(self, item: Any, context: Context, step: Step[Command]) -> None:
        for message in FROM_EVENT.functions[type(item)](item, context):
            frame = EVENTS.encode(message)
            if len(frame) <= MAX_EVENT:
                step.frames.append(frame)
            elif isinstance(message, wire.ErrorEvent):  # it may quote the client's text
                step.frames += fitted(message, item, context)
            elif isinstance(item, events.HistorySnapshot) and (page := _shorter(item)) is not None:
                if len(page.items) == len(item.items):
                    step.losses.append(Loss(kind="HistorySnapshot", field="items.text", why=TOO_LARGE))
                self._write(page, context, step)
            else:
                step.losses.append(Loss(kind=type(item).__name__, why=TOO_LARGE))
                words = f"the answer is larger than {MAX_EVENT} bytes: ask for less at once"
                step.frames.append(self._error_frame(context.envelope_id, "INTERNAL_ERROR", words))
        step.losses += context.take_losses()

    def _context(self, request: str | None, asked: Command | None) -> Context:
        context = Context(request or "", self._clock(), asked)
        context.envelope_id = request
        return context

    def _error_frame(self, request: str | None, code: str, text: str) -> bytes:
        if len(request or "") > REQUEST_MAX:
            request = None
        context = self._context(request, None)
        return EVENTS.encode(error_event(context, code, text))

    def _refused_frame(self, fault: PeerError) -> bytes:
        value: dict[str, Any] = fault.value if isinstance(fault.value, dict) else {}
        given = value.get("requestId")
        request = given if isinstance(given, str) else None
        action = value.get("action")
        if action == "send_message" and self._turn is not None:
            return self._busy_frame(request)
        if self._seed and isinstance(action, str) and action in UNKNOWN_TO_SEED.values():
            return self._unsupported_frame(request, action)
        return self._error_frame(request, "VALIDATION_ERROR", fault.text)

    def _unsupported_frame(self, request: str | None, action: str) -> bytes:
        words = f"unsupported action `{action[:ACTION_SHOWN]}`"
        return self._error_frame(request, "UNSUPPORTED_ACTION", words)

    def _busy_frame(self, request: str | None) -> bytes:
        """Return the answer to any input during a turn, which servers do not read further."""
        return self._error_frame(request, "TURN_IN_PROGRESS", "a turn is already running on this connection")


def _echoable(command: Command) -> None:
    """Raise PeerError if the request id is longer than REQUEST_MAX: answers must repeat it."""
    if len(command.request) > REQUEST_MAX:
        raise PeerError("too_large", f"a `requestId` has at most {REQUEST_MAX} characters")


def _request_of(raw: str) -> str | None:
    value = decode_untyped(raw)
    request = value.get("requestId") if isinstance(value, dict) else None
    return request if isinstance(request, str) else None


def _inherited(opening: commands.OpenSession | None) -> tuple[str, ...]:
    """Return the forms for a client without `supports`: those that its session declares to a smooth server.

    If the session was resumed without `supports`, the server decides, so all forms that it sends are shown.
    """
    if opening is None:
        return ()
    if opening.supports is None and omits_supports(opening.ext):
        return FORMS
    return _known_forms(opening.supports)


def _known_forms(supports: Sequence[str] | None) -> tuple[str, ...]:
    """Return the forms among those that a client declares which a server may send."""
    return tuple(filter((supports or ()).__contains__, FORMS))


def _shorter(page: events.HistorySnapshot) -> events.HistorySnapshot | None:
    """Return the newer half of a page that is too large for clients, with the cursor of the older half.

    The text of a single message is cut, so that the client can go on to the messages before it. None if that does not
    help.
    """
    if len(page.items) < 2:
        cut = [_cut(item) for item in page.items if isinstance(item, Message) and len(item.text) > PIECE]
        return msgspec.structs.replace(page, items=tuple(cut)) if cut else None
    items = page.items[: len(page.items) // 2]
    last = items[-1]
    cursor = last.id if isinstance(last, Message) else page.next_cursor
    return msgspec.structs.replace(page, items=items, next_cursor=cursor)


def _cut(message: Message) -> Message:
    return msgspec.structs.replace(message, text=cut_text(message.text), id=record_id(message))
