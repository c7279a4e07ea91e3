"""The context of a rule toward pando: who speaks, when, and about which session.

The base class serves an item by itself (`Direction.write`, an answer to one link); the projection of a session refines
it.
"""

from __future__ import annotations

from typing import TypedDict

from msgspec import UNSET, Struct, UnsetType

from dragoman.mappings.canonical.commands import Command
from dragoman.mappings.canonical.values import Ext
from dragoman.mappings.dialect import Instance
from dragoman.mappings.losses import Losses
from dragoman.mappings.pando.vocabulary import given
from dragoman.mappings.pando.wire.requests import Meta
from dragoman.mappings.pando.wire.times import rfc3339
from dragoman.mappings.rules import RuleTable

Messages = tuple[Struct | bytes, ...]
"""Wire structs; bytes for a message that is only passed on."""

NOBODY = Instance(id="dragoman", started_at=0)
"""The speaker where there is no listener: in `translate`."""


class EnvelopeFields(TypedDict):
    """The fields of every published message."""

    instance_id: str
    project_id: str
    session_id: str | UnsetType
    timestamp: str


class Context:
    """The facts that rules toward pando need beside their item.

    `session` is the session of payloads, `at` is in ns, `request` the id of calls and replies. `asked` is the command
    that is answered, None if that is unknown; `meta` goes with writes.
    """

    __slots__ = ("asked", "at", "envelope", "instance", "losses", "meta", "request", "session")

    def __init__(
        self,
        rules: RuleTable,
        instance: Instance = NOBODY,
        *,
        at: int = 0,
        request: str = "",
        asked: Command | None = None,
    ) -> None:
        self.instance = instance
        self.losses = Losses(rules)
        self.session = ""
        self.request = request
        self.asked = asked
        self.meta: Meta | UnsetType = UNSET
        self.envelope = EnvelopeFields(instance_id=instance.id, project_id="", session_id=UNSET, timestamp="")
        self.now(at)

    def publish_as(self, publisher: Ext | None, session: str) -> None:
        """Publish about `session`, with the envelope of another publisher."""
        self.session = session
        self.envelope["instance_id"] = given(publisher, "instanceId", str, self.instance.id)
        self.envelope["project_id"] = given(publisher, "projectId", str, "")
        self.envelope["session_id"] = given(publisher, "sessionId", str, "") or UNSET

    def now(self, at: int) -> None:
        """Set the time of what follows."""
        self.at = at
        self.envelope["timestamp"] = rfc3339(at)

    def lose(self, source: object, field: str = "", why: str = "") -> None:
        """Count that `source`, or a field of it, does not arrive."""
        self.losses.lose(source, field, why)

    @property
    def in_turn(self) -> bool:
        """Return True if events belong to a turn."""
        return False

    def starts(self) -> bool:
        """Return True if the start of a model turn is told: always by itself, once in a turn."""
        return True

    def begin_run(self) -> None:
        """Begin another run inside the turn, after an answer."""

    def rolled_back(self) -> Messages:
        """Return the messages that tell a rollback, beside the end of the turn."""
        return ()
