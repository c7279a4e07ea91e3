"""The client's side of a link with a primary (docs/dialects/pando.md, sections 5, 6 and 8).

One link carries all sessions of the primary: bursts and commands name a session by the primary's own id. Replies are
matched by request id. A primary does not repeat earlier publications. So we ask for its sessions when the link begins,
and when another instance replaces it. A secondary writes its runs to the store of the primary. Of these, only the fact
of each write is published. So we read the store again when the writes pause.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any, Literal

from msgspec import UNSET, Struct
from msgspec.structs import replace

from dragoman.mappings.alike import TEXT
from dragoman.mappings.canonical import Command, Event, SessionState, commands, events
from dragoman.mappings.canonical.unions import Unmapped
from dragoman.mappings.canonical.values import Cause, Failure, attachments, flatten
from dragoman.mappings.codec import MALFORMED
from dragoman.mappings.dialect import (
    Alarm,
    Burst,
    Clock,
    DeltaType,
    Frame,
    Loss,
    Missed,
    NewId,
    Parts,
    Step,
    TextReader,
    TextSink,
    Translator,
)
from dragoman.mappings.errors import PeerError
from dragoman.mappings.jsonrpc import WAITING_MAX, Calls
from dragoman.mappings.losses import Losses
from dragoman.mappings.pando.directions import FROM_SERVER
from dragoman.mappings.pando.from_canonical.commands import FROM_COMMAND
from dragoman.mappings.pando.from_canonical.replies import public_ids
from dragoman.mappings.pando.to_canonical.replies import (
    newest_rows,
    pong,
    sessions_listed,
    stored_rows,
    typed_answer,
)
from dragoman.mappings.pando.translator.followed_sessions import FollowedSessions
from dragoman.mappings.pando.vocabulary import given
from dragoman.mappings.pando.wire.codecs import READ_TOKEN, REQUESTS, TOKEN
from dragoman.mappings.pando.wire.requests import Meta, WriteBase
from dragoman.mappings.pando.wire.topics import LlmToken
from dragoman.mappings.pando.wire.values import nanoseconds, rfc3339
from dragoman.mappings.rfc3339 import NS

CALL_MAX = 10.0
"""Timeout of a call in seconds, as in real clients (docs/dialects/pando.md, section 5)."""

TICK = 1.0
"""Seconds between two checks of timeouts: a third of the shortest silence that ends a turn."""

CHECKED_MAX = 32
"""Sessions and calls that one alarm checks: each may end a turn, which takes 0.3 ms. The others wait for the next."""

SILENT_MAX = 15.0
"""Seconds of silence after which a primary is pinged (docs/dialects/pando.md, section 8)."""

BUSY = Failure(cause="busy", text=f"{WAITING_MAX} calls wait for the primary's answer")

CHANGED = ("db.session.updated", "db.session.deleted", "db.message.deleted")
"""Topics of changes after which the store is read again: a secondary saves the session behind each answer."""

CHANGED_QUIET = 2.0
"""Seconds without a further change before the store is read: an answer that is being written is incomplete."""

READ_AT_ONCE = 32
"""Maximum number of the translator's own calls for messages at one time: with thousands of sessions, clients' calls
need room.
"""

NAME_MAX = 1_024
"""Characters of a session's id; real ones have fewer than 100."""

LONG_NAME = f"an id of more than {NAME_MAX:,} characters"
TOO_MANY_ROWS = "only the newest rows of a list are read"

CallReason = Literal["command", "history", "text", "sessions", "alive"]
"""The reason for a call: a client's command, or information that the translator itself needs."""


class PrimaryCall(Struct, frozen=True, kw_only=True):
    """A call that has no reply yet, and its reason."""

    why: CallReason
    session: str = ""
    command: Any = None
    at: float = 0


