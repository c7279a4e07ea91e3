"""Readers that find the turns of one session in wire messages, written from docs/dialects alone.

A reader takes the messages of one connection in order, each with its sender, and returns the turns. The same reader is
used for a recorded backend and for the frames of our clients, so that both can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Protocol

from msgspec import Struct, field

from tests.dialects import parts

Frame = dict[str, Any]
Wire = Iterable[tuple[str, Any]]
"""Messages in their order: ("said" by the client or "got" by it, JSON value)."""


class Turn(Struct):
    """A turn as it was shown, which a reader fills in. `end` is completed, failed, cancelled, or "" while it is open.
    `ours` is True if an input of this connection began it; `questions` counts its questions in forms.
    """

    text: str = ""
    thought: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    results: list[tuple[str, str]] = field(default_factory=list)
    end: str = ""
    ours: bool = False
    questions: int = 0

    @property
    def empty(self) -> bool:
        """Return True if nothing of the turn was shown except its beginning and its end."""
        return not (self.text or self.thought or self.calls or self.results)

    def add_text(self, text: str) -> None:
        self.text += text

    def replace_text(self, start: int, text: str) -> None:
        """Replace the text from `start` on by the whole text of its block or turn."""
        self.text = self.text[:start] + text

    def add_thought(self, text: str) -> None:
        self.thought += text

    def add_call(self, name: str, arguments: object, *, whole: bool = True) -> None:
        """Add a call; one that is not `whole` was cut off before its end."""
        self.calls.append((name, plain(arguments)))

    def add_result(self, name: str, text: str) -> None:
        self.results.append((name, text))

    def add_question(self) -> None:
        self.questions += 1

    def finish(self, end: str) -> None:
        """Note the end of the turn; in words a `paused` one is cancelled."""
        self.end = "cancelled" if end == "paused" else end


MakeTurn = Callable[[bool], Turn]
"""Make a turn; the argument says whether an input of this connection began it."""


def plain(arguments: object) -> str:
    """Return a call's arguments as one text: they are an object or JSON text, with any order of keys."""
    value = arguments
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments)
        except ValueError:
            value = arguments
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


# -- pod (docs/dialects/pod.md, sections 6 to 8) --------------------------------------------------------


class PodReader:
    """A reader of runs from `status{running}` to the next other status; a done text replaces its deltas."""

    def __init__(self, make: MakeTurn) -> None:
        self.turns: list[Turn] = []
        self._make = make
        self._turn: Turn | None = None
        self._asked = False
        self._ended = ""
        self._block = 0  # where the text of the open block begins
        self._names: dict[str, str] = {}
        self._fragments: dict[str, str] = {}  # the arguments so far of calls that are not complete

    def read(self, wire: Wire) -> list[Turn]:
        for way, frame in wire:
            if way == "got":
                self._got(frame["event"], frame.get("data") or {})
            elif isinstance(frame, dict):
                self._asked = self._asked or frame.get("method") == "run"
        return self.turns

    def _got(self, event: str, data: Frame) -> None:
        if event in ("snapshot", "status"):
            self._status(data.get("status", "idle"))
        if event == "snapshot":
            self._know(data["entries"])
        elif event == "segment_rotated":
            self._know([data["entry"]])
        elif event == "run_end":
            ends = {"finished": "completed", "limit_reached": "completed", "paused": "paused"}
            self._ended = ends.get(data["result"], "cancelled")
        elif event == "error" and data["code"] == "already_running":
            self._asked = False
        elif event == "error":
            self._ended = "cancelled" if data["message"] == "Cancelled" else self._ended or "failed"
        elif self._turn is not None:
            self._content(self._turn, event, data)

    def _status(self, status: str) -> None:
        if status == "running" and self._turn is None:
            self._turn = self._make(self._asked)
            self._asked, self._ended, self._block = False, "", 0
            self.turns.append(self._turn)
        elif status != "running" and self._turn is not None:
            for call, said in self._fragments.items():
                self._turn.add_call(self._names[call], said, whole=False)
            self._turn.finish(self._ended or "failed")
            self._turn, self._fragments = None, {}
        elif status == "idle" and self._ended and self._ended != "paused" and self.turns:
            self.turns[-1].finish(self._ended)  # a paused run was cancelled

    def _know(self, entries: list[Any]) -> None:
        """Remember the names of earlier calls, whose results may still come."""
        items = [item for entry in entries for item in (entry.get("history") or [entry.get("item") or {}])]
        self._names |= {item["call_id"]: item["name"] for item in items if item.get("kind") == "tool_call"}

    def _content(self, turn: Turn, event: str, data: Frame) -> None:
        match event:
            case "text_delta":
                turn.add_text(data["text"])
            case "text_done":
                turn.replace_text(self._block, data["text"])
                self._block += len(data["text"])
            case "thinking_delta":
                turn.add_thought(data["text"])
            case "tool_call_start":
                self._names[data["id"]], self._fragments[data["id"]] = data["name"], ""
            case "tool_call_args_delta":
                self._fragments[data["id"]] += data["json"]
            case "tool_call_done":
                del self._fragments[data["id"]]
                turn.add_call(data["name"], data["arguments"])
            case "tool_result":
                turn.add_result(self._names.get(data["id"], ""), data.get("output") or data["summary"])


