"""A codewhale server as a random backend (docs/dialects/codewhale.md, sections 1.4, 2 and 3).

It is a release 0.9.10: one request at a time, answered in their order. While a message runs, `thread/interrupt` acts at
once, and its answer waits with all other requests until the message is answered.
"""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_URL, uuid5

from tests.mappings.codewhale.data import thread_row
from tests.pairs.random_backend import Frame, Move, PlayedTurn, RandomBackend

METHODS = ["thread/start", "thread/resume", "thread/read", "thread/message", "thread/interrupt", "app/config/reload"]


class RandomCodewhale(RandomBackend):
    """A server with one connection at a time, whose store keeps the threads; `forgets` makes it lose them."""

    dialect = "codewhale"

    def __init__(self) -> None:
        super().__init__()
        self.forgets = False
        self._turn: PlayedTurn | None = None
        self._response = ""
        self._waiting: list[Frame] = []  # requests without an answer, of which the first may be the running message
        self._stopped_early = False  # an interrupt came before the turn began: the turn may be over for clients
        self._threads: list[str] = []

    @property
    def turn(self) -> PlayedTurn | None:
        return self._turn

    # -- the connection --------------------------------------------------------------------------------

    def connected(self) -> None:
        self.lost(dies=False)  # the gateway may have closed the connection itself

    def lost(self, *, dies: bool) -> None:
        if self._turn is not None:
            self._turn.whole = False
        self._turn, self._waiting, self.stopping, self._stopped_early = None, [], False, False
        self.forgets = self.forgets or dies

    def hears(self, frame: Frame) -> None:
        if frame["method"] == "thread/interrupt":
            self.stopping, self._stopped_early = self._turn is not None, self._turn is None
            frame = {**frame, "interrupted": self.stopping}
        self._waiting.append(frame)
        self._work()

    def _work(self) -> None:
        """Answer the requests up to the next message."""
        while self._waiting and self._waiting[0]["method"] != "thread/message":
            request = self._waiting.pop(0)
            self._answer(request)

    def _answer(self, request: Frame) -> None:
        method, params = request["method"], request.get("params") or {}
        thread = params.get("thread_id", "")
        match method:
            case "capabilities":
                self._result(request, {"transport": "stdio", "families": [], "methods": METHODS})
            case "healthz":
                self._result(request, {"status": "ok", "service": "deepseek-app-server", "transport": "stdio"})
            case "thread/start":
                self._threads.append(f"thread-{uuid5(NAMESPACE_URL, f'thread {len(self._threads)}')}")
                self._result(request, self._shown(self._threads[-1], "started"))
            case "thread/resume" if thread not in self._threads or self.forgets:
                self.forgets = False
                gone = {"error": "thread_not_found", "thread_id": thread}
                self._error(request, -32004, f"thread not found: {thread}", gone)
            case "thread/resume":
                self._result(request, self._shown(thread, "resumed"))
            case "thread/read":
                self._result(request, self._shown(thread, "ok"))
            case "thread/interrupt":
                self._result(request, {"thread_id": thread, "interrupted": request["interrupted"]})
            case "thread/list":
                rows = [thread_row(thread, cwd="/src") for thread in self._threads]
                self._result(request, self._response_of("list", "ok", threads=rows))
            case _:
                self._error(request, -32601, f"unsupported method: {method}")

    def _shown(self, thread: str, status: str) -> Frame:
        data: Frame = {"history": [], "checkpoint": None, "goal": None}
        return self._response_of(thread, status, thread=thread_row(thread, cwd="/src"), data=data)

    def _response_of(self, thread_id: str, status: str, **fields: Any) -> Frame:
        return {"thread_id": thread_id, "status": status, "threads": [], "events": [], "data": {}} | fields

    def _result(self, request: Frame, result: Frame) -> None:
        self.out.append({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def _error(self, request: Frame, code: int, message: str, data: Frame | None = None) -> None:
        error = {"code": code, "message": message, "data": data}
        self.out.append({"jsonrpc": "2.0", "id": request["id"], "error": error})

    # -- moves -----------------------------------------------------------------------------------------

    def moves(self) -> list[Move]:
        if self._turn is None:
            return [self._accept] * 6 + [self._refuse] if self._waiting else [self._do_nothing]
        return (
            [self._text] * 8 + [self._complete] * 2 + [self._fail, self._cut] + [self._interrupted] * 6 * self.stopping
        )

    def finish(self) -> None:
        if self._turn is not None:
            if self.stopping:
                self._interrupted()
            else:
                self._fail()
        while self._waiting:
            self._refuse()

    def _do_nothing(self) -> None:
        """Do nothing: without a request a server says nothing."""

    def _accept(self) -> None:
        self._turn = PlayedTurn(number=len(self.turns), whole=not self._stopped_early)
        self.turns.append(self._turn)
        self._response = f"thr_1:turn_{self._turn.number}"
        self._bare("response_start")

    def _refuse(self) -> None:
        self._error(self._waiting.pop(0), -32603, "runtime API returned 503 Service Unavailable: busy")
        self._work()

    def _bare(self, kind: str, **fields: Any) -> None:
        self.out.append({"type": kind, "response_id": self._response, **fields})

    def _text(self) -> None:
        turn = self._open()
        words = self._words.next(turn.number)
        turn.seen.add_text(words)
        self._bare("response_delta", delta=words)

    def _open(self) -> PlayedTurn:
        assert self._turn is not None
        return self._turn

    # -- its end ---------------------------------------------------------------------------------------

    def _end(self, end: str) -> Frame:
        """End the turn. After an interrupt the error may be any text (section 3)."""
        self._open().seen.end = "cancelled" if self.stopping and end == "failed" else end
        self._turn, self.stopping, self._stopped_early = None, False, False
        self._bare("response_end")
        return self._waiting.pop(0)

    def _complete(self) -> None:
        number = self._open().number
        request = self._end("completed")
        nulls = dict.fromkeys(("thread", "model", "model_provider", "cwd", "approval_policy", "sandbox"))
        thread, data = request["params"]["thread_id"], {"turn_id": f"turn_{number}"}
        self._result(request, self._response_of(thread, "accepted", data=data) | nulls)
        self._work()

    def _fail(self) -> None:
        self._error(self._end("failed"), -32603, "turn failed")
        self._work()

    def _cut(self) -> None:
        self._error(self._end("failed"), -32603, "runtime event stream ended before turn.completed")
        self._work()

    def _interrupted(self) -> None:
        self._error(self._end("cancelled"), -32603, "turn interrupted")
        self._work()
