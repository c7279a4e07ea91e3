"""Rules from pando messages to canonical items: one function for each message, in the order of the wire modules."""

from dragoman.mappings.pando.to_canonical.commands import TO_COMMAND
from dragoman.mappings.pando.to_canonical.events import TO_EVENT, envelope, place
from dragoman.mappings.pando.to_canonical.replies import (
    history,
    pong,
    session_opened,
    sessions_listed,
    stored_rows,
    summary,
    with_text,
)

__all__ = [
    "TO_COMMAND",
    "TO_EVENT",
    "envelope",
    "history",
    "place",
    "pong",
    "session_opened",
    "sessions_listed",
    "stored_rows",
    "summary",
    "with_text",
]
