"""Messages from and to a smooth client, for the tests of the gateway
(docs/dialects/smooth.md, sections 3 to 6).
"""

from __future__ import annotations

from typing import Any

from dragoman.gateway.routing.ids import session_id
from dragoman.mappings.smooth.from_canonical.replies import public_ids

Frame = dict[str, Any]

AGENT = "0198c3a1-0000-4000-8000-0000000000aa"
SHOWN, CONVERSATION = public_ids(session_id("test", "pod+unix:/pod"))
CREATE: Frame = {"action": "create_conversation_session", "requestId": "open", "agentId": AGENT}


# -- what it says ------------------------------------------------------------------------------------


def ask(action: str, request: str, **keys: Any) -> Frame:
    """Return an action on the session."""
    return {"action": action, "requestId": request, "sessionId": SHOWN, **keys}


def send(request: str, text: str) -> Frame:
    """Return the action that begins a turn."""
    return ask("send_message", request, message=text)


def cancel(request: str) -> Frame:
    """Return the action that cancels the turn, with its request id as clients send it."""
    return ask("cancel", request)


def history(request: str, **keys: Any) -> Frame:
    """Return a request for a page of messages."""
    return ask("get_conversation_messages", request, **keys)


# -- what it gets ------------------------------------------------------------------------------------


def reply(request: str, **data: Any) -> Frame:
    """Return a response with status 200."""
    return {"type": "immediate_response", "requestId": request, "status": 200, "data": data}


def opened(request: str) -> Frame:
    """Return the response with status 200 that describes the session."""
    return reply(request, sessionId=SHOWN, conversationId=CONVERSATION)


def accepted(request: str) -> Frame:
    """Return the response with status 202 that accepts a turn."""
    return {"type": "immediate_response", "requestId": request, "status": 202}


def token(request: str, text: str) -> Frame:
    """Return the event of further streamed text."""
    return {"type": "stream_token", "requestId": request, "token": text}


def answer(request: str, text: str) -> Frame:
    """Return the terminal of a completed turn."""
    response = {"responseParts": [text] if text else []}
    return {"type": "eventual_response", "requestId": request, "data": {"data": {"response": response}}}


def cancelled(request: str) -> Frame:
    """Return the terminal of a cancelled turn."""
    return {"type": "cancelled", "requestId": request}


def error(request: str, code: str) -> Frame:
    """Return an error that answers a request or ends a turn."""
    return {"type": "error", "requestId": request, "error": {"code": code}}


def loose(code: str) -> Frame:
    """Return an error that ends no turn."""
    return {"type": "error", "requestId": None, "error": {"code": code}}
