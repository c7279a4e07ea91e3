"""The canonical model: every dialect maps to it and from it, and never to another dialect.

values     the small parts            commands   client -> backend
events     backend -> client          state      a session as folded from its log
facts      what is true of each kind of event
unions     Event and Command, of all kinds
unmapped   a message with an unknown name
"""

from dragoman.mappings.canonical import commands, events
from dragoman.mappings.canonical.state import Batch, OpenTurn, SessionState, prelude
from dragoman.mappings.canonical.unions import Command, Commands, Event, Events
from dragoman.mappings.canonical.unmapped import Unmapped

__all__ = [
    "Batch",
    "Command",
    "Commands",
    "Event",
    "Events",
    "OpenTurn",
    "SessionState",
    "Unmapped",
    "commands",
    "events",
    "prelude",
]
