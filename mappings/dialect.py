"""What a dialect is to the gateway: a record, two translators and a projection.

A *translator* belongs to one link and keeps its protocol state; a *projection* belongs to one session and renders
what is broadcast, once for all links that see the same. Both are pure and synchronous: frames in, a Step or Rendered
out. Times, ids and randomness are injected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar

from msgspec import Struct, field

from dragoman.mappings.canonical import Batch, Command, Event, SessionState, Unmapped
from dragoman.mappings.canonical.commands import ResumeSession
from dragoman.mappings.canonical.values import Ext, Item
from dragoman.mappings.codec import MALFORMED, Format
from dragoman.mappings.errors import PeerError
from dragoman.mappings.rules import Nothing, Rules, RuleTable

T = TypeVar("T")
"""Event or Command."""

Heard = TypeVar("Heard")
Said = TypeVar("Said", contravariant=True)

PATH_MAX = 200  # characters of an undocumented key's path that its loss tells
PATHS_MAX = 64  # undocumented keys of one message that are told apart

Clock = Callable[[], int]
"""Nanoseconds since the Unix epoch, read once a batch."""

NewId = Callable[[], str]
"""A fresh UUID as text."""


class Parts(Struct, frozen=True):
    """A ZeroMQ message: which socket, whose, and its frames."""

    channel: str
    identity: bytes
    parts: tuple[bytes, ...]


class Oversize(Struct, frozen=True):
    """Stands where a frame was that the adapter refused: `size` bytes or parts (so far) against a limit of `limit`."""

    size: int
    limit: int
    unit: Literal["bytes", "parts"] = "bytes"


class Missed(Struct, frozen=True):
    """Stands where `count` messages of `channel` were that nobody asked for in time: the adapter dropped them."""

    channel: str
    count: int


Frame = bytes | Parts | Oversize | Missed


class Loss(Struct, frozen=True, kw_only=True, gc=False):
    """Something of a message did not arrive: its kind, the field ("" is all of it), why, and a sample (bounded)."""

    kind: str
    field: str = ""
    why: str = ""
    sample: str = ""
    count: int = 1


class Burst(Struct, Generic[T], frozen=True, kw_only=True, gc=False):
    """What one peer said in a row: under one request id ("" if its dialect has none) and at one time.

    `at` is in ns, 0 where the dialect carries no time. `items` are in order, either events (`Burst[Event]`) or
    commands (`Burst[Command]`). `session` is the
    peer's own id of the session that they belong to, where a link carries many; `ext` the documented fields of the
    envelope without a canonical place.
    """

    items: list[T]
    request: str = ""
    at: int = 0
    session: str = ""
    ext: Ext | None = None


class Alarm(Struct, Generic[T], frozen=True):
    """A translator asks for time: call `callback` in `after` seconds and act on its Step, unless the link has ended.

    A translator keeps at most one alarm waiting and asks again when it rang; it decides itself what is due by then.
    """

    after: float
    callback: Callable[[], Step[T]]


class Step(Struct, Generic[T], kw_only=True):
    """What came of one step of a translator.

    `bursts`: what the gateway must act on. `frames`: for this very peer. `faults`: what the peer did wrong; one that
    cannot go on closes the link after its frames. `losses`: what was dropped. `alarm`: when the translator wants to be
    asked again.
    """

    bursts: list[Burst[T]] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    faults: list[PeerError] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    alarm: Alarm[T] | None = None

    def add_fault(self, fault: PeerError) -> None:
        """Add a fault that was raised, without its traceback and causes.

        Those hold the stack frames of the parser, and with them the bytes that it read and this step itself.
        """
        fault.__traceback__ = fault.__cause__ = fault.__context__ = None
        self.faults.append(fault)


class Rendered(Struct, frozen=True, kw_only=True, gc=False):
    """Events as one dialect broadcasts them, and what it has no word for."""

    frames: list[bytes]
    losses: list[Loss]


class Translator(Protocol[Heard, Said]):
    """The protocol of one link.

    `Translator[Command, Event]` serves a client, `Translator[Event, Command]` a backend.
    """

    @property
    def view(self) -> str:
        """What this peer is shown otherwise than others of its dialect: links of one view share a projection."""

    @property
    def has_pending_replies(self) -> bool:
        """Whether the peer still waits for answers, though it may have ended its own direction."""

    def opened(self) -> Step[Heard]:
        """What is said first on this link."""

    def receive(self, frames: Sequence[Frame]) -> Step[Heard]:
        """The peer said this. Never raises: what is wrong comes as faults."""

    def send(self, items: Sequence[Said]) -> Step[Heard]:
        """Say this to the peer: replies when we play the server, commands when we play the client."""

    def attach(self, state: SessionState, request: str) -> Step[Heard]:
        """Show this session to the peer, which asked by `request` ("" by connecting)."""

    def on_delivered(self, batch: Batch) -> Step[Heard]:
        """This batch went out to the peer: it begins or ends a run that the peer began."""

    def can_be_asked(self, question: Event) -> bool:
        """Whether the peer has a form for this question; else it is asked in words (docs/translation.md, rule 3.3)."""

    def closed(self, cause: str) -> Step[Heard]:
        """The link is about to close: what is said last."""


class MakeServer(Protocol):
    """Makes the translator for a link whose peer is a client, of a generation that the listener names ("": default)."""

    def __call__(self, clock: Clock, new_id: NewId, generation: str = "") -> Translator[Command, Event]: ...


class SessionProjection(Protocol):
    """The rendering of one session in one dialect; `copy` forks it for a link that falls behind."""

    def render(self, batch: Batch) -> Rendered:
        """The frames that broadcast this batch."""

    def copy(self, request: str | None = None) -> SessionProjection:
        """An independent projection in the same state; with `request` for the link whose run this is from here on."""


class LineForm(Struct, frozen=True, kw_only=True):
    """How a dialect whose frames are no text stands in the lines of `translate`. `read` raises PeerError."""

    read: Callable[[bytes], Frame]
    write: Callable[[bytes], bytes]


class Direction(Struct, Generic[T], frozen=True, kw_only=True):
    """One direction of a dialect, without any link's state: its codec and both rule tables.

    `envelope` reads request id and time (ns) off a message, None where the dialect's messages carry neither; `place`
    session and ext of the envelope, None where they have none. `write` says one burst in wire messages, each item by
    itself: nothing is added that another item would bring. `unwrap` finds the one frame of a ZeroMQ message that its
    receivers read (raises PeerError); what is written is that frame, and the transport wraps it again.
    """

    codec: Format
    to_canonical: Rules[[], T]
    from_canonical: RuleTable
    envelope: Callable[[Any], tuple[str, int]] | None
    write: Callable[[Burst[T]], Rendered]
    place: Callable[[Any], tuple[str, Ext | None]] | None = None
    unwrap: Callable[[Parts], bytes] | None = None
    lines: LineForm | None = None

    def says(self, canonical: type) -> bool:
        """Whether a message of this direction can mean this canonical type."""
        return any(canonical in rule.produces for rule in self.to_canonical.entries.values())

    def can_say(self, canonical: type) -> bool:
        """Whether this direction has a word, or an emulation, for this canonical type."""
        return not isinstance(self.from_canonical.entries[canonical].fidelity, Nothing)

    def receive(self, frames: Sequence[Frame], step: Step[T]) -> None:
        """Read `frames` into `step`: bursts, faults, and dropped keys as losses."""
        if self.unwrap is not None:
            frames = self._unwrapped(frames, step)
        if self.envelope is None:
            try:
                messages = list(map(self.codec.decode, frames))  # type: ignore[arg-type]  # raises: the other path
            except MALFORMED:
                pass
            else:
                if self.codec.watched.isdisjoint(map(type, messages)):
                    functions = self.to_canonical.functions
                    events: list[T] = []
                    for message in messages:
                        events += functions[type(message)](message)
                    if events:
                        step.bursts.append(Burst(items=events))
                    return
        elif len(frames) == 1 and self._received_one(frames[0], step):
            return
        self._receive_slowly(frames, step)

    def _received_one(self, frame: Frame, step: Step[T]) -> bool:
        """Read a frame that came alone, as tokens at reading speed do; False where it takes a second look."""
        if self.envelope is None or self.place is not None:
            return False
        try:
            message = self.codec.decode(frame)  # type: ignore[arg-type]  # raises: the other path
        except MALFORMED:
            return False
        kind = type(message)
        if kind in self.codec.watched or kind is Unmapped:
            return False
        items = list(self.to_canonical.functions[kind](message))
        if items:
            request, at = self.envelope(message)
            step.bursts.append(Burst(items=items, request=request, at=at))
        return True

    def _unwrapped(self, frames: Sequence[Frame], step: Step[T]) -> list[Frame]:
        unwrap = self.unwrap
        found: list[Frame] = []
        for frame in frames:
            try:
                if type(frame) is Parts and unwrap is not None:
                    found.append(unwrap(frame))
                elif isinstance(frame, bytes):
                    found.append(frame)
                else:
                    self._mend(frame, TypeError("no frame of a peer"), step)
            except PeerError as fault:
                step.add_fault(fault)
        return found

    def _receive_slowly(self, frames: Sequence[Frame], step: Step[T]) -> None:
        decode, functions, envelope = self.codec.decode, self.to_canonical.functions, self.envelope
        place = self.place
        watched = self.codec.watched
        suspicious = self.codec.suspicious
        items: list[T] = []
        burst_of: tuple[str, int] | None = None
        where = before = NOWHERE
        for frame in frames:
            try:
                message = decode(frame)  # type: ignore[arg-type]  # what is not bytes raises TypeError: the rare path
                if type(message) in watched and suspicious(frame, message):  # type: ignore[arg-type]  # as above
                    self.codec.check(frame)  # type: ignore[arg-type]  # as above
            except (*MALFORMED, PeerError) as error:
                try:
                    message = self._mend(frame, error, step)
                except PeerError as fault:
                    step.add_fault(fault)
                    continue
            kind = type(message)
            if kind is Unmapped:
                items.append(message)
                continue
            if envelope is not None:
                said = envelope(message)
                if place is not None:
                    where = place(message)
                if burst_of is None or said[0] != burst_of[0] or where != before:
                    _flush(items, burst_of, step, before)
                    items, burst_of, before = [], said, where
            items += functions[kind](message)
        _flush(items, burst_of, step, before)

    def _mend(self, frame: Frame, error: Exception, step: Step[T]) -> Any:
        if isinstance(error, PeerError):
            raise error
        if isinstance(frame, Oversize):
            raise PeerError("too_large", f"message of {frame.size} {frame.unit} is over the limit of {frame.limit}")
        if isinstance(frame, Missed):
            raise PeerError("too_large", f"{frame.count} messages came faster than they were read, and were dropped")
        if isinstance(frame, Parts):
            raise PeerError("invalid", "a message of several parts on a dialect of single frames")
        message, dropped = self.codec.mend(frame)
        step.losses += _undocumented(type(message).__name__, dropped)
        return message


def _undocumented(kind: str, paths: list[str]) -> list[Loss]:
    """The keys that were taken out of one message, bounded: their names are the peer's own."""
    counted = Counter(path[:PATH_MAX] for path in paths).most_common(PATHS_MAX)
    rest = len(paths) - sum(count for _, count in counted)
    told = [*counted, ("...", rest)] if rest else counted
    return [Loss(kind=kind, field=path, why="undocumented key", count=count) for path, count in told]


