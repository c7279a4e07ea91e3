"""The interface of a dialect to the gateway: a record, two translators and a projection.

A *translator* belongs to one link and keeps its protocol state. A *projection* belongs to one session and renders its
broadcast, once for all links with the same view. Both are pure and synchronous: frames in, a Step or Rendered out.
Times, ids and randomness are injected.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec
from msgspec import Struct, field

from dragoman.mappings.canonical import Batch, Command, Event, SessionState, Unmapped
from dragoman.mappings.canonical.commands import OpenSession, ResumeSession
from dragoman.mappings.canonical.events import ReasoningDelta, TextDelta
from dragoman.mappings.canonical.values import Ext, Item
from dragoman.mappings.codec import MALFORMED, Format
from dragoman.mappings.errors import PeerError
from dragoman.mappings.rules import Nothing, Rules, RuleTable

T = TypeVar("T")
"""Event or Command."""

Received = TypeVar("Received")
Sent = TypeVar("Sent", contravariant=True)
"""The items that the peer of a link sends (`Received`), and those that we send it (`Sent`): commands and events, or the
reverse.
"""

PATH_MAX = 200  # characters of an undocumented key's path in its loss
PATHS_MAX = 64  # undocumented keys of one message that are counted by name
KEYS_OF_FRAME = 16  # undocumented keys that take as long as the decoding of a small frame that was refused
HEAD = 1024  # bytes of a frame above its limit in which its request id is looked for

MEMBER = re.compile(rb'\s*[{,]\s*"(\w+)"\s*:\s*("[ !#-\[\]-~]*"|-?[1-9]\d{0,17}|0|true|false|null)\s*(?=[,}])')
"""A member of a JSON object whose value is a plain text or a small number."""

Clock = Callable[[], int]
"""Returns nanoseconds since the Unix epoch; read once a batch."""

NewId = Callable[[], str]
"""Returns a new UUID as text."""


class Parts(Struct, frozen=True):
    """A ZeroMQ message: the name of its socket, the identity of its peer, and its frames."""

    channel: str
    identity: bytes
    parts: tuple[bytes, ...]


class Oversize(Struct, frozen=True):
    """Placeholder for a frame that the adapter refused because of its size.

    The frame had `size` bytes (so far), or parts if they are limited; `head` has the first HEAD bytes, if known.
    `limit` is the value of the setting `name`. An `endless` frame is so far above its limit that its peer cannot be
    expected to end it.
    """

    size: int
    limit: int
    name: Literal["max_message", "max_command", "message_parts", "message_values"] = "max_message"
    endless: bool = False
    head: bytes = b""

    @property
    def text(self) -> str:
        """The reason for the refusal, for the peer and for recordings."""
        unit = "parts" if self.name == "message_parts" else "bytes"
        wrong = "has more JSON values than" if self.name == "message_values" else "is over"
        return f"message of {self.size} {unit} {wrong} the limit of {self.limit} (`{self.name}`)"

    @property
    def first_members(self) -> dict[str, object] | None:
        """The plain members with which its JSON object begins, so that the answer can name the refused request."""
        at, members = 0, {}
        while found := MEMBER.match(self.head, at):
            members[found[1].decode()] = msgspec.json.decode(found[2])
            at = found.end()
        return members or None


class Missed(Struct, frozen=True):
    """Placeholder for `count` messages of `channel` that the adapter dropped because they were not read in time."""

    channel: str
    count: int


Frame = bytes | Parts | Oversize | Missed

DeltaType = type[TextDelta] | type[ReasoningDelta]
"""The type of the pieces of an open block: of text, or of reasoning."""

TextSink = Callable[[str, int, str], bool]
"""A function (text, time, session) that appends a piece to the open block of a session.

`session` is the peer's own id, "" if the link carries only one session. The time is in ns, 0 means now. The function
returns False and changes nothing if the piece must be received like any other message.
"""


class StreamedBlock(Protocol):
    """An open block that streams: `add_text` is the sink of its further pieces, which are of the type `delta`."""

    @property
    def delta(self) -> DeltaType:
        """Return the type of its pieces."""

    def add_text(self, text: str, at: int, session: str) -> bool:
        """Append a piece, as a TextSink does."""


TextReader = Callable[[Frame, TextSink], bool]
"""A function (frame, sink) that passes a frame to the sink if it only appends text to the open block.

