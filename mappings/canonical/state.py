"""The state of a session, computed from its log: the only mutable value of the model.

gateway/session/ applies events to it. Each dialect's from_canonical/ renders it for clients. Text is kept as a list of
pieces until its block is complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Raw, Struct, field, structs

from dragoman.mappings.canonical.commands import OpenSession
from dragoman.mappings.canonical.events import (
    Alert,
    ApprovalRequested,
    ApprovalResolved,
    ErrorReported,
    Gap,
    InteractionRequired,
    InteractionResolved,
    ModelTurnStarted,
    OtpRequired,
    QuestionAnswered,
    QuestionAsked,
    ReasoningDelta,
    ReasoningDone,
    ReasoningStarted,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    TurnResult,
)
from dragoman.mappings.canonical.unions import Event
from dragoman.mappings.canonical.values import (
    BackendInfo,
    End,
    Ext,
    Item,
    Message,
    Origin,
    Segment,
    SessionSummary,
    Status,
    Usage,
)

ALERTS_KEPT = 64  # docs/translation.md, rule 3.14: replayed to late joiners; the oldest are dropped
ALERTS_SIZE = 64 * 1024  # characters of them
SHORTENED_MAX = 64 * 1024  # characters of a text that are compared sign by sign: that many signs take 20 ms
_TOKEN = re.compile(r"\w+|[^\w\s]")  # a word, or a sign beside one


class Batch(Struct, frozen=True, kw_only=True, gc=False):
    """Events of one session that go out together, never across the boundary of a turn (docs/design.md, section 3).

    `turn` is the UUID of the turn, "" outside of any turn. `at` is in ns. Event i of the batch has the log position
    `epoch:first_seq + i`. `ids` are further ids of the session, as in `SessionState.backend_ids`.
    """

    session: str
    epoch: int
    first_seq: int
    events: list[Event]
    turn: str = ""
    origin: Origin = Origin()
    at: int = 0
    ids: Ext | None = None


class TextBlock(Struct, kw_only=True):
    """A block of visible text."""

    parts: list[str] = field(default_factory=list)
    done: bool = False
    at: int = 0  # the time of its beginning in ns, here and below


class ReasoningBlock(Struct, kw_only=True):
    """A block of reasoning."""

    parts: list[str] = field(default_factory=list)
    done: bool = False
    at: int = 0


class CallBlock(Struct, kw_only=True):
    """A tool call: fragments of its arguments until `arguments` is complete, then its result."""

    call: str
    name: str
    parts: list[str] = field(default_factory=list)
    arguments: str | None = None
    result: ToolCallFinished | None = None
    at: int = 0


class ResultBlock(Struct, kw_only=True):
    """The result of a call at its place in the turn: parallel calls end in any order."""

    result: ToolCallFinished
    at: int = 0


Question = ApprovalRequested | InteractionRequired
"""The events that ask the user something, and park the turn until the answer."""

Resolution = ApprovalResolved | InteractionResolved
"""The events that close a question."""


class QuestionBlock(Struct, kw_only=True):
    """An open question: the backend's event, and its form in words unless the route answers it automatically."""

    asked: Question
    words: QuestionAsked | None = None


class Otp(Struct, frozen=True, kw_only=True):
    """A one-time code that the backend waits for; `refused` is the input to send again after the right code."""

    asked: OtpRequired
    refused: tuple[Segment, ...] = ()


Block = TextBlock | ReasoningBlock | CallBlock | ResultBlock | QuestionBlock | QuestionAnswered
"""A block of a turn, in order of appearance. QuestionAnswered replaces the block of its question: events that came
while the question was open belong to the run after it."""


