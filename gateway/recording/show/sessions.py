"""The sessions in a folder of recordings."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from dragoman.gateway.recording.reader import Reader, recordings_in
from dragoman.mappings.canonical.events import MessageAppended


class RecordedSession(Struct, frozen=True, kw_only=True):
    """One session in a folder of recordings.

    `shown_as` has the other ids under which clients knew it. `began` is in ns since the Unix epoch, `input` is the
    first input or "".
    """

    file: str
    session: str
    shown_as: list[str]
    route: str
    upstream: str
    began: int
    bytes: int
    input: str


def sessions_in(folder: Path) -> list[RecordedSession]:
    """Return the sessions in a folder, in the order of the names of their files."""
    return [_session(recording) for recording in recordings_in(folder) if recording.header.session]


def _session(recording: Reader) -> RecordedSession:
    header = recording.header
    messages = (event.message for _, event in recording.events() if isinstance(event, MessageAppended))
    return RecordedSession(
        file=recording.path.name,
        session=header.session,
        shown_as=recording.shown_as,
        route=header.route,
        upstream=header.upstream,
        began=header.started_at,
        bytes=recording.size,
        input=next((message.text for message in messages if message.role == "user"), ""),
    )