class PrimaryCalls(Calls[PrimaryCall]):
    """The calls to one primary that have no reply yet: request id -> call."""

    def __init__(self, clock: Clock, new_id: NewId) -> None:
        super().__init__(lambda: f"req-{new_id()}")
        self._clock = clock
        self.time = 0.0
        """Seconds, counted by the alarms of the link. The clock is not used: it may jump, and it goes on while this
        process is stopped."""
        self._replaced_at = -1.0  # `time` when the primary was replaced last

    def ask(self, step: Step[Event], command: Command, why: CallReason) -> str:
        """Add the call for this command to the step's frames, remember it until its reply, and return its id."""
        own = self.new_id()
        losses = Losses()
        messages = FROM_COMMAND.functions[type(command)](replace(command, request=own), losses)
        step.frames += [REQUESTS.encode(with_meta(message, self._clock())) for message in messages]
        step.losses += losses.take_losses()
        self[own] = PrimaryCall(why=why, session=command.session, command=command, at=self.time)
        return own

    def note_replacement(self) -> bool:
        """Note that the primary was replaced; return True for the first time since the last alarm."""
        is_first, self._replaced_at = self._replaced_at != self.time, self.time
        return is_first

    def overdue(self) -> list[str]:
        """Return the request ids of the oldest calls that have waited longer than CALL_MAX."""
        return [own for own, call in islice(self.items(), CHECKED_MAX) if self.time - call.at >= CALL_MAX]


class HistoryReads:
    """The sessions whose histories the translator reads.

    Those that clients wait for come first, in the order of the clients. `calls` has the request ids of the calls for
    messages that have no reply yet, also of calls for the text of a turn.
    """

    def __init__(self) -> None:
        self.calls: set[str] = set()
        self._opening = OrderedDict[str, None]()
        self._again = OrderedDict[str, bool]()  # session -> True if it is only read while it is at rest

    @property
    def room(self) -> int:
        """The number of calls that may be made now."""
        return READ_AT_ONCE - len(self.calls)

    def open_session(self, session: str) -> None:
        """Read a session that a client has opened."""
        self._opening[session] = None

    def read_again(self, session: str, *, only_at_rest: bool = False) -> None:
        """Read a session whose clients have a history already; with `only_at_rest`, only if it is at rest then."""
        if session not in self._opening:
            self._again[session] = only_at_rest and self._again.get(session, True)

    def take_next(self) -> tuple[str, bool] | None:
        """Remove and return the next session, and True if it must be at rest; None if there is none or no room."""
        if self.room <= 0 or not (self._opening or self._again):
            return None
        return (self._opening.popitem(last=False)[0], False) if self._opening else self._again.popitem(last=False)

    def remove(self, session: str) -> None:
        self._opening.pop(session, None)
        self._again.pop(session, None)

    def clear(self) -> None:
        for waiting in (self.calls, self._opening, self._again):
            waiting.clear()


