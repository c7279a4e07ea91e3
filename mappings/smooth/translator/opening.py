"""The session of a link with a smooth server, opened or resumed (docs/dialects/smooth.md, section 6).

After a lost connection we send `get_session` with the old id. If the server does not know that id, we send `create`
with the conversationId. If the server then returns another conversation, the history is lost, and clients get a Gap
(docs/translation.md, rule 3.15). A conversation without messages has no history: the server in Rust stores it with its
first message.
"""

from __future__ import annotations

from msgspec import structs

from dragoman.mappings.canonical import Command, Event, SessionState, commands, events
from dragoman.mappings.canonical.values import Failure
from dragoman.mappings.opening import LOST, SessionOpening
from dragoman.mappings.smooth.from_canonical.commands import declared_forms
from dragoman.mappings.smooth.vocabulary import given

OF_TURN = (commands.CancelTurn, *commands.ANSWERS)
"""Commands about the last turn, which may be of an earlier session of the conversation."""


class Opening(SessionOpening):
    """The session of one link with a smooth server, and the commands that wait for it.

    For clients of other dialects, which it can ask in words, the gateway declares all forms.
    """

    SESSIONLESS = (commands.Ping, commands.ListSessions)

    def __init__(self) -> None:
        super().__init__()
        self._conversation = ""
        self._has_context = False  # the conversation has a message, as far as we know
        self._turn_session = ""  # the session of the last input, in which the server asks its questions

    def resume(self, state: SessionState) -> list[Command]:
        """Return the commands for a new connection: none for a session that was never opened."""
        if state.opening is not None:
            self._wanted = state.opening
        session = given(state.backend_ids, "sessionId", str, "")
        conversation = given(state.backend_ids, "conversationId", str, "")
        if not session or not conversation:
            return []
        self._conversation = conversation
        is_new = state.opening is not None and state.opening.request  # without a request, it was resumed
        self._has_context = bool(state.transcript) or state.turn is not None or not is_new
        return self._ask(commands.GetSession(session=session))

    def _in_session(self, command: Command) -> Command:
        if isinstance(command, commands.SubmitInput):
            self._turn_session, self._has_context = self.session, True
        named = self.session
        if isinstance(command, commands.RenameSession):
            named = self._conversation
        elif isinstance(command, OF_TURN):
            named = self._turn_session or self.session
        return structs.replace(command, session=named)

    def _open(self, command: Command, event: events.SessionOpened) -> list[Event]:
        self.session = given(event.ext, "sessionId", str, "")
        known, self._conversation = self._conversation, event.session
        lost = known and event.session != known and self._has_context
        return [events.Gap(text=LOST, context=True)] if lost else []

    def _second_attempt(self, command: Command, failure: Failure | None) -> Command | None:
        if not isinstance(command, commands.GetSession) or command.request or not self._conversation:
            return None
        return commands.resume_session(structs.replace(self._wanted, request=""), self._conversation)

    def _ask(self, command: Command) -> list[Command]:
        if isinstance(command, commands.OpenSession | commands.ResumeSession):
            command = structs.replace(command, supports=declared_forms(command))
        if isinstance(command, commands.ResumeSession) and self._conversation:
            command = structs.replace(command, session=self._conversation)  # a client may use another name of it
        return super()._ask(command) if self._asked is None else [command]  # a client's create may be refused
