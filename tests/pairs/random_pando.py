"""A pando primary as a random backend (docs/dialects/pando.md, sections 2 to 6): one that runs what it is sent.

It publishes `llm.start` and `llm.end` for each run, as dragoman does in the place of a primary. The cause of a failure
is a system message right before `llm.end`.
"""

from __future__ import annotations

import json
from typing import Any

from tests.pairs.pando_primary import NO_METHOD, NO_ROWS, NO_SUMMARY, message, row
from tests.pairs.random_backend import Frame, Move, PlayedTurn, RandomBackend
from tests.pairs.views import TEXT


class RandomPando(RandomBackend):
    """A primary with one connection at a time, whose store keeps the sessions; `lost` may replace it by another."""

    dialect = "pando"

    def __init__(self) -> None:
        super().__init__()
        self._instance = 1
        self._sessions: dict[str, list[Frame]] = {}  # id -> the stored messages
        self._turn: PlayedTurn | None = None
        self._session = ""  # of the running or waiting turn
        self._input = ""  # accepted, and not run yet
        self._calls: dict[str, str] = {}  # calls without a result: id -> name
        self._ids = 0

    @property
    def turn(self) -> PlayedTurn | None:
        return self._turn

    # -- the connection --------------------------------------------------------------------------------

    def connected(self) -> None:
        pass

    def lost(self, *, dies: bool) -> None:
        if self._turn is not None and dies:
            self._turn.whole = False
        if dies:
            self._instance += 1
            self._turn, self._input, self.stopping, self._calls = None, "", False, {}

    def hears(self, frame: Frame) -> None:
        params = frame.get("params") or {}
        session = params.get("session_id", "")
        match frame["method"]:
            case "instance.ping":
                self._reply(frame, result={"status": "ok", "instance_id": f"i-{self._instance}", "uptime": "0s"})
            case "session.list":
                self._reply(frame, result=[self._row(known) for known, said in self._sessions.items() if said])
            case "session.get" if session in self._sessions:
                self._reply(frame, result=self._row(session))
            case "session.get":
                self._reply(frame, error=NO_ROWS)
            case "message.list":
                self._reply(frame, result=self._sessions.get(session, []))
            case "message.send" if self._turn is not None or self._input:
                self._reply(frame, error={"code": -32000, "message": "message.send: run: busy"})
            case "message.send":
                self._session, self._input = session, params["content"]
                self._reply(frame, result={"ok": True})
            case "session.interrupt" if self._turn is not None or self._input:
                self.stopping = True
                self._reply(frame, result={"ok": True})
            case "session.interrupt":
                self._reply(frame, error={"code": -32000, "message": "session.interrupt: nothing runs"})
            case "db.write" if params["method"] == "CreateSession":
                self._sessions[params["params"]["id"]] = []
                times = {"updated_at": 1778362100, "created_at": 1778362100}
                self._reply(frame, result={**params["params"], **times, **NO_SUMMARY})
            case _:
                self._reply(frame, error=NO_METHOD)

    def _row(self, session: str) -> Frame:
        return row(session, messages=len(self._sessions[session]))

    def _reply(self, call: Frame, **said: Any) -> None:
        self.out.append({"jsonrpc": "2.0", "id": call["id"], **said})

    def _publish(self, topic: str, **payload: Any) -> None:
        self.out.append({"instanceId": f"i-{self._instance}", "projectId": "", "topic": topic, "payload": payload})

    def _say(self, topic: str, **payload: Any) -> None:
        self._publish(topic, session_id=self._session, **payload)

    def _store(self, role: str, text: str) -> str:
        self._ids += 1
        self._sessions.setdefault(self._session, []).append(message(f"m-{self._ids}", role, text))
        return f"m-{self._ids}"

    # -- moves -----------------------------------------------------------------------------------------

    def moves(self) -> list[Move]:
        if self._turn is None:
            return [self._begin] * 6 if self._input else [self._beat, self._describe]
        moves = [self._text] * 6 + [self._call] * 2 + [self._result] * 4 * bool(self._calls)
        moves += [self._describe] * (not self.stopping)  # after an interrupt it would be the end
        moves += [self._complete] * 2 * (not self._calls) + [self._fail] + [self._interrupted] * 6 * self.stopping
        return moves

    def finish(self) -> None:
        if self._turn is None and self._input:
            self._begin()
        if self._turn is not None:
            if self.stopping:
                self._interrupted()
            else:
                self._fail()

    def _beat(self) -> None:
        times = {"uptime": "5s", "started_at": "2026-05-09T21:28:20Z"}
        self._publish("instance.heartbeat", instance_id=f"i-{self._instance}", session_count=0, **times)

    def _describe(self) -> None:
        """Publish the session, as a primary does at any time and twice."""
        if self._session:
            self._publish("session.update", **self._row(self._session))

    def _begin(self) -> None:
        self._turn = PlayedTurn(number=len(self.turns), whole=not self.stopping)  # it may be over for clients already
        self.turns.append(self._turn)
        said = self._store("user", self._input)
        self._say("message.append", message_id=said, role="user", content=self._input)
        self._say("llm.start")
        self._store("assistant", "")
        self._input = ""

    def _open(self) -> PlayedTurn:
        assert self._turn is not None
        return self._turn

    def _text(self) -> None:
        turn = self._open()
        words = self._words.next(turn.number)
        turn.seen.add_text(words)
        self._sessions[self._session][-1]["content"] += words
        self._say("llm.token", token=words)

    def _call(self) -> None:
        turn = self._open()
        self._ids += 1
        call, name, given = f"call_{self._ids}", f"tool_{self._ids % 3}", {"a": self._words.next(turn.number)}
        turn.seen.add_call(name, given)
        self._calls[call] = name
        self._say("tool.start", tool_name=name, call_id=call, params="")
        self._say("tool.start", tool_name=name, call_id=call, params=json.dumps(given))

    def _result(self) -> None:
        turn = self._open()
        call = next(iter(self._calls))
        name, words = self._calls.pop(call), self._words.next(turn.number)
        turn.seen.add_result(name, words)
        self._say("tool.end", tool_name=name, call_id=call, is_error=False, result=words)

    # -- its end ---------------------------------------------------------------------------------------

    def _end(self, end: str) -> None:
        """End the run. A failure is known by its cause alone, if there is no text (docs/translation.md, rule 3.6)."""
        turn = self._open()
        text = "".join(words for kind, words in turn.seen.parts if kind == TEXT)
        turn.seen.end = "cancelled" if self.stopping else "completed" if text else end
        if end == "failed":
            said = self._store("system", "broken")
            self._say("message.append", message_id=said, role="system", content="broken")
        self._say("llm.end", tokens_in=0, tokens_out=0)
        self._turn, self.stopping, self._calls = None, False, {}

    def _complete(self) -> None:
        self._end("completed")

    def _fail(self) -> None:
        self._end("failed")

    def _interrupted(self) -> None:
        self._end("cancelled")
