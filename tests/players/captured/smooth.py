"""A smooth server that plays a recorded conversation, with a store as in docs/dialects/smooth.md, section 6."""

from __future__ import annotations

from itertools import takewhile
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from tests.gateway.in_memory import InMemoryPeer
from tests.oracle.base import Said
from tests.players.captured.backend import CapturedBackend, Frame
from tests.players.captures import Message, messages
from tests.players.clients import InMemorySmoothClient

ANSWERS = ("confirm_tool_action", "verify_otp", "submit_interaction")
PARKS = ("write_confirmation_required", "interaction_required")
ACKS = ("otp_verified", "otp_invalid", "interaction_invalid")


class CapturedSmoothServer(CapturedBackend):
    """A captured smooth server: the frames of the first socket of a recording, up to its close."""

    dialect = "smooth"

    def __init__(self, number: str, manner: str = "") -> None:
        self._created = next(m.value["data"] for m in messages("smooth", number) if _is_created(m.value))
        super().__init__(number, manner)
        self._turns: dict[str, str] = {}  # recorded request id of a turn -> the actual request id
        self._acks: list[str] = []  # ids of answers to questions, oldest first
        self._due = ""
        self._early: list[str] = []
        self._store: list[Frame] = []

    @classmethod
    def plays(cls, number: str) -> bool:
        return any((m.value or {}).get("action") == "send_message" for m in messages("smooth", number))

    def _chosen(self, recorded: tuple[Message, ...]) -> list[Message]:
        return [message for message in takewhile(lambda message: message.text, recorded) if message.value is not None]

    def history(self) -> list[Said]:
        said: list[Said] = []
        for message in self.recorded:
            if message.value.get("action") == "send_message":
                said.append(("user", message.value["message"]))
            elif message.value.get("type") == "eventual_response":
                said.append(("assistant", _text(message.value)))
        return said

    @staticmethod
    def is_text(frame: Frame) -> bool:
        return frame.get("type") in ("stream_token", *PARKS)

    @staticmethod
    def is_end(frame: Frame) -> bool:
        return frame.get("type") in ("eventual_response", "cancelled", "error")

    # -- playing ---------------------------------------------------------------------------------------

    def say(self, message: Message) -> None:
        frame = message.value
        kind, recorded = frame["type"], frame.get("requestId", "")
        if kind in ACKS or (kind == "immediate_response" and frame["status"] == 200):
            answered = self._acks.pop(0) if self._acks and not _is_created(frame) else ""
        else:
            answered = self._turns.get(recorded, "")
        if not answered:
            return  # an answer to a request that the driver did not send
        if kind == "eventual_response":
            self._keep("outbound", _text(frame))
        data = frame["data"] | ({"requestId": answered} if "requestId" in frame["data"] else {})
        self.stage.pods[0].sends(frame | {"requestId": answered, "data": data})

    def bring_about(self, message: Message) -> None:
        frame = message.value
        action, driver = frame["action"], self.driver
        if action == "send_message":
            self._due = frame["requestId"]
            if self._early:  # the gateway has repeated the input that was refused until the code came
                self._turns[self._due] = self._early.pop()
            else:
                driver.say(frame["message"])
        elif action == "cancel":
            driver.cancel()
        elif action == "confirm_tool_action":
            driver.answer(approved=frame["approved"])
        elif action in ANSWERS and isinstance(driver, InMemorySmoothClient):
            known = {key: frame[key] for key in ("code", "interactionId", "values", "kind") if key in frame}
            driver.ask(action, sessionId=driver.public(), **known)
        elif action == "verify_otp":
            driver.say(f"code {frame['code']}")
        elif action == "submit_interaction":
            for said in frame["values"].values():
                driver.say(said)

    def asked(self, peer: InMemoryPeer, frame: Frame) -> None:
        match frame["action"]:
            case "send_message":
                if self._due in self._turns:
                    self._early.append(frame["requestId"])
                self._turns.setdefault(self._due, frame["requestId"])
                self._keep("inbound", frame["message"])
            case "confirm_tool_action" | "verify_otp" | "submit_interaction":
                self._acks.append(frame["requestId"])
            case "cancel":
                pass
            case "ping":
                self._reply(peer, frame, {"timestamp": 1}, type="pong")
            case "create_conversation_session" | "get_session":
                self._reply(peer, frame, self._created)
            case "get_conversation_messages":
                self._reply(peer, frame, {"messages": self._store[::-1], "nextCursor": None, "hasMore": False})
            case "list_conversations":
                self._reply(peer, frame, {"conversations": [], "nextCursor": None, "hasMore": False})
            case action:
                raise AssertionError(f"not recorded: {action}")

    def _reply(self, peer: InMemoryPeer, asked: Frame, data: Any, **keys: Any) -> None:
        kept = keys or {"type": "immediate_response", "status": 200, "message": "OK"}
        peer.sends(kept | {"requestId": asked["requestId"], "data": data, "timestamp": 1})

    def _keep(self, direction: str, text: str) -> None:
        message = {
            "id": str(uuid5(NAMESPACE_URL, f"message {len(self._store)}")),
            "direction": direction,
            "content": {"text": text},
            "createdAt": "2026-01-01T00:00:00Z",
        }
        self._store.append(message)


def _is_created(frame: Any) -> bool:
    return isinstance(frame, dict) and frame.get("message") == "Session created"


def _text(frame: Frame) -> str:
    return "".join(frame["data"]["data"]["response"]["responseParts"])
