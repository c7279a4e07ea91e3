"""The rule tables and codecs of both directions of codewhale, without the state of any link.

EventFrames have no line of their own: they are written into the next result of their burst, or into an extra result
that answers no request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.mappings.canonical import Event, events
from dragoman.mappings.codewhale.from_canonical.commands import FROM_COMMAND
from dragoman.mappings.codewhale.from_canonical.context import Context, bundled
from dragoman.mappings.codewhale.from_canonical.events import FROM_EVENT
from dragoman.mappings.codewhale.to_canonical.commands import TO_COMMAND
from dragoman.mappings.codewhale.to_canonical.events import TO_EVENT, envelope
from dragoman.mappings.codewhale.vocabulary import given
from dragoman.mappings.codewhale.wire.codecs import EVENTS, REQUESTS
from dragoman.mappings.dialect import Burst, Direction, Frame, Rendered
from dragoman.mappings.losses import command_direction


def _write_events(burst: Burst[Event]) -> Rendered:
    context = Context(at=burst.at, request=burst.request)
    context.response_id = given(burst.ext, "response_id", str, "")
    messages: list[Any] = []
    for item in burst.items:
        original = context.original(item)
        messages += FROM_EVENT.functions[type(item)](item, context) if original is None else (original,)
    return Rendered(frames=bundled(messages), losses=context.take_losses())


FROM_SERVER = Direction(
    codec=EVENTS,
    to_canonical=TO_EVENT,
    from_canonical=FROM_EVENT,
    envelope=envelope,
    write=_write_events,
)

FROM_CLIENT = command_direction(REQUESTS, TO_COMMAND, FROM_COMMAND)


def is_blank(frame: Frame) -> bool:
    """Return True for a blank line, which both sides skip (docs/dialects/codewhale.md, section 1)."""
    return isinstance(frame, bytes) and not frame.strip()


class Overheard:
    """A reader of a server's events that does not know the requests: a Reply after a response is the end of a turn.

    The `response_end` line also comes after a failure, so it is no proof of success (docs/dialects/codewhale.md,
    section 3).
    """

    def __init__(self) -> None:
        self._open = False

    def __call__(self, items: Sequence[Event]) -> list[Event]:
        """Return the events of one line, with a Reply that ends a turn replaced by TurnEnded."""
        return [self._meant(item) for item in items if not isinstance(item, events.TurnResult)]

    def _meant(self, item: Event) -> Event:
        if isinstance(item, events.ModelTurnStarted | events.TextDelta):
            self._open = True
        elif isinstance(item, events.TurnEnded):
            self._open = False
        elif isinstance(item, events.Reply) and self._open:
            self._open = False
            return events.TurnEnded(end="failed" if item.failure else "completed", failure=item.failure)
        return item
