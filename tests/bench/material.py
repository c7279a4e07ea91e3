"""The input of the codec benchmark: pod events by kind, as the backend of a turn writes them.

A kind is the smallest run of pod events that says one thing: what ends a turn is several events, and one smooth form.
Kinds that smooth has no form for are here too: they stand in every real stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct

from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import ErrorReported, StatusChanged, TurnAccepted, TurnEnded, UsageReported
from dragoman.mappings.canonical.values import Failure

BATCH = 256  # kinds in a batch: about what one read of a streaming pod brings

REQUEST = "req-7f6d3c1e-52a8-4f0e-9d6b-0c1f4a3b2d10"
MESSAGE = "0b0e9b0e-0000-4000-8000-000000000001"
ANSWER = "Order A-1042 left the warehouse on Tuesday and will be with you by Friday. " * 4
ARGUMENTS = '{"fields":["status","eta"],"order":"A-1042"}'
OUTPUT = '{"carrier":"Kestrel","eta":"2026-05-29","status":"in transit","stops":["Lyon","Basel"]}'

encode = msgspec.json.Encoder().encode


class Kind(Struct, frozen=True, kw_only=True):
    """The frames of a kind of event.

    `session` says what the gateway's session would add; None where it adds nothing.
    """

    name: str
    frames: tuple[bytes, ...]
    writes: str
    session: Callable[[list[Event]], Iterator[Event]] | None = None


def event(name: str, /, **data: object) -> bytes:
    """An event as a pod writes it, without its newline."""
    return encode({"event": name, "data": data} if data else {"event": name})


def _accepted(events: list[Event]) -> Iterator[Event]:
    for item in events:
        if type(item) is StatusChanged:
            yield TurnAccepted(request=REQUEST)
        yield item


def _completed(events: list[Event]) -> Iterator[Event]:
    used = None
    for item in events:
        yield item
        if type(item) is UsageReported:
            used = item.usage
        elif type(item) is StatusChanged:
            yield TurnEnded(end="completed", text=ANSWER, message=MESSAGE, usage=used)


def _failed(events: list[Event]) -> Iterator[Event]:
    failure = None
    for item in events:
        yield item
        if type(item) is ErrorReported:
            failure = Failure(cause=item.cause, text=item.text)
        elif type(item) is StatusChanged:
            yield TurnEnded(end="failed", failure=failure)


def _cancelled(events: list[Event]) -> Iterator[Event]:
    for item in events:
        yield item
        if type(item) is StatusChanged:
            yield TurnEnded(end="cancelled")


IDLE = event("status", status="idle")
RUNNING = event("status", status="running")
USAGE = event("usage", input_tokens=812, output_tokens=41, cache_read_input_tokens=640)
USER = event("user_message", segments=[{"kind": "text", "content": "Where is my order?"}])
DELTA = event("text_delta", text=" warehouse")
THOUGHT = event("thinking_delta", text=" look the order up")
CALL = event("tool_call_start", id="call_1", name="lookup_order")
FRAGMENT = event("tool_call_args_delta", id="call_1", json='{"fields":["st')
WHOLE_CALL = event("tool_call_done", id="call_1", name="lookup_order", arguments=ARGUMENTS)
RESULT = event("tool_result", id="call_1", summary="1 order", output=OUTPUT, is_error=False)
FINISHED = event("run_end", result="finished")

KINDS = (
    Kind(name="text_delta", frames=(DELTA,), writes="stream_token"),
    Kind(name="thinking_delta", frames=(THOUGHT,), writes="stream_reasoning"),
    Kind(name="tool_call_done", frames=(WHOLE_CALL,), writes="stream_chunk"),
    Kind(name="tool_result", frames=(RESULT,), writes="stream_chunk"),
    Kind(name="user_message, status", frames=(USER, RUNNING), writes="immediate_response", session=_accepted),
    Kind(name="usage, run_end, status", frames=(USAGE, FINISHED, IDLE), writes="eventual_response", session=_completed),
    Kind(
        name="error, status",
        frames=(event("error", code="provider_error", message="the model is overloaded"), IDLE),
        writes="error",
        session=_failed,
    ),
    Kind(
        name="error (Cancelled), status",
        frames=(event("error", code="internal", message="Cancelled"), IDLE),
        writes="cancelled",
        session=_cancelled,
    ),
    Kind(name="text_done", frames=(event("text_done", text=ANSWER),), writes=""),
    Kind(name="thinking_start", frames=(event("thinking_start"),), writes=""),
    Kind(name="thinking_done", frames=(event("thinking_done", text="Let me look the order up." * 4),), writes=""),
    Kind(name="tool_call_start", frames=(CALL,), writes=""),
    Kind(name="tool_call_args_delta", frames=(FRAGMENT,), writes=""),
)


def _fragments() -> list[bytes]:
    pieces = [ARGUMENTS[at : at + 5] for at in range(0, len(ARGUMENTS), 5)]
    return [event("tool_call_args_delta", id="call_1", json=piece) for piece in pieces]


def turn(deltas: int) -> list[bytes]:
    """A whole turn: a thought, a tool call, `deltas` of text, the end."""
    return [
        RUNNING,
        event("turn_start", turn=0),
        event("llm_call_start", llm_call=0),
        event("thinking_start"),
        *[THOUGHT] * 20,
        event("thinking_done", text=" look the order up" * 20),
        CALL,
        *_fragments(),
        WHOLE_CALL,
        USAGE,
        event("llm_call_end", llm_call=0),
        event("turn_end", turn=0, result="finished"),
        RESULT,
        event("turn_start", turn=1),
        event("llm_call_start", llm_call=1),
        *[DELTA] * deltas,
        event("text_done", text=" warehouse" * deltas),
        USAGE,
        event("llm_call_end", llm_call=1),
        event("turn_end", turn=1, result="finished"),
        FINISHED,
        IDLE,
    ]
