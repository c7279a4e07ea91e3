"""Error codes of smooth and the causes behind them (docs/dialects/smooth.md, section 8;
docs/translation.md, rule 3.11).
"""

from __future__ import annotations

from dragoman.mappings.canonical.values import Cause

__all__ = ["CAUSE_OF_CODE", "CODE_OF_CAUSE", "cause_of"]

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
    "not_running": "VALIDATION_ERROR",  # smooth meets a cancel of nothing with silence and has no pause
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
    """The cause behind a code; codes are an open set, an unknown one is `internal`."""
    return CAUSE_OF_CODE.get(code, "internal")
