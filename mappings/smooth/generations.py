"""The generations of smooth, and what the seed's clients and servers do not know
(docs/dialects/smooth.md, section 10).
"""

from __future__ import annotations

from dragoman.mappings.canonical import commands, events

__all__ = ["GENERATIONS", "LATER", "SEED", "UNKNOWN_TO_SEED", "UNSHOWN_BY_SEED"]

LATER = "1.57"
SEED = "1.3.0"

GENERATIONS = (LATER, SEED)
"""The default first."""

UNKNOWN_TO_SEED: dict[type, str] = {
    commands.CancelTurn: "cancel",
    commands.AnswerInteraction: "submit_interaction",
    commands.ListSessions: "list_conversations",
    commands.RenameSession: "rename_conversation",
}
"""Commands that a server of the seed answers with UNSUPPORTED_ACTION -> their action."""

UNSHOWN_BY_SEED: frozenset[type] = frozenset(
    {events.ReasoningDelta, events.Preamble, events.InteractionRequired, events.InteractionInvalid}
)
"""Events whose form came later: a client of the seed does not know the type. Interactions are asked in words."""
