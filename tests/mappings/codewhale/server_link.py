"""A ServerTranslator with its client, and the session behind it, as a script."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from dragoman.mappings.canonical import Batch, SessionState, commands, events
from dragoman.mappings.canonical.values import BackendInfo, Cause, End, Failure, Message, Origin, Text
from dragoman.mappings.codewhale import DIALECT
from dragoman.mappings.codewhale.translator.server import ServerTranslator

SESSION = "00000000-0000-4000-8000-000000000001"
THREAD = f"thread-{SESSION}"
TURN = "00000000-0000-4000-8000-00000000000a"
AT = 1_795_222_341 * 10**9


class Client:
    """The client of a ServerTranslator, and the session behind it, as a script."""

    def __init__(self, generation: str = "") -> None:
        numbers = count(1)
        self.link = ServerTranslator(lambda: AT, lambda: f"own-{next(numbers)}", generation)
        self.heard: list[Any] = []  # commands that wait for the gateway
        self.said: list[dict[str, Any]] = []  # lines that nobody looked at yet
        self.raw: list[bytes] = []
        self.faults: list[Any] = []
        self.losses: list[str] = []
        self.state = SessionState(id=SESSION, opened_at=AT, updated_at=AT, backend=BackendInfo(cwd="/w"))

    def asks(self, method: str, /, id: object = 1, **params: object) -> Client:
        return self.writes(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))

    def writes(self, *lines: str) -> Client:
        return self.take_step(self.link.receive([line.encode() for line in lines]))

    def message(self, id: object = 1, text: str = "hi", method: str = "thread/message") -> Client:
        more = {"kind": "message"} if method == "thread/request" else {}
        self.attach()
        return self.asks(method, id=id, thread_id=THREAD, input=text, **more)

    def attach(self, request: str = "") -> Client:
        return self.take_step(self.link.attach(self.state, request))

    def answer(self, item: Any) -> Client:
        return self.take_step(self.link.send([item]))

    def reply(self, cause: Cause | None = None, text: str = "no", **more: Any) -> Client:
        """Answer the oldest command."""
        command = self.heard.pop(0)
        failure = Failure(cause=cause, text=text) if cause else None
        return self.answer(events.Reply(request=command.request, failure=failure, **more))

    def turn(self, *events: Any, end: End = "completed", failure: Failure | None = None) -> Client:
        """Play the oldest command's turn, from its first to its last event."""
        command = self.heard.pop(0)
        self.runs(command.request, begun(text_of(command)), list(events), ended(end, failure))
        return self

    def runs(self, request: str, *batches: list[Any]) -> None:
        projection = DIALECT.projection(request, self.link.view)
        for run in batches:
            if not run:
                continue
            batch = Batch(
                session=SESSION,
                epoch=1,
                first_seq=0,
                events=run,
                turn=TURN,
                at=AT,
                origin=Origin(link="l", request=request),
            )
            rendered = projection.render(batch)
            self.take_frames(rendered.frames)
            self.losses += [loss.kind for loss in rendered.losses]
            self.take_step(self.link.on_delivered(batch))

    def lines(self) -> list[dict[str, Any]]:
        lines, self.said = self.said, []
        return lines

    def line(self) -> dict[str, Any]:
        (line,) = self.lines()
        return line

    def take_step(self, step: Any) -> Client:
        self.take_frames(step.frames)
        self.heard += [item for burst in step.bursts for item in burst.items]
        self.faults += step.faults
        self.losses += [loss.kind for loss in step.losses]
        return self

    def take_frames(self, frames: list[bytes]) -> None:
        self.raw += frames
        self.said += map(json.loads, frames)


def text_of(command: commands.SubmitInput) -> str:
    return "".join(segment.text for segment in command.segments if isinstance(segment, Text))


def begun(text: str = "hi") -> list[Any]:
    return [
        events.TurnAccepted(request="x"),
        events.MessageAppended(message=Message(role="user", text=text)),
        events.StatusChanged(status="running"),
        events.ModelTurnStarted(),
    ]


def ended(end: End = "completed", failure: Failure | None = None) -> list[Any]:
    error = [events.ErrorReported(cause=failure.cause, text=failure.text)] if failure else []
    return [
        *error,
        events.TurnResult(end=end),
        events.StatusChanged(status="idle"),
        events.TurnEnded(end=end, failure=failure),
    ]
