"""Find out how a turn continued after its connection to the backend was lost (docs/translation.md, rule 4.10).

A backend that outlives its connections sends its history over each new one. `find_turn` finds the input of the open
turn there, and returns the state of that turn:

    running   its run continues       the missed events are sent now; its further events follow
    ended     its run has an end      the missed events are sent now, then that end
    unknown   the history has neither the turn is lost

Another gateway, as the backend, ends a run with a question in words. The answer begins our next turn, but there it is
the rest of the run that was asked. Its history has that run under its first input, without question and answer. So the
runs before the open turn may be parts of the same run at the backend.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct, structs

from dragoman.gateway.session.wording import ends_with_question
from dragoman.mappings.canonical import Event, OpenTurn, SessionState, events
from dragoman.mappings.canonical.state import CallBlock, ReasoningBlock, TextBlock
from dragoman.mappings.canonical.values import (
    End,
    Failure,
    Item,
    Message,
    PastRun,
    Reasoning,
    ToolCall,
    ToolResult,
    answers,
    content_of,
    is_chat_message,
)


class FoundTurn(Struct, frozen=True, kw_only=True):
    """The state of a turn. `own` are the items of its run after its input, as far as the history has them."""

    verdict: Literal["running", "ended", "unknown"]
    own: tuple[Item, ...] = ()
    end: End = "completed"
    failure: Failure | None = None

    @property
    def ends_in_text(self) -> bool:
        """True if the last item of the run in the history is a text of the assistant."""
        last = self.own[-1] if self.own else None
        return last is not None and is_chat_message(last, "assistant")

    def ending_events(self) -> list[Event]:
        """Return the events that end the turn as the history shows it."""
        status = events.StatusChanged(status="paused" if self.end == "paused" else "idle")
        if self.failure is not None:
            return [events.ErrorReported(cause=self.failure.cause, text=self.failure.text), status]
        return [events.TurnResult(end=self.end), status]


UNKNOWN = FoundTurn(verdict="unknown")


def find_turn(state: SessionState, text: str | None, history: events.HistorySnapshot, begin: int) -> FoundTurn:
    """Return the state of the turn of the input `text` as `history` shows it. `text` is None if the turn has no input
    of its own.

    `state` is as it was when the connection was lost: with that turn open, or with the input not accepted yet. The
    run of the turn begins with the item `begin` of the transcript.
    """
    if state.conversation and history.conversation and state.conversation != history.conversation:
        return UNKNOWN
    before = state.transcript[:begin]
    if text is None:
        number = state.found_running
        runs = _new_runs(before, history) if number is None else history.runs[number:]
        if not runs and history.status == "running":
            return FoundTurn(verdict="running")
        if len(runs) != 1:
            return UNKNOWN
        found = _state_of_run(runs[0], runs[0].first, history)
        return found if number is None else structs.replace(found, own=without_items(found.own, before))
    at, is_known = _find_input(before, text, history)
    if at is not None:
        run = next((run for run in history.runs if run.last > at), None)
        return _state_of_run(run, at + 1, history)
    is_untouched = state.turn is not None and state.turn.accepted and not state.turn.blocks
    if is_known and is_untouched:  # a pod takes an input back that it had not begun to answer
        return FoundTurn(verdict="ended", end="rolled_back")
    return UNKNOWN


def _state_of_run(run: PastRun | None, first: int, history: events.HistorySnapshot) -> FoundTurn:
    is_last = run is None or run is history.runs[-1]
    own = history.items[first : run.last if run is not None else None]
    if history.status == "running" and is_last:
        return FoundTurn(verdict="running", own=own)
    if run is None or run.end is None:
        return UNKNOWN
    is_paused = run.end == "cancelled" and is_last and history.status == "paused"  # a pod's log has one entry for both
    return FoundTurn(verdict="ended", own=own, end="paused" if is_paused else run.end, failure=run.failure)


def _new_runs(before: Sequence[Item], history: events.HistorySnapshot) -> list[PastRun]:
    """Return the runs after the items that were known before the turn; the log has no answers that were cut off.

    If the history was rewritten meanwhile, return its last run.
    """
    known, inputs = _inputs(before), _inputs(history.items)
    count = _count_known([text for _, text in known], [text for _, text in inputs])
    if count is None:
        return [*history.runs[-1:]]
    begin = inputs[count - 1][0] + 1 if count else 0
    heard = {*answers(before[known[-1][0] :] if known else before)}
    return [
        run
        for run in history.runs
        if run.first >= begin and heard.isdisjoint(answers(history.items[run.first : run.last]))
    ]


def _inputs(items: Sequence[Item]) -> list[tuple[int, str]]:
    """Return the index and the text of each input of a user."""
    return [(i, item.text) for i, item in enumerate(items) if is_chat_message(item, "user")]


def _find_input(before: Sequence[Item], text: str, history: events.HistorySnapshot) -> tuple[int | None, bool]:
    """Return the index of the input, and True if the history is known to agree with the items before it.

    In a history that was rewritten meanwhile, it is the input after the known ones of the same text, or the last one.
    """
    known = [one for _, one in _inputs(before)]
    inputs = _inputs(history.items)
    count = _count_known(known, [one for _, one in inputs])
    if count is not None:
        rest = inputs[count:]
        is_there = bool(rest) and rest[0][1] == text
        return (rest[0][0] if is_there else None), count == len(known) and bool(known or history.conversation)
    places = [i for i, one in inputs if one == text]
    return (places[min(known.count(text), len(places) - 1)] if places else None), False


def _count_known(known: list[str], inputs: list[str]) -> int | None:
    """Return how many inputs of a history were known before; None if it was rewritten.

    A compaction replaces the oldest inputs by a summary, so the longest end of `known` with which `inputs` begin
    counts. The prefix function of Knuth, Morris and Pratt finds it in linear time: a malicious backend could send equal
    inputs, for which comparing all texts for each count would take quadratic time.
    """
    texts = [*inputs[: len(known)], None, *known]
    lengths = [0]  # for each text, how many of the first texts the texts up to it end with
    for text in texts[1:]:
        length = lengths[-1]
        while length and texts[length] != text:
            length = lengths[length - 1]
        lengths.append(length + (texts[length] == text))
    return lengths[-1] if lengths[-1] or not known else None


# -- the runs before the turn that are parts of its run at the backend ----------------------------------


def start_of_run(state: SessionState) -> int:
    """Return the index in the transcript at which the backend's run of the open turn, or of a new input, begins."""
    begin = state.fresh
    while begin and _parks(last := state.transcript[begin - 1]):
        while begin and state.transcript[begin - 1].turn == last.turn:
            begin -= 1
    return begin


