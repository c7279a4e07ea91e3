"""What a codewhale client may see on one connection (codewhale sheet, sections 1.2, 1.4, 3 and 11).

Answers come in the order of the requests. A bare line stands only where a message waits for its answer, and its
responses begin and end one after the other.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from tests.oracle.base import Record

__all__ = ["CodewhaleOracle"]

Data = dict[str, Any]

BARE = ("response_start", "response_delta", "response_end")


class CodewhaleOracle:
    """One client: its requests without an answer, and the response that is open."""

    def __init__(self) -> None:
        self._record = Record()
        self._waiting: deque[Data] = deque()
        self._open = ""
        self._spoke = False

    @property
    def open(self) -> list[str]:
        """What has begun and not ended."""
        return [str(request.get("method")) for request in self._waiting]

    def said(self, message: Data) -> None:
        """The client asked."""
        self._record.add(">", message)
        self._waiting.append(message)

    def got(self, frame: Data) -> None:
        """The client was told this."""
        self._record.add("<", frame)
        if "type" in frame:
            self._bare(frame)
        else:
            self._answer(frame)

    # --------------------------------------------------------------------------------------------------

    def _bare(self, frame: Data) -> None:
        kind = frame["type"]
        self._hold(kind in BARE, "a server prints no other lines")
        self._hold(frame.keys().isdisjoint(("jsonrpc", "id")), "a bare line is no answer")
        first = self._waiting[0].get("method") if self._waiting else None
        self._hold(first == "thread/message", "a line belongs to the message that waits for its answer")
        if kind == "response_start":
            self._hold(not self._open, "a response ends before the next one starts")
            self._open = frame["response_id"]
            self._spoke = True
            return
        self._hold(frame["response_id"] == self._open, "a line belongs to the response that started")
        if kind == "response_end":
            self._open = ""
        else:
            self._hold(bool(frame["delta"]), "a delta has text")
            self._hold("channel" not in frame, "text alone is streamed")

    def _answer(self, frame: Data) -> None:
        self._hold(frame.get("jsonrpc") == "2.0", "an answer says its version")
        self._hold(("result" in frame) != ("error" in frame), "an answer is a result or an error")
        self._hold(bool(self._waiting), "one answer a request")
        request = self._waiting.popleft()
        same = frame["id"] == request.get("id")
        self._hold(same or (frame["id"] is None and "error" in frame), "answers come in the order of requests")
        self._hold(not self._open, "a response ends before its answer")
        if "error" in frame:
            error = frame["error"]
            self._hold(error.keys() == {"code", "message", "data"}, "an error has its three fields")
        elif request.get("method") == "thread/message":
            self._hold(self._spoke, "a message that went well was responded to")
            self._hold(frame["result"]["status"] == "accepted", "a message that went well was accepted")
        self._spoke = False

    def _hold(self, legal: bool, rule: str) -> None:
        if not legal:
            raise self._record.illegal(rule)
