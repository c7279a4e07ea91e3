"""The order of messages on one codewhale connection (docs/dialects/codewhale.md, sections 1.2, 1.4, 2.2, 3, 10 and 11).

Answers come in the order of the requests, one for each line that is not blank, and none after that of `shutdown`. A
bare line stands only where a message waits for its answer, which has one response; a release that streams does not say
its text again in the result, one that does not has it there alone. What is no request is said by `garbled`.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from tests.oracle.base import Record

Data = dict[str, Any]

HEAD, SEED = "0.9.10", "0.8.59"
BARE = ("response_start", "response_delta", "response_end")
PARSE_ERROR, NO_METHOD = -32700, -32601
NULLS = ("thread", "model", "model_provider", "cwd", "approval_policy", "sandbox")
"""Keys that are null in the result of a message since 0.8.66."""


class CodewhaleOracle:
    """A client of a server of one generation: its requests without an answer, and the open response."""

    def __init__(self, generation: str = HEAD) -> None:
        self._record = Record()
        self._seed = generation == SEED
        self._waiting: deque[Data] = deque()
        self._open = self._responded = ""
        self._over = False

    @property
    def open(self) -> list[str]:
        """Return the methods of the requests that wait for their answer."""
        return [str(request.get("method")) for request in self._waiting]

    def said(self, message: Data) -> None:
        """Take a request of the client."""
        self._record.add(">", message)
        self._waiting.append(message)

    def garbled(self) -> None:
        """Take a line of the client that is neither a request nor blank."""
        self.said({})

    def got(self, frame: Data) -> None:
        """Take a line that the client received."""
        self._record.add("<", frame)
        self._record.hold(not self._over, "nothing comes after the answer to shutdown")
        if "type" in frame:
            self._bare(frame)
        else:
            self._answer(frame)

    # --------------------------------------------------------------------------------------------------

    def _bare(self, frame: Data) -> None:
        kind = frame["type"]
        self._record.hold(kind in BARE, "a server prints no other lines")
        self._record.hold(frame.keys().isdisjoint(("jsonrpc", "id")), "a bare line is no answer")
        first = self._waiting[0] if self._waiting else {}
        mirrored = self._seed and first.get("method") in ("prompt/run", "prompt/request")
        self._record.hold(_is_message(first) or mirrored, "a line belongs to the message that waits for its answer")
        if kind == "response_start":
            self._record.hold(not self._open, "a response ends before the next one starts")
            self._record.hold(not self._responded, "a message has one response")
            self._open = self._responded = frame["response_id"]
            return
        self._record.hold(frame["response_id"] == self._open, "a line belongs to the response that started")
        if kind == "response_end":
            self._open = ""
            return
        self._record.hold(not self._seed or mirrored, "a release that does not stream has its text in the result")
        self._record.hold(bool(frame["delta"]), "a delta has text")
        self._record.hold("channel" not in frame, "text alone is streamed")

    def _answer(self, frame: Data) -> None:
        self._record.hold(frame.get("jsonrpc") == "2.0", "an answer says its version")
        self._record.hold(("result" in frame) != ("error" in frame), "an answer is a result or an error")
        self._record.hold(bool(self._waiting), "one answer a request")
        self._record.hold(not self._open, "a response ends before its answer")
        request = self._waiting.popleft()
        error = frame.get("error")
        if error is not None:
            self._record.hold(error.keys() == {"code", "message", "data"}, "an error has its three fields")
        if error is not None and error["code"] == PARSE_ERROR:
            self._record.hold(frame["id"] is None, "what could not be read has no id")
            self._record.hold(error["message"].startswith("invalid json: "), "a parse error says what it is")
            self._responded = ""
            return
        self._record.hold("method" in request, "what is no request is answered by a parse error")
        same = frame["id"] == request.get("id") and isinstance(frame["id"], bool) == isinstance(request.get("id"), bool)
        self._record.hold(same, "answers come in the order of requests")
        if error is not None and error["code"] == NO_METHOD:
            self._record.hold(error["message"].startswith("unsupported method: "), "an unknown method is named")
        if error is None and _is_message(request):
            self._accepted(request, frame["result"])
        self._over = error is None and request["method"] == "shutdown"
        self._responded = ""

    def _accepted(self, request: Data, result: Data) -> None:
        """Return the result of a message."""
        self._record.hold(bool(self._responded), "a message that went well was responded to")
        self._record.hold(result["status"] == "accepted", "a message that went well was accepted")
        self._record.hold(
            result["thread_id"] == request["params"]["thread_id"], "a result names the thread of its message"
        )
        texts = [e for e in result["events"] if e["event"] == "response_delta" and "channel" not in e]
        if self._seed:
            self._record.hold(not set(NULLS) & result.keys(), "the seed leaves out what is none")
            begun = [e["event"] for e in result["events"] if e["event"] in ("response_start", "response_end")]
            self._record.hold(begun == ["response_start", "response_end"], "the seed's result tells its response")
            return
        self._record.hold(all(result.get(name, "absent") is None for name in NULLS), "a message's result has its nulls")
        self._record.hold("goal" not in result, "a message's result has no goal")
        turn = result["data"]["turn_id"]
        self._record.hold(self._responded.endswith(f":{turn}"), "a response is named after its turn")
        self._record.hold(not texts, "text that was streamed is not said again")


def _is_message(request: Data) -> bool:
    method, params = request.get("method"), request.get("params")
    kind = params.get("kind") if method == "thread/request" and isinstance(params, dict) else None
    return method == "thread/message" or kind == "message"