def _parks(item: Item) -> bool:
    return is_chat_message(item, "assistant") and ends_with_question(item.text)


def items_of_earlier_turns(state: SessionState) -> list[Item]:
    """Return the items of the backend's run in earlier turns, without questions in words and answers to them."""
    items = state.transcript[start_of_run(state) : state.fresh]
    heard: list[Item] = []
    for item in items:
        if not isinstance(item, Message):
            heard.append(item)
        elif item.role == "assistant":
            text = item.text.rpartition("\n\n")[0] if _parks(item) else item.text
            heard += [structs.replace(item, text=text)] if text else []
    return heard


def without_items(items: Sequence[Item], heard: Sequence[Item]) -> tuple[Item, ...]:
    """Return the items of a run that are not among those `heard` in earlier turns."""
    known = Counter(map(content_of, heard))
    rest = []
    for item in items:
        content = content_of(item)
        if known[content]:
            known[content] -= 1
        else:
            rest.append(item)
    return tuple(rest)


def as_events(items: Sequence[Item]) -> Iterator[Event]:
    """Yield events for these items, as a gateway sends them to a client that attaches during their turn."""
    for item in items:
        if isinstance(item, Message):
            yield from (events.TextDelta(text=item.text), events.TextDone(text=item.text))
        elif isinstance(item, Reasoning):
            yield from (
                events.ReasoningStarted(),
                events.ReasoningDelta(text=item.text),
                events.ReasoningDone(text=item.text),
            )
        elif isinstance(item, ToolCall):
            yield events.ToolCallStarted(call=item.call, name=item.name)
            yield events.ToolCallArguments(call=item.call, name=item.name, json=item.arguments, done=True)
        else:
            yield _finished(item)


# -- what was missed of a run ------------------------------------------------------------------------


def missed_events(turn: OpenTurn, known: Sequence[Item], own: Sequence[Item], *, running: bool = False) -> list[Event]:
    """Return events for the content of `own`, the items of the turn's run, that was not received yet.

    `known` are the items of the transcript that came with the turn. A text at the end of a run that is `running` may
    still grow, so its block stays open.
    """
    heard = Counter((item.role, item.text) for item in known if isinstance(item, Message))
    texts = deque(block for block in turn.blocks if isinstance(block, TextBlock))
    thoughts = deque(block for block in turn.blocks if isinstance(block, ReasoningBlock))
    missed: list[Event] = []
    for item in own:
        match item:
            case Message(role="assistant"):
                for sent, text in _unheard(texts, item.text):
                    missed.append(_text(sent, text, stays_open=running and item is own[-1]))
            case Message() if heard[item.role, item.text]:
                heard[item.role, item.text] -= 1
            case Message():
                missed.append(_message(turn, item))
            case Reasoning():
                missed += [events.ReasoningDone(text=text) for _, text in _unheard(thoughts, item.text)]
            case ToolCall() | ToolResult():
                missed += _of_call(turn.calls.get(item.call), item)
    return missed


def _unheard(heard: deque[TextBlock] | deque[ReasoningBlock], text: str) -> Iterator[tuple[str, str]]:
    """Yield, for each block of `text` that was not received to its end, the known text and the whole text.

    The known blocks with which `text` begins are removed from `heard`.
    """
    at = 0
    while heard and at < len(text):
        block = heard.popleft()
        sent = "".join(block.parts)
        if not block.done:
            yield sent, text[at:]
            return
        if not text.startswith(sent, at):  # a part in between was missed: the known text stays
            return
        at += len(sent)
    if at < len(text):
        yield "", text[at:]


def _message(turn: OpenTurn, message: Message) -> Event:
    if message.role == "user" and (turn.blocks or turn.model_turn is not None):  # it is too late to show it
        return events.Gap(text="the message that this turn answers was missed")
    return events.MessageAppended(message=message)


def _of_call(heard: CallBlock | None, item: ToolCall | ToolResult) -> Iterator[Event]:
    """Yield the event for a call or its result, unless that was heard."""
    if isinstance(item, ToolResult):
        if heard is None or heard.result is None:
            yield _finished(item)
    elif heard is None or heard.arguments is None:
        yield events.ToolCallArguments(call=item.call, name=item.name, json=item.arguments, done=True)


def _text(sent: str, text: str, *, stays_open: bool) -> Event:
    if stays_open and text.startswith(sent):
        return events.TextDelta(text=text[len(sent) :])
    return events.TextDone(text=text)


def _finished(item: ToolResult) -> Event:
    return events.ToolCallFinished(
        call=item.call, name=item.name, summary=item.summary, output=item.output, is_error=item.is_error
    )
