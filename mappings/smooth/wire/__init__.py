"""The wire format of smooth: structs with the names of the wire, and one codec for each direction."""

from dragoman.mappings.smooth.wire import actions, events, replies
from dragoman.mappings.smooth.wire.actions import ACTIONS, AnyAction
from dragoman.mappings.smooth.wire.events import EVENTS, AnyEvent

__all__ = ["ACTIONS", "EVENTS", "AnyAction", "AnyEvent", "actions", "events", "replies"]
