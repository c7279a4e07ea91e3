"""The thread of a link, opened or resumed before all other commands (docs/dialects/codewhale.md, sections 2.3 and 3).

Servers before 0.10.2 keep the model's context only in memory. So clients get a Gap with `context` if such a server
resumes a thread from its store. They also get it if a new thread replaces a lost one. A server of 0.10.2 refuses to
resume a thread in another folder than its own, and forever after a broken stream (section 12). So a refused resume is
repeated without our folder. If that is refused too, the thread is read: such a server takes inputs of a thread that was
not resumed. A thread whose history is too long for an answer is used without any of this.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.mappings.canonical import Command, Event, SessionState, Unmapped, commands
from dragoman.mappings.canonical.events import Gap, Reply, SessionOpened
from dragoman.mappings.canonical.values import Ext, Failure
from dragoman.mappings.codewhale.from_canonical.commands import changes_thread, history_length
from dragoman.mappings.codewhale.ids import session_id, thread_id
from dragoman.mappings.codewhale.vocabulary import given, keep
from dragoman.mappings.codewhale.wire.requests import Resume, Start
from dragoman.mappings.codewhale.wire.results import Capabilities
from dragoman.mappings.codewhale.wire.values import Thread
from dragoman.mappings.extras import raw
from dragoman.mappings.opening import LOST, SessionOpening

SPELLING = frozenset(("codewhale.method", "codewhale.jsonrpc"))
"""Fields of `ext` with the spelling of a client's request.

Requests to a server always have the usual spelling, because only a message in that spelling can be interrupted.
"""


TOO_LONG = "full history exceeds byte transport bound"
"""The part of an error's text that says that a thread has more than 8 MiB (docs/dialects/codewhale.md, section 12)."""

NOT_LOADED = "No such file or directory"
"""The part of an error's text that says that a thread can be shown only after its next input."""