The function returns False for any other frame, or if the sink refuses the text. The translator is then unchanged.
"""

TextWriter = Callable[[str, int], list[bytes]]
"""A function (text, time in ns) that renders a piece of the open text block, as `SessionProjection.render` does.

Its frames depend only on text and time, because a recorder also renders pieces that no client is sent.
"""


class Loss(Struct, frozen=True, kw_only=True, gc=False):
    """A message, or one of its fields, that could not be translated.

    `field` "" means the whole message; `why` is the reason. `sample` is one lost value, or text of it. `sample_text`
    shortens it where it is shown: most samples are never shown, and a history may have megabytes.
    """

    kind: str
    field: str = ""
    why: str = ""
    sample: object = ""
    count: int = 1


class Burst(Struct, Generic[T], frozen=True, kw_only=True, gc=False):
    """Consecutive items from one peer, with one request id and one time.

    `items` are events (`Burst[Event]`) or commands (`Burst[Command]`), in order, at least one. `request` is "" if the
    dialect has no request ids. `at` is in ns, 0 if the dialect has no times. `session` is the peer's own id of the
    session, if a link carries many. `ext` has the documented fields of the envelope without a canonical counterpart.
    """

    items: list[T]
    request: str = ""
    at: int = 0
    session: str = ""
    ext: Ext | None = None


class Alarm(Struct, Generic[T], frozen=True):
    """A request of a translator for a timer: call `callback` after `after` seconds and act on its Step.

    The timer stops when the link ends. A translator has at most one timer. Its callback may ask for the next one.
    """

    after: float
    callback: Callable[[], Step[T]]


class Step(Struct, Generic[T], kw_only=True):
    """The result of one step of a translator.

    `bursts` go to the gateway, `frames` back to the same peer. `faults` are the peer's errors: if one cannot continue,
    the link closes after `frames` are sent. `losses` count what was dropped. `alarm` is a timer to start. `mended` is
    the number of frames that the fast decoder refused: one takes 10 to 40 us, while a token takes 1 to 2 us. A frame
    with many undocumented keys counts as several.
    """

    bursts: list[Burst[T]] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    faults: list[PeerError] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    alarm: Alarm[T] | None = None
    mended: int = 0

    def add_fault(self, fault: PeerError) -> None:
        """Add a fault that was raised, without its traceback and causes.

        They would keep the parser's stack frames alive, and with them the bytes that it read and this step.
        """
        fault.__traceback__ = fault.__cause__ = fault.__context__ = None
        self.faults.append(fault)


class Rendered(Struct, frozen=True, kw_only=True, gc=False):
    """Events as the frames that one dialect broadcasts, and the losses."""

    frames: list[bytes]
    losses: list[Loss]


class Translator(ABC, Generic[Received, Sent]):
    """The protocol state of one link.

    `Translator[Command, Event]` serves a client, `Translator[Event, Command]` a backend. A dialect defines `receive`
    and `send`. The other methods do what most dialects need: no frames are sent when the link opens, attaches or
    closes, and the peer has no form for questions.
    """

    @property
    def view(self) -> str:
        """Return a key for this peer's variant of the dialect; links with the same key share a projection."""
        return ""

    @property
    def has_pending_replies(self) -> bool:
        """Return True if the peer still waits for replies, even if it has closed its sending side."""
        return False

    def limit_requests(self, inputs: int, count: Callable[[int], None]) -> None:
        """Set the limit of queued inputs; `count` is called with each change of the queued bytes."""

    def note_backend(self, backend: Dialect) -> None:
        """Note the dialect of the backend of this client's route: the capabilities that we report may depend on it."""

    def opened(self) -> Step[Received]:
        """Return the frames to send when the link opens."""
        return Step()

    @abstractmethod
    def receive(self, frames: Sequence[Frame]) -> Step[Received]:
        """Read frames of the peer. Never raises: errors of the peer become `faults` of the step."""

    @abstractmethod
    def send(self, items: Sequence[Sent]) -> Step[Received]:
        """Write items for the peer: replies if we are the server, commands if we are the client."""

    def attach(self, state: SessionState, request: str) -> Step[Received]:
        """Return the frames that show this session to the peer; a backend is shown none.

        `request` is the id of the request that asked for it, "" if the peer asked by connecting.
        """
        return Step()

    def detach(self, state: SessionState) -> None:
        """Forget this session, which no link uses any more."""

    def on_delivered(self, batch: Batch) -> Step[Received]:
        """Update the state after this batch was sent to the peer: it may begin or end a run of the peer."""
        return Step()

    def unfinished_turn(self) -> str:
        """Return the peer's request id of our turn if it may outlive the connection, to be cancelled over the next one;
        "" if there is none.
        """
        return ""

    def may_be_closed(self) -> bool:
        """Return True if the peer loses nothing when this link is closed now and another one is opened later."""
        return False

    def is_waiting(self) -> bool:
        """Return True if the peer has not answered each of our requests; a dialect that cannot know returns False."""
        return False

    def serves_others(self) -> bool:
        """Return True if other processes of the peer's program depend on the peer."""
        return False

    def can_be_asked(self, question: Event) -> bool:
        """Return True if the peer has a form for this question.

        Other peers are asked in words (docs/translation.md, rule 3.3).
        """
        return False

    def text_reader(self, _delta: DeltaType) -> TextReader | None:
        """Return a fast reader for further pieces of the block just received; None if `receive` must read them."""
        return None

    def closed(self, cause: str) -> Step[Received]:
        """Return the last frames before the link closes."""
        return Step()


