"""The peer of G2: the same translation by hand with the standard library's json, as most bridges are written.

The mirror of direct.py. `json.dumps` with its defaults, because other separators make it slower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from json import dumps, loads
from typing import Any

from tests.bench.material import ANSWER, MESSAGE, REQUEST

Translate = Callable[[Sequence[bytes], int], list[bytes]]


def _written(message: dict[str, Any]) -> bytes:
    return dumps(message).encode()


def _token(kind: str, token: str, now: int) -> bytes:
    data = {"requestId": REQUEST, "token": token}
    return _written({"type": kind, "requestId": REQUEST, "token": token, "data": data, "timestamp": now})


def text_delta(frames: Sequence[bytes], now: int) -> list[bytes]:
    return [_token("stream_token", loads(frame)["data"]["text"], now) for frame in frames]


def thinking_delta(frames: Sequence[bytes], now: int) -> list[bytes]:
    return [_token("stream_reasoning", loads(frame)["data"]["text"], now) for frame in frames]


def tool_call_done(frames: Sequence[bytes], now: int) -> list[bytes]:
    written = []
    for frame in frames:
        call = loads(frame)["data"]
        state = {"toolCall": {"name": call["name"], "arguments": call["arguments"]}}
        written.append(_chunk(call["name"], state, now))
    return written


def tool_result(frames: Sequence[bytes], now: int) -> list[bytes]:
    written = []
    for frame in frames:
        result = loads(frame)["data"]
        state = {"toolResult": {"name": "", "isError": result["is_error"], "result": result["output"]}}
        written.append(_chunk("", state, now))
    return written


def _chunk(node: str, state: object, now: int) -> bytes:
    data = {"requestId": REQUEST, "node": node, "state": {"rawResponse": state}}
    return _written({"type": "stream_chunk", "requestId": REQUEST, "node": node, "data": data, "timestamp": now})


def accepted(frames: Sequence[bytes], now: int) -> list[bytes]:
    written = []
    each = iter(frames)
    for user, status in zip(each, each, strict=True):
        loads(user)
        loads(status)
        head = {"type": "immediate_response", "requestId": REQUEST, "status": 202}
        written.append(_written({**head, "message": "Processing your request...", "data": {}, "timestamp": now}))
    return written


def eventual_response(frames: Sequence[bytes], now: int) -> list[bytes]:
    written = []
    each = iter(frames)
    for usage, run_end, status in zip(each, each, each, strict=True):
        used = loads(usage)["data"]
        loads(run_end)
        loads(status)
        answer = {
            "messageId": MESSAGE,
            "response": {
                "responseParts": [ANSWER],
                "customerHappinessScore": 0.5,
                "needsSatisfactionScore": 0.5,
                "requestSummary": "",
                "resolutionStatus": "in_progress",
                "suggestedNextActions": [],
            },
            "needsEscalation": False,
            "usage": {"promptTokens": used["input_tokens"], "completionTokens": used["output_tokens"]},
        }
        data = {"requestId": REQUEST, "status": 200, "data": answer}
        head = {"type": "eventual_response", "requestId": REQUEST, "status": 200}
        written.append(_written({**head, "data": data, "timestamp": now}))
    return written


def error(frames: Sequence[bytes], now: int) -> list[bytes]:
    written = []
    each = iter(frames)
    for problem, status in zip(each, each, strict=True):
        body = {"code": "AGENT_ERROR", "message": loads(problem)["data"]["message"]}
        loads(status)
        data = {"requestId": REQUEST, "error": body}
        written.append(_written({"type": "error", "requestId": REQUEST, "error": body, "data": data, "timestamp": now}))
    return written


def cancelled(frames: Sequence[bytes], now: int) -> list[bytes]:
    written = []
    each = iter(frames)
    for problem, status in zip(each, each, strict=True):
        loads(problem)
        loads(status)
        head = {"type": "cancelled", "requestId": REQUEST, "status": 499}
        written.append(_written({**head, "data": {"requestId": REQUEST, "status": 499}, "timestamp": now}))
    return written


def nothing(frames: Sequence[bytes], _now: int) -> list[bytes]:
    for frame in frames:
        loads(frame)
    return []


PLAIN: dict[str, Translate] = {
    "text_delta": text_delta,
    "thinking_delta": thinking_delta,
    "tool_call_done": tool_call_done,
    "tool_result": tool_result,
    "user_message, status": accepted,
    "usage, run_end, status": eventual_response,
    "error, status": error,
    "error (Cancelled), status": cancelled,
    "text_done": nothing,
    "thinking_start": nothing,
    "thinking_done": nothing,
    "tool_call_start": nothing,
    "tool_call_args_delta": nothing,
}
