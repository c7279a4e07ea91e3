"""The vocabulary of smooth: error codes and their causes, generations, and the fields in `ext`
(docs/dialects/smooth.md, sections 8 and 10; docs/translation.md, rule 3.11).
"""

from __future__ import annotations

from dragoman.mappings.canonical import commands, events
from dragoman.mappings.canonical.values import Cause, Ext
from dragoman.mappings.extras import Extras

EXTRAS = Extras("smooth")
keep, carried, given = EXTRAS.keep, EXTRAS.carried, EXTRAS.given

LATER = "1.57"
SEED = "1.3.0"

GENERATIONS = (LATER, SEED)
"""The generations of smooth, the default first."""

UNKNOWN_TO_SEED: dict[type, str] = {
    commands.CancelTurn: "cancel",
    commands.AnswerInteraction: "submit_interaction",
    commands.ListSessions: "list_conversations",
    commands.RenameSession: "rename_conversation",
}
"""Commands that a server of the seed refuses with UNSUPPORTED_ACTION -> their action."""

NOT_IN_SEED = f"clients of {SEED} do not know it"
"""The reason for which a part of a session is not sent to clients of the seed."""

NOT_READ_BY_SEED = f"servers of {SEED} ignore it"
"""The reason for which a part of a command of seed clients is ignored."""

UNSHOWN_BY_SEED: frozenset[type] = frozenset(
    {events.ReasoningDelta, events.Preamble, events.InteractionRequired, events.InteractionInvalid}
)
"""Events that are not sent to seed clients, which do not know them. Interactions are asked in words instead."""

CAUSE_OF_CODE: dict[str, Cause] = {
    "VALIDATION_ERROR": "invalid",
    "UNSUPPORTED_ACTION": "unsupported",
    "SESSION_NOT_FOUND": "not_found",
    "CONVERSATION_NOT_FOUND": "not_found",
    "SKILL_NOT_FOUND": "not_found",
    "NO_PENDING_CONFIRMATION": "not_found",
    "NO_PENDING_INTERACTION": "not_found",
    "INTERACTION_MISMATCH": "invalid",
    "TURN_IN_PROGRESS": "busy",
    "AGENT_NOT_AUTHORIZED": "denied",
    "ORIGIN_NOT_ALLOWED": "denied",
    "AUTH_CONTEXT_INVALID": "denied",
    "RATE_LIMITED": "rate_limited",
    "AGENT_ERROR": "model_failed",
    "LLM_UNAVAILABLE": "model_failed",
    "OTP_SEND_FAILED": "tool_failed",
    "STORAGE_ERROR": "internal",
    "INTERNAL_ERROR": "internal",
}

CODE_OF_CAUSE: dict[Cause, str] = {
    "invalid": "VALIDATION_ERROR",
    "unsupported": "UNSUPPORTED_ACTION",
    "not_found": "SESSION_NOT_FOUND",
    "busy": "TURN_IN_PROGRESS",
    "not_running": "VALIDATION_ERROR",  # smooth ignores a cancel without a turn and has no pause
    "denied": "AGENT_NOT_AUTHORIZED",
    "upstream_lost": "INTERNAL_ERROR",
    "timeout": "INTERNAL_ERROR",
    "too_large": "VALIDATION_ERROR",
    "internal": "INTERNAL_ERROR",
    "rate_limited": "RATE_LIMITED",
    "model_failed": "AGENT_ERROR",
    "tool_failed": "AGENT_ERROR",
}


def cause_of(code: str) -> Cause:
    """Return the cause for an error code. Codes are an open set: an unknown code means `internal`."""
    return CAUSE_OF_CODE.get(code, "internal")


def omits_supports(ext: Ext | None) -> bool:
    """Return True if a smooth client opened or resumed a conversation without `supports`."""
    return carried(ext, "supports") is not None
