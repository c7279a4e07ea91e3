"""The context that a rule toward pando gets beside its item: the publisher, the time and the session.

A Context serves a single item (`Direction.write`, an answer to one link). The projection of a session is a subclass.
"""

from __future__ import annotations

from typing import TypedDict

from msgspec import UNSET, Struct, UnsetType

from dragoman.mappings.canonical import Command, events
from dragoman.mappings.canonical.values import Ext
from dragoman.mappings.dialect import Instance
from dragoman.mappings.losses import Losses
from dragoman.mappings.pando.vocabulary import given
from dragoman.mappings.pando.wire.values import rfc3339

Messages = tuple[Struct | bytes, ...]
"""Wire structs, or bytes for a message that is passed on unchanged."""

NOBODY = Instance(id="dragoman", started_at=0)
"""The publisher in `translate`, where there is no listener."""


class EnvelopeFields(TypedDict):
    """The fields of every published message."""

    instance_id: str
    project_id: str
    session_id: str | UnsetType
    timestamp: str


class Context(Losses):
    """The facts that rules toward pando need beside their item.

    `session` is the session id in payloads. `at` is in ns. `request` is the id of the call or reply. `asked` is the
    command that is answered, None if it is unknown. `alone` is True if the item is written without the others of its
    session. `turn` is the UUID of the turn, "" outside of any turn. `started` is True if the turn has its `llm.start`.
    `error` is the last error that was reported in it: viewers see it only if the turn fails for this reason.
    """

    __slots__ = ("asked", "at", "envelope", "error", "instance", "request", "session", "started", "turn")
    alone = True

    def __init__(
        self,
        instance: Instance = NOBODY,
        *,
        at: int = 0,
        request: str = "",
        asked: Command | None = None,
    ) -> None:
        super().__init__()
        self.instance = instance
        self.session = ""
        self.request = request
        self.asked = asked
        self.turn = ""
        self.started = False
        self.error: events.ErrorReported | None = None
        self.envelope = EnvelopeFields(instance_id=instance.id, project_id="", session_id=UNSET, timestamp="")
        self.now(at)

    def publish_as(self, publisher: Ext | None, session: str) -> None:
        """Set the session of the next publications, and the publisher that their envelope names."""
        self.session = session
        self.envelope["instance_id"] = given(publisher, "instanceId", str, self.instance.id)
        self.envelope["project_id"] = given(publisher, "projectId", str, "")
        self.envelope["session_id"] = given(publisher, "sessionId", str, "") or UNSET

    def now(self, at: int) -> None:
        """Set the time (ns) of the next messages."""
        self.at = at
        self.envelope["timestamp"] = rfc3339(at)

    @property
    def has_begun(self) -> bool:
        """True if `llm.start` was written for the turn; in `translate` content has none before it."""
        return self.alone or self.started

    def begin_run(self) -> bool:
        """Begin a run with a model turn; return True if `llm.start` must be written, in `translate` for each one."""
        first, self.started = self.alone or not self.started, True
        return first

    def take_error(self, error: events.ErrorReported | None, shown: str | None = None) -> None:
        """Replace the last error of the turn; count the previous one as lost, unless its text is `shown`."""
        if self.error is not None and self.error.text != shown:
            self.lose(self.error, why="pando reports only the error for which a turn fails")
        self.error = error

    def rolled_back(self) -> Messages:
        """Return the messages that, beside the end of the turn, announce a rollback."""
        return ()