class ClientTranslator(Translator[Event, Command]):
    """The protocol state of a link with a primary; we are its client."""

    def __init__(self, clock: Clock, new_id: NewId, monotonic: Clock) -> None:
        self._clock = clock
        self._monotonic = monotonic  # for waits: the other clock may be set in a turn
        self._new_id = new_id
        self._instance = ""
        self._pending = PrimaryCalls(clock, new_id)
        self._sessions = FollowedSessions()
        self._reads = HistoryReads()
        self._received_at = 0.0  # `time` of the calls
        self._changed_at = 0  # ns: the last change of the store by another pando, 0 if it need not be read again
        self._opened = False  # True from `opened` until the primary of this connection is known by name

    def opened(self) -> Step[Event]:
        """Ask for the primary's name and sessions; after a reconnect also for the state of open turns."""
        step: Step[Event] = Step(alarm=self._alarm(TICK))
        self._received_at = self._pending.time
        self._opened = True
        self._drop_calls(step)
        self._pending.ask(step, commands.Ping(), "alive")
        self._pending.ask(step, commands.ListSessions(), "sessions")
        self._sessions.reconnected(self._monotonic())
        self._ask_for_messages(step)
        return step

    def receive(self, frames: Sequence[Frame]) -> Step[Event]:
        """Read publications as events of their session, and replies as answers to their commands."""
        step: Step[Event] = Step()
        FROM_SERVER.receive([frame for frame in frames if not isinstance(frame, Missed)], step)
        bursts, step.bursts = step.bursts, []
        now, self._received_at = self._monotonic(), self._pending.time
        for burst in _with_short_names(bursts, step):
            self._note_primary(given(burst.ext, "instanceId", str, ""), step)
            pieces: list[Any] = burst.items
            if TEXT.issuperset(map(type, pieces)) and self._sessions.add_pieces(burst.session, pieces, now):
                step.bursts.append(burst)
            elif items := [event for item in burst.items for event in self._take_event(burst, item, now, step)]:
                step.bursts.append(replace(burst, items=items, request=""))
        for frame in frames:
            if isinstance(frame, Missed):
                self._note_missed(frame.count, step)
        self._ask_for_messages(step)
        return step

    def send(self, items: Sequence[Command]) -> Step[Event]:
        """Send commands as calls; answer a command without a form in pando with a failed Reply."""
        step: Step[Event] = Step()
        for command in items:
            refusal = unsupported(command) or (BUSY if self._pending.full else None)
            if refusal is not None:
                refuse(step, command, refusal)
                continue
            if isinstance(command, commands.OpenSession) and not command.session:
                command = replace(command, session=self._new_id())  # noqa: PLW2901  # a row needs an id
            if isinstance(command, commands.SubmitInput):
                self._sessions.follow(command.session).note_input(flatten(command.segments))
            if isinstance(command, commands.CancelTurn):  # its reply and the end of the run come on different sockets
                self._sessions.follow(command.session).turn.interrupt.call()
            self._pending.ask(step, command, "command")
        return step

    def attach(self, state: SessionState, request: str = "") -> Step[Event]:
        """Ask for the history of this session, if the primary has it."""
        step: Step[Event] = Step()
        if state.backend_ids is not None:
            (session,) = public_ids(state.id, state.backend_ids)
            if session in self._sessions and self._sessions.is_watched(session):
                self._reads.read_again(session)  # its clients have a history: the connection is a new one
            else:
                self._reads.open_session(session)
            self._sessions.watch(session)
            self._ask_for_messages(step)
        return step

    def detach(self, state: SessionState) -> None:
        """Remove the state of a session of the primary."""
        for session in public_ids(state.id, state.backend_ids) if state.backend_ids is not None else ():
            self._sessions.forget(session)
            self._reads.remove(session)

    def text_reader(self, _delta: DeltaType) -> TextReader:
        """Return a fast reader for tokens of any session whose open turn waits for no reply: a pando has no others."""
        return self._read_text

    def closed(self, cause: str) -> Step[Event]:
        """Fail the calls that have no reply yet; pando clients send no message when they disconnect."""
        step: Step[Event] = Step()
        self._fail_calls(step, f"the connection to the primary ended: {cause}")
        return step

    # -- to the server ----------------------------------------------------------------------------------

    def _ask_for_messages(self, step: Step[Event]) -> None:
        """Ask for messages that are wanted, of READ_AT_ONCE sessions at most.

        Those of a turn come first, then those that a client waits for.
        """
        for session in self._sessions.take_wanting(self._reads.room):
            self._read(step, session, "text")
        while (waiting := self._reads.take_next()) is not None:
            session, only_at_rest = waiting
            if session in self._sessions and (self._sessions[session].is_at_rest or not only_at_rest):
                self._read(step, session, "history")

    def _read(self, step: Step[Event], session: str, why: CallReason) -> None:
        self._reads.calls.add(self._pending.ask(step, commands.GetHistory(session=session), why))

    def _resynchronise(self, step: Step[Event], *, only_at_rest: bool = False) -> None:
        """Ask for the sessions, and later for the histories of watched ones; those with a turn may be left out."""
        self._pending.ask(step, commands.ListSessions(), "sessions")
        for session in filter(self._sessions.is_watched, self._sessions):
            self._reads.read_again(session, only_at_rest=only_at_rest)

    def _fail_calls(
        self, step: Step[Event], text: str, waiting: Sequence[str] | None = None, cause: Cause = "upstream_lost"
    ) -> None:
        """Fail the calls with the ids in `waiting` (None: all), with `text` as the reason."""
        failure = Failure(cause=cause, text=text)
        for own in list(self._pending) if waiting is None else waiting:
            asked = self._pending.pop(own)
            self._reads.calls.discard(own)
            if asked.why == "command":
                refuse(step, asked.command, failure)
            self._end_call(step, asked)

    def _drop_calls(self, step: Step[Event]) -> None:
        """Remove the calls of a lost connection, whose commands have already failed."""
        self._reads.clear()
        for asked in self._pending.drain():
            self._end_call(step, asked)

    def _end_call(self, step: Step[Event], asked: PrimaryCall) -> None:
        """Release the events that waited for a call which gets no reply."""
        if isinstance(asked.command, commands.SubmitInput):
            self._sessions.note_lost(asked.command, self._monotonic(), step)
        elif asked.why == "text" and asked.session in self._sessions:
            self._sessions.take_list(asked.session, None, self._monotonic(), step)

    # -- from the server --------------------------------------------------------------------------------

    def _read_text(self, frame: Frame, add_text: TextSink) -> bool:
        message = _read_token(frame)
        if message is None or message.instance_id != self._instance or self._opened:
            return False
        self._received_at = self._pending.time
        return self._sessions.add_text(message, self._monotonic(), add_text)

    def _note_primary(self, instance: str, step: Step[Event]) -> None:
        """Reset the state and ask for all sessions if another instance is now the primary."""
        if not instance:
            return
        is_asked, self._opened = self._opened, False  # after `opened` all requests have been sent already
        known, self._instance = self._instance, instance
        if known in ("", instance):
            return
        self._sessions.lose_turns()
        if not is_asked:
            self._fail_calls(step, "the primary was replaced by another")
            if self._pending.note_replacement():
                self._resynchronise(step)
            else:  # two primaries publish in turns
                self._changed_at = self._monotonic()

    def _note_missed(self, count: int, step: Step[Event]) -> None:
        """Add a Gap to each session with a client or an open turn: the `count` messages may belong to any of them."""
        gap = events.Gap(text="messages of the primary were dropped unread", count=count)
        used = [s for s, following in self._sessions.items() if following.turn.is_open or self._sessions.is_watched(s)]
        step.bursts += [Burst(items=[gap], session=session) for session in used]
        step.losses.append(Loss(kind="Missed", why="came faster than it was read", count=count))
        self._resynchronise(step)

    def _take_event(self, burst: Burst[Event], item: Event, now: int, step: Step[Event]) -> list[Event]:
        if isinstance(item, events.Reply):
            self._take_reply(item, now, step)
            return []
        if isinstance(item, events.StoreChanged) and (self._changed_at or item.topic in CHANGED):
            self._changed_at = now
        if isinstance(item, Unmapped) or not burst.session:
            return [item]
        if isinstance(item, events.MessageAppended) and item.message.role == "assistant":
            step.losses.append(Loss(kind="MessageAppended", why="the tokens carry the assistant's text"))
            return []
        return self._sessions.take_event(burst, item, now, step)

    def _take_reply(self, reply: events.Reply, now: int, step: Step[Event]) -> None:
        asked = self._pending.pop(reply.request, None)
        self._reads.calls.discard(reply.request)
        if asked is None:
            step.losses.append(Loss(kind="Reply", why="answers no call of ours"))
            return
        if isinstance(asked.command, commands.ListSessions | commands.GetHistory):
            reply = _with_newest_rows(asked.command, reply, step)
        match asked.why:
            case "command":
                self._take_answer(asked, reply, now, step)
            case "alive":
                if (known := pong("", reply.result, self._clock())) is not None:
                    self._note_primary(given(known.ext, "instance_id", str, ""), step)
            case "sessions":
                listed = sessions_listed("", reply.result) if reply.failure is None else None
                if listed is not None:
                    step.bursts.append(Burst(items=[listed]))
            case "history" | "text" if asked.session in self._sessions:
                self._take_list(asked, reply, now, step)

    def _take_answer(self, asked: PrimaryCall, reply: events.Reply, now: int, step: Step[Event]) -> None:
        command: Command = asked.command
        if reply.failure is not None:
            self._sessions.note_refusal(command)
        elif isinstance(command, commands.SubmitInput):
            self._sessions.begin_turn(command.session, flatten(command.segments), now, step)
        elif isinstance(command, commands.CancelTurn):
            self._sessions.current(command.session, step).turn.accept_interrupt(now)
        answer = typed_answer(command, reply, self._clock()) or replace(reply, request=command.request)
        if command.request:
            step.bursts.append(Burst(items=[answer], request=command.request, session=command.session))
        if isinstance(command, commands.SubmitInput):
            self._sessions.note_answer(command.session, now, step)

    def _take_list(self, asked: PrimaryCall, reply: events.Reply, now: int, step: Step[Event]) -> None:
        messages = stored_rows(reply.result) if reply.failure is None else None
        take = self._sessions.take_list if asked.why == "text" else self._sessions.take_history
        take(asked.session, messages, now, step)

    # -- time -------------------------------------------------------------------------------------------

    def _alarm(self, after: float) -> Alarm[Event]:
        return Alarm(after, partial(self._on_alarm, after))

    def _on_alarm(self, passed: float) -> Step[Event]:
        step: Step[Event] = Step()
        self._pending.time += passed
        now = self._monotonic()
        overdue = self._pending.overdue()
        self._fail_calls(step, "the primary did not answer in time", overdue, "timeout")
        self._sessions.check_times(CHECKED_MAX, now, step)
        if 0 < self._changed_at <= now - CHANGED_QUIET * NS:
            self._changed_at = 0
            self._resynchronise(step, only_at_rest=True)  # a history in a turn may have the input of the next one
        self._ask_for_messages(step)
        all_checked = self._sessions.all_checked and len(overdue) < CHECKED_MAX
        step.alarm = self._alarm(TICK if all_checked else 0)
        silence = self._pending.time - self._received_at
        if silence >= SILENT_MAX + CALL_MAX:
            step.add_fault(PeerError("too_slow", f"the primary was silent for {silence:g} s", can_continue=False))
        elif silence >= SILENT_MAX and all_checked:
            self._pending.ask(step, commands.Ping(), "alive")
        return step


