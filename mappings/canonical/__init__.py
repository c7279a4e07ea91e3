"""The canonical model: every dialect maps to it and from it, and never to another dialect.

commands  the requests of a client to a backend
events    the messages of a backend to its clients
unions    Event and Command, the unions of all kinds, and Unmapped: a message with an unknown name
facts     properties of each type of event
values    the parts of events and commands
state     the state of a session, which follows from its log
"""

from dragoman.mappings.canonical import commands, events
from dragoman.mappings.canonical.state import Batch, OpenTurn, SessionState, prelude
from dragoman.mappings.canonical.unions import Command, Commands, Event, Events, Unmapped

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
