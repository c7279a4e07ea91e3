"""The opening of a link's thread, which comes before all other commands (docs/dialects/codewhale.md, sections 2.3 and
3).

A link carries one thread (docs/design.md, section 5). Commands that come before the thread is open wait for it in a
bounded queue, and fail if it cannot be opened. A server keeps the model's context only in memory. So a
thread that is resumed from its store is told as a Gap of the context. So is a new thread that replaces a lost one.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.mappings.canonical import SessionState, Unmapped, commands
from dragoman.mappings.canonical.commands import Command
from dragoman.mappings.canonical.events import Event, Gap, Reply, SessionOpened
from dragoman.mappings.canonical.values import Ext, Failure
from dragoman.mappings.codewhale.vocabulary import given
from dragoman.mappings.codewhale.wire.requests import ResumeParams, StartParams
from dragoman.mappings.codewhale.wire.values import Thread
from dragoman.mappings.extras import raw

HELD_MAX = 64
"""Commands that wait for a thread; a further one is refused."""

SESSIONLESS = (
    commands.Ping,
    commands.ListSessions,
    commands.GetCapabilities,
    commands.GetConfig,
    commands.SetConfig,
    commands.UnsetConfig,
    commands.ListConfig,
    commands.ReloadConfig,
    commands.ListModels,
    commands.AnswerInteraction,
    commands.PromptOnce,
    commands.ShutdownBackend,
)
"""Commands that a server answers without a thread."""

SPELLING = frozenset(("codewhale.method", "codewhale.jsonrpc"))
"""Fields of `ext` with the spelling of a client's request.

A server is always asked in the usual spelling, because only a message in that spelling can be interrupted.
"""

UNOPENED = Failure(cause="internal", text="the backend opened no thread")
LOST = "the backend has forgotten the conversation: it knows nothing of what was said before"


class Opening:
    """The thread of one link ("" until it is known), and the commands that wait for it."""

    def __init__(self) -> None:
        self.thread = ""
        self._known = ""  # the thread on the previous server
        self._cwd = ""
        self._wanted = commands.OpenSession()
        self._held: list[Command] = []
        self._asked: Command | None = None

    def resume(self, state: SessionState) -> list[Command]:
        """Return the commands for a fresh server: none for a session that was never opened."""
        if state.opening is not None:
            self._wanted = state.opening
        params = given(self._wanted.ext, "params", StartParams, StartParams())
        thread = given(state.backend_ids, "thread", Thread, None)
        self._cwd = params.cwd or self._wanted.cwd or state.backend.cwd or (thread.cwd if thread is not None else "")
        self._known = given(state.backend_ids, "thread_id", str, "")
        return self._ask(self._going_on(self._known)) if self._known else []

    def admit(self, command: Command) -> tuple[list[Command], list[Event]]:
        """Return the commands to write now in place of this one, and the events that answer it at once."""
        if isinstance(command, commands.OpenSession | commands.ResumeSession):
            command = replace(command, ext=_usual(command.ext))
            return self._ask(self._placed(command) if isinstance(command, commands.ResumeSession) else command), []
        if isinstance(command, Unmapped):
            return [command], []
        command = replace(command, ext=_usual(command.ext))
        if isinstance(command, SESSIONLESS):
            return [command], []
        if self.thread:
            return [self._here(command)], []
        if isinstance(command, commands.GetSession) and command.session and self._asked is None:
            return self._ask(self._going_on(command.session, command)), []
        if len(self._held) >= HELD_MAX:
            failure = Failure(cause="busy", text="too many commands wait for the thread to be opened")
            return [], [Reply(request=command.request, failure=failure)]
        self._held.append(command)
        return (self._ask(replace(self._wanted, request="")) if self._asked is None else []), []

    def answered(self, command: Command, event: Event) -> tuple[list[Command], list[Event]]:
        """Return the commands and events that follow from the answer to a command that opens a thread."""
        if command is not self._asked:
            return [], [event]
        self._asked = None
        if isinstance(event, SessionOpened):
            fresh, self.thread = not self.thread, given(event.ext, "thread_id", str, event.session)
            held, self._held = self._held, []
            goes_on = bool(self._known) or (fresh and isinstance(command, commands.ResumeSession))
            lost: list[Event] = [Gap(text=LOST, context=True)] if goes_on else []
            self._known = ""
            return [self._here(c) for c in held], [event, *lost]
        if isinstance(command, commands.ResumeSession) and self._known and not command.request:
            return self._ask(replace(self._wanted, request="")), []
        failure = event.failure if isinstance(event, Reply) else None
        held, self._held = self._held, []
        refused: list[Event] = [Reply(request=c.request, failure=failure or UNOPENED) for c in held if c.request]
        return [], [*([event] if command.request else []), *refused]

    def _going_on(self, thread: str, command: Command | None = None) -> commands.ResumeSession:
        request = command.request if isinstance(command, commands.GetSession) else ""
        return self._placed(commands.ResumeSession(request=request, session=thread))

    def _here(self, command: Any) -> Command:
        ext = {name: json for name, json in (command.ext or {}).items() if name != "codewhale.thread_id"}
        here: Command = replace(command, session=self.thread, ext=ext or None)
        return here

    def _placed(self, command: commands.ResumeSession) -> commands.ResumeSession:
        """Add the folder to a resume: without it the server uses its own (docs/dialects/codewhale.md, section 2.3)."""
        if not self._cwd:
            return command
        usual = ResumeParams(thread_id=command.session, persist_extended_history=False)
        params = given(command.ext, "params", ResumeParams, usual)
        if params.cwd is not None:
            return command
        return replace(command, ext={**(command.ext or {}), "codewhale.params": raw(replace(params, cwd=self._cwd))})

    def _ask(self, command: Command) -> list[Command]:
        self._asked = command
        return [command]


def _usual(ext: Ext | None) -> Ext | None:
    return {name: json for name, json in (ext or {}).items() if name not in SPELLING} or None
