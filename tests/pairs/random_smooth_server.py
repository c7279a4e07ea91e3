"""A smooth server as a random backend (docs/dialects/smooth.md, sections 3 to 6): any legal turn, other requests in
its middle.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from msgspec import Struct, field

from tests.pairs.random_backend import REASONING, Frame, Move, PlayedTurn, RandomBackend
from tests.pairs.views import TEXT


def uuid(name: str) -> str:
    """Return a UUID that is the same for the same number."""
    return str(uuid5(NAMESPACE_URL, name))


class Turn(Struct):
    """The running turn, with its request id."""

    played: PlayedTurn
    request: str
    spoke: bool = False
    asks: bool = False
    calls: list[str] = field(default_factory=list)


class RandomSmoothServer(RandomBackend):
    """A server with one connection at a time; `forgets` makes it lose sessions, `forgets_all` conversations too."""

    dialect = "smooth"

    def __init__(self) -> None:
        super().__init__()
        self.forgets = self.forgets_all = False
        self._turn: Turn | None = None
        self._inputs: list[Frame] = []
        self._sessions = 0
        self._conversation = ""
        self._history: list[Frame] = []
        self._names = 0

    @property
    def turn(self) -> PlayedTurn | None:
        return None if self._turn is None else self._turn.played

    # -- the connection --------------------------------------------------------------------------------

    def connected(self) -> None:
        self.lost(dies=False)  # the gateway may have closed the connection itself

    def lost(self, *, dies: bool) -> None:
        if self._turn is not None:  # a disconnect aborts the turn
            self._turn.played.whole = False
        self._turn, self._inputs, self.stopping = None, [], False
        self.forgets = self.forgets or dies

    def hears(self, frame: Frame) -> None:
        action, request = frame["action"], frame.get("requestId")
        match action:
            case "create_conversation_session":
                self._create(request, frame.get("conversationId") or "")
            case "get_session" if self.forgets or frame["sessionId"] != uuid(f"session {self._sessions}"):
                self._say("error", request, error={"code": "SESSION_NOT_FOUND", "message": "who?"})
            case "get_session":
                self._reply(request, self._described())
            case "get_conversation_messages":
                self._reply(request, {"messages": self._history[::-1], "nextCursor": None, "hasMore": False})
            case "send_message" if self._turn is not None or self._inputs:
                self._say("error", request, error={"code": "TURN_IN_PROGRESS", "message": "one at a time"})
            case "send_message":
                self._inputs.append(frame)
            case "confirm_tool_action" if self._turn is not None and self._turn.asks:
                self._turn.asks = False
                self._reply(request, {"sessionId": frame["sessionId"], "approved": frame["approved"]})
            case "confirm_tool_action":
                self._say("error", request, error={"code": "NO_PENDING_CONFIRMATION", "message": "nothing waits"})
            case "cancel":
                self.stopping = self._turn is not None or bool(self._inputs)
            case "ping":
                self.out.append({"type": "pong", "requestId": request, "data": {"timestamp": 1}, "timestamp": 1})
            case _:
                self._say("error", request, error={"code": "UNSUPPORTED_ACTION", "message": action})

    def _create(self, request: str | None, conversation: str) -> None:
        self._sessions += 1
        if not conversation or self.forgets_all or conversation != self._conversation:
            self._conversation, self._history = uuid(f"conversation {self._sessions}"), []
        self.forgets = self.forgets_all = False
        self._reply(request, self._described())

    def _described(self) -> Frame:
        return {
            "sessionId": uuid(f"session {self._sessions}"),
            "conversationId": self._conversation,
            "agentId": uuid("agent"),
            "agentName": "smooth-agent",
            "userParticipantId": uuid("user"),
            "agentParticipantId": uuid("participant"),
        }

    def _reply(self, request: str | None, data: Frame) -> None:
        self.out.append(
            {
                "type": "immediate_response",
                "requestId": request,
                "status": 200,
                "message": "OK",
                "data": data,
                "timestamp": 1,
            }
        )

    def _say(self, kind: str, request: str | None, data: Frame | None = None, **fields: Any) -> None:
        """Send an event with its mirrored fields."""
        data = {"requestId": request, **fields, **(data or {})}
        self.out.append({"type": kind, "requestId": request, **fields, "data": data, "timestamp": 1})

    # -- moves -----------------------------------------------------------------------------------------

    def moves(self) -> list[Move]:
        turn = self._turn
        if turn is None:  # pushed while an input waits, two turns would run at once: a session here has one
            return [self._accept] * 6 + [self._refuse] if self._inputs else [self._push, self._forget]
        if turn.asks:
            return [self._wait] * 4 + [self._token] + [self._cancelled] * 6 * self.stopping
        moves = [self._ask] + [self._token] * 6 + [self._think] * 3 + [self._call] * 2 + [self._phase, self._fail]
        moves += [self._preamble] * (not turn.spoke) + [self._result] * 4 * bool(turn.calls)
        moves += [self._complete] * 2 * (not turn.calls) + [self._cancelled] * 6 * self.stopping
        return moves

    def finish(self) -> None:
        if self._turn is not None:
            if self.stopping:
                self._cancelled()
            else:
                self._fail()
        while self._inputs:
            self._refuse()

    def _push(self) -> None:
        """Send a turn that another client began to all sockets of the conversation (section 4, pushes)."""
        self._begin(uuid(f"pushed {len(self.turns)}"))

    def _forget(self) -> None:
        self.forgets = True
        self.forgets_all = len(self.turns) % 2 == 0

    def _begin(self, request: str) -> None:
        self.turns.append(PlayedTurn(number=len(self.turns)))
        self._turn = Turn(played=self.turns[-1], request=request)

    def _accept(self) -> None:
        said = self._inputs.pop(0)
        self._begin(said["requestId"])
        self._record("inbound", said["message"])
        self.out.append(
            {
                "type": "immediate_response",
                "requestId": said["requestId"],
                "status": 202,
                "message": "ok",
                "data": {},
                "timestamp": 1,
            }
        )

    def _refuse(self) -> None:
        request = self._inputs.pop(0)["requestId"]
        self._say("error", request, error={"code": "LLM_UNAVAILABLE", "message": "no model"})

    def _record(self, direction: str, text: str) -> None:
        message = {
            "id": uuid(f"message {len(self._history)} {self._sessions}"),
            "direction": direction,
            "content": {"text": text},
            "createdAt": "2026-01-01T00:00:00Z",
        }
        self._history.append(message)

    def _open(self) -> Turn:
        assert self._turn is not None
        return self._turn

    def _ask(self) -> None:
        self._open().asks = self._open().played.asked = True
        asked = {"toolId": f"tool_{self._names % 3}", "actionDescription": "Do it?"}
        self._say("write_confirmation_required", self._open().request, data={"data": asked})

    def _wait(self) -> None:
        """Say nothing while a question waits for its answer."""

    def _token(self) -> None:
        turn = self._open()
        turn.spoke, turn.asks = True, False  # a server that goes on has denied the question itself
        words = self._words.next(turn.played.number)
        turn.played.seen.add_text(words)
        self._say("stream_token", turn.request, token=words)

    def _think(self) -> None:
        turn = self._open()
        words = self._words.next(turn.played.number, REASONING)
        turn.played.seen.add_thought(words)
        self._say("stream_reasoning", turn.request, token=words)

    def _preamble(self) -> None:
        self._say("stream_preamble", self._open().request, token="one moment")

    def _chunk(self, node: str, state: Frame) -> None:
        self._say("stream_chunk", self._open().request, node=node, data={"state": state})

    def _phase(self) -> None:
        self._chunk("model", {})

    def _call(self) -> None:
        turn = self._open()
        self._names += 1
        name, given = f"tool_{self._names % 3}", {"a": self._words.next(turn.played.number)}
        turn.calls.append(name)
        turn.played.seen.add_call(name, given)
        said: object = json.dumps(given) if self._names % 2 else given
        self._chunk(name, {"rawResponse": {"toolCall": {"name": name, "arguments": said}}})

    def _result(self) -> None:
        turn = self._open()
        name = turn.calls.pop(0)
        words = self._words.next(turn.played.number)
        turn.played.seen.add_result(name, words)
        self._chunk(name, {"rawResponse": {"toolResult": {"name": name, "isError": False, "result": words}}})

    # -- its end ---------------------------------------------------------------------------------------

    def _end(self, end: str) -> str:
        turn = self._open()
        turn.played.seen.end = end
        self._turn, self.stopping = None, False
        return turn.request

    def _complete(self) -> None:
        text = "".join(words for kind, words in self._open().played.seen.parts if kind == TEXT)
        self._record("outbound", text)
        answer = {
            "messageId": self._history[-1]["id"],
            "response": {"responseParts": [text] if text else []},
            "needsEscalation": False,
            "usage": {"costUsd": 0.5, "promptTokens": 3, "completionTokens": 4},
        }
        self._say("eventual_response", self._end("completed"), status=200, data={"data": answer})

    def _cancelled(self) -> None:
        self._say("cancelled", self._end("cancelled"), status=499)

    def _fail(self) -> None:
        self._say("error", self._end("failed"), error={"code": "INTERNAL_ERROR", "message": "broken"})
