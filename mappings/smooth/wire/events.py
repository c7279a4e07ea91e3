"""Events of a smooth server (docs/dialects/smooth.md, section 4), exactly as in the strict schemas.

No struct allows undocumented keys. The payload is in `data`, for questions one level deeper in `data.data`. `data` is a
mirror: it repeats `requestId` and leading fields of the frame. Some servers omit these; codecs.py fills them in.
Opaque JSON has the type `object`: it is decoded, so that only valid JSON in UTF-8 is passed on.
"""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

from msgspec import UNSET, Struct

from dragoman.mappings.extras import as_json
from dragoman.mappings.reflection import union_of
from dragoman.mappings.smooth.wire.values import Closed, Count, EventBase

CAPABILITY_OF_KIND = {"identity_intake": "identity_form", "choices": "choice_chips"}
"""Kind of interaction -> the form in `supports` that a client needs for it (docs/dialects/smooth.md, section 6)."""

FORMS = tuple(CAPABILITY_OF_KIND.values())
"""The forms that a client can declare in `supports`."""

# -- answers to one request -------------------------------------------------------------------------


class ImmediateResponse(EventBase, frozen=True, kw_only=True, tag="immediate_response"):
    """Response to a request: 202 for an accepted turn, 200 for success, with `data`; `message` is free text."""

    status: int | None = None
    message: str | None = None
    data: dict[str, object]


# -- the stream of a turn ---------------------------------------------------------------------------


class TokenData(Closed, frozen=True, kw_only=True):
    """Mirror of a token."""

    request_id: str
    token: str


class StreamToken(EventBase, frozen=True, kw_only=True, tag="stream_token"):
    """A piece of the answer."""

    token: str
    data: TokenData


class StreamReasoning(EventBase, frozen=True, kw_only=True, tag="stream_reasoning"):
    """A piece of the model's reasoning; never part of the answer."""

    token: str
    data: TokenData


class StreamPreamble(EventBase, frozen=True, kw_only=True, tag="stream_preamble"):
    """Text shown while the user waits; never part of the answer."""

    token: str
    data: TokenData


class NodeState(Closed, frozen=True, kw_only=True):
    """The four documented keys of a chunk's state; null and absent differ."""

    raw_response: object = UNSET
    structured_response: object = UNSET
    pending_write_confirmation: object = UNSET
    pending_otp_verification: object = UNSET


class StreamChunk(EventBase, frozen=True, kw_only=True, tag="stream_chunk"):
    """A message of a node of the backend's graph: a tool call, its result, or a phase."""

    node: str

    class Data(Closed, frozen=True, kw_only=True):
        request_id: str
        node: str
        state: NodeState
        done: bool | None = None

    data: Data


# -- the ends of a turn -----------------------------------------------------------------------------


class Citation(Closed, frozen=True, kw_only=True):
    """A source of the answer; `score` is any number."""

    id: str
    title: str
    url: str | None = None
    snippet: str
    score: float


class TurnUsage(Closed, frozen=True, kw_only=True):
    """Tokens and cost, summed over the turn's model calls."""

    cost_usd: float | None = None
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None


class FinalAnswer(Closed, frozen=True, kw_only=True):
    """The answer: `response` is any JSON, usually an object with `responseParts`."""

    message_id: str
    response: object
    needs_escalation: bool | None = None
    escalation_reason: str | None = None
    citations: list[Citation] | None = None
    usage: TurnUsage | None = None
    directive: object = UNSET


class EventualResponse(EventBase, frozen=True, kw_only=True, tag="eventual_response"):
    """The end of a complete turn."""

    status: int

    class Data(Closed, frozen=True, kw_only=True):
        request_id: str
        status: int
        data: FinalAnswer

    data: Data


class Cancelled(EventBase, frozen=True, kw_only=True, tag="cancelled"):
    """The end of a cancelled turn."""

    status: Literal[499]

    class Data(Closed, frozen=True, kw_only=True):
        request_id: str | None = None
        status: Literal[499]

    data: Data


class ErrorBody(Closed, frozen=True, kw_only=True):
    """The code and text of an error; codes are an open set (docs/dialects/smooth.md, section 8)."""

    code: str
    message: str


class ErrorEvent(EventBase, frozen=True, kw_only=True, tag="error"):
    """The error of a request or turn; without requestId, any other error. No server sends `details`."""

    error: ErrorBody

    class Data(Closed, frozen=True, kw_only=True):
        request_id: str | None = None
        error: ErrorBody
        details: object = UNSET

    data: Data


# -- keepalive and pong -----------------------------------------------------------------------------


class Keepalive(EventBase, frozen=True, kw_only=True, tag="keepalive"):
    """A sign that the server is alive; in the schemas, but no server sends it."""

    class Data(Closed, frozen=True, kw_only=True):
        request_id: str

    data: Data


class Pong(EventBase, frozen=True, kw_only=True, tag="pong"):
    """Answer to ping."""

    class Data(Closed, frozen=True, kw_only=True):
        timestamp: Count

    data: Data | None = None


# -- questions to the user --------------------------------------------------------------------------

T = TypeVar("T")


class Mirror(Closed, Generic[T], frozen=True, kw_only=True):
    """The `data` of a question: the mirrored request id, and what is asked or answered."""

    request_id: str
    data: T