class MakeServer(Protocol):
    """Factory of translators for links with a client. `generation` is the listener's, "" for the default."""

    def __call__(self, clock: Clock, new_id: NewId, generation: str = "") -> Translator[Command, Event]: ...


MakeClient = Callable[[Clock, NewId, Clock], Translator[Event, Command]]
"""Factory of translators for links with a backend. The second clock is monotonic, for waits."""


class SessionProjection(Protocol):
    """The rendering of one session in one dialect; `copy` forks it for a link that falls behind."""

    def render(self, batch: Batch) -> Rendered:
        """Return the frames that broadcast this batch."""

    def text_writer(self, delta: DeltaType) -> TextWriter | None:
        """Return a fast writer for further pieces of the block just rendered; None if `render` must write them."""

    def copy(self, request: str | None = None) -> SessionProjection:
        """Return an independent copy; with `request`, for the link that owns the current run from now on."""


class LineForm(Struct, frozen=True, kw_only=True):
    """Conversion between frames and the lines of `translate`, for dialects whose frames are not text.

    `read` raises PeerError.
    """

    read: Callable[[bytes], Frame]
    write: Callable[[bytes], bytes]


BurstFacts = tuple[tuple[str, str, Ext | None], int]
"""The request id, session and ext of a message, which all messages of a burst share, and its time."""


