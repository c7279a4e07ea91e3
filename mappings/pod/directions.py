"""The rule tables and codecs of both directions of pod, without the state of any link."""

from __future__ import annotations

from dragoman.mappings.dialect import Direction
from dragoman.mappings.losses import command_writer
from dragoman.mappings.pod.from_canonical.commands import FROM_COMMAND
from dragoman.mappings.pod.from_canonical.events import FROM_EVENT
from dragoman.mappings.pod.projection import Projection
from dragoman.mappings.pod.to_canonical.commands import TO_COMMAND
from dragoman.mappings.pod.to_canonical.events import TO_EVENT
from dragoman.mappings.pod.wire.codecs import EVENTS, METHODS

FROM_SERVER = Direction(
    codec=EVENTS,
    to_canonical=TO_EVENT,
    from_canonical=FROM_EVENT,
    envelope=None,  # messages of a pod have neither a request id nor a time
    write=lambda burst: Projection(alone=True).write(burst.items, burst.at),
)

FROM_CLIENT = Direction(
    codec=METHODS,
    to_canonical=TO_COMMAND,
    from_canonical=FROM_COMMAND,
    envelope=None,
    write=command_writer(FROM_COMMAND, METHODS.encode),
)
