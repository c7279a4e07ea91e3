"""The order of messages that a smooth client may see (docs/dialects/smooth.md, sections 2, 4, 6 and 9).

A turn is ours when this connection sent its `send_message`, else somebody else's: it runs under an id that nobody here
asked by, without a 202. Commands and turns may share one id, so an answer is first looked for among the commands.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec import Struct, field

from tests.oracle.base import Record

STREAM = {"stream_token", "stream_reasoning", "stream_preamble", "stream_chunk"}
ASKS = {"write_confirmation_required", "otp_verification_required", "otp_sent", "interaction_required"}
MIRRORED = {
    *STREAM,
    *ASKS,
    "eventual_response",
    "cancelled",
    "error",
    "otp_verified",
    "otp_invalid",
    "interaction_invalid",
    "keepalive",
}
"""Types whose `data` repeats the request id (section 2)."""

ANSWERS = {
    "ping": {"pong"},
    "cancel": set[str](),  # silence, or the terminal of the turn: section 3
    "verify_otp": {"otp_verified", "otp_invalid"},
    "submit_interaction": {"immediate_response", "interaction_invalid"},
}
"""Action -> types of its answers besides `error`; an action that is missing here is answered with a 200."""


REFUSALS = {
    "VALIDATION_ERROR",
    "UNSUPPORTED_ACTION",
    "TURN_IN_PROGRESS",
    "SESSION_NOT_FOUND",
    "INTERACTION_MISMATCH",
    "NO_PENDING_CONFIRMATION",
    "NO_PENDING_INTERACTION",
    "CONVERSATION_NOT_FOUND",
}
"""Codes that refuse one action and say nothing of the turn whose id it bears (docs/translation.md, rule 4.13)."""


class Turn(Struct):
    """A turn as this connection sees it: from its 202, or from its first event if another client began it."""

    ours: bool
    text: list[str] = field(default_factory=list)
    last: list[str] = field(default_factory=list)  # of `text`, what came after the last call or result of a tool
    forgotten: bool = False  # a line before the answer told that the backend's context is lost
    calls: Counter[str] = field(default_factory=Counter)  # without a result, by name


class SmoothOracle:
    """A connection of a smooth client.

    `gaps` is how many gaps the server counted: so many turns lack some tokens. `forgotten` says that the backend lost
    its context: a line of its own tells it before the next answer, outside of that (docs/translation.md, rule 4.11).
    """

    def __init__(self) -> None:
        self.gaps = 0
        self.forgotten = False
        self._record = Record()
        self._waiting: list[tuple[str | None, str]] = []  # commands without an answer: request id, action
        self._turns: dict[str, Turn] = {}
        self._ended: set[str] = set()
        self._unanswered: Counter[str] = Counter()  # calls of turns that are over, without a result, by name
        self._said: set[str] = set()  # request ids of this connection

    @property
    def open(self) -> list[str]:
        """The turns without an end, and the commands whose answer is missing."""
        waiting = [f"{action} {request}" for request, action in self._waiting if action != "cancel"]
        return [*self._turns, *waiting]

    def said(self, message: dict[str, Any]) -> None:
        """Take an action that the client sent."""
        self._record.add(">", message)
        action, request = message.get("action"), message.get("requestId")
        if not isinstance(action, str):
            return
        request = request if isinstance(request, str) else None
        self._waiting.append((request, action))
        if request is not None:
            self._said.add(request)
            if action == "send_message":
                self._ended.discard(request)  # ids may be used again

    def got(self, frame: dict[str, Any]) -> None:
        """Take a frame that the client received."""
        self._record.add("<", frame)
        self._mirrors(frame)
        kind, request = frame["type"], frame.get("requestId")
        match kind:
            case "immediate_response" if frame.get("status") == 202:
                self._accepted(request)
            case "error":
                self._error(request, frame["error"]["code"])
            case "eventual_response" | "cancelled":
                self._end(kind, request, frame)
            case _ if kind in STREAM or kind in ASKS:
                self._stream(kind, self._turn(kind, request), frame)
            case "immediate_response" | "pong" | "otp_verified" | "otp_invalid" | "interaction_invalid":
                self._answer(kind, request)
            case _:
                pass  # keepalive, and types that every client drops

    # -- one message by itself -------------------------------------------------------------------------

    def _mirrors(self, frame: dict[str, Any]) -> None:
        kind, data = frame["type"], frame.get("data") or {}
        self._record.hold(type(frame.get("timestamp", 0)) is int, "timestamp is an integer")
        if kind in MIRRORED:
            self._record.hold(
                data.get("requestId") == frame.get("requestId") or kind == "keepalive", "requestId is mirrored"
            )
        names = {
            "pong": ("timestamp",),
            "error": ("error",),
            "eventual_response": ("status",),
            "cancelled": ("status",),
            "stream_chunk": ("node",),
        }.get(kind, ())
        if kind in STREAM - {"stream_chunk"}:
            names = ("token",)
        for name in names:
            self._record.hold(data.get(name) == frame.get(name), f"{name} is mirrored")

    # -- turns -----------------------------------------------------------------------------------------

    def _accepted(self, request: str | None) -> None:
        taken = self._take(request, "send_message") or self._take(None, "send_message")
        self._record.hold(request is not None and taken, "a 202 answers a send_message of this connection, once")
        self._record.hold(not any(turn.ours for turn in self._turns.values()), "one turn at a time on a connection")
        self._turns[request or ""] = Turn(ours=True)
        self._ended.discard(request or "")

    def _turn(self, kind: str, request: str | None) -> Turn:
        self._record.hold(request is not None, f"{kind} stands under a turn's id")
        turn = self._turns.get(request or "")
        if turn is None:
            self._record.hold((request, "send_message") not in self._waiting, f"the 202 comes before {kind}")
            self._record.hold(request not in self._ended, f"nothing of a turn after its end: {kind}")
            self._record.hold(request not in [waiting[0] for waiting in self._waiting], f"{kind} answers no command")
            turn = self._turns[request or ""] = Turn(ours=False)
        return turn

    def _stream(self, kind: str, turn: Turn, frame: dict[str, Any]) -> None:
        if kind == "stream_token":
            self._token(turn, frame["token"])
        if kind != "stream_chunk":
            return
        said = frame["data"]["state"].get("rawResponse")
        if isinstance(said, dict) and not {"toolCall", "toolResult"}.isdisjoint(said):
            turn.last.clear()
        if isinstance(said, dict) and "toolCall" in said:
            turn.calls[said["toolCall"]["name"]] += 1
        elif isinstance(said, dict) and "toolResult" in said:
            name = said["toolResult"]["name"]
            # A turn that goes on after a pause or a question may begin with the results of calls that were made before;
            # of what somebody else resumed those calls may never have been seen.
            before = turn.calls if turn.calls[name] > 0 else self._unanswered
            self._record.hold(before[name] > 0 or not turn.ours, "a tool's result comes after its call")
            before[name] -= 1

    def _token(self, turn: Turn, text: str) -> None:
        if self.forgotten and not turn.text and not turn.forgotten and text.startswith("[") and text.endswith("]\n\n"):
            turn.forgotten = True
        else:
            turn.text.append(text)
            turn.last.append(text)

    def _end(self, kind: str, request: str | None, frame: dict[str, Any]) -> None:
        turn = self._turn(kind, request)
        if kind == "eventual_response":
            self.forgotten &= not turn.forgotten  # it is told until an answer follows
            parts = frame["data"]["data"]["response"]
            parts = parts.get("responseParts", []) if isinstance(parts, dict) else [parts]
            # A server may leave out what came before the last tool call, and white space at the end (section 4).
            texts = "".join(turn.text), "".join(turn.last or turn.text)
            if "".join(parts) not in (*texts, *map(str.rstrip, texts)):
                self._record.hold(self.gaps > 0, "the tokens of a turn are its answer, unless a gap was counted")
                self.gaps -= 1
        self._over(request or "")

    def _over(self, request: str) -> None:
        self._unanswered += self._turns.pop(request).calls
        self._ended.add(request)

    # -- answers ---------------------------------------------------------------------------------------

    def _error(self, request: str | None, code: str) -> None:
        """Answer a command that waits under this id, else end the live turn that has it.

        An error without an id ends nothing (section 9).
        """
        if request is None:
            any(self._take(known) for known in (None, *self._turns))
        elif request in self._turns:
            if code not in REFUSALS or not self._take(request):
                self._over(request)
        elif self._take(request, "send_message"):
            self._ended.add(request)
        elif not self._take(request) and not self._take(None, "send_message"):
            stray = request in self._said or request in self._ended
            self._record.hold(not stray, "an error answers one command, or ends one turn, that has its id")
            self._ended.add(request)  # a turn of somebody else of which nothing but its end was seen

    def _answer(self, kind: str, request: str | None) -> None:
        for waiting in self._waiting:
            if waiting[0] == request and kind in ANSWERS.get(waiting[1], {"immediate_response"}):
                self._waiting.remove(waiting)
                return
        if kind in ("otp_verified", "otp_invalid", "interaction_invalid") and request in self._turns:
            return  # what somebody else answered
        self._record.hold(False, f"{kind} answers a command that waits under its id, once")

    def _take(self, request: str | None, action: str = "") -> bool:
        """Return True if a command with this id waited for its answer; it waits no longer."""
        for waiting in self._waiting:
            if waiting[0] == request and action in ("", waiting[1]):
                self._waiting.remove(waiting)
                return True
        return False