class Direction(Struct, Generic[T], frozen=True, kw_only=True):
    """A direction of a dialect without the state of any link: its codec and both rule tables.

    `write` returns one burst as wire messages, each item by itself. `envelope` returns the facts about a message that
    belong to its burst, None if the dialect's messages have none. `unwrap` returns the one frame of a ZeroMQ message
    that its receivers read, or raises PeerError. The transport wraps written frames again.
    """

    codec: Format
    to_canonical: Rules[[], T]
    from_canonical: RuleTable
    write: Callable[[Burst[T]], Rendered]
    envelope: Callable[[Any], BurstFacts] | None = None
    unwrap: Callable[[Parts], bytes] | None = None
    lines: LineForm | None = None

    def can_read_type(self, canonical: type) -> bool:
        """Return True if a message of this direction can become this canonical type."""
        return canonical in self.to_canonical.produced

    def can_write_type(self, canonical: type) -> bool:
        """Return True if this direction has a form, or an emulation, for this canonical type."""
        return not isinstance(self.from_canonical.entries[canonical].fidelity, Nothing)

    def can_read(self, frame: Frame) -> bool:
        """Return True if a frame is a message of this direction, even one of an unknown type."""
        if self.unwrap is None:
            with suppress(*MALFORMED, PeerError):
                message = self.codec.decode(frame)
                if type(message) in self.codec.watched:
                    self.codec.check(frame, message)
                return True
        step: Step[T] = Step()
        self.receive([frame], step)
        return not step.faults

    def receive(self, frames: Sequence[Frame], step: Step[T]) -> None:
        """Read `frames` into `step`: bursts, faults, and removed keys as losses."""
        if self.unwrap is not None:
            frames = _unwrapped(self.unwrap, frames, step)
        try:
            messages = list(map(self.codec.decode, frames))
            if not self.codec.watched.isdisjoint(map(type, messages)):
                for frame, message in zip(frames, messages, strict=True):
                    if type(message) in self.codec.watched:
                        self.codec.check(frame, message)
        except (*MALFORMED, PeerError):
            messages = self._mended(frames, step)
        functions, envelope = self.to_canonical.functions, self.envelope
        items: list[T] = []
        of_burst: BurstFacts | None = None
        for message in messages:
            kind = type(message)
            if kind is Unmapped:
                items.append(message)
                continue
            if envelope is not None:
                found = envelope(message)
                if of_burst is None or found[0] != of_burst[0]:
                    _flush(items, of_burst, step)
                    items, of_burst = [], found
            items += functions[kind](message)
        _flush(items, of_burst, step)

    def _mended(self, frames: Sequence[Frame], step: Step[T]) -> list[Any]:
        """Decode frames of which at least one is refused by the fast decoder; add the faults of the others."""
        messages: list[Any] = []
        for frame in frames:
            try:
                messages.append(self._decode_or_mend(frame, step))
            except PeerError as fault:
                step.mended += 1
                step.add_fault(fault)
        return messages

    def _decode_or_mend(self, frame: Frame, step: Step[T]) -> Any:
        try:  # `suppress` would be three more calls for each frame
            message = self.codec.decode(frame)
            if type(message) in self.codec.watched:
                self.codec.check(frame, message)
        except MALFORMED as error:
            if not isinstance(frame, bytes):
                raise _fault_of(frame) from error
            message, dropped = self.codec.mend(frame)
            step.mended += 1 + len(dropped) // KEYS_OF_FRAME
            step.losses += _undocumented(type(message).__name__, dropped)
        return message


def _unwrapped(unwrap: Callable[[Parts], bytes], frames: Sequence[Frame], step: Step[T]) -> list[bytes]:
    """Return the frames to read of these ZeroMQ messages; add a fault for each message without one."""
    unwrapped: list[bytes] = []
    for frame in frames:
        try:
            if isinstance(frame, Oversize | Missed):
                raise _fault_of(frame)
            unwrapped.append(unwrap(frame) if isinstance(frame, Parts) else frame)
        except PeerError as fault:
            step.add_fault(fault)
    return unwrapped


def _fault_of(frame: Parts | Oversize | Missed) -> PeerError:
    """Return the fault of a frame that is not bytes, for a dialect that reads only bytes."""
    match frame:
        case Oversize():
            return PeerError("too_large", frame.text, can_continue=not frame.endless, value=frame.first_members)
        case Missed():
            text = f"{frame.count} messages came faster than they were read, and were dropped"
            return PeerError("too_large", text)
        case Parts():
            return PeerError("invalid", "a message of several parts on a dialect of single frames")


def _undocumented(kind: str, paths: list[str]) -> list[Loss]:
    """Return the removed keys of one message as losses, at most PATHS_MAX because a peer chooses their names."""
    counted = Counter(path[:PATH_MAX] for path in paths).most_common(PATHS_MAX)
    rest = len(paths) - sum(count for _, count in counted)
    counts = [*counted, ("...", rest)] if rest else counted
    return [Loss(kind=kind, field=path, why="undocumented key", count=count) for path, count in counts]


def _flush(items: list[T], of_burst: BurstFacts | None, step: Step[T]) -> None:
    if items:
        (request, session, ext), at = of_burst or (("", "", None), 0)
        step.bursts.append(Burst(items=items, request=request, at=at, session=session, ext=ext))


class Instance(Struct, frozen=True, kw_only=True):
    """The identity of one listener, in dialects whose servers have one.

    `started_at` is in ns. `sessions` returns the number of sessions to show. `topics` has the topic prefixes with a
    subscriber; the default b"" matches all topics. If it is empty, nothing is published.
    """

    id: str
    started_at: int
    sessions: Callable[[], int] = int
    topics: set[bytes] = field(default_factory=lambda: {b""})


def _nothing(_frame: bytes) -> int:
    return 0


