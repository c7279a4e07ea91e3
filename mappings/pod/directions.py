"""The rule tables and codecs of both directions of pod, without the state of any link."""

from __future__ import annotations

from dragoman.mappings.dialect import Direction
from dragoman.mappings.losses import command_direction
from dragoman.mappings.pod.from_canonical.commands import FROM_COMMAND
from dragoman.mappings.pod.from_canonical.events import FROM_EVENT
from dragoman.mappings.pod.projection import Projection
from dragoman.mappings.pod.to_canonical.commands import TO_COMMAND
from dragoman.mappings.pod.to_canonical.events import TO_EVENT
from dragoman.mappings.pod.wire.codecs import EVENTS, METHODS

FROM_SERVER = Direction(  # messages of a pod have neither a request id nor a time
    codec=EVENTS,
    to_canonical=TO_EVENT,
    from_canonical=FROM_EVENT,
    write=lambda burst: Projection(alone=True).write(burst.items, burst.at),
)

FROM_CLIENT = command_direction(METHODS, TO_COMMAND, FROM_COMMAND)