def _with_short_names(bursts: Sequence[Burst[Event]], step: Step[Event]) -> list[Burst[Event]]:
    """Return the bursts without those of sessions whose ids are too long: the ids of thousands of sessions are kept."""
    for burst in bursts:
        if len(burst.session) > NAME_MAX:
            kind = type(burst.items[0]).__name__
            step.losses.append(Loss(kind=kind, field="session", why=LONG_NAME, count=len(burst.items)))
    return [burst for burst in bursts if len(burst.session) <= NAME_MAX]


def _with_newest_rows(command: Command, reply: events.Reply, step: Step[Event]) -> events.Reply:
    """Return the answer to a list without the oldest rows, if it has too many."""
    result, dropped = newest_rows(command, reply.result)
    if not dropped:
        return reply
    step.losses.append(Loss(kind="Reply", field="result", why=TOO_MANY_ROWS, count=dropped))
    return replace(reply, result=result)


def _read_token(frame: Frame) -> LlmToken | None:
    """Return the `llm.token` message in a frame, or None for any other frame."""
    if type(frame) is not Parts or len(frame.parts) != 1:
        return None
    topic, _, body = frame.parts[0].partition(b"\0")
    if topic != TOKEN:
        return None
    try:
        message = READ_TOKEN(body)
    except MALFORMED:
        return None
    return None if nanoseconds(message.timestamp) is None else message


def with_meta(message: Any, now: int) -> Any:
    """Return a request at time `now` (ns); a `db.write` without an origin gets ours."""
    if not isinstance(message.params, WriteBase) or message.params.meta is not UNSET:
        return message
    meta = Meta(request_id=message.id, timestamp=rfc3339(now // NS * NS))
    return replace(message, params=replace(message.params, meta=meta))


def unsupported(command: Command) -> Failure | None:
    """Return the failure for a command that pando does not support, None if it supports it."""
    if isinstance(command, commands.SubmitInput):
        if attachments(command.segments):
            return Failure(
                cause="unsupported", text="a pando takes no images or files by URL, only files below `file_roots`"
            )
        if not flatten(command.segments):
            return Failure(cause="invalid", text="the input is empty")
    if not FROM_COMMAND.entries[type(command)].produces:
        return FROM_COMMAND.refusal_of(type(command))
    return None


def refuse(step: Step[Event], command: Command, failure: Failure) -> None:
    """Add a failed Reply to the step, if the sender of the command waits for an answer."""
    if command.request:
        refusal = events.Reply(request=command.request, failure=failure)
        step.bursts.append(Burst(items=[refusal], request=command.request, session=command.session))