class CommandCost(Struct, frozen=True, kw_only=True):
    """The cost of a client's frames, as far as it is known before they are decoded.

    `work` is the CPU time of a small request, in pings of smooth. A frame that contains one of `inputs` may begin a
    turn, which takes far more. `large_part` returns the size (bytes) of the parts of a frame that do not count for
    `max_command`: attachments and the like.
    """

    work: int = 1
    inputs: tuple[bytes, ...] = ()
    large_part: Callable[[bytes], int] = _nothing


def _own_id(session: str, _backend_ids: Ext | None) -> tuple[str, ...]:
    return (session,)


def _never(_command: object, _opening: object) -> bool:
    return False


LostTurn = Literal["ends", "kept", "reachable", "goes_on"]
"""The fate of a server's turn whose connection is lost.

    ends       the turn ends with its connection
    kept       the server may still run the turn, or know its question
    reachable  like kept, and a later connection reaches the turn by its session: a command about it opens the session
    goes_on    the turn goes on for us: the client translator may be opened again on the next connection
"""


class Dialect(Struct, frozen=True, kw_only=True):
    """The record of a dialect: everything that the gateway knows about it.

    A small dialect needs only the fields without a default.
    """

    name: str
    generations: tuple[str, ...]
    events: Direction[Event]
    commands: Direction[Command]
    # Factories of the translator for a link on which we are the server, or the client.
    server: MakeServer
    client: MakeClient
    # The factory of projections, called with a request and a view.
    projection: Callable[[str, str], SessionProjection]

    # -- links and sessions ----------------------------------------------------------------------------

    # A connection to a backend has a single session.
    single_session: bool = False
    # Set if one link carries all sessions of a backend: returns the backend_ids for the backend's own session id.
    session_ref: Callable[[str], Ext | None] | None = None
    # The ids by which clients know a canonical session, called with its id and its backend_ids.
    public_ids: Callable[[str, Ext | None], tuple[str, ...]] = _own_id
    # Frames carry a request id: the link that began a turn gets frames that differ from those of other links.
    has_request_ids: bool = False
    # Returns a copy of this record for one listener, given its identity.
    served: Callable[[Instance], Dialect] | None = None
    # Makes the translator of the link that publishes to all clients, if `server` only answers calls
    # (docs/design.md, section 5).
    publication: Callable[[Clock, NewId], Translator[Command, Event]] | None = None

    # -- its servers -----------------------------------------------------------------------------------

    # The fate of a turn whose connection is lost.
    lost_turn: LostTurn = "ends"
    # Servers store every message and answer requests for history at any time; else the session's transcript answers.
    stores_history: bool = False
    # A history that the server sends without a request contains tool calls, not only messages.
    lists_calls: bool = True
    # The ext of a ResumeSession that adds items of another history to a conversation, if a server accepts such.
    takes_history: Callable[[Sequence[Item]], Ext | None] | None = None
    # Servers list a session from its start, not only after its first message.
    lists_silent: bool = False
    # A rename names a session as lists do; the other commands use another id, which servers look up.
    renames_listed: bool = False
    # Inputs may have images, as `data:` URLs.
    takes_images: bool = False
    # Why a server may not answer in time, and what to do: a part of the error's text.
    why_late: str = ""
    # Makes a reader that interprets a server's events without seeing the commands. Set if an answer's meaning
    # depends on its command.
    overheard: Callable[[], Callable[[Sequence[Event]], list[Event]]] | None = None

    # -- its clients -----------------------------------------------------------------------------------

    # The cost of their frames.
    cost: CommandCost = CommandCost()
    # A client cancels only the turn that its own link began, or that a client began which has left.
    cancels_own_turns: bool = False
    # True for a ResumeSession that also changes its session, which was opened by this OpenSession: a server of this
    # dialect gets it for an open session too.
    changes_session: Callable[[ResumeSession, OpenSession | None], bool] = _never
    # A client that resumes an unknown session gets another one instead of a refusal.
    resumes_unknown: bool = False
    # A client that opens or reads a session is answered with its whole history.
    answers_with_history: bool = False
    # Renders in slices what `attach` shows of a history, keeps it in the state, and yields the work of each slice: its
    # bytes, and what its entries take beside them. Set if a client is shown the whole history at once.
    render_history: Callable[[SessionState], Iterator[int]] | None = None