class OpenTurn(Struct, kw_only=True):
    """The turn in progress.

    `now` is the time of the last event (ns). `spoke` is True if the current run has shown any text. A turn may have
    thousands of blocks, so some are also kept apart: `texts` has those of text, `incomplete` the calls whose arguments
    are not complete, and `running` those without a result, by the name of the tool.
    """

    id: str
    message: str
    origin: Origin = Origin()
    started_at: int = 0
    now: int = 0
    accepted: bool = False
    blocks: list[Block] = field(default_factory=list)
    texts: list[TextBlock] = field(default_factory=list)
    open: TextBlock | ReasoningBlock | None = None
    calls: dict[str, CallBlock] = field(default_factory=dict)
    incomplete: dict[str, CallBlock] = field(default_factory=dict)
    running: dict[str, dict[str, CallBlock]] = field(default_factory=dict)
    usage: Usage | None = None
    result: End | None = None
    result_ext: Ext | None = None
    errors: list[ErrorReported] = field(default_factory=list)
    model_turn: ModelTurnStarted | None = None
    in_model_turn: bool = False
    question: QuestionBlock | None = None
    spoke: bool = False
    asked: int = 0  # the number of runs that ended with a question in words

    def text(self) -> str:
        """Return all visible text of the turn so far, without separators (docs/translation.md, rule 3.7)."""
        parts: list[str] = []
        for block in self.texts:
            parts += block.parts
        return "".join(parts)

    def is_shortened_in(self, text: str) -> bool:
        """Return True if `text` lacks some words or signs of the turn's visible text, but has the others in order.

        Return False if one of them has more than SHORTENED_MAX characters.
        """
        sent, text = self.text().strip(), text.strip()
        if sent.startswith(text) or sent.endswith(text) or max(len(sent), len(text)) > SHORTENED_MAX:
            return False
        tokens, shown = iter(_TOKEN.findall(sent)), _TOKEN.findall(text)
        return bool(shown) and all(token in tokens for token in shown)

    def correct_text(self, text: str) -> None:
        """Replace the visible text of the turn by `text`; blocks that match its beginning or end stay unchanged."""
        texts = [(block, "".join(block.parts)) for block in self.texts]
        start, end = 0, len(texts)
        begin, stop = 0, len(text)  # of the part that no block matches
        while start < end and text.startswith(texts[start][1], begin, stop):
            begin += len(texts[start][1])
            start += 1
        while start < end and text.endswith(texts[end - 1][1], begin, stop):
            stop -= len(texts[end - 1][1])
            end -= 1
        text = text[begin:stop]
        wrong = [block for block, _ in texts[start:end]]
        if text and wrong:
            wrong.pop().parts = [text]
        elif text and start < len(texts):
            texts[start][0].parts.insert(0, text)
        elif text:
            added = TextBlock(parts=[text], done=True, at=self.now)
            self.blocks.append(added)
            self.texts.append(added)
        removed = set(map(id, wrong))
        self.blocks = [block for block in self.blocks if id(block) not in removed]
        self.texts = [block for block in self.texts if id(block) not in removed]


class RenderedHistory(Struct, frozen=True, kw_only=True):
    """A history as the frame that clients are shown, and the objects of the state that it was made of."""

    frame: bytes
    sources: tuple[object, ...]


