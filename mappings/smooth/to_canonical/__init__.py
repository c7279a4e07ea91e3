"""Rules from smooth messages to canonical items: one function for each message, in the order of the wire modules."""

from dragoman.mappings.smooth.to_canonical.commands import TO_COMMAND
from dragoman.mappings.smooth.to_canonical.events import TO_EVENT, envelope
from dragoman.mappings.smooth.to_canonical.replies import history_page, session_opened, sessions_listed

__all__ = ["TO_COMMAND", "TO_EVENT", "envelope", "history_page", "session_opened", "sessions_listed"]