class Opening(SessionOpening):
    """The thread of one link, with the id `session`, and the commands that wait until it is open."""

    SESSIONLESS = (
        Unmapped,
        commands.Ping,
        commands.ListSessions,
        *commands.CONFIGURATION,
        commands.AnswerInteraction,
        commands.PromptOnce,
        commands.ShutdownBackend,
    )

    def __init__(self) -> None:
        super().__init__()
        self.resumes_context = False
        """True if the server knows the conversation of a thread that it resumes."""
        self.serves_others = False
        """True if other processes end with this server."""
        self._knows_folders = False  # of the threads that it resumes
        self._has_context = False  # an input was sent in this thread
        self._known = ""  # the thread id on the previous server
        self._cwd = ""
        self._unplaced: commands.ResumeSession | None = None  # the resume without our folder, while it can be repeated

    def note_server(self, server: Capabilities) -> None:
        """Note whether the server stores the folder and context of a thread, and whether others end with it."""
        self.resumes_context, self.serves_others = server.resumes_context, server.owns_threads
        self._knows_folders = server.knows_folders

    def note_input(self) -> None:
        """Note that an input was sent, so that the model has a context."""
        self._has_context = True

    @property
    def is_replaceable(self) -> bool:
        """True if another server process would know the thread as well as this one.

        A 0.10.2 cannot resume a thread without inputs; with an older server nothing is lost then.
        """
        return not self.serves_others and (not self.session or self.resumes_context is self._has_context)

    def resume(self, state: SessionState) -> list[Command]:
        """Return the commands for a new server process; [] for a session that was never opened."""
        if state.opening is not None:
            self._wanted = state.opening
        params = given(self._wanted.ext, "params", Start.Params, Start.Params())
        thread = given(state.backend_ids, "thread", Thread, None)
        self._cwd = params.cwd or self._wanted.cwd or state.backend.cwd or (thread.cwd if thread is not None else "")
        self._known = given(state.backend_ids, "thread_id", str, "")
        self._has_context = bool(state.transcript)
        return self._ask(self._placed(commands.ResumeSession(session=self._known))) if self._known else []

    def take_answer(self, command: Command, event: Event) -> tuple[list[Command], list[Event]]:
        """Handle the answer to a command.

        A thread that the server cannot show counts as open if the server accepts inputs for it.
        """
        failure = event.failure if command is self._asked and isinstance(event, Reply) else None
        if isinstance(command, commands.ResumeSession | commands.GetSession) and _takes_inputs(command, failure):
            thread = given(command.ext, "thread_id", str, thread_id(command.session))
            event = SessionOpened(request=command.request, session=session_id(thread), ext=keep(thread_id=thread))
        return super().take_answer(command, event)

    def _prepared(self, command: Command) -> Command:
        if isinstance(command, Unmapped):
            return command
        command = replace(command, ext=_usual(command.ext))
        return self._placed(command) if isinstance(command, commands.ResumeSession) else command

    def _in_session(self, command: Any) -> Command:
        ext = {name: json for name, json in (command.ext or {}).items() if name != "codewhale.thread_id"}
        placed: Command = replace(command, session=self.session, ext=ext or None)
        return placed

    def _lookup(self, command: commands.GetSession) -> Command:
        return self._placed(commands.ResumeSession(request=command.request, session=command.session))

    def _open(self, command: Command, event: SessionOpened) -> list[Event]:
        resumes = isinstance(command, commands.ResumeSession | commands.GetSession)
        resumed = not self.session and resumes
        self.session = given(event.ext, "thread_id", str, event.session)
        known, self._known = self._known, ""
        if resumes and self.resumes_context:
            return []
        is_lost = self._has_context if known else resumed
        return [Gap(text=LOST, context=True)] if is_lost else []

    def _first_attempt(self) -> Command:
        """Return the command that resumes the thread of the previous server, or opens the first one."""
        if self._known:
            return self._placed(commands.ResumeSession(session=self._known))
        return super()._first_attempt()

    def _second_attempt(self, command: Command, failure: Failure | None) -> Command | None:
        if not isinstance(command, commands.ResumeSession):
            return None
        unplaced, self._unplaced = self._unplaced, None
        if failure is not None and failure.cause == "busy":
            return unplaced or self._reading(command)
        return None if command.request or not self._known else replace(self._wanted, request="")

    def _reading(self, resume: commands.ResumeSession) -> Command | None:
        """Return the command that reads a thread instead; None if the resume was needed."""
        if not self.resumes_context or changes_thread(resume, None):
            return None
        return commands.GetSession(request=resume.request, session=resume.session, ext=resume.ext)

    def _placed(self, command: commands.ResumeSession) -> commands.ResumeSession:
        """Add the folder to a resume: without it the server uses its own (docs/dialects/codewhale.md, section 2.3).

        A server that stores the folder refuses another one. A gateway does not know the folder if its backend does not.
        """
        self._unplaced = None
        if not self._cwd or self._knows_folders:
            return command
        usual = Resume.Params(thread_id=command.session, persist_extended_history=False)
        params = given(command.ext, "params", Resume.Params, usual)
        if params.cwd is not None:
            return command
        self._unplaced = command
        return replace(command, ext={**(command.ext or {}), "codewhale.params": raw(replace(params, cwd=self._cwd))})


def _takes_inputs(command: commands.ResumeSession | commands.GetSession, failure: Failure | None) -> bool:
    """Return True if a server that answers with this failure takes inputs for the thread nevertheless.

    The history of the thread is too long for an answer. Or a 0.10.2 has unloaded the thread, or can neither resume it
    nor read it for us.
    """
    if failure is None:
        return False
    if isinstance(command, commands.ResumeSession):
        return TOO_LONG in failure.text and not history_length(command)
    return failure.cause == "busy" and (not command.request or NOT_LOADED in failure.text)


def _usual(ext: Ext | None) -> Ext | None:
    return {name: json for name, json in (ext or {}).items() if name not in SPELLING} or None
