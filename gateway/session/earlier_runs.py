"""The runs before the open turn that are parts of the same run at the backend (docs/translation.md, rule 4.10).

Another gateway, as the backend, ends a run with a question in words. The answer begins our next turn, but there it is
the rest of the run that was asked. Its history has that run under its first input, without question and answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import structs

from dragoman.gateway.session.wording import ends_with_question
from dragoman.mappings.canonical import Event, SessionState, events
from dragoman.mappings.canonical.values import Item, Message, Reasoning, ToolCall, content_of


def begin_of_run(state: SessionState) -> int:
    """Return the index in the transcript at which the backend's run of the open turn, or of a new input, begins."""
    begin = state.fresh
    while begin and _parks(last := state.transcript[begin - 1]):
        while begin and state.transcript[begin - 1].turn == last.turn:
            begin -= 1
    return begin


def _parks(item: Item) -> bool:
    return isinstance(item, Message) and item.role == "assistant" and ends_with_question(item.text)


def heard_before(state: SessionState) -> list[Item]:
    """Return what the backend told of the run in earlier turns, without questions in words and what users answered."""
    items = state.transcript[begin_of_run(state) : state.fresh]
    heard: list[Item] = []
    for item in items:
        if not isinstance(item, Message):
            heard.append(item)
        elif item.role == "assistant":
            text = item.text.rpartition("\n\n")[0] if _parks(item) else item.text
            heard += [structs.replace(item, text=text)] if text else []
    return heard


def not_heard(items: Sequence[Item], heard: Sequence[Item]) -> tuple[Item, ...]:
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
    """Yield events for these items, as a gateway tells them to a client that attaches during their turn."""
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
            yield events.ToolCallFinished(
                call=item.call, name=item.name, summary=item.summary, output=item.output, is_error=item.is_error
            )
