"""The rule tables and codecs of both directions of smooth, without the state of any link."""

from __future__ import annotations

import msgspec

from dragoman.mappings.canonical import Event
from dragoman.mappings.dialect import Burst, Direction, Rendered
from dragoman.mappings.losses import command_direction
from dragoman.mappings.smooth.from_canonical.commands import FROM_COMMAND
from dragoman.mappings.smooth.from_canonical.context import Context
from dragoman.mappings.smooth.from_canonical.events import FROM_EVENT
from dragoman.mappings.smooth.to_canonical.commands import TO_COMMAND
from dragoman.mappings.smooth.to_canonical.events import TO_EVENT, envelope
from dragoman.mappings.smooth.vocabulary import carried
from dragoman.mappings.smooth.wire.codecs import ACTIONS, EVENTS


def _write_events(burst: Burst[Event]) -> Rendered:
    context = Context(burst.request, burst.at)
    frames = [
        EVENTS.encode(_as_sent(message, item))
        for item in burst.items
        for message in FROM_EVENT.functions[type(item)](item, context)
    ]
    return Rendered(frames=frames, losses=context.take_losses())


def _as_sent(message: object, item: Event) -> object:
    """Return `message` with the envelope fields from `ext`, which a burst's request id and time cannot restore."""
    ext = getattr(item, "ext", None)
    if ext is not None and isinstance(message, msgspec.Struct):
        if carried(ext, "timestamp") is not None:
            message = msgspec.structs.replace(message, timestamp=None)
        if carried(ext, "requestId") is not None:
            message = msgspec.structs.replace(message, request_id="")
    return message


FROM_SERVER = Direction(
    codec=EVENTS, to_canonical=TO_EVENT, from_canonical=FROM_EVENT, envelope=envelope, write=_write_events
)

FROM_CLIENT = command_direction(ACTIONS, TO_COMMAND, FROM_COMMAND)
