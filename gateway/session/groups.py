"""The groups of a session: attachments that share a rendering, and the fast path of streamed text to all groups.

A stream ends as soon as a group changes, or anything is appended to the log.
"""

from __future__ import annotations

from operator import attrgetter

from dragoman.gateway.session.attachments import Attachment, DeliveryContext, Group
from dragoman.gateway.session.text_stream import TextStream
from dragoman.mappings.canonical import OpenTurn
from dragoman.mappings.dialect import DeltaType, StreamedBlock, TextWriter

_KEY = attrgetter("link.dialect.name", "view", "request")  # attachments with an equal key share a rendering


class Groups:
    """The groups of a session: attachments of one dialect, view and request are in one group."""

    __slots__ = ("_context", "_log", "by_key", "text")

    def __init__(self, context: DeliveryContext) -> None:
        self.by_key: dict[tuple[str, str, str], Group] = {}
        self._context, self._log = context, context.log
        self.text: TextStream | None = None

    @property
    def streamed(self) -> StreamedBlock | None:
        """Return the block that streams, if the last events were a few pieces of it."""
        text = self.text
        return text if text is not None and text.open else None

    def open_text(self, turn: OpenTurn, delta: DeltaType) -> None:
        """Stream the block whose pieces were just delivered, if each group's projection has a fast writer."""
        groups, writers = [*self.by_key.values()], list[TextWriter]()
        for group in groups:
            write = group.projection.text_writer(delta)
            if write is None:
                return
            writers.append(write)
        self.text = TextStream(self._context, turn, delta, groups, writers)

    def clear_log(self) -> None:
        """Empty the log between two turns, when no client needs it."""
        self.text = None
        self._log.clear()

    def find_group(self, attachment: Attachment) -> Group | None:
        return self.by_key.get(_KEY(attachment))

    def join(self, attachment: Attachment) -> None:
        """Add an attachment to its group; the first member brings its projection along."""
        if self._log.text_is_open:
            self._log.close_text()
        key = _KEY(attachment)
        group = self.by_key.get(key)
        if group is None:
            projection = attachment.behind or attachment.link.dialect.projection(attachment.request, attachment.view)
            group = self.by_key[key] = Group(projection=projection, dialect=attachment.link.dialect, members={})
        group.members[attachment] = None
        attachment.behind = None

    def leave(self, attachment: Attachment) -> None:
        if self._log.text_is_open:
            self._log.close_text()
        key = _KEY(attachment)
        group = self.by_key.get(key)
        if group is not None and attachment in group.members:
            del group.members[attachment]
            if not group.members:
                del self.by_key[key]
