"""The canonical model: every dialect maps to it and from it, and none to another.

values     the small parts            commands   client -> backend
events     backend -> client          state      a session as folded from its log
unmapped   a message of unknown name
"""

from mappings.canonical import commands, events
from mappings.canonical.commands import Command
from mappings.canonical.events import Event
from mappings.canonical.state import Batch, OpenTurn, SessionState, prelude
from mappings.canonical.unmapped import Unmapped

__all__ = ["Batch", "Command", "Event", "OpenTurn", "SessionState", "Unmapped", "commands", "events", "prelude"]
