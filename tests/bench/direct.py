"""The floor of G1: the translation that a user would write with msgspec and the same structs, from wire to wire.

One loop a kind: decode with the union of all pod events, build the smooth struct, encode. It knows which kind comes, so
that not even dispatch is counted; it keeps no session and checks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dragoman.mappings.pod.wire import events as pod
from dragoman.mappings.smooth.wire import events as smooth
from tests.bench.material import ANSWER, MESSAGE, REQUEST

DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(pod.Event)
decode = DECODER.decode
encode = msgspec.json.Encoder().encode

Translate = Callable[[Sequence[bytes], int], list[bytes]]


def text_delta(frames: Sequence[bytes], now: int) -> list[bytes]:
    written = []
    for frame in frames:
        token = decode(frame).data.text
        data = smooth.TokenData(request_id=REQUEST, token=token)
        written.append(encode(smooth.StreamToken(request_id=REQUEST, token=token, data=data, timestamp=now)))
    return written


def thinking_delta(frames: Sequence[bytes], now: int) -> list[bytes]:
    written = []
    for frame in frames:
        token = decode(frame).data.text
        data = smooth.TokenData(request_id=REQUEST, token=token)
        written.append(encode(smooth.StreamReasoning(request_id=REQUEST, token=token, data=data, timestamp=now)))
    return written


def tool_call_done(frames: Sequence[bytes], now: int) -> list[bytes]:
    written = []
    for frame in frames:
        call = decode(frame).data
        written.append(encode(_chunk(call.name, {"toolCall": {"name": call.name, "arguments": call.arguments}}, now)))
    return written


def tool_result(frames: Sequence[bytes], now: int) -> list[bytes]:
    written = []
    for frame in frames:
        result = decode(frame).data
        state = {"toolResult": {"name": "", "isError": result.is_error, "result": result.output}}
        written.append(encode(_chunk("", state, now)))
    return written


def _chunk(node: str, state: object, now: int) -> smooth.StreamChunk:
    data = smooth.StreamChunk.Data(request_id=REQUEST, node=node, state=smooth.NodeState(raw_response=state))
    return smooth.StreamChunk(request_id=REQUEST, node=node, data=data, timestamp=now)


def accepted(frames: Sequence[bytes], now: int) -> list[bytes]:
    written = []
    each = iter(frames)
    for user, status in zip(each, each, strict=True):
        decode(user)
        decode(status)
        reply = smooth.ImmediateResponse(
            request_id=REQUEST, status=202, message="Processing your request...", data={}, timestamp=now
        )
        written.append(encode(reply))
    return written


def eventual_response(frames: Sequence[bytes], now: int) -> list[bytes]:
    written = []
    each = iter(frames)
    for usage, run_end, status in zip(each, each, each, strict=True):
        used = decode(usage).data
        decode(run_end)
        decode(status)
        written.append(encode(_eventual(ANSWER, used.input_tokens, used.output_tokens, now)))
    return written


def _eventual(text: str, asked: int, answered: int, now: int) -> smooth.EventualResponse:
    answer = smooth.FinalAnswer(
        message_id=MESSAGE,
        response={
            "responseParts": [text],
            "customerHappinessScore": 0.5,
            "needsSatisfactionScore": 0.5,
            "requestSummary": "",
            "resolutionStatus": "in_progress",
            "suggestedNextActions": [],
        },
        needs_escalation=False,
        usage=smooth.TurnUsage(prompt_tokens=asked, completion_tokens=answered),
    )
    data = smooth.EventualResponse.Data(request_id=REQUEST, status=200, data=answer)
    return smooth.EventualResponse(request_id=REQUEST, status=200, data=data, timestamp=now)


def error(frames: Sequence[bytes], now: int) -> list[bytes]:
    written = []
    each = iter(frames)
    for problem, status in zip(each, each, strict=True):
        body = smooth.ErrorBody(code="AGENT_ERROR", message=decode(problem).data.message)
        decode(status)
        data = smooth.ErrorEvent.Data(request_id=REQUEST, error=body)
        written.append(encode(smooth.ErrorEvent(request_id=REQUEST, error=body, data=data, timestamp=now)))
    return written


def cancelled(frames: Sequence[bytes], now: int) -> list[bytes]:
    written = []
    each = iter(frames)
    for problem, status in zip(each, each, strict=True):
        decode(problem)
        decode(status)
        data = smooth.Cancelled.Data(request_id=REQUEST, status=499)
        written.append(encode(smooth.Cancelled(request_id=REQUEST, status=499, data=data, timestamp=now)))
    return written


def nothing(frames: Sequence[bytes], _now: int) -> list[bytes]:
    for frame in frames:
        decode(frame)
    return []


DIRECT: dict[str, Translate] = {
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


class Turn:
    """A whole turn with what a user's own translator must remember: the text, the names of calls, the usage."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._names: dict[str, str] = {}
        self._asked = 0
        self._answered = 0

    def translate(self, frames: Sequence[bytes], now: int) -> list[bytes]:
        written = []
        for frame in frames:
            message = decode(frame)
            match type(message):
                case pod.TextDelta:
                    token = message.data.text
                    self._text.append(token)
                    words = smooth.TokenData(request_id=REQUEST, token=token)
                    said = smooth.StreamToken(request_id=REQUEST, token=token, data=words, timestamp=now)
                    written.append(encode(said))
                case pod.ThinkingDelta:
                    token = message.data.text
                    words = smooth.TokenData(request_id=REQUEST, token=token)
                    thought = smooth.StreamReasoning(request_id=REQUEST, token=token, data=words, timestamp=now)
                    written.append(encode(thought))
                case pod.Usage:
                    self._asked += message.data.input_tokens
                    self._answered += message.data.output_tokens
                case pod.ToolCallDone:
                    call = message.data
                    self._names[call.id] = call.name
                    state: object = {"toolCall": {"name": call.name, "arguments": call.arguments}}
                    written.append(encode(_chunk(call.name, state, now)))
                case pod.ToolResult:
                    result = message.data
                    name = self._names.pop(result.id)
                    state = {"toolResult": {"name": name, "isError": result.is_error, "result": result.output}}
                    written.append(encode(_chunk(name, state, now)))
                case pod.Status if message.data.status == "idle":
                    written.append(encode(_eventual("".join(self._text), self._asked, self._answered, now)))
        return written
