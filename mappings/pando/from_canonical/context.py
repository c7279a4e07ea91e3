"""What a rule toward pando needs to know beside its item: who speaks, when, and of which session.

The base class stands for an item said by itself (`Direction.write`, an answer to one link); the projection of a session
refines it.
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
"""Who speaks where nobody listens: in `translate`."""


class EnvelopeFields(TypedDict):
    """What every published message has."""

    instance_id: str
    project_id: str
    session_id: str | UnsetType
    timestamp: str


class Context:
    """`session` is what payloads name, `at` is in ns, `request` the id of calls and replies.

    `asked` is the command that is being answered, None if it is not known; `meta` goes with writes.
    """

    __slots__ = ("asked", "at", "envelope", "instance", "losses", "meta", "request", "session")

    def __init__(
        self,
        rules: RuleTable,
        instance: Instance = NOBODY,
        *,
        session: str = "",
        at: int = 0,
        request: str = "",
        asked: Command | None = None,
        publisher: Ext | None = None,
    ) -> None:
        self.instance = instance
        self.losses = Losses(rules)
        self.session = session
        self.request = request
        self.asked = asked
        self.meta: Meta | UnsetType = UNSET
        said = given(publisher, "sessionId", str, "")
        self.envelope = EnvelopeFields(
            instance_id=given(publisher, "instanceId", str, instance.id),
            project_id=given(publisher, "projectId", str, ""),
            session_id=said or UNSET,
            timestamp="",
        )
        self.now(at)

    def now(self, at: int) -> None:
        """What follows is said at `at`."""
        self.at = at
        self.envelope["timestamp"] = rfc3339(at)

    def lose(self, source: object, field: str = "", why: str = "") -> None:
        """Count that `source`, or a field of it, does not arrive."""
        self.losses.lose(source, field, why)

    @property
    def in_turn(self) -> bool:
        """Whether what is said belongs to a turn."""
        return False

    def starts(self) -> bool:
        """Whether a model turn that begins is told: by itself always, in a turn the first."""
        return True

    def begin_run(self) -> None:
        """A run begins inside of the turn: after an answer."""

    def rolled_back(self) -> Messages:
        """What tells that the session went back to where it was, beside the end of the turn."""
        return ()
