"""Messages from and to a smooth server, for the tests of the gateway
(docs/dialects/smooth.md, sections 3 to 6).

Its request ids are the gateway's: a script binds them by "$name" where it looks at what the server got.
"""

from __future__ import annotations

from typing import Any

from tests.gateway.smooth_client_messages import AGENT

Frame = dict[str, Any]

SERVER_SESSION = "0198c3a1-0000-4000-8000-0000000000b1"
CONVERSATION = "0198c3a1-0000-4000-8000-0000000000b2"
AT = 1_700_000_000_000

CREATED = {
    "sessionId": SERVER_SESSION,
    "conversationId": CONVERSATION,
    "agentId": AGENT,
    "agentName": "smooth-agent",
    "userParticipantId": "0198c3a1-0000-4000-8000-0000000000b3",
    "agentParticipantId": "0198c3a1-0000-4000-8000-0000000000b4",
}

IDENTITY = {"fields": [{"key": "email", "required": True}, {"key": "name", "required": False}]}
"""The spec of an identity_intake."""


# -- what it is told ---------------------------------------------------------------------------------


def create(request: str) -> Frame:
    """Return the gateway's action that opens its session and claims every form."""
    claims = ["identity_form", "choice_chips"]
    return {"action": "create_conversation_session", "requestId": request, "supports": claims}


def looked_up(request: str = "$get") -> Frame:
    """Return the action that asks whether the server still has the session."""
    return {"action": "get_session", "requestId": request, "sessionId": SERVER_SESSION}


def read_newest(request: str = "$page", session: str = SERVER_SESSION) -> Frame:
    """Return the action that asks for the newest messages, once a lost connection is made again."""
    return {"action": "get_conversation_messages", "requestId": request, "sessionId": session, "limit": 100}


def told(request: str, text: str) -> Frame:
    """Return the action that sends a message."""
    return {"action": "send_message", "requestId": request, "sessionId": SERVER_SESSION, "message": text}


def confirmed(request: str, *, approved: bool) -> Frame:
    """Return the action that answers an approval."""
    return {
        "action": "confirm_tool_action",
        "requestId": request,
        "sessionId": SERVER_SESSION,
        "approved": approved,
    }


def submitted(request: str, interaction: str, **keys: Any) -> Frame:
    """Return the action that answers a form."""
    return {"action": "submit_interaction", "requestId": request, "interactionId": interaction, **keys}


def verified(request: str, code: str) -> Frame:
    """Return the action that sends a one-time code."""
    return {"action": "verify_otp", "requestId": request, "sessionId": SERVER_SESSION, "code": code}


# -- what it says ------------------------------------------------------------------------------------


def _event(kind: str, request: str | None, **keys: Any) -> Frame:
    return {"type": kind, "requestId": request, "timestamp": AT, **keys}


def _asked(event: str, request: str, **payload: Any) -> Frame:
    return _event(event, request, data={"requestId": request, "data": payload})


def acknowledged(request: str, **data: Any) -> Frame:
    """Return a response with status 200."""
    return _event("immediate_response", request, status=200, message="OK", data=data)


def page(request: str = "$page", *messages: Frame) -> Frame:
    """Return the answer with these messages, newest first, and no older ones."""
    return acknowledged(request, messages=[*messages], nextCursor=None, hasMore=False)


def taken(request: str) -> Frame:
    """Return the response with status 202 that accepts a turn."""
    return _event("immediate_response", request, status=202, message="Accepted", data={})


def said(request: str, text: str) -> Frame:
    """Return the event of further streamed text."""
    return _event("stream_token", request, token=text, data={"requestId": request, "token": text})


def _chunk(request: str, node: str, state: Frame) -> Frame:
    return _event("stream_chunk", request, node=node, data={"requestId": request, "node": node, "state": state})


def called(request: str, name: str, arguments: str = "{}") -> Frame:
    """Return the event of a tool call; after a question it is the call that waits for the answer."""
    return _chunk(request, name, {"rawResponse": {"toolCall": {"name": name, "arguments": arguments}}})


def result(request: str, name: str, text: str) -> Frame:
    """Return the event of a tool's result."""
    return _chunk(request, name, {"rawResponse": {"toolResult": {"name": name, "isError": False, "result": text}}})


def answered(request: str, text: str) -> Frame:
    """Return the terminal of a completed turn."""
    response = {"responseParts": [text] if text else []}
    payload = {"messageId": "0198c3a1-0000-4000-8000-0000000000b5", "response": response, "needsEscalation": False}
    data = {"requestId": request, "status": 200, "data": payload}
    return _event("eventual_response", request, status=200, data=data)


def stopped(request: str) -> Frame:
    """Return the terminal of a cancelled turn."""
    return _event("cancelled", request, status=499, data={"requestId": request, "status": 499})


def problem(request: str, code: str, text: str = "no") -> Frame:
    """Return an error event."""
    error = {"code": code, "message": text}
    return _event("error", request, error=error, data={"requestId": request, "error": error})


def confirmation(request: str, tool: str = "delete") -> Frame:
    """Return the event that asks for the approval of a tool call."""
    return _asked("write_confirmation_required", request, toolId=tool, actionDescription=f"Call {tool}?")


def form(request: str, interaction: str, kind: str = "identity_intake", spec: Frame | None = None) -> Frame:
    """Return the event that shows a form."""
    return _asked(
        "interaction_required",
        request,
        interactionId=interaction,
        kind=kind,
        spec=spec or IDENTITY,
        reason="To know.",
    )


def form_refused(request: str, interaction: str, field: str, text: str) -> Frame:
    """Return the event that refuses the values of a form."""
    return _asked(
        "interaction_invalid",
        request,
        interactionId=interaction,
        kind="identity_intake",
        errors=[{"field": field, "message": text}],
        message="not valid",
    )


def code_wanted(request: str) -> Frame:
    """Return the event that asks for a one-time code."""
    return _asked(
        "otp_verification_required",
        request,
        toolId="pay",
        actionDescription="Pay 5.",
        availableChannels=["sms"],
        authLevel="end_user",
    )


def code_sent(request: str) -> Frame:
    """Return the event that a one-time code was sent."""
    return _asked("otp_sent", request, channel="sms", maskedDestination="***12")


def code_valid(request: str) -> Frame:
    """Return the event that a one-time code was right."""
    return _asked("otp_verified", request, message="Verified.")


def code_wrong(request: str, left: int) -> Frame:
    """Return the event that a one-time code was wrong."""
    return _asked("otp_invalid", request, error="INVALID_CODE", attemptsRemaining=left, message="Wrong code.")
