"""Every event that a smooth server may send in a turn reaches a smooth client unchanged
(docs/dialects/smooth.md, section 4).

The real server sends only some of them. Here a client asks, through the gateway, a server that sends any event.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dragoman.gateway.endpoint import parse
from tests.conformance.fake_smooth import FakeSmooth, ended, of_turn
from tests.conformance.malformed_input import SmoothBystander, listening

ANSWER = {
    "messageId": str(uuid4()),
    "response": {
        "responseParts": ["Well."],
        "customerHappinessScore": 0.25,
        "needsSatisfactionScore": 0.75,
        "requestSummary": "weather",
        "resolutionStatus": "requires_escalation",
        "suggestedNextActions": ["call", "wait"],
    },
    "needsEscalation": True,
    "escalationReason": "a human must decide",
    "citations": [
        {"id": "a", "title": "A", "url": "https://example.org/a", "snippet": "a", "score": 5.0},
        {"id": "b", "title": "B", "snippet": "b", "score": 0.5},
    ],
    "usage": {"costUsd": 0.25, "promptTokens": 10, "completionTokens": 5},
    "directive": {"type": "send_file", "files": [{"name": "a.txt", "url": "data:text/plain,a"}]},
}
END = {**of_turn("eventual_response", status=200, data=ANSWER), "status": 200}
TOKEN = of_turn("stream_token", token="Well.")
CALL = {"toolCall": {"name": "look_up", "arguments": {"id": [1, {"a": None}]}}}
RESULT = {"toolResult": {"name": "look_up", "isError": False, "result": '{"found": true}'}}

TURNS: dict[str, list[dict[str, Any]]] = {
    "an answer with all that there is": [TOKEN, END],
    "words while it waits": [of_turn("stream_preamble", token="One moment."), TOKEN, ended("Well.")],
    "reasoning": [
        of_turn("stream_reasoning", token="Hm"),
        of_turn("stream_reasoning", token="."),
        TOKEN,
        ended("Well."),
    ],
    "a phase": [of_turn("stream_chunk", node="plan", state={}), TOKEN, ended("Well.")],
    "a call and its result": [
        of_turn("stream_chunk", node="look_up", state={"rawResponse": CALL}),
        of_turn("stream_chunk", node="look_up", state={"rawResponse": RESULT}),
        TOKEN,
        ended("Well."),
    ],
    "a call with arguments as text": [
        of_turn("stream_chunk", node="f", state={"rawResponse": {"toolCall": {"name": "f", "arguments": '{"a":1}'}}}),
        of_turn(
            "stream_chunk",
            node="f",
            state={"rawResponse": {"toolResult": {"name": "f", "isError": True, "result": "no"}}},
        ),
        TOKEN,
        ended("Well."),
    ],
    "other states": [
        of_turn("stream_chunk", node="graph", state={"structuredResponse": {"a": 1}, "pendingWriteConfirmation": None}),
        of_turn("stream_chunk", node="graph", state={"rawResponse": "text"}, done=True),
        TOKEN,
        ended("Well."),
    ],
    "an empty answer": [ended("")],
}


@pytest.mark.parametrize("name", TURNS)
async def test_every_event_of_a_turn_arrives_unchanged(name: str, tmp_path: Path) -> None:
    async with (
        FakeSmooth.serving() as fake,
        listening(tmp_path, parse(fake.url)) as (_, url, _),
        SmoothBystander.connected(url) as asker,
    ):
        await asker.send({"action": "send_message", "sessionId": "$session", "requestId": "turn", "message": "hold"})
        await fake.asked()
        await asker.until(lambda frame: frame.get("status") == 202)
        await fake.say(*TURNS[name])
        told = await asker.until(lambda frame: frame["type"] == "eventual_response")
        assert [without_time(frame) for frame in told] == [without_time(said(frame)) for frame in TURNS[name]]


def said(frame: dict[str, Any]) -> Any:
    """Return the frames of the server, with the request id of the client."""
    return json.loads(json.dumps(frame).replace("$turn", "turn"))


def without_time(frame: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in frame.items() if key != "timestamp"}