class WriteConfirmationRequired(EventBase, frozen=True, kw_only=True, tag="write_confirmation_required"):
    """A question that parks the turn until the user approves or denies; `tool_id` is the tool's name."""

    class Content(Closed, frozen=True, kw_only=True):
        tool_id: str
        action_description: str

    data: Mirror[Content]


class OtpVerificationRequired(EventBase, frozen=True, kw_only=True, tag="otp_verification_required"):
    """A tool was refused because the user is not identified. The turn ends; it is not parked."""

    class Content(Closed, frozen=True, kw_only=True):
        tool_id: str
        action_description: str
        available_channels: list[str]
        auth_level: str

    data: Mirror[Content]


class OtpSent(EventBase, frozen=True, kw_only=True, tag="otp_sent"):
    """A one-time code was sent."""

    class Content(Closed, frozen=True, kw_only=True):
        channel: str
        masked_destination: str

    data: Mirror[Content]


class OtpVerified(EventBase, frozen=True, kw_only=True, tag="otp_verified"):
    """The code was right, with free text; the client sends its message again."""

    class Content(Closed, frozen=True, kw_only=True):
        message: str

    data: Mirror[Content]


class OtpInvalid(EventBase, frozen=True, kw_only=True, tag="otp_invalid"):
    """The code was wrong; `error` is INVALID_CODE, MAX_ATTEMPTS, NOT_FOUND or EXPIRED."""

    class Content(Closed, frozen=True, kw_only=True):
        error: str | None = None
        attempts_remaining: int
        message: str

    data: Mirror[Content]


class InteractionRequired(EventBase, frozen=True, kw_only=True, tag="interaction_required"):
    """A question that parks the turn until the form is filled in or declined. `spec` depends on `kind`."""

    class Content(Closed, frozen=True, kw_only=True):
        interaction_id: str
        kind: str
        spec: dict[str, object]
        reason: str

    data: Mirror[Content]


class FieldFault(Closed, frozen=True, kw_only=True):
    """The error of one field."""

    field: str
    message: str


class InteractionInvalid(EventBase, frozen=True, kw_only=True, tag="interaction_invalid"):
    """A form was refused; the turn stays parked."""

    class Content(Closed, frozen=True, kw_only=True):
        interaction_id: str
        kind: str
        errors: list[FieldFault]
        message: str

    data: Mirror[Content]


AnyEvent = union_of(EventBase)
"""The union of all events."""


# -- the JSON in tool chunks and in the final answer ---------------------------------------------------
# The schemas allow any JSON there. `arguments` of a call is a JSON string from server R, and an object from servers P
# and T. `response` is in practice an object.


class Call(Struct, frozen=True):
    """A tool call of a chunk; `arguments` is JSON text. `usual` is True if `call_state` restores the same JSON."""

    name: str
    arguments: str
    usual: bool


class Result(Struct, frozen=True):
    """A tool result of a chunk. `usual` is True if `result_state` restores the same JSON."""

    name: str
    output: str
    is_error: bool
    usual: bool


def call_of(raw_response: object) -> Call | None:
    """Return the tool call in a chunk's `rawResponse`, or None."""
    call = raw_response.get("toolCall") if isinstance(raw_response, dict) else None
    if not isinstance(call, dict):
        return None
    name, arguments = call.get("name"), call.get("arguments", {})
    if not isinstance(name, str):
        return None
    text = arguments if isinstance(arguments, str) else as_json(arguments)
    return Call(name, text, raw_response == call_state(name, text))


def result_of(raw_response: object) -> Result | None:
    """Return the tool result in a chunk's `rawResponse`, or None."""
    result = raw_response.get("toolResult") if isinstance(raw_response, dict) else None
    if not isinstance(result, dict):
        return None
    name, output = result.get("name"), result.get("result", "")
    if not isinstance(name, str):
        return None
    text = output if isinstance(output, str) else as_json(output)
    is_error = result.get("isError") is True
    return Result(name, text, is_error, raw_response == result_state(name, text, is_error))


def call_state(name: str, arguments: str) -> dict[str, object]:
    """Return the `rawResponse` of a tool call, with `arguments` as a JSON string, as server R writes it."""
    return {"toolCall": {"name": name, "arguments": arguments}}


def result_state(name: str, output: str, is_error: bool) -> dict[str, object]:
    """Return the `rawResponse` of a tool result."""
    return {"toolResult": {"name": name, "isError": is_error, "result": output}}


def answer_of(text: str) -> dict[str, object]:
    """Return a `response` object with this text, and the scores that every reference server writes."""
    return {
        "responseParts": [text] if text else [],
        "customerHappinessScore": 0.5,
        "needsSatisfactionScore": 0.5,
        "requestSummary": "",
        "resolutionStatus": "in_progress",
        "suggestedNextActions": [],
    }


def text_of(response: object) -> str | None:
    """Return the visible text in a `response`; None if its structure is unknown."""
    if isinstance(response, str):
        return response
    parts = response.get("responseParts") if isinstance(response, dict) else None
    if not isinstance(parts, list):
        return None
    return "".join([part for part in parts if isinstance(part, str)])