# -- smooth (docs/dialects/smooth.md, sections 4 and 6) -------------------------------------------------


class SmoothReader:
    """A reader of turns by request id, up to their terminal. A refused input begins none."""

    ENDS: ClassVar = {"eventual_response": "completed", "error": "failed", "cancelled": "cancelled"}
    NONE = ("pong", "keepalive", "stream_preamble", "otp_verified", "otp_invalid", "interaction_invalid")

    def __init__(self, make: MakeTurn) -> None:
        self.turns: list[Turn] = []
        self._make = make
        self._open: dict[str, Turn] = {}
        self._said: set[str] = set()

    def read(self, wire: Wire) -> list[Turn]:
        for way, frame in wire:
            if way == "said" and isinstance(frame, dict):
                self._said.add(frame.get("requestId", ""))
            elif way == "got":
                self._got(frame, frame.get("requestId"))
        return self.turns

    def _got(self, frame: Frame, request: str | None) -> None:
        kind = frame["type"]
        answers = kind == "immediate_response" and frame.get("status") != 202
        refused = kind == "error" and request in self._said and request not in self._open
        late = kind.startswith("otp_") and request not in self._open
        if request is None or answers or refused or late or kind in self.NONE:
            return
        turn = self._open.get(request)
        if turn is None:
            turn = self._open[request] = self._make(request in self._said)
            self.turns.append(turn)
        if kind == "stream_token":
            turn.add_text(frame["token"])
        elif kind == "stream_reasoning":
            turn.add_thought(frame["token"])
        elif kind == "stream_chunk":
            self._chunk(turn, frame["data"]["state"].get("rawResponse") or {})
        elif kind in ("write_confirmation_required", "interaction_required", "otp_verification_required"):
            turn.add_question()
        elif kind in self.ENDS:
            turn.finish(self.ENDS[kind])
            if kind == "eventual_response":
                turn.replace_text(0, "".join(frame["data"]["data"]["response"]["responseParts"]))
            del self._open[request]

    def _chunk(self, turn: Turn, raw: Frame) -> None:
        if "toolCall" in raw:
            turn.add_call(raw["toolCall"]["name"], raw["toolCall"]["arguments"])
        elif "toolResult" in raw:
            turn.add_result(raw["toolResult"]["name"], raw["toolResult"]["result"])


# -- pando (docs/dialects/pando.md, sections 4 and 6) ---------------------------------------------------


