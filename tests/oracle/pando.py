"""The messages that a pando client may see: one subscription to everything, and its calls
(docs/dialects/pando.md, sections 2, 4, 5 and 9).

Calls and publications come by two connections and have no order against each other. A run that had begun before the
subscription stood is known by its remains only; nothing is missing of a session that was announced to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from tests.oracle.base import Record

Data = dict[str, Any]


class Session(Struct):
    """A session: `running` is None while its state is unknown, `calls` are those without a result, with whether their
    input came. `had_messages` is True if it was announced with messages: a call may have come before. `first` is True
    in the first run that is seen, which may have been found running.
    """

    running: bool | None = None
    first: bool = True
    had_messages: bool | None = None
    calls: dict[str, bool] = field(default_factory=dict)
    deleted: bool = False


class PandoOracle:
    """A client: its subscription, and one connection after another for its calls."""

    def __init__(self) -> None:
        self.lost_pod = False  # True if the gateway connected to its pod again: it may have missed calls
        self._record = Record()
        self._instance = ""
        self._over = False
        self._sessions: dict[str, Session] = {}
        self._waiting: dict[str, int] = {}  # the identity of a caller -> calls without a reply
        self._rules: dict[str, Callable[[Session, Data], None]] = {
            "llm.start": self._start,
            "llm.token": self._token,
            "llm.end": self._end,
            "tool.start": self._call,
            "tool.end": self._result,
            "message.append": self._message,
            "session.update": self._announced,
            "session.deleted": self._deleted,
        }

    @property
    def open(self) -> list[str]:
        """Return the runs that have begun and not ended."""
        return [f"a run of {name}" for name, session in self._sessions.items() if session.running]

    def called(self, identity: str, request: dict[str, Any]) -> None:
        """Take a call of the client."""
        self._record.add(">", request)
        self._waiting[identity] = self._waiting.get(identity, 0) + 1

    def replied(self, identity: str, reply: dict[str, Any]) -> None:
        """Take an answer; the client takes the next message for its answer, whatever its id is."""
        self._record.add("<", reply)
        self._record.hold(self._waiting.get(identity, 0) > 0, "one reply a request, and nothing unasked")
        self._waiting[identity] -= 1

    def said(self, message: dict[str, Any]) -> None:
        """Fail: a subscriber sends nothing, and calls use their own connections."""
        self._record.add(">", message)
        self._record.hold(False, "a subscriber sends no frames")

    def got(self, envelope: dict[str, Any]) -> None:
        """Take a publication that the client received."""
        self._record.add("<", envelope)
        topic, payload, instance = envelope["topic"], envelope["payload"], envelope["instanceId"]
        self._record.hold(instance == (self._instance or instance), "one instance publishes at a port")
        self._instance = instance
        self._record.hold(not self._over or topic == "instance.shutdown", "nothing comes after instance.shutdown")
        if topic.startswith("instance."):
            self._over = self._over or topic == "instance.shutdown"
            return
        session = self._sessions.setdefault(payload.get("session_id") or payload.get("id", ""), Session())
        self._record.hold(not session.deleted, "nothing is told of a session that was deleted")
        rule = self._rules.get(topic)
        if rule is not None:
            rule(session, payload)

    # -- runs ------------------------------------------------------------------------------------------

    def _start(self, session: Session, _payload: Data) -> None:
        self._record.hold(session.running is not True, "a run ends before the next one starts")
        session.running = True

    def _token(self, session: Session, _payload: Data) -> None:
        self._record.hold(
            session.running is not False, "llm.start comes before llm.token: a viewer commits nothing else"
        )

    def _end(self, session: Session, _payload: Data) -> None:
        self._record.hold(session.running is not False, "llm.end ends what llm.start began")
        session.running = session.first = False
        session.calls = dict.fromkeys(session.calls, False)  # a run that was lost and found again tells them anew

    def _message(self, _session: Session, payload: Data) -> None:
        self._record.hold(payload["role"] in ("user", "system"), "the tokens carry the assistant's text")

    def _call(self, session: Session, payload: Data) -> None:
        call, params = payload["call_id"], payload["params"]
        self._record.hold(session.running is not False, "a call stands in a run")
        self._record.hold(
            not session.calls.get(call, False), "a call comes twice: at its beginning, and with all its input"
        )
        session.calls[call] = call in session.calls and bool(params)

    def _result(self, session: Session, payload: Data) -> None:
        known = session.calls.pop(payload["call_id"], None) is not None
        is_earlier = session.first or bool(session.had_messages) or self.lost_pod
        self._record.hold(known or is_earlier, "a result follows its call")
        self._record.hold(session.running is not False, "a result stands in a run")

    def _announced(self, session: Session, payload: Data) -> None:
        if session.had_messages is None:
            session.had_messages = payload["message_count"] > 0

    def _deleted(self, session: Session, _payload: Data) -> None:
        session.deleted = True
