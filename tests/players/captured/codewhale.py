"""A codewhale server that plays the turns of a recording, with one child process for each session."""

from __future__ import annotations

from typing import Any

from dragoman.mappings.codewhale.vocabulary import HEAD, methods
from tests.gateway.in_memory import InMemoryPeer
from tests.oracle.base import Said
from tests.players.captured.backend import CapturedBackend, Frame
from tests.players.captures import Message, messages

TURN = ("thread/message", "thread/interrupt")


class CapturedCodewhale(CapturedBackend):
    """The turns of the first thread of a recording; other requests are answered as recorded."""

    dialect = "codewhale"

    def __init__(self, number: str, manner: str = "") -> None:
        self._all = [usual(m.value) for m in messages("codewhale", number) if isinstance(m.value, dict)]
        super().__init__(number, manner)
        self._recorded: Any = None  # the recorded id of the `thread/message` that is played
        self._ids: dict[Any, tuple[InMemoryPeer, Any]] = {}  # recorded id -> who was really asked, and under which id
        self._interrupts: list[Any] = []

    @classmethod
    def plays(cls, number: str) -> bool:
        return any(_method(message.value) == "thread/message" for message in messages("codewhale", number))

    def _chosen(self, recorded: tuple[Message, ...]) -> list[Message]:
        """Return the requests about the first thread that belong to its turns, and their results."""
        ids: dict[Any, str] = {}
        thread = turn = None
        chosen: list[Message] = []
        for message in recorded:
            frame = message.value
            if not isinstance(frame, dict):
                continue
            if message.way == "said" and (method := _method(frame)) in TURN:
                named = frame["params"]["thread_id"]
                thread = thread or (named if method == "thread/message" else None)
                begins = method == "thread/message"
                if begins:
                    turn = frame["id"] if named == thread else None
                if named == thread and turn is not None:
                    ids[frame["id"]] = method
                    chosen.append(message)
            elif message.way == "got" and "type" in frame:
                chosen += [message] if turn is not None else []
            elif message.way == "got" and frame.get("id") in ids:
                chosen.append(message)
                turn = None if frame["id"] == turn else turn
        return chosen

    def history(self) -> list[Said]:
        """Return the messages of the turns; an input that the runtime refused as wrong began none."""
        refused = [m.value["id"] for m in self.recorded if m.way == "got" and _is_refusal(m.value.get("error"))]
        said: list[Said] = []
        turns = iter(self.turns())
        for message in self.recorded:
            if message.way == "said" and _method(message.value) == "thread/message":
                text = next(turns).text
                if message.value["id"] not in refused:
                    said += [("user", message.value["params"]["input"]), ("assistant", text)]
        return said

    @staticmethod
    def is_text(frame: Frame) -> bool:
        return frame.get("type") == "response_delta"

    @staticmethod
    def is_end(frame: Frame) -> bool:
        return "id" in frame

    def say(self, message: Message) -> None:
        frame = message.value
        if "type" in frame:
            peer, _ = self._ids[self._recorded]
            peer.sends(message.text.encode())
        elif frame["id"] in self._ids:
            peer, request = self._ids[frame["id"]]
            peer.sends(frame | {"id": request})

    def bring_about(self, message: Message) -> None:
        frame = message.value
        if _method(frame) == "thread/message":
            self._recorded = frame["id"]
            self.driver.say(frame["params"]["input"])
        else:
            self._interrupts.append(frame["id"])
            self.driver.cancel()

    def asked(self, peer: InMemoryPeer, frame: Frame) -> None:
        frame = usual(frame)
        method, request = frame["method"], frame["id"]
        if method == "thread/message":
            self._ids[self._recorded] = peer, request
        elif method == "thread/interrupt" and self._interrupts:
            self._ids[self._interrupts.pop(0)] = peer, request
        else:
            peer.sends({"jsonrpc": "2.0", "id": request, **self._answer(frame)})

    def _answer(self, frame: Frame) -> Frame:
        """Send the recorded answer to the same request, else to the same method.

        Without one, send the answer that docs/dialects/codewhale.md describes.
        """
        method, params = frame["method"], frame.get("params")
        asked = [said for said in self._all if said.get("method") == method]
        asked.sort(key=lambda said: said.get("params") != params)
        for said in asked:
            for got in self._all:
                if "method" not in got and got.get("id") == said["id"]:
                    return {key: got[key] for key in ("result", "error") if key in got}
        if method == "capabilities":
            known = {"transport": "stdio", "families": ["thread/*", "app/*", "prompt/*"], "methods": methods(HEAD)}
            return {"result": known}
        if method == "thread/list":
            lists = {"thread_id": "list", "status": "ok", "threads": [], "events": [], "data": {}}
            return {"result": lists}
        return {"error": {"code": -32603, "message": f"not recorded: {method}", "data": None}}


def usual(frame: Frame) -> Frame:
    """Return a request as the recorded clients sent it, without the params that servers require since 0.10.2.

    `thread/request` names its method in its params.
    """
    params = frame.get("params")
    if not isinstance(params, dict):
        return frame
    params = {name: value for name, value in params.items() if name not in ("operation_key", "allowed_tools")}
    if frame.get("method") != "thread/request":
        return frame | {"params": params}
    kind = str(params.get("kind")).replace("goal_", "goal/")
    return frame | {"method": f"thread/{kind}", "params": {k: v for k, v in params.items() if k != "kind"}}


def _method(frame: Any) -> str:
    return str(usual(frame).get("method")) if isinstance(frame, dict) else ""


def _is_refusal(error: Frame | None) -> bool:
    """Return True for a status 400 to 499 of the runtime."""
    return error is not None and error["message"].startswith("runtime API returned 4")