NOWHERE: tuple[str, Ext | None] = ("", None)


def _flush(
    items: list[T], burst_of: tuple[str, int] | None, step: Step[T], where: tuple[str, Ext | None] = NOWHERE
) -> None:
    if items:
        request, at = burst_of or ("", 0)
        session, ext = where
        step.bursts.append(Burst(items=items, request=request, at=at, session=session, ext=ext))


class Instance(Struct, frozen=True, kw_only=True):
    """Who we are on one listener, in dialects whose servers have an identity: since when (ns), for which folder.

    `sessions` says how many sessions there are to show right now.
    """

    id: str
    started_at: int
    path: str = ""
    sessions: Callable[[], int] = int


def _nothing(_command: ResumeSession) -> int:
    return 0


class Dialect(Struct, frozen=True, kw_only=True):
    """Everything the gateway knows of a dialect.

    `server` and `client` make the translator for a link on which we play that role. `projection(request, view)` makes a
    projection; `has_request_ids` says that its frames carry a request id, so that the link which began a turn sees
    another rendering than the rest. `public_ids(session, backend_ids)` are the ids under which its clients know a
    canonical session. `single_session` says that a backend of this dialect holds a single session; `session_ref` that
    one link carries all sessions of a backend, and gives the backend_ids of the one that the backend calls so.
    `publication` makes the translator of the link that broadcasts to everybody, where `server` serves calls alone
    (docs/design.md, section 5), and `served` is this record as the listener with that identity speaks it.
    `turn_outlives_connection` says that a turn of such a backend goes on while we are not connected; its client
    translator may be opened again on the next connection. `lists_silent` says that its servers list a session from its
    start, not only once something was said in it. `overheard` makes the reader of one stream of events by who does not
    know what was asked, where that decides what an answer means. `tells_calls` says that a history which comes unasked
    has the tool calls too, and not messages alone. `takes_history` is the ext of a ResumeSession that brings what was
    said elsewhere into a conversation, None where a backend has no way to take it; `brings_history` counts what a
    client's does. `stores_history` says that its servers store every message and answer a request for history at any
    time; else the session's own transcript answers it.
    """

    name: str
    generations: tuple[str, ...]
    events: Direction[Event]
    commands: Direction[Command]
    server: MakeServer
    client: Callable[[Clock, NewId], Translator[Event, Command]]
    projection: Callable[[str, str], SessionProjection]
    public_ids: Callable[[str, Ext | None], tuple[str, ...]]
    has_request_ids: bool
    single_session: bool
    turn_outlives_connection: bool = False
    lists_silent: bool = False
    session_ref: Callable[[str], Ext | None] | None = None
    publication: Callable[[Clock, NewId], Translator[Command, Event]] | None = None
    served: Callable[[Instance], Dialect] | None = None
    overheard: Callable[[], Callable[[Sequence[Event]], list[Event]]] | None = None
    tells_calls: bool = True
    takes_history: Callable[[Sequence[Item]], Ext | None] | None = None
    brings_history: Callable[[ResumeSession], int] = _nothing
    stores_history: bool = False
