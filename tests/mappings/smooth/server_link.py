"""A smooth client's link, driven by hand, and an action of each kind."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from dragoman.mappings.canonical import Batch, Event, commands
from dragoman.mappings.canonical.values import Origin
from dragoman.mappings.dialect import Oversize, Step
from dragoman.mappings.smooth.translator.server import ServerTranslator
from tests.smooth_shapes import assert_emitted

SESSION = "5d0c7a52-1f1e-4c5e-9c38-0f6b1f2a9e01"
AT = 1_700_000_000_123_000_000
SAID = "r"


class Link:
    """A smooth client's link, driven by hand."""

    def __init__(self) -> None:
        numbers = count(1)
        self.translator = ServerTranslator(lambda: AT, lambda: f"minted-{next(numbers)}")
        self.last: Step[Any] = Step()

    def sends(self, *frames: Any) -> list[Any]:
        """Return the commands that these frames become."""
        encoded = [f if isinstance(f, bytes | Oversize) else json.dumps(f).encode() for f in frames]
        self.last = self.translator.receive(encoded)
        return [item for burst in self.last.bursts for item in burst.items]

    def hears(self) -> list[dict[str, Any]]:
        """Return the answers to the client's last frames, each checked strictly."""
        return strict(self.last)

    def receives(self, *items: Event) -> list[dict[str, Any]]:
        """Return the frames that these answers become."""
        return strict(self.translator.send(items))

    def begins_a_turn(self, request: str = "turn") -> None:
        assert [type(c) for c in self.sends(SEND | {"requestId": request})] == [commands.SubmitInput]

    def passes(self, *items: Event, request: str = "turn") -> None:
        batch = Batch(
            session=SESSION,
            epoch=1,
            first_seq=0,
            events=list(items),
            turn="t",
            origin=Origin(link="l", request=request),
        )
        assert self.translator.on_delivered(batch) == Step()


def strict(step: Step[Any]) -> list[dict[str, Any]]:
    frames = [json.loads(frame) for frame in step.frames]
    for frame in frames:
        assert_emitted(frame)
        if frame["type"] != "pong":
            assert frame["timestamp"] == AT // 1_000_000
    return frames


def action(name: str, **fields: Any) -> dict[str, Any]:
    return {"action": name, "requestId": SAID, **fields}


def without(frame: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in frame.items() if key not in keys}


CREATE = action("create_conversation_session", agentId="a")
GET = action("get_session", sessionId="s")
HISTORY = action("get_conversation_messages", sessionId="s")
LIST = action("list_conversations")
RENAME = action("rename_conversation", conversationId="c", title="t")
SEND = action("send_message", sessionId="s", message="hi")
CONFIRM = action("confirm_tool_action", sessionId="s", approved=True)
OTP = action("verify_otp", sessionId="s", code="123456")
CANCEL = action("cancel")
PING = action("ping")