class PandoReader:
    """A reader of runs from their first event to `llm.end`, or to the next `session.update` after an interrupt."""

    def __init__(self, make: MakeTurn) -> None:
        self.turns: list[Turn] = []
        self._make = make
        self._turn: Turn | None = None
        self._asked = self._failed = False
        self._interrupts: set[str] = set()
        self._interrupted = False
        self._calls: dict[str, tuple[str, str]] = {}

    def read(self, wire: Wire) -> list[Turn]:
        for way, frame in wire:
            if way == "said":
                self._said(frame)
            elif "topic" in frame:
                self._told(frame["topic"], frame["payload"])
            elif frame.get("id") in self._interrupts and "error" not in frame:
                self._interrupted = self._turn is not None
        return self.turns

    def _said(self, call: Any) -> None:
        if isinstance(call, dict) and call.get("method") == "message.send":
            self._asked = True
        elif isinstance(call, dict) and call.get("method") == "session.interrupt":
            self._interrupts.add(call["id"])

    def _told(self, topic: str, payload: Frame) -> None:
        if topic in ("llm.start", "llm.token", "tool.start", "tool.end"):
            self._failed = False  # True after the cause of a failure, which comes right before the end
            self._content(self._run(), topic, payload)
        elif topic == "llm.end":
            self._end("failed" if self._failed else "completed")
        elif topic == "message.append" and payload["role"] == "system":
            self._failed = self._turn is not None
        elif topic == "session.update" and self._interrupted:
            self._end("cancelled")

    def _run(self) -> Turn:
        if self._turn is None:
            self._turn = self._make(self._asked)
            self._asked = self._failed = False
            self.turns.append(self._turn)
        return self._turn

    def _end(self, end: str) -> None:
        if self._turn is not None:
            for name, params in self._calls.values():
                self._turn.add_call(name, params, whole=False)
            self._turn.finish(end)
        self._turn, self._interrupted, self._calls = None, False, {}

    def _content(self, turn: Turn, topic: str, payload: Frame) -> None:
        match topic:
            case "llm.token":
                turn.add_text(payload["token"])
            case "tool.start" if payload["params"]:
                self._calls.pop(payload["call_id"], None)
                turn.add_call(payload["tool_name"], payload["params"])
            case "tool.start":
                self._calls[payload["call_id"]] = payload["tool_name"], ""
            case "tool.end":
                turn.add_result(payload["tool_name"], payload["result"])
            case _:
                pass


# -- codewhale (docs/dialects/codewhale.md, sections 2, 3 and 6) ----------------------------------------


class CodewhaleReader:
    """A reader of turns: the lines between a `thread/message` and its answer, and the content of the answer; others are
    not shown.
    """

    CANCELLED = ("turn interrupted", "turn canceled")

    def __init__(self, make: MakeTurn) -> None:
        self.turns: list[Turn] = []
        self._make = make
        self._waiting: list[tuple[Any, Turn]] = []

    def read(self, wire: Wire) -> list[Turn]:
        for way, frame in wire:
            if way == "said" and _is_message(frame):
                self.turns.append(self._make(True))
                self._waiting.append((frame["id"], self.turns[-1]))
            elif way == "got" and self._waiting:
                self._got(frame)
        return self.turns

    def _got(self, frame: Frame) -> None:
        request, turn = self._waiting[0]
        if frame.get("type") == "response_delta":
            turn.add_text(frame["delta"])
        elif "type" not in frame and frame.get("id") == request:
            error = frame.get("error")
            for event in (frame.get("result") or {}).get("events", []):
                self._event(turn, event)
            cancelled = error is not None and error["message"] in self.CANCELLED
            turn.finish("cancelled" if cancelled else "completed" if error is None else "failed")
            del self._waiting[0]

    def _event(self, turn: Turn, event: Frame) -> None:
        match event["event"]:
            case "response_delta" if event.get("channel") == "reasoning":
                turn.add_thought(event["delta"])
            case "response_delta":
                turn.add_text(event["delta"])
            case "tool_call_start":
                turn.add_call(event["tool_name"], event["arguments"].get("arguments", ""))
            case "tool_call_result":
                turn.add_result(event["tool_name"], event["output"].get("body") or "")
            case _:
                pass


def _is_message(frame: Any) -> bool:
    method = frame.get("method") if isinstance(frame, dict) else None
    kind = frame["params"].get("kind") if method == "thread/request" else None
    return method == "thread/message" or kind == "message"


class Reader(Protocol):
    """A reader of one connection, which makes its turns by `make`."""

    def __init__(self, make: MakeTurn) -> None: ...

    def read(self, wire: Wire) -> list[Turn]: ...


def turns_of(dialect: str, wire: Wire) -> list[Turn]:
    """Return the turns that a wire of this dialect shows."""
    return parts(dialect).capture_reader(lambda ours: Turn(ours=ours)).read(wire)
