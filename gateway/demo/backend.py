"""The demo backend: plays scripts in this process, behind the same sessions and translators as a real backend.

It behaves as docs/dialects/pod.md, section 8 says: one turn at a time. A cancel or pause before any output rolls the
input back; later it ends or pauses the turn, and a resume continues there. A question waits until it is answered or the
turn is stopped (docs/dialects/smooth.md, section 6); a resume asks it again. A fresh pod begins a log with its first
run: with `rotates`, the first run sends a history. `demo_backend` serves it in any dialect that dragoman can listen in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from dragoman.adapters.base import Spawn
from dragoman.gateway import registry
from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Limits, Route
from dragoman.gateway.demo.script import Line, Outcome, Scripts
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.session.history import answer_page
from dragoman.gateway.session.ports import BackendEvents
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import (
    Answer,
    AnswerApproval,
    AnswerInteraction,
    AnswerOtp,
    CancelTurn,
    GetHistory,
    GetSession,
    ListCompletions,
    OpeningCommand,
    OpenSession,
    PauseTurn,
    ResumeSession,
    ResumeTurn,
    ShutdownBackend,
    SubmitInput,
)
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    CompletionsListed,
    HistorySnapshot,
    InteractionRequired,
    OtpInvalid,
    Reply,
    SessionOpened,
    StatusChanged,
    TurnAccepted,
    TurnEnded,
    TurnResult,
)
from dragoman.mappings.canonical.state import Question
from dragoman.mappings.canonical.values import BackendInfo, Cause, Completion, End, Failure, Status, flatten
from dragoman.mappings.dialect import Burst

BURST = 512  # events sent at once if the script has no delays

ABOUT = BackendInfo(
    name="demo", model="scripted", provider="unknown", cwd="/srv/demo", tools=("lookup_order", "list_files")
)


class DemoBackend:
    """A backend that answers a session's commands from scripts."""

    def __init__(
        self,
        session: BackendEvents,
        spawn: Spawn,
        scripts: Scripts,
        *,
        rotates: bool = False,
    ) -> None:
        self._session = session
        self._spawn = spawn
        self._scripts = scripts
        self._rotates = rotates
        self._status: Status = "idle"
        self._rest: Iterator[Line] | None = None
        self._output = False
        self._stop: End | None = None
        self._question: Question | None = None
        self._outcome: Outcome = ""
        self._wake = asyncio.Event()
        self._started = False
        self._stopped = False

    def start(self) -> None:
        if not self._started:
            self._started = True
            self._spawn(self._run(), "demo:backend")
            self._say(HistorySnapshot(items=(), status="idle", backend=ABOUT))

    def send(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case OpenSession() | ResumeSession() | GetSession():
                    self._open(command)
                case GetHistory():
                    self._say(answer_page(self._session.state, command))
                case SubmitInput():
                    self._submit(command)
                case AnswerApproval() | AnswerInteraction():
                    self._answer(command)
                case AnswerOtp():
                    text = "no code was asked for"
                    self._say(OtpInvalid(request=command.request, attempts_remaining=0, text=text, reason="NOT_FOUND"))
                case CancelTurn():
                    self._interrupt(command.request, "cancelled")
                case PauseTurn():
                    self._interrupt(command.request, "paused")
                case ResumeTurn():
                    self._resume(command.request)
                case ListCompletions():
                    self._complete(command)
                case ShutdownBackend():
                    self._say(Reply(request=command.request))
                case _:
                    self._refuse(command.request, "unsupported", "the demo backend does not support this command")

    def suspend(self) -> bool:
        return False  # an idle demo backend needs no resources

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()

    # -- what a session needs --------------------------------------------------------------------------

    def _open(self, command: OpeningCommand) -> None:
        """Open a new conversation, also to resume an unknown one (docs/dialects/smooth.md, section 6)."""
        if isinstance(command, GetSession):
            self._refuse(command.request, "not_found", f"session {command.session!r} not found")
            return
        state = self._session.state
        self._say(SessionOpened(request=command.request, session=state.id, agent=command.agent, ext={}))

    def _complete(self, command: ListCompletions) -> None:
        entries = tuple(Completion(value=v) for v in ("notes.md", "orders.csv") if v.startswith(command.prefix))
        self._say(CompletionsListed(request=command.request, kind=command.kind, entries=entries))

    def _refuse(self, request: str, cause: Cause, text: str) -> None:
        self._say(Reply(request=request, failure=Failure(cause=cause, text=text)))

    # -- what drives a turn ----------------------------------------------------------------------------

    def _submit(self, command: SubmitInput) -> None:
        if self._status == "running":
            self._refuse(command.request, "busy", "a run is in progress")
            return
        self._outcome = ""
        self._begin(self._scripts.turn(flatten(command.segments)), output=False)
        self._say(TurnAccepted(request=command.request), StatusChanged(status="running"))
        if self._rotates:  # the first run of a fresh pod sends a history (docs/dialects/pod.md, section 7)
            self._rotates = False
            self._say(HistorySnapshot(items=(), rotated=True))

    def _resume(self, request: str) -> None:
        if self._status != "paused" or self._rest is None:
            running = self._status == "running"
            self._refuse(request, "busy" if running else "not_running", "nothing is paused")
            return
        self._begin(self._rest, output=True)
        self._say(Reply(request=request), StatusChanged(status="running"))

    def _interrupt(self, request: str, end: End) -> None:
        if self._status == end == "paused":
            self._say(Reply(request=request))  # nothing happens
            return
        if self._status != "running":
            self._refuse(request, "not_running", "nothing is running")
            return
        self._say(Reply(request=request))
        self._stop = end if self._output else "rolled_back"
        self._wake.set()

    def _begin(self, turn: Iterator[Line], *, output: bool) -> None:
        self._status, self._rest, self._output, self._stop = "running", turn, output, None
        self._wake.set()

    def _answer(self, command: Answer) -> None:
        """Accept an answer to the open question. The acknowledgement is sent before the turn continues."""
        match self._question, command:
            case (ApprovalRequested(), AnswerApproval()):
                self._outcome = "approved" if command.approved else "denied"
            case (InteractionRequired(question=asked), AnswerInteraction()) if command.question in ("", asked):
                self._outcome = "declined" if command.declined else "submitted"
            case (InteractionRequired(question=asked), AnswerInteraction()):
                self._refuse(command.request, "invalid", f"the open question is {asked!r}")
                return
            case _:
                self._refuse(command.request, "not_found", "no such question is open")
                return
        self._question = None
        self._say(Reply(request=command.request))
        self._wake.set()

    # -- the player ------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self._stopped:
            self._wake.clear()
            if self._status == "running" and self._rest is not None:
                await self._play(self._rest)
            else:
                await self._wake.wait()

    async def _play(self, turn: Iterator[Line]) -> None:
        events: list[Any] = []
        for line in turn:
            if line.when not in ("", self._outcome):
                continue
            if line.delay or len(events) >= BURST:
                self._send_events(events)
                events = []
                await self._pause(line.delay)
            if self._stop is not None or self._stopped:
                self._rest = chain([line], turn)  # a resume begins with it
                break
            events.append(line.event)
            if isinstance(line.event, Question):
                self._send_events(events)
                events = []
                await self._park(line.event)
                if self._question is not None:  # stopped: a resume asks again
                    self._question = None
                    self._rest = chain([line], turn)
                    break
            if isinstance(line.event, TurnEnded):
                self._status = "idle"
                break
        self._send_events(events)
        if self._stop is not None:
            self._interrupted(self._stop)

    async def _park(self, question: Question) -> None:
        """Wait for the answer, or for a stop of the turn, which leaves the question open."""
        self._question = question
        while self._waits():
            self._wake.clear()
            await self._wake.wait()

    def _waits(self) -> bool:
        return self._question is not None and self._stop is None and not self._stopped

    async def _pause(self, delay: float) -> None:
        if not delay or self._stop is not None or self._stopped:  # stopped before the player woke up
            await asyncio.sleep(0)
            return
        self._wake.clear()  # an answer may have set it: only what comes now ends the pause
        try:
            async with asyncio.timeout(delay):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _interrupted(self, end: End) -> None:
        self._stop = None
        self._status = "paused" if end == "paused" else "idle"
        self._say(TurnResult(end=end), StatusChanged(status=self._status))

    def _send_events(self, events: list[Any]) -> None:
        if events:
            self._output = True
            self._session.receive([Burst(items=events)])

    def _say(self, *events: Any) -> None:
        self._session.receive([Burst(items=list(events))])


DEFAULTS = Limits()


def demo_backend(endpoint: Endpoint, turns: Sequence[list[Line]] = (), limits: Limits = DEFAULTS) -> App:
    """Return an app that serves the scripted backend on `endpoint`; `turns` replace the bundled scripts.

    It holds as many sessions as real backends of the dialect: a pod has one for all clients.
    """
    one = registry.dialect(endpoint.dialect).single_session
    nowhere = Endpoint(dialect="pod" if one else "smooth", transport="demo", address="conversation")
    registry.check_listen(endpoint)
    registry.check_place(endpoint)
    route = Route(name="demo-backend", listen=(endpoint,), upstream=nowhere)
    app = App(
        Config(routes=(route,), limits=limits),
        make_backend=lambda session: DemoBackend(session, app.spawn, Scripts(turns), rotates=one),
    )
    return app
