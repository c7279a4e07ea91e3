"""The session of our link with a smooth server: it is opened or resumed once, before everything else
(docs/dialects/smooth.md, section 6).

A link carries one session (docs/design.md, section 5). Commands that come before the session is open wait for it, up to
a limit, and fail with it. After a lost connection we send `get_session` with the old id, and `create` with the
conversationId if that id is unknown. If the server then returns another conversation, the history is lost, and that is
a Gap (docs/translation.md, rule 3.15).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from dragoman.mappings.canonical import SessionState, commands
from dragoman.mappings.canonical.commands import Command
from dragoman.mappings.canonical.events import Event, Gap, Reply, SessionOpened
from dragoman.mappings.canonical.values import Failure
from dragoman.mappings.smooth.vocabulary import given, omits_supports

HELD_MAX = 64
"""Commands that wait until a session is open; a further one is refused."""

CLAIMED = ("identity_form", "choice_chips")
"""The forms that the gateway claims for clients whose dialect has no claims: it asks such clients in words."""

SESSIONLESS = (commands.Ping, commands.ListSessions, commands.OpenSession, commands.ResumeSession)


class Opening:
    """The session of one link, with its id at the server ("" until it is known), and the commands that wait for it."""

    def __init__(self) -> None:
        self.session = ""
        self._conversation = ""
        self._wanted = commands.OpenSession()
        self._held: list[Command] = []
        self._asked: Command | None = None

    def resume(self, state: SessionState) -> list[Command]:
        """Return the commands for a new connection: none for a session that was never opened."""
        if state.opening is not None:
            self._wanted = state.opening
        session = given(state.backend_ids, "sessionId")
        conversation = given(state.backend_ids, "conversationId")
        if not isinstance(session, str) or not isinstance(conversation, str):
            return []
        self._conversation = conversation
        return self._ask(commands.GetSession(session=session))

    def admit(self, command: Command) -> tuple[list[Command], list[Event]]:
        """Return the commands to write now for this command, and the events that answer it at once."""
        if isinstance(command, commands.OpenSession | commands.ResumeSession):
            return self._ask(command), []
        if isinstance(command, SESSIONLESS):
            return [command], []
        if self.session:
            return [self._placed(command)], []
        if isinstance(command, commands.GetSession) and command.session and self._asked is None:
            return self._ask(command), []
        if len(self._held) >= HELD_MAX:
            failure = Failure(cause="busy", text="too many commands wait for the session to be opened")
            return [], [Reply(request=command.request, failure=failure)]
        self._held.append(command)
        return (self._ask(structs.replace(self._wanted, request="")) if self._asked is None else []), []

    def answered(self, command: Command, event: Event) -> tuple[list[Command], list[Event]]:
        """Handle the answer to a command that opens; return the commands to write and the events.

        The commands are those that waited, or a further attempt.
        """
        if command is not self._asked:
            return [], [event]
        self._asked = None
        if isinstance(event, SessionOpened):
            return self._opened(command, event)
        if isinstance(command, commands.GetSession) and self._conversation and not command.request:
            again = commands.resume_session(structs.replace(self._wanted, request=""), self._conversation)
            return self._ask(again), []
        failure = event.failure if isinstance(event, Reply) else None
        held, self._held = self._held, []
        refused: Sequence[Event] = [Reply(request=c.request, failure=failure or UNOPENED) for c in held]
        return [], [*([event] if command.request else []), *refused]

    def _opened(self, command: Command, event: SessionOpened) -> tuple[list[Command], list[Event]]:
        session = given(event.ext, "sessionId")
        self.session = session if isinstance(session, str) else ""
        events: list[Event] = [event]
        if self._conversation and event.session != self._conversation and not command.request:
            events.append(
                Gap(
                    text="the server no longer knows the conversation and began another: its history is gone",
                    context=True,
                )
            )
        self._conversation = event.session
        held, self._held = self._held, []
        return [self._placed(c) for c in held], events

    def _placed(self, command: Command) -> Command:
        return structs.replace(command, session=self.session)

    def _ask(self, command: Command) -> list[Command]:
        if (
            isinstance(command, commands.OpenSession | commands.ResumeSession)
            and command.supports is None
            and not omits_supports(command.ext)
        ):
            command = structs.replace(command, supports=CLAIMED)
        self._asked = command
        return [command]


UNOPENED = Failure(cause="internal", text="the server opened no session")
