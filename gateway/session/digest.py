"""Count the size and the messages of a transcript as it grows, and make its row in a list.

They are needed after each turn and in each list, so neither may iterate over the whole transcript.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.gateway.session.weight import of_item
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical.state import continues
from dragoman.mappings.canonical.values import Item, Message, Role, SessionSummary, is_chat_message

Place = tuple[int, Message] | None
"""The index of a message in the transcript, and the message; None if there is none."""


class TranscriptDigest:
    """The sums over the items of one transcript. `update` adds the items that are new.

    A transcript that was replaced, or whose end was cut off, is counted again.
    """

    __slots__ = ("_counted", "_ends", "_first", "_first_input", "_last", "_seen", "messages", "size")

    def __init__(self) -> None:
        self._seen: Sequence[Item] = ()
        self._start_anew(self._seen)

    def _start_anew(self, transcript: Sequence[Item]) -> None:
        self._seen = transcript
        self._counted = 0
        self._ends: tuple[Item, Item] | None = None  # the first and the last item that are counted
        self._last: Message | None = None
        self._first: Place = None
        self._first_input: Place = None
        self.size = 0
        """Bytes of all items as JSON."""
        self.messages = 0
        """Number of messages of user and assistant; the text blocks of one turn are one message."""

    @property
    def first_input(self) -> str | None:
        """The text of the first message of the user; None without any."""
        return None if self._first_input is None else self._first_input[1].text

    def update(self, transcript: Sequence[Item]) -> None:
        """Count the items that were added since the last call."""
        if transcript is not self._seen or not self._agrees(transcript):
            self._start_anew(transcript)
        if len(transcript) > self._counted:
            for place, item in enumerate(transcript[self._counted :], self._counted):
                self._add(place, item)
            self._note_ends(transcript)

    def drop_oldest(self, transcript: list[Item], limit: int) -> int:
        """Drop the oldest items until at most `limit` bytes are left; return how many were dropped."""
        self.update(transcript)
        dropped, messages, last = 0, 0, None
        while self.size > limit:
            item = transcript[dropped]
            self.size -= of_item(item)
            if is_chat_message(item):
                messages += not continues(last, item)
                last = item
            dropped += 1
        if not dropped:
            return 0
        del transcript[:dropped]
        self._first = _moved(self._first, dropped, transcript, "user", "assistant")
        self._first_input = _moved(self._first_input, dropped, transcript, "user")
        self._last = self._last if self._first is not None else None
        self.messages -= messages - (self._first is not None and continues(last, self._first[1]))
        self._note_ends(transcript)
        return dropped

    def _agrees(self, transcript: Sequence[Item]) -> bool:
        """Return True if the items that are counted are still the beginning of the transcript."""
        if self._ends is None:
            return True
        first, last = self._ends
        return len(transcript) >= self._counted and transcript[0] is first and transcript[self._counted - 1] is last

    def _note_ends(self, transcript: Sequence[Item]) -> None:
        self._counted = len(transcript)
        self._ends = (transcript[0], transcript[-1]) if transcript else None

    def _add(self, place: int, item: Item) -> None:
        self.size += of_item(item)
        if not is_chat_message(item):
            return
        self.messages += not continues(self._last, item)
        self._last = item
        self._first = self._first or (place, item)
        if item.role == "user":
            self._first_input = self._first_input or (place, item)


def _moved(first: Place, dropped: int, transcript: Sequence[Item], *roles: Role) -> Place:
    """Return the first message of these roles, after `dropped` items were dropped; `first` is the former one.

    It is searched only if it was dropped, because a backend may add items of other roles without end.
    """
    if first is None:
        return None
    if first[0] >= dropped:
        return first[0] - dropped, first[1]
    return next(((place, item) for place, item in enumerate(transcript) if is_chat_message(item, *roles)), None)


def summary_of(state: SessionState, digest: TranscriptDigest) -> SessionSummary:
    digest.update(state.transcript)
    known = state.listed.title if state.listed is not None else ""
    listed = state.listed.messages if state.listed is not None else 0  # it may count more than text
    return SessionSummary(
        session=state.id,
        title=state.title or digest.first_input or known or state.backend.name,
        updated_at=state.updated_at or state.opened_at,
        messages=max(digest.messages, listed),
        status=state.status,
        archived=state.archived,
        ext=state.ids,
    )
