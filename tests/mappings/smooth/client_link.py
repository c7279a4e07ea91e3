"""The link of a smooth server, driven by hand, and the frames that it sends."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from dragoman.mappings.canonical import Event, commands
from dragoman.mappings.canonical.values import Text
from dragoman.mappings.smooth.translator.client import ClientTranslator

A = "0b0e9b0e-0000-4000-8000-00000000000a"
INPUT = commands.SubmitInput(request="q", session="s", segments=(Text(text="hi"),))


class Link:
    """The link of a smooth server with an open session, driven by hand."""

    def __init__(self) -> None:
        numbers = count(0)
        self.translator = ClientTranslator(lambda: 0, lambda: f"own-{next(numbers)}", lambda: 0)
        self.sends(commands.OpenSession(agent=A, request="open"))
        self.hears(done("own-0", sessionId="s", conversationId=A))

    def sends(self, *items: Any) -> list[dict[str, Any]]:
        return [json.loads(frame) for frame in self.translator.send(items).frames]

    def hears(self, *frames: dict[str, Any]) -> list[tuple[str, list[Event]]]:
        step = self.translator.receive([json.dumps(frame).encode() for frame in frames])
        assert (step.faults, step.frames) == ([], [])
        return [(burst.request, burst.items) for burst in step.bursts]


def accepted(own: str = "own-1") -> dict[str, Any]:
    return {"type": "immediate_response", "requestId": own, "status": 202, "data": {}, "timestamp": 1}


def done(own: str, **data: Any) -> dict[str, Any]:
    return {"type": "immediate_response", "requestId": own, "status": 200, "data": data, "timestamp": 1}


def token(own: str = "own-1") -> dict[str, Any]:
    return {"type": "stream_token", "requestId": own, "token": "a", "timestamp": 1}


def error(own: str | None, code: str = "AGENT_ERROR") -> dict[str, Any]:
    described = {"code": code, "message": "oops"}
    frame = {"type": "error", "requestId": own, "error": described, "data": {"error": described}, "timestamp": 1}
    return {key: value for key, value in frame.items() if value is not None}


def final(own: str = "own-1") -> dict[str, Any]:
    answer = {"messageId": "m", "response": "a", "needsEscalation": False}
    return {"type": "eventual_response", "requestId": own, "data": {"data": answer}, "timestamp": 1}
