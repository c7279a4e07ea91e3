"""The session of a link that carries only one session: it is opened or resumed before everything else.

Commands that come before the session is open wait for it, up to a limit. If opening fails, they fail too. A dialect
whose servers open sessions has a subclass in its translator/opening.py (docs/design.md, section 5).
"""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.commands import GetSession, OpenSession, ResumeSession
from dragoman.mappings.canonical.events import Reply, SessionOpened
from dragoman.mappings.canonical.values import Failure

HELD_MAX = 64
"""Commands that wait until a session is open; a further one is refused. Real clients send one or two."""

LOST = "the backend has forgotten the conversation: it knows nothing of what was said before"
"""The text of a Gap with `context`."""

UNOPENED = Failure(cause="internal", text="the backend opened no session")


class SessionOpening:
    """The session of one link: its id at the backend ("" until it is known) and the commands that wait for it."""

    SESSIONLESS: ClassVar[tuple[type, ...]] = ()  # commands that need no session

    def __init__(self) -> None:
        self.session = ""
        self._wanted = OpenSession()
        self._held: list[Command] = []
        self._asked: Command | None = None

    def admit_command(self, command: Command) -> tuple[list[Command], list[Event]]:
        """Return the commands to write instead of this one, and the events that answer it at once."""
        command = self._prepared(command)
        if isinstance(command, OpenSession | ResumeSession):
            return self._ask(command), []
        if isinstance(command, self.SESSIONLESS):
            return [command], []
        if self.session:
            return [self._in_session(command)], []
        if isinstance(command, GetSession) and command.session and self._asked is None:
            return self._ask(self._lookup(command)), []
        if len(self._held) >= HELD_MAX:
            failure = Failure(cause="busy", text=f"{HELD_MAX} commands wait for the session to be opened")
            return [], [Reply(request=command.request, failure=failure)]
        self._held.append(command)
        return (self._ask(self._first_attempt()) if self._asked is None else []), []

    def holds(self, kind: type) -> bool:
        """Return True if a command of this kind waits until the session is open."""
        return any(isinstance(command, kind) for command in self._held)

    def take_answer(self, command: Command, event: Event) -> tuple[list[Command], list[Event]]:
        """Return the commands to write after this answer, and the events to pass on.

        The commands are those that waited for the session, or a second attempt to open it.
        """
        if command is self._asked:
            self._asked = None
        elif not (isinstance(command, ResumeSession) and isinstance(event, SessionOpened)):
            return [], [event]
        if isinstance(event, SessionOpened):
            events = [event, *self._open(command, event)]
            held, self._held = self._held, []
            return [self._in_session(c) for c in held], events
        failure = event.failure if isinstance(event, Reply) else None
        again = self._second_attempt(command, failure)
        if again is not None:
            return self._ask(again), []
        if isinstance(command, OpenSession) and failure is None:  # it was answered with something else than a session
            event = Reply(request=command.request, failure=UNOPENED)
        held, self._held = self._held, []
        refused: list[Event] = [Reply(request=c.request, failure=failure or UNOPENED) for c in held]
        return [], [*([event] if command.request else []), *refused]

    def _prepared(self, command: Command) -> Command:
        """Return a command in the form that is sent to the backend."""
        return command

    def _in_session(self, command: Command) -> Command:
        """Return a copy of the command that names the open session."""
        return replace(command, session=self.session)

    def _lookup(self, command: GetSession) -> Command:
        """Return the command that looks up the session that a client named."""
        return command

    def _open(self, command: Command, event: SessionOpened) -> list[Event]:
        """Note that the session is open, and return further events for its clients."""
        self.session = event.session
        return []

    def _first_attempt(self) -> Command:
        """Return the command that opens a session for commands that need one."""
        return replace(self._wanted, request="")

    def _second_attempt(self, command: Command, failure: Failure | None) -> Command | None:
        """Return the command to try after this one failed, if any; `failure` is None if its answer is malformed."""
        return None

    def _ask(self, command: Command) -> list[Command]:
        self._asked = command
        return [command]
