"""The smooth wire: structs exactly as on the wire, one codec for each direction."""

from mappings.smooth.wire import actions, codes, events, questions, replies
from mappings.smooth.wire.actions import ACTIONS, AnyAction
from mappings.smooth.wire.events import EVENTS, AnyEvent

__all__ = ["ACTIONS", "EVENTS", "AnyAction", "AnyEvent", "actions", "codes", "events", "questions", "replies"]