class SessionState(Struct, kw_only=True):
    """The state of a session as the gateway knows it."""

    id: str
    title: str = ""  # "" means that the session has no name
    owner: str = "local"
    agent: str = ""
    status: Status = "idle"
    found_running: int | None = None  # the run, by its number in the history, that was in progress when that came
    opened_at: int = 0  # ns
    updated_at: int = 0
    backend: BackendInfo = BackendInfo()
    transcript: list[Item] = field(default_factory=list)
    fresh: int = 0  # the index of the first item after the end of the last turn
    earlier_calls: dict[str, str | None] = field(default_factory=dict)  # of ended turns: id -> tool; None: has a result
    turn: OpenTurn | None = None
    alerts: list[Alert] = field(default_factory=list)  # the newest ALERTS_KEPT
    snapshot_ext: Ext | None = None
    conversation: str = ""  # the backend's id of its last history
    summed_up: int = 0  # the number of transcript items that a summary in `snapshot_ext` replaces
    otp: Otp | None = None
    opening: OpenSession | None = None  # the OpenSession sent to a backend that opens conversations
    backend_ids: Ext | None = None  # the ids that the backend gave; clients of the same dialect see these
    chosen_ids: Ext | None = None  # ids that a client chose, in the form of `backend_ids`
    abandoned: str = ""  # the backend's request id of our turn that a lost connection left behind; "" if there is none
    cut_off: str = ""  # the last turn, if it failed with its connection: its run may go on at the backend
    forgotten: Gap | None = None  # the last Gap with `context`: the model has forgotten the conversation
    listed: SessionSummary | None = None  # the backend's description of it in a list
    archived: bool = False
    goal: Raw | None = None  # the backend's JSON
    trace: Mapping[str, str] | None = None  # the headers of the W3C trace context in which it was opened
    hops: int = 0  # the number of other gateways between the client that opened it and this one
    rendered: dict[str, RenderedHistory] = field(default_factory=dict)  # by dialect, if it shows a history in one frame
    epoch: int = 1
    seq: int = 0

    @property
    def ids(self) -> Ext | None:
        """Return the ids by which clients know the session: the backend's ids, else the ids that a client chose."""
        return self.chosen_ids if self.backend_ids is None else self.backend_ids

    def add_alert(self, alert: Alert) -> None:
        """Add an alert, and drop the oldest beyond ALERTS_KEPT, or beyond ALERTS_SIZE. A longer one is not kept."""
        if len(alert.text) > ALERTS_SIZE:
            return
        self.alerts.append(alert)
        while len(self.alerts) > ALERTS_KEPT or sum(len(kept.text) for kept in self.alerts) > ALERTS_SIZE:
            del self.alerts[0]

    def messages(self) -> list[Message]:
        """Return the messages of user and assistant, oldest first, with the text blocks of a turn joined.

        Lists of messages count these, and history pages show them.
        """
        return [*self.newest_messages()][::-1]

    def newest_messages(self, end: int | None = None, passed: list[Item] | None = None) -> Iterator[Message]:
        """Yield the messages of `messages`, newest first; each message is built only when it is needed.

        With `end`, only messages among the first `end` items of the transcript are yielded. Calls, results, thoughts
        and system messages before the next message are added to `passed`.
        """
        blocks: list[Message] = []  # of one message, newest first
        later = 0 if end is None else len(self.transcript) - end
        for item in islice(reversed(self.transcript), later, None):
            if not isinstance(item, Message) or item.role == "system":
                if passed is not None:
                    passed.append(item)
                continue
            if blocks and not continues(item, blocks[0]):
                yield _joined(blocks)
                blocks = []
            blocks.append(item)
        if blocks:
            yield _joined(blocks)


def _joined(blocks: Sequence[Message]) -> Message:
    """Join the text blocks of one message, given newest first; the message gets the newest block's id, if any."""
    if len(blocks) == 1:
        return blocks[0]
    text = "".join(block.text for block in reversed(blocks))
    return structs.replace(blocks[-1], text=text, id=next((block.id for block in blocks if block.id), ""))


def continues(last: Message | None, message: Message) -> bool:
    """Return True if `message` continues `last`: both are answers of one turn, so they are one message."""
    return last is not None and last.role == message.role == "assistant" and last.turn == message.turn != ""


def prelude(state: SessionState) -> list[Event]:
    """Return the open turn as ordinary events, for a client that joins in its middle; [] between turns."""
    turn = state.turn
    if turn is None:
        return []
    events: list[Event] = []
    if turn.model_turn is not None:
        events.append(turn.model_turn)
    for block in turn.blocks:
        events.extend(_replay(block))
    events.extend(turn.errors)
    if turn.result is not None:
        events.append(TurnResult(end=turn.result, ext=turn.result_ext))
    return events


def _replay(block: Block) -> Iterator[Event]:
    if isinstance(block, ResultBlock):
        yield block.result
    elif isinstance(block, QuestionAnswered):
        yield structs.replace(block, segments=())
    elif isinstance(block, QuestionBlock):
        yield block.asked
        if block.words is not None:
            yield block.words
    elif isinstance(block, CallBlock):
        yield from _call(block)
    elif isinstance(block, TextBlock):
        yield from _text(block)
    else:
        yield from _reasoning(block)


def _call(block: CallBlock) -> Iterator[Event]:
    yield ToolCallStarted(call=block.call, name=block.name)
    if block.arguments is not None:
        yield ToolCallArguments(call=block.call, name=block.name, json=block.arguments, done=True)
    elif block.parts:
        yield ToolCallArguments(call=block.call, name=block.name, json="".join(block.parts))


def _text(block: TextBlock) -> Iterator[Event]:
    text = "".join(block.parts)
    if text:
        yield TextDelta(text=text)
    if block.done:
        yield TextDone(text=text)


def _reasoning(block: ReasoningBlock) -> Iterator[Event]:
    text = "".join(block.parts)
    yield ReasoningStarted()
    if text:
        yield ReasoningDelta(text=text)
    if block.done:
        yield ReasoningDone(text=text)
