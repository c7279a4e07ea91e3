"""The clients that are attached to a session, and the shared state of its delivery (docs/design.md, section 6)."""

from __future__ import annotations

from msgspec import Struct

from dragoman.gateway.config.model import RouteOptions
from dragoman.gateway.services import Services
from dragoman.gateway.session.log import Log
from dragoman.gateway.session.ports import Client, EventRecorder
from dragoman.mappings.canonical import Batch, SessionState, events
from dragoman.mappings.dialect import Dialect, SessionProjection


class Attachment(Struct, kw_only=True, eq=False):
    """A link that is attached to a session, with its `view`.

    `request` is the request id of the link's own open turn, else "". `behind` is its own projection while it lags, and
    `cursor` the seq of the first event of the log that it lacks. `earlier` has the events before them that it lacks,
    newest first, because it joined in the middle of a turn. They take `held` bytes. `shown_gap` is the last
    gap of the model's context that its client was shown, and `shown_gap_turn` the turn in which it was shown.
    """

    link: Client
    view: str = ""
    request: str = ""
    behind: SessionProjection | None = None
    cursor: int = 0
    earlier: list[Batch] = []
    held: int = 0
    shown_gap: events.Gap | None = None
    shown_gap_turn: str = ""


def is_own(attachment: Attachment, batch: Batch) -> bool:
    """Return True if a batch belongs to a run that this link began."""
    return bool(attachment.request) or attachment.link.id == batch.origin.link


class Group(Struct, kw_only=True, eq=False):
    """Attachments that share a rendering, of one dialect.

    `members` is a dict, because thousands of clients may leave one session at once: a list is searched for each.
    """

    projection: SessionProjection
    dialect: Dialect
    members: dict[Attachment, None]


class DeliveryContext(Struct, frozen=True, kw_only=True):
    """The state and the log of one session, and how its events are delivered. Without `recorder` they are not recorded.

    `upstream` is the dialect of the backend.
    """

    state: SessionState
    log: Log
    services: Services
    route: RouteOptions
    upstream: Dialect
    recorder: EventRecorder | None = None
