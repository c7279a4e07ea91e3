"""A pando primary that plays recorded publications; its store has the messages of its runs.

If no client of ours sent the input of a run, a user typed it in the pando itself. Then only the store has that input.
"""

from __future__ import annotations

import json
from typing import Any

from dragoman.gateway.session.session import Session
from tests.gateway.in_memory import InMemoryPeer
from tests.oracle.base import Said
from tests.players.captured.backend import CapturedBackend, Frame
from tests.players.captures import Message, messages

SESSION = "5b0c6a0e-2f7d-4c57-9a34-0c1d2e3f4a5b"  # the session of all recorded runs
AT = "2026-05-09T23:32:00+02:00"
TYPED = "typed in the pando's own terminal"
RUN = ("llm.token", "tool.start", "tool.end")


class CapturedPando(CapturedBackend):
    """The runs of one session of a recorded pando."""

    dialect = "pando"

    def __init__(self, number: str, manner: str = "") -> None:
        self._listed = self._last_list(number)
        super().__init__(number, manner)
        self._store = self._before()
        self._running = False
        self._run = 0
        self._ids: dict[str, str] = {}
        self._due: list[str] = []

    @classmethod
    def plays(cls, number: str) -> bool:
        return any(_topic(message.value) == "llm.token" for message in messages("pando", number))

    def _chosen(self, recorded: tuple[Message, ...]) -> list[Message]:
        """Return the publications, inputs and interrupts of the session, and their replies."""
        ids: set[str] = set()
        chosen: list[Message] = []
        for message in super()._chosen(recorded):
            frame = message.value
            if message.way == "said" and frame.get("method") in ("message.send", "session.interrupt"):
                ids.add(frame["id"])
                chosen.append(message)
            elif message.way == "got" and (_topic(frame) or frame.get("id") in ids):
                chosen.append(message)
        return chosen

    @staticmethod
    def _last_list(number: str) -> list[Frame]:
        """Return the store at the end of the recording, as far as the recording shows it."""
        replies = [message.value.get("result") for message in messages("pando", number) if message.way == "got"]
        lists = [reply for reply in replies if isinstance(reply, list) and reply and "role" in reply[0]]
        return lists[-1] if lists else []

    def _before(self) -> list[Frame]:
        """Return the messages in the store before the first recorded run."""
        texts = [row["content"] for row in self._listed]
        first = self.turns()[0].text
        return self._listed[: len(texts) - 2 - texts[::-1].index(first)] if first in texts else []

    def _typed(self, run: int) -> str:
        """Return the input of a run: the sent one, else that of the recorded store, else an arbitrary one."""
        sent = [m.value["params"]["content"] for m in self.recorded if m.value.get("method") == "message.send"]
        users = [row["content"] for row in self._listed[len(self._before()) :] if row["role"] == "user"]
        return str([*(sent or users), *[TYPED] * (run + 1)][run])

    def history(self) -> list[Said]:
        said = [(row["role"], row["content"]) for row in self._before() if row["role"] in ("user", "assistant")]
        for run, turn in enumerate(self.turns()):
            said += [("user", self._typed(run)), ("assistant", turn.text)]
        return said

    @staticmethod
    def is_text(frame: Frame) -> bool:
        return _topic(frame) == "llm.token"

    @staticmethod
    def is_end(frame: Frame) -> bool:
        return _topic(frame) == "llm.end"

    async def opened(self) -> Session:
        await self.driver.look()
        used = [s for s in self.stage.router.sessions if self.stage.public(s, "pando") == SESSION]
        session = used[0] if used else self.stage.router.backend.find_session(SESSION)  # only listed so far
        assert session is not None
        await self.driver.join(session)
        await self.rest()
        return session

    # -- playing ---------------------------------------------------------------------------------------

    def say(self, message: Message) -> None:
        frame = message.value
        topic = _topic(frame)
        if topic:
            self._keep(topic, frame["payload"])
            self.stage.pod.sends(message.text.encode())
        elif frame["id"] in self._ids:
            self.stage.pod.sends(frame | {"id": self._ids[frame["id"]]})

    def _keep(self, topic: str, payload: Frame) -> None:
        """Store the content of a run; the input of a run is stored before its first text."""
        if topic in RUN and not self._running:
            self._running = True
            self._append("user", self._typed(self._run))
            self._append("assistant", "")
            self._run += 1
        if topic == "llm.token":
            self._store[-1]["content"] += payload["token"]
        elif topic == "llm.end":
            self._running = False
            self._store[-1]["content"] = self.turns()[self._run - 1].text  # including tokens that the bridge dropped

    def _append(self, role: str, content: str) -> None:
        self._store.append({"id": f"m-{len(self._store)}", "role": role, "content": content, "created_at": AT})

    def bring_about(self, message: Message) -> None:
        frame = message.value
        if frame["method"] == "message.send":
            self._running = False
            self._due.append(frame["id"])
            self.driver.say(frame["params"]["content"])
        elif self._running:
            self._due.append(frame["id"])
            self.driver.cancel()

    def asked(self, peer: InMemoryPeer, frame: Frame) -> None:
        if frame["method"] in ("message.send", "session.interrupt") and self._due:
            self._ids[self._due.pop(0)] = frame["id"]
        else:
            peer.sends({"jsonrpc": "2.0", "id": frame["id"], **self._answer(frame["method"], frame.get("params"))})

    def _answer(self, method: str, params: Any) -> Frame:
        match method:
            case "instance.ping":
                return {"result": {"status": "ok", "instance_id": self._instance(), "uptime": "0s"}}
            case "session.list":
                return {"result": [self._row()]}
            case "session.get" if params["session_id"] == SESSION:
                return {"result": self._row()}
            case "session.get":
                return {"error": {"code": -32000, "message": "session.get: sql: no rows in result set"}}
            case "message.list":
                return {"result": json.loads(json.dumps(self._store))}
        return {"error": {"code": -32601, "message": "ipc: method not found"}}

    def _instance(self) -> str:
        return next(str(m.value["instanceId"]) for m in self.steps if _topic(m.value))

    def _row(self) -> Frame:
        return next(dict(m.value["payload"]) for m in self.steps if _topic(m.value) == "session.update")


def _topic(frame: Any) -> str:
    return str(frame.get("topic", "")) if isinstance(frame, dict) else ""
